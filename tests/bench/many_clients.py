"""Benchmark of many list clients and one client of single records: errors, latencies, memory."""

import http.client
import multiprocessing
import random
import re
import threading
import time
from collections import Counter
from collections.abc import Sequence
from concurrent.futures import ProcessPoolExecutor, ThreadPoolExecutor
from dataclasses import dataclass, field
from multiprocessing.synchronize import Event
from typing import ClassVar
from urllib.parse import quote, urlsplit

from tests.bench.measuring import mb, memory, ms, percentile, say

TARGET = 10
_CLIENTS = 32
_IDLE_REQUESTS = 300
_LONGEST_WAIT = 2.0
_LIST = "verb=ListRecords&metadataPrefix=oai_dc"
_TOKEN = re.compile(rb"<resumptionToken[^>]*>([^<]+)</resumptionToken>")
_IDENTIFIER = re.compile(rb"<identifier>(oai:[^<]+)</identifier>")


@dataclass
class _Seen:
    """What all clients observed; shared by their threads."""

    pages: Counter[int] = field(default_factory=Counter)
    """Responses to list requests by HTTP status; 0 for a broken connection."""
    times: list[float] = field(default_factory=list)
    """Seconds of each successful GetRecord."""
    refused: int = 0
    lock: threading.Lock = field(default_factory=threading.Lock)

    def page(self, status: int) -> None:
        # Reading and writing back a count are two steps, which the threads must not interleave.
        with self.lock:
            self.pages[status] += 1


class _Client:
    """A harvester with its own client address, as forwarded by the provider's proxy."""

    def __init__(self, base_url: str, number: int) -> None:
        self._address = urlsplit(base_url)
        self._headers = {"X-Forwarded-For": f"192.0.2.{number}"}
        self._connection = self._connect()

    def ask(self, query: str) -> tuple[int, bytes]:
        """Return status and body; status 0 for a broken connection."""
        try:
            self._connection.request("GET", f"{self._address.path}?{query}", headers=self._headers)
            answer = self._connection.getresponse()
            return answer.status, answer.read()
        except (OSError, http.client.HTTPException):
            self._connection.close()
            self._connection = self._connect()
            return 0, b""

    def _connect(self) -> http.client.HTTPConnection:
        return http.client.HTTPConnection(str(self._address.hostname), self._address.port, timeout=120)


def measure_many_clients(base_url: str, pid: int, seconds: float) -> None:
    """Print errors, latencies of GetRecord idle and under load, and memory early and late.

    The list clients run in a separate process, because in this one they would delay the client that is timed.
    """
    single = _Client(base_url, 200)
    _, body = single.ask(_LIST)
    identifiers = [match.decode() for match in _IDENTIFIER.findall(body)]
    idle, busy = _Seen(), _Seen()
    for _ in range(_IDLE_REQUESTS):
        _get(single, identifiers, idle)
    context = multiprocessing.get_context("spawn")
    done = context.Event()
    with ProcessPoolExecutor(1, mp_context=context, initializer=_remember, initargs=(done,)) as lists:
        load = lists.submit(_harvest_all, base_url)
        with ThreadPoolExecutor(1) as alone:
            getting = alone.submit(_keep_getting, single, identifiers, busy, done)
            time.sleep(seconds * 0.1)
            early = memory(pid, "VmRSS")
            time.sleep(seconds * 0.9)
            late = memory(pid, "VmRSS")
            done.set()
            getting.result()
        busy.pages.update(load.result())
    _tell(idle, busy, seconds, (early, late))


def _remember(done: Event) -> None:
    """Store the event, which can be passed to a process only when the process starts."""
    _Load.done = done


class _Load:
    done: ClassVar[Event]


def _harvest_all(base_url: str) -> Counter[int]:
    """Run all list clients, each in a thread; return the number of responses by HTTP status."""
    seen = _Seen()
    with ThreadPoolExecutor(_CLIENTS) as pool:
        for work in [
            pool.submit(_harvest, _Client(base_url, number), seen, _Load.done) for number in range(_CLIENTS)
        ]:
            work.result()
    return seen.pages


def _harvest(client: _Client, seen: _Seen, done: Event) -> None:
    query = _LIST
    while not done.is_set():
        status, body = client.ask(query)
        seen.page(status)
        if status == http.client.OK:
            token = _TOKEN.search(body, max(0, len(body) - 2000))
            query = f"verb=ListRecords&resumptionToken={quote(token[1].decode())}" if token else _LIST
        else:
            # Waits as Retry-After asks, but not longer than this, or there would be no load.
            done.wait(random.uniform(0.5, _LONGEST_WAIT))


def _keep_getting(client: _Client, identifiers: Sequence[str], seen: _Seen, done: Event) -> None:
    while not done.is_set():
        _get(client, identifiers, seen)
        done.wait(0.02)


def _get(client: _Client, identifiers: Sequence[str], seen: _Seen) -> None:
    query = f"verb=GetRecord&metadataPrefix=oai_dc&identifier={random.choice(identifiers)}"
    begun = time.perf_counter()
    status, _ = client.ask(query)
    if status == http.client.OK:
        seen.times.append(time.perf_counter() - begun)
    elif status == http.client.SERVICE_UNAVAILABLE:
        seen.refused += 1
    else:
        seen.page(status)


def _tell(idle: _Seen, busy: _Seen, seconds: float, sizes: tuple[int, int]) -> None:
    good, later = busy.pages.pop(http.client.OK, 0), busy.pages.pop(http.client.SERVICE_UNAVAILABLE, 0)
    before, under_load = percentile(idle.times, 99), percentile(busy.times, 99)
    say(f"{_CLIENTS} list clients and one of GetRecord, {seconds:,.0f} s", "")
    say("---", "---:")
    say("pages of lists", f"{good:,} ({good / seconds:,.0f}/s)")
    say("503 to list clients, to GetRecord", f"{later:,}, {busy.refused:,}")
    say("other errors (must be 0)", f"{sum(busy.pages.values()):,} {dict(busy.pages) or ''}".strip())
    say(
        "GetRecord p50, idle and under load",
        f"{ms(percentile(idle.times, 50))}, {ms(percentile(busy.times, 50))}",
    )
    say("GetRecord p99, idle and under load", f"{ms(before)}, {ms(under_load)}")
    say(f"ratio of the two (under {TARGET})", f"{under_load / before:.1f}")
    say("memory after a tenth of the time, at the end", f"{mb(sizes[0])}, {mb(sizes[1])}")

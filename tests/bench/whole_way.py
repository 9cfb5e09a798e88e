"""The whole way at size: index an archive, read its first and deepest page, harvest it into files."""

import gzip
import os
import statistics
import subprocess
import sys
import tempfile
import time
import urllib.request
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import urlencode

from lxml import etree
from sqlalchemy import func, select

from oai.database import open_database
from oai.settings import load_settings
from oai.vocabulary import OAI_NAMESPACE
from provider.models import Document
from tests.end_to_end.processes import running

_FILES = 8
_TOKEN = f"{{{OAI_NAMESPACE}}}resumptionToken"


@dataclass(frozen=True, kw_only=True)
class Measured:
    """One process, measured by the operating system: wall-clock seconds and peak memory in bytes."""

    seconds: float
    peak: int


def measure(*, documents: int) -> None:
    """Print the figures, one a line."""
    with tempfile.TemporaryDirectory(prefix="zatva-bench-") as folder:
        root = Path(folder)
        root.chmod(0o755)
        environment = {
            **os.environ,
            "ZATVA_DATA": str(root / "data"),
            "ZATVA_PROVIDER__RECORDS_PER_ANSWER": "500",
        }
        files = list(_archive(root / "archive", documents))
        size = sum(file.stat().st_size for file in files)
        _say("archive", f"{documents:,} documents in {len(files)} files of {size / 1e6:.0f} MB in all")
        reading = _run(environment, sys.executable, "-c", _ONLY_READ, *map(str, files))
        _say("warcio alone", f"{documents / reading.seconds:,.0f} records/s, one process that only iterates")
        with open_database(load_settings(data=root / "data", database_url=None)):
            _measure_with_database(environment, root, documents, reading)


def _measure_with_database(
    environment: Mapping[str, str], root: Path, documents: int, reading: Measured
) -> None:
    index = _run(environment, *_zatva("provider", "index", str(root / "archive"), "--quiet"))
    _say(
        "index",
        f"{documents / index.seconds:,.0f} documents/s, {reading.seconds / index.seconds:.2f} x the speed of "
        f"warcio alone; largest process {_mb(index.peak)}",
    )
    _wait_until_due(root)
    with running(environment, root / "log", "provider", "serve", "--port", "0", ready="provider at") as (
        provider,
        base_url,
    ):
        for name, seconds in _pages(base_url, documents):
            _say(name, f"{seconds * 1000:.1f} ms (median of 15)")
        harvest = _run(environment, *_zatva("harvest", base_url, "--out", str(root / "out"), "--quiet"))
        _say("harvest", f"{documents / harvest.seconds:,.0f} records/s; harvester {_mb(harvest.peak)}")
        again = _run(
            environment, *_zatva("harvest", base_url, "--out", str(root / "out"), "--full", "--quiet")
        )
        _say("harvest again", f"{documents / again.seconds:,.0f} records/s, nothing changed")
        _say("provider", f"peak memory {_mb(_peak_of(provider.pid))}")
    stored = sum(1 for _ in (root / "out").rglob("*.xml"))
    _say("stored", f"{stored:,} files for {documents:,} documents")


_ONLY_READ = """
import sys
from warcio.archiveiterator import ArchiveIterator
for path in sys.argv[1:]:
    with open(path, "rb") as file:
        for record in ArchiveIterator(file):
            pass
"""


def _archive(folder: Path, documents: int) -> Iterator[Path]:
    folder.mkdir()
    each = -(-documents // _FILES)
    for number in range(_FILES):
        path = folder / f"bench-{number:02}.warc.gz"
        with path.open("wb") as file:
            for index in range(number * each, min((number + 1) * each, documents)):
                file.write(gzip.compress(_record(index), 1))
        yield path


def _record(index: int) -> bytes:
    body = f"<!doctype html><title>Page {index}</title><p>{'word ' * (index % 90)}".encode()
    answer = b"HTTP/1.1 200 OK\r\nContent-Type: text/html; charset=utf-8\r\n\r\n" + body
    day, second = divmod(index, 86400)
    moment = f"2024-01-{day + 1:02}T{second // 3600:02}:{second // 60 % 60:02}:{second % 60:02}Z"
    return (
        (
            f"WARC/1.0\r\nWARC-Type: response\r\nWARC-Record-ID: <urn:uuid:{index:032x}>\r\n"
            f"WARC-Target-URI: http://www{index % 40}.site{index % 999}.example/page/{index}.html\r\n"
            f"WARC-Date: {moment}\r\nWARC-Payload-Digest: sha1:{index:032X}\r\n"
            f"Content-Type: application/http; msgtype=response\r\nContent-Length: {len(answer)}\r\n\r\n"
        ).encode()
        + answer
        + b"\r\n\r\n"
    )


def _zatva(*arguments: str) -> tuple[str, ...]:
    return (sys.executable, "-m", "zatva", *arguments)


def _run(environment: Mapping[str, str], *command: str) -> Measured:
    begun = time.monotonic()
    process = subprocess.Popen(command, env=environment, stdout=subprocess.DEVNULL)
    _, status, usage = os.wait4(process.pid, 0)
    process.returncode = os.waitstatus_to_exitcode(status)
    if process.returncode:
        raise SystemExit(f"{' '.join(command)} ended with {process.returncode}")
    return Measured(seconds=time.monotonic() - begun, peak=usage.ru_maxrss * 1024)


def _wait_until_due(root: Path) -> None:
    """Records are dated a few seconds ahead, so that nobody can miss one."""
    with (
        open_database(load_settings(data=root / "data", database_url=None)) as database,
        database.session() as session,
    ):
        latest = session.scalar(select(func.max(Document.datestamp)))
        while not session.scalar(select(func.clock_timestamp() >= latest)):
            time.sleep(0.1)


def _pages(base_url: str, documents: int) -> Iterator[tuple[str, float]]:
    """Times of the first page and of the last full one, found by walking the list of identifiers' tokens."""
    first = {"verb": "ListRecords", "metadataPrefix": "oai_dc"}
    yield "first page", _median(base_url, first)
    deepest, arguments = first, first
    for _ in range(documents // 500):
        token = _fetch(base_url, arguments).find(f".//{_TOKEN}")
        if token is None or not token.text:
            break
        deepest, arguments = arguments, {"verb": "ListRecords", "resumptionToken": token.text}
    yield "deepest full page", _median(base_url, deepest)


def _median(base_url: str, arguments: Mapping[str, str]) -> float:
    times = []
    for _ in range(15):
        begun = time.perf_counter()
        _fetch(base_url, arguments)
        times.append(time.perf_counter() - begun)
    return statistics.median(times)


def _fetch(base_url: str, arguments: Mapping[str, str]) -> etree._Element:
    with urllib.request.urlopen(f"{base_url}?{urlencode(arguments)}") as answer:  # noqa: S310 our own server
        return etree.fromstring(answer.read())


def _peak_of(pid: int) -> int:
    for line in Path(f"/proc/{pid}/status").read_text().splitlines():
        if line.startswith("VmHWM:"):
            return int(line.split()[1]) * 1024
    return 0


def _mb(size: int) -> str:
    return f"{size / 1e6:.0f} MB"


def _say(name: str, text: str) -> None:
    sys.stdout.write(f"{name:18} {text}\n")
    sys.stdout.flush()

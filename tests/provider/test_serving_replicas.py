"""A provider process reads lists from two replicas while the primary indexes, is killed, and is replaced."""

import contextlib
import json
import random
import threading
import time
import urllib.error
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from datetime import UTC, datetime
from http import HTTPStatus
from pathlib import Path

import pytest
from sqlalchemy.exc import SQLAlchemyError

from oai.database import Database, open_database
from oai.datestamps import parse_datestamp
from oai.errors import ZatvaError
from oai.settings import Settings
from provider.indexing.indexer import IndexOptions, index_file
from tests.provider.answer import Reply
from tests.provider.archives import Page, write_pages
from tests.provider.holdings.replicated import Replicated, replicated
from tests.provider.served import Serve, ask, until

_MARGIN = 1.0


@dataclass
class Course:
    """What happens while the provider serves."""

    address: str
    indexed: set[str] = field(default_factory=set)
    harvested: set[str] = field(default_factory=set)
    behind: list[float] = field(default_factory=list)
    """Seconds by which each answer's date was behind the clock."""
    unanswered: int = 0
    since: str = ""
    over: threading.Event = field(default_factory=threading.Event)

    def keep_indexing(self, settings: Settings, folder: Path) -> None:
        """Index one file after the other; a file whose indexing failed is indexed again."""
        chance = random.Random(1)
        with open_database(settings) as database:
            while not self.over.is_set():
                name = f"{len(self.indexed)}"
                urls = [f"http://www.example.cz/{name}/{number}" for number in range(chance.randint(1, 200))]
                path = write_pages(folder / f"{name}.warc", [Page(url=url) for url in urls])
                _index(database, path)
                self.indexed.update(urls)
                time.sleep(0.2)

    def keep_harvesting(self) -> None:
        while not self.over.is_set():
            self.harvest()

    def harvest(self) -> None:
        """Harvest what is new since the date of the last harvest's first answer, as the guidelines say."""
        query = f"verb=ListRecords&metadataPrefix=oai_dc{f'&from={self.since}' if self.since else ''}"
        first = page = self._ask(query)
        while True:
            self.harvested.update(page.texts("//dc:identifier[starts-with(., 'http://www.example.cz/')]"))
            if not page.token:
                break
            page = self._ask(f"verb=ListRecords&resumptionToken={page.token}")
        self.since = first.response_date

    def has_everything(self) -> bool:
        self.harvest()
        return self.harvested == self.indexed

    def _ask(self, query: str) -> Reply:
        while True:
            try:
                reply = ask(self.address, query)
            except urllib.error.HTTPError as error:
                error.close()
                # While there is no primary, and a list has to be decided by it.
                if error.code != HTTPStatus.SERVICE_UNAVAILABLE:
                    raise
                self.unanswered += 1
                time.sleep(0.1)
                continue
            moment = parse_datestamp(reply.response_date).moment
            self.behind.append((datetime.now(UTC) - moment).total_seconds())
            return reply


def _index(database: Database, path: Path) -> None:
    while True:
        try:
            index_file(database, path, IndexOptions(margin=_MARGIN))
        except (SQLAlchemyError, ZatvaError):
            time.sleep(0.1)
        else:
            return


@contextlib.contextmanager
def _served(serve: Serve, environment: dict[str, str], servers: Replicated) -> Iterator[Course]:
    environment |= {
        "ZATVA_DATABASE_URL": _any_primary(servers),
        "ZATVA_PROVIDER__REPLICA_URLS": json.dumps([copy.address for copy in servers.copies]),
        "ZATVA_PROVIDER__RECORDS_PER_ANSWER": "50",
    }
    yield Course(serve().address())


def _any_primary(servers: Replicated) -> str:
    """Return an address that leads to whichever of the servers is the primary."""
    folders = [str(servers.primary.url.query["host"]), *(str(copy.folder) for copy in servers.copies)]
    hosts = "&".join(f"host={folder}" for folder in folders)
    return f"postgresql://zatva@/{servers.primary.url.database}?{hosts}&target_session_attrs=read-write"


@pytest.mark.slow
@pytest.mark.parametrize("seconds", [4, pytest.param(600, marks=pytest.mark.long)])
def test_nothing_is_missed_on_replicas_and_through_a_failover(
    quick_folder: Path, tmp_path: Path, environment: dict[str, str], serve: Serve, seconds: float
) -> None:
    with (
        replicated(quick_folder, copies=2) as servers,
        _served(serve, environment, servers) as course,
        ThreadPoolExecutor(2) as pool,
    ):
        servers.wait_for_all()
        settings = Settings(database_url=environment["ZATVA_DATABASE_URL"])
        begun = time.monotonic()
        try:
            running = [
                pool.submit(course.keep_indexing, settings, tmp_path), pool.submit(course.keep_harvesting)
            ]  # fmt: skip
            time.sleep(seconds / 2)
            servers.kill_primary()
            servers.fail_over()
            known, since = len(course.indexed), course.since
            until(lambda: len(course.indexed) > known and course.since > since)
            time.sleep(seconds / 2)
        finally:
            course.over.set()
        for one in running:
            one.result()
        pages, took = len(course.behind), time.monotonic() - begun
        until(course.has_everything)
    behind = sorted(course.behind)
    # The figures are the result of the run.
    print(  # noqa: T201
        f"{pages} pages in {took:.0f} s, {len(course.indexed)} documents, {course.unanswered} answers 503; "
        f"the mark was behind by {behind[len(behind) // 2]:.1f} s (median), {behind[-1]:.1f} s (most)"
    )

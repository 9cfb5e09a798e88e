"""Indexing and harvesting at the same time, with records of both."""

import http.client
import random
import threading
import time
import urllib.error
from dataclasses import dataclass, field
from datetime import UTC, datetime
from http import HTTPStatus
from pathlib import Path

from sqlalchemy.exc import SQLAlchemyError

from oai.database import Database, open_database
from oai.datestamps import parse_datestamp
from oai.errors import ZatvaError
from oai.settings import Settings
from provider.indexing.indexer import IndexOptions, index_file
from tests.provider.answer import Reply
from tests.provider.archives import Page, write_pages
from tests.provider.served import ask

_MARGIN = 1.0


@dataclass
class Workload:
    """Indexing and harvesting at the same time, and the documents indexed and harvested so far."""

    addresses: list[str]
    """Of the providers; each request goes to one of them at random."""
    pause: float = 0.0
    """Seconds between two harvests."""
    pages: int = 200
    """Most pages of a file that is indexed."""
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
                urls = [
                    f"http://www.example.cz/{name}/{number}"
                    for number in range(chance.randint(1, self.pages))
                ]
                path = write_pages(folder / f"{name}.warc", [Page(url=url) for url in urls])
                _index(database, path)
                self.indexed.update(urls)
                time.sleep(0.2)

    def keep_harvesting(self) -> None:
        while not self.over.wait(self.pause):
            self.harvest()

    def harvest(self) -> None:
        """Harvest the changes since the first response date of the last harvest, as the guidelines say."""
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
        chance = random.Random(query)
        while True:
            try:
                reply = ask(chance.choice(self.addresses), query)
            except urllib.error.HTTPError as error:
                error.close()
                # While there is no primary, and the list needs it.
                if error.code != HTTPStatus.SERVICE_UNAVAILABLE:
                    raise
                self.unanswered += 1
                time.sleep(0.1)
                continue
            except (OSError, http.client.HTTPException):
                time.sleep(0.1)  # the provider was killed
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

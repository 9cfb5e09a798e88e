"""A process that reads pages for another: `python -m harvester.harvest.page_reader_process PARENT`.

Of Python's threads one runs at a time, and reading is half of what a harvest does in Python. What comes back
are texts and bytes, for elements cannot leave a process. A page's token comes first, so that the next page
can be asked for while the records are looked at; then its headers come, and at last its records' documents.
"""

from collections.abc import Sequence
from concurrent.futures import Future
from dataclasses import dataclass, field, replace
from typing import Any, NamedTuple

from harvester.reading.answers import Header, Page
from harvester.reading.errors import ClientError
from harvester.reading.replies import OnToken, Unread
from oai.child import Answer, Companion, collect_seldom, serve

Documents = Sequence[bytes]
"""Each record's (`Record.xml`), in the order of the page's headers; empty for a deleted one."""


class Arriving:
    """A page's documents, which may still be on their way."""

    def __init__(self) -> None:
        self.future: Future[Documents] = Future()
        self._here: Documents | None = None

    def __getitem__(self, place: int) -> bytes:
        """One of them, waited for."""
        if self._here is None:
            self._here = self.future.result()
        return self._here[place]


@dataclass(frozen=True, kw_only=True)
class PageOfDocuments(Page):
    """A page whose records are documents."""

    documents: Arriving = field(default_factory=Arriving)


class RecordDocument(NamedTuple):
    """One record of such a page. A tuple, for many are made."""

    page: Arriving
    place: int

    def data(self) -> bytes:
        """Its bytes, waited for."""
        return self.page[self.place]


class ReadingProcess:
    """The other process, as its parent sees it; start it in a thread that lives as long as it.

    Each method raises CompanionEndedError.
    """

    def __init__(self) -> None:
        self._companion = Companion(__name__)
        self._companion.send()
        self._companion.receive()

    @property
    def number(self) -> int:
        """The process's id."""
        return self._companion.number

    def close(self) -> None:
        """End the process, which has answered all it was asked."""
        self._companion.close()

    def read(self, unread: Unread, on_token: OnToken) -> PageOfDocuments | None:
        """The page, whose documents are to be asked for next; None where reading it raises."""
        self._companion.send(*unread)
        while isinstance(answer := self._companion.receive(), str):
            on_token(answer)
        if answer is None:
            return None
        page: Page
        rows: Sequence[tuple[str, str, tuple[str, ...], bool]]
        page, rows = answer
        headers = tuple(
            [
                Header(identifier=identifier, datestamp=datestamp, set_specs=set_specs, deleted=deleted)
                for identifier, datestamp, set_specs, deleted in rows
            ]
        )
        return PageOfDocuments(**{**vars(page), "headers": headers})

    def documents(self) -> Documents:
        """The documents of the page that was read last."""
        found: Documents = self._companion.receive()
        return found


def documents_of(page: Page) -> Documents:
    """The documents of a page that has its elements."""
    return [b"" if record.header.deleted else record.xml() for record in page.records]


def _work(answer: Answer, *request: Any) -> None:  # noqa: ANN401 what an Unread consists of
    if not request:
        answer(None)  # what it takes is imported
        return
    try:
        page = Unread._make(request).read(answer)
    except ClientError:
        answer(None)  # it is read again where its error is to be raised
        return
    rows = [
        (header.identifier, header.datestamp, header.set_specs, header.deleted) for header in page.headers
    ]
    answer((replace(page, headers=(), records=()), rows))
    answer(documents_of(page))


if __name__ == "__main__":
    collect_seldom()
    serve(_work)

"""A process that parses pages for its parent: `python -m harvester.harvest.page_reader_process PARENT`.

Python runs one thread at a time, and parsing is half of a harvest's work in Python. The results are texts and
bytes, because elements cannot be passed between processes. A page's token is sent first, so that the next
page can be requested while the records are checked; then its headers, and finally its records' documents.
"""

from collections.abc import Sequence
from concurrent.futures import Future
from dataclasses import dataclass, field, replace
from typing import Any, NamedTuple

from harvester.reading.answers import Header, Page
from harvester.reading.errors import ClientError
from harvester.reading.replies import OnToken, Unread
from oai.child import Answer, Companion, collect_garbage_seldom, serve

Documents = Sequence[bytes]
"""The document of each record (`Record.xml`), in the order of the page's headers; empty for a deleted one."""


class ArrivingDocuments:
    """A page's documents, which may still be on their way.

    The reading thread sets `future` once; threads that read a document wait for it.
    """

    def __init__(self) -> None:
        self.future: Future[Documents] = Future()
        self._here: Documents | None = None

    def __getitem__(self, place: int) -> bytes:
        """Wait for the documents, and return one."""
        if self._here is None:
            self._here = self.future.result()
        return self._here[place]


@dataclass(frozen=True, kw_only=True)
class PageOfDocuments(Page):
    """A page whose records are documents."""

    documents: ArrivingDocuments = field(default_factory=ArrivingDocuments)


class RecordDocument(NamedTuple):
    """One record of such a page; a tuple, because many are created."""

    page: ArrivingDocuments
    place: int

    def data(self) -> bytes:
        """Wait for the document's bytes, and return them."""
        return self.page[self.place]


class ReadingProcess(Companion):
    """The parsing process as its parent sees it; start it in a thread that outlives it.

    Each method raises CompanionEndedError.
    """

    def __init__(self) -> None:
        super().__init__(__name__)
        self.send()
        self.receive()

    def read(self, unread: Unread, on_token: OnToken) -> PageOfDocuments | None:
        """Return the page, whose documents are to be requested next; None if reading it raises."""
        self.send(*unread)
        while isinstance(answer := self.receive(), str):
            on_token(answer)
        if answer is None:
            return None
        page: Page
        rows: Sequence[tuple[str, str, tuple[str, ...], bool, bool]]
        page, rows = answer
        headers = tuple(
            [
                Header(
                    identifier=identifier,
                    datestamp=datestamp,
                    set_specs=set_specs,
                    deleted=deleted,
                    undated=undated,
                )
                for identifier, datestamp, set_specs, deleted, undated in rows
            ]
        )
        return PageOfDocuments(**{**vars(page), "headers": headers})

    def documents(self) -> Documents:
        """Return the documents of the page that was read last."""
        found: Documents = self.receive()
        return found


def documents_of(page: Page) -> Documents:
    """Return the documents of a page that has its elements."""
    return [b"" if record.header.deleted else record.xml() for record in page.records]


def _work(answer: Answer, *request: Any) -> None:  # noqa: ANN401 the fields of an Unread
    if not request:
        answer(None)  # its modules are imported
        return
    try:
        page = Unread._make(request).read(answer)
    except ClientError:
        answer(None)  # the parent reads it again to raise its error
        return
    rows = [
        (header.identifier, header.datestamp, header.set_specs, header.deleted, header.undated)
        for header in page.headers
    ]
    answer((replace(page, headers=(), records=()), rows))
    answer(documents_of(page))


if __name__ == "__main__":
    collect_garbage_seldom()
    serve(_work)

"""Storage of fetched documents as files, durable before the manifest names them."""

from collections.abc import Sequence
from pathlib import Path
from typing import Final, Protocol

from harvester.restoring.browsable import needs_treatment
from harvester.restoring.documents import FetchedDocument
from harvester.restoring.manifest import Entry
from harvester.restoring.names import Names
from harvester.store.files import FileStore

SITE: Final = "site"
ORIGINALS: Final = "originals"


class Keeper(Protocol):
    """Stores documents."""

    def keep(self, documents: Sequence[FetchedDocument]) -> list[Entry]:
        """Write the documents; they are durable when this returns."""

    def holds(self, entry: Entry) -> bool:
        """Return whether the stored document of an entry still exists."""

    def finish(self) -> None:
        """Finish, because no more documents follow."""

    def close(self) -> None:
        """Close open files, whether finished or not."""


class FileKeeper:
    """Stores documents as files: unchanged or, if links are to be changed, first as originals."""

    def __init__(self, folder: Path, store: FileStore, names: Names) -> None:
        self._folder = folder
        self._store = store
        self._names = names

    def keep(self, documents: Sequence[FetchedDocument]) -> list[Entry]:
        """Write the documents."""
        entries = [self._entry(document) for document in documents]
        self._store.write_all(
            [
                (entry.original or entry.file, document.body)
                for entry, document in zip(entries, documents, strict=True)
            ]
        )
        return entries

    def holds(self, entry: Entry) -> bool:
        """Return whether the bytes as archived are present."""
        return (self._folder / (entry.original or entry.file)).is_file()

    def finish(self) -> None:
        """Do nothing: each document's file is already complete."""

    def close(self) -> None:
        """Do nothing: no file is kept open."""

    def _entry(self, document: FetchedDocument) -> Entry:
        entry = entry_of(document, f"{SITE}/{self._names.path(document.capture.url)}")
        if not needs_treatment(entry, document.body):
            return entry
        key = document.capture.key
        return entry_of(document, entry.file, original=f"{ORIGINALS}/{key[:2]}/{key}")


def entry_of(
    document: FetchedDocument,
    file: str,
    *,
    original: str = "",
    offset: int | None = None,
    packed: int | None = None,
) -> Entry:
    """Return the manifest entry of a document stored in that file."""
    capture = document.capture
    return Entry(
        url=capture.url,
        captured=capture.captured.isoformat(),
        identifier=capture.identifier,
        status=document.status,
        content_type=document.content_type,
        encoding=document.encoding,
        fields=dict(document.fields),
        digest=capture.digest,
        verified=document.verified,
        size=len(document.body),
        file=file,
        original=original,
        offset=offset,
        packed=packed,
    )

"""Exports the stored MARC records of a source as one stream: ISO 2709, or lines of text."""

from collections.abc import Callable
from dataclasses import dataclass
from enum import StrEnum
from typing import BinaryIO

from harvester.bibliographic.marc21.iso2709 import UnwritableRecordError, to_iso2709
from harvester.bibliographic.marc21.structure import WrittenRecord, marc_lines
from harvester.bibliographic.stored_marc import MarcSource, read_stored_marc
from oai.database import Database


class MarcForm(StrEnum):
    """The format of an export."""

    MARC = "marc"
    LINES = "lines"


@dataclass(kw_only=True)
class ExportedMarc:
    """What was written, and what was left out."""

    records: int = 0
    bytes: int = 0
    unwritable: int = 0
    """Records that ISO 2709 cannot hold."""
    unreadable: int = 0
    """Harvested records whose files are missing or altered."""
    other: int = 0
    """Harvested records that are no bibliographic MARC records."""

    @property
    def whole(self) -> bool:
        """Return whether every bibliographic MARC record was written."""
        return not self.unwritable and not self.unreadable


def export_marc(
    database: Database,
    source: MarcSource,
    out: BinaryIO,
    form: MarcForm,
    *,
    on_left_out: Callable[[str, str], None] = lambda _identifier, _reason: None,
    on_written: Callable[[int], None] = lambda _bytes: None,
) -> ExportedMarc:
    """Write the records that are not deleted, one at a time, in UTF-8.

    ISO 2709 records follow each other without separators; in lines, a blank line ends each record.
    `on_left_out` is called with the identifier of each record that cannot be read or written, and the reason;
    `on_written` with the bytes of each record.
    """
    exported = ExportedMarc()
    write = _WRITERS[form]
    for stored in read_stored_marc(database, source):
        exported.other += bool(stored.other)
        if stored.unreadable:
            exported.unreadable += 1
            on_left_out(stored.identifier, stored.unreadable)
        for record in stored.records:
            try:
                data = write(record)
            except UnwritableRecordError as error:
                exported.unwritable += 1
                on_left_out(stored.identifier, str(error))
                continue
            out.write(data)
            on_written(len(data))
            exported.records += 1
            exported.bytes += len(data)
    return exported


def _as_lines(record: WrittenRecord) -> bytes:
    return "".join(f"{line}\n" for line in [*marc_lines(record), ""]).encode()


_WRITERS: dict[MarcForm, Callable[[WrittenRecord], bytes]] = {
    MarcForm.MARC: to_iso2709,
    MarcForm.LINES: _as_lines,
}

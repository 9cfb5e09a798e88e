"""What an export has and what it lacks, as a JSON document of any length, written in bounded memory."""

import json
import tempfile
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from pathlib import Path
from types import TracebackType
from typing import IO, Any, Final, Self

from oai.datestamps import format_datestamp
from provider.export.captures import MISSING, ExportedCapture, LeftOut, Reason
from provider.export.warc_records import warc_date
from provider.holdings.identifiers import oai_identifier

FORMAT: Final = "zatva-export-1"
_BLOCK: Final = 65_536


@dataclass(frozen=True, kw_only=True)
class ExportFacts:
    """What is known about an export before its first capture."""

    selection: str
    title: str
    reader: str
    """Whose rights it has."""
    created: datetime
    namespace: str
    """Of the OAI identifiers."""
    software: str
    without_captures: Sequence[str] = ()
    """Requested URLs without a capture."""


@dataclass
class Manifest:
    """Counts captures and keeps those that are left out or resolved in temporary files."""

    facts: ExportFacts
    folder: Path | None = None
    captures: int = 0
    record_bytes: int = 0
    """Compressed bytes of their records."""
    resolved: int = 0
    """Revisits that have become captures with content."""
    truncated: int = 0
    """Captures of which the crawler archived only a part."""
    left_out: Counter[Reason] = field(default_factory=Counter)

    def __enter__(self) -> Self:
        self._left_out = tempfile.TemporaryFile(dir=self.folder)
        self._resolved = tempfile.TemporaryFile(dir=self.folder)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._left_out.close()
        self._resolved.close()

    @property
    def missing(self) -> int:
        """Captures that the reader may have, and that are left out."""
        return sum(self.left_out[reason] for reason in MISSING)

    def exported(self, capture: ExportedCapture) -> None:
        """Count a capture that is in the file."""
        self.captures += 1
        self.record_bytes += capture.length
        self.truncated += capture.truncated
        if capture.original is None:
            return
        self.resolved += 1
        url, archived = capture.original
        facts = {**self._named(capture), "original_url": url, "original_date": warc_date(archived)}
        _write(self._resolved, facts)

    def refused(self, capture: LeftOut) -> None:
        """Count a capture that is left out.

        Of a withheld one, only the identifier is listed, which harvesters know as that of a deleted record.
        """
        self.left_out[capture.reason] += 1
        if capture.reason is Reason.WITHHELD:
            facts = {"identifier": self._identifier(capture)}
        else:
            facts = {**self._named(capture), "message": capture.message}
        _write(self._left_out, {"reason": capture.reason, **facts})

    def counts(self) -> dict[str, Any]:
        """Return the numbers, for programs."""
        return {
            "captures": self.captures,
            "record_bytes": self.record_bytes,
            "revisits_resolved": self.resolved,
            "truncated": self.truncated,
            "left_out": {reason: self.left_out[reason] for reason in Reason},
            "missing": self.missing,
        }

    def pieces(self) -> Iterator[bytes]:
        """Yield the document: an object with the facts, the counts and two lists."""
        head = {
            "format": FORMAT,
            "software": self.facts.software,
            "created": format_datestamp(self.facts.created),
            "selection": self.facts.selection,
            "rights_of": self.facts.reader,
            "without_captures": list(self.facts.without_captures),
            **self.counts(),
        }
        yield json.dumps(head, ensure_ascii=False, indent=1).removesuffix("\n}").encode()
        for name, file in (("captures_left_out", self._left_out), ("captures_resolved", self._resolved)):
            yield f',\n "{name}": ['.encode()
            yield from _items(file)
            yield b"]"
        yield b"\n}\n"

    def _named(self, capture: ExportedCapture | LeftOut) -> dict[str, str]:
        return {
            "identifier": self._identifier(capture),
            "url": capture.url,
            "date": warc_date(capture.archived),
        }

    def _identifier(self, capture: ExportedCapture | LeftOut) -> str:
        return oai_identifier(self.facts.namespace, capture.key)


def _write(file: IO[bytes], facts: dict[str, Any]) -> None:
    before = b",\n  " if file.tell() else b"\n  "
    file.write(before + json.dumps(facts, ensure_ascii=False).encode())


def _items(file: IO[bytes]) -> Iterator[bytes]:
    file.seek(0)
    while block := file.read(_BLOCK):
        yield block

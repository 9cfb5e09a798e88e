"""What becomes of a batch of harvested records: their files read, chosen, converted, and made into rows.

Nothing here needs the database: it is most of an import's work, which several processes do side by side.
"""

import contextlib
import gc
import json
import uuid
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from lxml import etree

from harvester.bibliographic.candidate import Candidate
from harvester.bibliographic.conditions import Conditions
from harvester.bibliographic.converting import CONVERTERS, Converter, converter_for
from harvester.bibliographic.rows import Texts, Values, texts_of
from harvester.bibliographic.stored_metadata import NoMetadataError, UnreadableFileError, read_metadata

UNREADABLE: Final = "unreadable"
"""Why a record is omitted that may be read another time; a row that it has stays."""


@dataclass(frozen=True, kw_only=True)
class Chooser:
    """What decides which records are imported, and what their rows are made by."""

    rules: Conditions
    suffix: str = ""
    """Which filtering set, in which revision."""

    def basis(self, converter: Converter | None) -> str:
        """What a row, or an omission, is made by."""
        if converter is None:
            return "none of " + " ".join(f"{one.name}/{one.version}" for one in CONVERTERS)
        return f"{converter.name}/{converter.version}{self.suffix}"

    def bases(self) -> list[str]:
        """All that a row may be made by."""
        return [self.basis(converter) for converter in (*CONVERTERS, None)]


@dataclass(frozen=True, kw_only=True, slots=True)
class Same:
    """A record whose rows stay as they are."""

    bibliographic_id: int
    file_digest: str | None
    basis: str
    datestamp: str


@dataclass(frozen=True, kw_only=True, slots=True)
class Omitted:
    """A record that gets no row, or loses it."""

    identifier_key: uuid.UUID
    bibliographic_id: int | None
    file_digest: str | None
    basis: str
    kind: str
    reason: str


@dataclass(frozen=True, kw_only=True, slots=True)
class Rows:
    """Records to write, ready for the server: a JSON text for each table.

    In each row `number` is its record's place among `ids`, counted from 1; what goes into the other tables is
    in `parts`, in the record's order.
    """

    ids: Sequence[int | None]
    """The records' numbers; None for one that has no row yet."""
    records: str
    contributors: str
    identifiers: str


@dataclass(frozen=True, kw_only=True, slots=True)
class Batch:
    """What becomes of some records."""

    rows: Rows
    same: Sequence[Same]
    omitted: Sequence[Omitted]
    welcome: Sequence[uuid.UUID]
    """Keys of records that were omitted before."""
    counts: Counter[str]


@dataclass(frozen=True, kw_only=True)
class Converting:
    """How the files of a folder become rows."""

    folder: Path
    chooser: Chooser

    def batch(self, candidates: Sequence[Candidate]) -> Batch:
        """Look at each record; whatever is in one, the others are not touched by it."""
        draft = _Draft(counts=Counter(seen=len(candidates)))
        with _nothing_collected():
            for candidate in candidates:
                self._look_at(draft, candidate)
            return draft.finish()

    def _look_at(self, draft: "_Draft", candidate: Candidate) -> None:
        try:
            metadata = read_metadata(self.folder, candidate)
        except UnreadableFileError as error:
            draft.omit(candidate, self.chooser.basis(None), UNREADABLE, str(error))
        except NoMetadataError as error:
            draft.omit(candidate, self.chooser.basis(None), "refused", str(error))
        else:
            self._choose(draft, candidate, metadata)

    def _choose(self, draft: "_Draft", candidate: Candidate, metadata: etree._Element) -> None:
        converter = converter_for(metadata)
        basis = self.chooser.basis(converter)
        if converter is None:
            draft.omit(candidate, basis, "refused", f"no converter for {metadata.tag!r}")
            return
        try:
            if self._passes_over(converter, metadata):
                draft.omit(candidate, basis, "filtered", "")
            else:
                draft.take(candidate, converter, metadata, basis)
        except Exception as error:  # noqa: BLE001 a fault of the converter is no reason to lose the other records
            told = f"{type(error).__name__}: {error}"
            draft.omit(
                candidate,
                basis,
                UNREADABLE,
                f"the converter {converter.name} ended with an internal error: {told}",
            )

    def _passes_over(self, converter: Converter, metadata: etree._Element) -> bool:
        rules = self.chooser.rules
        return bool(rules.conditions) and not rules.accepts(list(converter.fields(metadata)))


@dataclass(kw_only=True)
class _Draft:
    """A batch while its records are looked at."""

    counts: Counter[str]
    ids: list[int | None] = field(default_factory=list)
    records: list[str] = field(default_factory=list)
    contributors: list[str] = field(default_factory=list)
    identifiers: list[str] = field(default_factory=list)
    same: list[Same] = field(default_factory=list)
    omitted: list[Omitted] = field(default_factory=list)
    welcome: list[uuid.UUID] = field(default_factory=list)

    def take(self, candidate: Candidate, converter: Converter, metadata: etree._Element, basis: str) -> None:
        """Convert the record; where that gives what it gave before, its rows stay."""
        texts = texts_of(converter.convert(metadata))
        digest = texts.digest()
        if candidate.omitted is not None:
            self.welcome.append(candidate.key)
        known = candidate.bibliographic_id
        file_digest, datestamp = candidate.file_digest, candidate.datestamp
        if known is not None and candidate.content_digest == digest:
            self.counts["unchanged"] += 1
            self.same.append(
                Same(bibliographic_id=known, file_digest=file_digest, basis=basis, datestamp=datestamp)
            )
            return
        header = {
            "identifier": candidate.identifier,
            "datestamp": datestamp,
            "format": converter.name,
            "basis": basis,
            "file_digest": file_digest,
            "content_digest": digest.hex(),
        }
        self.write(candidate, header, texts)

    def write(self, candidate: Candidate, header: Values, texts: Texts) -> None:
        """Note the rows of a record."""
        self.counts["new" if candidate.bibliographic_id is None else "updated"] += 1
        self.ids.append(candidate.bibliographic_id)
        number = len(self.ids)
        begun = as_text({"number": number, "identifier_key": candidate.key.hex, **header})
        self.records.append(f"{begun[:-1]}, {texts.values[1:]}")
        self.contributors.append(f'{{"number": {number}, "parts": {texts.contributors}}}')
        self.identifiers.append(f'{{"number": {number}, "parts": {texts.identifiers}}}')

    def omit(self, candidate: Candidate, basis: str, kind: str, reason: str) -> None:
        """Note why a record gets no row."""
        self.counts["filtered" if kind == "filtered" else "refused"] += 1
        self.counts["deleted"] += candidate.bibliographic_id is not None and kind != UNREADABLE
        self.omitted.append(
            Omitted(
                identifier_key=candidate.key,
                bibliographic_id=candidate.bibliographic_id,
                file_digest=candidate.file_digest,
                basis=basis,
                kind=kind,
                reason=reason,
            )
        )

    def finish(self) -> Batch:
        """The batch."""
        rows = Rows(
            ids=self.ids,
            records=f"[{','.join(self.records)}]",
            contributors=f"[{','.join(self.contributors)}]",
            identifiers=f"[{','.join(self.identifiers)}]",
        )
        return Batch(
            rows=rows, same=self.same, omitted=self.omitted, welcome=self.welcome, counts=self.counts
        )


def as_text(rows: Values | Sequence[Values]) -> str:
    """A row, or rows, as the server takes them."""
    return json.dumps(rows, ensure_ascii=False)


@contextlib.contextmanager
def _nothing_collected() -> Iterator[None]:
    """Look for no circles of garbage meanwhile: a batch makes none, and looking took a tenth of its time."""
    if not gc.isenabled():
        yield
        return
    gc.disable()
    try:
        yield
    finally:
        gc.enable()

"""Processing of a batch of harvested records: read the files, apply the filtering set, convert, build rows.

This module does not use the database: it is most of an import's work, which several processes do in parallel.
"""

import contextlib
import gc
import hashlib
import json
import uuid
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final, NamedTuple, Self

from lxml import etree

from harvester.bibliographic.conditions import Conditions
from harvester.bibliographic.converters import (
    CONVERTERS,
    Candidate,
    Converter,
    NoMetadataError,
    UnreadableFileError,
    converter_for,
    read_metadata,
)
from harvester.bibliographic.record import (
    BibliographicRecord,
    Contributor,
    Identifier,
    Link,
    Note,
    NoteKind,
    Publication,
    Related,
    Series,
    Subject,
    TitleVariant,
)
from harvester.bibliographic.text import fold
from harvester.rules.rule_expressions import TooMuchError
from harvester.rules.rule_limits import Evaluator, RuleLimits
from oai.errors import UsageError

_WORDS: Final = 50_000
"""Bytes that are indexed of each weight, and of the numbers: a tsvector has at most a megabyte, of which a
short word takes three times its length."""
_MOST_BYTES: Final = 4
"""Of a character in UTF-8."""
_MOST_PARTS: Final = 32_767
"""Names or identifiers of a record: their position is a small integer."""
_YEARS: Final = (-9999, 9999)
_UNDATED: Final = -32768
_DIGEST: Final = 16
_NUMBERS: Final = frozenset({"isbn", "issn", "issn-l", "ismn", "ean"})

_FIELDS: Final = {
    kind: tuple(sorted(kind.__dataclass_fields__))
    for kind in (Contributor, Identifier, Link, Note, Publication, Related, Series, Subject, TitleVariant)
}
_PARTS: Final = ("publications", "series", "subjects", "genres", "related", "links", "notes")
_ENCODER: Final = json.JSONEncoder(ensure_ascii=False)  # Without sorting: objects are made in order.

_TOGETHER: Final = 20
"""Records that take each step together, so that its code stays in the processor's caches.

More are hardly faster, and their trees take memory.
"""

Values = dict[str, Any]
LEFT_OUT: Final = "left out"
"""The count of records that are refused because they are not bibliographic, which is no error."""
UNREADABLE: Final = "unreadable"
"""The kind of an omission that may be temporary: the record's existing row is kept."""


def values_of(record: BibliographicRecord) -> Values:
    """Return the columns of `bibliographic_record` that describe the record.

    `words_*` hold its search words.
    """
    main = next((one for one in record.publications if one.place or one.publisher), Publication())
    values = {
        "control_number": record.control_number,
        "control_source": record.control_source,
        "kind": record.kind.value,
        "title": record.title,
        "subtitle": record.subtitle,
        "sort_title": record.sort_title,
        "statement": record.statement,
        "place": main.place,
        "publisher": main.publisher,
        "date_text": record.date_text,
        "year_from": _year(record.years.first),
        "year_to": _year(record.years.last),
        "sort_year": _UNDATED if record.years.first is None else _year(record.years.first),
        "country": record.country,
        "edition": record.edition,
        "extent": record.extent,
        "languages": record.languages,
        "original_languages": record.original_languages,
        "titles": as_json(record.variants),
        **{name: as_json(getattr(record, name)) for name in _PARTS},
        **_words(record),
    }
    return dict(sorted(values.items()))


def as_json(items: Iterable[Any]) -> list[Values]:
    """Return the parts of a record as JSON objects; their keys are in order, as those of `values_of`."""
    return [{name: getattr(item, name) for name in _FIELDS[type(item)]} for item in items]


class Texts(NamedTuple):
    """A converted record as JSON texts: one for its row, and one for its rows in each other table."""

    values: str
    contributors: str
    identifiers: str

    def digest(self) -> bytes:
        """Return the digest of the whole converted record."""
        return hashlib.sha256(f"[{', '.join(self)}]".encode()).digest()[:_DIGEST]


def texts_of(record: BibliographicRecord) -> Texts:
    """Serialise the record's rows once, both for the digest and for the server."""
    parts = (values_of(record), as_json(record.contributors), as_json(record.identifiers))
    return Texts._make(map(_ENCODER.encode, parts))


def _words(record: BibliographicRecord) -> dict[str, str]:
    """Return the words of a record by weight."""
    names = [
        part for one in record.contributors for part in (one.name, one.titles, one.linked, one.work) if part
    ]
    topics = [one.text for one in (*record.subjects, *record.genres)]
    topics += [one.title for one in record.series]
    topics += [part for one in record.related for part in (one.title, *one.identifiers)]
    for statement in record.publications:
        topics += [statement.place, statement.publisher]
    notes = [note.text for note in record.notes if note.kind is NoteKind.NOTE]
    titles = [record.title, record.subtitle, *(one.text for one in record.variants)]
    return {
        "words_a": _shortened(_folded(titles)),
        "words_b": _shortened(_folded([*names, record.statement])),
        "words_c": f"{_shortened(_folded(topics))} {_shortened(' '.join(map(_number, record.identifiers)))}",
        "words_d": _shortened(_folded(notes)),
    }


def _folded(texts: list[str]) -> str:
    return fold(" ".join(texts)[:_WORDS])


def _shortened(words: str) -> str:
    if len(words) * _MOST_BYTES <= _WORDS:
        return words
    return words.encode(errors="replace")[:_WORDS].decode(errors="ignore")


def _number(found: Identifier) -> str:
    """Return a number as one word, in the form in which a search query contains it (see `search`)."""
    return (found.value.replace("-", "") if found.scheme in _NUMBERS else fold(found.value)).lower()


def _year(year: int | None) -> int | None:
    return year if year is None or _YEARS[0] <= year <= _YEARS[1] else None


@dataclass(frozen=True, kw_only=True)
class Chooser:
    """Decides which records are imported, and identifies what their rows are made with."""

    rules: Conditions
    suffix: str = ""
    """Identifies the filtering set and its revision."""

    def basis(self, converter: Converter | None) -> str:
        """Return the basis of a row or an omission: what it was made with."""
        if converter is None:
            return "none of " + " ".join(f"{one.name}/{one.version}" for one in CONVERTERS)
        return f"{converter.name}/{converter.version}{self.suffix}"

    def bases(self) -> list[str]:
        """Return all bases that a row may have."""
        return [self.basis(converter) for converter in (*CONVERTERS, None)]


@dataclass(frozen=True, kw_only=True, slots=True)
class UnchangedRecord:
    """A record whose rows are unchanged."""

    bibliographic_id: int
    file_digest: str | None
    basis: str
    datestamp: str


@dataclass(frozen=True, kw_only=True, slots=True)
class Omitted:
    """A record that gets no row, or loses the one it has."""

    identifier_key: uuid.UUID
    bibliographic_id: int | None
    file_digest: str | None
    basis: str
    kind: str
    reason: str

    @classmethod
    def of(cls, candidate: Candidate, basis: str, kind: str, reason: str) -> Self:
        """Return the omission of a candidate."""
        return cls(
            identifier_key=candidate.key,
            bibliographic_id=candidate.bibliographic_id,
            file_digest=candidate.file_digest,
            basis=basis,
            kind=kind,
            reason=reason,
        )


@dataclass(frozen=True, kw_only=True, slots=True)
class RecordRows:
    """The rows of a record, ready for the server."""

    omitted: "Omitted"
    """What is recorded if the server refuses it."""
    values: str
    """The members of the JSON object for its row, without the braces."""
    contributors: str
    """The JSON arrays of its rows in the other tables."""
    identifiers: str


@dataclass(frozen=True, kw_only=True, slots=True)
class ImportBatch:
    """The result of processing a batch of records."""

    rows: Sequence[RecordRows]
    same: Sequence[UnchangedRecord]
    omitted: Sequence[Omitted]
    welcome: Sequence[uuid.UUID]
    """Keys of records that were omitted before and are now imported."""
    counts: Counter[str]


@dataclass(frozen=True, kw_only=True)
class Converting:
    """Turns the files of a folder into rows."""

    folder: Path
    chooser: Chooser
    limits: RuleLimits = field(default_factory=RuleLimits)
    """What the conditions may use on one record; its number of records counts for each batch."""

    def batch(self, candidates: Sequence[Candidate]) -> ImportBatch:
        """Process each record; an error in one record does not affect the others."""
        evaluator = Evaluator(self.limits)
        draft = _Draft(folder=self.folder, counts=Counter(seen=len(candidates)), evaluator=evaluator)
        with _nothing_collected():
            for place in range(0, len(candidates), _TOGETHER):
                read = list(self._read(draft, candidates[place : place + _TOGETHER]))
                converted = [one for task in read if (one := self._convert(draft, task)) is not None]
                for task, record in converted:
                    with draft.omitting_failures(task):
                        draft.take(task, record)
            return draft.finish()

    def _read(self, draft: "_Draft", candidates: Sequence[Candidate]) -> Iterator["_Task"]:
        for candidate in candidates:
            try:
                metadata = read_metadata(self.folder, candidate)
            except UnreadableFileError as error:
                draft.omit(candidate, self.chooser.basis(None), UNREADABLE, str(error))
            except NoMetadataError as error:
                draft.omit(candidate, self.chooser.basis(None), "refused", str(error))
            except MemoryError:
                draft.omit_too_large(candidate, self.chooser.basis(None))
            else:
                converter = converter_for(metadata)
                basis = self.chooser.basis(converter)
                if converter is None:
                    draft.omit(candidate, basis, "refused", f"no converter for {metadata.tag!r}")
                else:
                    yield _Task(candidate, metadata, converter, basis)

    def _convert(self, draft: "_Draft", task: "_Task") -> tuple["_Task", BibliographicRecord] | None:
        candidate, metadata, converter, basis = task
        with draft.omitting_failures(task):
            reason = converter.declined(metadata)
            if reason:
                draft.omit(candidate, basis, "refused", reason)
                draft.counts[LEFT_OUT] += 1
            elif self._passes_over(converter, metadata, draft.evaluator):
                draft.omit(candidate, basis, "filtered", "")
            else:
                return task, converter.convert(metadata)
        return None

    def _passes_over(self, converter: Converter, metadata: etree._Element, evaluator: Evaluator) -> bool:
        rules = self.chooser.rules
        if not rules.conditions:
            return False
        matching = evaluator.on(metadata).matches
        return not rules.accepts(list(converter.fields(metadata)), matching)


class _Task(NamedTuple):
    """A record that was read, and its converter."""

    candidate: Candidate
    metadata: etree._Element
    converter: Converter
    basis: str


@dataclass(kw_only=True)
class _Draft:
    """A batch while its records are processed."""

    folder: Path
    counts: Counter[str]
    evaluator: Evaluator
    rows: list[RecordRows] = field(default_factory=list)
    same: list[UnchangedRecord] = field(default_factory=list)
    omitted: list[Omitted] = field(default_factory=list)
    welcome: list[uuid.UUID] = field(default_factory=list)

    @contextlib.contextmanager
    def omitting_failures(self, task: _Task) -> Iterator[None]:
        """Omit the record if its converter fails in the block: an error must not lose the other records.

        Raises UsageError if the conditions exceed a limit on too many records.
        """
        try:
            yield
        except MemoryError:
            self.omit_too_large(task.candidate, task.basis)
        except TooMuchError as error:
            self.omit(task.candidate, task.basis, UNREADABLE, f"the conditions exceed a limit: {error}")
            if self.evaluator.too_often():
                raise UsageError(
                    "the conditions of the filtering set exceed a limit on more than %(count)s records "
                    "(%(error)s); write simpler regular expressions",
                    count=self.evaluator.limits.records,
                    error=error,
                ) from None
        except Exception as error:  # noqa: BLE001 whatever the error is
            cause = f"{type(error).__name__}: {error}"
            reason = f"the converter {task.converter.name} ended with an internal error: {cause}"
            self.omit(task.candidate, task.basis, UNREADABLE, reason)

    def take(self, task: _Task, record: BibliographicRecord) -> None:
        """Add the rows of a converted record; if it is the same as before, its rows are kept."""
        candidate, _, converter, basis = task
        longest = max(len(record.contributors), len(record.identifiers))
        if longest > _MOST_PARTS:
            reason = f"it has {longest:,} names or identifiers; at most {_MOST_PARTS:,} can be stored"
            self.omit(candidate, basis, "refused", reason)
            return
        texts = texts_of(record)
        digest = texts.digest()
        if candidate.omitted is not None:
            self.welcome.append(candidate.key)
        known = candidate.bibliographic_id
        file_digest, datestamp = candidate.file_digest, candidate.datestamp
        if known is not None and candidate.content_digest == digest:
            self.counts["unchanged"] += 1
            self.same.append(
                UnchangedRecord(
                    bibliographic_id=known, file_digest=file_digest, basis=basis, datestamp=datestamp
                )
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
        """Add the rows of a record."""
        self.counts["new" if candidate.bibliographic_id is None else "updated"] += 1
        begun = as_text({"identifier_key": candidate.key.hex, **header})
        self.rows.append(
            RecordRows(
                omitted=Omitted.of(candidate, header["basis"], "refused", ""),
                values=f"{begun[1:-1]}, {texts.values[1:-1]}",
                contributors=texts.contributors,
                identifiers=texts.identifiers,
            )
        )

    def omit(self, candidate: Candidate, basis: str, kind: str, reason: str) -> None:
        """Record why a record gets no row."""
        self.counts["filtered" if kind == "filtered" else "refused"] += 1
        self.counts["deleted"] += candidate.bibliographic_id is not None and kind != UNREADABLE
        self.omitted.append(Omitted.of(candidate, basis, kind, reason))

    def omit_too_large(self, candidate: Candidate, basis: str) -> None:
        """Omit a record that needs more memory than this process may have."""
        size = Path(self.folder, candidate.filename or "").stat().st_size
        reason = (
            f"its file of {size:,} bytes needs more memory than is available; `harvester.max_memory` limits"
            " imports after harvests, but not `zatva import run`"
        )
        self.omit(candidate, basis, UNREADABLE, reason)

    def finish(self) -> ImportBatch:
        """Return the finished batch."""
        return ImportBatch(
            rows=self.rows, same=self.same, omitted=self.omitted, welcome=self.welcome, counts=self.counts
        )


def as_text(rows: Values | Sequence[Values]) -> str:
    """Return a row, or rows, as the JSON text that the server receives."""
    return _ENCODER.encode(rows)


@contextlib.contextmanager
def _nothing_collected() -> Iterator[None]:
    """Disable garbage collection: a batch creates no cycles, and collecting took a tenth of its time."""
    if not gc.isenabled():
        yield
        return
    gc.disable()
    try:
        yield
    finally:
        gc.enable()

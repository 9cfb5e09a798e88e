"""Turns a page's records into bytes to store: filter, normalise, validate, serialise; no input or output."""

import asyncio
import hashlib
import re
import uuid
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple, TypeVar

from lxml import etree

from harvester.harvest.page_reader_process import RecordDocument
from harvester.reading.answers import Header, as_document
from harvester.rules.filters import Filters
from harvester.rules.normalisation import Mappings
from harvester.rules.rule_files import RuleLimitError
from harvester.rules.schema_sampling import UNCHECKED, CheckedSample, SampledRecord, SchemaSampler
from harvester.rules.validation import Validator
from harvester.store.paths import identifier_digits, identifier_key
from harvester.vocabulary import Level
from oai.datestamps import is_later
from oai.errors import StrictCheckError, failure_of
from oai.failures import Failure, FailureCode
from oai.xml import parse

_KEY_BYTES = 16
_TOKEN = re.compile(r"resumptionToken=[^&]*")


@dataclass(frozen=True, kw_only=True)
class Refusal:
    """A record, a part of an answer, or a date range, that could not be read."""

    reason: str
    url: str
    identifier: str | None = None
    """Identifier, if it is known or the broken bytes contain one."""
    offset: int | None = None
    """Offset of the bytes in the answer; None if the whole answer is meant."""
    raw: bytes = b""
    size: int | None = None
    """Size of the unreadable part, if `raw` is only its beginning."""
    failure: Failure
    """The reason as a code with facts."""
    whole: bool = False
    """Whether the whole answer could not be read."""
    in_answer: str | None = None
    """The reason with the lines of the answer, if it has those of `raw`."""

    @property
    def is_range(self) -> bool:
        """Whether a date range could not be listed: it is no rejected record, but unknown ones."""
        return self.failure.code is FailureCode.LIST_PARTLY_READ

    def in_words(self) -> str:
        """Return the text for the run's warnings."""
        where = f", byte {self.offset:,}" if self.offset is not None else ""
        named = f"record {self.identifier!r}: "
        shown = named if self.identifier and self.identifier not in self.reason else ""
        reason = (self.in_answer or self.reason).removeprefix(f"{self.url}: ")
        return f"{self.url}{where}: {shown}{reason}"

    def noted(self) -> Failure:
        """Return the failure for the run's warnings, with the `fault_key` of its row in `oai_quarantine`."""
        return Failure(code=self.failure.code, facts={**self.failure.facts, "fault_key": self.key().hex})

    def key(self) -> uuid.UUID:
        """The key by which the fault is recognised when it occurs again."""
        if self.identifier is not None:
            return identifier_key(self.identifier)
        content = self.raw or f"{self.url} {self.reason}".encode()
        if self.whole:
            # Its bytes have the time of the answer, and its token may be another one each time.
            dates = self.failure.facts.get("range", "")
            content = f"{_TOKEN.sub('', self.url)} {self.failure.code} {dates}".encode()
        return uuid.UUID(bytes=hashlib.sha256(content).digest()[:_KEY_BYTES])


class RefusedRecordError(StrictCheckError):
    """A record that ended a strict run; the run keeps it in quarantine."""

    def __init__(self, message: str, refusal: Refusal) -> None:
        super().__init__(message)
        self.refusal = refusal


_T = TypeVar("_T")


Content = etree._Element | RecordDocument | None  # noqa: SLF001 the only name that lxml has for it
Entry = tuple[Header, Content]
"""A header with its `<record>`, as an element or as a document; a deleted record needs none."""


class Prepared(NamedTuple):
    """A record ready for the store; a deleted one has neither bytes nor digest.

    A tuple, because many are created.
    """

    header: Header
    key: str
    """The identifier's key, in hexadecimal digits."""
    data: bytes | None
    digest: bytes | None


@dataclass(frozen=True, kw_only=True)
class RecordBatch:
    """A page's records, each identifier once, with what was left out."""

    records: Sequence[Prepared]
    filtered: int
    repeated: int
    passed_over: Sequence[str] = ()
    """Keys of the records that the filters excluded: the repository has them nevertheless."""
    outdated: Sequence[str] = ()
    """Identifiers repeated with an older datestamp, once per repetition; the older version is left out."""
    refused: Sequence[Refusal] = ()
    """Records on which a rule reached a limit, so that their content is undecided."""
    sample: CheckedSample = UNCHECKED
    """The records of the page that were checked against their schema, although it is not required."""

    def without(self, keys: Collection[str]) -> "RecordBatch":
        """Return the batch without the records of these keys."""
        if not keys:
            return self
        return replace(self, records=[record for record in self.records if record.key not in keys])


@dataclass(frozen=True, kw_only=True)
class Transformer:
    """Applies a harvest's rules to records."""

    filters: Filters | None = None
    mappings: Mappings | None = None
    validator: Validator | None = None
    level: Level = Level.LOOSE
    sampler: SchemaSampler | None = None
    """Checks records of a lenient harvest."""

    @property
    def plain(self) -> bool:
        """Whether records are stored as received, so that their elements are not needed."""
        return self.filters is None and self.mappings is None and self.level is not Level.VERY_STRICT

    async def prepare_page(self, entries: Sequence[Entry], *, url: str) -> RecordBatch:
        """Fetch the schemas named by the records that the filters accept; then as `prepare`, in threads.

        Raises StrictCheckError also if a schema is not available.
        """
        if self.validator is None:
            return await asyncio.to_thread(self.prepare, entries, url=url)
        accepted, rest = await asyncio.to_thread(self._filtered, entries, url)
        await self.validator.learn(_elements(accepted))
        return await asyncio.to_thread(self._finished, entries, accepted, rest, url)

    def prepare(self, entries: Sequence[Entry], *, url: str) -> RecordBatch:
        """Prepare the records of the page from a URL; of records with the same identifier, use the newest.

        Among versions with equal, unreadable or missing datestamps, the last one is used.

        Raises StrictCheckError if the validator rejects a record or an answer and, unless the level is loose,
        if a rule reaches a limit on a record. Raises RuleFileError for a rule that reaches it too often.
        """
        return self._finished(entries, *self._filtered(entries, url), url)

    def _filtered(self, entries: Sequence[Entry], url: str) -> tuple[Sequence[Entry], RecordBatch]:
        """Return the records that the filters accept, and a batch with what is left out."""
        latest, outdated = _newest(entries, lambda entry: entry[0].identifier, lambda entry: entry[0])
        accepted = []
        passed_over = []
        refused = []
        for header, content in latest.values():
            try:
                if self._accepts(header, content):
                    accepted.append((header, content))
                else:
                    passed_over.append(identifier_digits(header.identifier))
            except RuleLimitError as error:
                refused.append(self._refusal(header, content, error, url))
        return accepted, RecordBatch(
            records=(),
            filtered=len(passed_over),
            repeated=len(entries) - len(latest),
            passed_over=passed_over,
            outdated=outdated,
            refused=refused,
        )

    def _accepts(self, header: Header, content: Content) -> bool:
        if self.filters is None or header.deleted or not isinstance(content, etree._Element):  # noqa: SLF001 as above
            return True
        return self.filters.accepts(content)

    def _finished(
        self, entries: Sequence[Entry], accepted: Sequence[Entry], rest: RecordBatch, url: str
    ) -> RecordBatch:
        """Return the batch with the accepted records: validated, normalised, as bytes."""
        # Before the mappings, which change the elements.
        sample = self.sampler.check(_sampled(accepted)) if self.sampler is not None else UNCHECKED
        prepared = []
        refused = [*rest.refused]
        for header, content in accepted:
            try:
                prepared.append(self._prepared(header, content, url))
            except RuleLimitError as error:
                refused.append(self._refusal(header, content, error, url))
        self._check_answers(entries, url)
        return replace(rest, records=prepared, refused=refused, sample=sample)

    def _prepared(self, header: Header, content: Content, url: str) -> Prepared:
        """Return the record for the store."""
        if header.deleted or content is None:
            return Prepared(header=header, key=identifier_digits(header.identifier), data=None, digest=None)
        if isinstance(content, RecordDocument):
            if not self.plain:
                raise RuntimeError("internal error: rules need elements, and the record came as bytes")
            return _active(header, content.data())
        return _active(header, as_document(self._checked(header, content, url)))

    def _refusal(self, header: Header, content: Content, error: RuleLimitError, url: str) -> Refusal:
        refusal = Refusal(
            reason=str(error),
            url=url,
            identifier=header.identifier,
            raw=_bytes_of(content),
            failure=failure_of(error),
        )
        if self.level is not Level.LOOSE:
            raise RefusedRecordError(f"record {header.identifier!r}: {error}", refusal) from error
        return refusal

    def _invalid(
        self, validator: Validator, header: Header, element: etree._Element, url: str, in_answer: str
    ) -> Refusal:
        """Return the refusal of an invalid record; the lines in its reason are those of the stored bytes."""
        raw = _bytes_of(element)
        # Parse again: the answer's line numbers would point to other lines of these bytes.
        kept = validator.faults_by_line(parse(raw, source=url))[:3]
        return Refusal(
            reason="; ".join(text for _, text in kept) or in_answer,
            url=url,
            identifier=header.identifier,
            raw=raw,
            failure=Failure(code=FailureCode.RECORD_INVALID, facts={"line": kept[0][0] if kept else 0}),
            in_answer=in_answer,
        )

    def _check_answers(self, entries: Iterable[Entry], url: str) -> None:
        """Check the envelope of the answer, or of each answer if each record has its own."""
        if self.validator is None:
            return
        answers = {element.getroottree().getroot(): element for element in _elements(entries)}
        for element in answers.values():
            faults = self.validator.answer_faults(element)
            if faults:
                raise StrictCheckError(f"{url}: the answer is not valid: {'; '.join(faults[:3])}")

    def _checked(self, header: Header, element: etree._Element, url: str) -> etree._Element:
        """Return the record's element, which is valid, with the values that the rules add."""
        if self.validator is not None:
            faults = self.validator.faults(element)
            if faults:
                in_answer = "; ".join(faults[:3])
                refusal = self._invalid(self.validator, header, element, url, in_answer)
                raise RefusedRecordError(f"record {header.identifier!r} is not valid: {in_answer}", refusal)
        if self.mappings is not None:
            self.mappings.apply(element)
        return element


def _bytes_of(content: Content) -> bytes:
    """Return the record's bytes as stored in quarantine."""
    if isinstance(content, RecordDocument):
        return content.data()
    return b"" if content is None else etree.tostring(content, encoding="UTF-8", with_tail=False)


def _elements(entries: Iterable[Entry]) -> Iterator[etree._Element]:
    return (content for _, content in entries if isinstance(content, etree._Element))  # noqa: SLF001 as above


def _sampled(entries: Iterable[Entry]) -> Iterator[SampledRecord]:
    for header, content in entries:
        if content is not None and not header.deleted:
            document = content.data() if isinstance(content, RecordDocument) else content
            yield SampledRecord(header.identifier, header.undated, document)


def _active(header: Header, data: bytes) -> Prepared:
    return Prepared(
        header=header,
        key=identifier_digits(header.identifier),
        data=data,
        digest=hashlib.sha256(data).digest(),
    )


def _newest(
    versions: Sequence[_T], key: Callable[[_T], str], header: Callable[[_T], Header]
) -> tuple[dict[str, _T], Sequence[str]]:
    """Return, by key, the version with the newest datestamp; and the identifiers of the older repetitions."""
    newest = {key(version): version for version in versions}
    if len(newest) == len(versions):
        return newest, ()
    outdated = []
    newest = {}
    for version in versions:
        before = newest.get(key(version))
        if before is not None and _is_newer(header(before), header(version)):
            outdated.append(header(version).identifier)
        else:
            newest[key(version)] = version
    return newest, outdated


def _is_newer(one: Header, other: Header) -> bool:
    """Return whether a version is later than another one; False if either has no datestamp of its own."""
    return not (one.undated or other.undated) and is_later(one.datestamp, other.datestamp)


def joined(batches: Sequence[RecordBatch]) -> RecordBatch:
    """Join several pages into one; of records with the same identifier the newest is used, as on one page."""
    found = [record for batch in batches for record in batch.records]
    latest, outdated = _newest(found, lambda record: record.key, lambda record: record.header)
    return RecordBatch(
        records=list(latest.values()),
        filtered=sum(batch.filtered for batch in batches),
        repeated=sum(batch.repeated for batch in batches) + len(found) - len(latest),
        passed_over=[key for batch in batches for key in batch.passed_over],
        outdated=[*(name for batch in batches for name in batch.outdated), *outdated],
        refused=[refusal for batch in batches for refusal in batch.refused],
    )

"""From a page's records to the bytes to store: select, normalise, validate, serialise; no input or output."""

import hashlib
import uuid
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple, TypeVar

from lxml import etree

from harvester.client.protocol_client import ProtocolClient
from harvester.harvest.page_reader_process import RecordDocument
from harvester.reading.answers import Header, as_document
from harvester.rules.filters import Filters
from harvester.rules.normalisation import Mappings
from harvester.rules.rule_files import RuleLimitError
from harvester.rules.schemas import SchemaCache, Schemas, schema_fetcher
from harvester.rules.validation import Validator, prepare_validator
from harvester.store.paths import identifier_digits, identifier_key
from harvester.vocabulary import Level
from oai.datestamps import is_later
from oai.errors import StrictCheckError, failure_of
from oai.failures import Failure, FailureCode
from oai.settings import Settings
from oai.xml import parse

_KEY_BYTES = 16


@dataclass(frozen=True, kw_only=True)
class Refusal:
    """A record, or a part of an answer, that could not be read."""

    reason: str
    url: str
    identifier: str | None = None
    """Where it is known, or the broken bytes name one."""
    offset: int | None = None
    """Where the bytes begin in the answer; None where the whole answer is meant."""
    raw: bytes = b""
    size: int | None = None
    """Of what could not be read, if `raw` is only its beginning."""
    failure: Failure
    """Why, as a code with facts."""

    def in_words(self) -> str:
        """For the run's warnings."""
        where = f", byte {self.offset:,}" if self.offset is not None else ""
        named = f"record {self.identifier!r}: "
        shown = named if self.identifier and self.identifier not in self.reason else ""
        told = self.reason.removeprefix(f"{self.url}: ")
        return f"{self.url}{where}: {shown}{told}"

    def noted(self) -> Failure:
        """For the run's warnings: with `fault_key`, by which its row in `oai_quarantine` is found."""
        return Failure(code=self.failure.code, facts={**self.failure.facts, "fault_key": self.key().hex})

    def key(self) -> uuid.UUID:
        """What makes it the same fault when it is met again."""
        if self.identifier is not None:
            return identifier_key(self.identifier)
        told = self.raw or f"{self.url} {self.reason}".encode()
        return uuid.UUID(bytes=hashlib.sha256(told).digest()[:_KEY_BYTES])


class RefusedRecordError(StrictCheckError):
    """A record ended a strict run; the run keeps it in quarantine."""

    def __init__(self, message: str, refusal: Refusal) -> None:
        super().__init__(message)
        self.refusal = refusal


_T = TypeVar("_T")


Content = etree._Element | RecordDocument | None  # noqa: SLF001 lxml has no other name for it
Entry = tuple[Header, Content]
"""A header with its `<record>`, as an element or as the document; a deleted one needs none."""


class Prepared(NamedTuple):
    """A record ready for the store; a deleted one has neither bytes nor digest.

    A tuple, for many are made.
    """

    header: Header
    key: str
    """The identifier's key, in hexadecimal digits."""
    data: bytes | None
    digest: bytes | None


@dataclass(frozen=True, kw_only=True)
class RecordBatch:
    """A page's records, each identifier once, with the number of those that are not among them."""

    records: Sequence[Prepared]
    filtered: int
    repeated: int
    passed_over: Sequence[str] = ()
    """Keys of those that the filters did not choose: their repository has them all the same."""
    outdated: Sequence[str] = ()
    """Identifiers that came again with an older datestamp, once for each time; that version is left out."""
    refused: Sequence[Refusal] = ()
    """Those on which a rule met a limit, so that nobody can tell what they should be."""

    def without(self, keys: Collection[str]) -> "RecordBatch":
        """The batch without the records of these keys."""
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

    @property
    def plain(self) -> bool:
        """Whether records are stored as they come, so that nobody needs their elements."""
        return self.filters is None and self.mappings is None and self.level is not Level.VERY_STRICT

    async def learn(self, entries: Sequence[Entry]) -> None:
        """Gather the schemas that a page's records name. Raises StrictCheckError where one cannot be had."""
        if self.validator is not None:
            await self.validator.learn(_elements(entries))

    def prepare(self, entries: Sequence[Entry], *, url: str) -> RecordBatch:
        """Prepare the records of the page from a URL; of those with the same identifier the newest counts.

        Of versions with the same datestamp, or with one that cannot be read, that is the last one.

        Raises StrictCheckError for a record, or an answer, that the validator finds at fault, and, unless the
        level is loose, for a record on which a rule meets a limit; RuleFileError for a rule that does so too
        often.
        """
        latest, outdated = _newest(entries, lambda entry: entry[0].identifier, lambda entry: entry[0])
        prepared = []
        passed_over = []
        refused = []
        for header, content in latest.values():
            try:
                record = self._prepared(header, content, url)
            except RuleLimitError as error:
                refused.append(self._refusal(header, content, error, url))
                continue
            if record is None:
                passed_over.append(identifier_digits(header.identifier))
            else:
                prepared.append(record)
        self._check_answers(latest.values(), url)
        return RecordBatch(
            records=prepared,
            filtered=len(passed_over),
            repeated=len(entries) - len(latest),
            passed_over=passed_over,
            outdated=outdated,
            refused=refused,
        )

    def _prepared(self, header: Header, content: Content, url: str) -> Prepared | None:
        """The record for the store; None where the filters leave it out."""
        if header.deleted or content is None:
            return Prepared(header=header, key=identifier_digits(header.identifier), data=None, digest=None)
        if isinstance(content, RecordDocument):
            if not self.plain:
                raise RuntimeError("internal error: rules need elements, and the record came as bytes")
            return _active(header, content.data())
        if self.filters is not None and not self.filters.accepts(content):
            return None
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

    def _invalid(self, validator: Validator, header: Header, element: etree._Element, url: str) -> Refusal:
        """The record that is not valid; lines are those of the bytes that are kept, not of the answer."""
        raw = _bytes_of(element)
        # Parsed once more: the answer's lines would mark another line of these bytes.
        kept = validator.faults_by_line(parse(raw, source=url))[:3]
        return Refusal(
            reason="; ".join(text for _, text in kept),
            url=url,
            identifier=header.identifier,
            raw=raw,
            failure=Failure(code=FailureCode.RECORD_INVALID, facts={"line": kept[0][0]}),
        )

    def _check_answers(self, entries: Iterable[Entry], url: str) -> None:
        """Check what stands around the records: the answer, or the answers where each came in its own."""
        if self.validator is None:
            return
        answers = {element.getroottree().getroot(): element for element in _elements(entries)}
        for element in answers.values():
            faults = self.validator.answer_faults(element)
            if faults:
                raise StrictCheckError(f"{url}: the answer is not valid: {'; '.join(faults[:3])}")

    def _checked(self, header: Header, element: etree._Element, url: str) -> etree._Element:
        """The record's element, which is valid, with the values that the rules add."""
        if self.validator is not None:
            faults = self.validator.faults(element)
            if faults:
                message = f"record {header.identifier!r} is not valid: {'; '.join(faults[:3])}"
                raise RefusedRecordError(message, self._invalid(self.validator, header, element, url))
        if self.mappings is not None:
            self.mappings.apply(element)
        return element


def _bytes_of(content: Content) -> bytes:
    """The record's bytes as quarantine keeps them."""
    if isinstance(content, RecordDocument):
        return content.data()
    return b"" if content is None else etree.tostring(content, encoding="UTF-8", with_tail=False)


def _elements(entries: Iterable[Entry]) -> Iterator[etree._Element]:
    return (content for _, content in entries if isinstance(content, etree._Element))  # noqa: SLF001 as above


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
    """By key, the version with the newest datestamp; and the identifiers of those that came behind it."""
    newest = {key(version): version for version in versions}
    if len(newest) == len(versions):
        return newest, ()
    outdated = []
    newest = {}
    for version in versions:
        before = newest.get(key(version))
        if before is not None and is_later(header(before).datestamp, header(version).datestamp):
            outdated.append(header(version).identifier)
        else:
            newest[key(version)] = version
    return newest, outdated


def joined(batches: Sequence[RecordBatch]) -> RecordBatch:
    """Several pages as one; of records with the same identifier the newest counts, as on one page."""
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


async def open_validator(client: ProtocolClient, settings: Settings, metadata_prefix: str) -> Validator:
    """Give the validator of a format, asking the repository for its schema where we have none of our own.

    Raises StrictCheckError where a schema cannot be had, and ClientError where the repository does not say.
    """
    schemas = Schemas(
        cache=SchemaCache(folder=settings.schemas),
        fetch=schema_fetcher(settings.harvester, client.base_url),
    )
    return await prepare_validator(metadata_prefix, client.list_metadata_formats, schemas)

"""Schema checks of lenient harvests: faults are counted and shown, and the records are stored.

Only schemas that are bundled or cached are used. Nothing is fetched, and no fault ends the run. Source: UIUC,
"Validation": records that do not conform to their XML Schema cause a warning.
"""

import asyncio
import logging
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import islice
from typing import Final, NamedTuple

from lxml import etree

from harvester.reading.answers import as_document
from harvester.reading.errors import TransportError, TransportKind
from harvester.rules.schemas import CACHE_ADVICE, SchemaCache, SchemaReply, Schemas
from harvester.rules.validation import OWN_FORMATS, Fault, Validator, own_validator
from oai.errors import StrictCheckError, ZatvaError
from oai.xml import parse

MOST_EXAMPLES: Final = 5
"""Invalid records of a run that are named with their faults."""
_SHOWN_FAULTS: Final = 3
_SAMPLE_RECORDS: Final = 20
SIZES: Final[Mapping[str, int | None]] = {"none": 0, "sample": _SAMPLE_RECORDS, "full": None}
"""Records checked of each page, by the values of `harvester.schema_check`; None: all."""

_log = logging.getLogger("harvester.rules.schema_sampling")


class SampledRecord(NamedTuple):
    """A record to check."""

    identifier: str
    undated: bool
    content: etree._Element | bytes
    """The `<record>`, as an element or as a document."""


class InvalidRecord(NamedTuple):
    """A record that breaks its schema."""

    identifier: str
    line: int
    """Line of the first fault in the record's file, if no rule changes it."""
    faults: str


@dataclass(frozen=True, kw_only=True)
class CheckedSample:
    """How many records of a page were checked, and how many of them are invalid."""

    checked: int = 0
    invalid: int = 0
    examples: Sequence[InvalidRecord] = ()
    """The first invalid ones."""


UNCHECKED: Final = CheckedSample()


@dataclass(kw_only=True)
class SchemaSampler:
    """Checks the first records of each page; `check` is called by one thread at a time."""

    validator: Validator
    most: int | None
    """Records of each page; None: all."""
    _sought: set[frozenset[str]] = field(default_factory=set)
    """Namespaces of records whose schemas were looked for in the cache."""

    def check(self, records: Iterable[SampledRecord]) -> CheckedSample:
        """Check the first records; a failure of the check itself is logged, and none counts as checked."""
        try:
            return self._checked(records)
        except (ZatvaError, etree.LxmlError, ValueError) as error:
            _log.warning("records of a page were not checked against their schema: %s", error)
            return UNCHECKED

    def _checked(self, records: Iterable[SampledRecord]) -> CheckedSample:
        checked = invalid = 0
        examples: list[InvalidRecord] = []
        # Counts all records, not only those checked: a format without schemas would have every record parsed.
        for record in islice(records, self.most):
            faults = self._faults(record)
            if faults is None:
                continue
            checked += 1
            invalid += bool(faults)
            if faults and len(examples) < MOST_EXAMPLES:
                examples.append(self._example(record))
        return CheckedSample(checked=checked, invalid=invalid, examples=examples)

    def _faults(self, record: SampledRecord) -> list[Fault] | None:
        """Return the faults of a record; None if a schema of its metadata is not available."""
        content = record.content
        element = parse(content, source=record.identifier) if isinstance(content, bytes) else content
        if not self._has_schemas(element):
            return None
        # A missing datestamp is counted by itself.
        return (self.validator.metadata_faults if record.undated else self.validator.faults_by_line)(element)

    def _example(self, record: SampledRecord) -> InvalidRecord:
        """Return the record's faults, with the lines of its document instead of those of the page."""
        content = record.content if isinstance(record.content, bytes) else as_document(record.content)
        faults = self._faults(record._replace(content=content)) or []
        words = "; ".join(text for _, text in faults[:_SHOWN_FAULTS])
        line = min((line for line, _ in faults), default=0)
        return InvalidRecord(identifier=record.identifier, line=line, faults=words)

    def _has_schemas(self, element: etree._Element) -> bool:
        unknown = frozenset(self.validator.unknown(element))
        if not unknown or unknown in self._sought:
            return not unknown
        self._sought.add(unknown)
        try:
            # In a thread without an event loop; nothing is awaited, because nothing is fetched.
            asyncio.run(self.validator.learn([element]))
        except StrictCheckError as error:
            _log.info("records of a format are not checked: %s", error)
        return not self.validator.unknown(element)


def open_sampler(metadata_prefix: str, size: str, cache: SchemaCache) -> SchemaSampler | None:
    """Return the sampler for a format, by a value of `harvester.schema_check`; None if nothing is checked."""
    most = SIZES[size]
    if most == 0:
        return None
    if metadata_prefix in OWN_FORMATS:
        return SchemaSampler(validator=own_validator(metadata_prefix), most=most)
    schemas = Schemas(cache=cache, fetch=_not_fetched, advice=CACHE_ADVICE)
    return SchemaSampler(validator=Validator(metadata_prefix, None, schemas=schemas), most=most)


async def _not_fetched(url: str, *, public_only: bool) -> SchemaReply:  # noqa: ARG001 as `Fetch`
    raise TransportError(url, TransportKind.ADDRESS, "lenient harvests use only cached schemas")

"""From a page's records to the bytes to store: select, normalise, validate, serialise; no input or output."""

import hashlib
import uuid
from collections.abc import Sequence
from dataclasses import dataclass
from enum import IntEnum

from lxml import etree

from harvester.client.answers import Header
from harvester.rules.filtering import Filters
from harvester.rules.normalising import Mappings
from harvester.rules.validation import Validator
from harvester.store.paths import identifier_key
from oai.errors import StrictCheckError


class Level(IntEnum):
    """How strictly answers and records are checked (UIUC, `validation`)."""

    STRICT = 0
    VERY_STRICT = 1
    LOOSE = 2


Entry = tuple[Header, etree._Element | None]  # noqa: SLF001 lxml has no other name for it
"""A header with its `<record>` element; a deleted one needs none."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Prepared:
    """A record ready for the store; a deleted one has neither bytes nor digest."""

    header: Header
    key: uuid.UUID
    data: bytes | None
    digest: bytes | None


@dataclass(frozen=True, kw_only=True)
class Batch:
    """A page's records, each identifier once, with the number of those that are not among them."""

    records: Sequence[Prepared]
    filtered: int
    repeated: int


@dataclass(frozen=True, kw_only=True)
class Preparer:
    """Applies a harvest's rules to records."""

    filters: Filters | None = None
    mappings: Mappings | None = None
    validator: Validator | None = None

    def prepare(self, entries: Sequence[Entry]) -> Batch:
        """Prepare a page's records; of those with the same identifier the last counts.

        Raises StrictCheckError for a record that the validator finds at fault.
        """
        latest = {header.identifier: (header, element) for header, element in entries}
        prepared = []
        for header, element in latest.values():
            if header.deleted or element is None:
                key = identifier_key(header.identifier)
                prepared.append(Prepared(header=header, key=key, data=None, digest=None))
            elif self.filters is None or self.filters.accepts(element):
                prepared.append(self._active(header, element))
        return Batch(
            records=prepared, filtered=len(latest) - len(prepared), repeated=len(entries) - len(latest)
        )

    def _active(self, header: Header, element: etree._Element) -> Prepared:
        if self.validator is not None:
            faults = self.validator.faults(element)
            if faults:
                raise StrictCheckError(f"record {header.identifier!r} is not valid: {'; '.join(faults[:3])}")
        if self.mappings is not None:
            self.mappings.apply(element)
        data = etree.tostring(element, encoding="UTF-8", xml_declaration=True, with_tail=False)
        return Prepared(
            header=header,
            key=identifier_key(header.identifier),
            data=data,
            digest=hashlib.sha256(data).digest(),
        )


def joined(batches: Sequence[Batch]) -> Batch:
    """Several pages as one; of records with the same identifier the last counts."""
    latest = {record.key: record for batch in batches for record in batch.records}
    found = sum(len(batch.records) for batch in batches)
    return Batch(
        records=list(latest.values()),
        filtered=sum(batch.filtered for batch in batches),
        repeated=sum(batch.repeated for batch in batches) + found - len(latest),
    )

"""A few records of a repository, before and after applying rules; stores nothing."""

import copy
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from harvester.client.selection import Selection
from harvester.protocols import open_protocol_client
from harvester.reading.answers import Page, Record, author_and_year_of, title_of
from harvester.reading.errors import NoRecordsMatchError
from harvester.rules.filters import Filters, load_filters
from harvester.rules.normalisation import Mappings, load_mappings
from harvester.vocabulary import AccessProtocol
from oai.errors import ZatvaError
from oai.settings import Settings
from oai.vocabulary import Verb
from oai.xml import indented

SAMPLE: Final = 10
_TRIES: Final = 1


@dataclass(frozen=True, kw_only=True)
class Rules:
    """Rules to try; `load_rules` reads them."""

    filters: Filters | None = None
    mappings: Mappings | None = None


@dataclass(frozen=True, kw_only=True)
class Sampled:
    """One record, before and after."""

    identifier: str
    datestamp: str
    deleted: bool
    title: str
    details: str
    """First author and year, as far as it names them."""
    kept: bool
    """Whether the filters accept it."""
    before: str
    """The record as harvested, as text."""
    after: str
    """The record as it would be stored; the same if nothing was added."""
    added: int = 0
    """The number of elements that the normalise file added."""
    trouble: ZatvaError | None = None
    """The limit that a rule exceeded."""


@dataclass(frozen=True, kw_only=True)
class RepositorySample:
    """The first records, and the errors on the page."""

    records: Sequence[Sampled] = ()
    complete_list_size: int | None = None
    faults: Sequence[str] = ()


def load_rules(filter_file: Path | None, normalize_file: Path | None) -> Rules:
    """Read the given rule files. Raises RuleFileError."""
    return Rules(
        filters=load_filters(filter_file, source=filter_file.name) if filter_file else None,
        mappings=load_mappings(normalize_file, source=normalize_file.name) if normalize_file else None,
    )


async def fetch_sample(
    base_url: str,
    settings: Settings,
    selection: Selection,
    filter_file: Path | None,
    normalize_file: Path | None,
    *,
    protocol: str = AccessProtocol.OAI_PMH,
) -> RepositorySample:
    """Request the first page of records and apply the files' rules to its first ten.

    Raises RuleFileError, ClientError and TryLaterError if the page is not available, and SettingsError if a
    program that the protocol needs is missing.
    """
    rules = load_rules(filter_file, normalize_file)
    async with open_protocol_client(protocol, base_url, settings.harvester, retries=_TRIES) as client:
        try:
            page = await anext(client.pages(Verb.LIST_RECORDS, selection, loose=True))
        except NoRecordsMatchError:
            return RepositorySample()
    return sample_of(page, rules)


@dataclass(frozen=True, kw_only=True)
class SetSize:
    """How many records a set has."""

    records: int
    more: bool = False
    """Whether there are more: the repository does not say how many."""


async def count_records(
    base_url: str, settings: Settings, metadata_prefix: str, set_specs: Sequence[str]
) -> dict[str, SetSize]:
    """Return the size of each set, as far as the first page of its identifiers shows it.

    Raises ClientError and TryLaterError.
    """
    found: dict[str, SetSize] = {}
    async with open_protocol_client(
        AccessProtocol.OAI_PMH, base_url, settings.harvester, retries=_TRIES
    ) as client:
        for spec in set_specs:
            selection = Selection(metadata_prefix=metadata_prefix, set_spec=spec or None)
            try:
                page = await anext(client.pages(Verb.LIST_IDENTIFIERS, selection, loose=True))
            except NoRecordsMatchError:
                found[spec] = SetSize(records=0)
                continue
            size = page.complete_list_size
            seen = len(page.headers)
            found[spec] = SetSize(
                records=seen if size is None else size, more=size is None and bool(page.next_token)
            )
    return found


def sample_of(page: Page, rules: Rules) -> RepositorySample:
    """Return the first records of a page, with the rules applied to them."""
    return RepositorySample(
        records=[try_rules(record, rules) for record in page.records[:SAMPLE]],
        complete_list_size=page.complete_list_size,
        faults=[fault.reason for fault in page.faults],
    )


def try_rules(record: Record, rules: Rules) -> Sampled:
    """Apply the rules to one record."""
    changed = copy.deepcopy(record.element)
    kept, added = True, 0
    trouble: ZatvaError | None = None
    try:
        kept = rules.filters is None or rules.filters.accepts(record.element)
        if kept and rules.mappings is not None:
            added = rules.mappings.apply(changed)
    except ZatvaError as error:
        trouble = error
    return Sampled(
        identifier=record.header.identifier,
        datestamp=record.header.datestamp,
        deleted=record.header.deleted,
        title=title_of(record.element),
        details=", ".join(filter(None, author_and_year_of(record.element))),
        kept=kept,
        before=indented(record.element),
        after=indented(changed),
        added=added,
        trouble=trouble,
    )

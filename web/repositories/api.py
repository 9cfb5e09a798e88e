"""REST API: repositories: list, add, show, change, remove, refresh; their formats and sets."""

from datetime import datetime
from functools import partial
from typing import Any, Final

from pydantic import Field
from sqlalchemy.orm import Session

from harvester.access import access_of
from harvester.listing import find_repositories, formats_of, sets_of
from harvester.locks import clear_locks, find_lock, find_locks
from harvester.models import Repository, RepositoryLock
from harvester.probing.look import look
from harvester.protocols import protocol_of
from harvester.reading.repairs import Repair
from harvester.recognition import (
    RepositoryFacts,
    check_base_url,
    identify_repository,
    recognise_repository,
)
from harvester.repositories import (
    BaseUrl,
    DeletionsShare,
    RepositoryName,
    UpdatesShare,
    change_repository,
    note_facts,
)
from harvester.vocabulary import AccessProtocol, DeletionPolicy
from oai.errors import SettingsError, UsageError
from oai.rights import Right
from web.api.faults import ApiError
from web.api.operations import Call, Operations
from web.api.paging import after, list_page, page_of
from web.api.shapes import In, Out, Page, Paged, unchanged
from web.auth.access import about, visible_repositories
from web.auth.audit import renew_snapshot
from web.auth.organisations import add_own_repository
from web.auth.sessions import SignedIn
from web.repositories.forms import PlacedForm, store_context
from web.repositories.removals import REMOVALS
from web.site.timeouts import ask_apart

OPERATIONS: Final = Operations("repositories")


class LockOut(Out):
    """A row of `oai_repository_lock`: no harvest of the repository begins until it is deleted or expires."""

    holder: str
    reason: str
    locked: datetime
    expires: datetime


class RepositoryOut(Out):
    """A repository with the information it provides about itself."""

    repository_id: int
    repository_name: str | None
    base_url: str = Field(
        description="Any user name and password in it are only for callers that may change the repository."
    )
    base_dir: str
    protocol: str = Field(description="oai-pmh, sru or z39.50.")
    protocol_version: str | None
    admin_email: str | None
    granularity: str | None
    deleted_record: str | None
    earliest_datestamp: str | None
    date_added: datetime
    identified: datetime | None
    deletion_policy: str
    brake_deletions: float | None
    brake_updates: float | None
    repairs: list[str] = Field(description="What is repaired in broken records on arrival.")
    not_before: datetime | None
    lock: LockOut | None = Field(description="The lock that keeps harvests off it; null if there is none.")


class FormatOut(Out):
    """A metadata format that a repository offers."""

    metadata_prefix: str
    metadata_schema: str
    metadata_namespace: str


class Formats(Out):
    """The formats of a repository."""

    items: list[FormatOut]


class SetOut(Out):
    """A set that a repository lists."""

    set_spec: str
    set_name: str | None


class RepositoryQuery(Paged):
    """Filters for repositories."""

    search: str | None = Field(None, max_length=200, description="Words in the name or the base URL.")


class NewRepository(PlacedForm):
    """A new repository; base URL and folder are sufficient."""

    model_config = In.model_config
    protocol: AccessProtocol | None = Field(
        None, description="Null: detected by a request, or from the URL if no request is sent."
    )
    identify: bool = Field(
        default=True, description="Look up the repository's name, formats and sets immediately."
    )


class RepositoryChange(In):
    """The values to change; those that are left out stay as they are."""

    repository_name: RepositoryName | None = Field(
        default_factory=unchanged,
        min_length=1,
        description="Overrides the name that the repository gives; null: use the repository's own name.",
    )
    base_url: BaseUrl = Field(default_factory=unchanged, description="New base URL, with the same protocol.")
    deletion_policy: DeletionPolicy = Field(default_factory=unchanged)
    brake_deletions: DeletionsShare | None = Field(
        default_factory=unchanged, description="Per cent; null: general setting."
    )
    brake_updates: UpdatesShare | None = Field(
        default_factory=unchanged, description="Per cent; null: general setting."
    )
    repairs: list[Repair] = Field(
        default_factory=unchanged,
        description="Replaces what is repaired in broken records on arrival; empty: nothing.",
    )


@OPERATIONS.add("GET /repositories", "listRepositories", Right.LOOK, query=RepositoryQuery)
async def _list(call: Call) -> Page[RepositoryOut]:
    """List repositories by number."""
    query = call.asked(RepositoryQuery)
    rows = await call.database.run(
        find_repositories,
        limit=query.limit + 1,
        after=after(call, int) or 0,
        search=query.search,
        among=visible_repositories(call.who),
    )
    locks = await call.database.run(find_locks, [row.repository_id for row in rows])
    return page_of(
        call,
        rows,
        lambda row: _out(call.who, row, locks.get(row.repository_id)),
        lambda row: row.repository_id,
    )


@OPERATIONS.add(
    "POST /repositories",
    "addRepository",
    Right.HARVEST,
    body=NewRepository,
    status=201,
    faults={424},
    context=store_context,
)
async def _add(call: Call) -> RepositoryOut:
    """Add a repository and look up its details."""
    asked, who = call.sent(NewRepository), call.who
    facts: RepositoryFacts | None = None
    if asked.identify:
        facts = await ask_apart(recognise_repository, asked.base_url, call.settings, protocol=asked.protocol)

    def add(session: Session) -> Repository:
        protocol = facts.protocol if facts else asked.protocol
        return add_own_repository(
            session, who, base_url=asked.base_url, base_dir=asked.base_dir, facts=facts, protocol=protocol
        )

    row = await call.database.run(add)
    about(call.request, "repository", row.repository_id, row.display_name)
    return await _with_lock(call, row)


@OPERATIONS.add("GET /repositories/{repository}", "getRepository", Right.LOOK)
async def _show(call: Call) -> RepositoryOut:
    """Show a repository."""
    return await _with_lock(call, await call.row(Repository, "repository", being_removed=True))


@OPERATIONS.add("PATCH /repositories/{repository}", "changeRepository", Right.HARVEST, body=RepositoryChange)
async def _change(call: Call) -> RepositoryOut:
    """Change a repository's name, its handling of deleted records, and its mass-change guard."""
    number = (await call.row(Repository, "repository")).repository_id
    columns = call.sent(RepositoryChange).model_dump(exclude_unset=True)

    changed = await call.database.run(lambda session: change_repository(session, number, **columns))
    return await _with_lock(call, changed)


@OPERATIONS.add("DELETE /repositories/{repository}", "removeRepository", Right.HARVEST)
async def _remove(call: Call) -> None:
    """Remove a repository with its schedules, jobs and history; its files are kept."""
    number = (await call.row(Repository, "repository", being_removed=True)).repository_id
    await call.request.config_dict[REMOVALS].remove(number)


@OPERATIONS.add("POST /repositories/{repository}/refresh", "refreshRepository", Right.HARVEST, faults={424})
async def _refresh(call: Call) -> RepositoryOut:
    """Refresh a repository's details, sets and formats."""
    row = await call.row(Repository, "repository")
    facts = await ask_apart(identify_repository, row.base_url, call.settings, protocol=row.protocol)
    await renew_snapshot(call.request)

    def write(session: Session) -> Repository:
        note_facts(session, row.repository_id, facts)
        return session.get_one(Repository, row.repository_id, populate_existing=True)

    return await _with_lock(call, await call.database.run(write))


@OPERATIONS.add("DELETE /repositories/{repository}/lock", "unlockRepository", Right.ADMINISTER, faults={409})
async def _unlock(call: Call) -> None:
    """Clear the locks that keep harvests off a repository, whoever holds them."""
    number = (await call.row(Repository, "repository")).repository_id
    try:
        holders = await call.database.run(clear_locks, number)
    except UsageError as error:
        raise ApiError(409, str(error)) from None
    about(call.request, "repository", number, cleared=holders)


async def _with_lock(call: Call, row: Repository) -> RepositoryOut:
    return _out(call.who, row, await call.database.run(find_lock, row.repository_id))


def _out(who: SignedIn, row: Repository, lock: RepositoryLock | None) -> RepositoryOut:
    address = row.base_url if who.may(Right.HARVEST) else row.display_url
    return RepositoryOut.from_row(row, base_url=address, lock=lock)


@OPERATIONS.add("GET /repositories/{repository}/formats", "listFormats", Right.LOOK)
async def _formats(call: Call) -> Formats:
    """List a repository's metadata formats."""
    row = await call.row(Repository, "repository")
    found = await call.database.run(formats_of, row.repository_id)
    return Formats(items=[FormatOut.model_validate(one) for one in found])


@OPERATIONS.add("GET /repositories/{repository}/sets", "listSets", Right.LOOK, query=Paged)
async def _sets(call: Call) -> Page[SetOut]:
    """List a repository's sets by setSpec."""
    row = await call.row(Repository, "repository")
    find = partial(sets_of, repository_id=row.repository_id)
    return await list_page(call, find, SetOut.model_validate, kind=str, after=lambda one: one.set_spec)


class ProbeBody(In):
    """The address to probe."""

    base_url: str = Field(min_length=1, max_length=2000, pattern=r"^(https?|z3950)://[^\s/?#@]+([/?]\S*)?$")
    protocol: AccessProtocol | None = Field(None, description="Null: detected from the URL.")
    query: str | None = Field(
        None, max_length=4096, description="Query for the first records: CQL for SRU, PQF for Z39.50."
    )


class ProbeOut(Out):
    """The answers of a repository to a few requests."""

    base_url: str
    repository_name: str | None
    granularity: str | None
    deleted_record: str | None
    earliest_datestamp: str | None
    formats: list[str]
    sets: list[str] = Field(description="Of the first page.")
    identifiers: list[str] = Field(description="Metadata format of the first records.")
    failures: dict[str, str] = Field(description="Errors by verb.")
    odd: list[str] = Field(description="Irregularities in the answer.")


@OPERATIONS.add("POST /probe", "probe", Right.HARVEST, body=ProbeBody, faults={424})
async def _probe(call: Call) -> ProbeOut:
    """Inspect any repository without storing data: Identify, formats, sets, first records."""
    asked = call.sent(ProbeBody)
    try:
        protocol = protocol_of(asked.base_url, asked.protocol)
        access_of(protocol).check(asked.query)
        base_url = check_base_url(asked.base_url, protocol)
        looked = await ask_apart(look, base_url, call.settings, protocol=protocol, set_spec=asked.query or "")
    except (UsageError, SettingsError) as error:
        raise ApiError(422, str(error)) from None
    found = looked.findings
    facts: Any = found.identity
    return ProbeOut(
        base_url=found.base_url,
        repository_name=facts.repository_name if facts else None,
        granularity=facts.granularity if facts else None,
        deleted_record=facts.deleted_record if facts else None,
        earliest_datestamp=facts.earliest_datestamp if facts else None,
        formats=[one.metadata_prefix for one in found.formats],
        sets=[one.set_spec for one in found.sets.sets] if found.sets else [],
        identifiers=[one.header.identifier for one in found.page.records] if found.page else [],
        failures={verb: str(error) for verb, error in found.failures.items()},
        odd=list(looked.odd),
    )

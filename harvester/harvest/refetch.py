"""Fetches one unreadable record again by itself, reads it as its harvest would, and stores it."""

import asyncio
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from enum import StrEnum
from typing import Final

from sqlalchemy import update
from sqlalchemy.orm import Session

from harvester import repositories
from harvester.access import access_of
from harvester.client.probe import Watching
from harvester.client.repository_client import Client
from harvester.client.transport import open_transport
from harvester.harvest import approval, checkpoint
from harvester.harvest.checkpoint import only_harvest
from harvester.harvest.mass_change_guard import MassChangeGuard
from harvester.harvest.models import Quarantined
from harvester.harvest.page_writer import PageWriter
from harvester.harvest.preparation import check_wait, choose_layout
from harvester.harvest.quarantine import open_quarantine
from harvester.harvest.quota import open_quota
from harvester.harvest.request import HarvestRequest
from harvester.harvest.transform import RecordBatch
from harvester.isolated import isolated
from harvester.reading.errors import ClientError
from harvester.reading.repairs import Repair
from harvester.rules.rule_limits import RuleLimits
from harvester.rules.validation import open_validator
from harvester.store import deletions
from harvester.store.deletions import DeletionTarget
from harvester.store.files import FileStore
from harvester.store.records import RunKey
from harvester.store.versions import VersionKeeper
from harvester.vocabulary import Level
from oai.database import Database
from oai.datestamps import utc_now
from oai.disk import open_floor
from oai.errors import StrictCheckError, UsageError
from oai.settings import Settings
from oai.vocabulary import Verb

_TRIES: Final = 0
_ALL: Final = 100.0
"""Percentage: whoever requests a single record has approved what becomes of it."""


class RefetchState(StrEnum):
    """What became of the record."""

    BROKEN = "broken"
    """It still cannot be read, or is still refused."""
    READABLE = "readable"
    """It can be read; storing it was not requested."""
    STORED = "stored"
    UNCHANGED = "unchanged"
    """The store already contains it in this form."""
    DELETED = "deleted"
    """The repository reports it as deleted, and it is now deleted in the store."""
    FILTERED = "filtered"
    """It can be read, and the filter rules exclude it."""


@dataclass(frozen=True, kw_only=True)
class Refetched:
    """The result: the answer's bytes, decompressed, and what is wrong with them, if anything."""

    fate: RefetchState
    url: str
    raw: bytes = b""
    seconds: float = 0.0
    reason: str = ""
    notes: tuple[str, ...] = ()
    """Oddities of the answer that did not affect the record."""

    @property
    def reads_well(self) -> bool:
        """Whether the fault is gone."""
        return self.fate is not RefetchState.BROKEN


async def fetch_again(
    database: Database, settings: Settings, error: Quarantined, request: HarvestRequest, *, store: bool
) -> Refetched:
    """Request the record of a quarantine entry by GetRecord and, if it can be read, resolve the entry.

    `request` has the rules of the record's harvest. With `store`, they decide how the record is stored;
    commits by itself. Raises UsageError if no identifier is known, TryLaterError if the repository asked for
    a longer wait or is being harvested, and ServerBusyError.
    """
    if not error.identifier:
        raise UsageError(
            "the identifier of rejected record %(number)s is not known, so it cannot be requested",
            number=error.quarantine_id,
        )
    request.check()
    base_url, repairs = await asyncio.to_thread(_repository, database, request.repository_id)
    asked = settings.interactive.model_copy(update={"database_url": None})
    limits = asked.harvester.limits
    batch, fetched = await isolated(
        ask_for_record, base_url, asked, request, error.identifier, repairs, url=base_url, limits=limits
    )
    if batch is None or batch.refused:
        await asyncio.to_thread(_note_still_broken, database, error.quarantine_id)
        return fetched
    if not store:
        return replace(fetched, fate=RefetchState.READABLE)
    return replace(fetched, fate=await asyncio.to_thread(_take_in, database, settings, request, batch))


async def ask_for_record(
    base_url: str,
    settings: Settings,
    request: HarvestRequest,
    identifier: str,
    repairs: tuple[Repair, ...] = (),
) -> tuple[RecordBatch | None, Refetched]:
    """Return the record, prepared for the store, or None; and the result, marked as broken so far."""
    batch: RecordBatch | None = None
    notes: tuple[str, ...] = ()
    reason = ""
    ours = settings.harvester
    async with open_transport(ours) as transport:
        watching = Watching(transport)
        client = Client(
            base_url,
            watching,
            limits=ours.limits,
            repairs=repairs,
            retries=_TRIES,
            max_wait=ours.max_wait,
            max_wait_total=ours.max_wait_total,
        )
        try:
            batch, notes = await _read(client, settings, request, identifier)
        except (ClientError, StrictCheckError) as fault:
            reason = str(fault)
    if batch is not None:
        reason = "; ".join(refusal.reason for refusal in batch.refused)
    # Very strict validation asks for the formats after the record.
    answers = [exchange.reply for exchange in watching.exchanges if exchange.verb == Verb.GET_RECORD]
    last = answers[-1] if answers else None
    return batch, Refetched(
        fate=RefetchState.BROKEN,
        url=last.url if last else client.base_url,
        raw=last.body if last else b"",
        seconds=sum(exchange.seconds for exchange in watching.exchanges),
        reason=reason,
        notes=notes,
    )


async def _read(
    client: Client, settings: Settings, request: HarvestRequest, identifier: str
) -> tuple[RecordBatch, tuple[str, ...]]:
    """Return the record, prepared for the store. Raises ClientError and StrictCheckError."""
    transformer = request.transformer(RuleLimits(seconds=settings.harvester.rule_seconds), data=settings.data)
    loose = request.validation is Level.LOOSE
    record = await client.get_record(identifier, request.metadata_prefix, loose=loose)
    if record.header.identifier != identifier:
        raise StrictCheckError(f"the answer has the record {record.header.identifier!r}")
    entries = [(record.header, record.element)]
    if request.validation is Level.VERY_STRICT:
        validator = await open_validator(client, settings, request.metadata_prefix)
        transformer = replace(transformer, validator=validator)
    return await transformer.prepare_page(entries, url=client.base_url), record.notes


def _repository(database: Database, repository_id: int) -> tuple[str, tuple[Repair, ...]]:
    """Return the address of a repository, and what is repaired in its records."""
    with database.session() as session:
        repository = repositories.get_repository(session, repository_id)
        check_wait(repository, utc_now())
        if access_of(repository.protocol).query is not None:
            raise UsageError(
                "records of repository %(number)s cannot be requested one by one; harvest it again",
                number=repository_id,
            )
        return repository.base_url, tuple(map(Repair, repository.repairs))


def _note_still_broken(database: Database, quarantine_id: int) -> None:
    with database.session() as session:
        entry = update(Quarantined).where(Quarantined.quarantine_id == quarantine_id)
        session.execute(entry.values(last_seen=datetime.now(UTC)))
        session.commit()


def _take_in(
    database: Database, settings: Settings, request: HarvestRequest, batch: RecordBatch
) -> RefetchState:
    """Store the record while no harvest of the repository runs, and resolve its quarantine entries."""
    now = datetime.now(UTC)
    with only_harvest(database, request.repository_id):
        fate = RefetchState.FILTERED if batch.passed_over else _store(database, settings, request, batch, now)
        keys = [*batch.passed_over, *(record.key for record in batch.records)]
        with database.session() as session:
            open_quarantine(session, request, run_started=now).release(session, keys, now=now)
            session.commit()
    return fate


def _store(
    database: Database, settings: Settings, request: HarvestRequest, batch: RecordBatch, now: datetime
) -> RefetchState:
    with database.session() as session:
        repository = repositories.get_repository(session, request.repository_id)
        target = approval.deletion_target(repository, settings, request.metadata_prefix)
        guard = _open_guard(session, request, target, now)
        layout = choose_layout(session, request, repository)
        quota = open_quota(session, request.repository_id, settings)
        # Leaving the inner block makes the files durable, before their rows are committed.
        with FileStore(target.folder) as files:
            writer = PageWriter(
                store=files,
                repository_id=request.repository_id,
                layout=layout,
                guard=guard,
                floor=open_floor(settings, target.folder),
                quota=quota,
                versions=VersionKeeper(run=guard.run, left=settings.harvester.keep_versions),
            )
            counts = writer.take(session, batch, now=now)
        if quota is not None:
            quota.save(session)
        session.commit()
    if counts["deleted"]:
        deletions.apply_staged(database, guard.run, target)
    if counts["deleted"] or counts["tombstones"]:
        return RefetchState.DELETED
    return RefetchState.UNCHANGED if counts["unchanged"] else RefetchState.STORED


def _open_guard(
    session: Session, request: HarvestRequest, target: DeletionTarget, now: datetime
) -> MassChangeGuard:
    """Return a guard that allows one record; the change feed lists it as a run of its own."""
    harvest = checkpoint.find(session, request)
    if harvest is None:
        raise UsageError(
            "the format %(prefix)s of repository %(repository_id)s is not harvested yet; harvest it first",
            prefix=request.metadata_prefix,
            repository_id=request.repository_id,
        )
    run = RunKey(harvest_id=harvest.harvest_id, run_started=now)
    return MassChangeGuard(
        run=run,
        target=target,
        set_spec=request.set_spec,
        deletions_allowed=_ALL,
        updates_allowed=None,
        minimum=1,
        finds_disappeared=False,
        any_staged=deletions.any_staged(session, run),
    )

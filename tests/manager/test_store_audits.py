"""Stores are audited by workers, on a schedule or on request; what they find is stored and reported."""

import asyncio
import hashlib
import json
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from sqlalchemy import update
from sqlalchemy.orm import Session

from harvester.harvest.checkpoint import is_held, only_harvest
from harvester.models import Record, Repository
from harvester.store.audit import Auditor
from harvester.store.models import StoreAudit
from harvester.store.paths import identifier_key
from manager import queue, store_audits
from manager.health import read_figures, registry_of
from manager.models import StoreAuditSchedule
from manager.notices.announcements import announce_audits
from manager.notices.letters import render
from oai.database import Database
from oai.errors import UsageError
from oai.probes import server_state
from oai.sections import HarvesterSettings
from oai.settings import Settings
from tests.commands import zatva
from tests.manager.conftest import Tables, manager_process, managing, until

_CONTENT = b"<record/>"
_WORKER = ("tests.manager.manager_process", "worker")


@dataclass(frozen=True, kw_only=True)
class Store:
    """A repository with two stored records."""

    repository_id: int
    folder: Path

    def damage(self) -> None:
        (self.folder / "1.xml").write_bytes(b"<recorD/>")


def make_store(session: Session, settings: Settings, name: str = "telc") -> Store:
    repository = Repository(base_url=f"https://{name}.example/oai", base_dir=name, repository_name=name)
    session.add(repository)
    session.flush()
    folder = settings.store / name
    folder.mkdir(parents=True)
    for number in (1, 2):
        (folder / f"{number}.xml").write_bytes(_CONTENT)
        session.add(
            Record(
                repository_id=repository.repository_id,
                identifier=f"oai:{name}:{number}",
                identifier_key=identifier_key(f"oai:{name}:{number}"),
                filename=f"{number}.xml",
                digest=hashlib.sha256(_CONTENT).digest(),
                datestamp="2026-01-01",
                metadata_prefix="oai_dc",
            )
        )
    session.flush()
    return Store(repository_id=repository.repository_id, folder=folder)


@pytest.fixture
def store(database: Database, settings: Settings) -> Store:
    with database.session() as session:
        made = make_store(session, settings)
        session.commit()
    return made


def schedule(database: Database, repository_id: int | None, *, due: bool = True) -> int:
    with database.session() as session:
        row = store_audits.set_schedule(session, repository_id=repository_id, frequency="daily at 02:00")
        if due:
            row.next_due = datetime(2026, 1, 1, tzinfo=UTC)
        session.commit()
        return row.schedule_id


def queue_due(database: Database) -> list[int]:
    with database.session() as session:
        queued = store_audits.queue_due(session)
        session.commit()
    return queued


def audited(database: Database, store: Store) -> StoreAudit:
    """Audit the store completely in this process, and return the row of the audit."""
    audit = Auditor(database=database, repository_id=store.repository_id, folder=store.folder).run()
    with database.session() as session:
        return session.get_one(StoreAudit, audit.audit_id)


async def test_an_audit_that_is_due_runs_and_reports_a_damaged_file(
    quick: Settings, database: Database, tables: Tables, store: Store, environment: dict[str, str]
) -> None:
    store.damage()
    tables.ask_for_notices()
    schedule(database, None)
    async with managing(quick, database):
        await until(lambda: tables("SELECT FROM oai_store_audit WHERE announced IS NOT NULL"))
        await until(lambda: tables.one("SELECT count(*) FROM procrastinate_jobs") == 0)
    (row,) = tables("SELECT * FROM oai_store_audit")
    assert (row.state, row.files, row.missing, row.altered, row.stray) == ("done", 2, 0, 1, 0)
    assert (row.failure_code, row.findings[0]["path"]) == ("store_damaged", "1.xml")
    assert row.host
    assert tables.one("SELECT next_due > now() FROM oai_store_audit_schedule")
    (notice,) = tables("SELECT occasion, facts FROM notice")
    letter = render(notice.occasion, "en", notice.facts, dashboard="https://zatva.example")
    assert "- altered: 1.xml" in letter.body
    assert f"https://zatva.example/store-audits/{row.audit_id}" in letter.body
    unreadable = {**notice.facts, "findings": [{"kind": "unreadable", "path": "2.xml"}]}
    assert "- nelze přečíst: 2.xml" in render(notice.occasion, "cs", unreadable, dashboard="").body
    shown = zatva(environment, "store", "audit", "show", str(row.audit_id), "--json")
    assert (shown.returncode, json.loads(shown.stdout)["altered"]) == (3, 1)


async def test_the_audit_of_a_killed_worker_fails_and_the_next_audit_runs(
    quick: Settings, database: Database, tables: Tables, store: Store, quick_environment: dict[str, str]
) -> None:
    schedule(database, store.repository_id)
    queue_due(database)
    with database.engine.connect() as blocker:
        blocker.exec_driver_sql("LOCK TABLE oai_record IN ACCESS EXCLUSIVE MODE")
        async with manager_process(quick_environment, *_WORKER) as process:
            await until(lambda: tables("SELECT FROM oai_store_audit WHERE state = 'running'"))
            process.kill()
            await asyncio.to_thread(process.wait)
    async with managing(quick, database):
        await until(lambda: tables("SELECT FROM oai_store_audit WHERE ended IS NOT NULL"))
        tables("UPDATE oai_store_audit_schedule SET next_due = now()")
        await until(lambda: tables("SELECT FROM oai_store_audit WHERE state = 'done'"))
    lost, complete = tables(
        "SELECT state, failure_code, failure_facts FROM oai_store_audit ORDER BY audit_id"
    )
    assert tuple(lost) == ("failed", "store_audit_incomplete", {"said": "its worker is lost"})
    assert (complete.state, complete.failure_code) == ("done", None)


def test_a_store_that_is_being_harvested_is_not_reported_as_damaged(
    database: Database, tables: Tables, store: Store
) -> None:
    tables.ask_for_notices()
    (store.folder / "new.xml").write_bytes(b"<new/>")

    def commit(_seconds: float) -> None:
        with database.session() as session:
            new = {"filename": "new.xml", "digest": hashlib.sha256(b"<new/>").digest()}
            session.execute(update(Record).where(Record.filename == "1.xml").values(new))
            session.commit()
        (store.folder / "1.xml").unlink()

    with database.session() as session:
        audit_id = store_audits.queue_audit(session, store.repository_id)
        store_audits.claim(session, audit_id, "here")
        session.commit()
    with only_harvest(database, store.repository_id):
        Auditor(
            database=database,
            repository_id=store.repository_id,
            folder=store.folder,
            audit_id=audit_id,
            busy=lambda: is_held(database, store.repository_id),
            sleep=commit,
        ).run()
    with database.session() as session:
        assert announce_audits(session) == 1
        session.commit()
    (row,) = tables("SELECT state, failure_code, findings FROM oai_store_audit")
    assert tuple(row) == ("done", None, [])
    assert tables.notices() == []


def test_the_schedule_of_all_stores_skips_repositories_with_their_own_schedule(
    database: Database, settings: Settings, tables: Tables, store: Store
) -> None:
    with database.session() as session:
        other = make_store(session, settings, "brno")
        session.commit()
    schedule(database, store.repository_id, due=False)
    schedule(database, None)
    assert len(queue_due(database)) == 1
    assert tables.one("SELECT repository_id FROM oai_store_audit") == other.repository_id


def test_a_repository_has_one_open_audit(database: Database, tables: Tables, store: Store) -> None:
    schedule(database, store.repository_id)
    assert len(queue_due(database)) == 1
    schedule(database, store.repository_id)
    assert queue_due(database) == []
    with database.session() as session, pytest.raises(UsageError, match="already queued or running"):
        store_audits.queue_audit(session, store.repository_id)
    assert tables.one("SELECT count(*) FROM procrastinate_jobs") == 1


def test_missed_times_are_made_up_for_by_one_audit(database: Database, store: Store) -> None:
    schedule(database, store.repository_id)
    assert len(queue_due(database)) == 1
    assert queue_due(database) == []


def test_an_audit_that_was_planned_while_the_clock_was_ahead_is_planned_again(
    database: Database, tables: Tables, store: Store
) -> None:
    schedule(database, store.repository_id, due=False)
    schedule(database, None, due=False)
    planned = "SELECT next_due FROM oai_store_audit_schedule ORDER BY schedule_id"
    before = [row.next_due for row in tables(planned)]
    tables(
        "UPDATE oai_store_audit_schedule SET next_due = next_due + interval '1 year' WHERE schedule_id = 1"
    )
    with database.session() as session:
        store_audits.replan_after_wrong_clock(session)
        session.commit()
    after = [row.next_due for row in tables(planned)]
    assert (len(before), [later - due for later, due in zip(after, before, strict=True)]) == (
        2,
        [timedelta(0)] * 2,
    )


def test_an_invalid_schedule_queues_no_audits(database: Database, tables: Tables, store: Store) -> None:
    tables.add("oai_store_audit_schedule", repository_id=store.repository_id, frequency="now and then")
    assert queue_due(database) == []
    assert tables.one("SELECT next_due FROM oai_store_audit_schedule") is None


def test_an_audit_whose_worker_ends_normally_is_queued_again(
    database: Database, tables: Tables, store: Store
) -> None:
    with database.session() as session:
        audit_id = store_audits.queue_audit(session, store.repository_id)
        session.commit()
        tables("DELETE FROM procrastinate_jobs")
        assert store_audits.claim(session, audit_id, "here")
        assert not store_audits.claim(session, audit_id, "there")
        store_audits.give_back(session, audit_id, "the worker ended", at_fault=False)
        session.commit()
        assert queue.lost_audits(session, lost_seconds=3) == []
    assert tables.one("SELECT state FROM oai_store_audit") == "queued"


def test_an_audit_without_a_task_is_settled_as_failed_and_announced(
    database: Database, tables: Tables, store: Store
) -> None:
    tables.ask_for_notices()
    with database.session() as session:
        audit_id = store_audits.queue_audit(session, store.repository_id)
        session.commit()
        tables("DELETE FROM procrastinate_jobs")
        assert store_audits.settle_lost(session, lost_seconds=3) == [audit_id]
        assert announce_audits(session) == 1
        session.commit()
    assert tables.notices() == [("store audit", "the audit of the store did not finish: its worker is lost")]


def test_an_audit_of_an_earlier_version_is_announced_with_its_findings(
    database: Database, tables: Tables, store: Store
) -> None:
    tables.ask_for_notices()
    tables.add("oai_store_audit", repository_id=store.repository_id, started="now", ended="now", missing=2)
    with database.session() as session:
        announce_audits(session)
        session.commit()
    assert tables.one("SELECT state FROM oai_store_audit") == "done"
    assert tables.notices() == [("store audit", "files of the store: 2 missing, 0 altered, 0 stray")]


def test_metrics_show_the_last_complete_audit(database: Database, tables: Tables, store: Store) -> None:
    store.damage()
    complete = audited(database, store)
    tables.add(
        "oai_store_audit", repository_id=store.repository_id, started="now", ended="now", state="failed"
    )
    with database.session() as session:
        figures, server = read_figures(session), server_state(session)
    registry = registry_of(figures, HarvesterSettings(), server=server, leads=True)
    number = str(store.repository_id)
    assert complete.ended is not None
    found = registry.get_sample_value("zatva_store_audit_findings", {"repository": number, "kind": "altered"})
    stray = registry.get_sample_value("zatva_store_audit_findings", {"repository": number, "kind": "stray"})
    last = registry.get_sample_value("zatva_store_audit_last_timestamp_seconds", {"repository": number})
    assert (found, stray, last) == (1, None, complete.ended.timestamp())


def test_the_command_lists_sets_and_removes_schedules(
    environment: dict[str, str], database: Database, store: Store
) -> None:
    done = zatva(environment, "store", "audit", "schedule", "set", "--frequency", "weekly", "--json")
    number = json.loads(done.stdout)["schedule_id"]
    with database.session() as session:
        assert session.get_one(StoreAuditSchedule, number).repository_id is None
    queued = zatva(environment, "store", "audit", "run", str(store.repository_id), "--json")
    listed = zatva(environment, "store", "audit", "list", "--json")
    assert json.loads(listed.stdout)["audit_id"] == json.loads(queued.stdout)["audit_id"]
    assert zatva(environment, "store", "audit", "schedule", "remove", str(number)).returncode == 0
    gone = zatva(environment, "store", "audit", "schedule", "remove", str(number))
    assert (gone.returncode, "no audit schedule" in gone.stderr) == (2, True)

"""What is stored of records and answers that could not be read."""

from datetime import UTC, datetime, timedelta

from sqlalchemy import inspect, select

from harvester.harvest.models import Quarantined
from harvester.harvest.quarantine import get_quarantined, open_quarantine, quarantined, unread_parts
from harvester.harvest.request import HarvestRequest
from harvester.harvest.transform import Refusal
from harvester.listing import find_errors
from harvester.models import History
from harvester.repositories import add_repository
from harvester.store.paths import identifier_key
from oai.database import Database
from oai.failures import Failure, FailureCode
from tests.harvester.library import Library

NOW = datetime(2024, 6, 1, tzinfo=UTC)
BROKEN = Failure(code=FailureCode.RECORD_XML)


def test_large_bytes_are_truncated_and_their_size_is_stored(database: Database) -> None:
    with database.session() as session:
        repository = add_repository(session, base_url="http://x/oai", base_dir="x")
        request = HarvestRequest(repository_id=repository.repository_id)
        quarantine = open_quarantine(session, request, run_started=NOW)
        assert not quarantine.occupied
        large = Refusal(reason="large", url="http://x/", raw=b"x" * 3_000_000, failure=BROKEN)
        quarantine.add(session, [large], now=NOW)
        kept = session.scalars(select(Quarantined)).one()
        assert (len(kept.raw), kept.raw_size) == (1_000_000, 3_000_000)
        assert open_quarantine(session, request, run_started=NOW).occupied


def test_the_same_fault_is_stored_once_and_characters_that_no_database_accepts_are_replaced(
    database: Database,
) -> None:
    with database.session() as session:
        repository = add_repository(session, base_url="http://x/oai", base_dir="x")
        quarantine = open_quarantine(
            session, HarvestRequest(repository_id=repository.repository_id), run_started=NOW
        )
        reason = "nul \0 and \udcff"
        bad = Refusal(reason=reason, url="http://x/", identifier="oai:x:\0", raw=b"\0", failure=BROKEN)
        quarantine.add(session, [bad, bad], now=NOW)
        quarantine.add(session, [bad], now=NOW)
        (kept,) = quarantined(session, repository_id=repository.repository_id)
        assert kept.identifier == "oai:x:␀"
        assert session.scalars(select(Quarantined.raw)).all() == [b"\0"]
        assert quarantined(session, history_id=12345) == []


def test_a_whole_answer_that_fails_again_is_kept_once_with_its_latest_bytes(database: Database) -> None:
    with database.session() as session:
        repository = add_repository(session, base_url="http://x/oai", base_dir="x")
        request = HarvestRequest(repository_id=repository.repository_id)
        quarantine = open_quarantine(session, request, run_started=NOW)
        for token in ("1", "2"):
            url = f"http://x/oai?verb=ListRecords&resumptionToken={token}"
            bad = Refusal(reason="bad", url=url, raw=token.encode(), failure=BROKEN, whole=True)
            quarantine.add(session, [bad], now=NOW)
        part = Refusal(reason="bad", url=url, raw=b"3", failure=BROKEN)
        quarantine.add(session, [part], now=NOW)
        assert sorted(session.scalars(select(Quarantined.raw))) == [b"2", b"3"]


def test_lists_of_errors_do_not_load_the_bytes_and_one_entry_does(database: Database) -> None:
    with database.session() as session:
        repository = add_repository(session, base_url="http://x/oai", base_dir="x")
        request = HarvestRequest(repository_id=repository.repository_id)
        unlisted = Failure(code=FailureCode.LIST_PARTLY_READ, facts={"range": "2024-01-01…"})
        quarantine = open_quarantine(session, request, run_started=NOW)
        quarantine.add(
            session,
            [
                Refusal(
                    reason="bad", url="http://x/", identifier=str(failure.code), raw=b"x", failure=failure
                )
                for failure in (BROKEN, unlisted)
            ],
            now=NOW,
        )
        run = History(repository_id=repository.repository_id, status="completed", harvest_start_time=NOW)
        session.add(run)
        session.flush()
        quarantine.close(session, history_id=run.history_id, complete=True, now=NOW)
        session.expunge_all()

        unread = unread_parts(session, repository.repository_id, most=10)
        lists = [
            find_errors(session, limit=10, run=run.history_id),
            quarantined(session),
            [*unread.latest, *([unread.unlisted] if unread.unlisted else [])],
        ]

        assert [len(found) for found in lists] == [2, 2, 2]
        assert [set(inspect(one).unloaded) for found in lists for one in found] == [{"raw"}] * 6
        session.expunge_all()
        assert get_quarantined(session, lists[0][0].quarantine_id).raw == b"x"


def test_entries_resolved_some_days_ago_are_removed(database: Database) -> None:
    with database.session() as session:
        repository = add_repository(session, base_url="http://x/oai", base_dir="x")
        request = HarvestRequest(repository_id=repository.repository_id)
        quarantine = open_quarantine(session, request, run_started=NOW)
        for name in ("old", "new", "open"):
            bad = Refusal(reason="bad", url="http://x/", identifier=name, failure=BROKEN)
            quarantine.add(session, [bad], now=NOW)
        for name, days in (("old", 31), ("new", 29)):
            quarantine.release(
                session, [identifier_key(name).hex], now=datetime.now(UTC) - timedelta(days=days)
            )
        quarantine.prune(session, keep_days=30)
        assert {one.identifier for one in quarantined(session, all_=True)} == {"new", "open"}


def test_a_finished_run_marks_its_own_entries(database: Database) -> None:
    with database.session() as session:
        repository = add_repository(session, base_url="http://x/oai", base_dir="x")
        request = HarvestRequest(repository_id=repository.repository_id)
        for moment, name in ((NOW - timedelta(days=1), "old"), (NOW, "new")):
            quarantine = open_quarantine(session, request, run_started=moment)
            bad = Refusal(reason="bad", url="http://x/", identifier=name, raw=name.encode(), failure=BROKEN)
            quarantine.add(session, [bad], now=moment)
        run = History(repository_id=repository.repository_id, status="completed", harvest_start_time=NOW)
        session.add(run)
        session.flush()
        quarantine.close(session, history_id=run.history_id, complete=True, now=NOW)
        session.expire_all()

        assert [one.identifier for one in quarantined(session, history_id=run.history_id)] == ["new"]
        assert [one.identifier for one in quarantined(session)] == ["new"]
        assert [one.identifier for one in quarantined(session, all_=True)] == ["new", "old"]


def test_a_complete_run_resolves_no_entries_of_other_formats_and_sets(database: Database) -> None:
    with database.session() as session:
        repository = add_repository(session, base_url="http://x/oai", base_dir="x")
        run = History(repository_id=repository.repository_id, status="completed", harvest_start_time=NOW)
        session.add(run)
        session.flush()
        lists = [("a", "b"), ("b", "a"), ("b", "b"), ("b", "c"), ("c", "b")]
        for prefix, set_spec in lists:
            request = HarvestRequest(
                repository_id=repository.repository_id, metadata_prefix=prefix, set_spec=set_spec
            )
            earlier = open_quarantine(session, request, run_started=NOW - timedelta(days=1))
            name = f"{prefix}:{set_spec}"
            earlier.add(
                session,
                [Refusal(reason="bad", url="http://x/", identifier=name, raw=name.encode(), failure=BROKEN)],
                now=NOW,
            )
        request = HarvestRequest(repository_id=repository.repository_id, metadata_prefix="b", set_spec="b")
        ended = open_quarantine(session, request, run_started=NOW)
        ended.close(session, history_id=run.history_id, complete=True, now=NOW)
        session.expire_all()
        left = {one.identifier for one in quarantined(session)}
    assert left == {f"{prefix}:{set_spec}" for prefix, set_spec in lists} - {"b:b"}


async def test_a_harvest_with_a_lower_bound_resolves_no_entries_of_earlier_records(library: Library) -> None:
    def unresolved() -> int:
        with library.database.session() as session:
            return len(session.scalars(select(Quarantined).where(Quarantined.resolved.is_(None))).all())

    library.change_settings(isolation_requests=0)
    library.fake.fault = lambda _, good: good.replace(b"Title 24 ", b"\x01")
    assert (await library.run()).verdict == "partial"
    for _ in range(2):
        assert (await library.run(harvest_floor="2024-01-02")).verdict == "complete"
    assert unresolved() == 1
    library.fake.items.pop()
    assert (await library.run()).verdict == "complete"
    assert unresolved() == 0

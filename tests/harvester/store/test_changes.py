"""The change feed: a reader that follows it misses no change."""

import json
from datetime import UTC, datetime, timedelta

import pytest
from sqlalchemy import text, update

from harvester.store.changes import ChangeLine, prune_changes, read_changes
from harvester.store.models import RecordChange
from harvester.store.paths import identifier_digits
from harvester.store.records import RecordRow, RunKey, write_records
from harvester.vocabulary import Change, RecordStatus
from oai.database import Database
from oai.errors import UsageError
from tests.harvester.fake_repository import Item
from tests.harvester.library import Library

RUN = RunKey(harvest_id=1, run_started=datetime(2024, 6, 1, tzinfo=UTC))


def write(session: object, library: Library, *identifiers: str) -> None:
    rows = [
        RecordRow(
            record_id=None,
            key=identifier_digits(identifier),
            identifier=identifier,
            filename=None,
            datestamp="2024-01-01",
            status=RecordStatus.ACTIVE,
            change=Change.NEW,
            digest=None,
            set_specs=(),
        )
        for identifier in identifiers
    ]
    write_records(
        session,  # type: ignore[arg-type]  # a Session
        rows,
        repository_id=library.repository_id,
        metadata_prefix="oai_dc",
        now=datetime.now(UTC),
        feed_run=RUN,
    )


def read(database: Database, since: int = 0) -> list[ChangeLine]:
    with database.session() as session:
        return list(read_changes(session, since=since))


async def test_each_new_updated_and_deleted_record_is_reported_once_and_unchanged_ones_are_not(
    library: Library,
) -> None:
    await library.run()
    first = read(library.database)
    assert [line.change for line in first] == ["new"] * 25
    library.fake.items[4] = Item(
        identifier="oai:fake.example:4", title="Newer", datestamp="2024-06-02T00:00:00Z"
    )
    library.delete(9)
    await library.run(full=True)
    second = read(library.database, since=first[-1].change_id)
    assert {(line.identifier, line.change, line.filename, line.datestamp) for line in second} == {
        ("oai:fake.example:4", "updated", "fake.example/4.xml", "2024-06-02T00:00:00Z"),
        ("oai:fake.example:9", "deleted", None, "2024-06-02T00:00:00Z"),
    }


async def test_a_reader_misses_no_changes_of_transactions_that_commit_out_of_order(library: Library) -> None:
    seen: list[str] = []
    place = 0

    def follow() -> None:
        nonlocal place
        for line in read(library.database, since=place):
            seen.append(line.identifier)
            place = line.change_id

    with library.database.session() as older, library.database.session() as younger:
        older.execute(text("SELECT pg_current_xact_id()"))
        write(younger, library, "younger:1")
        write(older, library, "older:1")
        follow()
        older.commit()
        follow()
        write(older, library, "third:1")
        older.commit()
        follow()
        assert seen == ["older:1"], "what came after the one still under way has to wait"
        write(younger, library, "younger:2")
        younger.commit()
        follow()
    assert seen == ["older:1", "younger:1", "younger:2", "third:1"]


async def test_changes_can_be_listed_for_one_repository_and_for_one_run(library: Library) -> None:
    await library.run()
    library.delete(9)
    await library.run(full=True)
    code, out, _ = await library.command("job", "changes", "--run", "2", "--json")
    assert code == 0
    assert [json.loads(line)["identifier"] for line in out.splitlines()] == ["oai:fake.example:9"]
    code, out, _ = await library.command("job", "changes", "--run", "1", "--since", "23")
    assert [line.split()[-1] for line in out.splitlines()] == ["oai:fake.example:23", "oai:fake.example:24"]
    for wrong, words in (((), "no repository 99"), (("--run", "1"), "run 1 is of repository 1, not 99")):
        code, out, err = await library.command("job", "changes", "--repository", "99", *wrong)
        assert (code, out, words in err) == (2, "", True), err
    code, out, _ = await library.command("job", "changes", "--repository", "1", "--since", "24")
    assert [line.split()[-1] for line in out.splitlines()] == ["oai:fake.example:24", "oai:fake.example:9"]


async def test_changes_are_kept_for_some_days_and_a_reader_who_is_too_late_gets_an_error(
    library: Library,
) -> None:
    await library.run()
    old = datetime.now(UTC) - timedelta(days=31)
    with library.database.session() as session:
        session.execute(update(RecordChange).where(RecordChange.change_id <= 20).values(changed=old))
        session.commit()
    assert prune_changes(library.database, keep_days=30) == 19
    assert len(read(library.database)) == 6
    with pytest.raises(UsageError, match="change 7 is no longer kept"):
        read(library.database, since=7)


async def test_the_newest_old_change_stays_for_readers_who_have_read_all(library: Library) -> None:
    await library.run()
    old = datetime.now(UTC) - timedelta(days=31)
    with library.database.session() as session:
        session.execute(update(RecordChange).values(changed=old))
        session.commit()
    assert prune_changes(library.database, keep_days=30) == 24
    assert prune_changes(library.database, keep_days=30) == 0
    assert read(library.database, since=25) == []
    library.delete(9)
    await library.run()
    assert [line.identifier for line in read(library.database, since=25)] == ["oai:fake.example:9"]


async def test_with_zero_days_to_keep_there_is_no_feed(library: Library) -> None:
    library.change_settings(keep_changes=0)
    await library.run()
    assert read(library.database) == []


async def test_changes_from_another_cluster_precede_our_own(library: Library) -> None:
    await library.run()
    with library.database.session() as session:
        session.execute(update(RecordChange).values(transaction_id=2**40))
        session.commit()
    library.delete(9)
    await library.run(full=True)
    lines = read(library.database)
    assert [line.change for line in lines] == ["new"] * 25 + ["deleted"]
    assert len(read(library.database, since=lines[-2].change_id)) == 1


async def test_changes_from_another_cluster_stay_in_order_if_only_some_numbers_are_above_ours(
    library: Library,
) -> None:
    await library.run()
    with library.database.session() as session:
        session.execute(update(RecordChange).values(transaction_id=2))
        session.execute(update(RecordChange).where(RecordChange.change_id > 20).values(transaction_id=2**40))
        session.commit()
    library.delete(9)
    await library.run(full=True)
    unread = read(library.database, since=20)
    assert [line.change for line in unread] == ["new"] * 5 + ["deleted"]

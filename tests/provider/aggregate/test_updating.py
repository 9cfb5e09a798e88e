"""An update that is killed leaves no partial changes, and the next one completes it."""

import os
import re
import signal
import time
from dataclasses import replace
from urllib.parse import quote

import pytest
from sqlalchemy import text
from sqlalchemy.orm import Session

from oai.database import Database
from provider.aggregate.sources import add_source, find_repository, walk_everything, withdraw_source
from provider.aggregate.update import Updater, notice_unreadable, updater
from tests.commands import Process, results
from tests.plans import work_of
from tests.provider.aggregate.harvested_rows import Harvested
from tests.provider.served import until

pytestmark = pytest.mark.copied_database("rows that plans go through are counted")
RECORDS = 60
MANY = 500
"""So many that no plan goes through all of them to find a few."""
PIECE = 10

SLOWNESS = """
CREATE FUNCTION linger() RETURNS trigger LANGUAGE plpgsql AS
    'BEGIN PERFORM pg_sleep(0.4); RETURN NULL; END';
CREATE TRIGGER slow_statement AFTER INSERT ON aggregate_membership
    FOR EACH STATEMENT EXECUTE FUNCTION linger();
"""
MANY_MEMBERSHIPS = """
WITH other AS (
    INSERT INTO aggregate_record (repository_id, format_id, identifier, identifier_key, harvested_identifier,
        harvested_key, datestamp, harvested_datestamp, harvest_time, deleted, altered, set_ids)
    SELECT 1, 1, n, md5(n::text)::uuid, n, md5(n::text)::uuid, now(), '', now(), true, false, '{}'
    FROM generate_series(1, 5000) AS n
    RETURNING id
)
INSERT INTO aggregate_membership (record_id, set_id, format_id, datestamp)
SELECT id, 1000 + n, 1, now() FROM other CROSS JOIN generate_series(1, 10) AS n
"""
FORMER = """
UPDATE aggregate_record SET identifier = 'oai:former.example:one:oai:one:1',
    identifier_key = gen_random_uuid(), datestamp = '2024-01-01'
WHERE harvested_identifier = 'oai:one:1' RETURNING id
"""
RELEASED = """
WITH harvest AS (
    INSERT INTO oai_harvest (repository_id, metadata_prefix) VALUES (1, 'oai_dc') RETURNING harvest_id
)
INSERT INTO oai_hold (history_id, harvest_id, run_started, kind, state, active, allowed, decided)
SELECT history_id, harvest.harvest_id, now(), 'deletions', 'released', 1, 20, now()
FROM oai_history CROSS JOIN harvest
"""
RESOLVED = """
INSERT INTO oai_quarantine (repository_id, metadata_prefix, fault_key, reason, url, raw, raw_size, last_run,
    resolved)
VALUES (1, 'oai_dc', gen_random_uuid(), 'x', 'http://o/', '', 0, now(), now())
"""
# Stored counts and memberships compared with the records.
FAULTS = """
SELECT 'count', set_id, format_id, records FROM aggregate_count WHERE records <> 0
EXCEPT SELECT 'count', id, format_id, number FROM (
    SELECT own.id, record.format_id, count(*) AS number
    FROM aggregate_record AS record
    JOIN aggregate_source AS source USING (repository_id)
    JOIN aggregate_set AS own ON own.set_spec = source.name
    WHERE record.datestamp < '9999-01-01' GROUP BY 1, 2
    UNION ALL SELECT set_id, format_id, count(*) FROM aggregate_membership GROUP BY 1, 2
) AS counted
UNION ALL
SELECT 'membership', record.id, record.format_id, 0 FROM aggregate_record AS record
LEFT JOIN aggregate_membership AS membership ON membership.record_id = record.id
GROUP BY record.id
HAVING count(membership.set_id) <> CASE WHEN record.datestamp < '9999-01-01' THEN 2 ELSE 0 END
    OR bool_or(membership.datestamp <> record.datestamp)
"""


def test_a_killed_update_leaves_no_partial_changes_and_the_next_one_completes_it(
    harvested: Harvested, environment: dict[str, str], database: Database
) -> None:
    with database.session() as session:
        session.execute(text(SLOWNESS))
        for number in range(RECORDS):
            harvested.write(session, str(number), sets=["a:b"])
        session.commit()
    _kill_during_an_update(environment, database)
    assert _published(database) == 0
    _until_free(database)
    harvested.update()
    assert _published(database) == RECORDS
    with database.session() as session:
        for number in range(0, RECORDS, 2):
            harvested.write(session, str(number), version=1, deleted=number % 4 == 0, sets=["a:b"])
        session.commit()
    _kill_during_an_update(environment, database)
    _until_free(database)
    assert harvested.update() == RECORDS / 2
    assert harvested.update() == 0
    with database.session() as session:
        assert session.execute(text(FAULTS)).all() == []
        assert session.scalar(text("SELECT sum(records) FROM aggregate_count")) == 3 * RECORDS
        deleted = session.scalar(text("SELECT count(*) FROM aggregate_record WHERE deleted"))
    assert deleted == RECORDS / 4


def test_changes_without_feed_are_published_when_the_feed_is_turned_on_again(harvested: Harvested) -> None:
    without_feed = _keeping_changes(harvested, days=0)
    _harvest_without_feed(harvested, "1")
    harvested.update()
    _harvest_without_feed(harvested, "2")
    assert without_feed.update() == 1
    _harvest_without_feed(harvested, "2", version=1)
    _harvest_without_feed(harvested, "3")
    assert harvested.update() == 2
    _harvest_without_feed(harvested, "4")
    assert harvested.update() == 0


@pytest.mark.parametrize("statement", [RELEASED, RESOLVED], ids=["approved", "fetched again"])
def test_without_feed_changes_outside_of_runs_are_published(harvested: Harvested, statement: str) -> None:
    without_feed = _keeping_changes(harvested, days=0)
    _harvest_without_feed(harvested, "1")
    until(lambda: without_feed.update() == 1)
    assert without_feed.update() == 0
    with harvested.database.session() as session:
        harvested.write(session, "1", deleted=True)
        session.execute(text("DELETE FROM oai_change"))
        session.commit()
    assert without_feed.update() == 0
    with harvested.database.session() as session:
        session.execute(text(statement))
        session.commit()
    assert [without_feed.update(), without_feed.update()] == [1, 0]
    with harvested.database.session() as session:
        assert session.scalar(text("SELECT walk FROM aggregate_source")) is None


def test_lines_pruned_under_an_earlier_setting_are_noticed(harvested: Harvested) -> None:
    _write_lines(harvested, "1")
    until(lambda: harvested.update() == 1)
    with harvested.database.session() as session:
        session.execute(text("UPDATE aggregate_feed SET followed = now() - interval '5 days'"))
        session.commit()
    _write_lines(harvested, "2", "3")
    with harvested.database.session() as session:
        session.execute(text("DELETE FROM oai_change WHERE identifier <> 'oai:one:3'"))
        session.commit()
    assert _keeping_changes(harvested, days=30).update() == 2


def test_a_feed_that_was_read_to_its_end_and_pruned_needs_no_comparison(harvested: Harvested) -> None:
    for name in ("1", "2"):
        _write_lines(harvested, name)
        until(lambda: harvested.update() == 1)
    with harvested.database.session() as session:
        session.execute(text("DELETE FROM oai_change WHERE identifier = 'oai:one:1'"))
        session.commit()
    assert harvested.update() == 0
    _write_lines(harvested, "3")
    with updater(harvested.database.engine, harvested.settings) as found:
        assert isinstance(found, Updater)
        with work_of(harvested.database, "oai_record.identifier_key) >") as walks:
            until(lambda: found.run().records == 1)
    assert walks == []


def _write_lines(harvested: Harvested, *names: str) -> None:
    with harvested.database.session() as session:
        _write(harvested, session, *names)


def _keeping_changes(harvested: Harvested, *, days: int) -> Harvested:
    harvester = harvested.settings.harvester.model_copy(update={"keep_changes": days})
    return replace(harvested, settings=harvested.settings.model_copy(update={"harvester": harvester}))


def _harvest_without_feed(harvested: Harvested, name: str, *, version: int = 0) -> None:
    with harvested.database.session() as session:
        harvested.write(session, name, version=version)
        session.execute(text("DELETE FROM oai_change"))
        session.execute(
            text("INSERT INTO oai_history (repository_id, harvest_start_time, status) VALUES (1, now(), 'x')")
        )
        session.commit()


def _kill_during_an_update(environment: dict[str, str], database: Database) -> None:
    slow = {**environment, "ZATVA_PROVIDER__PUBLISH_MARGIN": "1"}
    process = Process(slow, "provider", "aggregate", "update")
    _wait(database, "SELECT count(*) FROM pg_stat_activity WHERE wait_event = 'PgSleep'")
    os.kill(process.pid, signal.SIGKILL)
    assert process.wait() == -signal.SIGKILL


def _until_free(database: Database) -> None:
    """Wait until the server has noticed that the killed process is gone."""
    _wait(
        database,
        "SELECT 1 - count(*) FROM pg_locks WHERE locktype = 'advisory' AND objid = 2053203815"
        " AND database = (SELECT oid FROM pg_database WHERE datname = current_database())",
    )


def _wait(database: Database, condition: str) -> None:
    deadline = time.monotonic() + 60
    with database.session() as session:
        while not session.scalar(text(condition)):
            session.rollback()
            assert time.monotonic() < deadline, condition
            time.sleep(0.02)


def _published(database: Database) -> int:
    with database.session() as session:
        return session.scalar(text("SELECT count(*) FROM aggregate_record")) or 0


def test_changes_are_published_while_a_source_is_walked(harvested: Harvested, database: Database) -> None:
    with database.session() as session:
        for number in range(RECORDS):
            harvested.write(session, str(number))
        session.commit()
    harvested.update()
    with database.session() as session:
        walk_everything(session)
        session.commit()
    seen: list[tuple[bool, int]] = []

    def look() -> None:
        with database.session() as session:
            if len(seen) == 1:
                harvested.write(session, "1", version=1, deleted=True)
                session.commit()
            walking = session.scalar(text("SELECT walk IS NOT NULL FROM aggregate_source"))
            deleted = session.scalar(text("SELECT count(*) FROM aggregate_record WHERE deleted"))
            seen.append((bool(walking), int(deleted or 0)))

    with updater(database.engine, harvested.settings) as found:
        assert isinstance(found, Updater)
        assert replace(found, together=PIECE, check=look).run().records == 1
    assert (True, 1) in seen[:6]
    assert seen[-1] == (False, 1)


def test_adding_a_source_again_leaves_its_records_unchanged(harvested: Harvested, database: Database) -> None:
    with database.session() as session:
        harvested.write(session, "1")
        session.commit()
    harvested.update()

    def add(*, altered: bool | None = None) -> int:
        with database.session() as session:
            add_source(session, find_repository(session, "1"), altered=altered)
            session.commit()
        return harvested.update()

    assert [add(altered=True), add(), add(altered=False), add()] == [1, 0, 1, 0]


def test_only_one_process_updates_the_aggregate_at_a_time(
    harvested: Harvested, environment: dict[str, str]
) -> None:
    with updater(harvested.database.engine, harvested.settings) as mine:
        assert mine is not None
        with updater(harvested.database.engine, harvested.settings) as other:
            assert other is None
    assert results(environment, "provider", "aggregate", "update") == [{"records": 0}]


def test_removing_dropped_or_withdrawn_records_does_not_scan_the_source_per_batch(
    harvested: Harvested,
) -> None:
    _write_many(harvested)
    harvested.update()
    with harvested.database.session() as session:
        session.execute(text("DELETE FROM oai_record WHERE record_id % 2 = 0"))
        walk_everything(session)
        session.commit()
    assert _rows_changed_and_large_scans(harvested) == (MANY / 2, 0), "not harvested any more"
    with harvested.database.session() as session:
        withdraw_source(session, 1)
        session.commit()
    assert _rows_changed_and_large_scans(harvested) == (MANY / 2, 0), "withdrawn"


def _write_many(harvested: Harvested) -> None:
    with harvested.database.session() as session:
        for number in range(MANY):
            harvested.write(session, str(number), sets=["a:b"])
        session.commit()


def _rows_changed_and_large_scans(harvested: Harvested) -> tuple[int, int]:
    """Return how many records an update in small batches changed, and how many statements scanned many rows.

    One statement lists the records to remove, and another one finds none left; both are not counted.
    """
    database = harvested.database
    with (
        work_of(database, "leaving", "deleted IS false") as work,
        updater(database.engine, harvested.settings) as found,
    ):
        assert found is not None
        changed = replace(found, together=PIECE).run().records
    many = sorted(rows for rows in work if rows > 20 * PIECE)
    return changed, len(many) - 2


def test_an_update_does_not_scan_all_memberships(harvested: Harvested) -> None:
    for version in (0, 1):
        with harvested.database.session() as session:
            for number in range(300):
                harvested.write(session, str(number), version=version, sets=["a:b"])
            if version:
                session.execute(text(MANY_MEMBERSHIPS))
            session.commit()
        with work_of(harvested.database, "DELETE FROM aggregate_membership") as work:
            assert harvested.update() == 300
    assert [rows for rows in work if rows > 20 * 300] == []


@pytest.mark.parametrize("known", [True, False])
def test_credentials_in_a_base_url_are_not_published(
    harvested: Harvested, database: Database, *, known: bool
) -> None:
    url = {"url": "http://me:s%40cret@one.example/oai?a=@b"}
    with database.session() as session:
        harvested.write(session, "1")
        session.execute(text("UPDATE oai_repository SET base_url = :url, repository_name = :url"), url)
        if known:  # As an earlier version copied it.
            session.execute(text("UPDATE aggregate_source SET base_url = :url, title = :url"), url)
        session.commit()
    until(lambda: harvested.update() == 1)

    def answer(*pairs: tuple[str, str]) -> bytes:
        return harvested.repository().answer(list(pairs)).body

    records = ("verb", "ListRecords"), ("metadataPrefix", "oai_dc")
    until(lambda: b"<record>" in answer(*records))
    for body in (answer(("verb", "Identify")), answer(("verb", "ListSets")), answer(*records)):
        assert b"http://one.example/oai?a=@b" in body
        assert b"cret" not in body


def test_provenance_names_the_address_from_which_each_record_was_harvested(
    harvested: Harvested, database: Database
) -> None:
    addresses = ["http://o/", "http://me:s%40cret@p.example/", "http://q.example/"]
    for number, address in enumerate(addresses):
        with database.session() as session:
            session.execute(text("UPDATE oai_repository SET base_url = :url"), {"url": address})
            harvested.write(session, str(number))
            session.commit()
        until(lambda: harvested.update() == 1)
    listed = [("verb", "ListRecords"), ("metadataPrefix", "oai_dc")]
    until(lambda: harvested.repository().answer(listed).body.count(b"<record>") == 3)
    named = re.findall("<baseURL>([^<]*)</baseURL>", harvested.repository().answer(listed).body.decode())
    assert named == ["http://o/", "http://p.example/", "http://q.example/"]
    assert "<baseURL>http://q.example/</baseURL>" in _identify(harvested)


@pytest.mark.parametrize(("identifiers", "begin"), [("own", "x"), ("original", "no URI ")])
def test_published_records_keep_their_own_identifiers_when_the_namespace_changes(
    harvested: Harvested, database: Database, identifiers: str, begin: str
) -> None:
    with database.session() as session:
        session.execute(text("UPDATE aggregate_source SET identifiers = :how"), {"how": identifiers})
        _write(harvested, session, *(f"{begin}{number}" for number in (1, 2, 3)))
    until(lambda: harvested.update() == 3)
    later = _in_another_namespace(harvested)
    with database.session() as session:
        harvested.write(session, f"{begin}1", deleted=True)
        harvested.write(session, f"{begin}2", version=1)
        harvested.write(session, f"{begin}3", version=1)
        harvested.write(session, f"{begin}4")
        session.execute(text("DELETE FROM oai_record WHERE identifier LIKE '%3'"))
        session.commit()
    until(lambda: later.update() == 4)
    with database.session() as session:
        walk_everything(session)
        session.commit()
    later.update()
    namespace = harvested.settings.provider.namespace
    name = quote(begin)
    assert _identifiers(database) == [
        (f"oai:{namespace}:one:oai:one:{name}{number}", deleted)
        for number, deleted in ((1, True), (2, False), (3, True), (4, False))
    ]


def test_a_source_published_after_the_namespace_changed_has_the_new_one(
    harvested: Harvested, database: Database
) -> None:
    later = _in_another_namespace(harvested)
    with database.session() as session:
        session.execute(text("UPDATE aggregate_source SET identifiers = 'own'"))
        _write(harvested, session, "1")
    until(lambda: later.update() == 1)
    assert _identifiers(database) == [("oai:other.example:one:oai:one:1", False)]


def test_a_dropped_record_with_a_former_identifier_is_deleted_and_not_unreadable(
    harvested: Harvested, database: Database
) -> None:
    with database.session() as session:
        session.execute(text("UPDATE aggregate_source SET identifiers = 'own'"))
        _write(harvested, session, "1", "2")
    until(lambda: harvested.update() == 2)
    with database.session() as session:  # As an earlier version left it when the namespace changed.
        number = session.execute(text(FORMER)).scalar_one()
        session.execute(text("DELETE FROM oai_record WHERE identifier = 'oai:one:1'"))
        notice_unreadable(session, {number: "gone"})
        session.commit()
    until(lambda: harvested.update() == 1)
    namespace = harvested.settings.provider.namespace
    assert _identifiers(database) == [
        ("oai:former.example:one:oai:one:1", True),
        (f"oai:{namespace}:one:oai:one:2", False),
    ]
    with database.session() as session:
        assert session.scalar(text("SELECT count(*) FROM aggregate_unreadable")) == 0


def test_identify_describes_the_identifiers_that_are_published(
    harvested: Harvested, database: Database
) -> None:
    with database.session() as session:
        session.execute(text("UPDATE aggregate_source SET identifiers = 'own'"))
        _write(harvested, session, "1")
    until(lambda: harvested.update() == 1)
    namespace = harvested.settings.provider.namespace
    body = _in_another_namespace(harvested).repository().answer([("verb", "Identify")]).body.decode()
    assert f"<repositoryIdentifier>{namespace}</repositoryIdentifier>" in body
    assert f"<sampleIdentifier>oai:{namespace}:one:1</sampleIdentifier>" in body


def test_identify_omits_the_identifier_scheme_if_some_identifiers_do_not_follow_it(
    harvested: Harvested, database: Database
) -> None:
    with database.session() as session:
        _write(harvested, session, "1")
    until(lambda: harvested.update() == 1)
    with database.session() as session:
        _add_a_second_source(session, identifiers="own")
    assert "oai-identifier" not in _identify(harvested)
    with database.session() as session:
        withdraw_source(session, 1)
        session.commit()
    until(lambda: harvested.update() == 1)
    with database.session() as session:  # Its former identifiers stay listed as deleted.
        add_source(session, find_repository(session, "1"), identifiers="own")
        session.commit()
    assert "oai-identifier" not in _identify(harvested)


def test_identify_describes_the_scheme_that_all_sources_follow(
    harvested: Harvested, database: Database
) -> None:
    with database.session() as session:
        session.execute(text("UPDATE aggregate_source SET identifiers = 'own'"))
        _add_a_second_source(session, identifiers="own")
        _write(harvested, session, "1")
    until(lambda: harvested.update() == 1)
    namespace = harvested.settings.provider.namespace
    assert f"<sampleIdentifier>oai:{namespace}:one:1</sampleIdentifier>" in _identify(harvested)
    other = _identify(_in_another_namespace(harvested))  # In which the second source will publish.
    assert "oai-identifier" not in other


def test_a_repository_that_is_two_sources_is_listed_once_in_friends(
    harvested: Harvested, database: Database
) -> None:
    with database.session() as session:
        _add_a_second_source(session)
    assert _identify(harvested).count("<baseURL>http://o/</baseURL>") == 1


def _identify(harvested: Harvested) -> str:
    return harvested.repository().answer([("verb", "Identify")]).body.decode()


def _add_a_second_source(session: Session, *, identifiers: str | None = None) -> None:
    session.execute(text("INSERT INTO oai_repository (base_url, base_dir) VALUES ('http://o/', 'two')"))
    add_source(session, find_repository(session, "2"), name="two", identifiers=identifiers)
    session.commit()


def _write(harvested: Harvested, session: Session, *names: str) -> None:
    for name in names:
        harvested.write(session, name)
    session.commit()


def _in_another_namespace(harvested: Harvested) -> Harvested:
    provider = harvested.settings.provider.model_copy(update={"namespace": "other.example"})
    return replace(harvested, settings=harvested.settings.model_copy(update={"provider": provider}))


def _identifiers(database: Database) -> list[tuple[str, bool]]:
    """The published identifiers, and whether each is deleted."""
    with database.session() as session:
        rows = session.execute(text("SELECT identifier, deleted FROM aggregate_record ORDER BY identifier"))
        return [(identifier, deleted) for identifier, deleted in rows]

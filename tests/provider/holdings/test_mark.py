"""All changes dated up to the mark are visible together with the mark, however late transactions commit."""

import random
import threading
import time
from collections import Counter
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from datetime import datetime, timedelta
from pathlib import Path

import pytest
from sqlalchemy import text
from sqlalchemy.orm import Session

from oai.database import Database, open_database
from oai.settings import Settings
from provider.holdings.mark import advance_mark, begin_at_mark, reserve
from provider.holdings.publication import publish
from tests.provider.holdings.replicated import Replicated, replicated
from tests.provider.served import until

PUBLISHERS = 6
# Separate tables, so that the rule is tested and not the archive's tables. A commit takes up to
# three seconds: longer than changes are dated ahead.
TABLES = """
CREATE TABLE published (number bigint GENERATED ALWAYS AS IDENTITY, dated timestamptz NOT NULL);
CREATE TABLE heartbeat (moment timestamptz NOT NULL);
INSERT INTO heartbeat VALUES (clock_timestamp());
CREATE FUNCTION linger_at_times() RETURNS trigger LANGUAGE plpgsql AS
    'BEGIN IF random() < 0.15 THEN PERFORM pg_sleep(1 + 2 * random()); END IF; RETURN NULL; END';
CREATE CONSTRAINT TRIGGER slow_commit AFTER INSERT ON published DEFERRABLE INITIALLY DEFERRED
    FOR EACH ROW EXECUTE FUNCTION linger_at_times();
"""
_LOCKS = """
SELECT count(*) FROM pg_locks WHERE locktype = 'advisory'
    AND database = (SELECT oid FROM pg_database WHERE datname = current_database())
"""
_LOOK = """
SELECT clock_timestamp() AS clock, (SELECT moment FROM heartbeat) AS heartbeat,
    pg_last_xact_replay_timestamp() AS replayed,
    ARRAY(SELECT number FROM published) AS seen
"""


def _now(session: Session) -> datetime:
    moment: datetime = session.execute(text("SELECT clock_timestamp()")).scalar_one()
    return moment


def _mark(database: Database) -> datetime:
    with database.session() as session:
        return begin_at_mark(session)


def test_the_mark_stays_below_an_open_change_until_it_is_committed(database: Database) -> None:
    with database.session() as session, database.session() as other:
        dated = reserve(session, 0.0)
        while _now(other) < dated + timedelta(seconds=1):
            time.sleep(0.1)
        advance_mark(other)
        assert _mark(database) < dated
        session.commit()
        advance_mark(other)
        assert _mark(database) >= dated


def test_a_rolled_back_change_does_not_delay_the_mark(database: Database) -> None:
    with database.session() as session, database.session() as other:
        dated = reserve(session, 0.0)
        session.rollback()
        while _now(other) < dated:
            time.sleep(0.1)
        advance_mark(other)
    assert _mark(database) >= dated


def test_an_idle_publishing_transaction_is_ended_by_the_server(database: Database) -> None:
    with database.session() as session:
        shown = text("SHOW idle_in_transaction_session_timeout")
        before = session.scalar(shown)
        session.rollback()
        reserve(session, 0.0)
        assert session.scalar(shown) == "5min"
        session.rollback()
        assert session.scalar(shown) == before


def test_a_datestamp_is_above_the_mark_where_the_clock_was_set_back(database: Database) -> None:
    with database.session() as session:
        ahead = _now(session).replace(microsecond=0) + timedelta(hours=1)
        session.execute(text("UPDATE publication_mark SET moment = :ahead"), {"ahead": ahead})
        session.commit()
        assert reserve(session, 2.0) == ahead + timedelta(seconds=2)
        session.rollback()
        advance_mark(session)
    assert _mark(database) >= ahead


def test_changes_published_after_the_clock_was_ahead_become_visible(database: Database) -> None:
    with database.session() as session:
        session.execute(text("UPDATE publication_mark SET moment = clock_timestamp() + interval '2 days'"))
        session.commit()
        dated = reserve(session, 0.1)
        session.commit()
    until(lambda: _mark(database) >= dated)


def test_an_error_while_a_datestamp_is_reserved_releases_all_locks(database: Database) -> None:
    with database.session() as session, database.session() as other:
        session.execute(text("DELETE FROM publication_mark"))
        session.commit()
        with pytest.raises(Exception, match="No row"):
            reserve(session, 1.0)
        until(lambda: other.scalar(text(_LOCKS)) == 0)
        # The session continues with another connection.
        assert session.scalar(text("SELECT count(*) FROM publication_mark")) == 0


_LOOKS = pytest.mark.parametrize("looks", [200, pytest.param(5000, marks=pytest.mark.long)])


@pytest.mark.slow
@_LOOKS
def test_every_reader_of_the_mark_sees_all_changes_dated_up_to_it(
    settings: Settings, database: Database, looks: int
) -> None:
    with database.session() as session:
        session.execute(text(TABLES))
        session.commit()
    with open_database(settings, pool_size=PUBLISHERS + 4) as wide:
        broken = _count_missing(wide, _observe(wide, wide, looks))
    assert broken["mark"] == 0
    assert min(broken["clock"], broken["heartbeat"]) > 0  # or nothing was late, and nothing was tested


@pytest.mark.slow
@_LOOKS
def test_readers_of_a_lagging_replica_see_all_changes_dated_up_to_its_mark(
    quick_folder: Path, looks: int
) -> None:
    with replicated(quick_folder) as both:
        with both.primary.session() as session:
            session.execute(text(TABLES))
            session.commit()
        until(lambda: _has_tables(both.replica))
        broken = _count_missing(both.primary, _observe(both.primary, both.replica, looks, both))
    assert broken["mark"] == 0
    assert min(broken["clock"], broken["heartbeat"], broken["replayed"]) > 0


def test_after_a_promotion_changes_are_dated_above_every_mark_that_was_shown(
    quick_folder: Path, caplog: pytest.LogCaptureFixture
) -> None:
    with replicated(quick_folder) as both:
        with both.primary.session() as session:
            ahead = _now(session).replace(microsecond=0) + timedelta(hours=1)
            session.execute(text("UPDATE publication_mark SET moment = :ahead"), {"ahead": ahead})
            session.commit()
            advance_mark(session)
        until(lambda: _mark(both.replica) >= ahead)
        shown = _mark(both.replica)
        both.copies[0].promote()
        with both.copies[0].as_primary() as promoted:
            with promoted.session() as session:
                assert publish(session, lambda dated: dated, margin=1) > shown
                advance_mark(session)
            assert _mark(promoted) >= shown
    (logged,) = [message for message in caplog.messages if "another server is the primary" in message]
    assert "timeline 00000001 is followed by 00000002" in logged


def _has_tables(database: Database) -> bool:
    with database.session() as session:
        return session.scalar(text("SELECT to_regclass('heartbeat')")) is not None


def _count_missing(primary: Database, taken: "Looks") -> Counter[str]:
    """Count, for each horizon, the observations in which a change dated up to it was missing."""
    with primary.session() as session:
        rows = session.execute(text("SELECT number, dated FROM published"))
        dated: dict[int, datetime] = {row.number: row.dated for row in rows}
    broken = Counter[str]()
    for horizons, seen in taken:
        for name, horizon in horizons.items():
            bound = horizon.replace(microsecond=0)
            broken[name] += any(moment <= bound and number not in seen for number, moment in dated.items())
    # The figures are the result of the run.
    print(f"{len(taken)} looks, {len(dated)} changes; broken by horizon: {dict(broken)}")  # noqa: T201
    return broken


Looks = list[tuple[dict[str, datetime], set[int]]]


def _observe(primary: Database, looked_at: Database, looks: int, both: Replicated | None = None) -> Looks:
    """Observe the visible changes while others publish, some of them late, and the replica is delayed."""
    done = threading.Event()

    def keep(step: Callable[[Session, random.Random], None], seed: int) -> None:
        chance = random.Random(seed)
        with primary.session() as session:
            while not done.is_set():
                step(session, chance)

    def hold_up(replica: Replicated) -> None:
        chance = random.Random(99)
        while not done.is_set():
            replica.copies[0].pause()
            time.sleep(chance.random())
            replica.copies[0].resume()
            time.sleep(chance.random())

    with ThreadPoolExecutor(PUBLISHERS + 2) as pool:
        running = [pool.submit(keep, _publish, number) for number in range(PUBLISHERS)]
        running.append(pool.submit(keep, _beat, PUBLISHERS))
        if both is not None:
            running.append(pool.submit(hold_up, both))
        try:
            with looked_at.session() as session:
                taken = [_look(session) for _ in range(looks)]
        finally:
            done.set()
        for one in running:
            one.result()
    return taken


def _publish(session: Session, chance: random.Random) -> None:
    def change(dated: datetime) -> None:
        session.execute(text("INSERT INTO published (dated) VALUES (:dated)"), {"dated": dated})

    publish(session, change, margin=0.6)
    time.sleep(chance.random() * 0.05)


def _beat(session: Session, _chance: random.Random) -> None:
    session.execute(text("UPDATE heartbeat SET moment = clock_timestamp()"))
    session.commit()
    advance_mark(session)  # responses of the primary do this; here, only the replica may be observed
    time.sleep(0.05)


def _look(session: Session) -> tuple[dict[str, datetime], set[int]]:
    mark = begin_at_mark(session)
    row = session.execute(text(_LOOK)).one()
    session.rollback()
    time.sleep(0.01)
    horizons = {"mark": mark, "clock": row.clock, "heartbeat": row.heartbeat, "replayed": row.replayed}
    return {name: moment for name, moment in horizons.items() if moment is not None}, set(row.seen)

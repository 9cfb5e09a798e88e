"""Incremental harvests of the aggregate miss nothing, however slow harvesting and publishing are."""

import random
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field

from lxml import etree
from sqlalchemy import text

from oai.database import Database, open_database
from provider.protocol.repository import Repository
from tests.provider.aggregate.harvested_rows import OAI, Harvested, state_of

WRITERS, NAMES = 3, 12
PASSES = 2
"""Number of updates while records are written."""
MARGIN = 0.3

# Statements are slow, and commits slower than records are dated ahead.
SLOWNESS = """
CREATE FUNCTION linger() RETURNS trigger LANGUAGE plpgsql AS
    'BEGIN PERFORM pg_sleep(random() * 0.2); RETURN NULL; END';
CREATE FUNCTION linger_at_times() RETURNS trigger LANGUAGE plpgsql AS
    'BEGIN IF random() < 0.4 THEN PERFORM pg_sleep(1 + random()); END IF; RETURN NULL; END';
CREATE TRIGGER slow_statement AFTER INSERT OR UPDATE ON aggregate_record
    FOR EACH STATEMENT EXECUTE FUNCTION linger();
CREATE CONSTRAINT TRIGGER slow_commit AFTER UPDATE ON aggregate_feed
    DEFERRABLE INITIALLY DEFERRED FOR EACH ROW EXECUTE FUNCTION linger_at_times();
"""


@dataclass(kw_only=True)
class Replica:
    """The records of an incremental harvester."""

    repository: Repository
    set_spec: str | None
    """A set that has everything, or None."""
    records: dict[str, tuple[bool, str]] = field(default_factory=dict)
    since: str | None = None

    def harvest(self) -> None:
        """Request the changes since the first response of the last harvest, in all pages."""
        asked = [("set", self.set_spec), ("from", self.since)]
        selection = [(name, value) for name, value in asked if value is not None]
        page = self._ask([("metadataPrefix", "oai_dc"), *selection])
        begun = str(page.findtext(f"{OAI}responseDate"))
        while True:
            for record in page.iter(f"{OAI}record"):
                self.records[str(record.findtext(f"{OAI}header/{OAI}identifier"))] = state_of(record)
            token = page.findtext(f".//{OAI}resumptionToken")
            if not token:
                break
            page = self._ask([("resumptionToken", token)])
        self.since = begun

    def _ask(self, pairs: list[tuple[str, str]]) -> etree._Element:
        return etree.fromstring(self.repository.answer([("verb", "ListRecords"), *pairs]).body)


def test_incremental_harvests_of_the_aggregate_miss_no_change(harvested: Harvested) -> None:
    provider = harvested.settings.provider.model_copy(update={"publish_margin": MARGIN})
    settings = harvested.settings.model_copy(update={"provider": provider})
    with open_database(settings, pool_size=12) as database:
        slow = Harvested(database=database, settings=settings)
        with database.session() as session:
            session.execute(text(SLOWNESS))
            session.commit()
        replicas = [Replica(repository=slow.repository(), set_spec=spec) for spec in (None, "one:a:b")]
        _harvest_beside(slow, replicas)
        slow.update()
        _settle(database)
        for replica in replicas:
            replica.harvest()
        with database.session() as session:
            rows = session.execute(
                text("SELECT identifier, status = 'deleted' FROM oai_record ORDER BY identifier")
            ).all()
        assert len(rows) > NAMES
        expected = {name: (deleted, "" if deleted else _version(slow, name)) for name, deleted in rows}
        for replica in replicas:
            assert replica.records == expected


@dataclass(frozen=True, kw_only=True)
class _Stage:
    """Writers and updates that run at the same time as the harvests."""

    slow: Harvested
    enough: threading.Event = field(default_factory=threading.Event)
    """Enough was published."""
    done: threading.Event = field(default_factory=threading.Event)
    """Nothing more is written."""

    def write(self, number: int) -> None:
        """Write records until enough was published."""
        chance = random.Random(number)
        # One is slow, so that others' later transactions are committed before its own.
        longest = 2.0 if number == 0 else 0.3
        version = 0
        while not self.enough.is_set():
            version += 1
            with self.slow.database.session() as session:
                # Each writer uses separate names, so that the last version is known.
                for name in sorted(chance.sample(range(NAMES), 4)):
                    deleted = chance.random() < 0.2
                    self.slow.write(
                        session, f"{number}-{name}", version=version, deleted=deleted, sets=["a:b"]
                    )
                time.sleep((0.5 + chance.random() / 2) * longest)
                session.commit()

    def publish(self) -> None:
        passes = 0
        try:
            while not self.done.is_set():
                passes += self.slow.update() > 0
                time.sleep(0.05)  # records that are not written yet cannot be published
                if passes >= PASSES:
                    self.enough.set()
        finally:
            self.enough.set()

    def harvest(self, replica: Replica, pause: float) -> None:
        while not self.done.is_set():
            replica.harvest()
            time.sleep(pause)


def _harvest_beside(slow: Harvested, replicas: list[Replica]) -> None:
    """Write, publish and harvest records at the same time."""
    stage = _Stage(slow=slow)
    with ThreadPoolExecutor(WRITERS + 1 + len(replicas)) as pool:
        beside = [pool.submit(stage.publish)]
        beside += [
            pool.submit(stage.harvest, one, pause) for one, pause in zip(replicas, (0.2, 0.5), strict=True)
        ]
        try:
            for writing in [pool.submit(stage.write, number) for number in range(WRITERS)]:
                writing.result()
        finally:
            stage.done.set()
        for one in beside:
            one.result()


def _settle(database: Database) -> None:
    """Wait until the datestamps of all published records are in the past."""
    deadline = time.monotonic() + 60
    with database.session() as session:
        while not session.scalar(
            text(
                "SELECT max(datestamp) <= clock_timestamp() - interval '1 second' FROM aggregate_record"
                " WHERE datestamp < '9999-01-01'"
            )
        ):
            session.rollback()
            assert time.monotonic() < deadline
            time.sleep(0.05)


def _version(slow: Harvested, identifier: str) -> str:
    root = etree.parse(slow.folder / f"{identifier.rpartition(':')[2]}.xml").getroot()
    return state_of(root)[1]

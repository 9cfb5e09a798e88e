"""Lists are read from replicas without missing changes that the replicas do not have yet."""

import asyncio
import contextlib
import itertools
import threading
import time
from collections.abc import Iterator
from datetime import timedelta
from pathlib import Path

import pytest
from sqlalchemy import text
from sqlalchemy.exc import OperationalError
from sqlalchemy.orm import Session

from oai.database import open_database, open_replica
from oai.datestamps import format_datestamp
from oai.errors import DatabaseNotReadyError
from oai.settings import Settings
from oai.vocabulary import ErrorCode
from provider.holdings.mark import MarkBehindError, advance_mark, begin_at_mark, reserve
from provider.protocol.replicas import Replica, Replicas
from provider.protocol.repository import OaiAnswer, Repository, make_repository
from tests.provider.answer import Reply, read_reply
from tests.provider.archive import Archive
from tests.provider.conftest import small_pages
from tests.provider.holdings.replicated import Replicated, replicated, wait_for_copies, watched
from tests.provider.served import until

pytestmark = pytest.mark.slow
_numbers = itertools.count(1)


class Library:
    """A repository on two replicas, and an archive on their primary."""

    def __init__(self, archive: Archive, both: Replicated, replicas: Replicas) -> None:
        self.both = both
        self.replicas = replicas
        self.archive = archive
        self.set_spec = f"collection:{next(_numbers)}"
        self.repository: Repository = make_repository(
            small_pages(archive.settings).provider, both.primary, "http://archive.example/oai", replicas
        )

    def answer(self, **arguments: str) -> OaiAnswer:
        return self.repository.answer([(name.rstrip("_"), value) for name, value in arguments.items()])

    def ask(self, **arguments: str) -> Reply:
        return read_reply(self.answer(**arguments).body)

    def listed(self, **arguments: str) -> Reply:
        return self.ask(verb="ListIdentifiers", metadataPrefix="oai_dc", set=self.set_spec, **arguments)

    def add(self, count: int) -> list[str]:
        """Add documents, and wait until the replicas have them."""
        added = [self.archive.add(collections=[self.set_spec]) for _ in range(count)]
        wait_for_copies(self.both)
        return added

    @contextlib.contextmanager
    def held_up(self) -> Iterator[None]:
        """For the block, the replicas receive all changes without replaying them."""
        for copy in self.both.copies:
            copy.pause()
        try:
            yield
        finally:
            for copy in self.both.copies:
                copy.resume()

    def mark(self) -> str:
        """Return the mark of the primary."""
        with self.both.primary.session() as session:
            return format_datestamp(begin_at_mark(session))

    async def until_later_than(self, date: str) -> None:
        """Wait until the primary's mark is later than this one, which a replica has."""
        await asyncio.to_thread(until, lambda: self.mark() > date)


@pytest.fixture(scope="module")
def both(quick_folder: Path) -> Iterator[Replicated]:
    with replicated(quick_folder, copies=2) as found:
        yield found


@pytest.fixture(scope="module")
def archive(both: Replicated) -> Archive:
    return Archive(both.primary, Settings())


@pytest.fixture(scope="module")
def replicas(both: Replicated) -> Iterator[Replicas]:
    """The replicas are watched all the time, because the first check of a replica is slow."""
    found = Replicas(both.primary, [copy.database for copy in both.copies], most_behind=30)
    with watched(found):
        yield found


@pytest.fixture
async def library(archive: Archive, both: Replicated, replicas: Replicas) -> Library:
    await _until_used(replicas, 2)
    return Library(archive, both, replicas)


async def _until_used(replicas: Replicas, count: int) -> None:
    await asyncio.to_thread(until, lambda: replicas.usable == count)


async def test_lists_are_read_from_replicas_and_records_from_the_primary(library: Library) -> None:
    known = library.add(2)
    with library.held_up():
        new = library.archive.add(collections=[library.set_spec])
        assert library.listed().identifiers == known
        record = library.ask(verb="GetRecord", identifier=new, metadataPrefix="oai_dc")
        assert record.identifiers == [new]


async def test_the_response_date_is_the_mark_of_the_replica(library: Library) -> None:
    library.add(1)
    with library.held_up():
        first = library.listed()
        await library.until_later_than(first.response_date)
        assert library.listed().response_date == first.response_date < library.mark()


async def test_a_set_missing_on_the_replicas_is_listed_by_the_primary(library: Library) -> None:
    with library.held_up():
        new = library.archive.add(collections=[library.set_spec])
        assert library.listed().identifiers == [new]


async def test_a_set_missing_on_all_servers_gets_no_records_match(library: Library) -> None:
    assert library.listed().codes == [ErrorCode.NO_RECORDS_MATCH]


async def test_a_list_is_continued_by_a_server_whose_mark_has_reached_its_until(library: Library) -> None:
    known = library.add(6)
    with library.held_up():
        # The list begins on the primary, whose mark is later than that of the replicas.
        await library.until_later_than(library.listed().response_date)
        first = library.listed(until=library.mark())
        second = library.ask(verb="ListIdentifiers", resumptionToken=first.token or "")
        assert [*first.identifiers, *second.identifiers] == known
        assert second.response_date >= first.response_date


async def test_an_until_above_the_marks_of_the_replicas_is_answered_by_the_primary(library: Library) -> None:
    known = library.add(1)
    with library.held_up():
        await library.until_later_than(library.listed().response_date)
        end = library.mark()
        answered = library.listed(until=end)
        assert answered.identifiers == known
        assert answered.response_date >= end


async def test_an_until_at_an_uncommitted_change_waits_for_it(library: Library) -> None:
    library.add(1)
    with library.both.primary.session() as late, library.both.primary.session() as session:
        dated = reserve(late, 0.0)
        await asyncio.sleep(1.1)
        with pytest.raises(MarkBehindError):
            library.listed(until=format_datestamp(dated))
        late.rollback()
        advance_mark(session)
    assert len(library.listed(until=format_datestamp(dated)).identifiers) == 1
    tomorrow = format_datestamp(dated + timedelta(days=1))
    assert len(library.listed(until=tomorrow).identifiers) == 1


async def test_a_from_above_the_mark_gets_no_records_match(library: Library) -> None:
    library.add(1)
    with library.held_up():
        with library.both.primary.session() as session:
            later = begin_at_mark(session) + timedelta(hours=1)
        assert library.listed(from_=format_datestamp(later)).codes == [ErrorCode.NO_RECORDS_MATCH]


async def test_a_lagging_replica_is_not_used_until_it_has_caught_up(both: Replicated) -> None:
    replicas = Replicas(both.primary, [copy.database for copy in both.copies], most_behind=3)
    watching = asyncio.create_task(replicas.watch())
    await _until_used(replicas, 2)
    both.copies[0].pause()
    await _until_used(replicas, 1)
    both.copies[0].resume()
    await _until_used(replicas, 2)
    assert 0 <= replicas.behind < 3
    watching.cancel()
    await asyncio.wait([watching])


async def test_a_replica_that_does_not_answer_does_not_block_requests(library: Library) -> None:
    known = library.add(1)
    with library.both.copies[0].stopped():
        begun = time.monotonic()
        answers = await asyncio.gather(*(asyncio.to_thread(library.listed) for _ in range(6)))
        assert time.monotonic() - begun < 20
        assert [answer.identifiers for answer in answers] == [known] * 6
        await _until_used(library.replicas, 1)
    await _until_used(library.replicas, 2)


async def test_running_statements_of_a_severed_replica_are_ended(both: Replicated) -> None:
    database = both.copies[0].database
    database.engine.dispose()
    with database.session() as session:
        session.execute(text("SELECT 1"))
    replica = Replica(database)

    def wait() -> None:
        with database.session() as session:
            waiting.set()
            session.execute(text("SELECT pg_sleep(60)"))

    waiting = threading.Event()
    begun = time.monotonic()
    asked = asyncio.create_task(asyncio.to_thread(wait))
    await asyncio.to_thread(waiting.wait)
    while not asked.done():  # it may not have reached the server at the first attempt
        replica.sever()
        await asyncio.sleep(0.05)
        assert time.monotonic() - begun < 30
    with pytest.raises(OperationalError):
        await asked


async def test_a_statement_that_conflicts_with_replay_is_repeated_on_another_replica(
    library: Library,
) -> None:
    library.add(1)
    asked: list[Session] = []

    def look(session: Session, _mark: object) -> int:
        asked.append(session)
        rows = text("SELECT count(*) FROM document")
        session.execute(rows)
        if len(asked) == 1:
            with library.both.primary.engine.connect() as connection:
                by_itself = connection.execution_options(isolation_level="AUTOCOMMIT")
                by_itself.execute(text("UPDATE document SET title = 'another'"))
                by_itself.execute(text("VACUUM document"))
            wait_for_copies(library.both)
            time.sleep(0.5)
        return int(session.scalar(rows) or 0)

    assert library.replicas.answer(look)
    assert len(asked) == 2
    assert library.replicas.usable == 2


async def test_no_answer_is_returned_if_no_replica_can_answer(library: Library) -> None:
    def refuse(_session: Session, _mark: object) -> int:
        raise MarkBehindError("not yet")

    assert library.replicas.answer(refuse) is None


@pytest.mark.parametrize("address", ["nonsense", "mysql://copy.example/zatva"])
def test_an_invalid_replica_address_is_refused_with_its_setting(address: str) -> None:
    with (
        pytest.raises(DatabaseNotReadyError, match=r"provider\.replica_urls"),
        open_replica(address, pool_size=1, statement_seconds=1),
    ):
        pass


async def test_reading_the_mark_of_a_standby_leaves_its_connection_usable(both: Replicated) -> None:
    address = Settings(database_url=both.copies[0].address)
    with open_database(address, pool_size=1, check_tables=False) as standby:
        for _ in range(2):
            with standby.session() as session:
                begin_at_mark(session)
            with standby.session() as session:
                assert session.scalar(text("SHOW transaction_read_only")) == "on"
            with standby.session() as session, pytest.raises(OperationalError, match="read-only"):
                session.execute(text("DELETE FROM document"))


async def test_a_promoted_replica_is_no_longer_used(
    quick_folder: Path, caplog: pytest.LogCaptureFixture
) -> None:
    with replicated(quick_folder) as one:
        replicas = Replicas(one.primary, [one.replica], most_behind=30)
        watching = asyncio.create_task(replicas.watch())
        await _until_used(replicas, 1)
        one.copies[0].promote()
        assert replicas.answer(lambda _session, mark: mark) is None
        await _until_used(replicas, 0)
        watching.cancel()
        await asyncio.wait([watching])
    assert "it is no replica" in caplog.text

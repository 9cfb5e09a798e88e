"""Two commands that index the same files share them: each file is read by one of them."""

import json
import time
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path
from subprocess import PIPE
from typing import Any

import pytest
from sqlalchemy import func, select, text

from oai.database import Database
from oai.errors import InterruptedRunError
from oai.settings import Settings
from provider.holdings.arcs import settle
from provider.indexing.first_load import begin_first_load, finish_first_load, missing_indexes
from provider.indexing.indexer import FileReport, Indexer, IndexOptions, index_file
from provider.indexing.parallel import index_files
from provider.models import Arc, Document, Load
from provider.reading.captures import Capture, read_captures
from provider.storage.files import look_at
from tests.commands import Process
from tests.provider.archives import Page, write_pages
from tests.provider.indexing.indexed import check_counts, counts
from tests.provider.served import until

OPTIONS = IndexOptions(margin=1)
FILES = 12
PAGES = 40
_WAITING = "SELECT count(*) FROM pg_stat_activity WHERE wait_event_type = 'Lock'"


def pages(number: int, *, pages: int = 3) -> list[Page]:
    return [Page(url=f"http://www{number}.example/{page}") for page in range(pages)]


def number_of(database: Database, what: type[Arc | Document | Load]) -> int:
    with database.session() as session:
        return session.scalar(select(func.count()).select_from(what)) or 0


@pytest.fixture
def beside() -> Iterator[ThreadPoolExecutor]:
    with ThreadPoolExecutor(2) as pool:
        yield pool


def until_it_waits(database: Database, work: "Future[Any]", *, waiters: int = 1) -> bool:
    """Return whether the work waits for another transaction; false if it ends without waiting."""
    end = time.monotonic() + 60
    with database.session() as session:
        while time.monotonic() < end:
            waiting = session.scalar(text(f"{_WAITING} AND datname = current_database()")) or 0
            session.rollback()
            if waiting >= waiters or work.done():
                return not work.done()
            time.sleep(0.01)
    raise TimeoutError


@pytest.mark.parametrize("jobs", ["1", "2"])
def test_two_commands_on_one_folder_index_each_file_once(
    environment: dict[str, str], database: Database, tmp_path: Path, jobs: str
) -> None:
    """The first command is also run with several processes, which share one load."""
    folder = tmp_path / "archive"
    for number in range(FILES):
        write_pages(folder / f"{number}.warc.gz", pages(number, pages=PAGES))
    command = ("provider", "index", "--json", folder, "--jobs")
    both = [Process(environment, *command, jobs, stdout=PIPE, stderr=PIPE)]
    # The second one starts sooner than the processes of the first.
    until(lambda: number_of(database, Arc))
    both.append(Process(environment, *command, "1", stdout=PIPE, stderr=PIPE))
    ended = [(*process.communicate(), process.returncode) for process in both]
    assert [code for *_, code in ended] == [0, 0], [output for _, output, _ in ended]
    rows = [json.loads(line) for printed, *_ in ended for line in printed.splitlines()]
    files = [row for row in rows if "file" in row]
    assert len(files) == 2 * FILES
    read = sorted(row["file"] for row in files if not row["skipped"])
    assert read == sorted(map(str, folder.iterdir()))
    assert {row["new"] for row in files if not row["skipped"]} == {PAGES}
    assert (number_of(database, Arc), number_of(database, Document)) == (FILES, FILES * PAGES)
    assert number_of(database, Load) <= len(both)
    check_counts(database)


def index_meanwhile(database: Database, path: Path, meanwhile: Callable[[], None]) -> None:
    """Index a file, and run a function while it is read."""
    once = iter([meanwhile])
    index_file(database, path, OPTIONS, lambda _: next(once, lambda: None)())


def test_a_file_that_another_process_indexes_is_deferred_and_then_skipped(
    database: Database, settings: Settings, tmp_path: Path
) -> None:
    one, two, three = (write_pages(tmp_path / f"{n}.warc.gz", pages(n)) for n in range(3))
    reports = index_files(database, settings, [one, two, three], OPTIONS, jobs=1)
    meanwhile: list[object] = []

    def index_the_others() -> None:
        meanwhile.extend(next(reports).path for _ in range(2))

    index_meanwhile(database, one, index_the_others)
    assert meanwhile == [two, three]
    (last,) = reports
    assert (last.path, last.skipped, counts(last)) == (one, True, (0, 3, 0, 0))


def test_a_waiting_process_indexes_a_file_that_the_other_abandons(database: Database, tmp_path: Path) -> None:
    path = write_pages(tmp_path / "x.warc.gz", pages(1))
    with Indexer(database, OPTIONS) as other:

        def give_up() -> None:
            assert other.index_if_free(path) is None
            raise InterruptedRunError("enough")

        with pytest.raises(InterruptedRunError):
            index_meanwhile(database, path, give_up)
        report = other.index_if_free(path)
    assert report is not None
    assert counts(report) == (3, 0, 0, 0)


def test_waiting_for_a_file_can_be_interrupted(database: Database, tmp_path: Path) -> None:
    path = write_pages(tmp_path / "x.warc.gz", pages(1))

    def interrupt(_: int) -> None:
        raise InterruptedRunError("enough")

    def wait_for_it() -> None:
        with pytest.raises(InterruptedRunError):
            index_file(database, path, OPTIONS, interrupt)

    index_meanwhile(database, path, wait_for_it)
    assert number_of(database, Document) == 3


def test_two_processes_that_insert_the_row_of_a_file_get_the_same_row(
    database: Database, beside: ThreadPoolExecutor, tmp_path: Path
) -> None:
    file = look_at(write_pages(tmp_path / "x.warc.gz", pages(1)))

    def second() -> tuple[int, bool]:
        with database.session() as session:
            home = settle(session, file, whole=True)
            session.commit()
            return home.arc_id, home.known

    with database.session() as session:
        first = settle(session, file, whole=True)
        work: Future[object] = beside.submit(second)
        assert until_it_waits(database, work)
        session.commit()
    assert not first.known
    assert work.result(60) == (first.arc_id, True)


@pytest.mark.parametrize("named", [True, False])
def test_a_cdx_file_and_the_archive_file_that_it_lists_share_one_row(
    database: Database, beside: ThreadPoolExecutor, tmp_path: Path, *, named: bool
) -> None:
    path = write_pages(tmp_path / "x.warc.gz", pages(1))
    line = "example,www1)/0 20071102030405 http://www1.example/0 text/html 200 - - - 10 0 x.warc.gz"
    cdx = tmp_path / "x.cdx"
    cdx.write_text(f" CDX N b a m s k r M S V g\n{line}\n", encoding="ascii")
    options = IndexOptions(margin=1, archive_dir=tmp_path if named else None)
    with database.session() as session:
        settle(session, look_at(path), whole=False)
        work: Future[object] = beside.submit(index_file, database, cdx, options)
        assert until_it_waits(database, work)
        session.commit()
    work.result(60)
    assert (number_of(database, Arc), number_of(database, Document)) == (1, 1)


def test_two_copies_of_a_missing_file_indexed_at_once_share_its_documents(
    database: Database, beside: ThreadPoolExecutor, tmp_path: Path
) -> None:
    first = write_pages(tmp_path / "x.warc.gz", pages(1))
    index_file(database, first, OPTIONS)
    copies = [tmp_path / name for name in ("copy.warc.gz", "plain.warc")]
    for path in copies:
        write_pages(path, pages(1))
    first.unlink()
    with database.session() as session:
        session.execute(select(Document).with_for_update())
        work: list[Future[FileReport]] = []
        for waiters, path in enumerate(copies, start=1):
            work.append(beside.submit(index_file, database, path, OPTIONS))
            assert until_it_waits(database, work[-1], waiters=waiters)
        session.commit()
    assert sorted(counts(one.result(60)) for one in work) == [(0, 0, 0, 3), (0, 0, 3, 0)]
    check_counts(database)
    with database.session() as session:
        columns = (Arc.path, Document.url, Document.offset, Document.packed_length)
        found = session.execute(select(*columns).join(Arc, Arc.id == Document.arc_id)).all()
    path = Path(found[0][0] or "")
    with path.open("rb") as file:
        captures = [one for one in read_captures(file) if isinstance(one, Capture)]
    assert sorted(found) == [(str(path), one.url, one.offset, one.packed_length) for one in captures]


def test_two_first_loads_that_end_together_build_each_index_once(
    database: Database, beside: ThreadPoolExecutor
) -> None:
    begin_first_load(database)
    with database.session() as session:
        missing = missing_indexes(session)
    built: list[str] = []
    second: list[Future[object]] = []

    def begin_another(name: str) -> None:
        built.append(name)
        if not second:
            second.append(beside.submit(finish_first_load, database, built.append))
            assert until_it_waits(database, second[0])

    finish_first_load(database, begin_another)
    second[0].result(60)
    assert sorted(built) == missing
    with database.session() as session:
        assert missing_indexes(session) == []

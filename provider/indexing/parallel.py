"""Indexes many files in several processes; one file is one unit of work."""

import contextlib
import signal
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ProcessPoolExecutor, wait
from concurrent.futures.process import BrokenProcessPool
from contextlib import AbstractContextManager
from dataclasses import replace
from itertools import islice
from multiprocessing.context import ForkContext, SpawnContext
from multiprocessing.synchronize import Event
from pathlib import Path
from typing import TYPE_CHECKING, ClassVar, Protocol

from pydantic import SecretStr

from oai.child import collect_garbage_seldom, end_with_pool, forking_or_spawning, interrupts_held_back
from oai.database import Database, open_database
from oai.errors import InterruptedRunError, ZatvaError
from oai.settings import Settings
from provider.indexing.indexer import Check, FileReport, Indexer, IndexOptions
from provider.storage.files import look_at
from provider.storage.places import Place

if TYPE_CHECKING:
    from multiprocessing.sharedctypes import Synchronized

_REPORT_SECONDS = 0.5
_SUBMITTED_PER_PROCESS = 4
"""Enough that no process waits for the next file while a report is being received."""

OnRead = Callable[[int], None]
"""Periodically receives the number of bytes read from all files."""
_Submitted = dict[Future[FileReport | None], Place]


class _Submit(Protocol):
    def __call__(self, files: Iterable[Place], *, wait: bool) -> _Submitted:
        """Queue files for the workers, which wait for files that another run is indexing or return None."""


def index_files(
    database: Database,
    settings: Settings,
    files: Sequence[Place],
    options: IndexOptions,
    *,
    jobs: int,
    on_read: OnRead = lambda _: None,
) -> Iterator[FileReport]:
    """Index files in up to `jobs` processes; yields reports as files are done.

    Files that another run is indexing are left to the end, and then waited for. When the generator is
    closed or interrupted, files in progress are abandoned without partial results, and no process
    remains.
    """
    if jobs == 1 or len(files) <= 1:
        yield from _one_by_one(database, files, options, on_read)
        return
    # Forked processes use none of our connections to the database, and psycopg does not end those of another
    # process.
    with forking_or_spawning() as context:
        yield from _side_by_side(context, database, settings, files, options, jobs=jobs, on_read=on_read)


def _side_by_side(
    context: ForkContext | SpawnContext,
    database: Database,
    settings: Settings,
    files: Sequence[Place],
    options: IndexOptions,
    *,
    jobs: int,
    on_read: OnRead,
) -> Iterator[FileReport]:
    url = database.url.render_as_string(hide_password=False)
    options = replace(options, readers=max(options.readers // jobs, 1))
    stop = context.Event()
    read = context.Value("q", 0)
    with ProcessPoolExecutor(
        min(jobs, len(files)),
        mp_context=context,
        initializer=_begin_worker,
        initargs=(stop, read, url, settings.data, options),
    ) as pool:

        def submit(files: Iterable[Place], *, wait: bool) -> "_Submitted":
            with interrupts_held_back():
                return {pool.submit(_work, file, wait=wait): file for file in files}

        try:
            at_once = _SUBMITTED_PER_PROCESS * jobs
            yield from _results(files, submit, lambda: on_read(read.value), at_once=at_once)
        except BrokenProcessPool:
            raise ZatvaError(
                "an indexing process was killed; its unfinished files are not indexed: run the command again"
            ) from None
        finally:
            stop.set()
            pool.shutdown(cancel_futures=True)


def _results(
    files: Iterable[Place], submit: "_Submit", on_read: Callable[[], None], *, at_once: int
) -> Iterator[FileReport]:
    """Yield the reports in order of completion; `on_read` is called periodically meanwhile.

    Up to `at_once` files are submitted at a time, because each wait takes time for all that are.
    """
    busy: list[Place] = []
    for patient, pending in ((False, files), (True, busy)):
        left = iter(pending)
        work: _Submitted = {}
        while work := work | submit(islice(left, at_once - len(work)), wait=patient):
            done, _ = wait(work, timeout=_REPORT_SECONDS, return_when=FIRST_COMPLETED)
            on_read()
            for one in done:
                file, report = work.pop(one), one.result()
                if report is None:
                    busy.append(file)
                else:
                    yield report


def _one_by_one(
    database: Database, files: Sequence[Place], options: IndexOptions, on_read: OnRead
) -> Iterator[FileReport]:
    before = 0

    def count(offset: int) -> None:
        on_read(before + offset)

    with Indexer(database, options) as indexer:
        for report in _free_ones_first(indexer, files, count):
            yield report
            before += size_of(report.path)
            on_read(before)


def _free_ones_first(indexer: Indexer, files: Iterable[Place], check: Check) -> Iterator[FileReport]:
    busy = []
    for file in files:
        report = indexer.index_if_free(file, check)
        if report is None:
            busy.append(file)
        else:
            yield report
    for file in busy:
        yield indexer.index(file, check)


def size_of(file: Place) -> int:
    """Return the size of a file in bytes; 0 if it cannot be read, which its report will state."""
    try:
        return look_at(file).size
    except OSError:
        return 0


class _Worker:
    """Objects that a worker process receives once, when it starts.

    They are class attributes because the pool calls plain functions; each process has its own copy of the
    class, and only `stop` and `read` are shared memory.
    """

    stop: ClassVar[Event]
    read: ClassVar["Synchronized[int]"]
    indexer: ClassVar[Indexer]
    open: ClassVar[contextlib.ExitStack]


def _begin_worker(
    stop: Event, read: "Synchronized[int]", url: str, data: Path, options: IndexOptions
) -> None:
    # A forked process has its parent's handler, which would make a stop request an error of the work.
    signal.signal(signal.SIGTERM, signal.SIG_DFL)
    collect_garbage_seldom()
    _Worker.stop = stop
    _Worker.read = read
    end_with_pool()
    _Worker.open = contextlib.ExitStack()
    settings = Settings(data=data, database_url=SecretStr(url))
    opening: AbstractContextManager[Database] = open_database(settings, pool_size=1, check_tables=False)
    _Worker.indexer = _Worker.open.enter_context(Indexer(_Worker.open.enter_context(opening), options))


def _work(file: Place, *, wait: bool) -> FileReport | None:
    """Index one file; unless `wait`, return None if another run is indexing it."""
    counted = 0

    def count(offset: int) -> None:
        nonlocal counted
        if _Worker.stop.is_set():
            raise InterruptedRunError("interrupted; to continue, run the command again")
        # Workers share the counter; adding to it is not atomic without its lock.
        with _Worker.read.get_lock():
            _Worker.read.value += offset - counted
        counted = offset

    index = _Worker.indexer.index if wait else _Worker.indexer.index_if_free
    report = index(file, count)
    if report is not None:
        with contextlib.suppress(InterruptedRunError):
            count(size_of(file))
    return report

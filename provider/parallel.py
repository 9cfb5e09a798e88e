"""Indexes many files in several processes; one file is one unit of work."""

import contextlib
import multiprocessing
import os
import signal
import threading
from collections.abc import Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor, as_completed
from concurrent.futures.process import BrokenProcessPool
from multiprocessing.synchronize import Event
from pathlib import Path
from typing import ClassVar

from pydantic import SecretStr

from oai.database import Database, open_database
from oai.errors import InterruptedRunError, ZatvaError
from oai.settings import Settings
from provider.indexer import FileReport, IndexOptions, index_file


def index_files(
    database: Database, settings: Settings, files: Sequence[Path], options: IndexOptions, *, jobs: int
) -> Iterator[FileReport]:
    """Index files in up to `jobs` processes; reports come as files are done.

    When it is closed or interrupted, files in work are given up with nothing half done, and no process stays.
    """
    if jobs == 1 or len(files) <= 1:
        for file in files:
            yield index_file(database, file, options)
        return
    context = multiprocessing.get_context("spawn")
    stop = context.Event()
    url = database.url.render_as_string(hide_password=False)
    with ProcessPoolExecutor(
        min(jobs, len(files)), mp_context=context, initializer=_begin_worker, initargs=(stop,)
    ) as pool:
        with _interrupts_held_back():
            work = [pool.submit(_work, url, settings.data, file, options) for file in files]
        try:
            for done in as_completed(work):
                yield done.result()
        except BrokenProcessPool:
            raise ZatvaError(
                "a process that was indexing ended by force; what it had in work is not indexed: run it again"
            ) from None
        finally:
            stop.set()
            pool.shutdown(cancel_futures=True)


@contextlib.contextmanager
def _interrupts_held_back() -> Iterator[None]:
    """Start the block's processes deaf to Ctrl-C, which reaches the whole group; the parent alone decides."""
    before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


class _Worker:
    """What a worker process is given once, when it begins."""

    stop: ClassVar[Event]


def _begin_worker(stop: Event) -> None:
    _Worker.stop = stop
    threading.Thread(target=_end_with_parent, daemon=True).start()


def _end_with_parent() -> None:
    parent = multiprocessing.parent_process()
    if parent is not None:
        parent.join()
        os._exit(1)


def _check() -> None:
    if _Worker.stop.is_set():
        raise InterruptedRunError("interrupted; run it again to go on")


def _work(url: str, data: Path, file: Path, options: IndexOptions) -> FileReport:
    settings = Settings(data=data, database_url=SecretStr(url))
    with open_database(settings, pool_size=1, check_tables=False) as database:
        return index_file(database, file, options, _check)

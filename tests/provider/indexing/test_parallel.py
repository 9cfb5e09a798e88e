"""Files indexed in several processes; here the pool's processes are replaced by immediate results."""

from collections.abc import Callable
from concurrent.futures import Executor, Future
from pathlib import Path
from typing import Any, ClassVar

import pytest

from oai.database import Database
from oai.settings import Settings
from provider.indexing import parallel
from provider.indexing.indexer import FileReport, IndexOptions
from provider.indexing.merge import Merged

FILES = [Path(f"{number}.warc.gz") for number in range(40)]
BUSY = FILES[3]
JOBS = 2


class ImmediatePool(Executor):
    """A pool that is done with a file as soon as it is submitted, unless another run indexes the file."""

    submitted: ClassVar[list[tuple[Path, bool]]]

    def __init__(self, *_: object, **__: object) -> None:
        type(self).submitted = []

    def submit(self, _work: Callable[..., Any], file: Path, *, wait: bool) -> Future[Any]:  # type: ignore[override]
        self.submitted.append((file, wait))
        done: Future[Any] = Future()
        done.set_result(None if file == BUSY and not wait else FileReport(path=file, merged=Merged()))
        return done


def test_a_bounded_number_of_files_is_submitted_at_a_time(
    database: Database, settings: Settings, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(parallel, "ProcessPoolExecutor", ImmediatePool)
    reports = parallel.index_files(database, settings, FILES, IndexOptions(margin=1), jobs=JOBS)

    paths = [next(reports).path]

    assert len(ImmediatePool.submitted) <= 4 * JOBS
    paths += [report.path for report in reports]
    assert sorted(map(str, paths)) == sorted(map(str, FILES))


def test_files_that_another_run_indexes_are_waited_for_at_the_end(
    database: Database, settings: Settings, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(parallel, "ProcessPoolExecutor", ImmediatePool)

    reports = list(parallel.index_files(database, settings, FILES, IndexOptions(margin=1), jobs=JOBS))

    assert reports[-1].path == BUSY
    assert ImmediatePool.submitted == [*((file, False) for file in FILES), (BUSY, True)]

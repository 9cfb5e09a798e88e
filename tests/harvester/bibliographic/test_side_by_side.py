"""Several processes convert the same records as one does, and no process outlives its import."""

import asyncio
import itertools
import multiprocessing
import os
import sys
from collections import Counter
from collections.abc import Iterator, Sequence
from pathlib import Path

import pytest

from harvester.bibliographic import importer
from harvester.bibliographic.batches import UNREADABLE
from harvester.bibliographic.conversion_processes import convert_all, processes_for
from harvester.bibliographic.converters import Candidate
from harvester.bibliographic.imports import list_imports
from oai.errors import InterruptedRunError, ZatvaError
from tests.end_to_end.processes import alive, eventually
from tests.harvester.bibliographic.conftest import Catalogue, counts
from tests.harvester.bibliographic.endless_converting import converting, endless
from tests.harvester.bibliographic.test_importing import ROWS, choose

_NUMBERS = range(10, 40)


@pytest.fixture
async def two_processes(catalogue: Catalogue, monkeypatch: pytest.MonkeyPatch) -> Catalogue:
    """A catalogue of 33 records for two processes, in batches of four; the file of one record is missing."""
    for number in _NUMBERS:
        catalogue.put(number, f"100 1# $aAutor, {number}", f"245 10 $aKniha {number}", "655 #7 $aedice")
    await catalogue.harvest()
    next(path for path in catalogue.folder.rglob("*.xml") if path.stem.endswith("17")).unlink()
    choose(catalogue, ["655 exists"])
    monkeypatch.setattr(importer, "processes_for", lambda _records: 2)
    return catalogue


def test_several_processes_write_the_same_rows_as_one(
    two_processes: Catalogue, monkeypatch: pytest.MonkeyPatch
) -> None:
    side = two_processes.imported(batch=4)
    rows = two_processes.rows(ROWS)
    with two_processes.database.engine.begin() as connection:
        connection.exec_driver_sql("DELETE FROM bibliographic_record")
        connection.exec_driver_sql("DELETE FROM bibliographic_omission")
    monkeypatch.setattr(importer, "processes_for", lambda _records: 1)
    assert counts(two_processes.imported(batch=4)) == counts(side) == {
        "seen": 33, "new": 31, "filtered": 1, "refused": 1,
    }  # fmt: skip
    assert two_processes.rows(ROWS) == rows
    assert multiprocessing.active_children() == []


def test_an_interrupted_import_leaves_no_process_and_the_next_one_continues(
    two_processes: Catalogue, monkeypatch: pytest.MonkeyPatch
) -> None:
    def interrupt(seen: Counter[str], _expected: int | None) -> None:
        if seen["seen"] >= 8:
            raise KeyboardInterrupt

    with pytest.raises(InterruptedRunError, match="after 8 records"):
        two_processes.imported(batch=4, on_progress=interrupt)
    assert multiprocessing.active_children() == []
    monkeypatch.setattr(importer, "processes_for", lambda _records: 1)
    again = two_processes.imported(batch=4)
    assert again.seen in {33 - 8, 33 - 7}  # the record without a file is tried each time
    assert len(two_processes.titles()) == 31


def test_a_killed_process_fails_the_import_and_the_next_one_continues(
    two_processes: Catalogue, monkeypatch: pytest.MonkeyPatch
) -> None:
    def kill(_seen: Counter[str], _expected: int | None) -> None:
        for process in multiprocessing.active_children():
            process.kill()
            process.join()

    with pytest.raises(ZatvaError, match="was killed; to continue, run the import again"):
        two_processes.imported(batch=4, on_progress=kill)
    with two_processes.database.session() as session:
        assert list_imports(session)[0].state == "failed"
    monkeypatch.setattr(importer, "processes_for", lambda _records: 1)
    two_processes.imported(batch=4)
    assert len(two_processes.titles()) == 31


def test_batches_are_returned_in_page_order_and_few_are_in_progress(tmp_path: Path) -> None:
    (candidate,) = next(endless())
    taken = 0
    pages = ([candidate._replace(datestamp=str(number))] * (number + 1) for number in itertools.count())

    def counted() -> Iterator[Sequence[Candidate]]:
        nonlocal taken
        for page in pages:
            taken += 1
            yield page

    batches = convert_all(counted(), converting(tmp_path), processes=2)
    for number in range(5):
        batch = next(batches)
        assert [one.kind for one in batch.omitted] == [UNREADABLE] * (number + 1)
        assert taken <= number + 4
    batches.close()
    assert multiprocessing.active_children() == []


async def test_processes_end_when_their_import_is_killed() -> None:
    process = await asyncio.create_subprocess_exec(
        sys.executable,
        "-m",
        "tests.harvester.bibliographic.endless_converting",
        stdout=asyncio.subprocess.PIPE,
    )
    assert process.stdout is not None
    ids = [int(word) for word in (await process.stdout.readline()).split()]
    assert len(ids) == 2
    assert all(map(alive, ids))
    process.kill()
    await process.wait()
    eventually(lambda: not any(map(alive, ids)), "the end of the processes")


def test_few_records_are_converted_without_starting_processes() -> None:
    assert processes_for(100) == 1
    assert processes_for(1_000_000) == len(os.sched_getaffinity(0))
    assert processes_for(0) == 1

import resource
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from harvester.store.disk import Disk
from harvester.store.unfinished import Named


@pytest.fixture(params=["named", "as the file system can"])
def disk(tmp_path: Path, request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Iterator[Disk]:
    if request.param == "named":
        monkeypatch.setattr("harvester.store.disk.unfinished_in", lambda _: Named())
    disk = Disk(f"{tmp_path}/new/base")
    yield disk
    disk.close()


@pytest.fixture
def base(tmp_path: Path) -> Path:
    return tmp_path / "new/base"


def test_files_get_their_names_and_leave_no_unfinished_ones(disk: Disk, base: Path) -> None:
    files = [(f"a/b{number % 3}/{number}.xml", f"<r>{number}</r>".encode()) for number in range(50)]
    disk.write_all(files)
    found = {path for path in base.rglob("*") if path.is_file()}
    assert found == {base / path for path, _ in files}
    assert (base / "a/b1/1.xml").read_bytes() == b"<r>1</r>"


def test_a_file_is_replaced_whole(disk: Disk, base: Path) -> None:
    disk.write_all([("r.xml", b"old" * 1000)])
    seen: set[bytes] = set()
    done = threading.Event()

    def read() -> None:
        while not done.is_set():
            seen.add((base / "r.xml").read_bytes())

    reader = threading.Thread(target=read)
    reader.start()
    for _ in range(20):
        disk.write_all([("r.xml", b"new" * 2000)])
        disk.write_all([("r.xml", b"old" * 1000)])
    done.set()
    reader.join()
    assert seen <= {b"old" * 1000, b"new" * 2000}


def test_what_a_killed_run_left_unfinished_is_no_hindrance(disk: Disk, base: Path) -> None:
    base.mkdir(parents=True)
    (base / "r.xml~part").write_bytes(b"half of something longer than the record")
    disk.write_all([("r.xml", b"<r/>")])
    assert (base / "r.xml").read_bytes() == b"<r/>"
    disk.write_all([("r.xml", b"<again/>")])
    assert [path.name for path in base.iterdir()] == ["r.xml"]
    assert (base / "r.xml").read_bytes() == b"<again/>"


def test_removing_a_file_that_is_not_there_is_fine(disk: Disk) -> None:
    disk.write_all([("a/r.xml", b"<r/>")])
    assert disk.missing(["a/r.xml", "a/none.xml"]) == ["a/none.xml"]
    disk.remove_all(["a/r.xml", "a/none.xml", "b/none.xml"])
    assert disk.missing(["a/r.xml"]) == ["a/r.xml"]


def test_files_that_give_way_go_after_those_that_come(disk: Disk) -> None:
    disk.write_all([("old.xml", b"<r/>")])
    disk.replace([("new.xml", b"<r/>")], ["old.xml"])
    assert disk.missing(["old.xml", "new.xml"]) == ["old.xml"]


def test_a_page_of_many_files_needs_few_open_ones(disk: Disk, base: Path) -> None:
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    open_now = len(list(Path("/dev/fd").iterdir()))
    resource.setrlimit(resource.RLIMIT_NOFILE, (open_now + 300, hard))
    try:
        disk.write_all([(f"{number}.xml", b"<record/>") for number in range(1500)])
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
    assert len(list(base.glob("*.xml"))) == 1500

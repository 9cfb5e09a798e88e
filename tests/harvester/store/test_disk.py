import errno
import os
import resource
import stat
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from harvester.store.atomic_files import Disk, Named


@pytest.fixture(params=["named", "as the file system can"])
def disk(tmp_path: Path, request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Iterator[Disk]:
    if request.param == "named":
        monkeypatch.setattr("harvester.store.atomic_files.unfinished_in", lambda _: Named())
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


def test_a_file_is_replaced_atomically(disk: Disk, base: Path) -> None:
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


def test_unfinished_files_of_a_killed_run_do_not_prevent_writing(disk: Disk, base: Path) -> None:
    base.mkdir(parents=True)
    (base / "r.xml~part").write_bytes(b"half of something longer than the record")
    disk.write_all([("r.xml", b"<r/>")])
    assert (base / "r.xml").read_bytes() == b"<r/>"
    disk.write_all([("r.xml", b"<again/>")])
    assert [path.name for path in base.iterdir()] == ["r.xml"]
    assert (base / "r.xml").read_bytes() == b"<again/>"


def test_removing_a_missing_file_is_not_an_error(disk: Disk) -> None:
    disk.write_all([("a/r.xml", b"<r/>")])
    assert disk.missing(["a/r.xml", "a/none.xml"]) == ["a/none.xml"]
    disk.remove_all(["a/r.xml", "a/none.xml", "b/none.xml"])
    assert disk.missing(["a/r.xml"]) == ["a/r.xml"]


def test_replaced_files_are_removed_after_new_ones_are_written(disk: Disk) -> None:
    disk.write_all([("old.xml", b"<r/>")])
    disk.begin([("new.xml", b"<r/>")], ["old.xml"])
    assert disk.missing(["old.xml", "new.xml"]) == ["old.xml"]


@pytest.mark.parametrize("number", [3, 40])
def test_begun_files_exist_after_settling(disk: Disk, base: Path, number: int) -> None:
    for part in range(3):
        disk.begin([(f"{part}/{name}.xml", b"<r/>") for name in range(number)])
    disk.settle()
    assert len([path for path in base.rglob("*") if path.is_file()]) == 3 * number


@pytest.mark.parametrize("number", [3, 40])
def test_a_file_begun_again_before_it_has_its_name_is_complete(disk: Disk, base: Path, number: int) -> None:
    for data in (b"<first/>" * 100, b"<second/>", b"<third/>"):
        disk.begin([(f"{name}.xml", data) for name in range(number)])
    disk.settle()
    assert {path.name: path.read_bytes() for path in base.iterdir()} == {
        f"{name}.xml": b"<third/>" for name in range(number)
    }


def test_a_file_that_is_still_being_written_is_not_missing(disk: Disk) -> None:
    disk.begin([("r.xml", b"<r/>")])
    assert disk.missing(["r.xml"]) == []


def test_an_error_is_raised_once_and_later_files_are_written(disk: Disk, base: Path) -> None:
    (base / "0.xml").mkdir(parents=True)
    disk.begin([(f"{name}.xml", b"<r/>") for name in range(20)])
    with pytest.raises(IsADirectoryError, match=r"0\.xml"):
        disk.begin([("other.xml", b"<r/>")])
    assert not (base / "other.xml").exists()
    disk.begin([("third.xml", b"<r/>")])
    disk.settle()
    assert (base / "third.xml").exists()


@pytest.mark.parametrize("refused", ["write", "fsync"])
def test_a_disk_error_names_the_file_or_the_folder(
    disk: Disk, base: Path, monkeypatch: pytest.MonkeyPatch, refused: str
) -> None:
    def fail(*_: object) -> int:
        raise OSError(errno.EIO, os.strerror(errno.EIO))

    disk.write_all([("a/before.xml", b"<r/>")])
    monkeypatch.setattr(f"harvester.store.atomic_files.os.{refused}", fail)
    with pytest.raises(OSError, match="Input/output error") as caught:
        disk.write_all([("a/b.xml", b"<r/>")])
    assert caught.value.filename == (f"{base}/a/b.xml" if refused == "write" else str(base))
    monkeypatch.undo()


@pytest.mark.parametrize("number", [3, 40])
def test_bytes_are_synced_before_their_names_and_names_when_settling(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, number: int
) -> None:
    """The order that a power cut would show, by the calls to the system."""
    synced: list[tuple[str, int]] = []

    def note(descriptor: int) -> None:
        kind = "folder" if stat.S_ISDIR(os.fstat(descriptor).st_mode) else "file"
        synced.append((kind, len(list(tmp_path.glob("*/*.xml")))))

    disk = Disk(str(tmp_path), sync_file_system=False)
    disk.write_all([("a/before.xml", b"<r/>")])
    monkeypatch.setattr("harvester.store.atomic_files.os.fsync", note)
    for folder in "ab":
        disk.begin([(f"{folder}/{name}.xml", b"<r/>") for name in range(number)])
    assert [each for each in synced if each[0] == "file"] == [("file", 1)] * 2 * number
    synced.clear()
    disk.settle()
    assert synced == [("folder", 1 + 2 * number)] * 2
    disk.close()


def test_a_page_of_many_files_needs_few_open_ones(disk: Disk, base: Path) -> None:
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    open_now = len(list(Path("/dev/fd").iterdir()))
    resource.setrlimit(resource.RLIMIT_NOFILE, (open_now + 300, hard))
    try:
        disk.write_all([(f"{number}.xml", b"<record/>") for number in range(1500)])
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
    assert len(list(base.glob("*.xml"))) == 1500

import resource
import threading
from pathlib import Path

from harvester.store.files import FileStore


def test_files_get_their_names_and_leave_no_unfinished_ones(tmp_path: Path) -> None:
    files = [(f"a/b{number % 3}/{number}.xml", f"<r>{number}</r>".encode()) for number in range(50)]
    with FileStore(tmp_path / "new" / "base") as store:
        store.write_all(files)
    found = {path for path in (tmp_path / "new" / "base").rglob("*") if path.is_file()}
    assert found == {tmp_path / "new" / "base" / path for path, _ in files}
    assert (tmp_path / "new/base/a/b1/1.xml").read_bytes() == b"<r>1</r>"


def test_a_file_is_replaced_whole(tmp_path: Path) -> None:
    with FileStore(tmp_path) as store:
        store.write_all([("r.xml", b"old" * 1000)])
        seen: set[bytes] = set()
        done = threading.Event()

        def read() -> None:
            while not done.is_set():
                seen.add((tmp_path / "r.xml").read_bytes())

        reader = threading.Thread(target=read)
        reader.start()
        for _ in range(20):
            store.write_all([("r.xml", b"new" * 2000)])
            store.write_all([("r.xml", b"old" * 1000)])
        done.set()
        reader.join()
    assert seen <= {b"old" * 1000, b"new" * 2000}


def test_what_a_killed_run_left_unfinished_is_written_over(tmp_path: Path) -> None:
    (tmp_path / "r.xml~part").write_bytes(b"half of something longer than the record")
    with FileStore(tmp_path) as store:
        store.write_all([("r.xml", b"<r/>")])
    assert [path.name for path in tmp_path.iterdir()] == ["r.xml"]
    assert (tmp_path / "r.xml").read_bytes() == b"<r/>"


def test_removing_a_file_that_is_not_there_is_fine(tmp_path: Path) -> None:
    with FileStore(tmp_path) as store:
        store.write_all([("a/r.xml", b"<r/>")])
        assert store.exists("a/r.xml")
        store.remove_all(["a/r.xml", "a/none.xml", "b/none.xml"])
        assert not store.exists("a/r.xml")


def test_a_page_of_many_files_needs_few_open_ones(tmp_path: Path) -> None:
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    open_now = len(list(Path("/dev/fd").iterdir()))
    resource.setrlimit(resource.RLIMIT_NOFILE, (open_now + 300, hard))
    try:
        with FileStore(tmp_path) as store:
            store.write_all([(f"{number}.xml", b"<record/>") for number in range(1500)])
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
    assert len(list(tmp_path.glob("*.xml"))) == 1500

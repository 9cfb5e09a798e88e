from pathlib import Path

import pytest

from harvester.store.disk_process import DiskProcess
from harvester.store.files import FileStore

_FEW, _MANY = 3, 250


@pytest.mark.parametrize("number", [_FEW, _MANY])
def test_files_exist_after_settling(tmp_path: Path, number: int) -> None:
    with FileStore(tmp_path) as store:
        store.begin([(f"{name}.xml", b"<r/>") for name in range(number)])
        store.settle()
        assert store.missing([f"{name}.xml" for name in range(number + 1)]).result() == [f"{number}.xml"]
        assert store.read("0.xml") == b"<r/>"
        assert store.read(f"{number}.xml") is None


@pytest.mark.parametrize("number", [_FEW, _MANY])
def test_files_in_progress_are_replaced_in_order(tmp_path: Path, number: int) -> None:
    names = [f"{name}.xml" for name in range(number)]
    with FileStore(tmp_path) as store:
        store.begin([(name, b"<first/>") for name in names])
        store.begin([(name, b"<second/>") for name in names], ["gone.xml"])
        assert store.missing([*names, "gone.xml"]).result() == ["gone.xml"]
    assert {path.read_bytes() for path in tmp_path.iterdir()} == {b"<second/>"}


@pytest.mark.parametrize("number", [_FEW, _MANY])
def test_an_error_is_raised_once_and_at_the_latest_at_the_end(tmp_path: Path, number: int) -> None:
    (tmp_path / "0.xml").mkdir()
    files = [(f"{name}.xml", b"<r/>") for name in range(number)]
    with pytest.raises(IsADirectoryError), FileStore(tmp_path) as store:
        store.begin(files)
    with FileStore(tmp_path) as store:
        store.begin(files)
        with pytest.raises(IsADirectoryError):
            store.settle()
        store.settle()
    with FileStore(tmp_path) as store:
        store.begin(files)
        store.begin([("other.xml", b"<r/>")])
        with pytest.raises(IsADirectoryError):
            store.settle()
        store.settle()
    assert not (tmp_path / "other.xml").exists()


def test_a_process_is_started_only_for_many_files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    begun: list[str] = []

    class Noted(DiskProcess):
        def __init__(self, base: str) -> None:
            begun.append(base)
            super().__init__(base)

    monkeypatch.setattr("harvester.store.files.DiskProcess", Noted)
    with FileStore(tmp_path) as store:
        store.missing(["r.xml"] * _FEW).result()
        assert begun == []
        for _ in range(2):
            store.missing(["r.xml"] * _MANY).result()
    assert begun == [str(tmp_path)]

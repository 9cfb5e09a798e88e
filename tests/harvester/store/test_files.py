from pathlib import Path

import pytest

from harvester.store.disk_process import DiskProcess
from harvester.store.files import FileStore

_FEW, _MANY = 3, 250


@pytest.mark.parametrize("number", [_FEW, _MANY])
def test_files_are_there_when_the_block_has_ended(tmp_path: Path, number: int) -> None:
    with FileStore(tmp_path) as store:
        with store.writing([(f"{name}.xml", b"<r/>") for name in range(number)]):
            pass
        assert store.missing([f"{name}.xml" for name in range(number + 1)]) == {f"{number}.xml"}
        assert store.read("0.xml") == b"<r/>"
        assert store.read(f"{number}.xml") is None


@pytest.mark.parametrize("number", [_FEW, _MANY])
def test_what_failed_is_raised_at_the_end_of_the_block(tmp_path: Path, number: int) -> None:
    (tmp_path / "0.xml").mkdir()
    with (
        FileStore(tmp_path) as store,
        pytest.raises(IsADirectoryError),
        store.writing([(f"{name}.xml", b"<r/>") for name in range(number)]),
    ):
        pass


def test_only_much_at_once_is_worth_a_process(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    begun: list[str] = []

    class Noted(DiskProcess):
        def __init__(self, base: str) -> None:
            begun.append(base)
            super().__init__(base)

    monkeypatch.setattr("harvester.store.files.DiskProcess", Noted)
    with FileStore(tmp_path) as store:
        store.missing(["r.xml"] * _FEW)
        assert begun == []
        for _ in range(2):
            store.missing(["r.xml"] * _MANY)
    assert begun == [str(tmp_path)]

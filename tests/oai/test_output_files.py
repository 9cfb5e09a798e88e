"""An output file has its name only once it is complete."""

from pathlib import Path

import pytest

from oai.output_files import complete_file


def test_a_complete_file_replaces_the_old_one(tmp_path: Path) -> None:
    name = tmp_path / "a.warc.gz"
    name.write_bytes(b"old")
    with complete_file(name) as file:
        file.write(b"new")
        assert name.read_bytes() == b"old"
    assert name.read_bytes() == b"new"
    assert list(tmp_path.iterdir()) == [name]


def test_nothing_is_left_of_an_incomplete_file(tmp_path: Path) -> None:
    name = tmp_path / "a.warc.gz"
    name.write_bytes(b"old")
    with pytest.raises(ZeroDivisionError), complete_file(name) as file:
        file.write(b"new" * (1 // 0))
    assert name.read_bytes() == b"old"
    assert list(tmp_path.iterdir()) == [name]

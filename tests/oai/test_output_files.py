"""An output file has its name only once it is complete."""

import errno
import os
import resource
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


def test_an_incomplete_file_is_removed_and_the_old_one_kept(tmp_path: Path) -> None:
    name = tmp_path / "a.warc.gz"
    name.write_bytes(b"old")
    with pytest.raises(ZeroDivisionError), complete_file(name) as file:
        file.write(b"new" * (1 // 0))
    assert name.read_bytes() == b"old"
    assert list(tmp_path.iterdir()) == [name]


def test_only_the_error_of_a_full_disk_gets_the_file_name(tmp_path: Path) -> None:
    name = tmp_path / "a.warc.gz"
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (0, hard))  # fails as on a full disk: without a path
    try:
        with pytest.raises(OSError, match=os.strerror(errno.EFBIG)) as raised, complete_file(name) as file:
            file.write(b"new")
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
    assert raised.value.filename == f"{name}~part"
    with pytest.raises(OSError, match="elsewhere") as raised, complete_file(name):
        raise OSError(errno.EIO, "elsewhere")
    assert raised.value.filename is None
    assert list(tmp_path.iterdir()) == []

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from harvester.store.atomic_files import Named, UnnamedFiles, unfinished_in

_linux_only = pytest.mark.skipif(sys.platform != "linux", reason="only Linux has files without names")


@_linux_only
def test_unfinished_files_have_no_name_on_linux(tmp_path: Path) -> None:
    way = unfinished_in(str(tmp_path))
    assert isinstance(way, UnnamedFiles)
    descriptor = way.begin(f"{tmp_path}/r.xml", b"<r/>")
    assert list(tmp_path.iterdir()) == []
    way.finish(f"{tmp_path}/r.xml", descriptor)
    os.close(descriptor)
    way.close()
    assert (tmp_path / "r.xml").read_bytes() == b"<r/>"
    assert (tmp_path / "r.xml").stat().st_nlink == 1


@pytest.mark.parametrize("refused", ["open", "link"])
def test_without_support_of_the_file_system_unfinished_files_have_a_temporary_name(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, refused: str
) -> None:
    def refuse(*_: object, **__: object) -> int:
        raise OSError(95, "Operation not supported")

    monkeypatch.setattr(f"harvester.store.atomic_files.os.{refused}", refuse)
    way = unfinished_in(str(tmp_path))
    monkeypatch.undo()
    assert isinstance(way, Named)
    descriptor = way.begin(f"{tmp_path}/r.xml", b"<r/>")
    assert [path.name for path in tmp_path.iterdir()] == ["r.xml~part"]
    way.finish(f"{tmp_path}/r.xml", descriptor)
    os.close(descriptor)
    assert [path.name for path in tmp_path.iterdir()] == ["r.xml"]


@_linux_only
def test_a_process_killed_while_writing_leaves_no_file(tmp_path: Path) -> None:
    program = (
        "import os, signal, sys\n"
        "from harvester.store.atomic_files import unfinished_in\n"
        "way = unfinished_in(sys.argv[1])\n"
        "way.begin(sys.argv[1] + '/r.xml', b'<r/>')\n"
        "os.kill(os.getpid(), signal.SIGKILL)\n"
    )
    ended = subprocess.run([sys.executable, "-c", program, str(tmp_path)], check=False)
    assert ended.returncode == -signal.SIGKILL
    assert list(tmp_path.iterdir()) == []

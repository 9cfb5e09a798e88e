"""The reason why the embedded server does not start is found from its disk and its log."""

import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from oai import keeper
from oai.embedded import EmbeddedServer, cluster_folder, why_not
from oai.errors import DatabaseNotReadyError


@pytest.fixture
def cluster(tmp_path: Path) -> Iterator[Path]:
    """The folder of a server that has stopped."""
    server = EmbeddedServer(tmp_path)
    server.acquire()
    server.release()
    folder = cluster_folder(tmp_path)
    yield folder
    keeper.stop(folder)
    shutil.rmtree(folder)


@pytest.mark.parametrize(
    ("setting", "reason"),
    [
        ("nonsense = = 1", "contains errors; "),
        # After its lock file exists, PostgreSQL 18 also writes that it is shut down.
        ("shared_preload_libraries = 'nonsense'", 'could not access file "nonsense": No such file'),
    ],
)
def test_a_server_that_does_not_start_is_reported_with_the_message_in_its_log(
    cluster: Path, tmp_path: Path, setting: str, reason: str
) -> None:
    (cluster / "postgresql.conf").write_text(f"{setting}\n")
    with pytest.raises(DatabaseNotReadyError) as raised:
        EmbeddedServer(tmp_path, going_seconds=0).acquire()
    message = str(raised.value)
    assert reason in message
    assert message.endswith("server.log")
    assert "pg_ctl" not in message


def test_a_full_disk_has_precedence_over_other_reasons(tmp_path: Path) -> None:
    (tmp_path / "server.log").write_text("FATAL:  something else\n")
    assert why_not(tmp_path, "no idea", needed=2**62).startswith("no space left on device")


@pytest.mark.parametrize("error", ["FATAL:  could not map memory", "initdb: error: could not map memory"])
def test_only_the_error_in_the_output_of_initdb_is_shown(tmp_path: Path, error: str) -> None:
    output = f"initdb -D there ended with 1: creating directory ... ok\n{error}\ninitdb: removing contents"
    assert why_not(tmp_path, output) == "could not map memory"


def test_log_entries_before_the_start_are_not_reported_as_reason(tmp_path: Path) -> None:
    log = tmp_path / "server.log"
    assert why_not(tmp_path, "no idea") == "no idea"
    log.write_text("FATAL:  ended a connection\n")
    logged = log.stat().st_size
    assert why_not(tmp_path, "no idea", logged=logged) == "no idea"
    log.write_text(f"{log.read_text()}FATAL:  could not create lock file\n")
    assert why_not(tmp_path, "no idea", logged=logged) == f"could not create lock file; see {log}"


@pytest.fixture
def parent() -> Iterator[Path]:
    """A folder with a path short enough for a socket, and accessible to the server that root starts."""
    with tempfile.TemporaryDirectory() as folder:
        Path(folder).chmod(0o755)
        yield Path(folder)


def test_a_folder_with_an_apostrophe_and_other_special_characters_is_used(parent: Path) -> None:
    server = EmbeddedServer(parent / "o'brien & \\(sons) #1")
    server.acquire()
    server.release()
    assert list(parent.glob("*/postgres/PG_VERSION"))


def test_folders_left_by_killed_first_starts_are_removed(parent: Path) -> None:
    for left in ("1", "4194304"):
        (parent / f"postgres.{left}.new" / "base").mkdir(parents=True)
    server = EmbeddedServer(parent)
    server.acquire()
    server.release()
    assert [folder.name for folder in parent.iterdir() if folder.is_dir()] == ["postgres"]


@pytest.mark.parametrize("sign", ['"', "$", "`", ",", "\n"])
def test_a_folder_that_the_server_cannot_use_is_refused_with_the_character(parent: Path, sign: str) -> None:
    with pytest.raises(DatabaseNotReadyError) as raised:
        EmbeddedServer(parent / f"a{sign}b", going_seconds=600).acquire()
    assert f"does not accept the character {sign!r} in this path; set another" in str(raised.value)
    assert not list(parent.glob("*/postgres"))

"""A place that cannot be written to ends each command with one line of what to do, as a full disk does.

The kernel's own folder accepts no new files from any user, so this applies to root, too.
"""

import os
import stat
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
from sqlalchemy import select

from harvester.models import History, Repository
from oai.database import Database
from oai.errors import ExitCode, ZatvaError
from tests.commands import Done, zatva, zatva_beside
from tests.harvester.fake_repository import FakeRepository, many, serve
from zatva.dumps import find_program, write_dump

CLOSED = Path("/sys")
_COMMANDS = {
    "harvest": ("harvest", "{url}", "--out", "{place}"),
    "restore of files": ("restore", "all", "{place}", "--from", "{url}"),
    "restore as WARC": ("restore", "all", "{place}", "--from", "{url}", "--as", "warc"),
    "export": ("store", "export", "1", "--as", "jsonl", "--out", "{place}"),
    "backup": ("database", "backup", "{place}"),
}


@pytest.fixture
async def fake() -> AsyncIterator[FakeRepository]:
    async with serve(FakeRepository(items=many(3))) as served:
        yield served


@pytest.fixture
def file(tmp_path: Path) -> Path:
    """A file, below which nothing can be created."""
    made = tmp_path / "file"
    made.write_text("kept", encoding="ascii")
    return made


def check(done: Done, place: Path) -> None:
    """Check that the last line names the place and says what to do, and that there is no traceback."""
    assert done.returncode == 1, done.stderr
    last = done.stderr.splitlines()[-1]
    assert last.startswith("zatva: ")
    assert (str(place) in last, last.endswith("then run the command again")) == (True, True), last
    assert "Traceback" not in done.stderr


def add_repository(database: Database, url: str) -> None:
    with database.session() as session:
        session.add(Repository(base_url=url, base_dir="fake"))
        session.commit()


@pytest.mark.parametrize("command", _COMMANDS)
@pytest.mark.parametrize("closed", [True, False])
async def test_a_place_that_cannot_be_written_to_is_reported(
    fake: FakeRepository,
    environment: dict[str, str],
    database: Database,
    file: Path,
    command: str,
    *,
    closed: bool,
) -> None:
    add_repository(database, fake.url)
    place = (CLOSED if closed else file) / "place"
    words = [word.format(url=fake.url, place=place) for word in _COMMANDS[command]]
    check(await zatva_beside(environment, *words), place)


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="only Linux has a device that is always full")
def test_a_backup_to_a_full_disk_is_reported_with_its_file(
    database: Database, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    program = tmp_path / "pg_dump"
    program.write_text(
        f'#!/bin/sh\n[ "$LC_ALL" = C ] && exec {find_program("pg_dump")} "$@" --file=/dev/full\n'
    )
    program.chmod(0o700)
    monkeypatch.setattr("zatva.dumps.find_program", lambda _, **__: str(program))
    file = tmp_path / "zatva.dump"
    with pytest.raises(ZatvaError) as raised:
        write_dump(database, file)
    words = (
        f"{file}: No space left on device; free some space or inodes (`df -i`) there, or give another path"
    )
    assert (str(raised.value), raised.value.exit_code) == (
        f"{words}, then run the command again",
        ExitCode.FAULT,
    )
    assert list(tmp_path.iterdir()) == [program]


@pytest.mark.parametrize("option", ["--keep-raw", "--full"])
async def test_a_store_that_cannot_be_written_to_is_reported(
    fake: FakeRepository, environment: dict[str, str], database: Database, file: Path, option: str
) -> None:
    add_repository(database, fake.url)
    data = file / "data"
    check(await zatva_beside({**environment, "ZATVA_DATA": str(data)}, "harvest", "1", option), data)
    with database.session() as session:
        run = session.scalars(select(History)).one()
        assert (run.status, str(data) in str(run.failure_reason)) == ("failed", True)


async def test_a_file_where_a_folder_is_needed_is_reported(
    fake: FakeRepository, environment: dict[str, str], file: Path
) -> None:
    done = await zatva_beside(environment, "harvest", fake.url, "--out", str(file))
    check(done, file)
    done = await zatva_beside(environment, "harvest", fake.url, "--out", str(file / "records"))
    check(done, file)


def test_init_in_a_folder_that_accepts_no_files_is_reported(environment: dict[str, str]) -> None:
    check(zatva(environment, "init", folder=CLOSED), CLOSED)


def test_init_can_be_repeated_after_it_found_no_database(environment: dict[str, str], tmp_path: Path) -> None:
    nowhere = environment | {"ZATVA_DATABASE_URL": "postgresql://127.0.0.1:1/none"}
    assert zatva(nowhere, "init", folder=tmp_path).returncode == 6
    done = zatva(environment, "init", folder=tmp_path)
    assert done.returncode == 0, done.stderr
    assert (tmp_path / "zatva.toml").is_file()


@pytest.mark.parametrize("named", ["option", "variable", "neither"])
def test_init_writes_the_file_that_other_commands_read(
    environment: dict[str, str], tmp_path: Path, named: str
) -> None:
    file = tmp_path / ("zatva.toml" if named == "neither" else "other.toml")
    words = ["--config", str(file)] if named == "option" else []
    environment |= {"ZATVA_CONFIG": str(file)} if named == "variable" else {}
    made = zatva(environment, "init", *words, folder=tmp_path)
    assert (made.returncode, str(file) in made.stdout) == (0, True), made.stderr
    assert list(tmp_path.glob("*.toml")) == [file]
    assert zatva(environment, "settings", *words, folder=tmp_path).returncode == 0
    again = zatva(environment, "init", *words, folder=tmp_path)
    assert (again.returncode, f"{file} already exists" in again.stderr) == (2, True)
    assert zatva(environment, "init", "--force", *words, folder=tmp_path).returncode == 0


def test_init_creates_the_data_folder_that_it_was_given_and_writes_it_to_the_file(
    environment: dict[str, str], tmp_path: Path
) -> None:
    del environment["ZATVA_DATA"]
    made = zatva(environment, "init", "--data", 'da"ta ř', folder=tmp_path)
    assert made.returncode == 0, made.stderr
    shown = zatva(environment, "settings", "--changed", folder=tmp_path)
    assert str(tmp_path / 'da"ta ř') in shown.stdout
    assert (tmp_path / 'da"ta ř').stat().st_mode & 0o777 == 0o700


def test_init_refuses_a_folder_in_place_of_its_file_and_a_missing_folder(
    environment: dict[str, str], tmp_path: Path
) -> None:
    (tmp_path / "zatva.toml").mkdir()
    over = zatva(environment, "init", "--force", folder=tmp_path)
    assert (over.returncode, "zatva.toml is a folder" in over.stderr) == (2, True), over.stderr
    missing = zatva(environment, "init", "--config", "none/z.toml", folder=tmp_path)
    assert (missing.returncode, f"{tmp_path / 'none'}: no such folder" in missing.stderr) == (2, True)


@pytest.mark.parametrize("command", ["export", "backup"])
def test_an_output_that_is_a_folder_or_in_a_missing_folder_is_refused(
    environment: dict[str, str], database: Database, tmp_path: Path, command: str
) -> None:
    add_repository(database, "http://a.example/oai")
    for place in (tmp_path, tmp_path / "none" / "out"):
        words = [word.format(url="", place=place) for word in _COMMANDS[command]]
        done = zatva(environment, *words)
        assert (done.returncode, str(place.parent) in done.stderr) == (2, True), done.stderr
        assert "Traceback" not in done.stderr
    assert not (tmp_path / "none").exists()


def test_an_export_to_a_pipe_does_not_replace_the_pipe(
    environment: dict[str, str], database: Database, tmp_path: Path
) -> None:
    add_repository(database, "http://a.example/oai")
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    # Both ends are open here and nothing is waited for, whatever became of the pipe.
    descriptor = os.open(pipe, os.O_RDWR | os.O_NONBLOCK)
    try:
        done = zatva(environment, "store", "export", "1", "--as", "tar", "--out", str(pipe), "--quiet")
        exported = os.read(descriptor, 1 << 16)
    finally:
        os.close(descriptor)
    assert done.returncode == 0, done.stderr
    assert len(exported) >= 1024
    assert stat.S_ISFIFO(pipe.stat().st_mode)
    assert list(tmp_path.glob("*~part")) == []

"""Other accounts of the machine: reading passwords, keys, backups and harvested records."""

import json
import stat
from collections.abc import Iterator
from pathlib import Path

import pytest

from oai.private_files import open_private
from tests.commands import results, zatva, zatva_beside
from tests.harvester.fake_repository import FakeRepository, many, serve

_PASSWORD = '[mail]\npassword = "secret"\n'


def _mode(file: Path) -> int:
    return stat.S_IMODE(file.stat().st_mode)


@pytest.fixture
def folder(tmp_path: Path) -> Iterator[Path]:
    """A folder that every account may enter."""
    closed = [each for each in tmp_path.parents if not each.stat().st_mode & stat.S_IXOTH]
    modes = {each: _mode(each) for each in closed}
    for each in (tmp_path, *closed):
        each.chmod(_mode(each) | stat.S_IXOTH)
    yield tmp_path
    for each, mode in modes.items():
        each.chmod(mode)


def test_settings_and_backups_are_readable_only_by_their_owner(
    environment: dict[str, str], folder: Path
) -> None:
    settings, backup = folder / "zatva.toml", folder / "backup"
    assert zatva(environment, "init", folder=folder).returncode == 0
    assert _mode(settings) == 0o600
    settings.chmod(0o644)
    assert zatva(environment, "init", "--force", folder=folder).returncode == 0
    assert _mode(settings) == 0o600, "passwords are added to what was there"

    assert zatva(environment, "database", "backup", backup).returncode == 0
    assert _mode(backup) == 0o600


def test_a_backup_is_not_written_through_a_link(folder: Path) -> None:
    target, link = folder / "target", folder / "backup.part"
    target.write_text("of another account")
    link.symlink_to(target)
    with pytest.raises(OSError, match="symbolic links"):
        open_private(link)
    assert target.read_text() == "of another account"


async def test_harvested_files_are_readable_only_by_owner_and_group(
    environment: dict[str, str], folder: Path
) -> None:
    async with serve(FakeRepository(items=many(3))) as fake:
        done = await zatva_beside(environment, "harvest", fake.url, "--out", folder / "records")
    assert done.returncode == 0, done.stderr
    files = [file for file in (folder / "records").rglob("*") if file.is_file()]
    assert files
    for file in files:
        assert _mode(file) & 0o047 == 0o040, file


def test_settings_with_secrets_readable_by_others_are_reported_with_advice(
    environment: dict[str, str], folder: Path
) -> None:
    file = folder / "zatva.toml"
    file.write_text(_PASSWORD)
    file.chmod(0o644)
    warned = zatva(environment, "organisation", "list", folder=folder)
    assert f"{file} contains secrets and can be read by every account" in warned.stderr
    assert f"`chmod o= {file}`" in warned.stderr
    output = zatva(environment, "doctor", "--json", folder=folder).stdout
    rows = [json.loads(line) for line in output.splitlines()]
    (found,) = (row for row in rows if row["check"] == "files with secrets")
    assert (found["well"], found["advice"]) == (False, f"run `chmod o= {file}`")

    file.chmod(0o640)
    assert zatva(environment, "organisation", "list", folder=folder).stderr.count("secrets") == 0


@pytest.mark.parametrize("setting", ["ZATVA_MAIL__PASSWORD_FILE", "ZATVA_WEBHOOKS__SECRET_FILE"])
def test_secret_files_readable_by_others_are_reported(
    environment: dict[str, str], folder: Path, setting: str
) -> None:
    file = folder / "secret"
    file.write_text("secret\n")
    file.chmod(0o604)
    assert "secrets" in zatva({**environment, setting: str(file)}, "organisation", "list").stderr


def test_settings_without_secrets_may_be_readable_by_others(
    environment: dict[str, str], folder: Path
) -> None:
    (folder / "zatva.toml").write_text('[mail]\nsender = "a@b.example"\n')
    (folder / "zatva.toml").chmod(0o644)
    assert results({**environment, "ZATVA_CONFIG": str(folder / "zatva.toml")}, "organisation", "list") == []
    assert "secrets" not in zatva(environment, "organisation", "list", folder=folder).stderr

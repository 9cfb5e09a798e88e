"""Database and store restored together: consistent, or completed by the next harvest."""

import asyncio
import shutil
from dataclasses import replace
from pathlib import Path
from typing import Any, Final

from sqlalchemy import text

from harvester.harvest.source import open_replay
from oai.database import open_database
from oai.datestamps import format_datestamp, utc_now
from oai.settings import Settings
from tests.commands import results, zatva
from tests.harvester.fake_repository import FakeRepository, Item, many, serve
from tests.provider.holdings.replicated import replicated

_BROKEN: Final = b"<oops "


def _change(repository: FakeRepository, *, changed: int, deleted: int, new: int) -> None:
    now = format_datestamp(utc_now())
    items = repository.items
    items[changed] = replace(items[changed], title="A new title", datestamp=now)
    items[deleted] = replace(items[deleted], deleted=True, datestamp=now)
    items += [Item(identifier=f"oai:fake.example:new-{new + number}", datestamp=now) for number in range(3)]


async def test_a_store_copied_after_the_database_is_completed_by_a_harvest(
    environment: dict[str, str], tmp_path: Path
) -> None:
    async def run(*words: str | Path) -> None:
        await asyncio.to_thread(results, environment, *words)

    async def is_whole() -> bool:
        done = await asyncio.to_thread(zatva, environment, "store", "verify", "1")
        return done.returncode == 0

    store, copied, dump = tmp_path / "store", tmp_path / "copied", tmp_path / "zatva.dump"
    async with serve(FakeRepository(items=many(30))) as repository:
        harvest = ("harvest", repository.url, "--out", store)
        await run(*harvest)
        await run("database", "backup", dump)
        _change(repository, changed=3, deleted=4, new=0)
        await run(*harvest)
        shutil.copytree(store, copied)
        _change(repository, changed=6, deleted=7, new=10)
        await run(*harvest)

        shutil.rmtree(store)
        await run("database", "restore", dump, "--force")
        shutil.copytree(copied, store)
        assert not await is_whole()
        await run(*harvest)

        assert await is_whole()
        files = {path.read_bytes() for path in store.rglob("*.xml")}
    assert len(files) == len([item for item in repository.items if not item.deleted])
    assert sum(b"A new title" in file for file in files) == 2


async def test_a_backup_of_database_and_store_is_restored_consistently(
    environment: dict[str, str], tmp_path: Path
) -> None:
    async def run(*words: str | Path, expect: int = 0) -> Any:
        (report,) = await asyncio.to_thread(results, environment, *words, expect=expect)
        return report

    store, copied, dump = tmp_path / "store", tmp_path / "copied", tmp_path / "zatva.dump"
    raw = Path(environment["ZATVA_DATA"]) / "raw" / "1"
    async with serve(
        FakeRepository(items=many(30), fault=lambda _, good: good.replace(b"Title 5 ", _BROKEN))
    ) as repository:
        harvest = ("harvest", repository.url, "--out", store)
        kept = (await run(*harvest, "--keep-raw", expect=3))["raw_path"].rpartition("/")[2]
        files, answers = _files(store), _files(raw)
        assert list(answers) == [Path(kept)]
        # A running harvest, and one that was killed, have no row that names their files.
        (raw / "20260101T000000.000000Z-1.warc.gz").write_bytes(b"under way")
        report = await run("database", "backup", dump, "--store", copied)
        assert (report["raw_files"], report["raw_missing"]) == (2, 0)
        assert (copied / "raw" / "1" / kept).samefile(raw / kept)
        again = await asyncio.to_thread(
            zatva, environment, "database", "backup", tmp_path / "second.dump", "--store", copied
        )
        assert (again.returncode, "already exists" in again.stderr) == (2, True)
        _change(repository, changed=3, deleted=4, new=0)
        await run(*harvest, expect=3)
        assert _files(store) != files

        shutil.rmtree(store)
        shutil.rmtree(raw)
        report = await run("database", "restore", dump, "--force", "--store", copied)
        assert (report["raw_files"], report["raw_missing"]) == (2, 0)
        assert _files(store) == files
        assert answers.items() < _files(raw).items()
        assert (await asyncio.to_thread(zatva, environment, "store", "verify", "1")).returncode == 0
    opened = [reply.body for _, reply in open_replay(raw / kept).exchanges()]
    assert sum(_BROKEN in body for body in opened) > 0


async def test_a_trial_restore_does_not_overwrite_the_files_of_another_installation(
    environment: dict[str, str], settings: Settings, tmp_path: Path
) -> None:
    store, copied, dump = tmp_path / "store", tmp_path / "copied", tmp_path / "zatva.dump"
    trial = {**environment, "ZATVA_DATA": str(tmp_path / "trial")}
    restore = ("database", "restore", dump, "--force", "--store", copied)
    async with serve(FakeRepository(items=many(5))) as repository:
        harvest = ("harvest", repository.url, "--out", store)
        await asyncio.to_thread(results, environment, *harvest)
        await asyncio.to_thread(results, environment, "database", "backup", dump, "--store", copied)
        _change(repository, changed=3, deleted=4, new=0)
        await asyncio.to_thread(results, environment, *harvest)
    live = _files(store)
    with open_database(settings) as database, database.engine.begin() as connection:
        connection.execute(text("DELETE FROM oai_repository"))  # as a database without repositories
    done = await asyncio.to_thread(zatva, trial, *restore)
    assert (done.returncode, f"files for {store}" in done.stderr, _files(store)) == (2, True, live)
    assert await asyncio.to_thread(results, environment, "repository", "list") == []
    (report,) = await asyncio.to_thread(results, trial, *restore, "--overwrite-files")
    assert report["files"] == 5
    await asyncio.to_thread(results, trial, *restore)


def _files(folder: Path) -> dict[Path, bytes]:
    return {path.relative_to(folder): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


def test_a_backup_with_record_files_is_refused_from_a_replica(
    quick_folder: Path, environment: dict[str, str], tmp_path: Path
) -> None:
    with replicated(quick_folder) as servers:
        environment["ZATVA_DATABASE_URL"] = servers.copies[0].address
        backup = ("database", "backup", tmp_path / "zatva.dump")
        refused = zatva(environment, *backup, "--store", tmp_path / "files")
        assert (refused.returncode, "from a standby" in refused.stderr) == (2, True)
        assert list(tmp_path.iterdir()) == []
        assert zatva(environment, *backup).returncode == 0

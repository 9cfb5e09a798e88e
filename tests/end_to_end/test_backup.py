"""Database and store restored together: as one point, or made whole by the next harvest."""

import asyncio
import shutil
from dataclasses import replace
from pathlib import Path

from oai.datestamps import format_datestamp, utc_now
from tests.commands import results, zatva
from tests.harvester.fake_repository import FakeRepository, Item, many, serve


def _change(repository: FakeRepository, *, changed: int, deleted: int, new: int) -> None:
    now = format_datestamp(utc_now())
    items = repository.items
    items[changed] = replace(items[changed], title="A new title", datestamp=now)
    items[deleted] = replace(items[deleted], deleted=True, datestamp=now)
    items += [Item(identifier=f"oai:fake.example:new-{new + number}", datestamp=now) for number in range(3)]


async def test_a_store_that_was_copied_after_the_database_is_made_whole_by_a_harvest(
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


async def test_a_backup_of_both_is_restored_as_it_was_at_that_moment(
    environment: dict[str, str], tmp_path: Path
) -> None:
    async def run(*words: str | Path) -> None:
        await asyncio.to_thread(results, environment, *words)

    store, copied, dump = tmp_path / "store", tmp_path / "copied", tmp_path / "zatva.dump"
    async with serve(FakeRepository(items=many(30))) as repository:
        harvest = ("harvest", repository.url, "--out", store)
        await run(*harvest)
        files = _files(store)
        await run("database", "backup", dump, "--store", copied)
        again = await asyncio.to_thread(
            zatva, environment, "database", "backup", tmp_path / "second.dump", "--store", copied
        )
        assert (again.returncode, "already exists" in again.stderr) == (2, True)
        _change(repository, changed=3, deleted=4, new=0)
        await run(*harvest)
        assert _files(store) != files

        shutil.rmtree(store)
        await run("database", "restore", dump, "--force", "--store", copied)
        assert _files(store) == files
        assert (await asyncio.to_thread(zatva, environment, "store", "verify", "1")).returncode == 0


def _files(folder: Path) -> dict[Path, bytes]:
    return {path.relative_to(folder): path.read_bytes() for path in folder.rglob("*") if path.is_file()}

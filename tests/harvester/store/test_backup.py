"""A backup's files are those of its snapshot, whatever a harvest changes during the backup."""

import asyncio
import errno
import os
import resource
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest
from sqlalchemy import create_engine, text

from harvester.harvest.raw_capture import raw_folder
from harvester.store.backup import (
    FileFault,
    RawAnswers,
    StoreBackup,
    copy_raw_answers,
    restore_raw_answers,
    unchanging_files,
)
from oai.database import Database
from oai.error_translation import as_zatva_error
from tests.harvester.library import Library
from tests.manager.conftest import until

_WAITS = text("SELECT EXISTS (SELECT FROM pg_locks WHERE locktype = 'advisory' AND NOT granted)")
_LATER = "2024-06-02T00:00:00Z"


def _tombstone(library: Library) -> None:
    library.delete(4)


def _vanish(library: Library) -> None:
    library.forgets()
    del library.fake.items[4]


def _change(library: Library) -> None:
    library.fake.items[4] = replace(library.fake.items[4], title="Another", datestamp=_LATER)


def _waits(library: Library) -> bool:
    with library.database.session() as session:
        return bool(session.scalar(_WAITS))


@pytest.mark.parametrize("alter", [_tombstone, _vanish, _change])
async def test_a_harvest_that_removes_or_overwrites_files_waits_for_the_backup(
    library: Library, tmp_path: Path, alter: Callable[[Library], None]
) -> None:
    await library.run()
    before = library.files()
    alter(library)
    found: list[tuple[FileFault, str]] = []
    stores = {library.repository_id: library.folder}
    backup = StoreBackup(tmp_path / "backup", stores, on_fault=lambda *fault: found.append(fault))
    with unchanging_files(library.database) as snapshot:
        # In a thread, because the end of a run waits in its event loop.
        run = asyncio.create_task(asyncio.to_thread(asyncio.run, library.run(full=True)))
        await until(lambda: _waits(library))
        assert library.files() == before
        backup.copy(snapshot.session)
        snapshot.release()
        await run
        assert library.files() != before
        copied = backup.check(snapshot.session)
    folder = tmp_path / "backup" / str(library.repository_id)
    kept = {path.relative_to(folder).as_posix(): path.read_bytes() for path in folder.rglob("*.xml")}
    assert (kept, copied.files, found) == (before, len(before), [])


async def test_a_harvest_that_only_adds_does_not_wait(library: Library) -> None:
    with unchanging_files(library.database):
        assert (await library.run()).counts["new"] == len(library.fake.items)


async def test_time_limits_of_the_role_do_not_end_a_backup(library: Library) -> None:
    names = ("statement_timeout", "idle_in_transaction_session_timeout", "idle_session_timeout")
    limited = library.database.url.update_query_dict({"options": " ".join(f"-c {name}=1h" for name in names)})
    engine = create_engine(limited)
    with unchanging_files(Database(engine=engine)) as snapshot:
        assert snapshot.session.scalar(text("SHOW idle_in_transaction_session_timeout")) == "0"
        held = [snapshot.holding.scalar(text(f"SHOW {name}")) for name in ("statement_timeout", names[2])]
        assert held == ["0", "0"]
    with engine.connect() as connection:
        assert [connection.scalar(text(f"SHOW {name}")) for name in names] == ["1h"] * 3
    engine.dispose()


async def test_backup_and_restore_report_files_that_do_not_agree_with_rows(
    library: Library, tmp_path: Path
) -> None:
    await library.run()
    gone, damaged, *_ = sorted(library.files())
    whole = library.files()[damaged]
    (library.folder / gone).unlink()
    (library.folder / damaged).write_bytes(b"damaged")
    found: list[tuple[FileFault, str]] = []
    stores = {library.repository_id: library.folder}
    backup = StoreBackup(tmp_path / "backup", stores, on_fault=lambda *fault: found.append(fault))
    with unchanging_files(library.database) as snapshot:
        backup.copy(snapshot.session)
        backup.check(snapshot.session)
    number = library.repository_id
    missing = (FileFault.MISSING, f"{number}/{gone}")
    assert sorted(found) == [(FileFault.ALTERED, f"{number}/{damaged}"), missing]

    found.clear()
    (backup.folder / str(number) / "more.xml").write_bytes(b"?")
    (backup.folder / "other").mkdir()
    (library.folder / damaged).unlink()
    (library.folder / damaged).write_bytes(whole)
    with library.database.session() as session:
        restored = StoreBackup(backup.folder, stores, on_fault=backup.on_fault).restore(session)
    strays = [(FileFault.STRAY, f"{number}/more.xml"), (FileFault.STRAY, "other")]
    assert (sorted(found), restored.files) == ([missing, *strays], len(library.files()))


async def test_raw_answers_that_were_removed_are_counted_and_longer_ones_stay(
    library: Library, tmp_path: Path
) -> None:
    library.change_settings(keep_raw=True)
    number = library.repository_id
    for _ in range(2):
        await library.run()
    folder, backup = raw_folder(library.settings, number), tmp_path / "backup"
    first, second = sorted(folder.iterdir())
    first.unlink()
    with library.database.session() as session:
        assert copy_raw_answers(session, {number: folder}, backup) == RawAnswers(files=1, missing=1)
        (backup / "raw" / str(number) / second.name).unlink()
        (backup / "raw" / str(number) / second.name).write_bytes(b"as far as it went")
        whole = second.read_bytes()
        assert restore_raw_answers(session, {number: folder}, backup) == RawAnswers(files=1, missing=1)
    assert second.read_bytes() == whole


async def test_a_restore_onto_a_full_disk_names_its_file(library: Library, tmp_path: Path) -> None:
    await library.run()
    stores = {library.repository_id: library.folder}
    backup = StoreBackup(tmp_path / "backup", stores, on_fault=lambda *_: None)
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    with library.database.session() as session:
        backup.copy(session)
        lost = next(library.folder.rglob("*.xml"))
        lost.unlink()
        resource.setrlimit(resource.RLIMIT_FSIZE, (0, hard))  # fails as on a full disk: without a path
        try:
            with pytest.raises(OSError, match=os.strerror(errno.EFBIG)) as raised:
                backup.restore(session)
        finally:
            resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
    assert raised.value.filename == str(lost)


def test_a_backup_onto_a_full_disk_names_its_file(library: Library, tmp_path: Path) -> None:
    number, folder = library.repository_id, tmp_path / "raw"
    folder.mkdir()
    (folder / "unfinished").write_bytes(b"an answer")
    target = tmp_path / "backup" / "raw" / str(number) / "unfinished"
    target.parent.mkdir(parents=True)
    target.symlink_to("/dev/full")
    with (
        library.database.session() as session,
        pytest.raises(OSError, match=os.strerror(errno.ENOSPC)) as raised,
    ):
        copy_raw_answers(session, {number: folder}, tmp_path / "backup")
    assert str(as_zatva_error(raised.value)).startswith(f"{target}: No space left on device; free some space")

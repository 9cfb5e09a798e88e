"""Files are prepared for download by workers; a killed worker leaves no file, and old files are removed."""

import asyncio
from pathlib import Path

import pytest

from manager import exports
from oai.database import Database
from oai.settings import Settings
from provider.export import prepared_files
from provider.indexing.indexer import IndexOptions, index_file
from tests.commands import results, zatva
from tests.manager.conftest import Tables, manager_process, managing, until
from tests.provider.archives import Page, write_pages
from tests.provider.export.wacz_checks import read_wacz

_PAGES = (Page(url="http://a.example/"), Page(url="http://a.example/x"), Page(url="http://b.example/"))
_PREPARE = ("provider", "exports", "prepare", "a.example", "--host")


@pytest.fixture
def folder(database: Database, settings: Settings, tmp_path: Path) -> Path:
    """The folder of prepared files, beside an archive of three captures."""
    index_file(database, write_pages(tmp_path / "a.warc.gz", _PAGES), IndexOptions(margin=1))
    return settings.exports


async def test_a_file_is_prepared_by_a_worker_and_removed_when_it_expires(
    quick: Settings, database: Database, tables: Tables, folder: Path, environment: dict[str, str]
) -> None:
    (made,) = results(environment, *_PREPARE, "--title", "A")
    assert made == {"export_id": 1}
    async with managing(quick, database):
        await until(lambda: tables("SELECT FROM prepared_export WHERE state = 'ready'"))
        await until(lambda: tables.one("SELECT count(*) FROM procrastinate_jobs") == 0)
        file = folder / "export-1.wacz"
        wacz = read_wacz(file)
        assert {url for url, _ in wacz.captures} == {page.url for page in _PAGES[:2]}
        assert wacz.description["title"] == "A"
        (shown,) = results(environment, "provider", "exports", "show", "1")
        assert (shown["bytes"], shown["captures"], shown["file"]) == (file.stat().st_size, 2, str(file))
        assert shown["host"]
        tables("UPDATE prepared_export SET expires = now()")
        await until(lambda: not list(folder.iterdir()))
    (row,) = tables("SELECT * FROM prepared_export")
    assert (row.state, row.removed_by, row.failure_code, row.bytes) == ("removed", None, None, 0)
    assert row.removed


async def test_the_file_of_a_killed_worker_fails_and_no_partial_file_remains(
    quick: Settings,
    database: Database,
    tables: Tables,
    folder: Path,
    quick_environment: dict[str, str],
) -> None:
    results(quick_environment, *_PREPARE)
    with database.engine.connect() as blocker:
        # The process writes the file, and blocks when it stores which documents are in it.
        blocker.exec_driver_sql("LOCK TABLE prepared_export_part IN ACCESS EXCLUSIVE MODE")
        async with manager_process(quick_environment, "tests.manager.manager_process", "worker") as process:
            await until(lambda: folder.is_dir() and list(folder.iterdir()))
            process.kill()
            await asyncio.to_thread(process.wait)
    async with managing(quick, database):
        await until(lambda: tables("SELECT FROM prepared_export WHERE state = 'failed'"))
        await until(lambda: not list(folder.iterdir()))
    (row,) = tables("SELECT failure_code, failure_facts FROM prepared_export")
    assert tuple(row) == ("export_incomplete", {"said": "its worker is lost"})
    shown = zatva(quick_environment, "provider", "exports", "list")
    assert "the file was not completed: its worker is lost" in shown.stdout


def test_a_waiting_file_is_removed_once(folder: Path, environment: dict[str, str]) -> None:
    results(environment, *_PREPARE, "--format", "warc")
    results(environment, "provider", "exports", "remove", "1")
    again = zatva(environment, "provider", "exports", "remove", "1")
    assert (again.returncode, "is no longer available" in again.stderr) == (2, True)
    (row,) = results(environment, "provider", "exports", "list")
    assert (row["state"], row["form"], bool(row["removed_by"])) == ("removed", "warc", True)
    assert row["selection"]["look_ups"] == [["a.example", "host"]]
    assert not folder.exists()


def test_rows_are_settled_although_the_folder_cannot_be_cleared(
    database: Database, tables: Tables, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def failing(*_: object) -> None:
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr(prepared_files, "remove_expired", failing)
    tables(
        "INSERT INTO prepared_export (form, selection, title, state, expires)"
        " VALUES ('wacz', '{}', 'A', 'ready', now()), ('wacz', '{}', 'B', 'running', NULL)"
    )
    with database.session() as session:
        exports.tidy(session, folder, lost_seconds=60)
        session.commit()
    states = [tuple(row) for row in tables("SELECT title, state FROM prepared_export ORDER BY export_id")]
    assert states == [("A", "removed"), ("B", "failed")]

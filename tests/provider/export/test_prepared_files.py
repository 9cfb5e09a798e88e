"""Files prepared for download: failures, and documents that make a file unusable afterwards."""

import io
from argparse import Namespace
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import select, update

from oai.cli import Invocation
from oai.console import Console
from oai.database import Database
from oai.disk import DiskFullError
from oai.errors import ExitCode, UsageError
from oai.failures import Failure, FailureCode
from oai.sections import ProviderSettings
from oai.settings import Settings
from provider.export import preparation
from provider.export.models import ExportForm, PreparedExport, PreparedExportPart
from provider.export.prepared_files import (
    add_export,
    claim,
    count_withdrawn,
    find_export,
    remove,
    remove_expired,
    requeue,
)
from provider.export.selection import ChosenTitle, ExportChoice, choose
from provider.holdings.lookup import MatchType
from provider.models import Document
from tests.provider.archives import Page
from tests.provider.conftest import Kept
from tests.provider.export.archive_of_all_kinds import (
    DAMAGED,
    ELSEWHERE,
    EMBARGO,
    NEW,
    OLD,
    ROOM,
    ROOM_AGAIN,
    SAME,
    SECRET,
    make_archive,
)
from tests.provider.export.wacz_checks import read_wacz

_HOST = ExportChoice(look_ups=[("a.example", MatchType.HOST)])


def _of(*pages: Page) -> ExportChoice:
    return ExportChoice(look_ups=[(page.url, MatchType.EXACT) for page in pages])


@pytest.fixture(scope="module")
def kept_archive(kept: Kept, tmp_path_factory: pytest.TempPathFactory) -> None:
    """An archive of captures of every kind."""
    make_archive(kept.open(), tmp_path_factory.mktemp("archive"))


@pytest.fixture
def archive(
    kept_archive: None,  # noqa: ARG001 it is filled
    kept_database: Database,
    monkeypatch: pytest.MonkeyPatch,
) -> Database:
    """It is only read, but for the files that are prepared; their process runs within this one."""
    monkeypatch.setattr(preparation, "end_with_input", lambda: None)
    return kept_database


@pytest.fixture
def apart(kept: Kept, tmp_path: Path) -> Settings:
    """Settings with a folder of prepared files of the test's own."""
    return kept.settings.model_copy(update={"data": tmp_path / "data"})


def queued(database: Database, choice: ExportChoice, **more: Any) -> int:
    values = {"form": ExportForm.WACZ, "asked_by": "Katka", "total_bytes": 10**9, **more}
    with database.session() as session:
        export_id = add_export(session, choice, **values).export_id
        assert claim(session, export_id, "here")
        session.commit()
    return export_id


def prepare(database: Database, settings: Settings, export_id: int) -> tuple[ExitCode, PreparedExport]:
    arguments = Namespace(export_id=export_id)
    console = Console(quiet=True, out=io.StringIO())
    code = preparation.prepare_queued(Invocation(arguments=arguments, settings=settings, console=console))
    return code, found(database, export_id)


def found(database: Database, export_id: int) -> PreparedExport:
    with database.session() as session:
        return find_export(session, export_id)


def test_a_ready_file_has_counts_of_exported_and_omitted_captures(archive: Database, apart: Settings) -> None:
    export_id = queued(archive, _HOST, title="A host")
    code, row = prepare(archive, apart, export_id)
    assert (code, row.state, row.captures, row.chosen, row.examined) == (0, "ready", 5, 12, 12)
    assert row.left_out["restricted"] == 2
    assert row.ended
    assert row.expires
    assert row.expires > row.ended
    file = apart.exports / row.file_name
    assert (file.stat().st_size, len(read_wacz(file).captures)) == (row.bytes, 5)
    assert list(apart.exports.iterdir()) == [file]
    # A worker that ends just then gives back what is ready already; downloads are still checked.
    with archive.session() as session:
        assert not requeue(session, export_id)
        session.commit()
        own = select(PreparedExportPart.documents).where(PreparedExportPart.export_id == export_id)
        documents = session.scalars(own).all()
    assert sum(map(len, documents)) >= row.captures


def test_an_export_of_a_title_has_its_ranges_without_carved_out_ones(
    archive: Database, apart: Settings
) -> None:
    with archive.engine.begin() as connection:
        connection.exec_driver_sql(
            "INSERT INTO title (title_id, key, source, source_key, name, public, datestamp)"
            " VALUES (1, gen_random_uuid(), 's', '1', 'A', true, now())"
        )
        connection.exec_driver_sql(
            "INSERT INTO title_segment (low, high, title_id, is_carve_out) VALUES"
            " ('example,a)/n', 'example,a)/o', 1, false), ('example,a)/o', 'example,a)/p', 1, true)"
        )
    choice = ExportChoice(title=ChosenTitle(1, "A"))
    _, row = prepare(archive, apart, queued(archive, choice))
    assert row.title == "title A"
    assert set(read_wacz(apart.exports / row.file_name).captures) == {
        (page.url, page.date) for page in (NEW, SAME)
    }


_UNPREPARABLE: tuple[tuple[ExportChoice, dict[str, int], str, dict[str, int]], ...] = (
    (_of(Page(url="http://c.example/")), {}, "export_empty", {"left_out": 0}),
    (_of(SECRET), {}, "export_empty", {"left_out": 1}),
    (_HOST, {"export_bytes": 2000}, "export_too_large", {"limit": 2000}),
    (_HOST, {"export_total_bytes": 2000}, "export_folder_full", {"limit": 2000}),
)


def test_a_failed_export_has_a_failure_code_and_leaves_no_file(archive: Database, apart: Settings) -> None:
    for choice, limits, code, facts in _UNPREPARABLE:
        changed = apart.model_copy(update={"provider": ProviderSettings.model_validate(limits)})
        exit_code, row = prepare(archive, changed, queued(archive, choice))
        assert (exit_code, row.state, row.failure_code, row.bytes) == (3, "failed", code, 0)
        assert row.failure_facts is not None
        assert facts.items() <= row.failure_facts.items()
        assert row.failure is not None
        assert "%(" not in row.failure.sentence()
        assert list(apart.exports.iterdir()) == []


def test_a_full_disk_fails_an_export_with_its_own_failure_code(
    archive: Database, apart: Settings, monkeypatch: pytest.MonkeyPatch
) -> None:
    facts = {"folder": "/x", "free": 1, "floor": 2, "setting": "harvester.floor_bytes"}

    def full(*_: object) -> None:
        raise DiskFullError(Failure(code=FailureCode.DISK_FLOOR, facts=facts))

    monkeypatch.setattr(preparation, "open_floor", full)
    _, row = prepare(archive, apart, queued(archive, _HOST))
    assert (row.state, row.failure_code) == ("failed", "export_disk_full")
    assert row.failure_facts == {"folder": "/x", "free": 1, "floor": 2}
    apart.exports.rmdir()
    apart.exports.write_text("not a folder")
    _, row = prepare(archive, apart, queued(archive, _HOST))
    assert row.failure_code == "export_incomplete"
    assert row.failure_facts is not None
    assert str(apart.exports) in row.failure_facts["said"]


def test_an_export_that_is_removed_while_it_runs_stops_and_leaves_no_file(
    archive: Database, apart: Settings, monkeypatch: pytest.MonkeyPatch
) -> None:
    export_id = queued(archive, _HOST)
    monkeypatch.setattr(preparation, "NOTED_EVERY", 0)

    def removed_then(*arguments: Any) -> list[str]:
        with archive.session() as session:
            assert remove(session, export_id, by="Katka")
            session.commit()
        return choose(*arguments)

    monkeypatch.setattr(preparation, "choose", removed_then)
    code, row = prepare(archive, apart, export_id)
    assert (code, row.state, row.removed_by) == (0, "removed", "Katka")
    assert list(apart.exports.iterdir()) == []


def test_documents_that_become_inaccessible_make_a_prepared_file_unusable(
    archive: Database, apart: Settings
) -> None:
    plain, room = queued(archive, _HOST), queued(archive, _of(ROOM_AGAIN), reading_room=True)
    prepare(archive, apart, plain)
    prepare(archive, apart, room)

    def counts(page: Page, **columns: object) -> tuple[int, int]:
        """Numbers for both files, with a changed document."""
        with archive.session() as session:
            session.execute(update(Document).where(Document.url == page.url).values(columns))
            one, two = (count_withdrawn(session, find_export(session, number)) for number in (plain, room))
            session.rollback()
        return one, two

    assert counts(ELSEWHERE, deleted=True) == (0, 0)
    assert counts(OLD, deleted=True) == (1, 0)
    assert counts(NEW, access="reading room") == (2, 0)  # a capture, and the revisit that got its content
    assert counts(ROOM, access="withheld") == (1, 1)  # its URL is among what was left out; the original
    assert counts(ROOM, access="embargo") == (0, 1)
    assert counts(EMBARGO, deleted=True) == (1, 0)
    assert counts(EMBARGO, access="open") == (0, 0)
    assert counts(DAMAGED, access="reading room") == (0, 0)
    assert counts(SECRET, access="open") == (0, 0)


def test_only_obsolete_export_files_are_removed_from_the_folder(
    database: Database, settings: Settings
) -> None:
    folder = settings.exports
    with database.session() as session:
        assert remove_expired(session, folder) == []
    folder.mkdir(parents=True)
    kept = ["mine.wacz", "export-1.txt", "export-2.wacz", "export-3.warc.gz~part"]
    gone = ["export-1.wacz", "export-2.wacz~part", "export-99999999.wacz"]
    for name in (*kept, *gone):
        (folder / name).touch()
    with database.session() as session:
        for number, state in enumerate(("failed", "ready", "running"), start=1):
            session.add(PreparedExport(export_id=number, form="wacz", selection={}, title="", state=state))
        session.flush()
        assert sorted(file.name for file in remove_expired(session, folder)) == gone
    assert sorted(file.name for file in folder.iterdir()) == sorted(kept)


@pytest.mark.parametrize(
    ("choice", "total_bytes", "message"),
    [
        (ExportChoice(set_spec="collection:none"), 10**9, "no set 'collection:none'"),
        (_HOST, 0, "the prepared files have 0 bytes together"),
    ],
)
def test_an_impossible_export_is_refused_before_it_is_queued(
    database: Database, choice: ExportChoice, total_bytes: int, message: str
) -> None:
    with pytest.raises(UsageError, match=message):
        queued(database, choice, total_bytes=total_bytes)

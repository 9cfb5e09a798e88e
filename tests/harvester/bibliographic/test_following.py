"""Imports after harvests read what changed and miss no change."""

import asyncio
import threading
from dataclasses import replace

import pytest
from sqlalchemy import select, text

from harvester.bibliographic.candidates import changed_since, feed_mark
from harvester.bibliographic.converters import CONVERTERS
from harvester.bibliographic.importer import import_after_harvest
from harvester.bibliographic.models import Import
from harvester.bibliographic.sources import save_source, source_settings
from harvester.store.rebuild import Rebuilder
from tests.harvester.bibliographic.conftest import Catalogue
from tests.plans import work_of

LATER = "2024-06-02T00:00:00Z"


def follow(catalogue: Catalogue) -> None:
    import_after_harvest(catalogue.database, catalogue.settings, catalogue.repository_id)


def imports_of(catalogue: Catalogue) -> list[tuple[bool, int]]:
    """Return whether each import compared all records, and how many it processed."""
    with catalogue.database.session() as session:
        rows = session.execute(select(Import.whole, Import.seen_count).order_by(Import.import_id))
        return [(whole, seen) for whole, seen in rows]


async def test_records_are_searchable_after_a_harvest_without_any_setting(catalogue: Catalogue) -> None:
    follow(catalogue)
    catalogue.put(1, "245 10 $aKnihy opravené", datestamp=LATER)
    catalogue.delete(1)
    await catalogue.harvest()
    follow(catalogue)
    follow(catalogue)  # no changes

    assert imports_of(catalogue) == [(True, 3), (False, 1)]
    assert catalogue.titles() == ["The Czech Language", "Knihy opravené"]
    assert catalogue.imported().state == "no changes", "a comparison of all records finds nothing left"


def rebuild(catalogue: Catalogue) -> None:
    Rebuilder(
        database=catalogue.database,
        repository_id=catalogue.repository_id,
        folder=catalogue.folder,
        plain_prefix="marc21",
    ).run()


async def test_records_that_a_rebuild_of_the_store_adds_or_drops_are_followed(catalogue: Catalogue) -> None:
    follow(catalogue)
    with catalogue.database.session() as session:
        session.execute(text("DELETE FROM oai_record WHERE identifier = 'oai:fake.example:1'"))
        session.commit()
    catalogue.imported()
    names = catalogue.rows("SELECT filename FROM oai_record WHERE identifier = 'oai:fake.example:2'")
    (catalogue.folder / names[0][0]).unlink()

    rebuild(catalogue)
    follow(catalogue)
    assert catalogue.titles() == ["The Czech Language", "Knihy kacířů"]
    whole = imports_of(catalogue)

    rebuild(catalogue)
    follow(catalogue)
    assert imports_of(catalogue) == whole, "a rebuild that changes nothing causes no import"


async def test_a_harvest_that_ends_during_an_import_is_imported_after_it(catalogue: Catalogue) -> None:
    catalogue.put(4, "245 10 $aKniha čtvrtá", datestamp=LATER)
    async with asyncio.TaskGroup() as tasks:
        begun, harvested = threading.Event(), threading.Event()

        def wait(*_: object) -> None:
            begun.set()
            harvested.wait()

        running = tasks.create_task(asyncio.to_thread(catalogue.imported, on_progress=wait))
        await asyncio.to_thread(begun.wait)
        await catalogue.harvest()
        follow(catalogue)
        harvested.set()

    assert (running.result().new, imports_of(catalogue)) == (3, [(True, 3), (False, 1)])
    assert "Kniha čtvrtá" in catalogue.titles()


async def test_an_import_fails_below_the_minimum_of_free_disk_space_for_harvests(
    catalogue: Catalogue, caplog: pytest.LogCaptureFixture
) -> None:
    floor = {"floor_bytes": 10**18, "floor_percent": 100}
    full = catalogue.settings.model_copy(
        update={"harvester": catalogue.settings.harvester.model_copy(update=floor)}
    )
    import_after_harvest(catalogue.database, full, catalogue.repository_id)
    (row,) = catalogue.rows("SELECT state, failure_code, seen_count FROM bibliographic_import")
    assert row == ("failed", "disk_floor", 0)
    assert "bytes free" in caplog.text
    assert "Traceback" not in caplog.text

    follow(catalogue)
    assert len(catalogue.titles()) == 3


async def test_a_record_whose_missing_file_a_harvest_restored_is_imported(catalogue: Catalogue) -> None:
    names = catalogue.rows("SELECT filename FROM oai_record ORDER BY identifier LIMIT 2")
    lost, altered = (catalogue.folder / name for (name,) in names)
    lost.unlink()
    altered.write_bytes(b"<altered/>")
    follow(catalogue)
    follow(catalogue)
    assert imports_of(catalogue) == [(True, 3)], "the same files cannot be read"

    await catalogue.harvest()
    follow(catalogue)
    follow(catalogue)
    assert imports_of(catalogue) == [(True, 3), (False, 1)]
    assert catalogue.titles() == ["The Czech Language", "Knihy kacířů"]
    assert catalogue.rows("SELECT kind FROM bibliographic_omission") == [("unreadable",)]


async def test_all_records_are_compared_if_the_files_of_many_can_be_read_again(catalogue: Catalogue) -> None:
    for number in range(4, 201):
        catalogue.put(number, f"245 10 $aKniha {number}")
    await catalogue.harvest()
    away = catalogue.folder.rename(catalogue.folder.with_name("away"))
    with catalogue.database.session() as session:
        save_source(session, source_settings(session, catalogue.repository_id))
        session.commit()
    follow(catalogue)
    follow(catalogue)
    away.rename(catalogue.folder)
    follow(catalogue)

    assert imports_of(catalogue) == [(True, 200), (True, 200)]
    assert len(catalogue.titles()) == 200


async def test_an_open_transaction_does_not_cause_repeated_imports(catalogue: Catalogue) -> None:
    follow(catalogue)
    catalogue.put(4, "245 10 $aKniha čtvrtá", datestamp=LATER)
    with catalogue.database.session() as slow:
        slow.execute(text("SELECT pg_current_xact_id()"))
        await catalogue.harvest()
        follow(catalogue)

    assert imports_of(catalogue) == [(True, 3), (False, 1), (False, 0)]


async def test_a_record_that_becomes_unreadable_and_then_is_deleted_is_followed(catalogue: Catalogue) -> None:
    follow(catalogue)
    catalogue.put(2, "900 ## $x", datestamp=LATER)
    await catalogue.harvest()
    follow(catalogue)
    catalogue.delete(2)
    await catalogue.harvest()
    follow(catalogue)

    assert catalogue.imported().state == "no changes"
    assert catalogue.rows("SELECT count(*) FROM bibliographic_omission") == [(0,)]


def test_a_change_committed_during_an_import_is_imported_by_the_next_one(catalogue: Catalogue) -> None:
    follow(catalogue)
    identifier = "oai:fake.example:2"
    with catalogue.database.session() as slow:
        slow.execute(text("SELECT pg_current_xact_id()"))
        catalogue.imported()  # its mark is below the open transaction
        slow.execute(
            text(
                "INSERT INTO oai_change (transaction_id, repository_id, harvest_id, run_started, identifier,"
                " metadata_prefix, change, datestamp)"
                " SELECT CAST(CAST(pg_current_xact_id() AS text) AS bigint), :repository, 1, now(),"
                " :identifier, 'marc21', 'deleted', ''"
            ),
            {"repository": catalogue.repository_id, "identifier": identifier},
        )
        slow.execute(
            text("UPDATE oai_record SET status = 'deleted' WHERE identifier = :identifier"),
            {"identifier": identifier},
        )
        slow.commit()
    follow(catalogue)

    assert imports_of(catalogue)[-1] == (False, 0)
    assert catalogue.titles() == ["The Czech Language", "Knihy kacířů"]


@pytest.mark.parametrize("state", ["incomplete", "failed", "lost"])
async def test_after_an_import_that_ended_early_all_records_are_compared(
    catalogue: Catalogue, state: str
) -> None:
    follow(catalogue)
    with catalogue.database.session() as session:
        session.execute(text("DELETE FROM bibliographic_record"))
        session.execute(text("UPDATE bibliographic_import SET state = :state"), {"state": state})
        session.commit()
    follow(catalogue)

    assert imports_of(catalogue)[-1] == (True, 3)


def test_all_records_are_compared_after_a_new_converter_version_and_after_a_week(
    catalogue: Catalogue, monkeypatch: pytest.MonkeyPatch
) -> None:
    follow(catalogue)
    monkeypatch.setattr(type(CONVERTERS[0]), "version", 999)
    follow(catalogue)
    with catalogue.database.session() as session:
        session.execute(text("UPDATE bibliographic_import SET started = started - interval '8 days'"))
        session.commit()
    follow(catalogue)

    assert imports_of(catalogue) == [(True, 3), (True, 3), (True, 0)]


def test_changed_records_are_not_listed_if_there_are_too_many_or_some_are_unknown(
    catalogue: Catalogue,
) -> None:
    def listed(mark: int, most: int = 3) -> int | None:
        found = changed_since(session, catalogue.repository_id, "marc21", mark, most=most)
        return None if found is None else len(found)

    with catalogue.database.session() as session:
        first = session.execute(text("SELECT min(transaction_id) FROM oai_change")).scalar_one()
        now = feed_mark(session)

        assert listed(first) == 3
        assert listed(now) == 0
        assert listed(first, most=2) is None
        assert listed(first - 1) is None, "lines of the feed may have been removed"
        assert listed(now + 1000) is None, "a mark of a copied database"


def test_a_repository_without_readable_format_or_with_imports_turned_off_is_skipped(
    catalogue: Catalogue, monkeypatch: pytest.MonkeyPatch
) -> None:
    with catalogue.database.session() as session, monkeypatch.context() as patched:
        for converter in CONVERTERS:
            patched.setattr(type(converter), "rank", 0)
        follow(catalogue)
        assert imports_of(catalogue) == []

        save_source(session, replace(source_settings(session, catalogue.repository_id), after_harvest=False))
        session.commit()
    follow(catalogue)

    assert imports_of(catalogue) == []


async def test_the_comparison_after_a_harvest_does_not_grow_with_the_repository(
    catalogue: Catalogue,
) -> None:
    for number in range(4, 400):
        catalogue.put(number, f"245 10 $aKniha {number}")
    await catalogue.harvest()
    follow(catalogue)
    catalogue.put(1, "245 10 $aKnihy opravené", datestamp=LATER)
    await catalogue.harvest()

    with work_of(catalogue.database, "harvested") as work:
        follow(catalogue)

    assert imports_of(catalogue)[-1] == (False, 1)
    assert work
    assert sum(work) < 100

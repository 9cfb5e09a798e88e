"""Of several harvested formats, the richest one that was received completely is imported."""

from dataclasses import replace

from sqlalchemy import select, text

from harvester.bibliographic.importer import import_after_harvest, run_import
from harvester.bibliographic.models import BibliographicRow, ImportSource
from tests.harvester.bibliographic.marc import marcxml
from tests.harvester.library import Library

OTHERS = '<mods xmlns="http://www.loc.gov/mods/v3"><titleInfo><title>X</title></titleInfo></mods>'


def rows(library: Library) -> dict[str, int]:
    """Return the number of bibliographic rows by format."""
    with library.database.session() as session:
        formats = list(session.scalars(select(BibliographicRow.metadata_prefix)))
    return {prefix: formats.count(prefix) for prefix in formats}


def serve(library: Library, metadata: str) -> None:
    library.fake.items = [replace(item, metadata=metadata) for item in library.fake.items]


def follow(library: Library) -> None:
    import_after_harvest(library.database, library.settings, library.repository_id)


async def test_a_sample_in_a_richer_format_replaces_no_complete_harvest(library: Library) -> None:
    await library.run()
    follow(library)
    whole = rows(library)

    serve(library, marcxml("245 10 $aKniha"))
    await library.run(metadata_prefix="marc21", max_records=2)
    follow(library)
    assert list(whole) == ["oai_dc"]
    assert rows(library) == whole

    await library.run(metadata_prefix="marc21")
    follow(library)
    assert rows(library) == {"marc21": whole["oai_dc"]}


async def test_a_complete_harvest_replaces_a_sample_in_a_richer_format(library: Library) -> None:
    serve(library, marcxml("245 10 $aKniha"))
    await library.run(metadata_prefix="marc21", max_records=2)
    follow(library)
    assert rows(library) == {"marc21": 2}

    serve(library, "")
    await library.run()
    follow(library)
    assert list(rows(library)) == ["oai_dc"]


async def test_a_set_in_a_richer_format_replaces_no_whole_repository(library: Library) -> None:
    first, *others = library.fake.items
    library.fake.items = [replace(first, sets=("books:old",)), *others]
    await library.run()
    follow(library)

    serve(library, marcxml("245 10 $aKniha"))
    await library.run(metadata_prefix="marc21", set_spec="books")
    follow(library)
    assert list(rows(library)) == ["oai_dc"]


async def test_a_set_includes_the_sets_below_it(library: Library) -> None:
    library.fake.items = [replace(item, sets=("books:old",)) for item in library.fake.items]
    await library.run(set_spec="books:old")
    follow(library)

    serve(library, marcxml("245 10 $aKniha"))
    await library.run(metadata_prefix="marc21", set_spec="books")
    follow(library)
    assert list(rows(library)) == ["marc21"]


async def test_a_format_received_since_a_day_replaces_none_received_completely(library: Library) -> None:
    await library.run()
    follow(library)

    serve(library, marcxml("245 10 $aKniha"))
    await library.run(metadata_prefix="marc21", harvest_from="2023-01-01")
    follow(library)
    assert list(rows(library)) == ["oai_dc"]


async def test_a_set_in_a_poorer_format_replaces_no_first_harvest_that_broke_off(library: Library) -> None:
    first, *others = library.fake.items
    library.fake.items = [replace(first, sets=("books",)), *others]
    serve(library, marcxml("245 10 $aKniha"))
    await library.run(metadata_prefix="marc21", max_records=len(others))
    follow(library)
    serve(library, "")
    await library.run(set_spec="books")
    follow(library)
    assert rows(library) == {"marc21": len(others)}


async def test_fewer_records_in_a_poorer_format_replace_no_harvest_that_broke_off(library: Library) -> None:
    serve(library, marcxml("245 10 $aKniha"))
    items = library.fake.items
    await library.run(metadata_prefix="marc21", max_records=len(items) - 1)
    follow(library)
    library.fake.items = [replace(item, metadata="") for item in items[:2]]
    await library.run()
    follow(library)
    assert rows(library) == {"marc21": len(items) - 1}


async def test_a_chosen_format_replaces_no_rows_before_it_is_harvested(library: Library) -> None:
    await library.run()
    follow(library)
    whole = rows(library)
    with library.database.session() as session:
        session.add(ImportSource(repository_id=library.repository_id, metadata_prefix="marc21"))
        session.commit()
    follow(library)
    run_import(library.database, library.settings, library.repository_id, started_by="me")
    assert rows(library) == whole


async def test_a_window_replaces_no_complete_harvest_whatever_its_next_run_is(library: Library) -> None:
    await library.run()
    follow(library)
    serve(library, marcxml("245 10 $aKniha"))
    await library.run(metadata_prefix="marc21", harvest_from="2000-01-01", harvest_to="2030-01-01")
    library.fake.fault = lambda _request, _good: b""
    await library.run(metadata_prefix="marc21", full=True)
    follow(library)
    assert list(rows(library)) == ["oai_dc"]


async def test_the_query_of_a_catalogue_that_was_answered_completely_replaces_another(
    library: Library,
) -> None:
    await library.run()
    follow(library)
    serve(library, marcxml("245 10 $aKniha"))
    await library.run(metadata_prefix="marc21")
    with library.database.session() as session:
        session.execute(text("UPDATE oai_harvest SET watermark = NULL"))
        session.execute(text("UPDATE oai_repository SET protocol = 'sru'"))
        session.commit()
    follow(library)
    assert list(rows(library)) == ["marc21"]


async def test_a_format_whose_records_are_all_deleted_gives_way(library: Library) -> None:
    serve(library, marcxml("245 10 $aKniha"))
    await library.run(metadata_prefix="marc21")
    follow(library)
    items = library.fake.items
    library.fake.items = [replace(item, deleted=True, datestamp="2024-06-02T00:00:00Z") for item in items]
    library.change_settings(brake_minimum=1000)
    await library.run(metadata_prefix="marc21")
    library.fake.items = [replace(item, metadata="") for item in items]
    await library.run()
    follow(library)
    assert list(rows(library)) == ["oai_dc"]


async def test_while_files_are_away_rows_stay_whatever_other_formats_there_are(library: Library) -> None:
    await library.run()
    follow(library)
    whole = rows(library)
    serve(library, OTHERS)
    await library.run(metadata_prefix="mods")

    away = library.folder.rename(library.folder.with_name("away"))
    done = run_import(library.database, library.settings, library.repository_id, started_by="me")
    assert (done.deleted, rows(library)) == (0, whole)

    away.rename(library.folder)
    done = run_import(library.database, library.settings, library.repository_id, started_by="me")
    assert (done.deleted, done.new, rows(library)) == (0, 0, whole)

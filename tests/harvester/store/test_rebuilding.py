"""Rows are rebuilt from files after a loss in the database."""

import json
import shutil

import pytest
from sqlalchemy import delete, select, text, update

from harvester.models import Harvest, Record, Repository, SetMapping
from harvester.store.models import Directory
from harvester.store.rebuild import Rebuilder, Rebuilt
from oai.database import Database
from oai.errors import UsageError
from tests.harvester.fake_repository import Item, many
from tests.harvester.library import Library, touch
from tests.plans import work_of


def rebuild(library: Library) -> Rebuilt:
    return Rebuilder(
        database=library.database,
        repository_id=library.repository_id,
        folder=library.folder,
        plain_prefix="oai_dc",
    ).run()


def table(database: Database, query: str) -> list[tuple[object, ...]]:
    with database.session() as session:
        return [tuple(row) for row in session.execute(text(query))]


RECORDS = """
    SELECT repository_id, metadata_prefix, identifier_key, identifier, filename, datestamp, status, digest
    FROM oai_record ORDER BY metadata_prefix, identifier
    """
SETS = """
    SELECT identifier, metadata_prefix, set_spec FROM oai_set_mapping JOIN oai_record USING (record_id)
    ORDER BY 1, 2, 3
    """
FOLDERS = "SELECT repository_id, path_key, files FROM oai_directory ORDER BY path_key"
HOSTILE = [
    Item(identifier="oai:a:x", sets=("x", "y:z")),
    Item(identifier="oai:a:X"),
    Item(identifier="oai:" + "l" * 1500),
    Item(identifier="http://é.example/../x?y=1&z"),
    Item(identifier="oai:fake.example:marked"),
]


async def test_lost_rows_are_rebuilt_unchanged_and_a_repeated_harvest_changes_nothing(
    library: Library,
) -> None:
    library.fake.items += HOSTILE
    library.change_repository(deletion_policy="move")
    await library.run(files_per_directory=4)
    await library.run(metadata_prefix="other", files_per_directory=4)
    library.delete(29)
    await library.run(files_per_directory=4)
    before = [table(library.database, query) for query in (RECORDS, SETS, FOLDERS)]
    with library.database.session() as session:
        session.execute(delete(Record))
        session.execute(delete(Directory))
        session.commit()
    rebuilt = rebuild(library)
    assert (rebuilt.files, rebuilt.added, rebuilt.changed, rebuilt.refused) == (60, 60, 0, 0)
    assert [table(library.database, query) for query in (RECORDS, SETS, FOLDERS)] == before
    assert library.audit()[0].clean
    files = library.files()
    outcome = await library.run(full=True, files_per_directory=4)
    assert (outcome.status, outcome.counts["unchanged"]) == ("no changes", 30)
    assert library.files() == files


async def test_correct_rows_are_kept(library: Library) -> None:
    await library.run()
    ids = {name: record.record_id for name, record in library.records().items()}
    rebuilt = rebuild(library)
    assert (rebuilt.kept, rebuilt.added, rebuilt.changed, rebuilt.dropped) == (25, 0, 0, 0)
    assert {name: record.record_id for name, record in library.records().items()} == ids
    assert not rebuilt.needs_full_harvest


async def test_rows_that_do_not_agree_with_their_files_are_corrected(library: Library) -> None:
    library.fake.items[3] = Item(identifier="oai:fake.example:3", sets=("a", "b"))
    await library.run()
    with library.database.session() as session:
        named = Record.identifier == "oai:fake.example:7"
        session.execute(update(Record).where(named).values(digest=b"x", datestamp="1999-01-01"))
        session.execute(delete(SetMapping).where(SetMapping.set_spec == "a"))
        session.commit()
    (library.folder / "fake.example/9.xml").rename(library.folder / "fake.example/09.xml")
    rebuilt = rebuild(library)
    assert (rebuilt.kept, rebuilt.changed, rebuilt.dropped) == (22, 3, 0)
    assert library.audit()[0].clean
    assert library.records()["oai:fake.example:9"].filename == "fake.example/09.xml"
    with library.database.session() as session:
        assert set(session.scalars(select(SetMapping.set_spec))) == {"a", "b"}


async def test_a_record_without_its_file_is_harvested_again_by_the_next_run(library: Library) -> None:
    await library.run()
    (library.folder / "fake.example/3.xml").unlink()
    rebuilt = rebuild(library)
    assert (rebuilt.dropped, rebuilt.needs_full_harvest) == (1, True)
    with library.database.session() as session:
        assert session.scalars(select(Harvest.watermark)).one() is None
    outcome = await library.run()
    assert (outcome.counts["new"], outcome.counts["unchanged"]) == (1, 24)


async def test_a_file_that_is_no_longer_a_record_is_written_again_by_the_next_run(library: Library) -> None:
    await library.run()
    spoilt = library.folder / "fake.example/3.xml"
    good = spoilt.read_bytes()
    spoilt.write_bytes(good[:-20])
    rebuilt = rebuild(library)
    assert (rebuilt.kept, rebuilt.dropped, rebuilt.refused, rebuilt.needs_full_harvest) == (24, 0, 1, True)
    assert rebuilt.doubted == 1
    outcome = await library.run()
    assert (outcome.counts["updated"], outcome.counts["unchanged"]) == (1, 24)
    assert spoilt.read_bytes() == good
    assert rebuild(library) == Rebuilt(files=25, kept=25)


async def test_a_file_that_cannot_be_read_leaves_its_row_unchanged(library: Library) -> None:
    await library.run()
    before = table(library.database, RECORDS)
    unreadable = library.folder / "fake.example/3.xml"
    aside = unreadable.rename(library.folder.parent / "3.xml")
    unreadable.symlink_to("3.xml")  # a loop, which the system refuses to open even for root
    rebuilt = rebuild(library)
    assert (rebuilt.kept, rebuilt.dropped, rebuilt.refused, rebuilt.doubted) == (24, 0, 1, 0)
    assert rebuilt.needs_full_harvest
    assert table(library.database, RECORDS) == before
    aside.replace(unreadable)
    assert library.audit()[0].clean


@pytest.mark.parametrize("beside", [True, False])
async def test_a_file_with_another_record_is_accepted_and_the_next_run_restores_the_old_one(
    library: Library, *, beside: bool
) -> None:
    await library.run()
    files = library.files()
    other = library.folder / "fake.example/4.xml"
    shutil.copy(other, library.folder / "fake.example/3.xml")
    if not beside:
        other.unlink()
    rebuilt = rebuild(library)
    assert (rebuilt.dropped, rebuilt.refused, rebuilt.changed) == ((1, 1, 0) if beside else (1, 0, 1))
    await library.run()
    assert (len(library.living()), set(library.files().values())) == (25, set(files.values()))
    assert rebuild(library).kept == 25


async def test_copies_and_files_that_are_not_records_are_left_out_with_a_reason(library: Library) -> None:
    await library.run()
    with library.database.session() as session:
        session.execute(delete(Record))
        session.commit()
    shutil.copy(library.folder / "fake.example/3.xml", library.folder / "fake.example/copy.xml")
    touch(library.folder / "notes.txt", b"mine")
    touch(library.folder / "fake.example/4.xml~part", b"<rec")
    touch(library.folder / "bomb.xml", b"<!DOCTYPE r [<!ENTITY a 'a'>]><r>&a;</r>")
    refused: dict[str, str] = {}
    rebuilt = Rebuilder(
        database=library.database,
        repository_id=library.repository_id,
        folder=library.folder,
        plain_prefix="oai_dc",
        on_refused=lambda path, reason: refused.update({path: reason}),
    ).run()
    assert (rebuilt.added, rebuilt.refused) == (25, 3)
    assert set(refused) == {"fake.example/copy.xml", "notes.txt", "bomb.xml"}
    assert (
        "a second file of 'oai:fake.example:3', in addition to fake.example/3.xml"
        in refused["fake.example/copy.xml"]
    )


async def test_an_empty_folder_drops_no_rows(library: Library) -> None:
    await library.run()
    shutil.rmtree(library.folder)
    with pytest.raises(UsageError, match="no files found"):
        rebuild(library)
    assert len(library.records()) == 25


async def test_the_command_creates_a_repository_again_if_only_its_files_are_left(library: Library) -> None:
    await library.run()
    with library.database.session() as session:
        session.execute(delete(Repository))
        session.commit()
    code, _, err = await library.command("store", "rebuild", "--dir", str(library.folder))
    assert code == 2
    assert "--url" in err
    code, out, _ = await library.command(
        "store", "rebuild", "--dir", str(library.folder), "--url", library.fake.url, "--json"
    )
    found = json.loads(out)
    assert (code, found["added"]) == (0, 25)
    library.repository_id = found["repository_id"]
    outcome = await library.run()
    assert (outcome.status, outcome.counts["unchanged"]) == ("no changes", 25)


async def test_a_folder_without_files_adds_no_repository(library: Library) -> None:
    for name in ("missing", "empty"):
        folder = library.folder.parent / name
        if name == "empty":
            folder.mkdir(parents=True)
        words = ("--dir", str(folder), "--url", "https://new.example/oai")
        code, _, err = await library.command("store", "rebuild", *words)
        assert (code, f"{folder}: no files found" in err) == (2, True)
    assert table(library.database, "SELECT count(*) FROM oai_repository") == [(1,)]


async def test_a_base_url_other_than_that_of_the_repository_is_rejected(library: Library) -> None:
    await library.run()
    for named in (("--dir", str(library.folder)), (str(library.repository_id),)):
        code, _, err = await library.command("store", "rebuild", *named, "--url", "https://new.example/oai")
        assert (code, f"has the base URL {library.fake.url}; check which" in err) == (2, True)
        code, out, _ = await library.command("store", "rebuild", *named, "--url", library.fake.url)
        assert (code, "25 kept" in out) == (0, True)


async def test_a_rebuild_does_not_read_the_sets_of_all_records(library: Library) -> None:
    library.fake.items[:] = many(300)
    await library.run()
    with library.database.session() as session:
        session.execute(
            text("INSERT INTO oai_set_mapping SELECT n, 'a' FROM generate_series(1000000, 1020000) AS n")
        )
        session.commit()
    with work_of(library.database, "FROM oai_set_mapping") as work:
        assert rebuild(library).kept == 300
    assert (len(work) > 0, [rows for rows in work if rows > 10 * 300]) == (True, [])

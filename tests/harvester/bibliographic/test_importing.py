"""Imports make the rows match the harvested records, whatever happened in between."""

import asyncio
import random
import signal
import string
from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path

import pytest
from lxml import etree
from sqlalchemy import select, text

from harvester.bibliographic import batches, candidates, importer, imports
from harvester.bibliographic.candidates import FIRST, ImportScope, departed, forget
from harvester.bibliographic.conditions import Match, parse_condition
from harvester.bibliographic.converters import CONVERTERS, Candidate, read_metadata
from harvester.bibliographic.filtering_sets import add_set, edit_set
from harvester.bibliographic.imports import ImportBusyError, list_omissions, only_import
from harvester.bibliographic.marc21.converter import Marc21Converter
from harvester.bibliographic.models import Import
from harvester.bibliographic.record import BibliographicRecord
from harvester.bibliographic.row_writer import Table
from harvester.bibliographic.sources import save_source, source_settings
from oai.errors import UsageError
from tests.commands import Process
from tests.harvester.bibliographic.conftest import Catalogue, counts
from tests.plans import work_of

OTHER_ROWS = """
    INSERT INTO bibliographic_record (repository_id, metadata_prefix, identifier_key, identifier, datestamp,
                                      basis, format, content_digest, words)
    SELECT :id, 'marc21', md5(n::text)::uuid, n, '', '', '', '', '' FROM generate_series(1, :rows) AS n
    """
THEIR_NUMBERS = """
    INSERT INTO bibliographic_identifier (bibliographic_id, position, scheme, value, found)
    SELECT bibliographic_id, n, 'isbn', n, n
    FROM bibliographic_record CROSS JOIN generate_series(1, 10) AS n WHERE basis = ''
    """
ROWS = """
    SELECT row.identifier, row.title, row.words::text, row.notes::text, row.file_digest, row.content_digest,
           ARRAY(SELECT name FROM bibliographic_contributor c
                 WHERE c.bibliographic_id = row.bibliographic_id ORDER BY position),
           ARRAY(SELECT value FROM bibliographic_identifier i
                 WHERE i.bibliographic_id = row.bibliographic_id ORDER BY position)
    FROM bibliographic_record AS row ORDER BY identifier
    """
NUMBERS = "SELECT bibliographic_id FROM bibliographic_record"


def choose(catalogue: Catalogue, lines: Sequence[str]) -> None:
    """Select the imported records by a filtering set with these conditions."""
    with catalogue.database.session() as session:
        found = add_set(
            session, name="mine", match=Match.ALL, conditions=[parse_condition(line) for line in lines]
        )
        save_source(session, replace(source_settings(session, catalogue.repository_id), set_id=found.set_id))
        session.commit()


def test_the_first_import_stores_all_records_and_says_who_started_it(catalogue: Catalogue) -> None:
    facts = catalogue.imported()
    assert counts(facts) == {"seen": 3, "new": 3}
    assert (facts.state, facts.started_by, facts.total, facts.expected) == ("completed", "me", 3, 3)
    assert catalogue.titles() == ["The Czech Language", "Knihy kacířů", "Slovník staré češtiny"]
    assert catalogue.rows("SELECT name, roles, authority_ids FROM bibliographic_contributor") == [
        ("Hus, Jan", ["aut"], ["jn19981001473"])
    ]
    assert ("isbn", "9788020001290") in catalogue.rows("SELECT scheme, value FROM bibliographic_identifier")


def test_rows_that_are_too_long_for_one_statement_are_written_by_several(
    catalogue: Catalogue, monkeypatch: pytest.MonkeyPatch
) -> None:
    catalogue.imported()
    together = catalogue.rows(ROWS)
    with catalogue.database.session() as session:
        forget(session, [number for (number,) in session.execute(text(NUMBERS))])
        session.commit()
    monkeypatch.setattr(importer, "Table", partial(Table, longest=1))
    assert counts(catalogue.imported()) == {"seen": 3, "new": 3}
    assert catalogue.rows(ROWS) == together


async def test_a_record_that_the_database_cannot_store_is_omitted_alone(catalogue: Catalogue) -> None:
    catalogue.imported()
    huge = "".join(
        random.Random(1).choices(string.ascii_letters, k=20_000)
    )  # an index entry has at most 8 kB
    catalogue.put(1, "245 10 $aKnihy opravené", datestamp="2024-06-02T00:00:00Z")
    catalogue.put(2, f"100 1# $aHus, Jan$0{huge}", "245 10 $aNic", datestamp="2024-06-02T00:00:00Z")
    catalogue.put(4, f"100 1# $aHus, Jan$0{huge}", "245 10 $aNic", datestamp="2024-06-02T00:00:00Z")
    await catalogue.harvest()

    facts = catalogue.imported()
    assert counts(facts) == {"seen": 3, "updated": 1, "deleted": 1, "refused": 2}
    assert facts.state == "completed with errors"
    assert catalogue.titles() == ["The Czech Language", "Knihy opravené"]
    reasons = catalogue.rows("SELECT kind, reason FROM bibliographic_omission")
    assert [kind for kind, _ in reasons] == ["refused", "refused"]
    assert all("the database cannot store it: index row" in reason for _, reason in reasons)
    assert counts(catalogue.imported()) == {}


async def test_a_record_on_which_the_conditions_take_too_long_keeps_its_row(catalogue: Catalogue) -> None:
    choose(catalogue, ["245$a matches ."])
    catalogue.imported()
    catalogue.put(2, "245 10 $aNový název", datestamp="2024-06-02T00:00:00Z")
    await catalogue.harvest()
    before = catalogue.titles()
    catalogue.change_settings(rule_seconds=0)
    assert counts(catalogue.imported()) == {"seen": 1, "refused": 1}
    assert catalogue.titles() == before
    ((kind, reason),) = catalogue.rows("SELECT kind, reason FROM bibliographic_omission")
    assert kind == "unreadable"
    assert reason.startswith("the conditions exceed a limit: ")
    catalogue.change_settings(rule_seconds=10)
    assert counts(catalogue.imported()) == {"seen": 1, "updated": 1}
    assert "Nový název" in catalogue.titles()


async def test_an_import_ends_if_the_conditions_take_too_long_on_many_records(catalogue: Catalogue) -> None:
    for number in range(10, 40):
        catalogue.put(number, "245 10 $aNázev")
    await catalogue.harvest()
    choose(catalogue, ["245$a matches ."])
    catalogue.change_settings(rule_seconds=0)
    with pytest.raises(UsageError, match=r"exceed a limit on more than 20 records .* simpler"):
        catalogue.imported()
    assert catalogue.rows("SELECT state FROM bibliographic_import") == [("failed",)]


async def test_search_words_are_truncated_and_too_many_numbers_are_rejected(catalogue: Catalogue) -> None:
    words = " ".join(map(chr, range(0x4E00, 0x9FFF)))
    catalogue.put(1, f"245 10 $aKnihy {words}$c{words}", f"500 ## $a{words}", f"650 #7 $a{words}")
    catalogue.put(2, "245 10 $aČísla", *(f"035 ## $a{number}" for number in range(33_000)))
    await catalogue.harvest()
    assert counts(catalogue.imported()) == {"seen": 3, "new": 2, "refused": 1}
    assert [title.partition(" ")[0] for title in catalogue.titles()] == ["The", "Knihy"]
    assert catalogue.rows("SELECT reason FROM bibliographic_omission") == [
        ("it has 33,001 names or identifiers; at most 32,767 can be stored",)
    ]


def test_a_second_import_finds_no_changes(catalogue: Catalogue) -> None:
    catalogue.imported()
    facts = catalogue.imported()
    assert counts(facts) == {}
    assert facts.state == "no changes"


async def test_an_import_that_only_rejects_records_is_not_reported_as_without_changes(
    catalogue: Catalogue,
) -> None:
    catalogue.imported()
    coded = "20000101d1999    m  y0frey50      ba"
    catalogue.put(99, f"100 ## $a{coded}", "200 1# $aTitre", datestamp="2024-06-02T00:00:00Z")
    await catalogue.harvest()
    facts = catalogue.imported()
    assert (counts(facts), facts.state) == ({"seen": 1, "refused": 1}, "completed")
    assert catalogue.imported().state == "no changes"


async def test_updates_and_deletions_are_imported_and_record_numbers_stay(catalogue: Catalogue) -> None:
    catalogue.imported()
    before = dict(catalogue.rows("SELECT identifier, bibliographic_id FROM bibliographic_record"))
    catalogue.put(1, "245 10 $aKnihy opravené", datestamp="2024-06-02T00:00:00Z")
    catalogue.delete(1)
    await catalogue.harvest()
    assert counts(catalogue.imported()) == {"seen": 1, "updated": 1, "deleted": 1}
    assert catalogue.titles() == ["The Czech Language", "Knihy opravené"]
    after = dict(catalogue.rows("SELECT identifier, bibliographic_id FROM bibliographic_record"))
    assert after == {name: before[name] for name in after}
    assert catalogue.rows("SELECT * FROM bibliographic_contributor") == []


async def test_a_new_datestamp_alone_is_not_an_update(catalogue: Catalogue) -> None:
    catalogue.imported()
    catalogue.put(
        3, "245 14 $aThe Czech Language", "500 ## $aPoznámka o nářečí", datestamp="2024-06-03T00:00:00Z"
    )
    await catalogue.harvest()
    assert counts(catalogue.imported()) == {"seen": 1, "unchanged": 1}
    assert counts(catalogue.imported()) == {}


def test_anew_processes_every_record(catalogue: Catalogue) -> None:
    catalogue.imported()
    assert counts(catalogue.imported(anew=True)) == {"seen": 3, "unchanged": 3}


def test_a_new_converter_version_processes_its_records_again(
    catalogue: Catalogue, monkeypatch: pytest.MonkeyPatch
) -> None:
    catalogue.imported()
    monkeypatch.setattr(type(CONVERTERS[0]), "version", 999)
    assert counts(catalogue.imported()) == {"seen": 3, "unchanged": 3}
    assert counts(catalogue.imported()) == {}


def test_a_filtering_set_selects_records_and_its_changes_are_applied(catalogue: Catalogue) -> None:
    catalogue.imported()
    choose(catalogue, ["655 exists"])
    assert counts(catalogue.imported()) == {"seen": 3, "unchanged": 2, "deleted": 1, "filtered": 1}
    assert counts(catalogue.imported()) == {}
    with catalogue.database.session() as session:
        edit_set(session, "mine", conditions=[parse_condition("655$a equals SLOVNIKY")])
        session.commit()
    catalogue.imported()
    assert catalogue.titles() == ["Slovník staré češtiny"]


def test_a_missing_file_is_reported_and_read_by_the_next_import(catalogue: Catalogue) -> None:
    path = next(path for path in catalogue.folder.rglob("*.xml") if path.stem.endswith("2"))
    data = path.read_bytes()
    path.unlink()
    facts = catalogue.imported()
    assert (counts(facts), facts.state) == ({"seen": 3, "new": 2, "refused": 1}, "completed with errors")
    with catalogue.database.session() as session:
        (omission,) = list_omissions(session)
    assert omission.kind == "unreadable"
    assert "No such file" in omission.reason
    path.write_bytes(data)
    assert counts(catalogue.imported()) == {"seen": 1, "new": 1}
    with catalogue.database.session() as session:
        assert list_omissions(session) == []


def test_a_file_with_altered_bytes_is_rejected_and_the_old_row_stays(catalogue: Catalogue) -> None:
    catalogue.imported()
    path = next(catalogue.folder.rglob("*.xml"))
    path.write_bytes(path.read_bytes().replace(b"<", b" <", 1))
    assert counts(catalogue.imported(anew=True)) == {"seen": 3, "unchanged": 2, "refused": 1}
    assert len(catalogue.titles()) == 3


async def test_a_record_that_no_converter_reads_is_rejected_once(catalogue: Catalogue) -> None:
    item = catalogue.fake.items[2]
    catalogue.fake.items[2] = replace(item, metadata="<mods xmlns='http://www.loc.gov/mods/v3'/>")
    await catalogue.harvest()
    assert counts(catalogue.imported()) == {"seen": 3, "new": 2, "refused": 1}
    assert counts(catalogue.imported()) == {}
    with catalogue.database.session() as session:
        assert "mods" in list_omissions(session)[0].reason


def test_an_error_in_a_converter_rejects_only_that_record(
    catalogue: Catalogue, monkeypatch: pytest.MonkeyPatch
) -> None:
    catalogue.imported()
    good = Marc21Converter.convert

    def faulty(self: Marc21Converter, element: etree._Element) -> BibliographicRecord:
        record = good(self, element)
        if record.control_number == "nr2":
            raise LookupError("nothing is where it was")
        return record

    monkeypatch.setattr(Marc21Converter, "convert", faulty)
    facts = catalogue.imported(anew=True)
    assert (counts(facts), facts.state) == (
        {"seen": 3, "unchanged": 2, "refused": 1},
        "completed with errors",
    )
    with catalogue.database.session() as session:
        (omission,) = list_omissions(session)
    assert (
        omission.reason
        == "the converter marc21 ended with an internal error: LookupError: nothing is where it was"
    )
    assert len(catalogue.titles()) == 3
    monkeypatch.setattr(Marc21Converter, "convert", good)
    assert counts(catalogue.imported()) == {"seen": 1, "unchanged": 1}
    assert counts(catalogue.imported()) == {}


@pytest.mark.parametrize("step", ["read", "convert"])
def test_a_record_too_large_for_the_memory_limit_is_omitted_until_the_limit_is_raised(
    catalogue: Catalogue, monkeypatch: pytest.MonkeyPatch, step: str
) -> None:
    catalogue.imported()
    convert = Marc21Converter.convert

    def read_with_little_memory(folder: Path, candidate: Candidate) -> etree._Element:
        if candidate.identifier.endswith("2") and step == "read":
            raise MemoryError
        return read_metadata(folder, candidate)

    def convert_with_little_memory(self: Marc21Converter, element: etree._Element) -> BibliographicRecord:
        record = convert(self, element)
        if record.control_number == "nr2" and step == "convert":
            raise MemoryError
        return record

    monkeypatch.setattr(batches, "read_metadata", read_with_little_memory)
    monkeypatch.setattr(Marc21Converter, "convert", convert_with_little_memory)
    assert counts(catalogue.imported(anew=True)) == {"seen": 3, "unchanged": 2, "refused": 1}
    with catalogue.database.session() as session:
        (omission,) = list_omissions(session)
    (size,) = (len(data) for name, data in catalogue.files().items() if "/2." in name)
    assert (omission.kind, omission.reason.partition(" than ")[0]) == (
        "unreadable",
        f"its file of {size:,} bytes needs more memory",
    )
    monkeypatch.undo()
    assert counts(catalogue.imported()) == {"seen": 1, "unchanged": 1}


async def test_the_richer_of_two_formats_is_imported_unless_another_is_chosen(catalogue: Catalogue) -> None:
    dublin_core = [replace(item, metadata="", title="Chudší") for item in catalogue.fake.items]
    richer, catalogue.fake.items = catalogue.fake.items, dublin_core
    await catalogue.run(metadata_prefix="oai_dc", full=True)
    catalogue.fake.items = richer
    assert catalogue.imported().metadata_prefix == "marc21"
    with catalogue.database.session() as session:
        save_source(
            session, replace(source_settings(session, catalogue.repository_id), metadata_prefix="oai_dc")
        )
        session.commit()
    assert counts(catalogue.imported()) == {"seen": 3, "new": 3, "deleted": 3}
    assert set(catalogue.titles()) == {"Chudší"}


def test_only_one_import_of_a_repository_runs_at_a_time(catalogue: Catalogue) -> None:
    with only_import(catalogue.database, catalogue.repository_id), pytest.raises(ImportBusyError):
        catalogue.imported()


def test_an_import_of_an_unknown_repository_is_rejected(catalogue: Catalogue) -> None:
    with pytest.raises(UsageError, match="no repository 99"):
        importer.run_import(catalogue.database, catalogue.settings, 99, started_by="me")


def test_an_import_whose_process_is_gone_is_marked_as_lost(catalogue: Catalogue) -> None:
    with catalogue.database.session() as session:
        imports.begin_import(session, catalogue.repository_id, started_by="you", metadata_prefix="marc21")
        session.commit()
        assert [one.state for one in imports.list_imports(session)] == ["lost"]
    catalogue.imported()
    with catalogue.database.session() as session:
        states = session.scalars(select(Import.state).order_by(Import.import_id)).all()
    assert list(states) == ["lost", "completed"]


async def test_an_import_killed_halfway_and_run_again_ends_with_the_same_rows(catalogue: Catalogue) -> None:
    for number in range(10, 1010):
        catalogue.put(number, f"100 1# $aAutor, {number}", f"245 10 $aKniha {number}", "500 ## $aPoznámka")
    await catalogue.harvest()
    words = ("import", "run", "--repository", str(catalogue.repository_id), "-q")
    process = Process(catalogue.environment, *words)
    async with asyncio.timeout(60):
        while not catalogue.rows("SELECT 1 FROM bibliographic_record LIMIT 1"):  # noqa: ASYNC110 another process fills it
            await asyncio.sleep(0.005)
    process.kill()
    assert await asyncio.to_thread(process.wait) == -signal.SIGKILL
    there = len(catalogue.titles())
    assert 0 < there < 1003
    facts = catalogue.imported()
    assert counts(facts) == {"seen": 1003 - there, "new": 1003 - there}
    taken_up = catalogue.rows(ROWS)
    with catalogue.database.engine.begin() as connection:
        connection.exec_driver_sql("DELETE FROM bibliographic_record")
    catalogue.imported()
    assert taken_up == catalogue.rows(ROWS)


async def test_tables_without_statistics_are_compared_by_the_whole_key(catalogue: Catalogue) -> None:
    """With plain joins, a first import compared each row with every other."""
    for number in range(10, 400):
        catalogue.put(number, "245 10 $aKniha")
    await catalogue.harvest()
    catalogue.imported()
    scope = ImportScope(repository_id=catalogue.repository_id, metadata_prefix="marc21", bases=["x"])
    with catalogue.database.session() as session:
        session.execute(text("SET LOCAL enable_seqscan = off"))
        values = {**scope.parameters(), "after": FIRST, "most": 500}
        page = candidates._PAGE.format(records=scope.records)  # noqa: SLF001
        plan = session.execute(text(f"EXPLAIN (ANALYZE) {page}"), values).scalars().all()
    removed = [int(line.split(":")[1]) for line in plan if "Rows Removed by" in line]
    assert sum(removed) < 1000


async def test_rows_of_deleted_records_are_found_by_their_keys(catalogue: Catalogue) -> None:
    for number in range(200):
        catalogue.put(number, f"245 10 $a Title {number}")
    await catalogue.harvest()
    catalogue.imported()
    with catalogue.database.session() as session:
        session.execute(text("UPDATE oai_record SET status = 'deleted' WHERE record_id % 2 = 0"))
        session.commit()
    with work_of(catalogue.database, "oai_record AS harvested") as work:
        found = catalogue.imported()
    assert found.deleted == 100
    assert (len(work) >= 3, [rows for rows in work if rows > 8 * 200]) == (True, [])


def test_rows_of_deleted_records_are_selected_once(catalogue: Catalogue) -> None:
    scope = ImportScope(repository_id=catalogue.repository_id, metadata_prefix="marc21", bases=[])
    with catalogue.database.session() as session, catalogue.database.session() as deleting:
        session.execute(text(OTHER_ROWS), {"id": catalogue.repository_id, "rows": 50})
        session.commit()
        pieces = []
        with work_of(catalogue.database, "SELECT bibliographic_id FROM") as work:
            for numbers in departed(session, scope, most=10):
                forget(deleting, numbers)
                deleting.commit()
                pieces.append(len(numbers))
    assert (pieces, len(work)) == ([10] * 5, 1)
    assert catalogue.rows("SELECT count(*) FROM bibliographic_record") == [(0,)]


async def test_an_import_does_not_read_all_numbers_of_all_records(catalogue: Catalogue) -> None:
    for title in ("First", "Second"):
        for number in range(150):
            catalogue.put(number, f"020 __ $a 978-80-200-{number:04}-0", f"245 10 $a {title} {number}")
        await catalogue.harvest()
        with work_of(catalogue.database, "DELETE FROM bibliographic_identifier") as work:
            found = catalogue.imported()
        if title == "First":
            write_others(catalogue, 3_000)
    assert found.updated == 150
    assert (len(work) > 0, [rows for rows in work if rows > 10 * 150]) == (True, [])


def write_others(catalogue: Catalogue, rows: int) -> None:
    """Write bibliographic rows of another repository, with ten numbers each."""
    with catalogue.database.session() as session:
        other = session.execute(
            text("INSERT INTO oai_repository (base_url, base_dir) VALUES (:n, :n) RETURNING repository_id"),
            {"n": f"other{rows}"},
        ).scalar_one()
        session.execute(text(OTHER_ROWS), {"id": other, "rows": rows})
        session.execute(text(THEIR_NUMBERS))
        session.commit()

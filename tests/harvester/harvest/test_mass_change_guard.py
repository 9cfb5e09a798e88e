"""Whole harvests with deletions and the mass-change guard."""

import asyncio
import contextlib
import json
import re
from dataclasses import replace
from datetime import UTC, datetime
from typing import Any

import pytest
from lxml import etree
from sqlalchemy import func, select, text, update

from harvester.harvest import mass_change_guard
from harvester.harvest.approval import HeldRunError, HoldState
from harvester.harvest.models import HeldDeletion, Sighting
from harvester.models import Harvest, History, Record
from harvester.store.changes import read_changes
from harvester.vocabulary import Slice
from oai.errors import ExitCode
from tests.commands import Process
from tests.harvester.fake_repository import Answer, Item, many
from tests.harvester.library import Library
from tests.plans import plans_of, repeated_scans

HEADER = "{*}header"


def staged(library: Library) -> int:
    with library.database.session() as session:
        return session.scalars(select(func.count()).select_from(HeldDeletion)).one()


def watermark(library: Library) -> str | None:
    with library.database.session() as session:
        return session.scalars(select(Harvest.watermark)).one()


def last_history(library: Library) -> History:
    with library.database.session() as session:
        return session.scalars(select(History).order_by(History.history_id.desc())).all()[0]


def newer(number: int, **values: Any) -> Item:
    return Item(
        identifier=f"oai:fake.example:{number}", datestamp="2024-06-03T00:00:00Z", title="Newer", **values
    )


async def test_by_default_the_file_of_a_deleted_record_is_removed_and_its_row_stays(library: Library) -> None:
    await library.run()
    library.delete(3)
    outcome = await library.run(full=True)
    assert (outcome.verdict, outcome.status, outcome.counts["deleted"]) == ("complete", "completed", 1)
    assert set(library.files()) == {f"fake.example/{number}.xml" for number in range(25) if number != 3}
    row = library.records()["oai:fake.example:3"]
    assert (row.status, row.filename, row.digest, row.update_flag, row.deletion_reason) == (
        "deleted", None, None, "deleted", "tombstone",
    )  # fmt: skip
    assert (row.datestamp, staged(library)) == ("2024-06-02T00:00:00Z", 0)


@pytest.mark.parametrize(
    ("policy", "place"), [("mark", "fake.example/3.xml"), ("move", "++deleted/fake.example/3.xml")]
)
async def test_a_file_can_be_marked_or_moved_and_is_restored_with_its_record(
    library: Library, policy: str, place: str
) -> None:
    library.change_repository(deletion_policy=policy)
    await library.run()
    library.delete(3)
    await library.run(full=True)
    root = etree.fromstring(library.files()[place])
    header = root.find(HEADER)
    assert header is not None
    assert (header.get("status"), header.findtext("{*}datestamp")) == ("deleted", "2024-06-02T00:00:00Z")
    assert "Title 3" in str(root.xpath("string()"))
    assert (library.records()["oai:fake.example:3"].filename, library.audit()[0].clean) == (place, True)
    outcome = await library.run(full=True)
    assert (outcome.status, outcome.counts["unchanged"]) == ("no changes", 25)
    library.fake.items[3] = newer(3)
    outcome = await library.run(full=True)
    assert outcome.counts["new"] == 1
    assert set(library.files()) == {f"fake.example/{number}.xml" for number in range(25)}
    row = library.records()["oai:fake.example:3"]
    assert (row.status, row.filename, row.deletion_reason) == ("active", "fake.example/3.xml", None)
    assert library.audit()[0].clean


async def test_similar_names_and_missing_files_do_not_prevent_a_move(library: Library) -> None:
    library.change_repository(deletion_policy="move")
    library.fake.items = [Item(identifier="oai:a:x"), Item(identifier="oai:a:y")]
    await library.run()
    library.delete(0)
    await library.run(full=True)
    library.fake.items.append(Item(identifier="oai:a:X"))
    await library.run(full=True)
    (library.folder / "a/y.xml").unlink()
    library.delete(1, 2)
    await library.run(full=True)
    records = library.records()
    assert {name: record.filename for name, record in records.items()} == {
        "oai:a:x": "++deleted/a/x.xml",
        "oai:a:X": "++deleted/a/X~2.xml",
        "oai:a:y": None,
    }
    assert library.audit()[0].clean


async def test_a_full_harvest_detects_removed_records_if_the_repository_keeps_no_deletions(
    library: Library,
) -> None:
    library.forgets()
    await library.run()
    library.fake.items[5] = newer(5)
    del library.fake.items[3]
    outcome = await library.run(full=True)
    assert (outcome.verdict, outcome.failure_reason) == ("complete", None)
    assert (outcome.counts["deleted"], outcome.counts["disappeared"]) == (1, 1)
    row = library.records()["oai:fake.example:3"]
    assert (row.status, row.deletion_reason, row.datestamp) == ("deleted", "disappeared", library.fake.now)
    with library.database.session() as session:
        changed = {line.identifier: line.change for line in read_changes(session, since=25)}
        assert session.scalars(select(func.count()).select_from(Sighting)).one() == 0
    assert changed == {"oai:fake.example:3": "deleted", "oai:fake.example:5": "updated"}
    outcome = await library.run(full=True)
    assert (outcome.status, outcome.counts["disappeared"]) == ("no changes", 0)


async def stopped_after(library: Library, records: int, **parameters: Any) -> None:
    """Run a harvest that is stopped when the page after the given number of records is requested."""
    stop = asyncio.Event()

    async def ask_to_stop(asked: dict[str, str]) -> None:
        if asked.get("resumptionToken", "").startswith(str(records)):
            async with asyncio.timeout(30):  # the earlier records have to be committed first
                while counted(library) < records:  # noqa: ASYNC110 a thread does it
                    await asyncio.sleep(0.02)
            stop.set()

    library.fake.before = ask_to_stop
    outcome = await library.run(stop=stop, **parameters)
    library.fake.before = None
    assert outcome.status == "incomplete"


def counted(library: Library) -> int:
    with library.database.session() as session:
        return sum(counts.get("records", 0) for counts in session.scalars(select(Harvest.counts)))


def sightings(library: Library) -> int:
    with library.database.session() as session:
        return session.scalars(select(func.count()).select_from(Sighting)).one()


async def test_a_first_harvest_notes_no_sightings_because_no_record_can_have_disappeared(
    library: Library,
) -> None:
    library.forgets()
    await stopped_after(library, 20)
    assert (sightings(library), len(library.records())) == (0, 20)


async def test_a_resumed_run_that_noted_no_sightings_from_its_start_detects_no_removals(
    library: Library,
) -> None:
    library.forgets()
    await stopped_after(library, 20)
    with library.database.session() as session:  # as after a rebuild of the store
        session.execute(update(Record).values(harvest_time=datetime(2020, 1, 1, tzinfo=UTC)))
        session.commit()
    outcome = await library.run()
    assert (outcome.evidence.resumed_at, outcome.verdict) == (20, "complete")
    assert (outcome.counts["disappeared"], len(library.living())) == (0, 25)


async def test_a_resumed_run_of_a_version_that_stored_no_looks_flag_deletes_no_records(
    library: Library,
) -> None:
    library.forgets()
    await library.run()
    del library.fake.items[24]
    await stopped_after(library, 10, full=True)
    with library.database.session() as session:
        session.execute(update(Harvest).values(run_parameters=Harvest.run_parameters.op("-")("looks")))
        session.commit()
    outcome = await library.run(full=True)
    assert outcome.evidence.resumed_at == 10
    assert (outcome.counts["disappeared"], len(library.living())) == (0, 25)


async def test_without_table_statistics_no_statement_takes_quadratic_time(library: Library) -> None:
    library.forgets()
    library.fake.items = many(5000)
    library.fake.page_size = 1000
    with library.database.session() as session:
        for table in ("oai_record", "oai_sighting", "oai_held_deletion", "oai_set_mapping"):
            session.execute(text(f"ALTER TABLE {table} SET (autovacuum_enabled = off)"))
        session.commit()
    await library.run()
    del library.fake.items[100:1100]
    library.change_settings(brake_deletions=100)
    with plans_of(library.database, "oai_record", "oai_held_deletion", "oai_seen") as plans:
        outcome = await library.run(full=True)
    assert (outcome.counts["disappeared"], len(plans) > 10) == (1000, True)
    assert [scans for plan in plans if (scans := repeated_scans(plan))] == []


async def test_a_full_harvest_detects_records_removed_before_the_repository_kept_deletions(
    library: Library,
) -> None:
    library.forgets()
    await library.run()
    del library.fake.items[3]
    library.fake.fault = None
    assert (await library.run()).warnings == ()
    assert len(library.living()) == 25
    library.delete(4)
    outcome = await library.run(full=True)
    assert (outcome.counts["deleted"], outcome.counts["disappeared"]) == (2, 1)
    (warning,) = outcome.warnings
    assert warning.startswith("1 stored record was not listed, although the repository reports its deletions")
    assert len(library.living()) == 23
    del library.fake.items[10:20]
    outcome = await library.run(full=True)
    assert (outcome.status, outcome.warnings[0][:26]) == ("held", "10 stored records were not")
    assert len(library.living()) == 23


async def test_a_run_that_did_not_see_all_records_deletes_no_unlisted_ones(library: Library) -> None:
    library.forgets()
    await library.run()
    del library.fake.items[3]
    ways: list[dict[str, Any]] = [
        {}, {"full": True, "max_records": 20}, {"full": True, "harvest_from": "2020-01-01"}
    ]  # fmt: skip
    for how in ways:
        await library.run(**how)
        assert len(library.living()) == 25, how
    library.fake.fault = lambda _, good: good.replace(b">persistent<", b">no<").replace(
        b'completeListSize="24"', b'completeListSize="30"'
    )
    assert (await library.run(full=True)).verdict == "partial"
    assert len(library.living()) == 25


def remove_while_listed(library: Library) -> None:
    """Let the first record be removed while a list is read, so that the next page skips one."""
    number = len(library.fake.items)

    async def remove_first(asked: dict[str, str]) -> None:
        if asked.get("resumptionToken", "").startswith("10|") and len(library.fake.items) == number:
            del library.fake.items[0]

    library.fake.before = remove_first


async def test_no_record_is_deleted_if_the_list_became_shorter_while_it_was_read(library: Library) -> None:
    library.forgets(get_record=False)
    await library.run()
    remove_while_listed(library)
    outcome = await library.run(full=True)
    assert (outcome.verdict, outcome.counts["disappeared"], len(library.living())) == ("complete", 0, 25)
    shortened, unknown, kept = outcome.warnings
    assert shortened.startswith("the list became shorter while it was read")
    assert unknown.startswith("not all records missing from the list could be requested: ")
    assert kept.startswith("1 record missing from the list was kept, because the list changed")
    assert (await library.run(full=True)).counts["disappeared"] == 1
    assert "oai:fake.example:0" not in library.living()


@pytest.mark.parametrize(
    ("sizes", "how"),
    [(True, {}), (False, {}), (False, {"slice": Slice.MONTH})],
    ids=["with sizes", "without sizes", "sliced"],
)
async def test_a_record_that_a_list_skipped_is_kept_if_the_repository_has_it(
    library: Library, how: dict[str, Any], *, sizes: bool
) -> None:
    """Without completeListSize, only a request for the record shows that it was skipped."""
    library.forgets()
    library.fake.sizes = sizes
    await library.run()
    del library.fake.items[15]
    remove_while_listed(library)
    outcome = await library.run(full=True, **how)
    assert (outcome.verdict, outcome.counts["disappeared"]) == ("complete", 1)
    assert library.living() == {f"oai:fake.example:{number}" for number in range(25) if number != 15}
    assert outcome.warnings[-1].startswith("1 record missing from the list was found by GetRecord and kept")
    alone = [asked["identifier"] for asked in library.fake.asked if asked.get("verb") == "GetRecord"]
    assert sorted(alone) == [f"oai:fake.example:{number}" for number in (10, 15)]


async def test_a_record_that_left_the_harvested_set_is_deleted_although_the_repository_has_it(
    library: Library,
) -> None:
    library.forgets()
    library.fake.sizes = False
    library.fake.items = [replace(item, sets=("maps",)) for item in library.fake.items]
    await library.run(set_spec="maps")
    library.fake.items[15] = newer(15, sets=("books",))
    outcome = await library.run(set_spec="maps", full=True)
    assert (outcome.warnings, outcome.counts["disappeared"]) == ((), 1)


async def test_a_record_skipped_by_a_list_of_unchanged_size_is_kept(library: Library) -> None:
    library.forgets()
    await library.run()

    async def replace_first(asked: dict[str, str]) -> None:
        if asked.get("resumptionToken", "").startswith("10|"):
            library.fake.items = [*library.fake.items[1:], newer(99)]

    library.fake.before = replace_first
    outcome = await library.run(full=True)
    assert (outcome.verdict, outcome.counts["disappeared"]) == ("complete", 0)
    assert "oai:fake.example:10" in library.living()


async def test_missing_records_are_not_requested_if_many_are_missing_or_the_list_has_one_page(
    library: Library,
) -> None:
    library.forgets()
    library.change_settings(brake_deletions=100)
    library.fake.items = many(150)
    await library.run()
    del library.fake.items[20:121]
    assert (await library.run(full=True)).counts["disappeared"] == 101
    library.fake.page_size = 100
    del library.fake.items[20]
    assert (await library.run(full=True)).counts["disappeared"] == 1
    assert [asked for asked in library.fake.asked if asked.get("verb") == "GetRecord"] == []


async def test_missing_records_are_not_requested_by_a_run_that_left_something_out(library: Library) -> None:
    library.forgets()
    await library.run()
    del library.fake.items[15]
    library.fake.fault = lambda _, good: good.replace(b">persistent<", b">no<").replace(b"Title 3", b"a & b")
    outcome = await library.run(full=True)
    assert (outcome.verdict, outcome.counts["disappeared"]) == ("partial", 0)
    alone = {asked["identifier"] for asked in library.fake.asked if asked.get("verb") == "GetRecord"}
    assert alone == {"oai:fake.example:3"}


def answer_get_record(library: Library, answers: dict[int, Answer]) -> None:
    """Let the repository answer requests for these records so."""

    def answer(asked: dict[str, str], good: bytes) -> bytes | Answer:
        number = asked.get("identifier", ":").rpartition(":")[2]
        if number and int(number) in answers:
            return answers[int(number)]
        return good.replace(b">persistent<", b">no<")

    library.fake.fault = answer


async def test_a_failed_request_for_a_missing_record_does_not_prevent_the_others(library: Library) -> None:
    library.fake.sizes = False
    await library.run()
    answer_get_record(library, dict.fromkeys((20, 21, 22), (404, {}, b"not found")))
    del library.fake.items[20:23]
    remove_while_listed(library)
    outcome = await library.run(full=True)
    assert (outcome.verdict, outcome.counts["disappeared"]) == ("complete", 3)
    assert "oai:fake.example:10" in library.living()
    unknown, kept = outcome.warnings
    assert unknown.startswith("not all records missing from the list could be requested: ")
    assert kept.startswith("1 record missing from the list was found by GetRecord and kept")


async def test_a_repository_that_is_too_busy_for_get_record_does_not_stop_a_full_harvest(
    library: Library,
) -> None:
    library.fake.sizes = False
    await library.run()
    answer_get_record(library, {20: (429, {"Retry-After": "36000"}, b"later")})
    del library.fake.items[20]
    outcome = await library.run(full=True)
    assert (outcome.verdict, outcome.counts["disappeared"]) == ("complete", 1)
    assert len(outcome.warnings) == 1


@pytest.mark.parametrize(
    "other",
    [(b"<identifier>oai", b"<identifier>OAI"), (b"<setSpec>maps</setSpec>", b"")],
    ids=["identifier", "sets"],
)
async def test_an_answer_that_does_not_tell_whether_the_record_is_listed_confirms_nothing(
    library: Library, other: tuple[bytes, bytes]
) -> None:
    library.fake.items = [replace(item, sets=("maps",)) for item in library.fake.items]
    await library.run(set_spec="maps")

    def answer(asked: dict[str, str], good: bytes) -> bytes:
        changed = good.replace(*other) if asked.get("verb") == "GetRecord" else good
        return changed.replace(b">persistent<", b">no<")

    library.fake.fault = answer
    remove_while_listed(library)
    outcome = await library.run(set_spec="maps", full=True)
    assert outcome.counts["disappeared"] == 0
    assert "oai:fake.example:10" in library.living()


def move_while_listed(library: Library, number: int) -> None:
    """Let a record be changed while each list is read: it moves to the end, and the next page skips one."""

    async def move(asked: dict[str, str]) -> None:
        if asked.get("resumptionToken", "").startswith("10|"):
            place = [item.identifier for item in library.fake.items].index(f"oai:fake.example:{number}")
            del library.fake.items[place]
            library.fake.items.append(newer(number))

    library.fake.before = move


async def test_a_list_that_repeats_records_deletes_only_those_missing_from_the_next_full_list_too(
    library: Library,
) -> None:
    library.forgets(get_record=False)
    library.fake.sizes = False
    await library.run()
    del library.fake.items[20]
    move_while_listed(library, 0)
    outcome = await library.run(full=True)
    assert (outcome.verdict, outcome.counts["repeated"], outcome.counts["disappeared"]) == ("complete", 1, 0)
    repeated, _unknown, kept = outcome.warnings
    assert repeated.startswith("the list repeated 1 record while it was read")
    assert kept.startswith("2 records missing from the list were kept, because the list changed")
    assert len(library.living()) == 25
    assert (await library.run()).warnings == ()

    move_while_listed(library, 1)  # the list skips a record that the one before had
    outcome = await library.run(full=True)
    assert (outcome.counts["disappeared"], outcome.counts["repeated"]) == (1, 1)
    assert [warning[:32] for warning in outcome.warnings] == [
        "the list repeated 1 record while",
        "not all records missing from the",
        "1 record missing from the list w",
    ]
    assert library.living() == {f"oai:fake.example:{number}" for number in range(25) if number != 20}

    library.fake.before = None
    outcome = await library.run(full=True)
    assert (outcome.warnings, outcome.counts["disappeared"], staged(library)) == ((), 0, 0)


async def test_records_that_a_changing_list_missed_are_deleted_by_a_list_without_repetitions(
    library: Library,
) -> None:
    library.forgets(get_record=False)
    library.fake.sizes = False
    await library.run()
    del library.fake.items[20]
    move_while_listed(library, 0)
    await library.run(full=True)
    library.fake.before = None
    outcome = await library.run(full=True)
    assert (outcome.counts["disappeared"], staged(library)) == (1, 0)
    assert "oai:fake.example:20" not in library.living()


async def test_an_incremental_run_that_receives_a_missed_record_takes_back_that_it_was_missing(
    library: Library,
) -> None:
    library.forgets(get_record=False)
    library.fake.sizes = False
    await library.run()
    move_while_listed(library, 0)
    await library.run(full=True)
    missed = "oai:fake.example:10"
    with library.database.session() as session:
        waiting = select(Record.identifier).join(HeldDeletion, HeldDeletion.record_id == Record.record_id)
        assert list(session.scalars(waiting)) == [missed]
    library.fake.before = None
    await library.run(harvest_from="2000-01-01")
    assert staged(library) == 0


async def test_repetitions_cast_no_doubt_on_a_list_of_the_stated_size(library: Library) -> None:
    library.forgets()
    await library.run()
    del library.fake.items[20]
    library.fake.items.insert(5, library.fake.items[3])
    library.fake.fault = lambda _, good: good.replace(b">persistent<", b">no<").replace(
        b'completeListSize="25"', b'completeListSize="24"'
    )
    outcome = await library.run(full=True)
    assert (outcome.counts["repeated"], outcome.counts["disappeared"], outcome.warnings) == (1, 1, ())


async def test_a_resumed_run_remembers_that_one_of_its_lists_became_shorter(library: Library) -> None:
    library.forgets()
    library.fake.items += [newer(number) for number in range(30, 35)]
    await library.run()
    stop = asyncio.Event()

    async def remove_first(asked: dict[str, str]) -> None:
        if asked.get("resumptionToken", "").startswith("10|") and len(library.fake.items) == 30:
            del library.fake.items[0]
        if asked.get("from", "").startswith("2024-06"):
            stop.set()

    library.fake.before = remove_first
    how: dict[str, Any] = {"full": True, "slice": Slice.MONTH}
    assert (await library.run(stop=stop, **how)).status == "incomplete"
    library.fake.before = None
    outcome = await library.run(**how)
    assert (outcome.verdict, outcome.evidence.resumed_at > 0) == ("complete", True)
    assert (outcome.counts["disappeared"], len(library.living())) == (0, 30)


async def test_records_excluded_by_filters_have_not_disappeared(library: Library) -> None:
    library.forgets()
    await library.run()
    del library.fake.items[3]
    rules = library.folder.parent / "filter.xml"
    rules.write_text(
        "<filters match='any'><selectionNamespaces>xmlns:dc='http://purl.org/dc/elements/1.1/'"
        "</selectionNamespaces><filter xpath='//dc:title' regexp='Title 1' invert='false'/></filters>"
    )
    outcome = await library.run(full=True, filter_file=rules)
    assert (outcome.verdict, outcome.counts["disappeared"]) == ("complete", 1)
    assert "oai:fake.example:3" not in library.living()
    assert len(library.living()) == 24


async def test_a_harvest_of_a_set_deletes_only_records_that_no_other_harvest_covers(
    library: Library,
) -> None:
    library.forgets()
    library.fake.items = [
        Item(identifier="oai:a:gone", sets=("x:y",)),
        Item(identifier="oai:a:stays", sets=("x",)),
        Item(identifier="oai:a:both", sets=("x", "z")),
        Item(identifier="oai:a:other", sets=("z",)),
    ]
    await library.run(set_spec="x")
    await library.run(set_spec="z")
    library.fake.items = [Item(identifier="oai:a:stays", sets=("x",))]
    outcome = await library.run(set_spec="x", full=True)
    assert outcome.verdict == "complete"
    assert library.living() == {"oai:a:stays", "oai:a:both", "oai:a:other"}


async def test_records_in_two_separately_harvested_sets_are_deleted_by_a_harvest_without_sets(
    library: Library,
) -> None:
    library.forgets()
    library.fake.items = [Item(identifier="oai:a:both", sets=("x", "z")), Item(identifier="oai:a:a")]
    library.fake.items += [Item(identifier=f"oai:a:{spec}", sets=(spec,)) for spec in ("x", "z")]
    for spec in ("x", "z"):
        await library.run(set_spec=spec)
    del library.fake.items[0]
    for spec in ("x", "z"):
        outcome = await library.run(set_spec=spec, full=True)
        (warning,) = outcome.warnings
        assert warning.startswith("1 record that this set no longer lists was kept, because another harvest")
    outcome = await library.run(full=True)
    assert (outcome.warnings, library.living()) == ((), {"oai:a:a", "oai:a:x", "oai:a:z"})


async def test_a_harvest_of_a_set_that_headers_do_not_name_deletes_no_records_and_warns(
    library: Library,
) -> None:
    library.fake.fault = lambda _asked, good: re.sub(
        rb"<setSpec>[^<]*</setSpec>", b"", good.replace(b">persistent<", b">no<")
    )
    library.fake.items = [Item(identifier=f"oai:a:{number}", sets=("x",)) for number in range(3)]
    await library.run(set_spec="x")
    del library.fake.items[0]
    outcome = await library.run(set_spec="x", full=True)
    (warning,) = outcome.warnings
    assert warning.startswith("the headers of 2 listed records do not name this set")
    assert len(library.living()) == 3
    outcome = await library.run(full=True)
    assert (outcome.warnings, len(library.living())) == ((), 2)


async def test_a_run_with_too_many_deletions_is_held_and_deletes_no_records(library: Library) -> None:
    await library.run()
    before = library.files()
    library.delete(*range(12))
    library.fake.items += many(1, start=90)
    library.fake.now = "2024-07-01T00:00:00Z"
    outcome = await library.run(full=True)
    assert (outcome.verdict, outcome.status, outcome.exit_code) == (
        "partial",
        "held",
        ExitCode.RECORDS_REFUSED,
    )
    assert (outcome.counts["new"], outcome.counts["deleted"]) == (1, 0)
    assert len(library.living()) == 26
    assert {name: library.files()[name] for name in before} == before
    assert watermark(library) == "2024-06-01T12:00:00Z"
    row = last_history(library)
    assert (row.status, row.verdict, row.deleted_count) == ("held", "partial", 0)
    assert row.failure_reason == (
        "held by the mass-change guard: the run would delete 12 of 25 records; without approval it may "
        "delete 20 %"
    )
    (hold,) = library.holds()
    assert (hold.history_id, hold.kind, hold.would_delete, hold.active) == (
        row.history_id,
        "deletions",
        12,
        25,
    )
    assert set(hold.sample) == {f"oai:fake.example:{number}" for number in range(12)}


async def test_releasing_a_held_run_applies_its_deletions(library: Library) -> None:
    await library.run()
    library.delete(*range(12))
    await library.run(full=True)
    code, out, _ = await library.command("job", "release", "2", "--show")
    assert (code, "would delete 12 of 25 records (48 %; 20 %" in out, "oai:fake.example:3" in out) == (
        0,
        True,
        True,
    )
    assert len(library.living()) == 25
    code, out, err = await library.command("job", "release", "2", "--json")
    assert (code, err) == (0, "")
    row = last_history(library)
    assert (row.deleted_count, (row.failure_reason or "").endswith(": 12 records deleted")) == (12, True)
    assert (json.loads(out)["deleted"], json.loads(out)["state"]) == (12, "released")
    assert len(library.living()) == 13
    assert library.audit()[0].clean
    assert staged(library) == 0
    outcome = await library.run()
    assert (outcome.verdict, outcome.status) == ("complete", "no changes")
    code, _, err = await library.command("job", "release", "2")
    assert (code, "no longer held" in err) == (2, True)
    code, _, err = await library.command("job", "release", "1")
    assert (code, "was not held" in err) == (2, True)
    code, _, err = await library.command("job", "release", "40")
    assert (code, "no run 40; list runs" in err) == (2, True)


async def test_a_later_held_run_supersedes_the_earlier_one(library: Library) -> None:
    await library.run()
    library.delete(*range(12))
    await library.run(full=True)
    library.delete(12)
    await library.run(full=True)
    assert [(hold.state, hold.would_delete) for hold in library.holds()] == [("superseded", 12), ("held", 13)]
    assert staged(library) == 13
    library.fake.items[:13] = many(13)
    await library.run(full=True)
    assert [hold.state for hold in library.holds()] == ["superseded", "superseded"]
    assert staged(library) == 0
    assert len(library.living()) == 25


async def test_an_incremental_run_does_not_supersede_a_held_full_run(library: Library) -> None:
    library.forgets()
    await library.run()
    kept = library.fake.items
    library.fake.items = kept[12:]
    assert (await library.run(full=True)).status == "held"
    library.fake.items = [newer(3), *kept[12:]]
    outcome = await library.run()
    assert (outcome.status, outcome.verdict) == ("completed", "complete")
    (hold,) = library.holds()
    assert (hold.state, hold.would_delete) == ("held", 12)
    code, out, _ = await library.command("job", "release", str(hold.history_id), "--json")
    assert (code, json.loads(out)["deleted"]) == (0, 11)
    assert "oai:fake.example:3" in library.living()


async def test_records_that_reappeared_before_an_old_run_is_released_are_stored_again(
    library: Library,
) -> None:
    library.forgets()
    await library.run()
    kept = library.fake.items
    library.fake.items = kept[12:]
    held = await library.run(full=True)
    library.fake.items = kept
    assert (await library.run()).verdict == "complete"
    library.fake.items = [*kept, *(newer(number) for number in range(100, 125))]
    await stopped_after(library, 20)
    code, out, _ = await library.command("job", "release", str(held.history_id), "--show")
    assert (code, "complete runs of this harvest since: 1." in out) == (0, True)
    code, out, _ = await library.command("job", "release", str(held.history_id))
    assert (code, "12 records deleted; the next harvest requests all records" in out) == (0, True)
    assert len(library.living()) == 13 + 20
    outcome = await library.run()
    assert (library.windows()[-1], outcome.counts["new"], len(library.living())) == ((None, None), 17, 50)


@pytest.mark.parametrize(("count", "status"), [(5, "completed"), (6, "held")])
async def test_the_limit_of_a_repository_overrides_that_of_the_settings(
    library: Library, count: int, status: str
) -> None:
    library.change_settings(brake_minimum=1, brake_deletions=90)
    library.change_repository(brake_deletions=20.0)
    await library.run()
    library.delete(*range(count))
    assert (await library.run(full=True)).status == status


async def test_few_deletions_are_never_held(library: Library) -> None:
    library.fake.items = many(10)
    await library.run()
    library.delete(*range(9))
    assert (await library.run(full=True)).counts["deleted"] == 9


async def test_a_record_that_is_deleted_and_listed_again_in_the_same_list_stays(library: Library) -> None:
    await library.run()
    library.fake.items.append(newer(3))
    library.delete(3)
    await library.run(full=True)
    assert "oai:fake.example:3" in library.living()
    assert staged(library) == 0


async def test_a_run_with_too_many_updates_stops_before_the_page_that_exceeds_the_limit(
    library: Library,
) -> None:
    library.change_settings(brake_updates=30)
    await library.run()
    library.fake.items[:20] = [newer(number) for number in range(20)]
    before = library.files()
    outcome = await library.run(full=True)
    assert (outcome.verdict, outcome.status) == ("partial", "held")
    (hold,) = library.holds()
    assert (hold.kind, hold.state, hold.active) == ("updates", "held", 25)
    assert hold.would_update >= 10
    assert library.files() == before
    assert (await library.run(full=True)).status == "held"
    code, out, _ = await library.command("job", "release", str(last_history(library).history_id))
    assert (code, "approved" in out) == (0, True)
    outcome = await library.run(full=True)
    assert (outcome.verdict, outcome.counts["updated"]) == ("complete", 20)
    assert [hold.state for hold in library.holds()] == [HoldState.SUPERSEDED, HoldState.DONE]
    library.fake.items[:20] = [newer(number, sets=("x",)) for number in range(20)]
    assert (await library.run(full=True)).status == "held"


async def test_deletions_of_an_interrupted_run_are_applied_when_it_is_resumed(library: Library) -> None:
    await library.run()
    library.delete(*range(4))
    stop = asyncio.Event()

    async def interrupt(asked: dict[str, str]) -> None:
        if asked.get("resumptionToken", "").startswith("20"):
            stop.set()
            await asyncio.sleep(3600)

    library.change_settings(brake_minimum=1, brake_deletions=10)
    library.fake.before = interrupt
    outcome = await library.run(full=True, stop=stop)
    assert outcome.status == "incomplete"
    assert any("4 deletions are postponed" in warning for warning in outcome.warnings)
    library.fake.before = None
    assert len(library.living()) == 25
    library.change_settings(brake_deletions=50)
    outcome = await library.run(full=True)
    assert (outcome.verdict, outcome.counts["deleted"]) == ("complete", 4)
    assert len(library.living()) == 21


async def test_a_command_sets_the_limits_of_a_repository(library: Library) -> None:
    code, out, _ = await library.command(
        "repository", "policy", "1", "--deletions", "mark", "--brake-deletions", "5", "--json"
    )
    assert code == 0
    assert json.loads(out) == {
        "repository_id": 1, "deletion_policy": "mark", "brake_deletions": 5.0, "brake_updates": None,
    }  # fmt: skip
    code, _, err = await library.command("repository", "policy", "1", "--brake-updates", "much")
    assert (code, "'much' is not a valid percentage" in err) == (2, True)


def test_a_run_without_mass_change_guard_counts_all_deletions_as_applied() -> None:
    assert mass_change_guard.Settlement(deleted=3).corrected({"deleted": 3}) == {
        "deleted": 3,
        "disappeared": 0,
        "postponed": 0,
    }


@pytest.mark.parametrize("status", ["held", pytest.param("completed", marks=pytest.mark.long)])
async def test_a_killed_run_is_resumed_with_all_its_deletions(library: Library, status: str) -> None:
    await library.run()
    library.delete(*range(12))
    reached = asyncio.Event()

    async def stick(asked: dict[str, str]) -> None:
        if asked.get("resumptionToken", "").startswith("20"):
            reached.set()
            await asyncio.sleep(3600)

    library.fake.before = stick
    process = Process(library.environment, "harvest", "1", "--full", "-q")
    await asyncio.wait_for(reached.wait(), 60)
    async with asyncio.timeout(60):
        while staged(library) < 12:  # noqa: ASYNC110 another process does it
            await asyncio.sleep(0.05)
    process.kill()
    await asyncio.to_thread(process.wait)
    library.fake.before = None
    library.change_settings(brake_deletions=50 if status == "completed" else 20)
    outcome = await library.run(full=True)
    assert outcome.evidence.resumed_at == 20
    assert outcome.status == status
    assert (len(library.living()), staged(library)) == ((13, 0) if status == "completed" else (25, 12))
    assert library.audit()[0].clean


@pytest.mark.parametrize(
    ("updates", "minimum", "held"), [(5, 1, False), (6, 1, True), (6, 7, False), (7, 7, True), (0, 0, False)]
)
def test_a_run_is_held_for_more_updates_than_allowed_and_at_least_the_minimum(
    updates: int, minimum: int, *, held: bool
) -> None:
    nothing: Any = None
    guard = mass_change_guard.MassChangeGuard(
        run=nothing, target=nothing, set_spec="", deletions_allowed=100, updates_allowed=50, minimum=minimum,
        looks=False, _before=10,
    )  # fmt: skip
    with pytest.raises(HeldRunError) if held else contextlib.nullcontext():
        guard.check_updates(nothing, updates, [])

"""Records that full lists lack: which of them are deleted."""

import asyncio
import re
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from sqlalchemy import func, select, text, update

from harvester.harvest.models import HeldDeletion, Sighting
from harvester.models import Harvest, Record
from harvester.store.changes import read_changes
from harvester.vocabulary import Slice
from tests.harvester.fake_repository import Answer, Item, many
from tests.harvester.harvest.deletions import newer, staged, stopped_after
from tests.harvester.library import Library
from tests.plans import plans_of, repeated_scans


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


async def lose_one_and_repeat_one(library: Library) -> None:
    """Harvest all, then remove record 20; the next list repeats record 0. GetRecord is refused."""
    library.forgets(get_record=False)
    library.fake.sizes = False
    await library.run()
    del library.fake.items[20]
    move_while_listed(library, 0)


async def test_a_list_that_repeats_records_deletes_only_those_missing_from_the_next_full_list_too(
    library: Library,
) -> None:
    await lose_one_and_repeat_one(library)
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
    await lose_one_and_repeat_one(library)
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


@pytest.mark.parametrize(
    ("other", "disappeared"),
    [
        ("none", 1),
        ("sample", 1),
        ("failed", 1),
        ("with errors", 0),
        ("without a watermark", 0),
        ("from 2024-01-02", 1),
        ("from 2024-01-01", 0),
        ("from 2023-12-31T12:00:00Z", 0),
    ],
)
async def test_a_harvest_covers_records_that_it_requested_once_it_has_reached_the_end_of_its_lists(
    library: Library, other: str, disappeared: int
) -> None:
    library.change_settings(isolation_requests=0)
    library.fake.items = [replace(item, sets=("maps",)) for item in library.fake.items]
    library.forgets()
    forgetful = library.fake.fault
    if other == "sample":
        await library.run(max_records=3)
    if other.startswith("from "):
        assert (await library.run(harvest_from=other.removeprefix("from "))).verdict == "complete"
    if other == "failed":
        library.fake.fault = lambda asked, _: (500, {}, b"") if asked["verb"] == "ListRecords" else None
        assert (await library.run()).verdict == "failed"
    if other == "with errors":
        library.fake.fault = lambda _, good: good.replace(b"Title 24 ", b"\x01")
        assert (await library.run()).verdict == "partial"
    if other == "without a watermark":
        await library.run()
        with library.database.session() as session:
            session.execute(update(Harvest).values(watermark=None))
            session.commit()
    library.fake.fault = forgetful
    await library.run(set_spec="maps")
    del library.fake.items[3]
    outcome = await library.run(set_spec="maps", full=True)
    assert (outcome.verdict, outcome.counts["disappeared"]) == ("complete", disappeared)


async def test_a_record_stored_while_the_clock_was_ahead_may_disappear(library: Library) -> None:
    library.forgets()
    await library.run()
    with library.database.session() as session:
        session.execute(update(Record).values(harvest_time=datetime.now(UTC) + timedelta(days=365)))
        session.commit()
    del library.fake.items[3]
    assert (await library.run(full=True)).counts["disappeared"] == 1


async def test_a_resumed_full_harvest_keeps_records_stored_by_another_harvest_since_it_began(
    library: Library,
) -> None:
    library.forgets(get_record=False)
    await library.run()
    del library.fake.items[-1]
    await stopped_after(library, 20, full=True)
    library.fake.items.insert(0, newer(99, sets=("maps",)))
    assert (await library.run(set_spec="maps")).counts["new"] == 1
    # The list that is resumed is as old as its first page.
    del library.fake.items[0]
    outcome = await library.run(full=True)
    assert (outcome.evidence.resumed_at, outcome.counts["disappeared"]) == (20, 1)
    assert library.living() == {f"oai:fake.example:{number}" for number in (*range(24), 99)}


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

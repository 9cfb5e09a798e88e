"""Whole harvests with deletions and the mass-change guard."""

import asyncio
import contextlib
import json
from dataclasses import replace
from typing import Any

import pytest
from lxml import etree
from sqlalchemy import select

from harvester.harvest import mass_change_guard
from harvester.harvest.approval import HeldRunError, HoldState
from harvester.harvest.harvest import harvest
from harvester.harvest.request import HarvestRequest
from harvester.harvest.result import RunOutcome
from harvester.harvest.source import replay_request
from harvester.models import Harvest, History
from oai.errors import ExitCode
from tests.commands import Process
from tests.harvester.fake_repository import Item, many
from tests.harvester.harvest.deletions import newer, staged, stopped_after
from tests.harvester.library import Library

HEADER = "{*}header"


def watermark(library: Library) -> str | None:
    with library.database.session() as session:
        return session.scalars(select(Harvest.watermark)).one()


def last_history(library: Library) -> History:
    with library.database.session() as session:
        return session.scalars(select(History).order_by(History.history_id.desc())).all()[0]


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


async def held_without_maps(library: Library) -> RunOutcome:
    """Hold a harvest of the whole repository, whose list lacks the 12 records of a set."""
    library.forgets()
    maps = [replace(item, sets=("maps",)) for item in library.fake.items[:12]]
    library.fake.items = [*maps, *library.fake.items[12:]]
    await library.run()
    library.fake.items = library.fake.items[12:]
    held = await library.run(full=True)
    assert (held.status, staged(library)) == ("held", 12)
    library.fake.items = [*maps, *library.fake.items]
    return held


async def test_records_that_a_later_harvest_of_a_set_receives_stay_when_a_held_run_is_released(
    library: Library,
) -> None:
    held = await held_without_maps(library)
    assert (await library.run(set_spec="maps")).counts["unchanged"] == 12
    assert staged(library) == 0
    code, out, _ = await library.command("job", "release", str(held.history_id))
    assert (code, "0 records deleted" in out, len(library.living())) == (0, True, 25)


async def test_a_list_from_before_a_run_was_held_withdraws_none_of_its_deletions(library: Library) -> None:
    library.fake.page_size = 5
    library.fake.items = [replace(item, sets=("maps",)) for item in library.fake.items]
    await stopped_after(library, 20, set_spec="maps")
    library.forgets()
    await library.run()
    kept, library.fake.items = library.fake.items, library.fake.items[:10]
    assert (await library.run(full=True)).status == "held"
    library.fake.items = kept
    outcome = await library.run(set_spec="maps")
    assert (outcome.evidence.resumed_at, outcome.verdict, staged(library)) == (20, "complete", 15)


async def test_a_replay_withdraws_no_deletions_that_were_found_later(library: Library) -> None:
    library.change_settings(keep_raw=True)
    held = await held_without_maps(library)
    with library.database.session() as session:
        given = HarvestRequest(repository_id=0)
        request = replay_request(session, library.settings, given, library.history()[0].history_id)
    outcome = await harvest(library.database, library.settings, request, stop=asyncio.Event())
    assert (outcome.counts["unchanged"], staged(library)) == (25, 12)
    await library.command("job", "release", str(held.history_id))
    assert len(library.living()) == 13


async def test_records_that_a_later_run_excludes_by_filters_stay_when_a_held_run_is_released(
    library: Library,
) -> None:
    rules = library.folder.parent / "filter.xml"
    rules.write_text("<filters match='any'><filter xpath='//nothing' regexp='x'/></filters>")
    held = await held_without_maps(library)
    library.fake.items[:12] = [newer(number) for number in range(12)]
    outcome = await library.run(filter_file=rules)
    assert (outcome.counts["filtered"], outcome.counts["records"], staged(library)) == (12, 12, 0)
    await library.command("job", "release", str(held.history_id))
    assert len(library.living()) == 25


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


async def test_an_approval_of_updates_is_valid_for_one_run_although_a_record_cannot_be_read(
    library: Library,
) -> None:
    library.change_settings(brake_updates=30, isolation_requests=0)
    await library.run()
    library.fake.fault = lambda _, good: good.replace(b"Title 24 ", b"\x01")
    library.fake.items[:20] = [newer(number) for number in range(20)]
    assert (await library.run(full=True)).status == "held"
    await library.command("job", "release", str(last_history(library).history_id))
    await library.run(harvest_from="2030-01-01")
    assert library.holds()[0].state == "released"
    outcome = await library.run(full=True)
    assert (outcome.verdict, outcome.counts["updated"], library.holds()[0].state) == ("partial", 20, "done")
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
        finds_disappeared=False, _before=10,
    )  # fmt: skip
    with pytest.raises(HeldRunError) if held else contextlib.nullcontext():
        guard.check_updates(nothing, updates, [])

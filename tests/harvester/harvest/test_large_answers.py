"""Answers of many megabytes: read in parts, resumed after a kill, and rejected beyond the named limits."""

import errno
import os
import signal
import tempfile
from io import FileIO
from pathlib import Path

import pytest
from sqlalchemy import select

from harvester.harvest.models import Quarantined
from harvester.models import Harvest, History
from harvester.store.disk_process import DiskProcess
from harvester.vocabulary import Level, Method
from oai.child import Companion
from oai.error_translation import as_zatva_error
from oai.errors import ExitCode
from tests.harvester.fake_repository import Item, many
from tests.harvester.killing import kill_where_it_stalls, stall
from tests.harvester.library import Library, facts_of

FILTERS = """<filters match="any"><selectionNamespaces>xmlns:dc='http://purl.org/dc/elements/1.1/'
</selectionNamespaces><filter xpath="//dc:title" regexp="^1[0-9][0-9] " invert="false" ignoreCase="true"/>
</filters>"""
LARGE = "x" * 20_000
COUNT = 600


def large_items(count: int = COUNT) -> list[Item]:
    """Return items that fill twelve megabytes."""
    return [
        Item(identifier=f"oai:fake.example:{number}", title=f"{number} {LARGE}") for number in range(count)
    ]


def history(library: Library) -> History:
    with library.database.session() as session:
        return session.scalars(select(History).order_by(History.history_id.desc())).all()[0]


def refused(library: Library) -> list[Quarantined]:
    with library.database.session() as session:
        return list(session.scalars(select(Quarantined)))


async def test_a_single_answer_with_all_records_is_stored_like_pages(library: Library) -> None:
    library.fake.items = large_items()
    library.fake.page_size = 50
    await library.run()
    by_pages = library.files()
    library.fake.page_size = COUNT
    library.fake.sizes = False
    outcome = await library.run(full=True)
    assert (outcome.verdict, outcome.status, outcome.failure_reason) == ("complete", "no changes", None)
    assert (outcome.counts["unchanged"], outcome.counts["pages"], outcome.warnings) == (COUNT, 1, ())
    assert library.files() == by_pages


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="only Linux has a device that is always full")
async def test_a_full_temporary_folder_is_not_reported_as_a_fault_of_the_repository(
    library: Library, monkeypatch: pytest.MonkeyPatch
) -> None:
    library.fake.items = large_items()
    library.fake.page_size = COUNT
    monkeypatch.setattr(tempfile, "TemporaryFile", lambda **_: FileIO("/dev/full", "r+"))
    with pytest.raises(OSError, match="No space left") as raised:
        await library.run()
    assert raised.value.errno == errno.ENOSPC
    folder = tempfile.gettempdir()
    assert str(as_zatva_error(raised.value)).startswith(f"{folder}: No space left on device; free some space")
    assert (history(library).status, history(library).failure_code) == ("failed", "disk_full")
    assert refused(library) == []
    assert len(library.fake.lists()) == 1


@pytest.mark.parametrize("validation", [Level.LOOSE, pytest.param(Level.STRICT, marks=pytest.mark.long)])
async def test_rules_are_applied_to_the_records_of_a_large_answer(
    library: Library, tmp_path: Path, validation: Level
) -> None:
    library.fake.items = large_items()
    library.fake.page_size = COUNT
    rules = tmp_path / "filters.xml"
    rules.write_text(FILTERS)
    outcome = await library.run(filter_file=rules, validation=validation)
    assert (outcome.verdict, outcome.counts["new"], outcome.counts["filtered"]) == ("complete", 100, 500)


@pytest.mark.parametrize(
    ("kind", "work", "items"),
    [
        pytest.param(Companion, "splits a large answer", large_items(), id="splitter"),
        pytest.param(DiskProcess, "writes the record files", many(COUNT), id="disk"),
    ],
)
async def test_a_killed_helper_process_ends_the_run_with_its_own_reason_and_the_next_run_resumes(
    library: Library, monkeypatch: pytest.MonkeyPatch, kind: type[Companion], work: str, items: list[Item]
) -> None:
    library.fake.items = items
    library.fake.page_size = COUNT
    send = Companion.send

    def killed(companion: Companion, *request: object) -> None:
        if type(companion) is kind:
            os.kill(companion.number, signal.SIGKILL)
        send(companion, *request)

    with monkeypatch.context() as patched:
        patched.setattr(Companion, "send", killed)
        outcome = await library.run()
    assert (outcome.status, outcome.exit_code) == ("failed", ExitCode.TRY_LATER)
    assert f"the process that {work} was ended by signal 9" in str(outcome.failure_reason)
    assert history(library).failure_code == "process_signalled"
    assert refused(library) == []
    outcome = await library.run()
    assert (outcome.status, outcome.verdict, len(library.files())) == ("completed", "complete", COUNT)


async def test_headers_of_a_large_list_are_fetched_one_by_one(library: Library) -> None:
    long = "y" * 900
    library.fake.items = [
        Item(identifier=f"oai:fake.example:{n}", sets=(long,) * 90 if n < 110 else ()) for n in range(130)
    ]
    library.fake.page_size = 200
    outcome = await library.run(method=Method.IDENTIFIERS)
    assert (outcome.verdict, outcome.counts["new"]) == ("complete", 130)


async def test_a_run_that_is_killed_within_a_large_answer_counts_each_record_once(library: Library) -> None:
    library.fake.items = large_items()
    library.fake.page_size = COUNT
    # Records before the first stall are committed after it, because they have waited long enough by then.
    stall(library, "INSERT ON oai_record", "new.identifier ~ '[^0-9]200$'", name="delay", seconds=1.2)
    stall(library, "INSERT ON oai_record", "new.identifier ~ '[^0-9]550$'")
    await kill_where_it_stalls(library, "oai_record", delay=1.5)
    state = _state(library)
    assert (0 < state["list"]["begun"] < COUNT, state["answer"]["marks"]) == (True, 0)
    outcome = await library.run()
    assert (outcome.verdict, outcome.counts["records"], outcome.counts["new"]) == ("complete", COUNT, COUNT)
    assert (outcome.counts["unchanged"], outcome.evidence.repeated) == (0, 0)
    assert library.audit()[0].clean


def _state(library: Library) -> dict[str, dict[str, int]]:
    """Return the saved position of the run within its large answer."""
    with library.database.session() as session:
        states = session.scalars(select(Harvest.run_state)).all()
    return next((state for state in states if state.get("answer")), {})


async def test_a_run_that_exceeds_a_limit_keeps_what_it_received_and_is_resumed(
    library: Library,
) -> None:
    library.fake.items[12] = Item(identifier="oai:fake.example:12", title="z" * 50_000)
    library.change_settings(max_answer_bytes=40_000)
    outcome = await library.run(validation=Level.STRICT)
    assert (outcome.verdict, outcome.status, outcome.exit_code) == (
        "partial",
        "incomplete",
        ExitCode.REMOTE_FAILED,
    )
    row = history(library)
    assert (row.failure_code, facts_of(row)) == (
        "answer_bytes", {"limit": 40_000, "setting": "harvester.max_answer_bytes"},
    )  # fmt: skip
    assert "raise harvester.max_answer_bytes" in str(row.failure_reason)
    assert len(library.files()) == 10
    library.change_settings(max_answer_bytes=10**8)
    outcome = await library.run(validation=Level.STRICT)
    assert (outcome.verdict, outcome.evidence.resumed_at, len(library.files())) == ("complete", 10, 25)


async def test_a_run_that_exceeds_a_limit_before_storing_any_record_fails(library: Library) -> None:
    library.change_settings(max_answer_bytes=2_000)
    outcome = await library.run(validation=Level.STRICT)
    assert (outcome.verdict, outcome.failure.code if outcome.failure else None) == ("failed", "answer_bytes")


async def test_a_record_beyond_a_limit_is_quarantined_with_its_code(library: Library) -> None:
    library.fake.items[12] = Item(identifier="oai:fake.example:12", metadata="<m>" + "<a/>" * 12_000 + "</m>")
    library.change_settings(max_part_elements=10_000)
    outcome = await library.run()
    assert (outcome.verdict, outcome.counts["new"], outcome.counts["invalid"]) == ("partial", 24, 1)
    (row,) = refused(library)
    assert (row.identifier, row.failure_code) == ("oai:fake.example:12", "part_elements")
    assert row.failure_facts is not None
    assert (row.failure_facts["limit"], row.failure_facts["setting"]) == (
        10_000,
        "harvester.max_part_elements",
    )
    library.change_settings(max_part_elements=20_000)
    outcome = await library.run(full=True)
    assert (outcome.verdict, outcome.counts["new"]) == ("complete", 1)


async def test_a_large_answer_that_needs_too_much_memory_ends_the_run(
    library: Library,
) -> None:
    library.fake.items = large_items()
    library.fake.items[3] = Item(
        identifier="oai:a:3", metadata="<m " + " ".join(f'a{n}=""' for n in range(1_500_000)) + "/>"
    )
    library.fake.page_size = COUNT
    library.change_settings(max_memory=64 * 1024**2)
    outcome = await library.run(validation=Level.STRICT)
    assert (outcome.verdict, outcome.failure.code if outcome.failure else None) == ("failed", "memory")
    assert "harvester.max_memory" in str(outcome.failure_reason)


async def test_a_server_whose_headers_exceed_the_limit_too_is_not_searched(library: Library) -> None:
    library.change_settings(max_answer_bytes=1_024)
    outcome = await library.run()
    assert (outcome.verdict, outcome.failure.code if outcome.failure else None) == ("failed", "answer_bytes")
    assert "verb=ListRecords" in str(outcome.failure_reason)
    assert len(library.fake.asked) < 10

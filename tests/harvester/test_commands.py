"""The commands and the harvest process, run as real processes."""

import asyncio
import json
import os
import signal
from collections.abc import AsyncIterator
from dataclasses import dataclass
from pathlib import Path
from subprocess import PIPE
from typing import Any

import pytest
from lxml import etree
from sqlalchemy import select, text

from harvester.models import Harvest, History, Repository
from oai.database import Database
from tests.commands import Process, zatva_beside
from tests.harvester.fake_repository import FakeRepository, Item, many, serve


@dataclass(frozen=True, kw_only=True)
class Ended:
    """A process that has ended."""

    code: int | None
    out: str
    err: str

    @property
    def json(self) -> dict[str, Any]:
        found: dict[str, Any] = json.loads(self.out.splitlines()[-1])
        return found


@pytest.fixture
async def fake() -> AsyncIterator[FakeRepository]:
    async with serve(FakeRepository(items=many(50), sets=["a", "b"])) as served:
        yield served


def start(environment: dict[str, str], module: str, *words: str) -> Process:
    return Process(environment, *words, module=module, stdout=PIPE, stderr=PIPE)


async def ended(process: Process) -> Ended:
    out, err = await asyncio.to_thread(process.communicate)
    return Ended(code=process.returncode, out=out, err=err)


async def run(environment: dict[str, str], *arguments: str) -> Ended:
    done = await zatva_beside(environment, *arguments)
    return Ended(code=done.returncode, out=done.stdout, err=done.stderr)


def stuck_at(fake: FakeRepository, token_begins: str) -> asyncio.Event:
    """Never answer the request for the page of the token; the event is set when it is requested."""
    reached = asyncio.Event()

    async def stick(asked: dict[str, str]) -> None:
        if asked.get("resumptionToken", "").startswith(token_begins):
            reached.set()
            await asyncio.sleep(3600)

    fake.before = stick
    return reached


async def test_odd_records_are_stored_with_warnings(
    fake: FakeRepository, environment: dict[str, str], tmp_path: Path
) -> None:
    bare = "<oai_dc:dc><dc:title>A</dc:title></oai_dc:dc>"
    wrong = bare.replace("dc:title", "dc:pages")
    fake.items = [
        Item(identifier="oai:a:undated", datestamp=""),
        Item(identifier="oai:a:bare", metadata=bare),
        Item(identifier="oai:a:invalid", metadata=wrong),
    ]
    done = await run(environment, "harvest", fake.url, "--out", str(tmp_path / "out"), "--json")
    assert done.code == 0, done.err
    assert (done.json["verdict"], done.json["new"], done.json["invalid"]) == ("complete", 3, 0)
    for words in (
        "records without a datestamp got the date of the answer: 1; the first: 'oai:a:undated'",
        "the prefix 'dc' is not declared; it is read as 'http://purl.org/dc/elements/1.1/'",
        "record 'oai:a:invalid' is not valid: line 2, element 'dc:pages': this element is not defined here",
        "stored although they break their XML Schema: 1 of 3 checked records",
    ):
        assert [text for text in done.json["warnings"] if words in text], done.json["warnings"]
    for path in (tmp_path / "out").rglob("*.xml"):
        etree.parse(path)


async def test_a_harvest_needs_no_preparation(
    fake: FakeRepository, environment: dict[str, str], tmp_path: Path
) -> None:
    done = await run(environment, "harvest", fake.url, "--out", str(tmp_path / "out"), "--json")
    assert done.code == 0, done.err
    wanted = {"verdict": "complete", "records": 50, "new": 50, "updated": 0, "unchanged": 0, "deleted": 0,
              "filtered": 0, "invalid": 0, "requests": 6, "status": "completed"}  # fmt: skip
    assert wanted.items() <= done.json.items()
    assert done.json["seconds"] > 0
    assert len(list((tmp_path / "out").rglob("*.xml"))) == 50
    again = await run(environment, "harvest", fake.url, "--out", str(tmp_path / "out"))
    assert again.code == 0
    assert again.out.startswith("No changes: 0 records")
    by_number = await run(environment, "harvest", str(done.json["repository_id"]), "--full", "--json")
    assert by_number.json["unchanged"] == 50


async def test_a_failed_strict_check_and_wrong_arguments_have_different_exit_codes(
    fake: FakeRepository, environment: dict[str, str], tmp_path: Path
) -> None:
    def harvest(*more: str) -> tuple[str, ...]:
        return ("harvest", fake.url, "--out", str(tmp_path / "out"), *more)

    fake.fault = lambda _, good: good.replace(b"Title 12 ", b"\x01")
    assert (await run(environment, *harvest("--validation", "strict"))).code == 5
    assert (await run(environment, *harvest("--from", "yesterday"))).code == 2
    assert (await run(environment, "harvest", "ftp://x/")).code == 2
    assert (await run(environment, "harvest", "12345")).code == 2


@pytest.mark.parametrize("number", [signal.SIGTERM, pytest.param(signal.SIGINT, marks=pytest.mark.long)])
async def test_a_signal_ends_the_process_with_a_history_row(
    fake: FakeRepository, environment: dict[str, str], database: Database, number: signal.Signals
) -> None:
    repository_id = _repository(database, fake.url)
    reached = stuck_at(fake, "20|")
    process = start(environment, "harvester", "--repository-id", str(repository_id), "--job-id", "5")
    await asyncio.wait_for(reached.wait(), 30)
    with database.session() as session:
        while (row := session.scalars(select(Harvest)).one()).counts.get("records") != 20:
            session.rollback()
            await asyncio.sleep(0.02)
        assert (row.job_id, row.process_id) == (5, process.pid)
    process.send_signal(number)
    assert (await ended(process)).code == 130
    with database.session() as session:
        history = session.scalars(select(History)).one()
        assert (history.status, history.verdict, history.job_id) == ("incomplete", "partial", 5)
        assert history.record_count == 20
        assert session.scalars(select(Harvest.resumption_token)).one() == "20|||"


async def test_a_second_signal_during_a_page_interrupts_the_harvest_at_once(
    fake: FakeRepository, environment: dict[str, str], database: Database
) -> None:
    reached = stuck_at(fake, "20|")
    process = start(environment, "harvester", "--repository-id", str(_repository(database, fake.url)))
    await asyncio.wait_for(reached.wait(), 30)
    process.terminate()
    assert process.stderr
    while "interrupt again" not in await asyncio.to_thread(process.stderr.readline):
        pass
    process.terminate()
    assert (await ended(process)).code == 130


async def test_a_signal_during_the_import_after_a_harvest_interrupts_only_the_import(
    fake: FakeRepository, environment: dict[str, str], database: Database
) -> None:
    repository_id = _repository(database, fake.url)
    with database.engine.begin() as connection:
        connection.execute(text("LOCK TABLE bibliographic_record IN ACCESS EXCLUSIVE MODE"))
        process = start(environment, "harvester", "--repository-id", str(repository_id))
        waiting = text("SELECT FROM pg_locks WHERE NOT granted AND relation = :table ::regclass")
        while not connection.execute(waiting, {"table": "bibliographic_record"}).rowcount:
            assert process.poll() is None
            await asyncio.sleep(0.02)
        process.terminate()
    done = await ended(process)
    assert (done.code, "interrupted after 0 records; the next import continues" in done.err) == (0, True)


async def test_the_process_ends_when_its_parent_ends(
    fake: FakeRepository, environment: dict[str, str], database: Database
) -> None:
    reached = stuck_at(fake, "20|")
    theirs, ours = os.pipe()
    with os.fdopen(theirs) as stdin:
        words = ("--repository-id", str(_repository(database, fake.url)), "--end-with-parent")
        process = Process(environment, *words, module="harvester", stdin=stdin, stdout=PIPE, stderr=PIPE)
    await asyncio.wait_for(reached.wait(), 30)
    os.close(ours)
    assert (await ended(process)).code == 130


async def test_the_process_accepts_the_parameters_of_the_uiuc_page(
    fake: FakeRepository, environment: dict[str, str], database: Database
) -> None:
    fake.items = [
        Item(
            identifier=f"oai:f:{number}",
            sets=("a" if number % 2 else "b",),
            datestamp=f"2024-01-{number + 1:02}T00:00:00Z",
        )
        for number in range(20)
    ]
    repository_id = _repository(database, fake.url)
    process = start(
        environment, "harvester",
        "--repository-id", str(repository_id), "--job-id", "3", "--recurring-id", "4",
        "--method", "1", "--set-spec", "a", "--harvest-from", "2024-01-05", "--harvest-to", "2024-01-12",
        "--metadata-prefix", "oai_dc", "--validation", "0", "--no-parse-id", "--files-per-dir", "3", "--json",
    )  # fmt: skip
    done = await ended(process)
    assert done.code == 0, done.err
    with database.session() as session:
        history = session.scalars(select(History)).one()
        assert (history.record_count, history.job_id, history.recurring_id, history.harvest_method) == (
            4,
            3,
            4,
            1,
        )
    store = Path(environment["ZATVA_DATA"]) / "store" / "fake"
    found = {path.relative_to(store).as_posix() for path in store.rglob("*.xml")}
    assert found == {f"oai%3Af%3A{number}.xml" for number in (5, 7, 9)} | {"starting_at_3/oai%3Af%3A11.xml"}


async def test_repositories_are_added_listed_shown_refreshed_and_removed(
    fake: FakeRepository, environment: dict[str, str]
) -> None:
    added = await run(environment, "repository", "add", fake.url, "--json")
    assert added.code == 0, added.err
    number = str(added.json["repository_id"])
    facts = {"repository_name": "Fake", "base_dir": "127.0.0.1", "sets": 2, "formats": ["oai_dc"]}
    assert facts.items() <= added.json.items()
    assert "Fake" in (await run(environment, "repository", "list")).out
    fake.sets = ["a", "b", "c"]
    assert (await run(environment, "repository", "refresh", number, "--json")).json["sets"] == 3
    assert (await run(environment, "repository", "show", number, "--json")).json["base_url"] == fake.url
    assert (await run(environment, "repository", "remove", number)).code == 0
    assert (await run(environment, "repository", "show", number)).code == 2


async def test_lists_that_were_never_read_are_shown_as_unknown(
    fake: FakeRepository, environment: dict[str, str], database: Database
) -> None:
    number = str(_repository(database, fake.url))
    fake.sets = [f"s{i:02}" for i in range(12)]
    unread = f"not known yet; run `zatva repository refresh {number}`"
    shown = (await run(environment, "repository", "show", number)).out
    assert f"formats: {unread}\nsets: {unread}\n" in shown
    assert "examination" not in shown
    await run(environment, "repository", "refresh", number)
    shown = (await run(environment, "repository", "show", number)).out
    assert "formats: oai_dc\nsets: 12\n  s00" in shown
    assert "\n  s09" in shown
    assert "s10" not in shown
    assert "\n  … and 2 more\n" in shown


async def test_a_repository_is_added_despite_faults_of_its_lists_which_delete_no_known_entries(
    fake: FakeRepository, environment: dict[str, str]
) -> None:
    faulty = {"ListMetadataFormats"}
    fake.fault = lambda asked, body: (500, {}, b"") if asked["verb"] in faulty else body
    added = await run(environment, "repository", "add", fake.url, "--json")
    assert (added.json["sets"], added.json["formats"]) == (2, [])
    assert "its list of metadata formats cannot be read: " in added.err
    number = str(added.json["repository_id"])
    faulty.clear()
    await run(environment, "repository", "refresh", number)

    faulty.update({"ListMetadataFormats", "ListSets"})
    kept = await run(environment, "repository", "refresh", number, "--json")
    assert (kept.json["sets"], kept.json["formats"]) == (2, ["oai_dc"])
    assert "its list of sets cannot be read: " in kept.err


@pytest.mark.parametrize(
    ("url", "words"),
    [
        ("http://no-such-host.invalid/oai", "host name is not known"),
        ("http://127.0.0.1:1/oai", "does not accept connections"),
        ("nonsense", "not a valid base URL"),
    ],
)
async def test_an_address_that_cannot_be_added_is_reported_with_the_reason(
    environment: dict[str, str], url: str, words: str
) -> None:
    refused = await run(environment, "repository", "add", url)
    assert refused.code in {2, 4}
    assert words in refused.err
    assert "Traceback" not in refused.err


async def test_two_harvests_of_two_repositories_run_side_by_side(
    fake: FakeRepository, environment: dict[str, str], tmp_path: Path
) -> None:
    names = ("one", "two")
    processes = [
        start(environment, "zatva", "harvest", fake.url, "--out", str(tmp_path / name), "--json")
        for name in names
    ]
    results = [await ended(process) for process in processes]
    assert [result.json["records"] for result in results] == [50, 50]
    assert len({result.json["repository_id"] for result in results}) == 2


def _repository(database: Database, url: str) -> int:
    with database.session() as session:
        repository = Repository(base_url=url, base_dir="fake")
        session.add(repository)
        session.commit()
        return repository.repository_id

"""`zatva harvest` with stored raw answers, replays and the client's options, run as a real process."""

import asyncio
import itertools
import signal
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
from sqlalchemy import select

from harvester.models import Harvest, History
from oai.database import Database
from tests.harvester.client.raw_server import RawServer, reply, serve_raw
from tests.harvester.documentation import examples
from tests.harvester.fake_repository import FakeRepository, many, serve
from tests.harvester.test_commands import ended, run, start, stuck_at

_FILTERS = """<filters match="any"><selectionNamespaces>xmlns:dc='http://purl.org/dc/elements/1.1/'
</selectionNamespaces><filter xpath="//dc:title" regexp="Title [0-4] " invert="false" ignoreCase="true"/>
</filters>"""

_MAPPINGS = """<normalize><selectionNamespaces>xmlns:dc='http://purl.org/dc/elements/1.1/'</selectionNamespaces>
<mapping xpath="//dc:title"><newElement name="dc:subject" regexp="Title" ignoreCase="true">
<newValue>Titles</newValue></newElement></mapping></normalize>"""


@pytest.fixture
async def fake() -> AsyncIterator[FakeRepository]:
    async with serve(FakeRepository(items=many(50))) as served:
        yield served


async def test_a_run_is_stored_and_replayed_with_other_rules(
    fake: FakeRepository, environment: dict[str, str], tmp_path: Path
) -> None:
    out = tmp_path / "out"
    rules = tmp_path / "filters.xml"
    rules.write_text(_FILTERS)
    kept = await run(
        environment,
        "harvest",
        fake.url,
        "--out",
        str(out),
        "--keep-raw",
        "--filter",
        str(rules),
        "--json",
    )
    assert kept.code == 0, kept.err
    assert (kept.json["new"], kept.json["filtered"]) == (5, 45)
    assert (Path(environment["ZATVA_DATA"]) / kept.json["raw_path"]).is_file()
    asked = len(fake.asked)
    replayed = await run(environment, "harvest", "--replay", "1", "--json")
    assert replayed.code == 0, replayed.err
    assert (replayed.json["new"], replayed.json["unchanged"], replayed.json["raw_path"]) == (45, 5, None)
    assert len(list(out.rglob("*.xml"))) == 50
    assert len(fake.asked) == asked


async def test_a_killed_run_leaves_a_file_that_is_replayed_together_with_the_next_one(
    fake: FakeRepository, environment: dict[str, str], database: Database, tmp_path: Path
) -> None:
    command = ("harvest", fake.url, "--out", str(tmp_path / "out"), "--keep-raw", "--json")
    reached = stuck_at(fake, "30|")
    process = start(environment, "zatva", *command)
    await asyncio.wait_for(reached.wait(), 30)
    with database.session() as session:
        while (session.scalars(select(Harvest.resumption_token)).one_or_none() or "")[:3] != "30|":
            session.rollback()
            await asyncio.sleep(0.02)
    process.send_signal(signal.SIGKILL)
    await ended(process)
    fake.before = None
    resumed = await run(environment, *command)
    assert (resumed.code, resumed.json["resumed_at"]) == (0, 30), resumed.err
    with database.session() as session:
        last = session.scalars(select(History.history_id).order_by(History.history_id.desc())).first()
    replayed = await run(environment, "harvest", "--replay", str(last), "--json")
    assert replayed.code == 0, replayed.err
    assert (replayed.json["records"], replayed.json["unchanged"]) == (50, 50)
    assert len(list((Path(environment["ZATVA_DATA"]) / "raw").rglob("*.warc.gz"))) == 2


async def test_a_run_that_cannot_be_replayed_is_reported(
    fake: FakeRepository, environment: dict[str, str], tmp_path: Path
) -> None:
    assert (await run(environment, "harvest", fake.url, "--out", str(tmp_path / "out"))).code == 0
    for arguments, words in (
        (("--replay", "1"), "run 1 has no stored answers"),
        (("--replay", "99"), "no run 99;"),
        ((fake.url, "--replay", "1"), "leave out URL|ID and --out"),
        ((), "give the base URL"),
    ):
        refused = await run(environment, "harvest", *arguments)
        assert refused.code == 2
        assert words in refused.err


async def test_the_clients_options_are_obeyed(
    environment: dict[str, str], fake: FakeRepository, tmp_path: Path
) -> None:
    def harvest(url: str, *more: str) -> tuple[str, ...]:
        return ("harvest", url, "--out", str(tmp_path / url.split(":")[2][:5]), *more)

    busy = RawServer(answer=lambda _: reply(b"", "Retry-After: 30", status="503 Busy"))
    async with serve_raw(busy):
        done = await run(environment, *harvest(busy.url, "--max-wait", "5", "--user-agent", "Somebody/1"))
    assert (done.code, len(busy.asked)) == (75, 1)
    assert "User-Agent: Somebody/1\r\n" in busy.asked[0]
    broken = RawServer(answer=lambda _: reply(b"", status="500 Broken"))
    async with serve_raw(broken):
        assert (await run(environment, *harvest(broken.url, "--retries", "0"))).code == 4
    silent = RawServer(answer=lambda _: b"HTTP/1.1 200 OK\r\n", hold=True)
    async with serve_raw(silent):
        assert (await run(environment, *harvest(silent.url, "--retries", "0", "--timeout", "0.2"))).code == 4
    wrong = await run(environment, *harvest(fake.url, "--delay", "-1"))
    assert wrong.code == 2
    assert "--delay: '-1'" in wrong.err


async def test_the_delay_passes_between_requests(
    environment: dict[str, str], fake: FakeRepository, tmp_path: Path
) -> None:
    times: list[float] = []

    async def note(_: dict[str, str]) -> None:
        times.append(asyncio.get_running_loop().time())

    fake.before, fake.page_size = note, 25
    done = await run(environment, "harvest", fake.url, "--out", str(tmp_path / "out"), "--delay", "0.2")
    assert done.code == 0, done.err
    assert len(times) == 3
    assert all(later - earlier > 0.19 for earlier, later in itertools.pairwise(times))


async def test_the_commands_in_the_documentation_of_raw_answers_work(
    fake: FakeRepository, environment: dict[str, str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "filters.xml").write_text(_FILTERS)
    (tmp_path / "normalise.xml").write_text(_MAPPINGS)
    for example in examples("how-to/keep-raw-answers.md", "console"):
        command = example.code.replace("https://repository.example/oai", fake.url)
        done = await run(environment, *command.removeprefix("$ zatva ").split())
        assert done.code == 0, done.err
    assert len(list((tmp_path / "records").rglob("*.xml"))) == 50

"""A new address becomes a repository with its first answer; without an answer, no rows are stored."""

import asyncio
import json
import signal
import socket
from collections.abc import AsyncIterator
from pathlib import Path
from subprocess import PIPE
from typing import Any

import pytest
from sqlalchemy import func, select

from harvester.models import Harvest, History, Repository
from oai.database import Database
from tests.commands import Done, Process, zatva_beside
from tests.harvester.client.raw_server import RawServer, serve_raw
from tests.harvester.fake_repository import FakeRepository, many, serve
from tests.ports import free_port

UNKNOWN = "no-such-host.invalid"
NOTHING = {"repositories": 0, "runs": 0, "checkpoints": 0}


@pytest.fixture
async def fake() -> AsyncIterator[FakeRepository]:
    async with serve(FakeRepository(items=many(15))) as served:
        yield served


@pytest.fixture
async def mute() -> AsyncIterator[RawServer]:
    """Serve an address that closes each connection without a byte."""
    async with serve_raw(RawServer(answer=lambda _: b"")) as server:
        yield server


def kept(database: Database) -> dict[str, int | None]:
    with database.session() as session:

        def count(table: type[Any]) -> int | None:
            return session.scalar(select(func.count()).select_from(table))

        return {"repositories": count(Repository), "runs": count(History), "checkpoints": count(Harvest)}


def result(done: Done) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(done.stdout)
    return found


@pytest.fixture
def _name_server() -> None:
    """Skip if no name server can say that a name is unknown."""
    try:
        socket.getaddrinfo(UNKNOWN, 80)
    except socket.gaierror as error:
        if error.errno == socket.EAI_AGAIN:
            pytest.skip("no name server answers here")


@pytest.mark.usefixtures("_name_server")
async def test_an_unknown_host_is_reported_at_once_and_no_rows_are_stored(
    environment: dict[str, str], database: Database
) -> None:
    done = await zatva_beside(environment, "harvest", f"http://{UNKNOWN}/oai")
    assert done.returncode == 4
    (line,) = done.stderr.splitlines()
    assert line.startswith(f"zatva: http://{UNKNOWN}/oai?verb=Identify: the host name is not known")
    assert kept(database) == NOTHING


async def test_if_a_server_sends_no_answer_no_rows_are_stored_after_all_attempts(
    mute: RawServer, environment: dict[str, str], database: Database, tmp_path: Path
) -> None:
    words = ("harvest", mute.url, "--retries", "2", "--out", str(tmp_path / "out"), "--json")
    done = await zatva_beside(environment, *words)
    assert done.returncode == 4
    assert done.stderr.count("waiting") == 2
    printed = result(done)
    assert {
        "status": "failed",
        "verdict": "failed",
        "repository_id": None,
        "history_id": None,
    }.items() <= printed.items()
    assert mute.url in printed["failure_reason"]
    assert kept(database) == NOTHING
    assert not (tmp_path / "out").exists()


async def test_if_the_port_accepts_no_connections_no_rows_are_stored(
    environment: dict[str, str], database: Database
) -> None:
    done = await zatva_beside(environment, "harvest", f"http://127.0.0.1:{free_port()}/oai", "--retries", "0")
    assert (done.returncode, "does not accept connections" in done.stderr) == (4, True)
    assert done.stdout.startswith("Failed: no answer")
    assert kept(database) == NOTHING


@pytest.mark.parametrize("by_number", [True, False])
async def test_a_repository_that_was_known_stays_and_the_run_is_in_its_history(
    environment: dict[str, str], database: Database, *, by_number: bool
) -> None:
    url = f"http://127.0.0.1:{free_port()}/oai"
    with database.session() as session:
        session.add(Repository(base_url=url, base_dir="known"))
        session.commit()
    named = "1" if by_number else url
    done = await zatva_beside(environment, "harvest", named, "--retries", "0", "--json")
    assert (done.returncode, result(done)["repository_id"]) == (4, 1)
    assert kept(database) == {"repositories": 1, "runs": 1, "checkpoints": 0}


@pytest.mark.parametrize(
    ("answer", "code"),
    [
        ((404, {}, b"gone"), 4),
        ((503, {"Retry-After": "999999"}, b""), 75),
        ((200, {"Content-Type": "text/html"}, b"<html><body>Welcome</body></html>"), 4),
    ],
)
async def test_any_answer_adds_the_repository_and_is_in_its_history(
    fake: FakeRepository,
    environment: dict[str, str],
    database: Database,
    answer: tuple[int, dict[str, str], bytes],
    code: int,
) -> None:
    fake.fault = lambda _asked, _good: answer
    done = await zatva_beside(environment, "harvest", fake.url, "--retries", "0")
    assert done.returncode == code, done.stderr
    assert ("HTTP status 404" in done.stderr) == (answer[0] == 404)
    found = kept(database)
    assert (found["repositories"], found["runs"]) == (1, 1)


async def test_the_first_answer_is_not_requested_twice_and_is_stored_with_the_others(
    fake: FakeRepository, environment: dict[str, str]
) -> None:
    done = result(await zatva_beside(environment, "harvest", fake.url, "--keep-raw", "--json"))
    asked = [one["verb"] for one in fake.asked]
    assert asked.count("Identify") == 1
    assert (done["requests"], done["records"]) == (len(asked), 15)
    assert done["raw_path"]
    again = result(await zatva_beside(environment, "harvest", "--replay", str(done["history_id"]), "--json"))
    assert (again["verdict"], again["records"], len(fake.asked)) == ("complete", 15, len(asked))


async def test_a_busy_first_answer_counts_as_a_try_of_the_harvest(
    fake: FakeRepository, environment: dict[str, str]
) -> None:
    def busy_at_first(_asked: dict[str, str], good: bytes) -> tuple[int, dict[str, str], bytes] | bytes:
        return (503, {"Retry-After": "0"}, b"") if len(fake.asked) == 1 else good

    fake.fault = busy_at_first
    done = result(await zatva_beside(environment, "harvest", fake.url, "--json"))
    assert (done["verdict"], done["records"]) == ("complete", 15)
    assert [one["verb"] for one in fake.asked].count("Identify") == 2


async def test_impossible_requests_are_reported_before_any_request_is_sent(
    fake: FakeRepository, environment: dict[str, str], database: Database, tmp_path: Path
) -> None:
    resumed = await zatva_beside(environment, "harvest", fake.url, "--resume")
    assert (resumed.returncode, "no interrupted harvest" in resumed.stderr) == (2, True)
    assert (kept(database), fake.asked) == (NOTHING, [])
    with database.session() as session:
        session.add(Repository(base_url="http://other.example/oai", base_dir=str(tmp_path / "out")))
        session.commit()
    taken = await zatva_beside(environment, "harvest", fake.url, "--out", str(tmp_path / "out"))
    assert (taken.returncode, "already belongs to repository 1" in taken.stderr) == (2, True)
    assert "choose another" in taken.stderr
    assert fake.asked == []


async def test_if_interrupted_before_the_first_answer_no_rows_are_stored(
    fake: FakeRepository, environment: dict[str, str], database: Database
) -> None:
    reached = asyncio.Event()

    async def stick(_: dict[str, str]) -> None:
        reached.set()
        await asyncio.sleep(3600)

    fake.before = stick
    process = Process(environment, "harvest", fake.url, stderr=PIPE)
    await asyncio.wait_for(reached.wait(), 60)
    process.send_signal(signal.SIGINT)
    _, errors = await asyncio.to_thread(process.communicate)
    assert (process.returncode, errors) == (130, "interrupted\n")
    assert kept(database) == NOTHING

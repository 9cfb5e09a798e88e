"""Commands that plan harvests, show their faults, and run concurrently, run as real processes."""

import asyncio
import json
import os
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import func, select

from harvester.harvest.quarantine import get_quarantined
from harvester.harvest.result import get_history
from harvester.models import Harvest, History, Repository
from oai.database import Database
from oai.errors import UsageError
from tests.commands import zatva_beside
from tests.harvester.fake_repository import FakeRepository, many, serve
from tests.harvester.test_commands import ended, start


async def run(environment: dict[str, str], *arguments: str) -> tuple[int, str, str]:
    done = await zatva_beside(environment, *arguments)
    return done.returncode, done.stdout, done.stderr


def objects(out: str) -> list[dict[str, Any]]:
    return [json.loads(line) for line in out.splitlines()]


@pytest.fixture
async def fake() -> AsyncIterator[FakeRepository]:
    async with serve(FakeRepository(items=many(50))) as served:
        yield served


async def test_a_dry_run_of_a_new_repository_requests_only_identify(
    fake: FakeRepository, environment: dict[str, str], database: Database, tmp_path: Path
) -> None:
    out = ("--out", str(tmp_path / "out"))
    code, printed, err = await run(environment, "harvest", fake.url, *out, "--dry-run")
    assert (code, err) == (0, "")
    assert "the beginning, because there is no complete harvest of this format and set" in printed
    assert "working around faults: at most 1,800 seconds (harvester.max_recovery_seconds)" in printed
    assert [asked["verb"] for asked in fake.asked] == ["Identify"]
    with database.session() as session:
        assert session.scalar(select(func.count()).select_from(Repository)) == 0
    assert not (tmp_path / "out").exists()


async def test_a_dry_run_of_a_known_repository_sends_no_request(
    fake: FakeRepository, environment: dict[str, str], tmp_path: Path
) -> None:
    out = ("--out", str(tmp_path / "out"))
    await run(environment, "harvest", fake.url, *out)
    fake.asked.clear()
    code, printed, _ = await run(
        environment, "harvest", fake.url, *out, "--dry-run", "--slice", "month", "--json"
    )
    assert (code, fake.asked) == (0, [])
    (planned,) = objects(printed)
    assert planned["from"]
    assert planned["max_recovery_seconds"] == 1800
    assert "less 60 seconds" in planned["why"]


async def test_errors_are_listed_with_their_bytes(
    fake: FakeRepository, environment: dict[str, str], database: Database, tmp_path: Path
) -> None:
    fake.fault = lambda _, good: good.replace(b"Title 12 ", b"<oops ")
    code, printed, _ = await run(environment, "harvest", fake.url, "--out", str(tmp_path / "out"), "--json")
    assert code == 3
    assert (objects(printed)[-1]["invalid"], objects(printed)[-1]["history_id"]) == (1, 1)
    _, listed, _ = await run(environment, "job", "errors", "--json")
    (error,) = objects(listed)
    assert error["identifier"] == "oai:fake.example:12"
    number = str(error["quarantine_id"])
    _, raw, _ = await run(environment, "job", "errors", "--raw", number)
    assert "<oops " in raw
    assert len(raw.encode()) == error["raw_size"]
    _, words, _ = await run(environment, "job", "errors", str(error["history_id"]))
    assert "oai:fake.example:12" in words
    code, _, err = await run(environment, "job", "errors", "--repository", "999")
    assert (code, "no repository 999" in err) == (2, True)
    with database.session() as session:
        with pytest.raises(UsageError, match="no run 999;"):
            get_history(session, 999)
        with pytest.raises(UsageError, match="no rejected record 999"):
            get_quarantined(session, 999)


async def test_a_long_wait_is_remembered_until_it_is_ignored_and_resume_continues_the_run(
    fake: FakeRepository, environment: dict[str, str], tmp_path: Path
) -> None:
    harvest = ("harvest", fake.url, "--out", str(tmp_path / "out"))
    fake.fault = lambda asked, _: (503, {"Retry-After": "3600"}, b"") if "resumptionToken" in asked else None
    assert (await run(environment, *harvest, "--max-wait", "1"))[0] == 75
    fake.fault = None
    fake.asked.clear()
    code, _, err = await run(environment, *harvest)
    assert (code, fake.asked) == (75, [])
    assert "asked to wait until" in err
    assert (await run(environment, *harvest, "--resume", "--ignore-wait"))[0] == 0
    assert "resumptionToken" in fake.lists()[0]
    assert (await run(environment, *harvest))[0] == 0


async def test_the_process_accepts_slices(
    fake: FakeRepository, environment: dict[str, str], tmp_path: Path
) -> None:
    await run(environment, "repository", "add", fake.url, str(tmp_path / "out"))
    process = start(
        environment, "harvester", "--repository-id", "1", "--slice", "month", "--json",
        "--harvest-from", "2023-11-01", "--harvest-to", "2024-01-31",
    )  # fmt: skip
    done = await ended(process)
    assert (done.code, done.json["new"]) == (0, 50)
    assert len([asked for asked in fake.lists() if "resumptionToken" not in asked]) == 3


async def test_warnings_survive_a_kill_and_are_reported_by_the_next_run(
    fake: FakeRepository, environment: dict[str, str], database: Database, tmp_path: Path
) -> None:
    reached = asyncio.Event()

    async def stick(asked: dict[str, str]) -> None:
        if asked.get("resumptionToken", "").startswith("30"):
            reached.set()
            await asyncio.sleep(3600)

    fake.before = stick
    fake.fault = lambda _, good: good.replace(b"Title 12 ", b"<oops ")
    harvest = ("harvest", fake.url, "--out", str(tmp_path / "out"))
    process = start(environment, "zatva", *harvest)
    await asyncio.wait_for(reached.wait(), 30)
    while True:
        with database.session() as session:
            row = session.scalars(select(Harvest)).one_or_none()
            if row is not None and (row.resumption_token or "").startswith("30"):
                break
        await asyncio.sleep(0.05)
    assert (row.counts["records"], row.counts["invalid"]) == (29, 1)
    assert row.records_per_second
    assert row.estimated_end is not None
    process.kill()
    await ended(process)
    fake.before = None
    asked = len(fake.lists())
    assert (await run(environment, *harvest))[0] == 3
    assert len(fake.lists()) == asked + 2
    assert len([path for path in (tmp_path / "out").rglob("*") if path.is_file()]) == 49
    with database.session() as session:
        (history,) = session.scalars(select(History)).all()
    assert "oai:fake.example:12" in history.warnings[0]
    assert "ended without an outcome after 29 records in 3 pages" in history.evidence["lost"]
    assert history.evidence["resumed_at"] == 29


async def test_two_concurrent_harvests_share_one_embedded_database(tmp_path: Path) -> None:
    data = {name: value for name, value in os.environ.items() if not name.startswith("ZATVA_")}
    data["ZATVA_DATA"] = str(tmp_path / "data")
    async with (
        serve(FakeRepository(items=many(40))) as first,
        serve(FakeRepository(items=many(40))) as second,
    ):
        ended = await asyncio.gather(
            *(
                run(data, "harvest", one.url, "--out", str(tmp_path / str(number)), "--json")
                for number, one in enumerate((first, second))
            )
        )
    assert [code for code, _, _ in ended] == [0, 0], [err for _, _, err in ended]
    assert {objects(out)[-1]["new"] for _, out, _ in ended} == {40}
    for number in range(2):
        assert len(list((tmp_path / str(number)).rglob("*.xml"))) == 40

"""Harvest processes are killed at random moments and restarted until one completes."""

import asyncio
import json
import random
import subprocess
import tempfile
from collections.abc import Mapping
from pathlib import Path

import pytest
from sqlalchemy import select

from harvester.models import Record, Repository
from oai.database import Database
from tests.commands import Process
from tests.harvester.hostile.scenario import known
from tests.harvester.hostile.server import Hostile, served

_RECORDS = 300
_SECONDS_EACH = 0.03
_START_UP = 0.1
"""Approximate seconds that a forked process needs before its first request."""
_PATIENCE = 120.0


async def _harvest(
    url: str, folder: Path, environment: Mapping[str, str], *, kill_after: float | None
) -> str:
    """Run `zatva harvest`; return its output, or an empty string if it was killed."""
    with tempfile.TemporaryFile("w+") as printed:
        process = Process(environment, "harvest", url, "--out", str(folder), "--json", stdout=printed)
        try:
            await asyncio.to_thread(process.wait, kill_after or _PATIENCE)
        except subprocess.TimeoutExpired:
            process.kill()
            await asyncio.to_thread(process.wait)
            return ""
        printed.seek(0)
        return printed.read()


def _files(folder: Path) -> dict[str, bytes]:
    return {
        path.relative_to(folder).as_posix(): path.read_bytes() for path in folder.rglob("*") if path.is_file()
    }


def _rows(database: Database, folder: Path) -> list[tuple[str, str | None, str, bytes | None]]:
    with database.session() as session:
        found = session.execute(
            select(Record.identifier, Record.filename, Record.datestamp, Record.digest)
            .join(Repository, Repository.repository_id == Record.repository_id)
            .where(Repository.base_dir == str(folder))
            .order_by(Record.identifier)
        )
        return [(row.identifier, row.filename, row.datestamp, row.digest) for row in found]


async def test_a_harvest_killed_at_any_moment_ends_with_the_same_files_and_rows(
    database: Database, environment: dict[str, str], tmp_path: Path, pytestconfig: pytest.Config
) -> None:
    kills_left = 100 if pytestconfig.getoption("--long") else 3
    chance = random.Random(2024)
    killed, calm = tmp_path / "killed", tmp_path / "calm"
    async with served(Hostile(items=known(_RECORDS), page_size=10, seconds_each=_SECONDS_EACH)) as hostile:
        printed = ""
        while not printed:
            moment = _START_UP + chance.random() if kills_left else None
            printed = await _harvest(hostile.url, killed, environment, kill_after=moment)
            kills_left -= not printed
        assert json.loads(printed)["verdict"] == "complete"
        assert (
            json.loads(await _harvest(hostile.url, calm, environment, kill_after=None))["records"] == _RECORDS
        )
    assert _files(killed) == _files(calm)
    assert len(_files(calm)) == _RECORDS
    assert _rows(database, killed) == _rows(database, calm)

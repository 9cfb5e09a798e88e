"""What a harvest reports when its database fails."""

import json
from collections.abc import AsyncIterator

import pytest
from sqlalchemy import select, text

from harvester.models import History, Repository
from oai.database import Database
from tests.commands import zatva_beside
from tests.harvester.fake_repository import FakeRepository, many, serve


@pytest.fixture
async def fake() -> AsyncIterator[FakeRepository]:
    async with serve(FakeRepository(items=many(50))) as served:
        yield served


@pytest.mark.parametrize(
    ("trouble", "message"),
    [
        (
            "RAISE EXCEPTION USING ERRCODE = '53100', MESSAGE = 'no space left on device'",
            "no space left on device; free space on the database's disk",
        ),
        (
            "PERFORM pg_terminate_backend(pg_backend_pid())",
            "terminating connection due to administrator command; check that the server is running",
        ),
    ],
)
async def test_a_database_failure_is_reported_and_the_harvest_resumes_once_the_database_works(
    fake: FakeRepository, environment: dict[str, str], database: Database, trouble: str, message: str
) -> None:
    with database.session() as session:
        session.add(Repository(base_url=fake.url, base_dir="fake"))
        session.execute(
            text(
                "CREATE FUNCTION fail() RETURNS trigger LANGUAGE plpgsql AS"
                f" $$ BEGIN IF NEW.identifier LIKE '%30' THEN {trouble}; END IF; RETURN NEW; END $$"
            )
        )
        session.execute(
            text("CREATE TRIGGER t BEFORE INSERT ON oai_record FOR EACH ROW EXECUTE FUNCTION fail()")
        )
        session.commit()
    failed = await zatva_beside(environment, "harvest", "1")
    assert (failed.returncode, message in failed.stderr) == (6, True), failed.stderr
    assert ("Traceback" in failed.stderr, "INSERT" in failed.stderr) == (False, False)
    with database.session() as session:
        row = session.scalars(select(History)).one()
        assert (row.status, str(row.failure_reason).startswith(f"database: {message}")) == ("failed", True)
        session.execute(text("DROP TRIGGER t ON oai_record"))
        session.commit()
    done = await zatva_beside(environment, "harvest", "1", "--json")
    assert {"verdict": "complete", "records": 50}.items() <= json.loads(done.stdout).items()

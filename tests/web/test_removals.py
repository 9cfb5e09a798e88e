"""Large repositories are removed in the background, and are not shown meanwhile."""

import asyncio

import pytest
from aiohttp import web
from sqlalchemy import text

from harvester.models import Repository
from harvester.removal import begin_removal
from tests.web.conftest import Browser, Server
from tests.web.rows import a_repository
from web.app import create_app
from web.site.keys import DATABASE

_RECORD = """
INSERT INTO oai_record (repository_id, identifier, identifier_key, datestamp, metadata_prefix)
VALUES (1, 'oai:a', CAST(md5('oai:a') AS uuid), '2024-01-01', 'oai_dc')
"""


@pytest.fixture
def repository(server: Server) -> int:
    """A repository with one record."""
    with server.database.session() as session:
        number = a_repository(session).repository_id
        session.execute(text(_RECORD))
        session.commit()
    return number


async def _until_gone(server: Server, number: int) -> None:
    async with asyncio.timeout(30):
        while True:
            with server.database.session() as session:
                if session.get(Repository, number) is None:
                    return
            await asyncio.sleep(0.05)


async def test_a_removal_beyond_the_time_of_a_page_continues_in_the_background(
    server: Server, administrator: Browser, repository: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    for module in ("pages", "selected"):
        monkeypatch.setattr(f"web.repositories.{module}.PAGE_SECONDS", 0.1)
    path = f"/repositories/{repository}"
    with server.database.session() as session:
        session.execute(text("SELECT FROM oai_record FOR UPDATE"))  # which the removal waits for

        assert (await administrator.post(f"{path}/remove"))[::2] == (
            303,
            "/repositories?done=repository-being-removed",
        )
        form = {"repository": [str(repository)], "sure": "yes"}
        assert (await administrator.post("/repositories/selected/remove", form))[::2] == (
            303,
            "/repositories?done=repositories-being-removed",
        )
        _, page = await administrator.get("/repositories?done=repository-being-removed")
        session.rollback()

    assert "its removal continues in the background" in page
    assert ">being removed<" in page
    await _until_gone(server, repository)


async def test_a_repository_that_is_being_removed_is_not_shown_and_can_be_removed_again(
    server: Server, administrator: Browser, repository: int
) -> None:
    with server.database.session() as session:
        begin_removal(session, repository)
        session.commit()
    path = f"/repositories/{repository}"
    for shown in (path, f"{path}/records", f"{path}/records.csv", f"/api/v1{path}/records"):
        status, page = await administrator.get(shown)
        assert (status, "is being removed" in page) == (409, True), shown
    status, answer = await administrator.get(f"/api/v1{path}")
    assert status == 200
    assert '"holder":"zatva repository remove"' in answer
    assert (await administrator.get(f"{path}/remove"))[0] == 200
    assert (await administrator.post(f"{path}/remove"))[2] == "/repositories?done=repository-removed"
    assert (await administrator.get(path))[0] == 404


async def test_a_starting_dashboard_completes_interrupted_removals(server: Server, repository: int) -> None:
    with server.database.session() as session:
        begin_removal(session, repository)
        session.commit()
    runner = web.AppRunner(create_app(server.settings, server.database))
    await runner.setup()
    await _until_gone(server, repository)
    await runner.cleanup()


async def test_the_api_answers_once_the_repository_is_removed(
    server: Server, administrator: Browser, repository: int
) -> None:
    headers = {"X-CSRF-Token": await administrator.token()}
    address = f"{server.base_url}/api/v1/repositories/{repository}"
    with server.database.session() as session:
        session.execute(text("SELECT FROM oai_record FOR UPDATE"))
        deleting = asyncio.create_task(_delete(administrator, address, headers))
        await asyncio.sleep(0.2)
        assert not deleting.done()
        session.rollback()
    assert await deleting == 204
    assert await _delete(administrator, address, headers) == 404


async def _delete(who: Browser, address: str, headers: dict[str, str]) -> int:
    async with who.http.delete(address, headers=headers) as answer:
        return answer.status


@pytest.mark.parametrize(
    ("statement", "status", "said"),
    [
        (
            "SET LOCAL statement_timeout = 1; SELECT pg_sleep(9)",
            503,
            "database takes longer over this than the dashboard may",
        ),
        (
            "DO $$ BEGIN RAISE EXCEPTION 'index row too long' USING ERRCODE = '54000'; END $$",
            500,
            "An internal error occurred in Zatva",
        ),
    ],
)
@pytest.mark.parametrize("path", ["/repositories", "/api/v1/repositories"])
async def test_an_error_that_would_recur_has_no_retry_after_header(
    server: Server, administrator: Browser, path: str, statement: str, status: int, said: str,
    monkeypatch: pytest.MonkeyPatch,
) -> None:  # fmt: skip
    await administrator.get("/account")
    executor = server.app[DATABASE]
    run = executor.run

    async def failing(work: object, *given: object, **named: object) -> object:
        if getattr(work, "__name__", "") in {"list_repositories", "find_repositories"}:
            await run(lambda session: session.execute(text(statement)))
        return await run(work, *given, **named)  # type: ignore[arg-type]  # as the caller gave it

    monkeypatch.setattr(executor, "run", failing)
    async with administrator.http.get(server.base_url + path) as answer:
        assert answer.status == status
        assert "Retry-After" not in answer.headers
        words = await answer.text()
    assert said in words
    assert "not responding" not in words

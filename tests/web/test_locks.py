"""A lock of a repository is shown on its page and in the API; an administrator clears it."""

from datetime import UTC, datetime

import pytest
from sqlalchemy import text

from harvester.models import RepositoryLock
from tests.web.conftest import Browser, Server
from tests.web.rows import a_repository

_UNTIL = datetime(2050, 1, 1, tzinfo=UTC)


@pytest.fixture
def locked(server: Server) -> str:
    """The path of a locked repository."""
    with server.database.session() as session:
        number = a_repository(session).repository_id
        session.add(
            RepositoryLock(repository_id=number, holder="<xpat>", reason="builds & loads", expires=_UNTIL)
        )
        session.commit()
    return f"/repositories/{number}"


async def test_the_page_shows_a_lock_and_an_administrator_clears_it(
    locked: str, server: Server, administrator: Browser, viewer: Browser, curator: Browser
) -> None:
    _, page = await viewer.get(locked)
    assert "locked by &lt;xpat&gt; until" in page
    assert "builds &amp; loads" in page
    assert f"{locked}/unlock" not in page
    assert (await curator.post(f"{locked}/unlock"))[0] == 403
    assert f'action="{locked}/unlock"' in (await administrator.get(locked))[1]
    assert (await administrator.post(f"{locked}/unlock"))[0::2] == (303, f"{locked}?done=repository-unlocked")
    assert "locked by" not in (await viewer.get(locked))[1]
    assert (await administrator.post(f"{locked}/unlock"))[0] == 409
    with server.database.session() as session:
        query = "SELECT after FROM web_audit WHERE action = 'repository.unlock' AND status = 303"
        assert session.execute(text(query)).scalar_one() == {"cleared": ["<xpat>"]}


async def test_the_api_lists_a_lock_and_an_administrator_clears_it(
    locked: str, server: Server, administrator: Browser
) -> None:
    http, base = administrator.http, server.base_url + "/api/v1"
    for path in ("/repositories", locked):
        async with http.get(base + path) as answer:
            found = await answer.json()
        lock = (found["items"][0] if "items" in found else found)["lock"]
        assert (lock["holder"], lock["reason"]) == ("<xpat>", "builds & loads")
        assert datetime.fromisoformat(lock["expires"]) == _UNTIL
    headers = {"X-CSRF-Token": await administrator.token()}
    for status in (204, 409):
        async with http.delete(f"{base}{locked}/lock", headers=headers) as answer:
            assert answer.status == status
    async with http.get(base + locked) as answer:
        assert (await answer.json())["lock"] is None

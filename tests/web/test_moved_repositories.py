"""A new base URL of a repository is checked before it is saved."""

import pytest

from harvester.models import Repository
from oai.audit import AuditEntry
from tests.web.conftest import Browser, Server
from tests.web.repository import repository
from tests.web.rows import a_repository

_SETTINGS = "/repositories/1/settings"
_NOT_SAVED = "The new address does not answer as a repository. It has not been saved."
_ANYWAY = '<button name="do" value="save-anyway">Save anyway</button>'


@pytest.fixture
def telc(server: Server) -> Server:
    """A repository whose settings are changed."""
    with server.database.session() as session:
        a_repository(session, name="Old name")
        session.commit()
    return server


async def _save(who: Browser, base_url: str, **more: str) -> tuple[int, str, str | None]:
    form = {"repository_name": "", "base_url": base_url, "deletion_policy": "mark", **more}
    return await who.post(_SETTINGS, form)


def _row(server: Server) -> Repository:
    with server.database.session() as session:
        return session.get_one(Repository, 1)


async def test_a_new_address_that_answers_is_saved_with_the_details_of_the_repository_there(
    telc: Server, administrator: Browser
) -> None:
    async with repository() as address:
        for typed in (f"{address}/oai", f"{address}/oai".removeprefix("http://")):
            with telc.database.session() as session:
                session.get_one(Repository, 1).base_url = "https://telc.example/oai"
                session.commit()
            _, page, target = await _save(administrator, typed)

            assert target == "/repositories/1?done=repository-moved", page
            row = _row(telc)
            assert (row.base_url, row.deletion_policy) == (f"{address}/oai", "mark"), typed
            assert row.admin_email == "librarian@telc.example"


async def test_a_new_address_without_a_repository_is_saved_only_on_request(
    telc: Server, administrator: Browser
) -> None:
    async with repository() as address:
        status, page, _ = await _save(administrator, f"{address}/home")
        kept = _row(telc).base_url
        _, _, target = await _save(administrator, f"{address}/home", do="save-anyway")

        assert (status, kept) == (422, "https://telc.example/oai")
        for text in (
            _NOT_SAVED,
            "The server answered, but not with OAI-PMH.",
            "/home?verb=Identify: ",
            _ANYWAY,
        ):
            assert text in page
        assert f'value="{address}/home"' in page
        assert target == "/repositories/1?done=repository-moved"
        assert _row(telc).base_url == f"{address}/home"
    with telc.database.session() as session:
        assert session.query(AuditEntry).filter(AuditEntry.action == "repository.edit").count() == 1


@pytest.mark.usefixtures("telc")
async def test_the_address_of_a_site_is_replaced_by_that_of_its_repository_before_it_is_saved(
    administrator: Browser,
) -> None:
    async with repository() as address:
        status, page, _ = await _save(administrator, f"{address}/")
        _, _, target = await _save(administrator, f"{address}/oai")

        assert (status, target) == (422, "/repositories/1?done=repository-moved")
        assert f"A repository answers at {address}/oai. Check this address below, and save it." in page
        assert f'value="{address}/oai"' in page
        assert _ANYWAY in page


async def test_an_incomplete_address_cannot_be_saved_unasked(telc: Server, administrator: Browser) -> None:
    status, page, _ = await _save(administrator, "telc.example/oai", do="save-anyway")

    assert (status, 'id="base_url-fault"' in page) == (422, True)
    assert _row(telc).base_url == "https://telc.example/oai"


async def test_settings_without_a_new_address_are_saved_without_a_request(
    telc: Server, administrator: Browser
) -> None:
    asked: list[bool] = []
    async with repository(lambda: asked.append(True)) as address:
        with telc.database.session() as session:
            session.get_one(Repository, 1).base_url = f"{address}/oai"
            session.commit()
        _, _, target = await _save(administrator, f"{address}/oai")

    assert (target, asked) == ("/repositories/1?done=repository-changed", [])


async def test_the_entry_of_a_move_omits_what_others_changed_while_the_address_was_asked(
    telc: Server, administrator: Browser
) -> None:
    def somebody_else() -> None:
        with telc.database.session() as session:
            session.get_one(Repository, 1).repairs = ["ampersand"]
            session.commit()

    async with repository(somebody_else) as address:
        await _save(administrator, f"{address}/oai")

    with telc.database.session() as session:
        entry = session.query(AuditEntry).filter(AuditEntry.action == "repository.edit").one()
        assert entry.before is not None
        assert entry.before["repairs"] == ["ampersand"], "as this form overwrote it"

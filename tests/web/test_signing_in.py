import logging
from datetime import timedelta

import pytest
from sqlalchemy import func, select, update

from oai.database import Database
from oai.errors import UsageError
from oai.settings import Settings
from tests.web.conftest import Browser, Server
from web.auth.sign_in import make_link, use_link
from web.auth.users import add_user, find_user
from web.models import Role, SignInLink, User, UserSession


def test_a_link_signs_its_user_in_once(database: Database, settings: Settings) -> None:
    with database.session() as session:
        user = add_user(session, "Alena", Role.ADMINISTRATOR)
        token = make_link(session, settings, "Alena", "http://zatva.example/").partition("token=")[2]

        used = use_link(session, token)
        assert used is not None
        assert used.user_id == user.user_id
        assert use_link(session, token) is None


def test_sign_in_tokens_are_stored_as_hashes(database: Database, settings: Settings) -> None:
    with database.session() as session:
        add_user(session, "Alena")
        token = make_link(session, settings, "Alena", "http://zatva.example").partition("token=")[2]
        session.flush()

        kept = session.scalars(select(SignInLink.token_hash)).one()

    assert len(token) >= 43
    assert token.encode() not in kept


def test_an_expired_link_does_not_sign_in(database: Database, settings: Settings) -> None:
    with database.session() as session:
        add_user(session, "Alena")
        token = make_link(session, settings, "Alena", "http://zatva.example").partition("token=")[2]
        session.execute(update(SignInLink).values(expires=func.now() - timedelta(seconds=1)))

        assert use_link(session, token) is None


def test_a_link_for_an_unknown_user_is_refused_unless_it_may_create_the_user(
    database: Database, settings: Settings
) -> None:
    with database.session() as session:
        with pytest.raises(UsageError, match="no user 'Eva'"):
            make_link(session, settings, "Eva", "http://zatva.example")

        make_link(session, settings, "Eva", "http://zatva.example", create_administrator=True)

        made = find_user(session, "Eva")
        assert made is not None
        assert made.role == Role.ADMINISTRATOR


def test_user_names_are_unique(database: Database) -> None:
    with database.session() as session:
        add_user(session, "Alena")

        with pytest.raises(UsageError, match="already"):
            add_user(session, " Alena ")


async def test_opening_a_link_does_not_use_it_up(server: Server, stranger: Browser) -> None:
    link = server.link("Alena")

    for _ in range(2):
        status, text = await stranger.get(link.removeprefix(server.base_url))
        assert status == 200
        assert "works once" in text

    await stranger.sign_in(link)
    assert (await stranger.get("/"))[0] == 200


async def test_a_used_link_is_explained(server: Server, stranger: Browser) -> None:
    link = server.link("Alena")
    await stranger.sign_in(link)

    status, text = await stranger.get(link.removeprefix(server.base_url))

    assert status == 410
    assert "is no longer valid" in text


async def test_signing_in_again_replaces_the_session(server: Server, administrator: Browser) -> None:
    before = _hashes(server)

    await administrator.sign_in(server.link("Viktor"))

    assert len(_hashes(server)) == 1
    assert _hashes(server) != before
    assert "Viktor" in (await administrator.get("/account"))[1]


async def test_signing_out_ends_the_session_on_the_server(server: Server, administrator: Browser) -> None:
    status, _, target = await administrator.post("/sign-out")

    assert (status, target) == (303, "/sign-in?done=signed-out")
    assert _hashes(server) == set()
    assert (await administrator.get("/"))[0] == 303


@pytest.mark.parametrize("path", ["/sign-out", "/account/sessions/end"])
async def test_signing_out_clears_the_browser(server: Server, administrator: Browser, path: str) -> None:
    form = {"csrf_token": await administrator.token()}
    url = server.base_url + path
    async with administrator.http.post(url, data=form, allow_redirects=False) as answer:
        assert answer.headers["Clear-Site-Data"] == '"cache", "storage"'


async def test_an_expired_session_is_not_accepted(server: Server, administrator: Browser) -> None:
    with server.database.session() as session:
        session.execute(update(UserSession).values(expires=func.now() - timedelta(seconds=1)))
        session.commit()

    assert (await administrator.get("/"))[0] == 303


async def test_a_deleted_user_is_signed_out(server: Server, administrator: Browser) -> None:
    with server.database.session() as session:
        session.delete(session.scalars(select(User).where(User.name == "Alena")).one())
        session.commit()

    assert (await administrator.get("/"))[0] == 303


async def test_the_session_cookie_is_http_only_and_same_site(server: Server, stranger: Browser) -> None:
    link = server.link("Alena")
    path = link.removeprefix(server.base_url)
    data = {"csrf_token": await stranger.token(path), "token": path.partition("token=")[2]}

    async with stranger.http.post(server.base_url + "/sign-in", data=data, allow_redirects=False) as answer:
        cookie = answer.cookies["zatva_session"]

    assert cookie["httponly"]
    assert cookie["samesite"] == "Lax"
    assert cookie["path"] == "/"
    assert not cookie["secure"]


def _hashes(server: Server) -> set[bytes]:
    with server.database.session() as session:
        return set(session.scalars(select(UserSession.token_hash)))


async def test_a_form_with_a_wrong_content_encoding_is_refused_without_an_error_in_the_log(
    stranger: Browser, caplog: pytest.LogCaptureFixture
) -> None:
    headers = {"Content-Encoding": "gzip", "Content-Type": "application/x-www-form-urlencoded"}
    # The body is sent once the server asks for it, so that reading it fails in the handler.
    async with stranger.http.post(
        f"{stranger.base_url}/sign-in", data=b"abcd", headers=headers, expect100=True
    ) as answer:
        assert answer.status == 400
        assert "The form could not be read" in await answer.text()
    assert [record.getMessage() for record in caplog.records if record.levelno >= logging.ERROR] == []

from datetime import timedelta

import aiohttp
import pytest
from argon2 import PasswordHasher
from sqlalchemy import func, select, update
from sqlalchemy.orm import Session

from oai.audit import AuditEntry
from oai.database import Database
from oai.errors import UsageError
from oai.settings import Settings
from tests.web.conftest import Browser, Server
from web.auth.attempts import attempt, place_of, succeeded
from web.auth.passwords import check_password, hash_password, password_fits
from web.auth.users import disable_user, find_user, set_password
from web.models import SignInAttempt, UserSession
from web.site import i18n
from web.site.keys import SETTINGS

_PASSWORD = "correct horse battery staple"


@pytest.fixture
def alenas_password(server: Server, quick_hasher: PasswordHasher) -> str:
    with server.database.session() as session:
        user = find_user(session, "Alena")
        assert user is not None
        set_password(session, user.user_id, quick_hasher.hash(_PASSWORD))
        session.commit()
    return _PASSWORD


async def _try(browser: Browser, name: str, password: str, **more: str) -> tuple[int, str, str]:
    form = {"name": name, "password": password, **more}
    return await browser.post("/sign-in", form, token=await browser.token("/sign-in"))


def test_a_password_is_stored_as_an_argon2_hash() -> None:
    kept = hash_password(_PASSWORD, least=12, user_name="Alena")

    assert kept.startswith("$argon2id$")
    assert password_fits(kept, _PASSWORD)
    assert not password_fits(kept, _PASSWORD + "x")
    assert not password_fits(None, "nobody has this password")


@pytest.mark.parametrize(
    "password",
    ["short", "aaaaaaaaaaaaaaaa", "alena-alena-alena", "x" * 1001, "password1234", "zatvazatva123"],
)
def test_weak_passwords_are_refused(password: str) -> None:
    with pytest.raises(UsageError, match="password"):
        hash_password(password, least=12, user_name="alena-alena-alena")


def test_the_error_about_a_short_password_is_in_czech() -> None:
    i18n.use_language("cs")
    try:
        with pytest.raises(UsageError, match="Heslo má 3 znaky;"):
            check_password("abc", least=15, user_name="Olga")
    finally:
        i18n.use_language("en")


async def test_a_password_signs_its_user_in(stranger: Browser, alenas_password: str) -> None:
    status, _, target = await _try(stranger, "Alena", alenas_password)

    assert (status, target) == (303, "/")
    assert (await stranger.get("/"))[0] == 200


async def test_a_failed_sign_in_has_the_same_message_for_known_and_unknown_users(
    server: Server, stranger: Browser, alenas_password: str
) -> None:
    for number, name in enumerate(("Alena", "Nobody", "Viktor"), start=1):
        status, page, _ = await _try(stranger, name, "wrong" + alenas_password)

        assert status == 422, name
        assert "Wrong user name or password" in page, name
        with server.database.session() as session:
            assert session.scalars(select(AuditEntry.action)).all() == ["sign-in.refused"] * number


async def test_the_sign_in_redirects_only_to_pages_of_the_dashboard(
    stranger: Browser, alenas_password: str
) -> None:
    for wanted, got in (
        ("/runs?before=9", "/runs?before=9"),
        ("//evil.example", "/"),
        ("https://evil.example", "/"),
        ("/\\evil.example", "/"),
    ):
        assert (await _try(stranger, "Alena", alenas_password, next=wanted))[2] == got, wanted
        stranger.http.cookie_jar.clear()


async def test_the_sign_in_remembers_the_requested_page(stranger: Browser) -> None:
    async with stranger.http.get(stranger.base_url + "/runs?repository=1", allow_redirects=False) as answer:
        target = answer.headers["Location"]
    _, page = await stranger.get(target)

    assert 'name="next" value="/runs?repository=1"' in page


async def test_after_too_many_attempts_even_the_right_password_has_to_wait(
    server: Server, stranger: Browser, alenas_password: str
) -> None:
    tries = server.app[SETTINGS].web.sign_in_tries
    for _ in range(tries):
        assert (await _try(stranger, "Alena", "wrong password"))[0] == 422

    token = await stranger.token("/sign-in")
    data = {"csrf_token": token, "name": "Alena", "password": alenas_password}
    async with stranger.http.post(stranger.base_url + "/sign-in", data=data) as answer:
        assert answer.status == 429
        assert 1 <= int(answer.headers["Retry-After"]) <= 15 * 60

    with server.database.session() as session:
        session.execute(update(SignInAttempt).values(at=func.now() - timedelta(minutes=16)))
        session.commit()
    assert (await _try(stranger, "Alena", alenas_password))[0] == 303


async def test_guesses_of_the_current_password_in_a_session_are_limited(
    server: Server, administrator: Browser, alenas_password: str
) -> None:
    await administrator.sign_in(server.link("Alena"))
    form = {"password": "another long password", "again": "another long password"}
    for _ in range(server.app[SETTINGS].web.sign_in_tries):
        await administrator.post("/account/password", {**form, "current": "wrong password"})

    status, page, _ = await administrator.post("/account/password", {**form, "current": alenas_password})

    assert status == 422
    assert "Too many attempts." in page


def _at(session: Session, address: str) -> str:
    return place_of(session, address=address, browser=None)


def test_attempts_are_counted_per_user_and_address_and_per_address(
    database: Database, settings: Settings
) -> None:
    web = settings.web.model_copy(update={"sign_in_tries": 2, "sign_in_tries_per_address": 4})
    with database.session() as session:
        place, other = _at(session, "192.0.2.1"), _at(session, "192.0.2.2")
        for name in ("a", " A ", "b", "c"):
            assert attempt(session, web, place=place, user_name=name) is None
        assert attempt(session, web, place=place, user_name="a"), "the user was tried twice"
        assert attempt(session, web, place=place, user_name="d"), "the address made four attempts"
        assert attempt(session, web, place=other, user_name="a") is None, "no name is locked by itself"
        succeeded(session, place=place, user_name="a")
        assert attempt(session, web, place=place, user_name="a") is None
        assert attempt(session, web, place=place, user_name="a") is None
        assert attempt(session, web, place=place, user_name="b"), "the attempts for other users stay"


def test_an_ipv6_network_counts_as_one_address(database: Database, settings: Settings) -> None:
    web = settings.web.model_copy(update={"sign_in_tries_per_address": 1})
    with database.session() as session:
        assert attempt(session, web, place=_at(session, "2001:db8::1"), user_name="a") is None
        assert attempt(session, web, place=_at(session, "2001:db8::2"), user_name="b")
        assert attempt(session, web, place=_at(session, "2001:db8:0:1::2"), user_name="b") is None


async def test_a_new_password_signs_other_browsers_out(
    server: Server, administrator: Browser, stranger: Browser, alenas_password: str
) -> None:
    await administrator.sign_in(server.link("Alena"))
    await _try(stranger, "Alena", alenas_password)
    form = {"current": alenas_password, "password": _PASSWORD + "!", "again": _PASSWORD + "!"}

    assert (await stranger.post("/account/password", {**form, "current": "x"}))[0] == 422
    assert (await stranger.post("/account/password", {**form, "again": "x"}))[0] == 422
    assert (await stranger.post("/account/password", form))[0] == 303

    assert (await stranger.get("/"))[0] == 200
    assert (await administrator.get("/"))[0] == 303


async def test_a_user_ends_one_session_or_all_sessions(
    server: Server, administrator: Browser, stranger: Browser
) -> None:
    await stranger.sign_in(server.link("Alena"))
    _, page = await administrator.get("/account")
    mark = page.partition('name="mark" value="')[2].partition('"')[0]

    assert (await administrator.post("/account/sessions/end", {"mark": mark}))[0] == 303
    assert (await stranger.get("/"))[0] == 303
    assert (await administrator.get("/"))[0] == 200

    status, _, target = await administrator.post("/account/sessions/end")
    assert (status, target) == (303, "/sign-in?done=signed-out-everywhere")
    assert (await administrator.get("/"))[0] == 303


async def _proxied(server: Server, name: str, *, remote: str = "127.0.0.1") -> tuple[int, str]:
    settings = server.app[SETTINGS]
    believed = {"trusted_proxies": (f"{remote}/32",), "proxy_user_header": "X-Remote-User"}
    # Settings are read once; these tests alone change them under a running application.
    server.app._state[SETTINGS] = settings.model_copy(  # noqa: SLF001
        update={"web": settings.web.model_copy(update=believed)}
    )
    headers = {"X-Remote-User": name, "X-Forwarded-For": "203.0.113.7"}
    jar = aiohttp.CookieJar(unsafe=True)
    async with (
        aiohttp.ClientSession(cookie_jar=jar) as http,
        http.get(server.base_url + "/account", headers=headers, allow_redirects=False) as answer,
    ):
        text = await answer.text()
        if answer.status == 200:
            async with http.get(server.base_url + "/account", allow_redirects=False) as without:
                assert without.status == 303, "the session goes with the proxy's word"
        return answer.status, text


async def test_a_trusted_proxy_names_the_user(server: Server) -> None:
    status, page = await _proxied(server, "Viktor")

    assert status == 200
    assert "Viktor" in page
    assert "203.0.113.7" in page


async def test_an_unknown_user_of_a_proxy_is_refused_with_the_name(server: Server) -> None:
    status, page = await _proxied(server, "Eva")

    assert status == 403
    assert "Eva" in page


async def test_sign_ins_at_a_proxy_are_recorded_once_and_refused_ones_counted(server: Server) -> None:
    with server.database.session() as session:
        karel = find_user(session, "Karel")
        assert karel is not None
        number = str(disable_user(session, karel.user_id).user_id)
        session.commit()
    for name in ("Viktor", "Viktor", "Eva", "Eva", "Karel"):
        await _proxied(server, name)

    with server.database.session() as session:
        entries = session.scalars(select(AuditEntry).order_by(AuditEntry.audit_id)).all()
        found = [(one.action, one.user_name, one.status, one.count) for one in entries]
    assert found == [
        ("sign-in", "Viktor", 303, 1),
        ("sign-in.refused", "Eva", 403, 2),
        ("sign-in.refused", "Karel", 403, 1),
    ]
    assert [one.object_id for one in entries[1:]] == [None, number]
    assert {(one.via, one.address) for one in entries} == {("proxy", "203.0.113.7")}


async def test_requests_of_a_proxys_user_without_cookies_share_a_session(
    server: Server, stranger: Browser
) -> None:
    for _number in range(3):
        assert (await _proxied(server, "Viktor"))[0] == 200
    headers = {"X-Remote-User": "Viktor", "X-Forwarded-For": "203.0.113.7"}
    for _number in range(3):
        async with stranger.http.get(server.base_url + "/account", headers=headers) as answer:
            assert answer.status == 200, "a browser whose session a request without cookie has continued"
        await _proxied(server, "Viktor")

    with server.database.session() as session:
        assert len(session.scalars(select(UserSession)).all()) == 2


async def test_the_user_header_of_an_untrusted_address_is_ignored(server: Server, stranger: Browser) -> None:
    assert (await _proxied(server, "Viktor", remote="192.0.2.1"))[0] == 303
    headers = {"X-Remote-User": "Viktor"}
    async with stranger.http.get(server.base_url + "/", headers=headers, allow_redirects=False) as answer:
        assert answer.status == 303

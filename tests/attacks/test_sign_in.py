"""Sign-in: guessed passwords, lockouts of users, forged headers, stolen and abandoned sessions."""

import asyncio
import itertools
import threading
from datetime import timedelta

import aiohttp
import pytest
from argon2 import PasswordHasher
from sqlalchemy import delete, func, select, update

from oai.audit import AuditEntry
from oai.datestamps import utc_now
from tests.web.conftest import Browser, Server, browser_of
from web.auth.users import get_user, set_password
from web.models import SignInLink, UserSession
from web.site.keys import SETTINGS

_PASSWORD = "correct horse battery staple"
_GUESS = "correct horse battery stable"


@pytest.fixture
def password(server: Server, quick_hasher: PasswordHasher) -> str:
    """The password of Alena and of Olga."""
    with server.database.session() as session:
        for name in ("Alena", "Olga"):
            set_password(session, get_user(session, name).user_id, quick_hasher.hash(_PASSWORD))
        session.commit()
    return _PASSWORD


def _set(server: Server, **web: object) -> None:
    # Settings are read once; tests alone change them under a running application.
    settings = server.app[SETTINGS]
    changed = settings.model_copy(update={"web": settings.web.model_copy(update=web)})
    server.app._state[SETTINGS] = changed  # noqa: SLF001


async def _try(browser: Browser, name: str, password: str, address: str | None = None) -> int:
    data = {"csrf_token": await browser.token("/sign-in"), "name": name, "password": password}
    headers = {"X-Forwarded-For": address} if address else {}
    url = browser.base_url + "/sign-in"
    async with browser.http.post(url, data=data, headers=headers, allow_redirects=False) as answer:
        return answer.status


async def test_strangers_cannot_lock_out_a_user_whose_name_they_know(
    server: Server, stranger: Browser, password: str
) -> None:
    tries = server.settings.web.sign_in_tries
    for _number in range(tries):
        assert await _try(stranger, "Alena", _GUESS, "198.51.100.7") == 422
    assert await _try(stranger, "Alena", password, "198.51.100.7") == 429

    async with browser_of(server) as victim:
        assert await _try(victim, "Alena", password, "203.0.113.9") == 303

    with server.database.session() as session:
        limited = select(AuditEntry).where(AuditEntry.action == "sign-in.limited")
        entry = session.scalars(limited).one()
        assert (entry.user_name, entry.object_kind, entry.object_name) == ("Alena", "user", "Alena")


async def test_known_browsers_can_sign_in_behind_a_proxy_that_is_not_trusted(
    server: Server, stranger: Browser, password: str
) -> None:
    """All requests then have one address, and strangers soon exceed its limit."""
    _set(server, sign_in_tries_per_address=4)
    async with browser_of(server) as known, browser_of(server) as unknown:
        assert await _try(known, "Olga", password) == 303
        await known.post("/sign-out")
        for number in range(4):
            await _try(stranger, f"guess{number}", _GUESS)

        assert await _try(stranger, "Olga", password) == 429
        assert await _try(unknown, "Olga", password) == 429
        assert await _try(known, "Alena", password) == 429, "it is known for Olga alone"
        assert await _try(known, "Olga", _GUESS) == 422, "a known browser still has to know the password"
        assert await _try(known, "Olga", password) == 303


class _SlowHasher:
    """Verifies the right password immediately; wrong ones wait until `released`."""

    def __init__(self, quick: PasswordHasher) -> None:
        self._quick, self.released = quick, threading.Event()

    def verify(self, kept: str, password: str) -> bool:
        if password != _PASSWORD:
            self.released.wait()
        return self._quick.verify(kept, password)


async def test_attempts_of_strangers_use_one_thread_and_do_not_delay_known_browsers(
    server: Server, monkeypatch: pytest.MonkeyPatch, password: str, quick_hasher: PasswordHasher
) -> None:
    async with browser_of(server) as known, browser_of(server) as stranger:
        assert await _try(known, "Olga", password) == 303
        await known.post("/sign-out")
        slow = _SlowHasher(quick_hasher)
        monkeypatch.setattr("web.auth.passwords.hasher", lambda: slow)
        await stranger.token("/sign-in")
        attempts = [
            asyncio.create_task(_try(stranger, f"guess{number}", _GUESS, "198.51.100.7"))
            for number in range(8)
        ]
        try:
            first = [await one for one in itertools.islice(asyncio.as_completed(attempts), 3)]
            assert await _try(known, "Olga", password) == 303
        finally:
            slow.released.set()

        assert first == [429] * 3
        assert sorted(await asyncio.gather(*attempts)) == [422] * 5 + [429] * 3
    with server.database.session() as session:
        limited = select(AuditEntry.count).where(AuditEntry.action == "sign-in.limited")
        # Refusals that are counted at the same time may get separate entries.
        assert sum(session.scalars(limited)) == 3


async def test_a_successful_sign_in_does_not_reset_attempts_at_other_users(
    server: Server, stranger: Browser, password: str
) -> None:
    tries = server.settings.web.sign_in_tries
    for _number in range(tries - 1):
        await _try(stranger, "Alena", _GUESS)
    async with browser_of(server) as accomplice:
        assert await _try(accomplice, "Olga", password) == 303

    assert await _try(stranger, "Alena", _GUESS) == 422
    assert await _try(stranger, "Alena", password) == 429


@pytest.mark.parametrize("proxies", [(), ("192.0.2.10",)])
async def test_the_user_header_is_ignored_unless_its_sender_is_a_trusted_proxy(
    server: Server, proxies: tuple[str, ...]
) -> None:
    """Any process on this machine could send it; only X-Forwarded-For is accepted from local senders."""
    _set(server, trusted_proxies=proxies, proxy_user_header="X-Remote-User")
    headers = {"X-Remote-User": "Alena", "X-Forwarded-For": "192.0.2.10"}
    async with (
        aiohttp.ClientSession() as http,
        http.get(server.base_url + "/account", headers=headers, allow_redirects=False) as answer,
    ):
        assert answer.status == 303
        assert answer.headers["Location"].startswith("/sign-in")


_FORWARDED = {
    "203.0.113.9": "203.0.113.9",
    "203.0.113.9:51234": "203.0.113.9",
    '"[2001:db8::1]:443"': "2001:db8::1",
    "198.51.100.1, 203.0.113.9": "203.0.113.9",
    "198.51.100.1, 127.0.0.1": "198.51.100.1",
}


async def test_the_audit_log_names_the_address_that_the_proxy_saw(server: Server, stranger: Browser) -> None:
    for number, (header, noted) in enumerate(_FORWARDED.items()):
        assert await _try(stranger, f"Nobody{number}", _GUESS, header) == 422, header

        with server.database.session() as session:
            assert session.scalars(select(AuditEntry.address)).one() == noted
            session.execute(delete(AuditEntry))  # refusals share an entry
            session.commit()


async def test_an_idle_session_ends_and_event_streams_do_not_extend_it(
    server: Server, administrator: Browser
) -> None:
    def idle(**time: float) -> None:
        with server.database.session() as session:
            session.execute(update(UserSession).values(idle_until=func.now() + timedelta(**time)))
            session.commit()

    idle(minutes=5)
    assert (await administrator.get("/repositories"))[0] == 200
    with server.database.session() as session:
        until = session.scalars(select(UserSession.idle_until)).one()
    assert until > utc_now() + timedelta(minutes=server.settings.web.idle_minutes - 1), (
        "a request postpones it"
    )

    idle(minutes=5)
    async with administrator.http.get(server.base_url + "/events?topics=jobs") as stream:
        assert stream.status == 200
    with server.database.session() as session:
        assert session.scalars(select(UserSession.idle_until)).one() < utc_now() + timedelta(minutes=6)

    idle(seconds=-1)
    status, _page, target = await administrator.post("/account/language", {"language": "cs"}, token="x")
    assert (status, target) == (303, "/sign-in")


async def test_an_active_session_ends_at_its_maximum_age(server: Server, administrator: Browser) -> None:
    with server.database.session() as session:
        session.execute(update(UserSession).values(expires=func.now() - timedelta(seconds=1)))
        session.commit()

    assert (await administrator.get("/repositories"))[0] == 303


async def test_a_new_password_and_disabling_a_user_invalidate_sign_in_links(
    server: Server, administrator: Browser, quick_hasher: PasswordHasher
) -> None:
    older = server.link("Olga")
    with server.database.session() as session:
        olga = get_user(session, "Olga").user_id
        set_password(session, olga, quick_hasher.hash(_PASSWORD))
        session.commit()
    second = server.link("Olga")
    assert (await administrator.post(f"/admin/users/{olga}/disable"))[0] == 303
    assert (await administrator.post(f"/admin/users/{olga}/enable"))[0] == 303

    async with browser_of(server) as thief:
        for link in (older, second):
            assert (await thief.get(link.removeprefix(server.base_url)))[0] == 410
    with server.database.session() as session:
        assert session.scalars(select(SignInLink).where(SignInLink.user_id == olga)).all() == []


async def test_a_user_who_signs_in_by_link_without_a_password_is_asked_to_set_one(
    server: Server, stranger: Browser, quick_hasher: PasswordHasher
) -> None:
    async def signed_in() -> str:
        path = server.link("Olga").removeprefix(server.base_url)
        form = {"token": path.partition("token=")[2]}
        status, page, target = await stranger.post("/sign-in", form, token=await stranger.token(path))
        assert status == 303, page
        return target

    first = await signed_in()
    assert "You have no password yet" in (await stranger.get(first))[1]
    await stranger.post("/sign-out")
    with server.database.session() as session:
        set_password(session, get_user(session, "Olga").user_id, quick_hasher.hash(_PASSWORD))
        session.commit()
    assert await signed_in() == "/"


_STEPS = (
    ("GET", "/admin/users/new"),
    ("POST", "/admin/users/new"),
    ("POST", "/admin/users/3"),
    ("POST", "/admin/users/3/link"),
    ("POST", "/admin/users/3/invite"),
    ("POST", "/admin/users/3/second-factor"),
    ("POST", "/account/password"),
    ("POST", "/account/tokens"),
    ("GET", "/account/second-factor"),
    ("POST", "/account/second-factor/enable"),
    ("POST", "/account/second-factor/disable"),
    ("POST", "/account/second-factor/codes"),
)


async def test_a_stolen_session_cannot_do_sensitive_actions_without_confirmation(
    server: Server, administrator: Browser, password: str
) -> None:
    await administrator.sign_in(server.link("Alena"))
    with server.database.session() as session:
        session.execute(update(UserSession).values(confirmed=func.now() - timedelta(hours=1)))
        session.commit()
    token = await administrator.token()

    for method, path in _STEPS:
        url = administrator.base_url + path
        form = {"csrf_token": token, "role": "administrator", "token_name": "x", "scope-admin": "yes"}
        async with administrator.http.request(method, url, data=form, allow_redirects=False) as answer:
            assert (answer.status, answer.headers.get("Location", "")[:14]) == (303, "/sign-in/again"), path
    headers = {"X-CSRF-Token": token}
    url = administrator.base_url + "/api/v1/users"
    async with administrator.http.post(url, json={"name": "Eva"}, headers=headers) as answer:
        assert answer.status == 403

    form = {"next": "/admin/users/new", "password": _GUESS}
    assert (await administrator.post("/sign-in/again", form))[0] == 422
    status, _page, target = await administrator.post("/sign-in/again", {**form, "password": password})
    assert (status, target) == (303, "/admin/users/new")
    assert (await administrator.get("/admin/users/new"))[0] == 200


async def test_a_user_without_password_must_sign_in_again_to_confirm(
    server: Server, administrator: Browser
) -> None:
    with server.database.session() as session:
        session.execute(update(UserSession).values(confirmed=func.now() - timedelta(hours=1)))
        session.commit()

    # Some pages of `next` would lead here again.
    for path, back in (
        ("/admin/users", "/admin/users"),
        ("/admin/users/new", "/"),
        ("/admin/users/3/second-factor", "/"),
    ):
        _, page = await administrator.get(f"/sign-in/again?next={path}")
        assert "Sign out" in page
        assert f'<a href="{back}">Back</a>' in page
    assert (await administrator.post("/sign-in/again"))[0] == 409

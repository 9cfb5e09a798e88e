"""The second factor: attempts to bypass it, reused, guessed and lost codes."""

import re
from base64 import b32decode
from datetime import timedelta

import pytest
from playwright.async_api import Browser as Chromium
from playwright.async_api import expect
from pyotp import TOTP
from sqlalchemy import func, select, update
from sqlalchemy.orm import Session

from manager.worker.process import environment_for
from oai.audit import AuditEntry
from oai.datestamps import utc_now
from tests.commands import zatva_beside
from tests.web.conftest import Browser, Server, browser_of
from web.auth.passwords import hash_password
from web.auth.second_factor import enable, proposed_secret
from web.auth.sessions import end_sessions
from web.auth.users import disable_user, get_user, set_password
from web.models import RecoveryCode, User
from web.site.keys import SETTINGS

pytestmark = pytest.mark.usefixtures("quick_hasher")

_PASSWORD = "correct horse battery staple"


class _Phone:
    """Olga's authenticator app, and her recovery codes."""

    def __init__(self, server: Server) -> None:
        self._server = server
        with server.database.session() as session:
            self.user_id = get_user(session, "Olga").user_id
            kept = hash_password(_PASSWORD, least=12, user_name="Olga")
            set_password(session, self.user_id, kept)
            self.app = TOTP(proposed_secret(session, self.user_id))
            self.codes = enable(session, self.user_id, self.app.at(utc_now()))
            self._forget_step(session)
            session.commit()

    def code(self) -> str:
        """Return a code that is valid now and unused, also immediately after the last one."""
        with self._server.database.session() as session:
            self._forget_step(session)
            session.commit()
        return self.app.at(utc_now())

    def _forget_step(self, session: Session) -> None:
        session.execute(update(User).where(User.user_id == self.user_id).values(totp_step=None))


@pytest.fixture
def phone(server: Server) -> _Phone:
    return _Phone(server)


async def _enter_password(browser: Browser) -> tuple[int, str]:
    form = {"name": "Olga", "password": _PASSWORD, "next": "/runs"}
    status, _page, target = await browser.post("/sign-in", form, token=await browser.token("/sign-in"))
    return status, target


async def _enter(browser: Browser, code: str) -> tuple[int, str]:
    token = await browser.token("/sign-in/code")
    status, _page, target = await browser.post("/sign-in/code", {"code": code, "next": "/runs"}, token=token)
    return status, target


async def test_the_password_alone_gives_no_access(stranger: Browser, phone: _Phone) -> None:
    assert await _enter_password(stranger) == (303, "/sign-in/code?next=/runs")
    for path in ("/", "/runs", "/account", "/account/second-factor", "/events", "/api/v1/me"):
        assert (await stranger.get(path))[0] in (303, 401), path
    assert (await stranger.post("/account/second-factor/disable", {"code": "1"}))[0] in (303, 403)

    assert await _enter(stranger, phone.code()) == (303, "/runs")
    assert (await stranger.get("/runs"))[0] == 200


async def test_a_sign_in_link_requires_the_code(server: Server, stranger: Browser, phone: _Phone) -> None:
    await stranger.sign_in(server.link("Olga"))

    assert (await stranger.get("/runs"))[0] == 303
    assert await _enter(stranger, phone.code()) == (303, "/runs")


async def test_each_code_is_accepted_once(server: Server, stranger: Browser, phone: _Phone) -> None:
    app, recovery = phone.code(), phone.codes[0]
    await _enter_password(stranger)
    assert await _enter(stranger, app) == (303, "/runs")

    async with browser_of(server) as watcher:
        await _enter_password(watcher)
        assert (await _enter(watcher, app))[0] == 422, "seen over the shoulder"
        assert (await _enter(watcher, recovery.upper().replace("-", " ")))[1].endswith("recovery-code-used")
    async with browser_of(server) as watcher:
        await _enter_password(watcher)
        assert (await _enter(watcher, recovery))[0] == 422
    with server.database.session() as session:
        kept = session.scalars(select(RecoveryCode.code_hash)).all()
        assert not any(code.encode() in row for row in kept for code in phone.codes)


async def test_recovery_codes_have_at_least_128_bits(phone: _Phone) -> None:
    assert len(set(phone.codes)) == 8
    for code in phone.codes:
        assert len(b32decode(code.replace("-", "").upper())) * 8 >= 128


async def test_attempts_at_codes_are_limited_and_answered_with_429(
    server: Server, stranger: Browser, phone: _Phone
) -> None:
    await _enter_password(stranger)
    for _number in range(server.settings.web.sign_in_tries):
        assert (await _enter(stranger, "000000x"))[0] == 422
    form = {"csrf_token": await stranger.token("/sign-in/code"), "code": phone.code()}
    async with stranger.http.post(server.base_url + "/sign-in/code", data=form) as answer:
        assert answer.status == 429
        assert 1 <= int(answer.headers["Retry-After"]) <= 15 * 60

    with server.database.session() as session:
        refused = select(AuditEntry.count).where(AuditEntry.action == "sign-in.refused")
        assert session.scalars(refused).all() == [server.settings.web.sign_in_tries]


async def test_a_reset_clears_the_limit_of_attempts_for_the_new_second_factor(
    server: Server, administrator: Browser, stranger: Browser
) -> None:
    phone = _Phone(server)
    await _enter_password(stranger)
    for _number in range(server.settings.web.sign_in_tries):
        await _enter(stranger, "000000x")
    assert (await administrator.post(f"/admin/users/{phone.user_id}/second-factor"))[0] == 303

    phone = _Phone(server)
    await _enter_password(stranger)
    assert await _enter(stranger, phone.code()) == (303, "/runs")


async def test_codes_of_other_times_are_refused(stranger: Browser, phone: _Phone) -> None:
    await _enter_password(stranger)
    app = phone.app  # the attacker has photographed its codes
    for minutes in (-60, -2, 2):
        assert (await _enter(stranger, app.at(utc_now() + timedelta(minutes=minutes))))[0] == 422


async def test_the_second_factor_is_set_up_and_turned_off_in_the_browser(
    server: Server, administrator: Browser
) -> None:
    _status, page = await administrator.get("/account/second-factor")
    found = re.search(r'class="secret">([A-Z2-7]+)<', page)
    assert found is not None
    app = TOTP(found[1])
    assert "<svg" in page
    assert found[1] in (await administrator.get("/account/second-factor"))[1], "reloading keeps the secret"

    assert (await administrator.post("/account/second-factor/enable", {"code": "123"}))[0] == 422
    status, page, _ = await administrator.post("/account/second-factor/enable", {"code": app.at(utc_now())})
    codes = re.findall(r"<code>([a-z2-7-]{39})</code>", page)
    assert (status, len(codes)) == (200, 8)
    _, _, target = await administrator.post("/account/second-factor/enable", {"code": app.at(utc_now())})
    assert target == "/account/second-factor?done=codes-shown", "as when the page with the codes is reloaded"
    again = (await administrator.get(target))[1]
    assert "The recovery codes were shown once." in again
    assert found[1] not in again
    assert not any(code in again for code in codes)

    status, page, _ = await administrator.post("/account/second-factor/codes")
    renewed = re.findall(r"<code>([a-z2-7-]{39})</code>", page)
    assert not set(codes) & set(renewed)
    for code, expected in ((codes[0], 422), (renewed[0], 303)):
        assert (await administrator.post("/account/second-factor/disable", {"code": code}))[0] == expected
    with server.database.session() as session:
        assert get_user(session, "Alena").totp_secret is None


@pytest.mark.parametrize("step", ["new password", "disabled", "signed out everywhere"])
async def test_a_proposed_secret_is_replaced_when_sessions_end(server: Server, step: str) -> None:
    with server.database.session() as session:
        olga = get_user(session, "Olga").user_id
        seen = proposed_secret(session, olga)
        if step == "new password":
            set_password(session, olga, hash_password(_PASSWORD, least=12, user_name="Olga"), keep="x")
        elif step == "disabled":
            disable_user(session, olga)
        else:
            end_sessions(session, olga)

        assert proposed_secret(session, olga) != seen


async def test_a_secret_in_use_is_kept_when_sessions_end(server: Server, phone: _Phone) -> None:
    with server.database.session() as session:
        end_sessions(session, phone.user_id)

        assert get_user(session, "Olga").totp_secret == phone.app.secret


async def test_a_required_second_factor_must_be_set_up_before_anything_else(
    server: Server, administrator: Browser, viewer: Browser
) -> None:
    settings = server.app[SETTINGS]
    required = settings.web.model_copy(update={"second_factor": "administrators"})
    server.app._state[SETTINGS] = settings.model_copy(update={"web": required})  # noqa: SLF001

    for path in ("/", "/admin/users", "/account", "/account/password"):
        async with administrator.http.get(server.base_url + path, allow_redirects=False) as answer:
            # An address that only takes forms leads to the page above it.
            assert answer.headers.get("Location") in {"/account/second-factor", "/account"}, path
    assert (await administrator.get("/events?topics=jobs"))[0] == 403
    assert (await administrator.get("/api/v1/me"))[0] == 403
    assert (await administrator.get("/account/second-factor"))[0] == 200
    assert (await viewer.get("/"))[0] == 200


async def test_resetting_a_lost_second_factor_by_an_administrator_is_audited(
    server: Server, administrator: Browser, owner: Browser, stranger: Browser
) -> None:
    phone = _Phone(server)
    path = f"/admin/users/{phone.user_id}/second-factor"
    assert (await owner.post(path))[0] in (303, 403)
    assert (await administrator.get(path))[0] == 200
    assert (await administrator.post(path))[0] == 303

    assert await _enter_password(stranger) == (303, "/runs")
    with server.database.session() as session:
        entry = session.scalars(
            select(AuditEntry).where(
                AuditEntry.action == "user.reset-second-factor", AuditEntry.status == 303
            )
        ).one()
        assert (entry.user_name, entry.object_name) == ("Alena", "Olga")
        assert entry.before is not None
        assert not {"totp_secret", "totp_step"} & set(entry.before), (
            "the log keeps no secrets, not even old ones"
        )
        assert session.scalars(select(func.count()).select_from(RecoveryCode)).one() == 0


async def test_the_command_resets_the_second_factor(server: Server, phone: _Phone) -> None:
    environment = environment_for(server.settings)

    assert (await zatva_beside(environment, "user", "reset-second-factor", "Olga")).returncode == 0

    with server.database.session() as session:
        assert session.get_one(User, phone.user_id).totp_since is None


def _give_password(server: Server) -> None:
    with server.database.session() as session:
        olga = get_user(session, "Olga").user_id
        set_password(session, olga, hash_password(_PASSWORD, least=12, user_name="Olga"))
        session.commit()


async def test_the_second_factor_is_set_up_used_and_turned_off_in_czech(
    server: Server, stranger: Browser
) -> None:
    """Sign in, set up the second factor, sign in with it and with a recovery code, and turn it off."""
    _give_password(server)
    stranger.http.headers["Accept-Language"] = "cs"
    page = (await stranger.get("/sign-in"))[1]
    assert all(words in page for words in ("Uživatelské jméno", "Heslo", "Přihlásit se"))
    assert await _enter_password(stranger) == (303, "/runs")

    assert "Nastavit druhý faktor…" in (await stranger.get("/account"))[1]
    _status, page = await stranger.get("/account/second-factor")
    found = re.search(r'class="secret">([A-Z2-7]+)<', page)
    assert found is not None
    assert ("<svg" in page, "Zapnout" in page) == (True, True)
    form = {"code": TOTP(found[1]).at(utc_now())}
    _status, page, _ = await stranger.post("/account/second-factor/enable", form)
    codes = re.findall(r"<code>([a-z2-7-]{39})</code>", page)
    assert "Mám je uložené" in page
    await stranger.post("/sign-out")

    assert (await _enter_password(stranger))[1].startswith("/sign-in/code")
    form = {"code": "000 000 x"}
    status, page, _ = await stranger.post("/sign-in/code", form, token=await stranger.token("/sign-in/code"))
    assert (status, "Kód není správný" in page) == (422, True)
    target = (await _enter(stranger, codes[3]))[1]
    assert "Zbývá 7\u00a0záchranných kódů." in (await stranger.get(target))[1]
    _status, _page, target = await stranger.post("/account/second-factor/disable", {"code": codes[5]})
    assert "Druhý faktor je vypnut." in (await stranger.get(target))[1]


@pytest.mark.browser
@pytest.mark.long
async def test_the_second_factor_is_set_up_and_used_in_czech_in_a_real_browser(
    server: Server, chromium: Chromium
) -> None:
    _give_password(server)
    context = await chromium.new_context(locale="cs-CZ", viewport={"width": 390, "height": 800})
    page = await context.new_page()

    async def enter_password() -> None:
        await page.goto(server.base_url + "/sign-in")
        await page.get_by_label("Uživatelské jméno").fill("Olga")
        await page.get_by_label("Heslo").fill(_PASSWORD)
        await page.get_by_role("button", name="Přihlásit se").click()

    await enter_password()
    await page.goto(server.base_url + "/account")
    await page.get_by_role("link", name="Nastavit druhý faktor…").click()
    await expect(page.locator("svg.qr")).to_be_visible()
    app = TOTP(await page.locator("code.secret").inner_text())
    await page.get_by_label("Kód", exact=False).fill(app.at(utc_now()))
    await page.get_by_role("button", name="Zapnout").click()
    codes = await page.locator("#recovery-codes code").all_inner_texts()
    await page.get_by_role("link", name="Mám je uložené").click()
    await page.get_by_role("button", name="Odhlásit").first.click()

    await enter_password()
    await expect(page).to_have_url(re.compile("/sign-in/code"))
    await page.get_by_label("Kód", exact=False).fill("000 000 x")
    await page.get_by_role("button", name="Přihlásit se").click()
    await expect(page.get_by_text("Kód není správný")).to_be_visible()
    await page.get_by_label("Kód", exact=False).fill(codes[3])
    await page.get_by_role("button", name="Přihlásit se").click()
    await expect(page.get_by_text("Zbývá 7\u00a0záchranných kódů.")).to_be_visible()
    await page.get_by_label("Kód", exact=False).fill(codes[5])
    await page.get_by_role("button", name="Vypnout").click()
    await expect(page.get_by_text("Druhý faktor je vypnut.")).to_be_visible()
    await context.close()

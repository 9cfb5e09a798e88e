"""Sign-in by OpenID Connect: accepted and refused users, and attacks by dishonest providers and strangers."""

import time
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
from joserfc.jwk import RSAKey
from sqlalchemy import func, select
from yarl import URL

from oai.audit import AuditEntry
from tests.web.conftest import Browser, Server, browser_of
from tests.web.openid_provider import CLIENT, SECRET, FakeProvider, use_provider
from web.auth.openid import RETURN, Identity, OpenIdError, OpenIdProvider
from web.auth.openid_users import connect
from web.auth.users import disable_user, get_user
from web.models import RecoveryCode, UserSession
from web.site.keys import SETTINGS


@pytest.fixture(scope="module")
def key() -> RSAKey:
    """A provider's key; making one takes longer than most sign-ins."""
    return FakeProvider().key


@pytest.fixture
async def provider(key: RSAKey) -> AsyncIterator[FakeProvider]:
    """A provider at which Alena has an account."""
    async with FakeProvider(key=key).served() as served:
        yield served


@pytest.fixture
def dashboard(server: Server, provider: FakeProvider) -> Server:
    """The dashboard with that provider; Alena has connected her account."""
    _configure(server, provider)
    with server.database.session() as session:
        connect(session, _alena(provider), get_user(session, "Alena").user_id)
        session.commit()
    return server


def _alena(provider: FakeProvider) -> Identity:
    return Identity(
        issuer=provider.issuer, subject="alena-1", name="Alena", groups=(), has_groups=True, since=None
    )


def _configure(server: Server, provider: FakeProvider, **given: Any) -> None:
    use_provider(server, provider.issuer, **{"name": "eduID.cz", "client_secret": SECRET, **given})


async def _sign_in(browser: Browser, path: str = "/sign-in/openid") -> tuple[int, str]:
    """Follow the redirects to the provider and back; return the last status, and the target or the page."""
    url = URL(browser.base_url + path)
    for _step in range(3):
        async with browser.http.get(url, allow_redirects=False) as answer:
            if answer.status not in (302, 303):
                return answer.status, await answer.text()
            url = url.join(URL(answer.headers["Location"]))
            if url.origin() == URL(browser.base_url) and url.path != RETURN:
                return answer.status, url.path_qs
    raise AssertionError(url)


async def _start_connecting(browser: Browser, provider: FakeProvider) -> str:
    """Start connecting the provider's account; return the path to which the provider sends the browser."""
    _, text, _ = await browser.post("/account/openid/connect")
    leaving = text.partition(f'href="{provider.issuer}')[2].partition('"')[0].replace("&amp;", "&")
    async with browser.http.get(provider.issuer + leaving, allow_redirects=False) as answer:
        return URL(answer.headers["Location"]).path_qs


async def _account_page(browser: Browser) -> str:
    return (await browser.get("/account"))[1]


async def test_a_connected_account_signs_in_and_returns_to_the_page(
    dashboard: Server, provider: FakeProvider, stranger: Browser
) -> None:
    assert "Sign in with eduID.cz" in (await stranger.get("/sign-in"))[1]
    provider.metadata = {"token_endpoint_auth_methods_supported": None}
    assert await _sign_in(stranger, "/sign-in/openid?next=/runs") == (303, "/runs")
    assert "Alena" in await _account_page(stranger)
    assert provider.asked[0]["scope"] == "openid profile"
    with dashboard.database.session() as session:
        entry = session.scalars(select(AuditEntry).where(AuditEntry.action == "sign-in")).one()
        assert (entry.user_name, entry.object_name) == ("Alena", "Alena")
        assert session.scalars(select(UserSession.way)).all() == ["openid"]


async def test_signing_out_offers_to_sign_out_at_the_provider(dashboard: Server, stranger: Browser) -> None:
    await _sign_in(stranger)
    await stranger.post("/sign-out")
    assert "Sign out of eduID.cz, too" in (await stranger.get("/sign-in?done=signed-out"))[1]
    url = stranger.base_url + "/sign-in/openid/sign-out"
    async with stranger.http.get(url, allow_redirects=False) as answer:
        query = URL(answer.headers["Location"]).query
    assert query["post_logout_redirect_uri"] == dashboard.base_url + "/sign-in"


@pytest.mark.parametrize("ends", [True, False])
async def test_signing_out_redirects_to_the_provider_if_configured(
    dashboard: Server, provider: FakeProvider, stranger: Browser, administrator: Browser, *, ends: bool
) -> None:
    _configure(dashboard, provider, end_session=ends)
    assert (await administrator.post("/sign-out"))[2] == "/sign-in?done=signed-out", "signed in otherwise"
    for path in ("/sign-out", "/account/sessions/end"):
        await _sign_in(stranger)
        _, _, target = await stranger.post(path)
        async with stranger.http.get(stranger.base_url + target) as answer:
            leads = answer.headers.get("Refresh")
        assert leads == ("0; url=/sign-in/openid/sign-out" if ends else None)


@pytest.mark.parametrize("given", [{}, {"create_users": True}])
async def test_an_account_with_a_users_name_is_refused_until_it_is_connected(
    server: Server, provider: FakeProvider, stranger: Browser, given: dict[str, Any]
) -> None:
    _configure(server, provider, **given)
    status, text = await _sign_in(stranger)
    assert status == 403
    assert "connect" in text
    assert (await stranger.get("/account"))[0] == 303
    with server.database.session() as session:
        entry = session.scalars(select(AuditEntry).where(AuditEntry.action == "sign-in.refused")).one()
    assert (entry.via, entry.user_name) == ("openid", f"{provider.issuer} alena-1")
    assert (entry.object_kind, entry.object_id) == ("user", None)


async def test_groups_determine_role_and_organisation_at_each_sign_in(
    server: Server, provider: FakeProvider, stranger: Browser
) -> None:
    roles = {"librarians": "partner:mzk", "keepers": "curator"}
    _configure(server, provider, create_users=True, roles=roles, groups_claim="member_of")
    provider.account = {"sub": "jana-7", "preferred_username": "Jana", "member_of": ["librarians", "others"]}
    assert (await _sign_in(stranger))[0] == 303
    assert "mzk" in await _account_page(stranger)
    with server.database.session() as session:
        entry = session.scalars(select(AuditEntry).where(AuditEntry.action == "user.add")).one()
        added = {"role": "partner", "organisation_id": get_user(session, "Jana").organisation_id}
    assert (entry.user_name, entry.via, entry.object_name) == ("Jana", "openid", "Jana")
    assert entry.after == {"openid": f"{provider.issuer} jana-7", **added}

    provider.account["member_of"] = ["librarians", "keepers"]
    assert (await _sign_in(stranger))[0] == 303
    with server.database.session() as session:
        user = get_user(session, "Jana")
        assert (user.role, user.organisation_id) == ("curator", None)

    provider.account["member_of"] = "others"
    status, text = await _sign_in(stranger)
    assert (status, "None of your groups at eduID.cz has a role here" in text) == (403, True)
    assert "Your account Jana is disabled until an administrator enables it" in text


@pytest.mark.parametrize("auth_time", [1_700_000_000_000, -(10**18), 10**300, float("nan")])
async def test_an_invalid_auth_time_is_ignored(
    dashboard: Server, provider: FakeProvider, stranger: Browser, auth_time: object
) -> None:
    provider.claims = {"auth_time": auth_time}
    assert (await _sign_in(stranger))[0] == 303
    status, text = await _sign_in(stranger, "/sign-in/openid?again=1&next=/account")
    assert (status, "eduID.cz did not ask you who you are" in text) == (403, True)
    with dashboard.database.session() as session:
        assert session.scalars(select(UserSession.way)).all() == ["openid"]


@pytest.mark.parametrize("text", ["Ev\0a", "Ev\ud800a", "Ev\na"])
async def test_invalid_user_names_and_accounts_are_refused(
    server: Server, provider: FakeProvider, stranger: Browser, text: str
) -> None:
    _configure(server, provider, create_users=True)
    provider.account = {"sub": "eva-3", "preferred_username": text}
    status, page = await _sign_in(stranger)
    assert (status, "all printable" in page) == (403, True)
    provider.account = {"sub": text, "preferred_username": "Eva"}
    assert (await _sign_in(stranger))[0] == 403


@pytest.mark.parametrize("verified", [False, "false"])
async def test_an_unverified_address_is_not_used_as_name_of_a_new_user(
    server: Server, provider: FakeProvider, stranger: Browser, verified: object
) -> None:
    _configure(server, provider, create_users=True, user_claim="email")
    provider.account = {"sub": "s-1", "email": "director@library.example", "email_verified": verified}
    status, text = await _sign_in(stranger)
    assert (status, "has not verified your e-mail address" in text) == (403, True)
    provider.account["email_verified"] = True
    assert (await _sign_in(stranger))[0] == 303
    provider.account["email_verified"] = verified
    assert (await _sign_in(stranger))[0] == 303, "the user is known"


async def test_disabled_users_cannot_sign_in(dashboard: Server, stranger: Browser) -> None:
    with dashboard.database.session() as session:
        get_user(session, "Katka").role = "administrator"
        disable_user(session, get_user(session, "Alena").user_id)
        session.commit()
    assert (await _sign_in(stranger))[0] == 403
    with dashboard.database.session() as session:
        entry = session.scalars(select(AuditEntry).where(AuditEntry.action == "sign-in.refused")).one()
        assert (entry.user_name, entry.object_name) == ("Alena", "Alena")


_FAULTS: list[dict[str, Any]] = [
    {"claims": {"nonce": "another"}},
    {"claims": {"nonce": None}},
    {"claims": {"aud": "another client"}},
    {"claims": {"aud": [CLIENT, "another"], "azp": "another"}},
    {"claims": {"iss": "https://another.example"}},
    {"claims": {"exp": 1_000_000_000}},
    {"claims": {"sub": None}},
    {"claims": {"sub": "somebody-else"}, "account": {"sub": "alena-1"}},
    {"algorithm": "none"},
    {"algorithm": "HS256"},
    {"parameters": {"state": "of-another-sign-in"}},
    {"parameters": {"iss": "https://another.example"}},
    {"parameters": {"iss": ""}},
    {"parameters": {"code": "stolen"}},
    {"parameters": {"code": "", "error": "access_denied"}},
    {"metadata": {"issuer": "https://another.example"}},
    {"metadata": {"token_endpoint": "file:///etc/passwd"}},
    {"metadata": {"jwks_uri": None}},
    {"metadata": {"authorization_endpoint": "https://host:99999/"}},
    {"metadata": {"token_endpoint": "https://[bad"}},
    {"padding": 2 * 1024 * 1024},
    {"slow": 4},
]


async def test_invalid_answers_of_a_provider_sign_in_no_user(
    dashboard: Server, provider: FakeProvider, key: RSAKey
) -> None:
    for fault in _FAULTS:
        vars(provider).update(vars(FakeProvider(issuer=provider.issuer, key=key)) | fault)
        _configure(dashboard, provider)
        async with browser_of(dashboard) as stranger:
            status, text = await _sign_in(stranger)
            assert status in (403, 502), fault
            assert "Signing in with eduID.cz did not work" in text, fault
            assert (await stranger.get("/account"))[0] == 303, fault
    vars(provider).update(vars(FakeProvider(issuer=provider.issuer, key=key)))
    _configure(dashboard, provider)
    async with browser_of(dashboard) as honest:
        assert (await _sign_in(honest))[0] == 303


@pytest.mark.parametrize("address", ["https://[bad", "https://host:99999/", "https://ho\u00adst/"])
async def test_malformed_endpoint_addresses_are_handled_as_missing(
    dashboard: Server, provider: FakeProvider, stranger: Browser, address: str
) -> None:
    provider.metadata = {"userinfo_endpoint": address, "end_session_endpoint": address}
    _configure(dashboard, provider, create_users=True)
    assert await _sign_in(stranger) == (303, "/")
    assert await _sign_in(stranger, "/sign-in/openid/sign-out") == (303, "/sign-in?done=no-sign-out-there")


@pytest.mark.usefixtures("dashboard")
async def test_a_malformed_discovery_document_does_not_replace_the_known_one(
    provider: FakeProvider,
    stranger: Browser,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:
    assert (await _sign_in(stranger))[0] == 303
    monkeypatch.setattr("web.auth.openid.FRESH_SECONDS", 0)
    provider.metadata = {"token_endpoint": "https://[bad"}
    assert (await _sign_in(stranger))[0] == 303
    assert "its token_endpoint is 'https://[bad', no address with https://; the known" in caplog.text


@pytest.mark.usefixtures("dashboard")
async def test_a_signature_by_an_unpublished_key_is_refused_and_replaced_keys_are_found(
    provider: FakeProvider, stranger: Browser, monkeypatch: pytest.MonkeyPatch
) -> None:
    provider.published = type(provider)().key
    assert (await _sign_in(stranger))[0] == 403
    # The published key is known now. The provider replaces it; keys are not fetched at every attempt.
    provider.key = provider.published = type(provider)().key
    assert (await _sign_in(stranger))[0] == 403
    monkeypatch.setattr("web.auth.openid.REFETCH_SECONDS", 0)
    assert (await _sign_in(stranger))[0] == 303


@pytest.mark.usefixtures("dashboard")
async def test_unusable_keys_of_the_provider_are_ignored(
    provider: FakeProvider, stranger: Browser, caplog: pytest.LogCaptureFixture
) -> None:
    provider.others = [
        None,
        "x",
        {"kty": ["RSA"]},
        {"kty": "RSA", "kid": "incomplete", "e": "AQAB"},
        {"kty": "EC", "kid": "new", "crv": "BP-256", "x": "AA", "y": "AA"},
        {"kty": "OKP", "crv": "X9999", "x": "AA"},
        {"kty": "EC", "crv": "P-256", "x": "AAAA", "y": "AAAA"},
    ]
    assert (await _sign_in(stranger))[0] == 303
    assert "the provider's key 'incomplete' is ignored" in caplog.text


@pytest.mark.usefixtures("dashboard")
async def test_known_keys_are_used_while_the_key_endpoint_fails(
    provider: FakeProvider,
    stranger: Browser,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:
    assert (await _sign_in(stranger))[0] == 303
    monkeypatch.setattr("web.auth.openid.FRESH_SECONDS", 0)
    provider.keys_away = True
    assert (await _sign_in(stranger))[0] == 303
    assert "/keys: HTTP status 503, not a JSON object but text/plain; the known keys are used" in caplog.text
    provider.key = type(provider)().key
    assert (await _sign_in(stranger))[0] == 403


async def test_user_information_is_requested_only_if_it_is_needed(
    dashboard: Server, provider: FakeProvider, stranger: Browser, caplog: pytest.LogCaptureFixture
) -> None:
    provider.signs_user_info = True
    assert (await _sign_in(stranger))[0] == 303
    provider.claims = {"preferred_username": "Alena"}
    for given, status in (({"create_users": True}, 303), ({"roles": _ROLES}, 403)):
        _configure(dashboard, provider, **given)
        assert (await _sign_in(stranger))[0] == status
    assert "not a JSON object but application/jwt; turn off signed answers" in caplog.text


async def test_another_browser_cannot_complete_a_sign_in(dashboard: Server, provider: FakeProvider) -> None:
    """Neither a victim lured to the attacker's return address nor a stolen return address gives a session."""
    async with browser_of(dashboard) as attacker, browser_of(dashboard) as victim:
        start = attacker.base_url + "/sign-in/openid"
        async with attacker.http.get(start, allow_redirects=False) as answer:
            leaving = URL(answer.headers["Location"])
        async with attacker.http.get(leaving, allow_redirects=False) as answer:
            coming = URL(answer.headers["Location"])
        assert (await victim.get(coming.path_qs))[0] == 403
        await victim.http.get(start, allow_redirects=False)
        assert (await victim.get(coming.path_qs))[0] == 403, "its state is another"
        assert (await attacker.get(coming.path_qs))[0] == 303
        with dashboard.database.session() as session:
            sessions = session.scalar(select(func.count()).select_from(UserSession))
        assert (await attacker.get(coming.path_qs))[0] == 303, "to the overview: each departure ends once"
        with dashboard.database.session() as session:
            assert session.scalar(select(func.count()).select_from(UserSession)) == sessions
    assert len(provider.asked) == 1


@pytest.mark.usefixtures("dashboard")
async def test_a_sign_in_does_not_redirect_to_other_sites(stranger: Browser) -> None:
    for target in ("https://another.example/", "//another.example/", "/\\another.example"):
        assert await _sign_in(stranger, f"/sign-in/openid?next={target}") == (303, "/")


@pytest.mark.usefixtures("dashboard")
async def test_sensitive_actions_require_a_recent_confirmation_by_the_provider(
    provider: FakeProvider, stranger: Browser
) -> None:
    provider.claims = {"auth_time": int(time.time()) - 7200}
    assert (await _sign_in(stranger))[0] == 303
    _, _, target = await stranger.post("/account/tokens", {"token_name": "x", "scope-read": "yes"})
    assert target.startswith("/sign-in/again")
    assert "Confirm with eduID.cz" in (await stranger.get("/sign-in/again"))[1]

    again = "/sign-in/openid?again=1&next=/account"
    status, text = await _sign_in(stranger, again)
    assert (status, "eduID.cz did not confirm that it is you" in text) == (403, True), "it did not ask"
    assert (provider.asked[-1]["prompt"], provider.asked[-1]["max_age"]) == ("login", "900")
    provider.claims = {"auth_time": None}
    assert (await _sign_in(stranger, again))[0] == 403, "the provider did not state the time of the sign-in"
    provider.claims = {"sub": "somebody-else"}
    provider.account = {"sub": "somebody-else"}
    assert (await _sign_in(stranger, again))[0] == 403, "another account"

    provider.claims, provider.account = {}, {"sub": "alena-1"}
    assert await _sign_in(stranger, again) == (303, "/account")
    status, _, _ = await stranger.post(
        "/account/tokens", {"token_name": "x", "days": "5", "scope-read": "yes"}
    )
    assert status == 200


@pytest.mark.usefixtures("dashboard")
async def test_a_confirmation_after_the_session_ended_redirects_to_the_sign_in(stranger: Browser) -> None:
    await _sign_in(stranger)
    url = URL(stranger.base_url + "/sign-in/openid?again=1&next=/runs")
    for _step in range(2):
        async with stranger.http.get(url, allow_redirects=False) as answer:
            url = URL(answer.headers["Location"])
    await stranger.post("/sign-out")
    async with stranger.http.get(url, allow_redirects=False) as answer:
        assert (answer.status, answer.headers["Location"]) == (303, "/sign-in?next=/runs")


async def test_a_user_connects_an_account_and_it_belongs_to_one_user_only(
    server: Server, provider: FakeProvider, owner: Browser, colleague: Browser, stranger: Browser
) -> None:
    _configure(server, provider)
    for browser, status in ((owner, 303), (colleague, 403)):
        code, text = await browser.get(await _start_connecting(browser, provider))
        assert code == status
    assert "Your eduID.cz account was not connected" in text
    assert (await _sign_in(stranger))[0] == 303
    assert "Olga" in await _account_page(stranger)

    status, text, _ = await owner.post("/account/openid/disconnect")
    assert (status, "Set a password first" in text) == (400, True)
    with server.database.session() as session:
        get_user(session, "Olga").password_hash = "some"
        session.commit()
    await owner.post("/account/openid/disconnect")
    async with browser_of(server) as another:
        assert (await _sign_in(another))[0] == 403


async def test_zatvas_second_factor_is_required_if_configured(
    dashboard: Server, provider: FakeProvider, stranger: Browser
) -> None:
    with dashboard.database.session() as session:
        user = get_user(session, "Alena")
        user.totp_secret, user.totp_since = "A" * 32, user.created
        session.add(RecoveryCode(code_hash=b"x", user_id=user.user_id))
        session.commit()
    assert await _sign_in(stranger) == (303, "/")
    _configure(dashboard, provider, second_factor="ours")
    assert (await _sign_in(stranger))[1].startswith("/sign-in/code")


async def test_the_provider_does_not_confirm_users_who_need_zatvas_second_factor(
    dashboard: Server, provider: FakeProvider, stranger: Browser
) -> None:
    assert (await _sign_in(stranger))[0] == 303
    with dashboard.database.session() as session:
        user = get_user(session, "Alena")
        user.totp_secret, user.totp_since = "A" * 32, user.created
        session.commit()
    again = "/sign-in/openid?again=1&next=/account"
    assert await _sign_in(stranger, again) == (303, "/account")
    _configure(dashboard, provider, second_factor="ours")
    assert (await _sign_in(stranger, again))[0] == 403
    assert "Confirm with eduID.cz" not in (await stranger.get("/sign-in/again"))[1]


async def test_users_without_groups_are_disabled_and_signed_out(
    server: Server, provider: FakeProvider, stranger: Browser
) -> None:
    _configure(server, provider, create_users=True, roles={"keepers": "curator"}, groups_claim="member_of")
    provider.account = {"sub": "jana-7", "preferred_username": "Jana", "member_of": ["keepers"]}
    assert (await _sign_in(stranger))[0] == 303
    async with browser_of(server) as another:
        del provider.account["member_of"]
        status, text = await _sign_in(another)
        assert (status, "eduID.cz sent no groups (member_of)" in text) == (403, True), "set up wrongly?"
        assert (await stranger.get("/account"))[0] == 200
        provider.account["member_of"] = []
        assert (await _sign_in(another))[0] == 403
    assert (await stranger.get("/account"))[0] == 303
    with server.database.session() as session:
        assert get_user(session, "Jana").disabled is not None
        entries = session.scalars(select(AuditEntry).where(AuditEntry.action == "user.disable")).all()
        assert [(entry.object_name, (entry.after or {})["groups"]) for entry in entries] == [("Jana", [])]


_ROLES = {
    "admins": "administrator",
    "keepers": "curator",
    "others": "partner:none-yet",
    "mzk": "partner:mzk",
    "nk": "partner:nk",
    "lookers": "viewer",
}


def _role(server: Server, name: str) -> str:
    with server.database.session() as session:
        user = get_user(session, name)
        return "disabled" if user.disabled is not None else user.role


@pytest.mark.parametrize("sent", [{"roles": ["admins"]}, [["admins"]], ["admins", True], {}, False, 0])
async def test_a_malformed_groups_claim_disables_no_user(
    server: Server,
    provider: FakeProvider,
    stranger: Browser,
    caplog: pytest.LogCaptureFixture,
    sent: object,
) -> None:
    _configure(server, provider, roles=_ROLES)
    with server.database.session() as session:
        connect(session, _alena(provider), get_user(session, "Viktor").user_id)
        session.commit()
    provider.account = {"sub": "alena-1", "groups": sent}
    status, text = await _sign_in(stranger)
    assert (status, "eduID.cz sent no groups (groups)" in text) == (403, True)
    assert _role(server, "Viktor") == "viewer"
    assert f"the claim groups is no name and no list of names, and is ignored: {sent!r}" in caplog.text


@pytest.mark.parametrize(
    ("groups", "purpose", "role"),
    [
        ([], "again", "disabled"),
        (["keepers"], "again", "curator"),
        (["others"], "again", "disabled"),
        (["others"], "sign-in", "disabled"),
        (["others", "mzk"], "sign-in", "partner"),
        (["others", "lookers"], "again", "viewer"),
        (["mzk"], "sign-in", "partner"),
    ],
)
async def test_the_groups_of_the_last_answer_always_apply(
    server: Server, provider: FakeProvider, stranger: Browser, groups: list[str], purpose: str, role: str
) -> None:
    """This includes confirmations; a role that cannot be assigned removes the previous one."""
    _configure(server, provider, create_users=True, roles=_ROLES)
    provider.account = {"sub": "bob-1", "preferred_username": "Bob", "groups": ["admins"]}
    assert (await _sign_in(stranger))[0] == 303
    assert (await stranger.get("/admin/users/new"))[0] == 200

    provider.account["groups"] = groups
    if purpose == "again":
        await _sign_in(stranger, "/sign-in/openid?again=1&next=/admin/users/new")
    else:
        async with browser_of(server) as another:
            await _sign_in(another)
    assert _role(server, "Bob") == role
    assert (await stranger.get("/admin/users"))[0] == (303 if role == "disabled" else 403)
    with server.database.session() as session:
        action = "user.disable" if role == "disabled" else "user.role"
        entry = session.scalars(select(AuditEntry).where(AuditEntry.action == action)).one()
    assert (entry.user_name, entry.via, entry.object_name) == ("Bob", "openid", "Bob")
    if role != "disabled":
        assert entry.before == {"role": "administrator", "organisation_id": None}
        assert (entry.after or {})["role"] == role


async def test_the_order_of_groups_does_not_matter(
    server: Server, provider: FakeProvider, stranger: Browser
) -> None:
    _configure(server, provider, create_users=True, roles=_ROLES)
    for groups in (["nk", "mzk"], ["mzk", "nk"]):
        provider.account = {"sub": "bob-1", "preferred_username": "Bob", "groups": groups}
        assert (await _sign_in(stranger))[0] == 303
        assert "mzk" in await _account_page(stranger)


async def test_connecting_an_account_assigns_its_role_immediately(
    server: Server, provider: FakeProvider
) -> None:
    _configure(server, provider, roles=_ROLES)
    provider.account = {"sub": "bob-1", "groups": []}
    for groups, status, role in (([], 403, "administrator"), (["keepers"], 303, "curator")):
        provider.account["groups"] = groups
        with server.database.session() as session:
            get_user(session, "Viktor").role = "administrator"
            session.commit()
        async with browser_of(server, "Viktor") as browser:
            assert (await browser.get(await _start_connecting(browser, provider)))[0] == status
        assert _role(server, "Viktor") == role


async def test_the_last_administrator_keeps_the_role_and_gets_advice(
    dashboard: Server, provider: FakeProvider, stranger: Browser
) -> None:
    _configure(dashboard, provider, roles=_ROLES)
    provider.account["groups"] = ["keepers"]
    status, text = await _sign_in(stranger)
    assert (status, "zatva user add NAME --role administrator" in text) == (403, True)
    assert _role(dashboard, "Alena") == "administrator"


async def test_an_unreadable_client_secret_is_logged_and_not_shown(
    dashboard: Server,
    provider: FakeProvider,
    stranger: Browser,
    tmp_path: Path,
    caplog: pytest.LogCaptureFixture,
) -> None:
    _configure(dashboard, provider, client_secret_file=tmp_path / "secret")
    status, text = await _sign_in(stranger)
    assert (status, "Signing in with eduID.cz did not work" in text) == (403, True)
    assert str(tmp_path) not in text
    assert f"openid.client_secret_file: {tmp_path}" in caplog.text


async def test_a_failed_discovery_request_is_not_repeated_for_each_sign_in(
    dashboard: Server, provider: FakeProvider, monkeypatch: pytest.MonkeyPatch
) -> None:
    provider.metadata = {"issuer": "https://another.example"}
    asked = OpenIdProvider(dashboard.app[SETTINGS].openid, return_address="http://127.0.0.1/")
    for _ in range(2):
        with pytest.raises(OpenIdError, match=r"another\.example"):
            await asked.metadata()
        provider.metadata = {}
    monkeypatch.setattr("web.auth.openid.FAILED_SECONDS", 0)
    known = await asked.metadata()
    monkeypatch.setattr("web.auth.openid.FRESH_SECONDS", 0)
    provider.metadata = {"issuer": "https://another.example"}
    assert await asked.metadata() == known


async def test_an_unreachable_provider_is_not_audited_as_a_refused_sign_in(
    dashboard: Server, provider: FakeProvider, stranger: Browser
) -> None:
    provider.metadata = {"jwks_uri": None}
    for path, words in (
        ("/sign-in/openid", "eduID.cz is not available"),
        ("/sign-in/openid/sign-out", "You are signed out here, but perhaps not at eduID.cz"),
    ):
        status, text = await _sign_in(stranger, path)
        assert (status, words in text) == (502, True)
    with dashboard.database.session() as session:
        assert not session.scalars(select(AuditEntry)).all()


@pytest.mark.usefixtures("dashboard")
async def test_the_log_shows_the_claims_of_a_refused_token(
    provider: FakeProvider, stranger: Browser, caplog: pytest.LogCaptureFixture
) -> None:
    provider.claims = {"aud": "another client", "exp": 1_000_000_000}
    assert (await _sign_in(stranger))[0] == 403
    assert "it has aud 'another client', iat " in caplog.text
    assert "exp 1000000000; openid.client_id is 'zatva', and the clock here is at " in caplog.text
    provider.claims, provider.algorithm = {}, "none"
    assert (await _sign_in(stranger))[0] == 403
    assert "if the provider has new keys, try again in 60 seconds" in caplog.text


@pytest.mark.usefixtures("dashboard")
async def test_long_parameters_of_strangers_are_truncated_in_the_log(
    provider: FakeProvider, stranger: Browser, caplog: pytest.LogCaptureFixture
) -> None:
    provider.parameters = {"code": "", "error": "x", "error_description": "y" * 3000}
    assert (await _sign_in(stranger))[0] == 403
    assert max(len(one.getMessage()) for one in caplog.records if one.name == "web.auth.pages_openid") < 1000


async def test_only_the_last_started_sign_in_of_a_browser_is_completed(
    dashboard: Server, stranger: Browser
) -> None:
    coming = []
    for _ in range(2):
        async with stranger.http.get(f"{dashboard.base_url}/sign-in/openid", allow_redirects=False) as answer:
            leaving = URL(answer.headers["Location"])
        async with stranger.http.get(leaving, allow_redirects=False) as answer:
            coming.append(URL(answer.headers["Location"]))
    status, text = await stranger.get(coming[0].path_qs)
    assert (status, "in which you began it last" in text) == (403, True)
    assert (await stranger.get(coming[1].path_qs))[0] == 303
    assert (await stranger.get(coming[1].path_qs))[0] == 303, "back, after the sign-in"


async def test_a_required_acr_value_is_requested_and_checked(
    dashboard: Server, provider: FakeProvider, stranger: Browser
) -> None:
    _configure(dashboard, provider, acr=("https://refeds.org/profile/mfa",))
    assert (await _sign_in(stranger))[0] == 403
    assert provider.asked[-1]["acr_values"] == "https://refeds.org/profile/mfa"
    provider.claims = {"acr": "https://refeds.org/profile/mfa"}
    assert (await _sign_in(stranger))[0] == 303


async def test_password_sign_in_can_be_turned_off(
    dashboard: Server, provider: FakeProvider, stranger: Browser
) -> None:
    token = await stranger.token("/sign-in")
    _configure(dashboard, provider, passwords=False)
    assert 'name="password"' not in (await stranger.get("/sign-in"))[1]
    assert (await stranger.post("/sign-in", {"name": "Alena", "password": "x"}, token=token))[0] == 403

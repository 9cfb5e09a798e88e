from datetime import timedelta

import pytest
from sqlalchemy import func, select, update

from oai.database import Database
from oai.errors import UsageError
from oai.rights import Right, Scope
from oai.settings import Settings
from tests.web.conftest import Browser, Server
from web.auth.api_tokens import find_token, list_tokens, make_token, revoke_token
from web.auth.users import add_user, change_role, disable_user
from web.models import ApiToken, Role


def test_a_token_is_stored_as_a_hash_and_found(database: Database, settings: Settings) -> None:
    with database.session() as session:
        user = add_user(session, "Alena", Role.ADMINISTRATOR)
        _, token = make_token(session, settings.web, user.user_id, name="nightly", scopes=[Scope.READ])

        who = find_token(session, token)

        assert who is not None
        assert who.name == "Alena"
        assert who.rights == {Right.ANYBODY, Right.LOOK, Right.LOOK_AROUND}
        assert token.encode() not in session.scalars(select(ApiToken.token_hash)).one()
        session.flush()
        session.expire_all()
        assert list_tokens(session)[0].last_used is not None


def test_a_token_has_at_most_the_rights_of_its_user(database: Database, settings: Settings) -> None:
    with database.session() as session:
        add_user(session, "Alena", Role.ADMINISTRATOR)
        user = add_user(session, "Viktor", Role.ADMINISTRATOR)
        _, token = make_token(session, settings.web, user.user_id, name="x", scopes=list(Scope))
        change_role(session, user.user_id, Role.VIEWER)

        who = find_token(session, token)

        assert who is not None
        assert not who.may_change
        assert Right.ADMINISTER not in who.rights
        assert Right.ACCOUNT not in who.rights


def test_tokens_end_when_they_expire_are_revoked_or_their_user_is_disabled(
    database: Database, settings: Settings
) -> None:
    with database.session() as session:
        add_user(session, "Alena", Role.ADMINISTRATOR)
        user = add_user(session, "Viktor")
        number, token = make_token(session, settings.web, user.user_id, name="x", scopes=[Scope.READ], days=1)
        assert find_token(session, token)

        session.execute(update(ApiToken).values(expires=func.now() - timedelta(seconds=1)))
        assert find_token(session, token) is None
        session.execute(update(ApiToken).values(expires=func.now() + timedelta(days=1)))
        assert find_token(session, token)
        disable_user(session, user.user_id)
        assert find_token(session, token) is None
        user.disabled = None
        session.flush()
        assert find_token(session, token)
        revoke_token(session, number)
        session.flush()
        assert find_token(session, token) is None
        session.expire_all()
        assert list_tokens(session)[0].state == "revoked"


def test_a_token_needs_a_name_a_scope_and_a_valid_lifetime(database: Database, settings: Settings) -> None:
    with database.session() as session:
        user = add_user(session, "Alena")
        for name, scopes, days in (
            (" ", ["read"], 1),
            ("x", [], 1),
            ("x", ["read"], 0),
            ("x", ["read"], 1e9),
        ):
            with pytest.raises(UsageError):
                make_token(
                    session,
                    settings.web,
                    user.user_id,
                    name=name,
                    scopes=[Scope(scope) for scope in scopes],
                    days=days,
                )


async def test_a_token_is_shown_once_works_without_a_form_token_and_is_revoked(
    server: Server, owner: Browser, stranger: Browser
) -> None:
    form = {"token_name": "nightly", "days": "30", "scope-read": "yes", "scope-harvest": "yes"}
    _, page, _ = await owner.post("/account/tokens", form)
    token = "zatva_" + page.partition("zatva_")[2].partition("<")[0]
    headers = {"Authorization": f"Bearer {token}"}

    assert token not in (await owner.get("/account"))[1]
    async with stranger.http.get(server.base_url + "/api/v1/repositories", headers=headers) as answer:
        assert answer.status == 200
    body = {"base_url": "no address", "base_dir": "x"}
    async with stranger.http.post(
        server.base_url + "/api/v1/repositories", headers=headers, json=body
    ) as answer:
        assert answer.status == 422
    async with stranger.http.get(server.base_url + "/account", headers=headers) as answer:
        assert answer.status == 403
    async with stranger.http.get(server.base_url + "/api/v1/users", headers=headers) as answer:
        assert answer.status == 403
    assert (await owner.post("/account/tokens/1/revoke"))[0] == 303
    async with stranger.http.get(server.base_url + "/api/v1/repositories", headers=headers) as answer:
        assert answer.status == 401


async def test_a_form_that_is_sent_twice_creates_one_token(server: Server, owner: Browser) -> None:
    form = {"token_name": "nightly", "days": "", "scope-read": "yes", "after": "0"}
    sent = [await owner.post("/account/tokens", form) for _press in range(2)]

    assert [status for status, *_page in sent] == [200, 422]
    assert "This form has already created the token." in sent[1][1]
    assert 'name="after" value="1"' in sent[1][1]
    with server.database.session() as session:
        assert [token.name for token in list_tokens(session)] == ["nightly"]
    assert (await owner.post("/account/tokens", {**form, "after": "1"}))[0] == 200, "the next form is another"


async def test_a_user_cannot_revoke_a_token_of_another_user(owner: Browser, colleague: Browser) -> None:
    await owner.post("/account/tokens", {"token_name": "x", "days": "", "scope-read": "yes"})

    assert (await colleague.post("/account/tokens/1/revoke"))[0] == 404
    assert "Revoke" in (await owner.get("/account"))[1]


async def test_a_token_without_a_scope_or_name_is_refused(owner: Browser) -> None:
    status, page, _ = await owner.post("/account/tokens", {"token_name": "x", "days": "1"})
    assert (status, "Choose at least one permission" in page) == (422, True)
    assert (await owner.post("/account/tokens", {"token_name": "", "scope-read": "yes"}))[0] == 422


async def test_an_administrator_revokes_tokens_of_any_user(administrator: Browser, owner: Browser) -> None:
    await owner.post("/account/tokens", {"token_name": "nightly", "days": "", "scope-read": "yes"})

    assert "nightly" in (await administrator.get("/admin/tokens"))[1]
    assert (await administrator.post("/admin/tokens/1/revoke"))[0] == 303
    assert "revoked" in (await administrator.get("/admin/tokens"))[1]

"""API tokens: scopes beyond the user's role, tokens created with tokens, and unlimited validity."""

from datetime import timedelta

import pytest

from oai.datestamps import utc_now
from oai.errors import UsageError
from oai.rights import Role, Scope
from tests.web.api.conftest import Using, token_of, using
from tests.web.conftest import Browser, Server
from web.auth.api_tokens import list_tokens, make_token
from web.auth.users import find_user, get_user

__all__ = ["using"]


async def test_a_token_cannot_create_tokens_users_or_administrators(server: Server, using: Using) -> None:
    async with using("Alena") as stolen:
        me = (await stolen.get("/me")).body
        for method, path, body in (
            ("POST", f"/users/{me['user_id']}/tokens", {"name": "for ever", "scopes": ["admin"]}),
            ("POST", "/users", {"name": "Mallory", "role": "administrator"}),
            ("PUT", f"/users/{me['user_id'] + 1}", {"role": "administrator"}),
            ("DELETE", f"/users/{me['user_id']}/second-factor", None),
        ):
            answer = await stolen.ask(method, path, body)
            assert (answer.status, "browser" in answer.body["detail"]) == (403, True), path

    with server.database.session() as session:
        assert find_user(session, "Mallory") is None
        assert get_user(session, "Viktor").role == Role.VIEWER
        assert len(list_tokens(session)) == 1


async def test_a_token_with_a_scope_beyond_its_users_role_is_refused(server: Server, owner: Browser) -> None:
    form = {"token_name": "more", "days": "1", "scope-read": "yes", "scope-admin": "yes"}
    status, page, _ = await owner.post("/account/tokens", form)

    assert (status, "does not have the scope" in page) == (422, True)
    with server.database.session() as session:
        assert list_tokens(session) == []


@pytest.mark.parametrize("days", [366, 3650])
def test_a_token_valid_longer_than_the_settings_allow_is_refused(server: Server, days: float) -> None:
    with server.database.session() as session:
        user_id = get_user(session, "Olga").user_id
        with pytest.raises(UsageError, match=r"web\.token_days"):
            make_token(session, server.settings.web, user_id, name="x", scopes=[Scope.READ], days=days)


def test_a_token_without_a_number_of_days_expires_after_a_year(server: Server) -> None:
    token_of(server, "Olga")

    with server.database.session() as session:
        left = list_tokens(session)[0].expires - utc_now()
    assert timedelta(days=364) < left <= timedelta(days=365)

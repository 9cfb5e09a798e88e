"""REST API: users, API tokens and organisations (administrators only), and the caller's own identity."""

from datetime import datetime
from typing import Final

from pydantic import Field
from sqlalchemy.orm import Session

from harvester.models import Repository
from oai.rights import Right, Role, Scope
from web.admin.pages_organisations import organisation_of
from web.admin.pages_users import user_of
from web.api.faults import ApiError
from web.api.operations import Call, Operations
from web.api.paging import list_page
from web.api.shapes import In, Out, Page, Paged, unchanged
from web.auth import api_tokens, organisations, second_factor, users
from web.auth.access import about
from web.auth.organisations import MOST_BYTES, MOST_RECORDS, OrganisationView
from web.auth.users import UserView, find_users
from web.models import ApiToken
from web.site.i18n import _

OPERATIONS: Final = Operations("people")


class MeOut(Out):
    """The caller and its rights."""

    user_id: int
    name: str
    role: Role
    organisation: str | None
    scopes: list[Scope] | None = Field(description="Scopes of the token; null for a session.")
    rights: list[str]


class UserOut(Out):
    """A user."""

    user_id: int
    name: str
    role: Role
    organisation_id: int | None
    organisation: str | None
    created: datetime
    last_sign_in: datetime | None
    state: str = Field(description="active, invited or disabled.")
    has_second_factor: bool


class NewUser(In):
    """A new user."""

    name: str = Field(min_length=1, max_length=100)
    role: Role = Role.VIEWER
    organisation_id: int | None = Field(None, ge=1, le=999_999_999)


class UserChange(In):
    """The new role and organisation."""

    role: Role
    organisation_id: int | None = Field(None, ge=1, le=999_999_999)


class TokenOut(Out):
    """An API token; the token itself is not stored."""

    token_id: int
    user_name: str
    name: str
    scopes: list[str]
    created: datetime
    expires: datetime
    last_used: datetime | None
    state: str = Field(description="good, expired, revoked or disabled (the user is).")


class NewToken(In):
    """A new API token."""

    name: str = Field(min_length=1, max_length=100)
    scopes: list[Scope] = Field(min_length=1, max_length=10)
    days: float | None = Field(None, gt=0, le=3650, description="Validity in days; null: `web.token_days`.")


class MadeToken(Out):
    """A new token, shown only once."""

    token_id: int
    token: str


@OPERATIONS.add("GET /me", "getMe", Right.LOOK)
async def _me(call: Call) -> MeOut:
    """Show the caller and the caller's permissions."""
    who = call.who
    return MeOut.from_row(
        who,
        scopes=sorted(who.scopes) if who.scopes is not None else None,
        rights=sorted(right.value for right in who.rights),
    )


@OPERATIONS.add("GET /users", "listUsers", Right.ADMINISTER, query=Paged)
async def _users(call: Call) -> Page[UserOut]:
    """List users by name."""
    return await list_page(call, find_users, UserOut.model_validate, kind=str, after=lambda user: user.name)


@OPERATIONS.add("POST /users", "addUser", Right.ADMINISTER, body=NewUser, status=201, session_only=True)
async def _add_user(call: Call) -> UserOut:
    """Add a user."""
    asked = call.sent(NewUser)
    row = await call.database.run(
        users.add_user, asked.name, asked.role, organisation_id=asked.organisation_id
    )
    return await _user_out(call, row.user_id)


@OPERATIONS.add("GET /users/{user}", "getUser", Right.ADMINISTER)
async def _show_user(call: Call) -> UserOut:
    """Show a user."""
    return UserOut.model_validate(await _user(call))


@OPERATIONS.add("PUT /users/{user}", "changeUser", Right.ADMINISTER, body=UserChange, session_only=True)
async def _change_user(call: Call) -> UserOut:
    """Change a user's role or organisation."""
    asked, number = call.sent(UserChange), (await _user(call)).user_id
    await call.database.run(users.change_role, number, asked.role, organisation_id=asked.organisation_id)
    return await _user_out(call, number)


@OPERATIONS.add("POST /users/{user}/disable", "disableUser", Right.ADMINISTER)
async def _disable(call: Call) -> UserOut:
    """Disable a user."""
    number = (await _user(call)).user_id
    await call.database.run(users.disable_user, number)
    return await _user_out(call, number)


@OPERATIONS.add("POST /users/{user}/enable", "enableUser", Right.ADMINISTER)
async def _enable(call: Call) -> UserOut:
    """Enable a user."""
    number = (await _user(call)).user_id
    await call.database.run(users.enable_user, number)
    return await _user_out(call, number)


async def _user_out(call: Call, number: int) -> UserOut:
    return UserOut.model_validate(await user_of(call.request, number))


async def _user(call: Call) -> UserView:
    return await user_of(call.request, call.place["user"])


@OPERATIONS.add(
    "DELETE /users/{user}/second-factor", "resetSecondFactor", Right.ADMINISTER, session_only=True
)
async def _reset_second_factor(call: Call) -> UserOut:
    """Reset the second factor of a user who has lost it."""
    number = (await _user(call)).user_id
    await call.database.run(second_factor.disable, number)
    return await _user_out(call, number)


@OPERATIONS.add("GET /tokens", "listTokens", Right.ADMINISTER, query=Paged)
async def _tokens(call: Call) -> Page[TokenOut]:
    """List API tokens, newest first."""
    shown = TokenOut.model_validate
    return await list_page(call, api_tokens.list_tokens, shown, before=lambda token: token.token_id)


@OPERATIONS.add(
    "POST /users/{user}/tokens", "makeToken", Right.ADMINISTER, body=NewToken, status=201, session_only=True
)
async def _make_token(call: Call) -> MadeToken:
    """Create an API token; it is shown only once."""
    asked, number = call.sent(NewToken), (await _user(call)).user_id
    token_id, token = await call.database.run(
        api_tokens.make_token,
        call.settings.web,
        number,
        name=asked.name,
        scopes=asked.scopes,
        days=asked.days,
    )
    about(call.request, "token", token_id, asked.name)
    return MadeToken(token_id=token_id, token=token)


@OPERATIONS.add("DELETE /tokens/{token}", "revokeToken", Right.ADMINISTER)
async def _revoke_token(call: Call) -> None:
    """Revoke an API token."""
    number: int = call.place["token"]

    def revoke(session: Session) -> None:
        if session.get(ApiToken, number) is None:
            raise ApiError(404, _("The token does not exist; it may have been removed."))
        api_tokens.revoke_token(session, number)

    await call.database.run(revoke)


class OrganisationOut(Out, OrganisationView):
    """An organisation."""

    records: int = Field(description="Stored records, as counted when one of its harvests last ran.")
    max_records: int | None = Field(
        description="Records that it may store. 0: no limit; null: harvester.organisation_records."
    )
    bytes: int = Field(description="Bytes of record files and raw answers, counted at the same time.")
    max_bytes: int | None = Field(
        description="Bytes that it may store. 0: no limit; null: harvester.organisation_bytes."
    )


class NewOrganisation(In):
    """The names of an organisation."""

    short_name: str = Field(pattern=r"^[A-Za-z0-9][A-Za-z0-9._-]*$", max_length=50)
    name: str = Field("", max_length=200)


class ChangedOrganisation(NewOrganisation):
    """The names of an organisation, and how much it may store."""

    max_records: int | None = Field(
        default_factory=unchanged,
        ge=0,
        le=MOST_RECORDS,
        description="0: no limit; null: the setting; left out: unchanged.",
    )
    max_bytes: int | None = Field(
        default_factory=unchanged, ge=0, le=MOST_BYTES, description="As `max_records`."
    )


class OwnerBody(In):
    """The owner of a repository."""

    organisation_id: int | None = Field(
        ge=1, le=999_999_999, description="Null: belongs to the administrators."
    )


@OPERATIONS.add("GET /organisations", "listOrganisations", Right.ADMINISTER, query=Paged)
async def _organisations(call: Call) -> Page[OrganisationOut]:
    """List organisations by short name."""
    find, shown = organisations.list_organisations, OrganisationOut.model_validate
    return await list_page(call, find, shown, kind=str, after=lambda row: row.short_name)


@OPERATIONS.add("POST /organisations", "addOrganisation", Right.ADMINISTER, body=NewOrganisation, status=201)
async def _add_organisation(call: Call) -> OrganisationOut:
    """Add an organisation."""
    asked = call.sent(NewOrganisation)
    row = await call.database.run(
        organisations.add_organisation, short_name=asked.short_name, name=asked.name
    )
    about(call.request, "organisation", row.organisation_id, row.short_name)
    return await _organisation_out(call, row.organisation_id)


@OPERATIONS.add("GET /organisations/{organisation}", "getOrganisation", Right.ADMINISTER)
async def _show_organisation(call: Call) -> OrganisationOut:
    """Show an organisation."""
    return await _organisation_out(call, call.place["organisation"])


@OPERATIONS.add(
    "PUT /organisations/{organisation}", "changeOrganisation", Right.ADMINISTER, body=ChangedOrganisation
)
async def _change_organisation(call: Call) -> OrganisationOut:
    """Rename an organisation, or limit what it may store."""
    asked, number = call.sent(ChangedOrganisation), call.place["organisation"]
    await organisation_of(call.request, number)

    def work(session: Session) -> None:
        organisations.change_organisation(session, number, short_name=asked.short_name, name=asked.name)
        limits = {"max_records", "max_bytes"} & asked.model_fields_set
        organisations.limit_organisation(session, number, **asked.model_dump(include=limits))

    await call.database.run(work)
    return await _organisation_out(call, number)


@OPERATIONS.add("DELETE /organisations/{organisation}", "removeOrganisation", Right.ADMINISTER)
async def _remove_organisation(call: Call) -> None:
    """Remove an organisation; its repositories then belong to the administrators."""
    row = await organisation_of(call.request, call.place["organisation"])
    ended = await call.database.run(organisations.remove_organisation, row.organisation_id)
    about(call.request, "organisation", row.organisation_id, row.short_name, **ended)


@OPERATIONS.add("PUT /repositories/{repository}/owner", "setOwner", Right.ADMINISTER, body=OwnerBody)
async def _own(call: Call) -> None:
    """Assign a repository to an organisation; notification rules and report card of the former one end."""
    repository_id = (await call.row(Repository, "repository")).repository_id
    owner = call.sent(OwnerBody).organisation_id
    ended = await call.database.run(organisations.give_repository, repository_id, owner)
    about(call.request, "repository", repository_id, organisation_id=owner, **ended)


async def _organisation_out(call: Call, number: int) -> OrganisationOut:
    view = await call.database.run(organisations.find_organisation_view, number)
    if view is None:
        raise ApiError(404, _("Organisation %(number)s does not exist.") % {"number": number})
    return OrganisationOut.model_validate(view)

"""Commands for users, organisations and API tokens (`zatva user`, …), including one-time sign-in links."""

from collections.abc import Callable, Mapping
from decimal import Decimal, InvalidOperation
from typing import Final

from sqlalchemy.orm import Session

from oai.cli import Invocation
from oai.console import counted
from oai.errors import UsageError
from oai.rights import Scope
from oai.sections import origin_of
from web.auth import second_factor
from web.auth.api_tokens import list_tokens, make_token, revoke_token
from web.auth.organisations import (
    MOST_BYTES,
    MOST_RECORDS,
    add_organisation,
    get_organisation,
    give_repository,
    limit_organisation,
    list_organisations,
    remove_organisation,
)
from web.auth.sign_in import LOCAL_DASHBOARD, make_link
from web.auth.users import add_user, change_role, disable_user, enable_user, find_user, get_user, list_users
from web.models import LinkKind, Role, User

_NOBODY = "-"
_DEFAULT: Final = "default"
_GIGA: Final = 10**9


def user_add(invocation: Invocation) -> None:
    """Add a user."""
    with invocation.transaction() as session:
        user = _add(session, invocation)
        result = {"user_id": user.user_id, "name": user.name, "role": user.role}
    invocation.console.result(result, f"added {result['role']} {result['name']!r}")


def invite(invocation: Invocation) -> None:
    """Print an invitation link; add the user if no user has that name."""
    settings, name = invocation.settings, invocation.arguments.name
    with invocation.transaction() as session:
        known = find_user(session, name)
        user = known or _add(session, invocation)
        role = user.role
        address = make_link(session, settings, user.name, _base_url(invocation), kind=LinkKind.INVITATION)
    hours = settings.web.invitation_hours
    invocation.console.result({"link": address, "hours": hours}, address)
    if known is not None:
        invocation.console.note(
            f"{name!r} already exists: role ({role}) and organisation stay; "
            "change them with `zatva user role`"
        )
    invocation.console.note(f"the link works once, within {hours:g} hours, and asks for a password")
    _note_address(invocation)


def link(invocation: Invocation) -> None:
    """Print a one-time sign-in link; without a configured address, for the default port on this machine."""
    settings = invocation.settings
    with invocation.transaction() as session:
        address = make_link(session, settings, invocation.arguments.name, _base_url(invocation))
    invocation.console.result({"link": address, "minutes": settings.web.link_minutes}, address)
    invocation.console.note(f"the link works once, within {settings.web.link_minutes:g} minutes")
    _note_address(invocation)


def role(invocation: Invocation) -> None:
    """Change a user's role and organisation."""
    arguments = invocation.arguments
    with invocation.transaction() as session:
        user = get_user(session, arguments.name)
        organisation_id = _organisation_id(session, arguments.organisation)
        change_role(session, user.user_id, Role(arguments.role), organisation_id=organisation_id)
    result = {"name": arguments.name, "role": arguments.role, "organisation": arguments.organisation}
    seen = f"in {arguments.organisation}" if arguments.organisation else "and sees everything"
    invocation.console.result(result, f"{arguments.name!r} now has the role {arguments.role} {seen}")


def disable(invocation: Invocation) -> None:
    """Disable a user: end the user's sessions and reject the user's API tokens."""
    _change_user(invocation, disable_user, {"disabled": True}, "is disabled")


def enable(invocation: Invocation) -> None:
    """Enable a disabled user."""
    _change_user(invocation, enable_user, {"disabled": False}, "is enabled")


def reset_second_factor(invocation: Invocation) -> None:
    """Reset the second factor of a user who has lost app and recovery codes."""
    words = "now signs in without a second factor"
    _change_user(invocation, second_factor.disable, {"second_factor": False}, words)


def _change_user(
    invocation: Invocation, change: Callable[[Session, int], object], state: Mapping[str, bool], words: str
) -> None:
    name = invocation.arguments.name
    with invocation.transaction() as session:
        change(session, get_user(session, name).user_id)
    invocation.console.result({"name": name, **state}, f"{name!r} {words}")


def user_show(invocation: Invocation) -> None:
    """List the users."""
    with invocation.session() as session:
        rows = [
            {
                "user_id": user.user_id,
                "name": user.name,
                "role": user.role.value,
                "organisation": user.organisation,
                "state": user.state,
                "second_factor": user.has_second_factor,
                "created": user.created,
                "last_sign_in": user.last_sign_in,
            }
            for user in list_users(session)
        ]
    columns = {
        "name": "Name",
        "role": "Role",
        "organisation": "Organisation",
        "state": "State",
        "second_factor": "Second factor",
        "last_sign_in": "Last signed in",
        "created": "Added",
    }
    invocation.console.table(rows, columns, empty="no users; add one with `zatva user add NAME`")


def _add(session: Session, invocation: Invocation) -> User:
    arguments = invocation.arguments
    organisation_id = _organisation_id(session, arguments.organisation)
    return add_user(session, arguments.name, Role(arguments.role), organisation_id=organisation_id)


def _organisation_id(session: Session, short_name: str | None) -> int | None:
    return None if short_name is None else get_organisation(session, short_name).organisation_id


def _base_url(invocation: Invocation) -> str:
    given: str | None = invocation.arguments.base_url
    if not given:
        return invocation.settings.web.base_url or LOCAL_DASHBOARD
    try:
        return origin_of(given)
    except ValueError as error:
        raise UsageError(f"--base-url: {error}") from None


def _note_address(invocation: Invocation) -> None:
    if not (invocation.arguments.base_url or invocation.settings.web.base_url):
        words = "it is for a dashboard on port 8090 of this machine; for any other, set web.base_url or use"
        invocation.console.note(f"{words} --base-url")


def organisation_add(invocation: Invocation) -> None:
    """Add an organisation."""
    arguments = invocation.arguments
    with invocation.transaction() as session:
        made = add_organisation(session, short_name=arguments.short_name, name=arguments.name)
        result = {name: getattr(made, name) for name in ("organisation_id", "short_name", "name")}
    invocation.console.result(result, f"added organisation {result['short_name']!r}")


def give(invocation: Invocation) -> None:
    """Assign a repository, with its schedules and jobs, to an organisation."""
    given, number = invocation.arguments.short_name, invocation.arguments.repository
    short_name = None if given == _NOBODY else given
    with invocation.transaction() as session:
        ended = give_repository(session, number, _organisation_id(session, short_name))
    invocation.about(number, organisation=short_name, **ended)
    whose = "the administrators" if short_name is None else repr(short_name)
    result = {"repository_id": number, "organisation": short_name}
    invocation.console.result(result, f"repository {number} now belongs to {whose}")
    _note_ended(invocation, ended)


def remove(invocation: Invocation) -> None:
    """Remove an organisation without users."""
    short_name = invocation.arguments.short_name
    with invocation.transaction() as session:
        number = get_organisation(session, short_name).organisation_id
        ended = remove_organisation(session, number)
    invocation.about(number, short_name, **ended)
    invocation.console.result({"short_name": short_name, "removed": True}, f"removed {short_name!r}")
    _note_ended(invocation, ended)


def _note_ended(invocation: Invocation, ended: Mapping[str, int]) -> None:
    units = {"removed_rules": "notification rule", "revoked_cards": "report card"}
    counts = " and ".join(counted(ended[name], unit) for name, unit in units.items() if name in ended)
    if counts:
        invocation.console.note(f"the organisation that owned it had {counts}, which ended")


def limit(invocation: Invocation) -> None:
    """Limit what an organisation may store."""
    arguments = invocation.arguments
    limits = {}
    if arguments.records is not None:
        limits["max_records"] = _limit(arguments.records, "--records", 1, MOST_RECORDS)
    if arguments.gigabytes is not None:
        limits["max_bytes"] = _limit(arguments.gigabytes, "--gigabytes", _GIGA, MOST_BYTES)
    if not limits:
        raise UsageError("give --records, --gigabytes or both")
    with invocation.transaction() as session:
        number = get_organisation(session, arguments.short_name).organisation_id
        limit_organisation(session, number, **limits)
    invocation.about(number, arguments.short_name, **limits)
    units = {"max_records": "record", "max_bytes": "byte"}
    shown = [
        f"any number of {units[name]}s" if value == 0
        else f"the default number of {units[name]}s at most" if value is None
        else f"{counted(value, units[name])} at most"
        for name, value in limits.items()
    ]  # fmt: skip
    result = {"organisation_id": number, "short_name": arguments.short_name, **limits}
    invocation.console.result(result, f"{arguments.short_name!r} may store {' and '.join(shown)}")


def _limit(given: str, option: str, unit: int, most: int) -> int | None:
    """Return the limit in records or bytes; None for `default`. Raises UsageError for anything else."""
    if given == _DEFAULT:
        return None
    try:
        value = Decimal(given) * unit
    except InvalidOperation:
        value = Decimal(-1)
    if not value.is_finite() or not 0 <= value <= most or value != int(value):
        raise UsageError(f"{option} {given!r}: give a number from 0 to {most // unit}, or `{_DEFAULT}`")
    return int(value)


def organisation_show(invocation: Invocation) -> None:
    """List the organisations."""
    with invocation.session() as session:
        found = list_organisations(session)
    columns = {
        "short_name": "Short",
        "name": "Name",
        "users": "Users",
        "repositories": "Repositories",
        "records": "Records",
        "bytes": "Bytes",
    }
    rows = [{name: getattr(one, name) for name in ("organisation_id", *columns)} for one in found]
    empty = "no organisations; add one with `zatva organisation add SHORT`"
    invocation.console.table(rows, columns, empty=empty)


def token_add(invocation: Invocation) -> None:
    """Create an API token and print it; it is not shown again."""
    arguments = invocation.arguments
    scopes = [Scope(scope) for scope in arguments.scope or [Scope.READ]]
    with invocation.transaction() as session:
        user = get_user(session, arguments.user)
        number, token = make_token(
            session,
            invocation.settings.web,
            user.user_id,
            name=arguments.name,
            scopes=scopes,
            days=arguments.days,
        )
    invocation.about(number, arguments.name)
    invocation.console.result({"token_id": number, "token": token}, token)
    invocation.console.note("it is shown only once; programs send it as `Authorization: Bearer …`")


def token_show(invocation: Invocation) -> None:
    """List the API tokens of all users or of one user."""
    with invocation.session() as session:
        name = invocation.arguments.user
        user_id = None if name is None else get_user(session, name).user_id
        rows = [
            {
                "token_id": token.token_id,
                "user": token.user_name,
                "name": token.name,
                "scopes": " ".join(token.scopes),
                "state": token.state,
                "expires": token.expires,
                "last_used": token.last_used,
            }
            for token in list_tokens(session, user_id)
        ]
    columns = {
        "token_id": "Id",
        "user": "User",
        "name": "For",
        "scopes": "Scopes",
        "state": "State",
        "expires": "Expires",
        "last_used": "Last used",
    }
    invocation.console.table(rows, columns, empty="no tokens; create one with `zatva token add USER NAME`")


def revoke(invocation: Invocation) -> None:
    """Revoke a token."""
    number = invocation.arguments.token_id
    with invocation.transaction() as session:
        revoke_token(session, number)
    invocation.console.result({"token_id": number, "revoked": True}, f"revoked token {number}")

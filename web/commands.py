"""`zatva user`: the dashboard's users and their sign-in links."""

from typing import Final

from sqlalchemy.orm import Session

from oai.cli import Invocation
from oai.database import open_database
from oai.errors import ExitCode
from web.models import LinkKind, Role, User
from web.organisations import get_organisation
from web.signing_in import make_link
from web.user_listing import list_users
from web.users import add_user, change_role, disable_user, enable_user, find_user, get_user

_LOCAL: Final = "http://127.0.0.1:8090"


def add(invocation: Invocation) -> ExitCode:
    """Add a user."""
    with open_database(invocation.settings) as database, database.session() as session:
        user = _add(session, invocation)
        result = {"user_id": user.user_id, "name": user.name, "role": user.role}
        session.commit()
    invocation.console.result(result, f"added {result['role']} {result['name']!r}")
    return ExitCode.DONE


def invite(invocation: Invocation) -> ExitCode:
    """Print an invitation; the user is added where there is none of that name."""
    settings, name = invocation.settings, invocation.arguments.name
    with open_database(settings) as database, database.session() as session:
        user = find_user(session, name) or _add(session, invocation)
        address = make_link(session, settings, user.name, _base_url(invocation), kind=LinkKind.INVITATION)
        session.commit()
    hours = settings.web.invitation_hours
    invocation.console.result({"link": address, "hours": hours}, address)
    invocation.console.note(f"the link works once, within {hours:g} hours, and asks for a password")
    return ExitCode.DONE


def link(invocation: Invocation) -> ExitCode:
    """Print a one-time sign-in link; where no address is set it leads to the default port on this machine."""
    settings, name = invocation.settings, invocation.arguments.name
    with open_database(settings) as database, database.session() as session:
        address = make_link(session, settings, name, _base_url(invocation))
        session.commit()
    invocation.console.result({"link": address, "minutes": settings.web.link_minutes}, address)
    invocation.console.note(f"the link works once, within {settings.web.link_minutes:g} minutes")
    return ExitCode.DONE


def role(invocation: Invocation) -> ExitCode:
    """Give a user another role and organisation."""
    arguments = invocation.arguments
    with open_database(invocation.settings) as database, database.session() as session:
        user = get_user(session, arguments.name)
        organisation_id = _organisation_id(session, arguments.organisation)
        change_role(session, user.user_id, Role(arguments.role), organisation_id=organisation_id)
        session.commit()
    result = {"name": arguments.name, "role": arguments.role, "organisation": arguments.organisation}
    invocation.console.result(result, f"{arguments.name!r} now has the role {arguments.role}")
    return ExitCode.DONE


def disable(invocation: Invocation) -> ExitCode:
    """Let a user sign in no more; sessions end and API tokens are not taken any more."""
    with open_database(invocation.settings) as database, database.session() as session:
        disable_user(session, get_user(session, invocation.arguments.name).user_id)
        session.commit()
    name = invocation.arguments.name
    invocation.console.result({"name": name, "disabled": True}, f"{name!r} is disabled")
    return ExitCode.DONE


def enable(invocation: Invocation) -> ExitCode:
    """Let a user sign in again."""
    with open_database(invocation.settings) as database, database.session() as session:
        enable_user(session, get_user(session, invocation.arguments.name).user_id)
        session.commit()
    name = invocation.arguments.name
    invocation.console.result({"name": name, "disabled": False}, f"{name!r} is enabled")
    return ExitCode.DONE


def show(invocation: Invocation) -> ExitCode:
    """List the users."""
    with open_database(invocation.settings) as database, database.session() as session:
        rows = [
            {
                "user_id": user.user_id,
                "name": user.name,
                "role": user.role.value,
                "organisation": user.organisation,
                "state": user.state,
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
        "last_sign_in": "Last signed in",
        "created": "Added",
    }
    invocation.console.table(rows, columns, empty="no users; add one with `zatva user add NAME`")
    return ExitCode.DONE


def _add(session: Session, invocation: Invocation) -> User:
    arguments = invocation.arguments
    organisation_id = _organisation_id(session, arguments.organisation)
    return add_user(session, arguments.name, Role(arguments.role), organisation_id=organisation_id)


def _organisation_id(session: Session, short_name: str | None) -> int | None:
    return None if short_name is None else get_organisation(session, short_name).organisation_id


def _base_url(invocation: Invocation) -> str:
    return invocation.arguments.base_url or invocation.settings.web.base_url or _LOCAL

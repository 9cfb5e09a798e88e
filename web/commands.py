"""`zatva user`: the dashboard's users and their sign-in links."""

from typing import Final

from oai.cli import Invocation
from oai.database import open_database
from oai.errors import ExitCode
from web.models import Role
from web.signing_in import add_user, list_users, make_link

_LOCAL: Final = "http://127.0.0.1:8090"


def add(invocation: Invocation) -> ExitCode:
    """Add a user."""
    role = Role(invocation.arguments.role)
    with open_database(invocation.settings) as database, database.session() as session:
        user = add_user(session, invocation.arguments.name, role)
        result = {"user_id": user.user_id, "name": user.name, "role": user.role}
        session.commit()
    invocation.console.result(result, f"added {result['role']} {result['name']!r}")
    return ExitCode.DONE


def link(invocation: Invocation) -> ExitCode:
    """Print a one-time sign-in link; where no address is set it leads to the default port on this machine."""
    settings, name = invocation.settings, invocation.arguments.name
    base_url = invocation.arguments.base_url or settings.web.base_url or _LOCAL
    with open_database(settings) as database, database.session() as session:
        address = make_link(session, settings, name, base_url)
        session.commit()
    invocation.console.result({"link": address, "minutes": settings.web.link_minutes}, address)
    invocation.console.note(f"works once, for {settings.web.link_minutes:g} minutes")
    return ExitCode.DONE


def show(invocation: Invocation) -> ExitCode:
    """List the users."""
    with open_database(invocation.settings) as database, database.session() as session:
        rows = [
            {"user_id": user.user_id, "name": user.name, "role": user.role, "created": user.created}
            for user in list_users(session)
        ]
    columns = {"name": "Name", "role": "Role", "created": "Added"}
    invocation.console.table(rows, columns, empty="no users; add one with `zatva user add NAME`")
    return ExitCode.DONE

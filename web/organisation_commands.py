"""`zatva organisation`: whose repositories they are."""

from oai.cli import Invocation
from oai.database import open_database
from oai.errors import ExitCode
from web.organisations import (
    add_organisation,
    get_organisation,
    give_repository,
    list_organisations,
    remove_organisation,
)

_NOBODY = "-"


def add(invocation: Invocation) -> ExitCode:
    """Add an organisation."""
    arguments = invocation.arguments
    with open_database(invocation.settings) as database, database.session() as session:
        made = add_organisation(session, short_name=arguments.short_name, name=arguments.name)
        result = {
            "organisation_id": made.organisation_id,
            "short_name": made.short_name,
            "name": made.name,
        }
        session.commit()
    invocation.console.result(result, f"added organisation {result['short_name']!r}")
    return ExitCode.DONE


def give(invocation: Invocation) -> ExitCode:
    """Let a repository, its schedules and jobs belong to an organisation."""
    short_name, number = invocation.arguments.short_name, invocation.arguments.repository
    with open_database(invocation.settings) as database, database.session() as session:
        owner = None if short_name == _NOBODY else get_organisation(session, short_name).organisation_id
        give_repository(session, number, owner)
        session.commit()
    invocation.about(number, organisation=None if short_name == _NOBODY else short_name)
    whose = "the administrators" if short_name == _NOBODY else repr(short_name)
    result = {"repository_id": number, "organisation": None if short_name == _NOBODY else short_name}
    invocation.console.result(result, f"repository {number} now belongs to {whose}")
    return ExitCode.DONE


def remove(invocation: Invocation) -> ExitCode:
    """Remove an organisation that has no users."""
    short_name = invocation.arguments.short_name
    with open_database(invocation.settings) as database, database.session() as session:
        number = get_organisation(session, short_name).organisation_id
        remove_organisation(session, number)
        session.commit()
    invocation.console.result({"short_name": short_name, "removed": True}, f"removed {short_name!r}")
    return ExitCode.DONE


def show(invocation: Invocation) -> ExitCode:
    """List the organisations."""
    with open_database(invocation.settings) as database, database.session() as session:
        rows = [
            {
                "organisation_id": one.organisation_id,
                "short_name": one.short_name,
                "name": one.name,
                "users": one.users,
                "repositories": one.repositories,
            }
            for one in list_organisations(session)
        ]
    columns = {"short_name": "Short", "name": "Name", "users": "Users", "repositories": "Repositories"}
    empty = "no organisations; add one with `zatva organisation add SHORT`"
    invocation.console.table(rows, columns, empty=empty)
    return ExitCode.DONE

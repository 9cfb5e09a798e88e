"""The audit entry of a command that changes something: begun before the work, settled after it."""

import getpass
import socket
from typing import Final

from oai.actions import Action
from oai.audit import Actor, Begun, Subject, begin, settle
from oai.cli import Handler, Invocation
from oai.database import Database, open_database
from oai.errors import ExitCode, UsageError

_DONE: Final = 200
_WRONG_INPUT: Final = 422
_FAULT: Final = 500


def run_audited(action: Action, handler: Handler, invocation: Invocation) -> int:
    """Run the command between its entry's beginning and end; gives its exit code."""
    who = Actor(name=_account(), via="command", address=socket.gethostname())
    with open_database(invocation.settings) as database:
        begun = _begin(database, action, who, _subject(action, invocation))
        status = _FAULT
        try:
            code = int(handler(invocation))
            status = _DONE
            if code != ExitCode.DONE:
                invocation.noted["details"] = {**invocation.noted.get("details", {}), "exit_code": code}
        except UsageError:
            status = _WRONG_INPUT
            raise
        finally:
            with database.session() as session:
                settle(
                    session,
                    begun,
                    who,
                    _subject(action, invocation),
                    status=status,
                    audit_days=invocation.settings.web.audit_days,
                )
    return code


def _begin(database: Database, action: Action, who: Actor, subject: Subject) -> Begun:
    with database.session() as session:
        begun = begin(session, action.verb, who, subject)
    # The command may fork: no process may inherit an open connection.
    database.engine.dispose()
    return begun


def _subject(action: Action, invocation: Invocation) -> Subject:
    """The object that the command made and named, else the one that its arguments name."""
    noted = invocation.noted
    given = getattr(invocation.arguments, action.target) if action.target else None
    named = " ".join(map(str, given)) if isinstance(given, list) else given
    return Subject(
        kind=action.object_kind,
        number=noted.get("number") or (None if named is None else str(named)),
        name=noted.get("name"),
        details=noted.get("details"),
    )


def _account() -> str | None:
    """The account's name on this machine; containers may run under a number that has none."""
    try:
        return getpass.getuser()
    except (KeyError, OSError):
        return None

"""`zatva database`: the tables' version."""

from oai import migrations
from oai.cli import Invocation
from oai.database import open_database
from oai.errors import ExitCode


def upgrade(invocation: Invocation) -> ExitCode:
    """Bring the tables to this version."""
    with open_database(invocation.settings, check_tables=False) as database:
        before, after = migrations.upgrade(database.engine)
    text = f"at {after}, as before" if before == after else f"from {before or 'no tables'} to {after}"
    invocation.console.result({"before": before, "after": after}, f"database: {text}")
    return ExitCode.DONE


def current(invocation: Invocation) -> ExitCode:
    """Show which version the tables have, and which one this program needs."""
    with (
        open_database(invocation.settings, check_tables=False) as database,
        database.engine.connect() as connection,
    ):
        found = migrations.current(connection)
    invocation.console.result(
        {"current": found, "needed": migrations.HEAD},
        f"database: {found or 'no tables'}; this version needs {migrations.HEAD}",
    )
    return ExitCode.DONE if found == migrations.HEAD else ExitCode.NOT_READY

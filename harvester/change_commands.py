"""What `zatva job changes` and `zatva job release` do."""

from dataclasses import asdict
from typing import Any

from harvester.running import holds
from harvester.running.holds import HoldKind
from harvester.running.locks import only_harvest
from harvester.running.models import Hold
from harvester.store.changes import read_changes
from harvester.store_commands import run_of
from oai.cli import Invocation
from oai.console import counted
from oai.database import open_database
from oai.errors import ExitCode


def changes(invocation: Invocation) -> ExitCode:
    """Print what changed after a line of the change feed, in the order in which to follow it."""
    arguments = invocation.arguments
    with open_database(invocation.settings) as database, database.session() as session:
        run = None if arguments.run is None else run_of(session, arguments.run)[1]
        lines = read_changes(session, since=arguments.since, repository_id=arguments.repository, run=run)
        for line in lines:
            words = (
                f"{line.change_id}  {line.changed:%Y-%m-%d %H:%M:%SZ}  {line.change:<7}  {line.identifier}"
            )
            invocation.console.result(asdict(line), words)
    return ExitCode.DONE


def release(invocation: Invocation) -> ExitCode:
    """Say yes to a run that was held for it would delete or change too much."""
    history_id: int = invocation.arguments.history_id
    with open_database(invocation.settings) as database:
        with database.session() as session:
            hold, repository_id = holds.get_hold(session, history_id)
            if invocation.arguments.show:
                invocation.console.result({**_facts(hold, 0), "sample": hold.sample}, _shown(hold))
                return ExitCode.DONE
            session.rollback()
        with only_harvest(database, repository_id):
            hold, deleted = holds.release(database, invocation.settings, history_id)
    invocation.console.result(_facts(hold, deleted), _words(hold, deleted))
    return ExitCode.DONE


def _facts(hold: Hold, deleted: int) -> dict[str, Any]:
    return {
        "history_id": hold.history_id,
        "kind": hold.kind,
        "state": hold.state,
        "would_delete": hold.would_delete,
        "would_update": hold.would_update,
        "deleted": deleted,
    }


def _shown(hold: Hold) -> str:
    """What a held run would do."""
    deletes = hold.kind == HoldKind.DELETIONS
    count = hold.would_delete if deletes else hold.would_update
    what = "would delete" if deletes else "would change at least"
    share = f"{100 * count / max(hold.active, 1):.0f} %; {hold.allowed:g} % are allowed without approval"
    return "\n".join(
        [
            f"run {hold.history_id} {what} {count:,} of {hold.active:,} records ({share}):",
            *(f"  {identifier}" for identifier in hold.sample),
            *([f"  … and {count - len(hold.sample):,} more"] if count > len(hold.sample) else []),
            f"To approve it, run `zatva job release {hold.history_id}`.",
        ]
    )


def _words(hold: Hold, deleted: int) -> str:
    if hold.kind == HoldKind.UPDATES:
        return f"run {hold.history_id} is approved: the next run of this harvest may change the records"
    outlived = hold.would_delete - deleted
    also = f"; {outlived:,} reappeared in the meantime and stay" if outlived else ""
    return f"run {hold.history_id} is approved: {counted(deleted, 'record')} deleted{also}"

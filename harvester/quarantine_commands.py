"""What `zatva job errors` does: it shows the records that could not be read."""

import sys
from typing import Any

from harvester.repositories import get_repository
from harvester.running.models import Quarantined
from harvester.running.outcome import get_history
from harvester.running.quarantine import get_quarantined, quarantined
from oai.cli import Invocation
from oai.database import open_database
from oai.errors import ExitCode

_COLUMNS = {
    "quarantine_id": "No.",
    "repository_id": "Repository",
    "identifier": "Identifier",
    "reason": "Reason",
    "byte_offset": "Byte",
    "raw_size": "Bytes",
    "last_seen": "Last seen",
}
_SHOWN = (
    *_COLUMNS, "history_id", "job_id", "metadata_prefix", "set_spec", "url", "first_seen", "resolved",
)  # fmt: skip


def list_errors(invocation: Invocation) -> ExitCode:
    """`zatva job errors`."""
    arguments = invocation.arguments
    with open_database(invocation.settings) as database, database.session() as session:
        if arguments.raw is not None:
            sys.stdout.buffer.write(get_quarantined(session, arguments.raw).raw)
            sys.stdout.buffer.flush()
            return ExitCode.DONE
        if arguments.history_id is not None:
            get_history(session, arguments.history_id)
        if arguments.repository is not None:
            get_repository(session, arguments.repository)
        found = quarantined(
            session,
            history_id=arguments.history_id,
            repository_id=arguments.repository,
            all_=arguments.all,
        )
        rows = [_shown(one) for one in found]
    invocation.console.table(rows, _COLUMNS, empty="no rejected records")
    return ExitCode.DONE


def _shown(one: Quarantined) -> dict[str, Any]:
    return {name: getattr(one, name) for name in _SHOWN}

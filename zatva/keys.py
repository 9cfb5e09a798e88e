"""`zatva keys`: the keys that sign resumption tokens and resume keys, and their replacement."""

from datetime import timedelta

from oai.cli import Invocation
from oai.datestamps import format_datestamp
from oai.signing import REREAD_SECONDS, key_states, replace_keys


def list_keys(invocation: Invocation) -> None:
    """List the accepted keys without their secrets."""
    with invocation.session() as session:
        rows = [
            {
                "purpose": state.purpose,
                "created": format_datestamp(state.created),
                "until": None if state.until is None else format_datestamp(state.until),
            }
            for state in key_states(session)
        ]
    columns = {"purpose": "purpose", "created": "created", "until": "accepted until"}
    invocation.console.table(rows, columns, empty="no keys yet; the provider creates them when it needs them")


def rotate(invocation: Invocation) -> None:
    """Replace all keys; the former ones are accepted for the overlap."""
    given = invocation.arguments.overlap_hours
    longest = invocation.settings.provider.token_hours
    hours = 0 if invocation.arguments.now else longest if given is None else given
    with invocation.transaction() as session:
        replace_keys(session, overlap=timedelta(hours=hours))
        replaced = sum(state.until is None for state in key_states(session))
    note = (
        f"former keys are accepted for {hours} more hours" if hours else "former keys are no longer accepted"
    )
    invocation.console.result(
        {"replaced": replaced, "overlap_hours": hours},
        f"replaced {replaced} keys; {note}. Running servers notice it within {REREAD_SECONDS:.0f} seconds.",
    )

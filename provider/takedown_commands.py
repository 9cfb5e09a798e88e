"""Handlers of `zatva provider takedown`: the take-down register."""

from collections.abc import Iterator
from itertools import islice
from typing import Any, Final

from sqlalchemy.orm import Session

from oai.cli import Invocation
from oai.console import counted
from provider.collection_commands import lines_of_list, margin_of, parse_moment
from provider.holdings import takedowns
from provider.holdings.url_key_state import settle_rule
from provider.holdings.urlkeys import WwwRule
from provider.models import Takedown

_AT_ONCE: Final = 100
_COLUMNS = {
    "takedown_id": "No.",
    "state": "State",
    "targets": "Addresses",
    "documents": "Documents",
    "requester": "Requester",
    "expires": "Expires",
}


def add(invocation: Invocation) -> None:
    """`provider takedown add`: enter a take-down and apply it; with --dry-run, show what it would cover."""
    arguments, console = invocation.arguments, invocation.console
    targets = (*arguments.targets, *(lines_of_list(arguments.list) if arguments.list else ()))
    with invocation.session() as session:
        settle_rule(session, WwwRule(invocation.settings.provider.www_rule))
        found = takedowns.preview(session, targets)
        if arguments.dry_run:
            console.result(found.as_json(), _in_words(found))
            return
        request = takedowns.TakedownRequest(
            targets=targets,
            reason=arguments.reason or "",
            requester=arguments.requester or "",
            reference=arguments.reference or "",
            expires=parse_moment("--expires", arguments.expires),
        )
        number = takedowns.enter(session, request)
        invocation.about(number, targets[0])
        changed = takedowns.settle_takedown(session, number, margin=margin_of(invocation))
    console.result(
        {"takedown_id": number, "documents": changed, "harvesters": found.harvesters},
        f"take-down {number}: {counted(changed, 'document')} hidden; {_in_words(found)}",
    )


def show_all(invocation: Invocation) -> None:
    """`provider takedown list`: show the register, newest first."""
    arguments, console = invocation.arguments, invocation.console
    with invocation.session() as session:
        ended = None if arguments.all else False
        rows = islice(_register(session, arguments.search or "", ended=ended), arguments.limit)
        if console.as_json:
            for row in rows:
                console.result(row, "")
            return
        shown = [{name: row[name] for name in _COLUMNS} for row in rows]
    console.table(shown, _COLUMNS, empty="no take-downs; enter one with `zatva provider takedown add`")


def _register(session: Session, words: str, *, ended: bool | None) -> Iterator[dict[str, Any]]:
    """Yield the rows of the list; entries may name 10,000 addresses each, so few are read at once."""
    before = None
    while found := takedowns.list_takedowns(session, limit=_AT_ONCE, before=before, words=words, ended=ended):
        before = found[-1].takedown_id
        for row in found:
            yield {**_row(row), "targets": _first(row), "all_targets": row.targets}


def show(invocation: Invocation) -> None:
    """`provider takedown show`: show one entry in full."""
    with invocation.session() as session:
        row = _row(takedowns.find_takedown(session, invocation.arguments.number))
    lines = [f"{name}: {', '.join(value) if name == 'targets' else value}" for name, value in row.items()]
    invocation.console.result(row, "\n".join(lines))


def lift(invocation: Invocation) -> None:
    """`provider takedown lift`: end a take-down and show its documents again."""
    number = invocation.arguments.number
    with invocation.session() as session:
        takedowns.lift(session, number, invocation.arguments.reason)
        invocation.about(number, takedowns.find_takedown(session, number).targets[0])
        changed = takedowns.settle_takedown(session, number, margin=margin_of(invocation))
    invocation.console.result(
        {"takedown_id": number, "documents": changed},
        f"take-down {number} has ended; {counted(changed, 'document')} shown again",
    )


def _in_words(found: takedowns.Preview) -> str:
    documents = f"{'more than ' if found.more else ''}{counted(found.documents, 'document')}"
    return f"it covers {documents}; up to {counted(found.harvesters, 'harvester')} may have them"


def _row(row: Takedown) -> dict[str, Any]:
    names = ("takedown_id", "targets", "reason", "requester", "reference", "created", "expires", "lifted")
    named = {name: getattr(row, name) for name in (*names, "lifted_because", "documents")}
    return {**named, "state": takedowns.state_of(row)}


def _first(row: Takedown) -> str:
    more = len(row.targets) - 1
    return row.targets[0] + (f" and {more} more" if more else "")

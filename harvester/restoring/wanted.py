"""What is to be restored: the provider's list, kept in a file until all of it was asked for."""

import json
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass, field
from datetime import datetime
from pathlib import Path
from typing import Any, Final

from harvester.client import CannotDisseminateFormatError, Client, Record
from harvester.restoring.captures import PREFIX, Capture, UnreadableRecordError, read_capture
from harvester.restoring.choosing import Choice
from harvester.restoring.manifest import write_lines
from harvester.restoring.missing import Missing, Reason
from harvester.restoring.scope import Scope
from oai.errors import RemoteError

NAME: Final = "wanted.jsonl"
_GOOD_FOR: Final = 86_400
"""Seconds; an older list of an interrupted run is asked for anew."""


@dataclass(kw_only=True)
class Wanted:
    """What is to be restored, and what the list itself says cannot be."""

    captures: list[Capture]
    """One for each URL, in their order."""
    missing: list[Missing] = field(default_factory=list)
    listed: int = 0
    """Captures that the provider listed, in the scope."""


async def ask(
    client: Client, scope: Scope, at: datetime | None, on_page: Callable[[int, int | None], None]
) -> Wanted:
    """Harvest the list; `on_page` is told how many records have come, and of how many if that is known.

    Raises ClientError, TryLaterError, and RemoteError where nothing is there.
    """
    choice = Choice(at)
    found: list[Missing] = []
    listing = client.records(PREFIX, set_spec=scope.set_spec)
    try:
        async for page in listing.pages():
            for record in page.records:
                _take(record, scope, choice, found)
            on_page(listing.progress.received, listing.progress.complete_list_size)
    except CannotDisseminateFormatError as error:
        raise RemoteError(
            f"{client.base_url} does not offer the format {PREFIX!r} ({error.message}), so it is "
            "not the Zatva provider of an archive; give such a base URL with --from"
        ) from None
    wanted = Wanted(captures=choice.chosen(), missing=found, listed=choice.seen)
    if not wanted.captures and not found:
        raise RemoteError(
            f"{client.base_url} lists no documents for {scope.asked!r} (set {scope.set_spec!r}); to "
            "list its sets, use `zatva probe`; write a site as http://www.example.cz/"
        )
    return wanted


def _take(record: Record, scope: Scope, choice: Choice, found: list[Missing]) -> None:
    identifier = record.header.identifier
    if record.header.deleted:
        detail = "the archive hides or withholds it, and does not give its address"
        if scope.beginnings:
            detail += "; it may be at another address on the same host"
        found.append(Missing(reason=Reason.WITHHELD, detail=detail, identifier=identifier))
        return
    try:
        capture = read_capture(record)
    except UnreadableRecordError as error:
        found.append(Missing(reason=Reason.REFUSED, detail=str(error), identifier=identifier))
        return
    if scope.holds(capture.url):
        choice.see(capture)


def save(folder: Path, wanted: Wanted) -> None:
    """Keep the list for a run that goes on with it."""
    captures = ({**asdict(one), "captured": one.captured.isoformat()} for one in wanted.captures)
    lines: list[dict[str, Any]] = [{"listed": wanted.listed}]
    lines += [{"capture": one} for one in captures]
    lines += [{"missing": asdict(one)} for one in wanted.missing]
    write_lines(folder / NAME, lines)


def load(folder: Path) -> Wanted | None:
    """The list of an interrupted run; None where there is none that is good."""
    path = folder / NAME
    try:
        if time.time() - path.stat().st_mtime > _GOOD_FOR:
            return None
        first, *lines = [json.loads(line) for line in path.read_bytes().splitlines()]
    except (FileNotFoundError, ValueError):
        return None
    wanted = Wanted(captures=[], listed=first["listed"])
    for line in lines:
        if "capture" in line:
            facts = line["capture"]
            moment = datetime.fromisoformat(facts.pop("captured"))
            wanted.captures.append(Capture(**facts, captured=moment))
        else:
            facts = line["missing"]
            wanted.missing.append(Missing(**{**facts, "reason": Reason(facts["reason"])}))
    return wanted


def drop(folder: Path) -> None:
    """All of the list was asked for."""
    (folder / NAME).unlink(missing_ok=True)

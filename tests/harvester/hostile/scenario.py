"""Defines a scenario: a hostile repository, and how a lenient and a strict harvest of it must end."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta
from typing import Any

from harvester.vocabulary import RunStatus, Verdict
from oai.datestamps import format_datestamp
from oai.errors import ExitCode
from tests.harvester.fake_repository import Item
from tests.harvester.hostile.server import Fault, Hostile

COUNT = 25


@dataclass(frozen=True, kw_only=True)
class Truth:
    """How a harvest must end. The scenario's `lost` has the records that are missing."""

    records: int
    """Files, and rows of active records."""
    verdict: Verdict
    exit_code: ExitCode
    status: RunStatus
    deleted: int = 0
    """Rows of deleted records."""


WHOLE = Truth(records=COUNT, verdict=Verdict.COMPLETE, exit_code=ExitCode.DONE, status=RunStatus.COMPLETED)


def all_of(records: int, *, deleted: int = 0) -> Truth:
    """All records are stored, and no fault costs a record."""
    return replace(WHOLE, records=records, deleted=deleted)


def left_out(count: int, *, of: int = COUNT) -> Truth:
    """The given number of records is not available; all others are stored."""
    return Truth(
        records=of - count,
        verdict=Verdict.PARTIAL,
        exit_code=ExitCode.RECORDS_REFUSED,
        status=RunStatus.COMPLETED_WITH_ERRORS,
    )


def stopped(records: int) -> Truth:
    """Strict checking stops the harvest after the given number of records."""
    return Truth(
        records=records, verdict=Verdict.FAILED, exit_code=ExitCode.STRICT_CHECK, status=RunStatus.FAILED
    )


def stopped_at_end(missing: int) -> Truth:
    """A strict harvest reaches the end of the list, but some records are missing."""
    return replace(left_out(missing), exit_code=ExitCode.STRICT_CHECK)


def remote_failed(records: int) -> Truth:
    """The server stops answering after the given number of records."""
    return replace(stopped(records), exit_code=ExitCode.REMOTE_FAILED)


def try_later(records: int) -> Truth:
    """After the given number of records, the server requests a wait that is too long."""
    return replace(stopped(records), exit_code=ExitCode.TRY_LATER)


def limited(records: int, exit_code: ExitCode = ExitCode.REMOTE_FAILED) -> Truth:
    """A limit ends the harvest after the given number of records, which are kept."""
    return Truth(records=records, verdict=Verdict.PARTIAL, exit_code=exit_code, status=RunStatus.INCOMPLETE)


_FIRST = datetime(2024, 1, 1, 10, tzinfo=UTC)


def known(count: int = COUNT, *, titles: str = "Žluťoučký kůň “a” ňadra & «více» {}") -> list[Item]:
    """Return items of known content, each changed on a different day."""
    return [
        Item(
            identifier=f"oai:hostile.example:{number}",
            datestamp=format_datestamp(_FIRST + timedelta(days=number)),
            title=titles.format(number),
        )
        for number in range(count)
    ]


ITEMS = tuple(known())
POISON = ITEMS[12]
"""The record with the faults of single records; it is on the second of three pages."""


@dataclass(frozen=True, kw_only=True)
class Scenario:
    """A kind of hostility. `make` returns a new server each time, because faults remember requests."""

    name: str
    about: str
    make: Callable[[], Hostile]
    loose: Truth
    strict: Truth
    lost: frozenset[str] = frozenset()
    """Identifiers of records that are not available to a lenient harvest."""
    parameters: Mapping[str, Any] = field(default_factory=dict)
    """Parameters of the request."""
    settings: Mapping[str, Any] = field(default_factory=dict)
    """Settings of the harvester."""
    watermark: str | None = None
    """The start of the next harvest, if it differs from that of the good server."""
    notable: bool = False
    """Whether a lenient harvest has to warn although it is complete."""
    most_requests: int = 400


def scenario(
    name: str,
    about: str,
    fault: Callable[[], Fault],
    loose: Truth,
    strict: Truth | None = None,
    *,
    items: Sequence[Item] = ITEMS,
    server: Mapping[str, Any] | None = None,
    **more: Any,
) -> Scenario:
    """Define a scenario over the known items; by default, strict ends as lenient does."""

    def make() -> Hostile:
        return Hostile(items=list(items), fault=fault(), **(server or {}))

    return Scenario(name=name, about=about, make=make, loose=loose, strict=strict or loose, **more)


def one_lost(
    name: str, about: str, fault: Callable[[], Fault], strict: Truth | None = None, **more: Any
) -> Scenario:
    """Define a scenario in which a lenient harvest loses only the poisoned record."""
    more.setdefault("lost", frozenset({POISON.identifier}))
    return scenario(name, about, fault, left_out(1), strict or stopped(10), **more)

"""The stored words of the harvester's tables, also used by pages, commands and the API."""

from enum import IntEnum, StrEnum
from typing import Final


class RunStatus(StrEnum):
    """How a harvest ended, in the words of pages, command line and tables."""

    COMPLETED = "completed"
    COMPLETED_WITH_ERRORS = "completed with errors"
    NO_CHANGES = "no changes"
    INCOMPLETE = "incomplete"
    FAILED = "failed"
    KILLED = "killed"
    LOST = "lost"
    HELD = "held"
    """A mass change: it needs a person's approval."""
    MISSED = "missed"
    """No harvest: due times passed, and one run makes up for them."""
    SKIPPED = "skipped (overlap)"
    """No harvest: due times passed while the previous run was in progress."""


class Verdict(StrEnum):
    """Whether everything requested has been received."""

    COMPLETE = "complete"
    PARTIAL = "partial"
    FAILED = "failed"


NOT_RUN: Final = frozenset({RunStatus.MISSED, RunStatus.SKIPPED})
"""Rows of the history for due times at which no harvest started."""

MADE_UP: Final = "generated"
"""Replaces the host in history rows without a harvest: the demo generates a past."""


class AccessProtocol(StrEnum):
    """The protocol by which a repository is harvested."""

    OAI_PMH = "oai-pmh"
    SRU = "sru"
    Z3950 = "z39.50"


class RecordStatus(StrEnum):
    """Whether a harvested record exists in its repository."""

    ACTIVE = "active"
    DELETED = "deleted"


class DeletionPolicy(StrEnum):
    """What becomes of a record's file when the record is deleted."""

    REMOVE = "remove"
    """Remove the file; keep the row."""
    MARK = "mark"
    """Keep the file in its place; set `status="deleted"` in its header."""
    MOVE = "move"
    """As `mark`, and move the file below `++deleted/`."""


class DeletionReason(StrEnum):
    """Why a record counts as deleted."""

    TOMBSTONE = "tombstone"
    """Its repository reported the deletion."""
    DISAPPEARED = "disappeared"
    """Its repository does not keep deletions, and a complete list no longer contained it."""


class Change(StrEnum):
    """What the last harvest that saw a record did with it (`updateFlag`)."""

    NEW = "new"
    UPDATED = "updated"
    UNCHANGED = "unchanged"
    DELETED = "deleted"


class Method(IntEnum):
    """How records are fetched (UIUC, `harvestMethod`)."""

    RECORDS = 0
    """ListRecords."""
    IDENTIFIERS = 1
    """ListIdentifiers, then a GetRecord for each."""


class Level(IntEnum):
    """How strictly answers and records are checked (UIUC, `validation`)."""

    STRICT = 0
    VERY_STRICT = 1
    LOOSE = 2


class Slice(StrEnum):
    """The length of the slices of a harvest."""

    MONTH = "month"
    DAY = "day"


class Overlap(StrEnum):
    """What becomes of a run that is due while the schedule's previous one is in progress."""

    SKIP = "skip"
    """Skip it; the next one starts at the next due time."""
    QUEUE = "queue"
    """Start it as soon as the previous one has ended; several of them become one."""


class RuleKind(StrEnum):
    """The effect of a rule file on a record."""

    FILTER = "filter"
    """Keeps it or drops it."""
    NORMALISE = "normalise"
    """Adds elements to the original ones."""

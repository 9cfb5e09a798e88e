"""The words that stand in the harvester's tables, as pages, commands and the API say them too."""

from enum import IntEnum, StrEnum
from typing import Final


class RunStatus(StrEnum):
    """How a harvest ended, in the words that pages, command line and tables share."""

    COMPLETED = "completed"
    COMPLETED_WITH_ERRORS = "completed with errors"
    NO_CHANGES = "no changes"
    INCOMPLETE = "incomplete"
    FAILED = "failed"
    KILLED = "killed"
    LOST = "lost"
    HELD = "held"
    """A mass change: it needs a person's yes."""
    MISSED = "missed"
    """There was no harvest: due times passed, and one run makes up for them."""
    SKIPPED = "skipped (overlap)"
    """There was no harvest: due times passed while the run before was under way."""


NOT_RUN: Final = frozenset({RunStatus.MISSED, RunStatus.SKIPPED})
"""Rows of the history that tell of due times at which nothing began."""

MADE_UP: Final = "generated"
"""In the place of its host, in a row of the history that tells of no harvest: the demo makes up a past."""


class AccessProtocol(StrEnum):
    """By which protocol a repository is harvested (BIB-4)."""

    OAI_PMH = "oai-pmh"
    SRU = "sru"
    Z3950 = "z39.50"


class RecordStatus(StrEnum):
    """Whether a harvested record lives at its repository."""

    ACTIVE = "active"
    DELETED = "deleted"


class DeletionPolicy(StrEnum):
    """What becomes of a record's file when the record is deleted (HAR-9)."""

    REMOVE = "remove"
    """The file goes; the row stays."""
    MARK = "mark"
    """The file stays in its place; its header says `status="deleted"`."""
    MOVE = "move"
    """As `mark`, and the file moves below `++deleted/`."""


class DeletionReason(StrEnum):
    """Why a record counts as deleted."""

    TOMBSTONE = "tombstone"
    """Its repository said so."""
    DISAPPEARED = "disappeared"
    """Its repository keeps no deletions, and a complete list of everything had it no more."""


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
    """How long a slice of a harvest is."""

    MONTH = "month"
    DAY = "day"


class Overlap(StrEnum):
    """What becomes of a run that is due while the schedule's last one is under way still."""

    SKIP = "skip"
    """It is left out; the next one comes at the next due time."""
    QUEUE = "queue"
    """It comes as soon as the last one has ended; several of them are one."""

"""Reasons why a job waits: a code with facts, as stored in `oai_job.waiting`, and its sentence."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from enum import StrEnum
from functools import cached_property
from operator import itemgetter
from typing import Any, Final, Self

from sqlalchemy import func, select
from sqlalchemy.orm import Session

from harvester.models import RepositoryLock
from manager.notices.models import Mute, MuteKind
from oai.datestamps import format_datestamp


class Code(StrEnum):
    """Why a job waits or is in an unusual state. The facts that go with a code are named in its sentence."""

    DUE = "due"
    RETRY = "retry"
    MANAGER = "manager"
    REPOSITORY = "repository"
    HOST = "host"
    OVERALL = "overall"
    WORKER = "worker"
    NOT_BEFORE = "not before"
    MAINTENANCE = "maintenance"
    LOCKED = "locked"
    SERVER = "server"
    STUCK = "stuck"
    IMPORTING = "importing"
    SET_ASIDE = "set aside"


SENTENCES: Final[Mapping[Code, str]] = {
    Code.DUE: "due at %(at)s",
    Code.RETRY: "retry at %(at)s",
    Code.MANAGER: "waiting for the manager",
    Code.REPOSITORY: "one harvest per repository: waiting for job %(job)s",
    Code.HOST: "at most %(limit)s harvests at a time from host %(host)s",
    Code.OVERALL: "at most %(limit)s harvests at a time in total",
    Code.WORKER: "waiting for a worker",
    Code.NOT_BEFORE: "the repository asked to wait until %(until)s",
    Code.MAINTENANCE: "maintenance until %(until)s",
    Code.LOCKED: "locked by %(holder)s until %(until)s: %(reason)s",
    Code.SERVER: "%(text)s",
    Code.STUCK: "no progress since %(since)s",
    Code.IMPORTING: "the harvest has ended; its records are being made searchable",
    Code.SET_ASIDE: "%(text)s",
}
"""Sentences in English with placeholders for facts; a translation has the same placeholders."""

_UNKNOWN: Final = "(unknown)"


@dataclass(frozen=True, kw_only=True)
class WaitReason:
    """A code, and the facts for the placeholders of its sentence; times are ISO 8601 in UTC."""

    code: Code
    facts: Mapping[str, Any] = field(default_factory=dict)

    @classmethod
    def from_json(cls, stored: object) -> Self | None:
        """Read `oai_job.waiting`.

        None if it is empty or malformed, because the table may be written by SQL.
        """
        if not isinstance(stored, dict):
            return None
        try:
            code = Code(stored.get("code", ""))
        except ValueError:
            return None
        return cls(code=code, facts={name: value for name, value in stored.items() if name != "code"})

    def as_json(self) -> dict[str, Any]:
        """Return the reason in the format of `oai_job.waiting`."""
        return {"code": self.code.value, **self.facts}


def in_words(reason: WaitReason, translate: Callable[[str], str] = str) -> str:
    """Return the reason as a sentence; `translate` translates the sentence before its facts are filled in."""
    sentence = translate(SENTENCES[reason.code])
    return sentence % _Facts(reason.facts)


def locked_by(lock: RepositoryLock) -> WaitReason:
    """Return the reason that a job waits for a lock of its repository."""
    facts = {"holder": lock.holder, "reason": lock.reason, "until": format_datestamp(lock.expires)}
    return WaitReason(code=Code.LOCKED, facts=facts)


def maintenance_until(end: datetime) -> WaitReason:
    """Return the reason that a job waits for the end of a maintenance window."""
    return WaitReason(code=Code.MAINTENANCE, facts={"until": format_datestamp(end)})


@dataclass(frozen=True, kw_only=True)
class Maintenance:
    """The maintenance windows that are not over, by their start."""

    windows: Sequence[Mute]

    @cached_property
    def _by_repository(self) -> Mapping[int | None, Sequence[tuple[int, Mute]]]:
        """The windows with their places in the order, of each repository and of all repositories (None)."""
        found: dict[int | None, list[tuple[int, Mute]]] = {None: []}
        for place, row in enumerate(self.windows):
            found.setdefault(row.repository_id, []).append((place, row))
        return found

    def of(self, repository_id: int) -> list[Mute]:
        """Return the windows of the repository, which include those of all repositories."""
        known = self._by_repository
        return [row for _, row in sorted([*known[None], *known.get(repository_id, ())], key=itemgetter(0))]

    def end(self, repository_id: int, due: datetime) -> datetime | None:
        """Return the end of the windows in which a harvest is due; None if no window delays it."""
        end = due
        for row in self.of(repository_id):  # by their start, so that those that touch follow each other
            if row.starts <= end and row.ends is not None:
                end = max(end, row.ends)
        return end if end > due else None

    def reason(self, repository_id: int, due: datetime) -> WaitReason | None:
        """Return the reason that a harvest does not begin when it is due; None if no window delays it."""
        end = self.end(repository_id, due)
        return maintenance_until(end) if end else None


def find_maintenance(session: Session) -> Maintenance:
    """Return the maintenance windows of now and later, by their start."""
    windows = select(Mute).where(Mute.kind == MuteKind.MAINTENANCE, Mute.ends > func.now())
    return Maintenance(windows=session.scalars(windows.order_by(Mute.starts, Mute.mute_id)).all())


class _Facts(dict[str, Any]):
    """Facts of a reason; a row written by SQL may lack some."""

    def __missing__(self, name: str) -> str:
        return _UNKNOWN

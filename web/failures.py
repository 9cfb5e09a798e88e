"""Why something failed, in the reader's language first, and then as whoever noticed it wrote it."""

from dataclasses import dataclass
from typing import Final

from harvester.models import History
from manager.models import RecurringJob
from manager.progress import Progress
from manager.reasons import Reason
from oai.failures import Explanation, Failure, FailureCode, explained
from web.formats import on_the_clock
from web.words import _, language

_SAY_ALL: Final = ("job_", "manager_", "process_", "run_", "schedule_over")
"""Codes of the manager whose words have all that the technical reason has."""


@dataclass(frozen=True, kw_only=True)
class Explained:
    """What happened, in the reader's language."""

    what: str
    todo: str = ""
    technical: str = ""
    """The reason that was noted, in English; empty where it says no more."""


def explain(failure: Failure | None, reason: str | None) -> Explained | None:
    """A failure with the technical reason for it; None where there is neither."""
    if failure is None and not reason:
        return None
    found = failure or Failure(code=FailureCode.OTHER)
    words = in_words(found)
    technical = reason or ""
    if found.code.startswith(_SAY_ALL):
        technical = str(found.facts.get("said", ""))
    return Explained(what=words.what, todo=words.todo, technical=technical)


def of_run(run: History) -> Explained | None:
    """Why a run ended as it did; None where it left no reason."""
    return explain(run.failure, run.failure_reason)


def of_schedule(schedule: RecurringJob) -> Explained | None:
    """Why a schedule makes no more jobs."""
    return explain(Failure.from_json(schedule.state_failure), schedule.state_reason)


def of_job(reason: Reason) -> Explained | None:
    """Why a job was set aside, or what its harvest waits for."""
    failure = Failure.from_json(reason.facts.get("failure"))
    return explain(failure or Failure(code=FailureCode.REQUEST_INVALID), str(reason.facts.get("text", "")))


def noted(progress: Progress) -> Explained | None:
    """What a harvest that continues has noted last."""
    failure = Failure.from_json(progress.last_failure)
    if failure is not None:
        return explain(failure, progress.last_error)
    if not progress.last_error:
        return None
    what = _("A problem occurred, but the harvest continues.")
    return Explained(what=what, technical=progress.last_error)


def in_words(failure: Failure) -> Explanation:
    """What a failure means and what to do, in the reader's language and on the reader's clock."""
    return explained(failure, language.get(), lambda moment: str(on_the_clock(moment)))

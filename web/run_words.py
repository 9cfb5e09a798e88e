"""A run's outcome in a few sentences: what happened, compared with what is usual, and what to do."""

from typing import Final

from harvester.models import History
from harvester.vocabulary import MADE_UP, NOT_RUN, RunStatus
from manager.runs import Usual
from web.failures import Explained, of_run
from web.formats import duration, number
from web.words import _

_MUCH: Final = 2.0
_FEW_SECONDS: Final = 10.0


def summary(run: History, usual: Usual | None) -> list[str]:
    """The sentences, the most important first."""
    failure = of_run(run)
    why = [failure.what] if failure is not None else []
    if run.status in NOT_RUN:
        return [_("There was no harvest."), *why, *_advice(run, failure)]
    told = [_outcome(run), *why, *_records(run), *_time(run, usual), *_advice(run, failure)]
    if is_made_up(run):
        told.append(_("The demo made this run up, to have something to show: there was no such harvest."))
    return told


def is_made_up(run: History) -> bool:
    """Whether there never was such a harvest: the demo has a past to show."""
    return run.host == MADE_UP and run.process_id is None


def _outcome(run: History) -> str:
    if run.verdict == "complete":
        return _("Everything that was asked for is here.")
    if run.verdict == "partial":
        return _("Only a part of what was asked for is here.")
    return _("What was asked for could not be harvested.")


def _records(run: History) -> list[str]:
    if not run.record_count:
        return [_("No record came.")]
    kinds = [
        (_("%(count)s new"), run.new_count),
        (_("%(count)s changed"), run.updated_count),
        (_("%(count)s deleted"), run.deleted_count),
        (_("%(count)s unchanged"), run.unchanged_count),
        (_("%(count)s filtered out"), run.filtered_count),
    ]
    parts = ", ".join(words % {"count": number(count)} for words, count in kinds if count)
    sentence = _("%(count)s records came") % {"count": number(run.record_count)}
    said = [f"{sentence}: {parts}." if parts else f"{sentence}."]
    if run.invalid_count:
        said.append(_("%(count)s were refused; see Errors.") % {"count": number(run.invalid_count)})
    return said


def _time(run: History, usual: Usual | None) -> list[str]:
    took = (run.harvest_end_time - run.harvest_start_time).total_seconds()
    if usual is None:
        return [_("It took %(time)s.") % {"time": duration(took)}]
    values = {"time": duration(took), "usual": duration(usual.seconds)}
    if took > _MUCH * usual.seconds + _FEW_SECONDS:
        return [_("It took %(time)s, much longer than usual (%(usual)s).") % values]
    return [_("It took %(time)s; usually it takes %(usual)s.") % values]


def _advice(run: History, failure: Explained | None) -> list[str]:
    if run.status == RunStatus.FAILED and failure is not None and failure.todo:
        return [failure.todo]
    advice = {
        RunStatus.INCOMPLETE: _("The next run goes on where it stopped; nothing has to be done."),
        RunStatus.HELD: _("It waits for a yes: look at what it would do, and release it if that is right."),
        RunStatus.LOST: _("Its process vanished; the manager tries again by itself."),
        RunStatus.KILLED: _("It was ended by hand. What had come is kept."),
        RunStatus.FAILED: _(
            "If it fails again, write to the repository's administrator and send the reason along."
        ),
        RunStatus.COMPLETED_WITH_ERRORS: _(
            "What could be read is stored; the rest is under Errors, with its bytes."
        ),
        RunStatus.MISSED: _("Nothing has to be done: one run makes up for all that were missed."),
        RunStatus.SKIPPED: _(
            "If that happens often, let the schedule be due less often, or let it queue such runs."
        ),
    }
    return [advice[RunStatus(run.status)]] if run.status in set(advice) else []

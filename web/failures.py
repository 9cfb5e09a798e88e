"""Why something failed, in the reader's language first, and then as whoever noticed it wrote it."""

import re
from dataclasses import dataclass
from typing import Final

from manager.failures import IN_A_ROW
from manager.notices.advice import Words, kind_of_failure, words_of
from manager.recognising import Recognised, recognised
from web.errors_grouped import in_plain_words
from web.formats import on_the_clock
from web.run_log import tells_of_a_record
from web.words import _, language

_OF_THE_WAY: Final = frozenset(
    {"name", "refused", "certificate", "timeout", "busy", "server", "disconnected", "token", "disk"}
)
"""Kinds of failure that a harvest notes and gets over; other words in its notes tell of no failure."""
_TIMES: Final = frozenset({"first", "last", "end"})
_WAITING: Final = re.compile(r"(?:waiting )?until (?P<until>\S+): (?P<why>.*)", re.DOTALL)


@dataclass(frozen=True, kw_only=True)
class Failure:
    """What happened, in the reader's language."""

    kind: str
    """Of `manager.notices.advice`; `known` where the sentence says all that there is."""
    what: str
    todo: str = ""
    technical: str = ""
    """The words that were noted, in English; empty where they say no more."""


def failure_of(reason: str | None, status: str = "failed") -> Failure | None:
    """Why a run ended as it did; None where it left no reason."""
    if not reason:
        return None
    exactly = recognised(reason)
    if exactly is not None:
        return _exactly(exactly, reason)
    kind = kind_of_failure(status, reason)
    words = _words(kind)
    return Failure(kind=kind, what=words.what, todo=words.todo, technical=reason)


def set_aside(reason: str | None) -> Failure | None:
    """Why a schedule or a job makes no more harvests."""
    found = failure_of(reason)
    if reason and found is not None and found.kind not in {"known", "rules"}:
        words = _words("plan")
        return Failure(kind="plan", what=words.what, todo=words.todo, technical=reason)
    return found


def waiting_for(text: str) -> Failure:
    """Why a harvest waits before it asks again."""
    found = _WAITING.fullmatch(text)
    kind = kind_of_failure("failed", found["why"] if found else text)
    parts = [_words(kind).what] if kind in _OF_THE_WAY else []
    if found is not None:
        parts.append(_("It asks again at %(time)s.") % {"time": on_the_clock(found["until"])})
    return Failure(kind=kind, what=" ".join(parts) or _words("busy").what, technical=text)


def noted(text: str) -> Failure:
    """What a harvest that goes on has noted last."""
    if _WAITING.fullmatch(text):
        return waiting_for(text)
    kind = kind_of_failure("failed", text)
    if tells_of_a_record(text):
        what = in_plain_words(text)
    elif kind in _OF_THE_WAY:
        what = _words(kind).what
    else:
        what = _("Something was odd, and the harvest goes on.")
    return Failure(kind=kind, what=what, technical=text)


def _words(kind: str) -> Words:
    return words_of(kind, language.get())


def _exactly(found: Recognised, reason: str) -> Failure:
    """What the manager says itself: there are words for the very sentence."""
    if found.sentence == IN_A_ROW:
        last = failure_of(found.values["reason"])
        assert last is not None  # noqa: S101 no place is empty
        what = _(
            "Runs that failed one after the other: %(count)s; the schedule waits until somebody resumes it."
        ) % {"count": found.values["count"]}
        return Failure(kind="known", what=f"{what} {last.what}", todo=last.todo, technical=reason)
    told = _told(found)
    return Failure(kind="known", what=f"{told[:1].upper()}{told[1:]}.", technical=found.said)


def _told(found: Recognised) -> str:
    return _(found.sentence) % {name: _value(name, value) for name, value in found.values.items()}


def _value(name: str, value: str) -> object:
    """What stands in a place: a sentence of its own, a time, or a name as it is."""
    inner = recognised(value)
    if inner is not None:
        return _told(inner)
    return on_the_clock(value) if name in _TIMES else value

"""How each state word is shown: an icon, the word, and a tone, so that colour is never alone."""

from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Final


@dataclass(frozen=True, kw_only=True)
class Look:
    """The icon's name in `icons.py`, and the tone's name in `style.css`."""

    icon: str
    tone: str


_UNKNOWN: Final = Look(icon="dot", tone="neutral")

_LOOKS: Final[Mapping[str, Look]] = MappingProxyType(
    {
        "queued": Look(icon="clock", tone="neutral"),
        "starting": Look(icon="play", tone="active"),
        "running": Look(icon="play", tone="active"),
        "waiting": Look(icon="hourglass", tone="caution"),
        "pausing": Look(icon="pause", tone="neutral"),
        "paused": Look(icon="pause", tone="neutral"),
        "stopping": Look(icon="stop", tone="caution"),
        "restarting": Look(icon="repeat", tone="caution"),
        "completed": Look(icon="check", tone="good"),
        "completed with errors": Look(icon="warning", tone="caution"),
        "no changes": Look(icon="equals", tone="good"),
        "incomplete": Look(icon="half", tone="caution"),
        "held": Look(icon="hand", tone="caution"),
        "failed": Look(icon="cross", tone="bad"),
        "killed": Look(icon="stop", tone="bad"),
        "lost": Look(icon="cross", tone="bad"),
        "missed": Look(icon="warning", tone="caution"),
        "skipped (overlap)": Look(icon="skip", tone="neutral"),
        # Of schedules.
        "scheduled": Look(icon="clock", tone="neutral"),
        "new": Look(icon="dot", tone="neutral"),
        "recurring": Look(icon="repeat", tone="good"),
        "one-off": Look(icon="once", tone="neutral"),
        "set aside": Look(icon="warning", tone="bad"),
        "suspended": Look(icon="warning", tone="bad"),
        # Of lines of logs.
        "error": Look(icon="cross", tone="bad"),
        "warning": Look(icon="warning", tone="caution"),
        "info": Look(icon="dot", tone="neutral"),
        # Of examinations.
        "good": Look(icon="check", tone="good"),
        "odd": Look(icon="warning", tone="caution"),
        "bad": Look(icon="cross", tone="bad"),
        "unknown": Look(icon="dot", tone="neutral"),
        # Of messages.
        "on its way": Look(icon="play", tone="active"),
        "sent": Look(icon="check", tone="good"),
        "given up": Look(icon="cross", tone="bad"),
        "unsure": Look(icon="warning", tone="caution"),
        # Of users, tokens and workers.
        "active": Look(icon="check", tone="good"),
        "invited": Look(icon="clock", tone="neutral"),
        "disabled": Look(icon="stop", tone="bad"),
        "expired": Look(icon="clock", tone="neutral"),
        "revoked": Look(icon="stop", tone="bad"),
        "draining": Look(icon="hourglass", tone="caution"),
        # Of documents and collections.
        "open": Look(icon="check", tone="good"),
        "reading room": Look(icon="person", tone="caution"),
        "embargo": Look(icon="hourglass", tone="caution"),
        "withheld": Look(icon="stop", tone="bad"),
        "hidden": Look(icon="stop", tone="bad"),
        # Of files that are indexed, lists that are harvested, checks.
        "done": Look(icon="check", tone="good"),
        "under way": Look(icon="play", tone="active"),
        "finished": Look(icon="check", tone="good"),
        "abandoned": Look(icon="half", tone="caution"),
        "passed": Look(icon="check", tone="good"),
        "not applicable": Look(icon="dot", tone="neutral"),
        "could not be done": Look(icon="warning", tone="caution"),
        # Of verdicts.
        "complete": Look(icon="check", tone="good"),
        "partial": Look(icon="half", tone="caution"),
    }
)


def look_of(state: str) -> Look:
    """How the state is shown; a word that is not in the table is shown neutrally."""
    return _LOOKS.get(state, _UNKNOWN)

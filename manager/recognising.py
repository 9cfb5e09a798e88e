"""The manager's own sentences, found again in reasons that tables keep, to be told in another language."""

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from manager.endings import BY_ITSELF, BY_SIGNAL, ENDED_BY_US, LAST_SAID, NOT_STARTED, PROCESS
from manager.failures import IN_A_ROW
from manager.left_out import BECAUSE, DUE_MOST, DUE_OFTEN, DUE_ONCE
from manager.recurring import IS_OVER
from manager.watching import ASKED_FOR

SENTENCES: Final = (
    *ASKED_FOR.values(),
    *(sentence for _status, sentence in ENDED_BY_US.values()),
    NOT_STARTED,
    BY_SIGNAL,
    BY_ITSELF,
    PROCESS,
    *BECAUSE.values(),
    # It would do for the others, too.
    DUE_MOST,
    DUE_OFTEN,
    DUE_ONCE,
    IN_A_ROW,
    IS_OVER,
)
"""All of them, in English, with places; some stand in a place of others."""
_PLACE: Final = re.compile(r"%\((\w+)\)s")


@dataclass(frozen=True, kw_only=True)
class Recognised:
    """A sentence of the manager, and what stands in its places."""

    sentence: str
    values: Mapping[str, str]
    said: str = ""
    """The last that a process said, in words of its own."""


def recognised(reason: str) -> Recognised | None:
    """The sentence that the reason is, as a whole; None where the manager has none like it."""
    for sentence, pattern in _PATTERNS:
        found = pattern.fullmatch(reason)
        if found is not None:
            values = {name: value for name, value in found.groupdict().items() if name != "said"}
            return Recognised(sentence=sentence, values=values, said=found["said"] or "")
    return None


def _pattern(sentence: str) -> re.Pattern[str]:
    parts = _PLACE.split(sentence)
    written = "".join(
        f"(?P<{part}>.+?)" if place % 2 else re.escape(part) for place, part in enumerate(parts)
    )
    return re.compile(f"{written}(?:{re.escape(LAST_SAID)}(?P<said>.+))?", re.DOTALL)


_PATTERNS: Final = tuple((sentence, _pattern(sentence)) for sentence in SENTENCES)

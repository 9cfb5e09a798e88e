"""The repair that would make a broken record readable: what it changes, in words and as a difference."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import islice, takewhile
from typing import Final

from harvester.reading.repairs import Repair, propose
from web.site.i18n import _

_MOST_LINES: Final = 5
_AROUND: Final = 40
"""Characters shown before and after a change."""
_LONGEST: Final = 200_000
"""Bytes of a record for which a repair is looked for: each combination is tried."""
_AGREEING: Final = 2
"""Characters that must be equal after a change."""
_LONGEST_CHANGE: Final = 100
"""Characters of both texts."""


@dataclass(frozen=True, kw_only=True)
class Change:
    """A change within a line: what stays before and after it, and both texts."""

    line: int
    """From 1."""
    before: str
    old: str
    new: str
    after: str


@dataclass(frozen=True, kw_only=True)
class Proposal:
    """A repair of a broken record."""

    repairs: Sequence[Repair]
    changes: Sequence[Change]
    more: bool
    """Whether there are more changes than are shown."""


def proposal_for(raw: bytes, size: int) -> Proposal | None:
    """Return the fewest repairs after which the record can be read; None if there are none, or it is cut."""
    if not raw or len(raw) != size or size > _LONGEST:
        return None
    found = propose(raw)
    if found is None:
        return None
    changes = list(islice(_changes(_text(raw), _text(found.raw)), _MOST_LINES + 1))
    return Proposal(repairs=found.repairs, changes=changes[:_MOST_LINES], more=len(changes) > _MOST_LINES)


def repair_words() -> list[tuple[str, str]]:
    """Return the repairs with labels."""
    return [
        (Repair.AMPERSAND.value, _("& that begins no reference becomes &amp;")),
        (Repair.ENTITY.value, _("HTML entities such as &nbsp; become their characters")),
        (Repair.CONTROL.value, _("control characters are removed")),
        (Repair.ANGLE.value, _("< that begins no tag becomes &lt;")),
        (Repair.WINDOWS_1250.value, _("bytes that are not UTF-8 are read as Windows-1250 (Central Europe)")),
        (Repair.WINDOWS_1252.value, _("bytes that are not UTF-8 are read as Windows-1252 (Western Europe)")),
    ]


def _changes(old: str, new: str) -> Iterator[Change]:
    before, after = old.splitlines(), new.splitlines()
    for number, (one, other) in enumerate(zip(before, after, strict=False), start=1):
        for begin, end, first, last in _differences(one, other):
            yield Change(
                line=number,
                before=one[max(begin - _AROUND, 0) : begin],
                old=one[begin:end],
                new=other[first:last],
                after=one[end : end + _AROUND],
            )


def _differences(one: str, other: str) -> Iterator[tuple[int, int, int, int]]:
    """Yield where the texts differ: the range in the first and the range in the second.

    A repair changes few characters in one place, after which the texts agree again. `difflib` finds this,
    too, but in a time that grows with the square of the length: 12 s for 14,000 characters in one line.
    """
    begin = first = 0
    while True:
        pairs = zip(one[begin:], other[first:], strict=False)
        same = sum(1 for _ in takewhile(lambda pair: pair[0] == pair[1], pairs))
        begin, first = begin + same, first + same
        if begin == len(one) and first == len(other):
            return
        removed, added = _length_of_change(one[begin:], other[first:])
        yield begin, begin + removed, first, first + added
        begin, first = begin + removed, first + added


def _length_of_change(one: str, other: str) -> tuple[int, int]:
    """Return after how many characters of each text both agree again; if they do not soon, all of them."""
    for length in range(1, _LONGEST_CHANGE + 1):
        for removed in range(length + 1):
            added = length - removed
            if one[removed : removed + _AGREEING] == other[added : added + _AGREEING]:
                return min(removed, len(one)), min(added, len(other))
    return len(one), len(other)


def _text(raw: bytes) -> str:
    """Return the text with signs in place of control characters, so that they can be seen."""
    text = raw.decode("utf-8", errors="backslashreplace")
    return "".join(chr(0x2400 + ord(one)) if ord(one) < 32 and one not in "\n\r\t" else one for one in text)  # noqa: PLR2004 control characters

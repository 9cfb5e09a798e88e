"""Hashes of the identifiers that a list has contained, eight bytes each, in memory and in the database."""

import sys
from array import array
from bisect import bisect_left
from collections.abc import Iterable, Iterator
from hashlib import blake2b
from itertools import islice
from typing import TYPE_CHECKING

from sqlalchemy import delete, insert, select
from sqlalchemy.orm import Session

from harvester.harvest.models import ListMarks

if TYPE_CHECKING:
    Marks = array[int]
else:
    Marks = array
    """Signed numbers of eight bytes; one can say so to Python from 3.12 on."""


_IN_A_PART = 50_000
_PARTS_AT_ONCE = 4
_HALF = 1 << 63


def mark(identifier: str) -> int:
    """Return the identifier's mark, the same in every process and practically unique among a million."""
    digest = blake2b(identifier.encode("utf-8", "surrogatepass"), digest_size=8).digest()
    return int.from_bytes(digest, "big", signed=True)


def no_marks() -> Marks:
    """Return an empty array of marks."""
    return array("q")


def count_repeated(marks: Marks, begin: int = 0) -> int:
    """Return how many marks from index `begin` on occur earlier in the same array."""
    return len(marks) - begin - sum(len(set(part)) for part in _parts(marks, begin))


class Known:
    """A set of known identifiers, stored as marks."""

    def __init__(self, marks: Marks | None = None) -> None:
        self._ordered = no_marks()
        for part in _parts(no_marks() if marks is None else marks):
            self._ordered.extend(sorted(part))

    def __contains__(self, identifier: object) -> bool:
        wanted = mark(str(identifier))
        place = bisect_left(self._ordered, wanted)
        return place < len(self._ordered) and self._ordered[place] == wanted

    def with_more(self, marks: Iterable[int]) -> "Known":
        """Return these identifiers and further ones."""
        both = self._ordered[:]
        both.extend(marks)
        return Known(both)


def _parts(marks: Marks, begin: int = 0) -> Iterator[Marks]:
    """Yield the marks in parts of ascending numbers; as Python objects they need five times the memory."""
    number = (len(marks) - begin) // _IN_A_PART + 1
    if number <= _PARTS_AT_ONCE:
        yield marks[begin:]
        return
    for first in range(0, number, _PARTS_AT_ONCE):
        last = min(first + _PARTS_AT_ONCE, number)
        low, high = (-(-(part << 64) // number) - _HALF for part in (first, last))
        parts = [no_marks() for _ in range(first, last)]
        for one in islice(marks, begin, None):
            if low <= one < high:
                parts[((one + _HALF) * number >> 64) - first].append(one)
        yield from parts


def keep(session: Session, harvest_id: int, marks: Marks) -> None:
    """Add marks to those of the harvest's current list."""
    if marks:
        session.execute(insert(ListMarks).values(harvest_id=harvest_id, marks=_swapped(marks).tobytes()))


def kept(session: Session, harvest_id: int) -> Marks:
    """Return the marks of the harvest's current list, in the order in which they were stored."""
    found = no_marks()
    parts = select(ListMarks.marks).where(ListMarks.harvest_id == harvest_id).order_by(ListMarks.part_id)
    for part in session.scalars(parts):
        found.frombytes(part)
    return _swapped(found)


def forget(session: Session, harvest_id: int) -> None:
    """Delete the marks, because another list begins, or none."""
    gone = delete(ListMarks).where(ListMarks.harvest_id == harvest_id)
    session.execute(gone, execution_options={"synchronize_session": False})


def _swapped(marks: Marks) -> Marks:
    """Return the marks converted to or from lowest byte first, on any machine."""
    if sys.byteorder == "little":
        return marks
    other = marks[:]
    other.byteswap()
    return other

"""The marks of the list at hand, in the database, where they outlive the process; the caller commits."""

import sys

from sqlalchemy import delete, insert, select
from sqlalchemy.orm import Session

from harvester.running.marks import Marks, no_marks
from harvester.running.models import ListMarks


def keep(session: Session, harvest_id: int, marks: Marks) -> None:
    """Add marks to those of the harvest's list at hand."""
    if marks:
        session.execute(insert(ListMarks).values(harvest_id=harvest_id, marks=_swapped(marks).tobytes()))


def kept(session: Session, harvest_id: int) -> Marks:
    """The marks of the harvest's list at hand, in the order in which they were kept."""
    found = no_marks()
    parts = select(ListMarks.marks).where(ListMarks.harvest_id == harvest_id).order_by(ListMarks.part_id)
    for part in session.scalars(parts):
        found.frombytes(part)
    return _swapped(found)


def forget(session: Session, harvest_id: int) -> None:
    """Forget the marks, for another list begins, or none."""
    session.execute(delete(ListMarks).where(ListMarks.harvest_id == harvest_id))


def _swapped(marks: Marks) -> Marks:
    """The marks with the lowest byte first, or from that, whatever machine it is."""
    if sys.byteorder == "little":
        return marks
    other = marks[:]
    other.byteswap()
    return other

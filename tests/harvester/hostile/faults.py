"""The building blocks of faults: where something goes wrong, how often, and what is done to the answer."""

from collections.abc import Callable, Sequence

from tests.harvester.fake_repository import Item
from tests.harvester.hostile.server import Ask, Fault, Reply

Edit = Callable[[bytes], bytes]


def instead(old: str, new: str | bytes) -> Edit:
    """Put something in place of some text, which has to be there."""
    after = new if isinstance(new, bytes) else new.encode()

    def edit(good: bytes) -> bytes:
        assert old.encode() in good, f"{old!r} is not in the good answer"
        return good.replace(old.encode(), after, 1)

    return edit


def whole(body: bytes | Reply) -> Fault:
    """Send this in place of whatever is asked for."""
    return lambda _ask: body


def edited(edit: Edit) -> Fault:
    """Change every answer."""
    return lambda ask: edit(ask.good)


def in_lists(edit: Edit) -> Fault:
    """Change every answer that lists records or has one."""
    return lambda ask: edit(ask.good) if ask.verb in {"ListRecords", "GetRecord"} else None


def to_verb(verb: str, fault: Fault) -> Fault:
    """Have the fault in the answers to one verb alone."""
    return lambda ask: fault(ask) if ask.verb == verb else None


def at_page(offset: int, fault: Fault) -> Fault:
    """Have the fault in the ListRecords pages that begin at this place of a list, in every window."""
    return lambda ask: fault(ask) if ask.verb == "ListRecords" and ask.offset == offset else None


def from_page(offset: int, fault: Fault) -> Fault:
    """Be good until a page at or behind this place is asked for, then have the fault in every answer."""
    reached: list[bool] = []

    def chosen(ask: Ask) -> Reply | bytes | None:
        if ask.offset >= offset:
            reached.append(True)
        return fault(ask) if reached else None

    return chosen


def first_times(count: int, fault: Fault) -> Fault:
    """Have the fault when the same thing is asked for the first so many times."""
    return lambda ask: fault(ask) if ask.times < count else None


def once(fault: Fault) -> Fault:
    """Have the fault a single time."""
    used: list[bool] = []

    def chosen(ask: Ask) -> Reply | bytes | None:
        if used:
            return None
        reply = fault(ask)
        if reply is not None:
            used.append(True)
        return reply

    return chosen


def holding(item: Item, fault: Fault) -> Fault:
    """Have the fault in each answer that holds the item's record, whatever window or verb it is asked by."""
    marks = [item.record().encode()]
    return lambda ask: fault(ask) if any(mark in ask.good for mark in marks) else None


def in_record(item: Item, edit: Edit) -> Fault:
    """Change the item's record, wherever it is sent."""
    record = item.record().encode()
    return holding(item, lambda ask: ask.good.replace(record, edit(record), 1))


def each_of(*faults: Fault) -> Fault:
    """Have the first of the faults that has something to say."""

    def chosen(ask: Ask) -> Reply | bytes | None:
        return next((reply for fault in faults if (reply := fault(ask)) is not None), None)

    return chosen


def status(number: int, headers: Sequence[tuple[str, str]] = (), body: bytes = b"<html>no</html>") -> Fault:
    """Answer with an HTTP status."""
    return whole(Reply(status=number, headers=[("Content-Type", "text/html"), *headers], body=body))

"""Building blocks of faults: where something goes wrong, how often, and how the answer is changed."""

from collections.abc import Callable, Sequence

from tests.harvester.fake_repository import Item
from tests.harvester.hostile.server import Ask, Fault, Reply

Edit = Callable[[bytes], bytes]


def instead(old: str, new: str | bytes) -> Edit:
    """Replace some text, which has to occur."""
    after = new if isinstance(new, bytes) else new.encode()

    def edit(good: bytes) -> bytes:
        assert old.encode() in good, f"{old!r} is not in the good answer"
        return good.replace(old.encode(), after, 1)

    return edit


def whole(body: bytes | Reply) -> Fault:
    """Send this in place of every answer."""
    return lambda _ask: body


def edited(edit: Edit) -> Fault:
    """Change every answer."""
    return lambda ask: edit(ask.good)


def in_lists(edit: Edit) -> Fault:
    """Change every answer to a list request."""
    return lambda ask: edit(ask.good) if ask.verb in {"ListRecords", "GetRecord"} else None


def to_verb(verb: str, fault: Fault) -> Fault:
    """Apply the fault to the answers to one verb only."""
    return lambda ask: fault(ask) if ask.verb == verb else None


def at_page(offset: int, fault: Fault) -> Fault:
    """Apply the fault to the ListRecords pages that start at this position of a list, in every window."""
    return lambda ask: fault(ask) if ask.verb == "ListRecords" and ask.offset == offset else None


def from_page(offset: int, fault: Fault) -> Fault:
    """Answer correctly until a page at or after this position is requested, then apply the fault always."""
    reached: list[bool] = []

    def chosen(ask: Ask) -> Reply | bytes | None:
        if ask.offset >= offset:
            reached.append(True)
        return fault(ask) if reached else None

    return chosen


def first_times(count: int, fault: Fault) -> Fault:
    """Apply the fault to the first answers to each request."""
    return lambda ask: fault(ask) if ask.times < count else None


def once(fault: Fault) -> Fault:
    """Apply the fault only once."""
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
    """Apply the fault to each answer that contains the item's record, for any window or verb."""
    marks = [item.record().encode()]
    return lambda ask: fault(ask) if any(mark in ask.good for mark in marks) else None


def in_record(item: Item, edit: Edit) -> Fault:
    """Change the item's record wherever it is sent."""
    record = item.record().encode()
    return holding(item, lambda ask: ask.good.replace(record, edit(record), 1))


def each_of(*faults: Fault) -> Fault:
    """Apply the first fault that changes the answer."""

    def chosen(ask: Ask) -> Reply | bytes | None:
        return next((reply for fault in faults if (reply := fault(ask)) is not None), None)

    return chosen


def status(number: int, headers: Sequence[tuple[str, str]] = (), body: bytes = b"<html>no</html>") -> Fault:
    """Answer with an HTTP status."""
    return whole(Reply(status=number, headers=[("Content-Type", "text/html"), *headers], body=body))

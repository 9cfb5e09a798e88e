"""What is done with all captures of a CDX look-up after they have been found: sorting and collapsing."""

from collections.abc import Callable, Sequence
from datetime import datetime

from provider.holdings.capture import FIELDS, Collapse, FoundCapture
from provider.holdings.index_reads import ReadOrder

Step = Callable[[list[FoundCapture]], list[FoundCapture]]

_WORST_STATUS = 9999


def turn(found: list[FoundCapture]) -> list[FoundCapture]:
    """Return the captures in the opposite order."""
    return found[::-1]


def sort(order: ReadOrder, closest: datetime | None) -> Step:
    """Return a step that turns the order round, or puts the captures closest to a time first."""
    if closest is None or order is not ReadOrder.CLOSEST:
        return turn
    return lambda found: sorted(found, key=lambda one: abs(one.archived - closest))


def keep_first(collapses: Sequence[Collapse]) -> Step:
    """Return a step that keeps captures that differ from those before them in the values of all collapses.

    As in OpenWayback, a later collapse does not see what an earlier one has removed.
    """

    def step(found: list[FoundCapture]) -> list[FoundCapture]:
        last: list[str | None] = [None] * len(collapses)

        def differs(one: FoundCapture) -> bool:
            for number, collapse in enumerate(collapses):
                value = collapse.run(one)
                if value == last[number]:
                    return False
                last[number] = value
            return True

        return [one for one in found if differs(one)]

    return step


def keep_last(collapse: Collapse) -> Step:
    """Return a step that keeps the last of adjacent captures with the same value."""
    first = keep_first([collapse])
    return lambda found: turn(first(turn(found)))


def keep_best_status(digits: int) -> Step:
    """Return a step that keeps captures with a lower status than those before, at the same digits of time.

    As in OpenWayback, the first one at the same digits is kept in any case.
    """

    def step(found: list[FoundCapture]) -> list[FoundCapture]:
        kept: list[FoundCapture] = []
        begun, best = "", _WORST_STATUS
        for one in found:
            beginning, status = FIELDS["timestamp"](one)[:digits], one.http_status or _WORST_STATUS
            if beginning != begun or status < best:
                kept.append(one)
                best = status
            begun = beginning
        return kept

    return step

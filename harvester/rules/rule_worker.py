"""The process that evaluates costly expressions, so that they can be killed: one line in, one line out.

Started by `rule_limits`; it ends when its standard input is closed. Its first line says that it is ready.
Requests and answers are JSON, one per line.
"""

import json
import signal
import sys
from functools import cache
from typing import Any, Final

from lxml import etree

from harvester.rules.rule_expressions import (
    TOO_LONG,
    Expression,
    ExpressionError,
    RecordPath,
    TooMuchError,
    Watch,
)
from oai.xml import PARSER_OPTIONS

_GRACE_SECONDS: Final = 2
"""In case the parent is gone, this process ends itself this much later than the parent would kill it."""


def main() -> None:
    """Answer requests until standard input ends."""
    # A request to stop often reaches the parent's whole process group, but the parent may want to finish its
    # page.
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, signal.SIG_IGN)
    sys.stdout.buffer.write(b"ready\n")
    sys.stdout.buffer.flush()
    for line in sys.stdin.buffer:
        request = json.loads(line)
        _end_after(request["seconds"] + _GRACE_SECONDS)
        answer = _answer(request)
        _end_after(0)
        sys.stdout.buffer.write(json.dumps(answer).encode() + b"\n")
        sys.stdout.buffer.flush()


def _end_after(seconds: float) -> None:
    # The signal's default action ends the process, whatever it is doing. Windows has no such signal.
    if hasattr(signal, "setitimer"):
        signal.setitimer(signal.ITIMER_REAL, seconds)


def _answer(request: dict[str, Any]) -> dict[str, Any]:
    try:
        if request["task"] == "matches":
            expression = Expression(pattern=request["pattern"], ignore_case=request["ignore_case"])
            return {"matches": expression.matches(request["value"])}
        return {"found": _found(request)}
    except TooMuchError as error:
        return {"too_much": error.parts()}
    except ExpressionError as error:
        return {"error": error.parts()}


def _found(request: dict[str, Any]) -> list[tuple[str, int | None]]:
    """Return what the expression yields: each value with the index of its bearer in document order."""
    parser = etree.XMLParser(huge_tree=True, **PARSER_OPTIONS)
    record = etree.fromstring(request["record"], parser)
    path = _path(request["expression"], tuple(request["namespaces"].items()))
    found = path.find(record, watch=_at_most(request["characters"]))
    numbers = {element: number for number, element in enumerate(record.iter())}
    return [(each.value, None if each.bearer is None else numbers[each.bearer]) for each in found]


@cache
def _path(expression: str, namespaces: tuple[tuple[str, str], ...]) -> RecordPath:
    return RecordPath(expression=expression, namespaces=dict(namespaces))


def _at_most(characters: int) -> Watch:
    total = 0

    def watch(more: int) -> None:
        nonlocal total
        total += more
        if total > characters:
            raise TooMuchError(TOO_LONG, count=f"{characters:,}")

    return watch


if __name__ == "__main__":
    main()

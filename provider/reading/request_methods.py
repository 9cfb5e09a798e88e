"""Finds out which responses answer requests of other methods than GET, from the request records beside them.

A response record does not name the method of its request. Crawlers write the request as a record of its own,
before the response (wget) or after it (Heritrix, warcprox, pywb, browser crawlers), and most of them name one
in the other's WARC-Concurrent-To (WARC 1.1, section 5.8).
"""

import re
from collections import deque
from collections.abc import Iterable, Iterator, Sequence
from typing import Final, NamedTuple, TypeAlias, TypeVar

from provider.reading.content import Content
from provider.reading.headers import RecordHeader

GET: Final = "GET"
_GET: Final = b"GET "
_DISTANCE: Final = 50
"""Records between a response and its request, at most; writers put one directly beside the other."""
_LONGEST_METHOD: Final = 20
_COMMON: Final = frozenset({"", GET})
_ANSWERS: Final = frozenset({"response", "revisit"})
_METHOD = re.compile(rb"([A-Za-z]{3,20}) ")
_NAMES = re.compile(rb"\nwarc-(record-id|concurrent-to)[ \t]*:[ \t]*([^\r\n]*[^\r\n \t])", re.IGNORECASE)

Item = TypeVar("Item")


MethodRecord: TypeAlias = tuple[Item, RecordHeader | None, str]
"""An item; the header of its record, None for a part of the file that is not a record; a method in capitals.

The method of a request record is its own, and that of a response the one of its request if that is another
than GET; otherwise it is empty. A plain tuple, because two are created for each record.
"""


def method_of(content: Content, header: RecordHeader) -> str:
    """Return the method of a request record, in capitals; GET for other protocols than HTTP.

    Empty for other records.
    """
    if header.record_type != "request":
        return ""
    front = content.extend(min(header.block + _LONGEST_METHOD + 1, header.end))
    if front.startswith(_GET, header.block) or header.own_type is not None:
        return GET
    found = _METHOD.match(front, header.block, header.end)
    return found[1].decode().upper() if found else ""


def with_methods(records: Iterable[MethodRecord[Item]]) -> Iterator[MethodRecord[Item]]:
    """Yield the records in order; responses get the method of their request if that is another than GET.

    A response without a request record nearby is yielded as it is. Holds some hundred records at a time.
    """
    held: deque[MethodRecord[Item]] = deque()
    is_beginning = True
    for record in records:
        held.append(record)
        if len(held) > 2 * _DISTANCE:
            _name_method(held, _DISTANCE, is_beginning=is_beginning)
            yield held.popleft()
            is_beginning = False
        elif len(held) > _DISTANCE:
            _name_method(held, len(held) - _DISTANCE - 1, is_beginning=is_beginning)
    for place in range(max(len(held) - _DISTANCE, 0), len(held)):
        _name_method(held, place, is_beginning=is_beginning)
    yield from held


def _name_method(held: deque[MethodRecord[Item]], place: int, *, is_beginning: bool) -> None:
    """Give the response of the request record at `place`, if its method is not GET, that method."""
    _, header, method = held[place]
    if method in _COMMON or header is None or header.record_type != "request":
        return
    records = [record[1] for record in held]
    names = _names(header)
    found = _linked(records, place, names)
    if found is None and not names.concurrent:
        found = _adjacent(records, place, is_beginning=is_beginning)
    if found is not None:
        held[found] = (*held[found][:2], method)


class _Names(NamedTuple):
    """Identifiers in a record's header."""

    own: set[bytes]
    concurrent: set[bytes]


def _names(header: RecordHeader) -> _Names:
    found = _NAMES.findall(header.head)
    return _Names(
        {value for name, value in found if name.lower() == b"record-id"},
        {value for name, value in found if name.lower() != b"record-id"},
    )


def _linked(records: Sequence[RecordHeader | None], place: int, names: _Names) -> int | None:
    """Return the place of the nearest response that names the request, or is named by it."""
    named = names.own | names.concurrent
    for near in sorted(range(len(records)), key=lambda other: abs(other - place)):
        other = records[near]
        if other is None or other.record_type not in _ANSWERS or not any(one in other.head for one in named):
            continue
        found = _names(other)
        if found.own & names.concurrent or found.concurrent & names.own:
            return near
    return None


def _adjacent(records: Sequence[RecordHeader | None], place: int, *, is_beginning: bool) -> int | None:
    """Return the place of the response that makes a pair with the request, by URL, date and neighbourhood.

    Of several pairs of one URL and second in a row, the records belong together two by two from the first
    one on; so nothing is returned if the beginning of the row is not among the records.
    """
    first = last = place
    while first and _is_same_visit(records[first - 1], records[place]):
        first -= 1
    if first == 0 and not is_beginning:
        return None
    while last + 1 < len(records) and _is_same_visit(records[last + 1], records[place]):
        last += 1
    waiting: int | None = None
    for number in range(first, last + 1):
        if waiting is None or _is_request(records[waiting]) == _is_request(records[number]):
            waiting = number
        elif place in {waiting, number}:
            return waiting + number - place
        else:
            waiting = None
    return None


def _is_request(header: RecordHeader | None) -> bool:
    return header is not None and header.record_type == "request"


def _is_same_visit(one: RecordHeader | None, other: RecordHeader | None) -> bool:
    if one is None or other is None or not (_is_request(one) or one.record_type in _ANSWERS):
        return False
    return (one.target, one.date) == (other.target, other.date)

"""Lists: empty pages, early ends, wrong sizes, records listed twice."""

import itertools
import re
from collections.abc import Callable, Sequence
from dataclasses import replace

from harvester.vocabulary import RunStatus
from oai.errors import ExitCode
from tests.harvester.fake_repository import FakeRepository, Item
from tests.harvester.hostile.faults import at_page, in_lists, to_verb
from tests.harvester.hostile.scenario import (
    ITEMS,
    POISON,
    WHOLE,
    Scenario,
    all_of,
    left_out,
    limited,
    one_lost,
    scenario,
    stopped,
    stopped_at_end,
)
from tests.harvester.hostile.server import Ask, Fault, Reply

_SIZE = re.compile(rb' completeListSize="\d+"')
_NO_RECORDS = FakeRepository(items=[]).answer({"verb": "ListRecords"}).encode()


def _size(choose: Callable[[Ask], bytes]) -> Fault:
    return to_verb("ListRecords", lambda ask: _SIZE.sub(choose(ask), ask.good))


def _empty_between(count: int, *, error: bool = False) -> Fault:
    """Insert pages without records between the first page and the second."""

    def page(token: bytes) -> bytes:
        if error:
            return _NO_RECORDS.replace(
                b"</OAI-PMH>", b"<resumptionToken>" + token + b"</resumptionToken></OAI-PMH>"
            )
        entries = b"<ListRecords><resumptionToken>" + token + b"</resumptionToken></ListRecords>"
        return re.sub(rb"<error.*</error>", entries, _NO_RECORDS)

    def fault(ask: Ask) -> bytes | None:
        token = ask.arguments.get("resumptionToken", "")
        if token.startswith("empty"):
            number = int(token.removeprefix("empty"))
            return page(b"10|||" if number == count else b"empty%d" % (number + 1))
        if ask.verb == "ListRecords" and ask.offset == 0:
            return ask.good.replace(b">10|||<", b">empty1<")
        return None

    return fault


def _extra_token(answer: bytes | None) -> Fault:
    """Add a token to the last page, which gets this answer; None for badResumptionToken."""

    def fault(ask: Ask) -> bytes | None:
        if ask.arguments.get("resumptionToken") == "beyond":
            return answer
        return ask.good.replace(b"></resumptionToken>", b">beyond</resumptionToken>")

    return fault


def _overlap(good: bytes) -> bytes:
    """Start the second page with the last two records of the first."""
    again = "".join(item.record() for item in ITEMS[8:10]).encode()
    return good.replace(b"<ListRecords>", b"<ListRecords>" + again)


def _twice(good: bytes) -> bytes:
    record = POISON.record().encode()
    return good.replace(record, record + record)


def _outdated(good: bytes) -> bytes:
    """End the last page with the poisoned record as it was a year earlier."""
    older = replace(POISON, datestamp="2023-01-01T10:00:00Z", title="As it was").record().encode()
    return good.replace(b"<resumptionToken", older + b"<resumptionToken")


def _instead_of_poison(ask: Ask) -> bytes | None:
    """Repeat a record of the first page in place of another, so that the count is right."""
    if ask.verb == "GetRecord" and POISON.identifier == ask.arguments.get("identifier"):
        return ask.good.replace(POISON.record().encode(), b"")
    poison = POISON.header() if ask.verb == "ListIdentifiers" else POISON.record()
    other = ITEMS[5].header() if ask.verb == "ListIdentifiers" else ITEMS[5].record()
    return ask.good.replace(poison.encode(), other.encode())


def _moved_while_listed() -> Fault:
    """Change the first record after the first page: it moves to the end, and the next page skips one."""
    moved = replace(ITEMS[0], datestamp="2024-05-01T10:00:00Z")
    later = FakeRepository(items=[*ITEMS[1:], moved], sizes=False)

    def fault(ask: Ask) -> bytes | None:
        changed = ask.offset > 0 or (ask.offset == 0 and ask.times > 0)
        return later.answer(dict(ask.arguments)).encode() if changed else None

    return fault


def _endless(answer: Callable[[Ask, int], bytes]) -> Fault:
    """Give each page after the first one a new token, so that no page is the last."""
    asked = itertools.count(1)

    def fault(ask: Ask) -> bytes | None:
        if ask.verb != "ListRecords":
            return None
        number = next(asked)
        body = re.sub(rb"<resumptionToken.*</resumptionToken>", b"", answer(ask, number))
        token = b"<resumptionToken>%d|||x%d</resumptionToken></ListRecords>" % (10 * number, number)
        return body.replace(b"</ListRecords>", token)

    return fault


def _listing(items: Sequence[Item]) -> bytes:
    return FakeRepository(items=list(items), page_size=len(items)).answer({"verb": "ListRecords"}).encode()


def _in_rotation(_ask: Ask, number: int) -> bytes:
    """Repeat the list endlessly, with pages that start elsewhere each time."""
    return _listing([ITEMS[place % len(ITEMS)] for place in range(10 * number - 10, 10 * number)])


def _last_page(_ask: Ask, number: int) -> bytes:
    return _listing(ITEMS[10 * number - 10 : 10 * number] or ITEMS[20:])


def _nothing_more(ask: Ask, number: int) -> bytes:
    return ask.good if number == 1 else _EMPTY_LIST


def _sparse(count: int) -> Fault:
    """Insert pages without records after the first page, with an advancing cursor."""
    empty = _empty_between(count)

    def fault(ask: Ask) -> Reply | bytes | None:
        body = empty(ask)
        number = ask.arguments.get("resumptionToken", "").removeprefix("empty")
        if not isinstance(body, bytes) or not number.isdigit():
            return body
        return body.replace(b"<resumptionToken>", b'<resumptionToken cursor="%d">' % (10 + int(number)))

    return fault


_FIRST_TEN = frozenset(item.identifier for item in ITEMS[:10])
_BEHIND = frozenset(item.identifier for item in ITEMS) - _FIRST_TEN
_EMPTY_LIST = re.sub(rb"<error.*</error>", b"<ListRecords></ListRecords>", _NO_RECORDS)
_EMPTY_AGAIN = _EMPTY_LIST.replace(
    b"</ListRecords>", b"<resumptionToken>beyond</resumptionToken></ListRecords>"
)
_UNSIZED = {"sizes": False}

SCENARIOS: tuple[Scenario, ...] = (
    scenario("empty-page", "a page without records, but with a token", lambda: _empty_between(1), WHOLE,
        stopped(10)),
    scenario("empty-pages", "thirty pages without records, each with a token",
        lambda: _empty_between(30), WHOLE, stopped(10)),
    scenario("no-records-with-token", "noRecordsMatch in the middle, with a token to go on by",
        lambda: _empty_between(2, error=True), WHOLE, stopped(10), notable=True),
    scenario("no-records-for-page", "noRecordsMatch in place of the second page, however it is asked for",
        lambda: at_page(10, lambda _ask: _NO_RECORDS), WHOLE, stopped_at_end(15), notable=True),
    scenario("no-records-at-end", "the last page has a token, which is answered by noRecordsMatch",
        lambda: _extra_token(_NO_RECORDS), WHOLE),
    scenario("empty-list-at-end", "the last page has a token, which is answered by an empty list",
        lambda: _extra_token(_EMPTY_LIST), WHOLE, stopped(25)),
    scenario("empty-page-again-at-end", "the last page has a token, which leads to an empty page with it",
        lambda: _extra_token(_EMPTY_AGAIN), WHOLE, stopped(25), notable=True, most_requests=7),
    scenario("empty-page-again-at-end-unsized", "the same without completeListSize",
        lambda: _extra_token(_EMPTY_AGAIN), left_out(0), stopped(25), server=_UNSIZED, most_requests=7),
    scenario("token-at-end-refused", "the last page has a token, which is refused",
        lambda: _extra_token(None), WHOLE, notable=True, most_requests=5),
    scenario("token-at-end-refused-unsized", "the same without completeListSize",
        lambda: _extra_token(None), left_out(0), stopped_at_end(0), items=(*ITEMS[5:], *ITEMS[:5]),
        server=_UNSIZED, most_requests=9),
    scenario("nothing-at-all", "noRecordsMatch for the whole repository",
        lambda: lambda _ask: None, replace(all_of(0), status=RunStatus.NO_CHANGES), items=()),
    scenario("size-missing", "no completeListSize", lambda: _size(lambda _ask: b""), WHOLE),
    scenario("size-too-large", "completeListSize says 30 of 25",
        lambda: _size(lambda _ask: b' completeListSize="30"'), left_out(0), stopped_at_end(0)),
    scenario("size-too-small", "completeListSize says 5 of 25",
        lambda: _size(lambda _ask: b' completeListSize="5"'), WHOLE),
    scenario("size-zero", "completeListSize is 0",
        lambda: _size(lambda _ask: b' completeListSize="0"'), WHOLE, stopped(0)),
    scenario("size-negative", "completeListSize is -1",
        lambda: _size(lambda _ask: b' completeListSize="-1"'), WHOLE, stopped(0)),
    scenario("size-of-page", "completeListSize counts the page's own records",
        lambda: _size(lambda ask: b' completeListSize="%d"' % ask.good.count(b"<record>")), WHOLE),
    scenario("size-growing", "completeListSize grows to the right number on the way",
        lambda: _size(lambda ask: b' completeListSize="%d"' % (5 + ask.offset)), WHOLE),
    scenario("size-shrinking", "completeListSize shrinks to the right number on the way",
        lambda: _size(lambda ask: b' completeListSize="%d"' % (45 - ask.offset)), WHOLE),
    scenario("overlapping-pages", "the second page begins with two records of the first",
        lambda: at_page(10, lambda ask: _overlap(ask.good)), WHOLE),
    scenario("record-twice", "one record comes twice in a page", lambda: in_lists(_twice), WHOLE),
    one_lost("repeated-in-place", "one record comes again in the place of another; the count is right",
        lambda: _instead_of_poison, stopped_at_end(1)),
    scenario("moved-while-listed", "a record changes while a list from a date is read, so a page skips one",
        _moved_while_listed, WHOLE, server=_UNSIZED, parameters={"harvest_from": "2000-01-01"}, notable=True,
        most_requests=7),
    scenario("older-version-last", "a record comes again on a later page as it was a year before",
        lambda: at_page(20, lambda ask: _outdated(ask.good)), WHOLE, notable=True),
    scenario("older-version-in-page", "a record comes twice in a page, the second time as it was before",
        lambda: at_page(10, lambda ask: _outdated(ask.good)), WHOLE, notable=True),
    scenario("same-page-for-ever", "every page has the records of the first one, and a new token",
        lambda: _endless(lambda _ask, _number: _listing(ITEMS[:10])), limited(10, ExitCode.REMOTE_FAILED),
        limited(10, ExitCode.STRICT_CHECK), lost=_BEHIND, most_requests=25),
    scenario("last-page-for-ever", "the last page repeats endlessly, each time with a new token",
        lambda: _endless(_last_page), limited(25, ExitCode.REMOTE_FAILED),
        limited(25, ExitCode.STRICT_CHECK), most_requests=27),
    scenario("list-in-rotation", "the list repeats endlessly, with new tokens and on other pages",
        lambda: _endless(_in_rotation), limited(25, ExitCode.REMOTE_FAILED),
        limited(25, ExitCode.STRICT_CHECK), most_requests=27),
    scenario("empty-pages-for-ever", "behind the first page all pages are empty, each with a new token",
        lambda: _endless(_nothing_more), limited(10, ExitCode.REMOTE_FAILED),
        stopped(10), lost=_BEHIND, most_requests=105),
    scenario("empty-pages-with-cursor", "three hundred pages without records, over which the cursor advances",
        lambda: _sparse(300), WHOLE, stopped(10)),
)  # fmt: skip

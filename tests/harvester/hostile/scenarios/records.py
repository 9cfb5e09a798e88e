"""Records: missing parts, invalid datestamps, deletions that were not announced."""

import re
from dataclasses import replace

from harvester.vocabulary import Method
from tests.harvester.fake_repository import FakeRepository, Item
from tests.harvester.hostile.faults import Edit, each_of, edited, in_record, instead, status, to_verb, whole
from tests.harvester.hostile.scenario import (
    ITEMS,
    POISON,
    WHOLE,
    Scenario,
    Truth,
    all_of,
    one_lost,
    remote_failed,
    scenario,
    stopped,
)
from tests.harvester.hostile.server import Ask, Fault, Reply

_STAMP = f"<datestamp>{POISON.datestamp}</datestamp>"
_IDENTIFIER = f"<identifier>{POISON.identifier}</identifier>"
_GOOD = FakeRepository(items=list(ITEMS), now="2024-06-01T12:00:00Z")
_DELETED = [replace(item, deleted=True) if item is POISON else item for item in ITEMS]


def _without(opening: str, closing: str) -> Edit:
    def edit(record: bytes) -> bytes:
        begin, end = record.index(opening.encode()), record.index(closing.encode()) + len(closing)
        return record[:begin] + record[end:]

    return edit


def _dated(stamp: str) -> list[Item]:
    return [replace(item, datestamp=stamp) if item is POISON else item for item in ITEMS]


def _refuses_seconds(ask: Ask) -> bytes | None:
    if "T" not in ask.arguments.get("from", ""):
        return None
    begin = ask.good.index(b"<ListRecords>") if b"<ListRecords>" in ask.good else ask.good.index(b"<error")
    return ask.good[:begin] + b'<error code="badArgument">from is no date</error></OAI-PMH>'


def _all_days(ask: Ask) -> bytes | None:
    """Answer like a server that ignores `from`."""
    arguments = {name: value for name, value in ask.arguments.items() if name != "from"}
    return _GOOD.answer(arguments).encode() if "from" in ask.arguments else None


def _response_date(date: str) -> Edit:
    return instead("2024-06-01T12:00:00Z</responseDate>", f"{date}</responseDate>")


_LACKS = (
    ("no-metadata", "no metadata and is not deleted", _without("<metadata>", "</metadata>")),
    ("empty-metadata", "empty metadata", _without("<oai_dc:dc", "</oai_dc:dc>")),
    ("no-header", "no header", _without("<header>", "</header>")),
    ("no-identifier", "no identifier", instead(_IDENTIFIER, "")),
    ("blank-identifier", "a blank identifier", instead(_IDENTIFIER, "<identifier> </identifier>")),
    ("markup-in-identifier", "markup within its identifier",
        instead(_IDENTIFIER, "<identifier>oai:<b>x</b></identifier>")),
    ("long-set-spec", "a setSpec of 10,000 characters",
        instead("</header>", f"<setSpec>{'s' * 10_000}</setSpec></header>")),
    ("metadata-twice", "metadata twice",
        lambda record: record.replace(b"</record>", b"<metadata><x/></metadata></record>")),
)  # fmt: skip

_UNIDENTIFIED: tuple[tuple[str, str, Fault, Truth], ...] = (
    ("broken", "Identify has a bare ampersand",
        edited(instead("<repositoryName>", "<repositoryName>A & B")), stopped(0)),
    ("html", "Identify is answered by an HTML page",
        whole(b"<!DOCTYPE html><html>Welcome</html>"), remote_failed(0)),
    ("500", "HTTP 500 for Identify", status(500), remote_failed(0)),
)  # fmt: skip

SCENARIOS: tuple[Scenario, ...] = (
    *(
        one_lost(name, f"one record has {about}", lambda edit=edit: in_record(POISON, edit))  # type: ignore[misc]
        for name, about, edit in _LACKS
    ),
    *(
        scenario(name, f"one record has {about}", lambda edit=edit: in_record(POISON, edit),  # type: ignore[misc]
            WHOLE, stopped(10), notable=True)
        for name, about, edit in (
            ("no-datestamp", "no datestamp", instead(_STAMP, "")),
            ("blank-datestamp", "a blank datestamp", instead(_STAMP, "<datestamp/>")),
        )
    ),
    scenario("no-datestamps-by-identifiers", "no record has a datestamp; harvested by ListIdentifiers",
        lambda: edited(lambda good: re.sub(rb"<datestamp>.*?</datestamp>", b"<datestamp/>", good)),
        WHOLE, stopped(0), parameters={"method": Method.IDENTIFIERS}, notable=True),
    *(
        scenario(f"datestamp-{name}", f"one record's datestamp is {about}", lambda: lambda _ask: None,
            WHOLE, strict, items=_dated(stamp))
        for name, about, stamp, strict in (
            ("day", "a day, in a repository of seconds", "2024-01-13", WHOLE),
            ("fraction", "written with a fraction", "2024-01-13T10:00:00.123Z", WHOLE),
            ("offset", "in local time", "2024-01-13T10:00:00+01:00", stopped(10)),
            ("impossible", "an impossible date", "2024-02-31T10:00:00Z", stopped(10)),
            ("future", "in the future", "2199-01-01T00:00:00Z", WHOLE),
            ("words", "in words", "yesterday", stopped(10)),
        )
    ),
    scenario("from-ignored", "the server does not look at `from`", lambda: _all_days, WHOLE,
        parameters={"harvest_from": "2024-01-05"}),
    scenario("seconds-refused", "Identify says seconds; a `from` with seconds is a badArgument",
        lambda: _refuses_seconds, all_of(20), parameters={"harvest_from": "2024-01-06T00:00:00Z"},
        lost=frozenset(item.identifier for item in ITEMS[:5]), notable=True),
    *(
        scenario(f"response-date-{name}", f"responseDate is {about}", lambda date=date:  # type: ignore[misc]
            edited(_response_date(date)), WHOLE, WHOLE if watermark else stopped(0),
            watermark=watermark, notable=watermark is None)
        for name, about, date, watermark in (
            ("local", "in local time", "2024-06-01T14:00:00+02:00", "2024-06-01T12:00:00Z"),
            ("fraction", "written with a fraction", "2024-06-01T12:00:00.539Z", "2024-06-01T12:00:00Z"),
            ("empty", "empty", "", None),
            ("words", "in words", "Sat Jun 1 12:00:00 CEST 2024", None),
        )
    ),
    *(
        scenario(f"granularity-{name}", f"Identify's granularity is {about}",
            lambda text=text: to_verb("Identify", edited(  # type: ignore[misc]
                instead("YYYY-MM-DDThh:mm:ssZ</gran", text + "</gran"))), WHOLE)
        for name, about, text in (
            ("empty", "empty", ""), ("lower-case", "in lower case", "yyyy-mm-ddthh:mm:ssz"),
            ("nonsense", "nonsense", "seconds"),
        )
    ),
    scenario("deletions-not-announced", "Identify says deletedRecord `no`, and one record is deleted",
        lambda: to_verb("Identify", edited(instead("persistent", "no"))),
        all_of(24, deleted=1), items=_DELETED),
    scenario("deleted-in-capitals", "the status of a deleted record is written `Deleted`",
        lambda: edited(lambda good: good.replace(b'status="deleted"', b'status="Deleted"')),
        all_of(24, deleted=1), stopped(10), items=_DELETED),
    scenario("deleted-with-metadata", "a deleted record comes with its metadata",
        lambda: in_record(POISON, instead("<header>", '<header status="deleted">')),
        all_of(24, deleted=1), lost=frozenset({POISON.identifier})),
    scenario("status-unknown", "a header has a status that the protocol does not know",
        lambda: in_record(POISON, instead("<header>", '<header status="active">')), WHOLE, stopped(10)),
    scenario("identify-broken", "Identify has a bare ampersand, lists are good",
        lambda: to_verb("Identify", edited(instead("<repositoryName>", "<repositoryName>A & B"))),
        WHOLE, stopped(0), notable=True),
    *(
        one_lost(f"identify-{name}-and-a-record", f"{about}, and one record has a bare ampersand",
            lambda fault=fault: each_of(  # type: ignore[misc]
                to_verb("Identify", fault), in_record(POISON, instead("<dc:title>", "<dc:title>A & B"))),
            strict)
        for name, about, fault, strict in _UNIDENTIFIED
    ),
    scenario("identify-empty", "Identify says nothing at all",
        lambda: to_verb("Identify", lambda ask: Reply(
            body=ask.good[: ask.good.index(b"<repositoryName>")] + b"</Identify></OAI-PMH>")), WHOLE),
)  # fmt: skip

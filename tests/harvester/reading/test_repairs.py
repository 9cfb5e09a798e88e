"""Broken records are repaired only as configured and only if they become readable, with a note."""

from collections.abc import Sequence

import pytest

from harvester.reading.errors import MalformedAnswerError
from harvester.reading.repairs import Repair, propose, repair
from harvester.reading.replies import Unread, read_page
from oai.vocabulary import OAI_NAMESPACE, REPAIRED_NAMESPACE, Verb

URL = "https://repository.example/oai"
AMPERSAND, CONTROL = Repair.AMPERSAND, Repair.CONTROL


def record(number: int, text: bytes) -> bytes:
    header = b"<header><identifier>x:%d</identifier><datestamp>2026-01-01</datestamp></header>" % number
    content = b'<a xmlns="urn:a"><t>%b</t></a>' % text
    return b"<record>" + header + b"<metadata>" + content + b"</metadata></record>"


def answer(*records: bytes) -> bytes:
    return (
        (
            f'<OAI-PMH xmlns="{OAI_NAMESPACE}"><responseDate>2026-01-01T00:00:00Z</responseDate>'
            f'<request verb="ListRecords">{URL}</request><ListRecords>'
        ).encode()
        + b"".join(records)
        + b"</ListRecords></OAI-PMH>"
    )


@pytest.mark.parametrize(
    ("chosen", "raw", "expected"),
    [
        ([AMPERSAND], b"x & y &amp; &#38; &lt; &co; &1;", b"x &amp; y &amp; &#38; &lt; &co; &amp;1;"),
        ([Repair.ENTITY], b"a&nbsp;b &eacute; &amp; &lt; &strange;", b"a&#160;b &#233; &amp; &lt; &strange;"),
        ([CONTROL], b"a\x0bb\x00 &#11; &#x1F; &#10; &#x0d;\t", b"ab   &#10; &#x0d;\t"),
        ([Repair.ANGLE], b"1 < 2 <a/> <!-- --> </a> <? ?>", b"1 &lt; 2 <a/> <!-- --> </a> <? ?>"),
        ([Repair.WINDOWS_1250], "Příliš žluťoučký".encode("windows-1250"), "Příliš žluťoučký".encode()),
        ([Repair.WINDOWS_1252], "Göteborg".encode("windows-1252"), "Göteborg".encode()),
        ([Repair.WINDOWS_1250], "Příliš".encode(), "Příliš".encode()),
        ([], b"x & y", b"x & y"),
    ],
    ids=["ampersand", "entity", "control", "angle", "1250", "1252", "utf-8", "none"],
)
def test_each_repair_changes_what_it_names(chosen: Sequence[Repair], raw: bytes, expected: bytes) -> None:
    assert repair(raw, chosen).raw == expected


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (b"x & y", (AMPERSAND,)),
        (b"x\x0b & y", (CONTROL, AMPERSAND)),
        (b"x&nbsp;y < 3", (Repair.ENTITY, Repair.ANGLE)),
        (b"<b>x", None),
        (b"fine", None),
    ],
    ids=["one", "two", "others", "unclosed", "fine"],
)
def test_the_fewest_repairs_are_proposed(text: bytes, expected: tuple[Repair, ...] | None) -> None:
    found = propose(record(1, text))
    assert (found and found.repairs) == expected


@pytest.mark.parametrize("loose", [True, False])
def test_a_repaired_record_is_read_and_noted(loose: bool) -> None:  # noqa: FBT001 a parameter
    body = answer(record(1, b"fine"), record(2, b"x & y"), record(3, b"fine"))
    page = read_page(body, Verb.LIST_RECORDS, url=URL, loose=loose, repairs=(AMPERSAND, CONTROL))
    assert [header.identifier for header in page.headers] == ["x:1", "x:2", "x:3"]
    assert list(page.faults) == []
    assert page.notes[0] == "record 'x:2' was repaired on arrival: ampersand"
    marks = [one.element.findtext(f".//{{{REPAIRED_NAMESPACE}}}repaired") for one in page.records]
    assert marks == [None, "ampersand", None]
    assert b"x &amp; y" in page.records[1].xml()


def test_no_record_is_repaired_unless_configured() -> None:
    body = answer(record(1, b"x & y"), record(2, b"fine"))
    for repairs in ((), (CONTROL,)):
        page = read_page(body, Verb.LIST_RECORDS, url=URL, loose=True, repairs=repairs)
        assert ([one.identifier for one in page.headers], len(page.faults)) == (["x:2"], 1)
        with pytest.raises(MalformedAnswerError):
            read_page(body, Verb.LIST_RECORDS, url=URL, repairs=repairs)


def test_a_record_that_stays_broken_is_rejected_with_its_original_bytes() -> None:
    body = answer(record(1, b"x & <b>y"), record(2, b"x & y"))
    page = read_page(body, Verb.LIST_RECORDS, url=URL, loose=True, repairs=(AMPERSAND,))
    assert [one.identifier for one in page.headers] == ["x:2"]
    assert b"x & <b>y" in page.faults[0].raw


@pytest.mark.parametrize(
    ("before", "repairs"),
    [
        (b"", (AMPERSAND,)),
        (b"Notice: debug\n", ()),
        (b"Notice: debug\n", (AMPERSAND,)),
        (b'<?xml version="1.0"?>\n<!DOCTYPE OAI-PMH>\n', ()),
    ],
    ids=["repaired", "preceded", "both", "doctype"],
)
def test_faults_have_their_offset_in_the_answer_as_received(before: bytes, repairs: Sequence[Repair]) -> None:
    texts = [b"fine", b"x & y", b"\x02", b"x & & y", b"fine", b"\x01", b"x & y", b"\x02"]
    body = before + answer(*(record(number, text) for number, text in enumerate(texts)))
    page = read_page(body, Verb.LIST_RECORDS, url=URL, loose=True, repairs=tuple(repairs))
    broken = [2, 5, 7] if repairs else [1, 2, 3, 5, 6, 7]
    assert [fault.raw for fault in page.faults] == [record(number, texts[number]) for number in broken]
    assert all(body[fault.offset :].startswith(fault.raw) for fault in page.faults)
    cut_off = read_page(body[:-40], Verb.LIST_RECORDS, url=URL, loose=True, repairs=tuple(repairs))
    assert body[cut_off.faults[-1].offset :].startswith(record(7, b"\x02"))


def test_a_large_answer_is_repaired_in_parts() -> None:
    body = answer(*(record(number, b"x & y" if number % 2 else b"fine") for number in range(20)))
    unread = Unread(body, Verb.LIST_RECORDS, URL, "text/xml", True, repairs=(AMPERSAND,)).in_parts()  # noqa: FBT003
    parts = list(unread.split().parts)
    pages = [unread.of(part).read() for part in parts]
    assert sum(len(page.records) for page in pages) == 20
    assert [fault for part in parts for fault in part.faults] == []
    assert sum("repaired on arrival" in note for part in parts for note in part.notes) == 10


def test_each_part_of_a_large_answer_notes_the_repairs_of_its_own_records() -> None:
    body = answer(*(record(number, b"x & y") for number in range(2000)))
    unread = Unread(body, Verb.LIST_RECORDS, URL, "text/xml", True, repairs=(AMPERSAND,)).in_parts()  # noqa: FBT003
    parts = list(unread.split().parts)
    assert len(parts) > 1
    assert sum("repaired on arrival" in note for part in parts for note in part.notes) == 2000

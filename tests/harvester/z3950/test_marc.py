"""ISO 2709 converted to MARCXML."""

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pymarc import Field, Indicators, Record, Subfield
from pymarc.marc8 import marc8_to_unicode

from harvester.client.query_results import MARC21_NAMESPACE
from harvester.z3950.client import UnreadableMarcError, marcxml, readable_records, split

TITLE = "Český slabikář"


def exchanged(title: str = TITLE, *, coding: str = "a") -> bytes:
    control = Field(tag="001", data="nkc1")
    subfields = [Subfield(code="a", value=title)]
    named = Field(tag="245", indicators=Indicators("1", "0"), subfields=subfields)
    record = Record(fields=[control, named], leader=f"00000nam {coding}2200000 a 4500", force_utf8=True)
    data: bytes = record.as_marc()
    return data[:9] + coding.encode() + data[10:]


def structured(
    title: bytes = b"10\x1faTitle", *, coding: bytes = b"a", second: bytes = b"245%04d%05d", more: bytes = b""
) -> bytes:
    """Return a record whose second directory entry, title and further data can be wrong."""
    fields = b"nkc1\x1e" + title + b"\x1e"
    directory = b"001000500000" + (second % (len(title) + 1, 5) if b"%" in second else second) + b"\x1e"
    base = 24 + len(directory)
    length = base + len(fields) + len(more) + 1
    return b"%05dnam %b22%05d a 4500" % (length, coding, base) + directory + fields + more + b"\x1d"


def in_marc_8(text: bytes) -> bytes:
    return structured(b"10\x1fa" + text, coding=b" ")


def title_of(data: bytes) -> str | None:
    return marcxml(data).findtext(f".//{{{MARC21_NAMESPACE}}}subfield")


def test_utf_8_is_read_whatever_the_leader_says() -> None:
    assert title_of(exchanged()) == TITLE
    assert title_of(exchanged(coding=" ")) == TITLE


def test_marc_8_is_read() -> None:
    # In MARC-8 a combining acute (E2) and a caron (E9) stand before their letters (ANSEL).
    data = exchanged("XXesky slabikXar", coding=" ")
    ansel = data.replace(b"XXesky", b"\xe9Cesky").replace(b"Xar", b"\xe2ar")
    found = title_of(ansel)
    assert found is not None
    assert found in {"Česky slabikár", "C\u030cesky slabika\u0301r"}


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (b"\xe9Cesk\xe2y, Ko\xe8ln, \xeet\xedo", None),
        (b"i\xebi\xeca \xb0 \xae \xa1 \xc7 \xe2\xe5o", None),
        (b"\x1b(NkNIGA, 1999\x1b(B = Kniga", None),
        (b"\x1b(S\x22a\x61\x1bs \x1bga\x1bs H\x1bb2\x1bsO x\x1bp2\x1bs", None),
        (b"\x1b(2a`b \x41a\x1b(B \x1b(3A\x1b)4\xa1\x1b(B", None),
        (b"\x1b$1!0d!0=!#!\x1b(B \xe2e", None),
        (b"\x1b)Q\xc0\x1b)E\xe2e", None),
        (b"\x1b(Q\x40\x1b(B\x1b)N\xeb\x1b)!E\xe2e", "\u0491\u041aé"),
        (b"\x88The \x89title", "\x98The \x9ctitle"),
        (b"\x1b(NNI NI\x1b$1 !0d", "ни ни 人"),
    ],
)
def test_each_character_set_of_marc_8_is_read(text: bytes, expected: str | None) -> None:
    """As read by pymarc if no text is given."""
    assert title_of(in_marc_8(text)) == (expected or marc8_to_unicode(text))


@pytest.mark.parametrize(
    "text",
    [
        "König Müller Straße".encode("latin-1"),
        "Žluťoučký kůň".encode("cp1250"),
        b"Caf\xe9",
        b"Caf\xe9 noir",
        b"Caf\xe9, noir",
        b"\x1b(NkNIGA \xe9",
        b"\x1b$1!0d!0",
        b"\x1b$1JJJ",
        b"\x1b(Xtext",
        b"text\x1b",
        b"text \xff",
    ],
)
def test_bytes_that_marc_8_does_not_define_are_rejected(text: bytes) -> None:
    with pytest.raises(UnreadableMarcError, match="not a MARC 21 record: field 245"):
        marcxml(in_marc_8(text))


@pytest.mark.parametrize(
    ("data", "reason"),
    [
        (structured(second=b"245001199999"), "entry 245001199999 does not give the exact place"),
        (structured(second=b"245000600005"), "entry 245000600005 does not give the exact place"),
        (structured(second=b"245000300012"), "entry 245000300012 does not give the exact place"),
        (structured(second=b"245000500000"), "entry 245000500000 does not give the exact place"),
        (structured(second=b""), "no entry for the data at position 5"),
        (structured(more=b"  \x1faLost\x1e"), "no entry for the data at position 15"),
        (structured(more=b"Lost"), "no entry for the data at position 15"),
        (structured(second=b"2450010"), "no directory with entries of 12 bytes"),
        (structured()[:-4], "the leader gives 65 bytes, but it has 61"),
        (structured(b"10Text\x1faTitle"), "field 245: b'10Text' is not two indicators before a subfield"),
        (structured(b"10aTitle"), "field 245: b'10aTitle' is not two indicators before a subfield"),
        (structured(b"BK"), "field 245: b'BK' is not two indicators before a subfield"),
        (structured(b"10\x1f\xc3\xa1Title"), "field 245: 'ascii' codec can't decode"),
    ],
)
def test_a_structure_that_would_lose_text_is_rejected(data: bytes, reason: str) -> None:
    with pytest.raises(UnreadableMarcError, match=re.escape(reason)):
        marcxml(data)


def test_a_tag_of_letters_without_subfields_is_a_control_field() -> None:
    for content, name in ((b"BK", "controlfield"), (b"  \x1faBK", "datafield")):
        field = marcxml(structured(content, second=b"FMT%04d%05d"))[-1]
        assert (field.tag, field.get("tag")) == (f"{{{MARC21_NAMESPACE}}}{name}", "FMT")
        assert "".join(map(str, field.itertext())) == "BK"


def test_a_field_that_only_lacks_indicators_or_content_is_read() -> None:
    assert title_of(structured(b"\x1faTitle")) == "Title"
    assert marcxml(structured(b"  "))[-1].get("tag") == "245"


def test_only_the_broken_record_is_lost() -> None:
    data = exchanged("One") + b"garbage\x1d" + exchanged("Two") + b"00100na"
    found = list(readable_records(data))
    assert [metadata is not None for _, metadata, _ in found] == [True, False, True, False]
    assert all(reason for _, metadata, reason in found if metadata is None)


def test_characters_that_xml_does_not_allow_are_rejected() -> None:
    with pytest.raises(UnreadableMarcError):
        marcxml(exchanged("a\x02b"))


@given(st.lists(st.binary(max_size=200), max_size=5))
def test_no_byte_is_lost_and_no_error_is_raised(parts: list[bytes]) -> None:
    data = b"".join(part + b"\x1d" for part in parts)
    assert b"".join(split(data)) == data
    for _, metadata, reason in readable_records(data):
        assert (metadata is None) == bool(reason)

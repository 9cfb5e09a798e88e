"""ISO 2709 into MARCXML."""

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pymarc import Field, Indicators, Record, Subfield

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


def test_a_broken_record_costs_itself_alone() -> None:
    data = exchanged("One") + b"garbage\x1d" + exchanged("Two") + b"00100na"
    found = list(readable_records(data))
    assert [metadata is not None for _, metadata, _ in found] == [True, False, True, False]
    assert all(reason for _, metadata, reason in found if metadata is None)


def test_what_xml_cannot_hold_is_refused() -> None:
    with pytest.raises(UnreadableMarcError):
        marcxml(exchanged("a\x02b"))


@given(st.lists(st.binary(max_size=200), max_size=5))
def test_no_byte_is_lost_and_nothing_breaks(parts: list[bytes]) -> None:
    data = b"".join(part + b"\x1d" for part in parts)
    assert b"".join(split(data)) == data
    for _, metadata, reason in readable_records(data):
        assert (metadata is None) == bool(reason)

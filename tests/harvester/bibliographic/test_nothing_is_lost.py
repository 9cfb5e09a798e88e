"""Converting any record raises no error, and every value is in the result."""

import dataclasses
import json

from hypothesis import example, given
from hypothesis import strategies as st
from lxml import etree

from harvester.bibliographic.batches import texts_of
from harvester.bibliographic.dublin_core import DublinCoreConverter
from harvester.bibliographic.marc21.converter import Marc21Converter
from harvester.bibliographic.record import BibliographicRecord
from harvester.bibliographic.text import fold

_TEXTS = st.text(
    st.characters(codec="utf-8", exclude_categories=["Cs", "Cc", "Cn"], exclude_characters="\ufffe\uffff"),
    max_size=20,
)
_WORDS = st.one_of(
    st.text("abčřžšdeXV0123456789 .,:;/=-[]()$#|", max_size=25),
    st.sampled_from(
        ["880-01", "245-01", "700-01/(N", "1998-", "80-200-0129-8", "cze", "15. století", "9999"]
    ),
    _TEXTS,
)


def _list(words: str) -> list[str]:
    """Return the words of a text."""
    return words.split()


_TAGS = st.one_of(
    st.sampled_from(
        _list(
            "001 003 008 020 022 024 041 072 080 100 110 111 130 240 245 246 250 260 264 300 440 490 "
            "500 505 600 611 630 650 653 655 659 700 710 711 720 740 773 780 800 830 856 880 999"
        )
    ),
    st.text("0123456789Xa ", max_size=4),
)
_INDICATORS = st.sampled_from([" ", "0", "1", "2", "4", "7", "#", "x", "", "12"])
_CODES = st.one_of(st.sampled_from("abcdefghijklmnopqrstuvwxyz0123456789"), st.sampled_from(["", "ab", "$"]))
_SUBFIELDS = st.lists(st.tuples(_CODES, _WORDS), max_size=5)
_FIELDS = st.lists(st.tuples(_TAGS, _INDICATORS, _INDICATORS, _SUBFIELDS), max_size=12)
_LINKS = frozenset("6")


def _element(leader: str, fields: list[tuple[str, str, str, list[tuple[str, str]]]]) -> etree._Element:
    root = etree.Element("{http://www.loc.gov/MARC21/slim}record")
    etree.SubElement(root, "{http://www.loc.gov/MARC21/slim}leader").text = leader
    for tag, first, second, subfields in fields:
        if tag < "010":
            control = etree.SubElement(root, "{http://www.loc.gov/MARC21/slim}controlfield", tag=tag)
            control.text = "".join(value for _, value in subfields)
            continue
        field = etree.SubElement(
            root, "{http://www.loc.gov/MARC21/slim}datafield", tag=tag, ind1=first, ind2=second
        )
        for code, value in subfields:
            etree.SubElement(field, "{http://www.loc.gov/MARC21/slim}subfield", code=code).text = value
    return root


def _said(record: BibliographicRecord) -> set[str]:
    """Return every folded word in the record's columns and notes."""
    return set(fold(json.dumps(dataclasses.asdict(record), ensure_ascii=False)).split())


def _values(fields: list[tuple[str, str, str, list[tuple[str, str]]]]) -> set[str]:
    """Return every folded word in the fields, except links between them and codes that are translated."""
    found: set[str] = set()
    for tag, _, _, subfields in fields:
        for code, value in subfields:
            if code in _LINKS or (tag in {"041", "008"}) or code in {"4", "e", "j"}:
                continue
            found |= set(fold(json.dumps(value, ensure_ascii=False)).split())
    return found


@given(leader=_WORDS, fields=_FIELDS)
@example(leader="", fields=[("130", " ", " ", [("0", "00")])])
@example(leader="", fields=[("130", " ", " ", [("i", "00")])])
@example(leader="", fields=[("020", " ", " ", [("q", "0")])])
@example(leader="", fields=[("024", "7", " ", [("2", "0")])])
def test_no_word_of_a_marc_record_is_lost(
    leader: str, fields: list[tuple[str, str, str, list[tuple[str, str]]]]
) -> None:
    record = Marc21Converter().convert(_element(leader, fields))
    missing = {word for word in _values(fields) - _said(record) if not _as_number(word, record)}
    assert missing == set()


def _as_number(word: str, record: BibliographicRecord) -> bool:
    """Return whether the word is part of a longer one: cleaning may join what a sign separated."""
    whole = fold(json.dumps(dataclasses.asdict(record), ensure_ascii=False)).replace(" ", "")
    return word in whole


@given(leader=_WORDS, fields=_FIELDS)
def test_every_record_has_rows_that_are_the_same_each_time(
    leader: str, fields: list[tuple[str, str, str, list[tuple[str, str]]]]
) -> None:
    first, second = (Marc21Converter().convert(_element(leader, fields)) for _ in range(2))
    assert texts_of(first).digest() == texts_of(second).digest()
    assert len(first.sort_title) <= 200


@given(
    elements=st.lists(
        st.tuples(
            st.sampled_from(
                _list(
                    "title creator contributor subject description publisher date type format identifier "
                    "source language relation coverage rights alternative issued created modified isPartOf "
                    "references spatial temporal extent medium bibliographicCitation license nonsense"
                )
            ),
            st.sampled_from(["", *_list("URI W3CDTF Period Point DDC LCSH IMT ISO639-2")]),
            _WORDS,
        ),
        max_size=10,
    )
)
def test_no_word_of_a_dublin_core_record_is_lost(elements: list[tuple[str, str, str]]) -> None:
    root = etree.Element("{http://www.openarchives.org/OAI/2.0/oai_dc/}dc")
    for name, scheme, value in elements:
        child = etree.SubElement(root, f"{{http://purl.org/dc/elements/1.1/}}{name}")
        child.text = value
        if scheme:
            child.set("{http://www.w3.org/2001/XMLSchema-instance}type", f"dcterms:{scheme}")
    record = DublinCoreConverter().convert(root)
    words = {word for *_, value in elements for word in fold(json.dumps(value, ensure_ascii=False)).split()}
    missing = {word for word in words - _said(record) if not _as_number(word, record)}
    assert missing == set()

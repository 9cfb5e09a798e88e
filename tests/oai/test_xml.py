"""XML output without forbidden characters, and safe parsing of XML input."""

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from lxml import etree

from oai.errors import MalformedXmlError, XmlLimitError
from oai.failures import FailureCode
from oai.limits import AnswerLimits
from oai.xml import escape, parse

_DOCTYPE = b'<!DOCTYPE a [<!ENTITY b "c">]>'


@given(st.text(st.characters(exclude_categories=[])))
def test_any_text_without_forbidden_characters_survives_the_round_trip(text: str) -> None:
    document = f'<a b="{escape(text)}">{escape(text)}</a>'.encode()
    root = etree.fromstring(document)
    allowed = "".join(
        c
        for c in text
        if c in "\t\n\r" or (c >= " " and not "\ud800" <= c <= "\udfff" and c not in "\ufffe\uffff")
    )
    assert root.get("b") == allowed
    assert (root.text or "") == allowed


def test_forbidden_characters_and_lone_surrogates_are_removed() -> None:
    assert escape("a\x00b\x1fc\ud800d\ufffee") == "abcde"


@pytest.mark.parametrize(
    "document",
    [
        _DOCTYPE + b"<a>&b;</a>",
        b'<?xml version="1.0"?>\n<!-- x -->\n' + _DOCTYPE + b"<a/>",
        b"\xef\xbb\xbf" + _DOCTYPE + b"<a/>",
        ('<?xml version="1.0" encoding="utf-16"?>' + _DOCTYPE.decode() + "<a/>").encode("utf-16"),
        b'<!DOCTYPE a SYSTEM "http://127.0.0.1:1/a.dtd"><a/>',
    ],
)
def test_a_document_type_declaration_is_refused(document: bytes) -> None:
    with pytest.raises(MalformedXmlError, match="DOCTYPE"):
        parse(document, source="test")


def test_a_document_type_declaration_in_cdata_is_content() -> None:
    assert parse(b"<a><![CDATA[<!DOCTYPE a>]]></a>", source="test").text == "<!DOCTYPE a>"


def test_an_error_names_source_line_and_reason() -> None:
    with pytest.raises(MalformedXmlError) as caught:
        parse(b"<a>\n<b></a>", source="http://127.0.0.1/oai")
    assert (caught.value.source, caught.value.line) == ("http://127.0.0.1/oai", 2)
    assert "mismatch" in caught.value.reason


def test_more_bytes_than_allowed_are_refused() -> None:
    with pytest.raises(MalformedXmlError, match="100 bytes; the limit is 99"):
        parse(b"<a>" + b"x" * 93 + b"</a>", source="test", max_bytes=99)


def test_a_text_node_larger_than_the_default_limit_of_libxml2_is_read() -> None:
    root = parse(b"<a>" + b"x" * 11_000_000 + b"</a>", source="test")
    assert len(root.text or "") == 11_000_000


def test_documents_with_external_entities_are_refused(tmp_path: Path) -> None:
    secret = tmp_path / "secret"
    secret.write_text("secret")
    document = f'<!DOCTYPE a [<!ENTITY b SYSTEM "{secret.as_uri()}">]><a>&b;</a>'
    with pytest.raises(MalformedXmlError):
        parse(document.encode(), source="test")


@pytest.mark.parametrize(
    ("data", "code"),
    [
        (b"<r>" + b"<a/>" * 1500 + b"</r>", FailureCode.PART_ELEMENTS),
        (b"<r>" + b"<a>" * 300 + b"</a>" * 300 + b"</r>", FailureCode.PART_DEPTH),
        (b"<r>" + b"<a>" * 100_000, FailureCode.PART_DEPTH),
        (b"<r>" + b"x" * 100_000 + b"</r>", FailureCode.PART_BYTES),
    ],
)
def test_xml_beyond_the_limits_is_refused_with_the_limit(data: bytes, code: FailureCode) -> None:
    limits = AnswerLimits(part_elements=1000, part_bytes=len(data) - (code is FailureCode.PART_BYTES))
    if code is FailureCode.PART_DEPTH:
        limits = AnswerLimits()
    with pytest.raises(XmlLimitError) as caught:
        parse(data, source="s", limits=limits, offset=7)
    assert (caught.value.failure.code, caught.value.failure.facts["offset"]) == (code, 7)


@pytest.mark.parametrize(
    "data",
    [
        b"<r>" + b"<a/>" * 900 + b"</r>",
        b"<r><![CDATA[" + b"<a/>" * 5000 + b"]]></r>",
        b"<r>" + b"<a>" * 200 + b"</a>" * 200 + b"</r>",
        b"<r>" + b"x" * 11_000_000 + b"</r>",
        b'<r a="' + b"x" * 11_000_000 + b'"/>',
    ],
)
def test_xml_within_the_limits_is_read_despite_the_limits_of_libxml2(data: bytes) -> None:
    assert parse(data, source="s", limits=AnswerLimits(part_elements=1000)).tag == "r"


@pytest.mark.parametrize(("depth", "allowed"), [(20, False), (15, True)])
def test_a_depth_limit_below_that_of_libxml2_applies(depth: int, *, allowed: bool) -> None:
    data = b"<a>" * depth + b"</a>" * depth
    if allowed:
        assert parse(data, source="s", limits=AnswerLimits(part_depth=16)).tag == "a"
        return
    with pytest.raises(XmlLimitError):
        parse(data, source="s", limits=AnswerLimits(part_depth=16))


def test_a_depth_limit_above_that_of_libxml2_applies() -> None:
    data = b"<a>" * 400 + b"</a>" * 400
    assert parse(data, source="s", limits=AnswerLimits(part_depth=500)).tag == "a"

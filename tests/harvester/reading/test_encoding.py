import pytest
from lxml import etree

from harvester.reading.encoding import Readable, declared_encoding, readable

_TEXT = "<a>Žluťoučký kůň</a>"


def _said(encoding: str, declared: str | None) -> bytes:
    declaration = f'<?xml version="1.0" encoding="{declared}"?>' if declared else ""
    return (declaration + _TEXT).encode(encoding)


@pytest.mark.parametrize(
    ("body", "content_type"),
    [
        (_said("utf-8", None), "text/xml; charset=windows-1250"),
        (_said("utf-8", "UTF-8"), "text/xml; charset=windows-1250"),
        (_said("cp1250", "windows-1250"), "text/xml; charset=utf-8"),
        (_said("cp1250", None), "text/xml"),
        (_said("cp1250", None), "text/xml; charset=utf-7"),
        (_said("utf-8", "windows-1250"), "text/xml; charset=windows-1250"),
    ],
)
def test_readable_bytes_are_unchanged(body: bytes, content_type: str) -> None:
    assert readable(body, content_type) == Readable(body=body)


@pytest.mark.parametrize(
    ("body", "content_type", "noted"),
    [
        (_said("utf-16", "UTF-16"), "", False),
        (_said("utf-16-le", None), "", False),
        (_said("utf-32-le", "UCS-4"), "", False),
        (_said("utf-32-be", "UCS-4"), "", False),
        (_said("cp1250", None), "text/xml; charset=windows-1250", False),
        (_said("cp1250", "UTF-8"), "text/xml; charset=windows-1250", True),
        (_said("utf-8", "ISO-8859-1"), "text/xml", True),
        (_said("utf-8", "x-unknown"), "", True),
        (_said("utf-8", "utf8"), "", True),
        (_said("utf-8", "US-ASCII"), "text/xml; charset=UTF-8", True),
        (_said("cp1250", "US-ASCII"), "text/xml; charset=windows-1250", True),
        (_said("cp1250", "utf8"), "text/xml; charset=windows-1250", True),
        (_said("cp1250", "x-unknown"), "text/xml; charset=windows-1250", True),
    ],
)
def test_the_body_becomes_utf_8_if_evidence_is_clear(body: bytes, content_type: str, noted: bool) -> None:  # noqa: FBT001
    found = readable(body, content_type)
    assert found.body.decode() == _TEXT
    assert bool(found.note) is noted


_LABELS = ["windows1250", "cp-1250", "CP1250", "x-cp1250", "ISO8859-2", "latin-2", "latin2", "csISOLatin2"]


@pytest.mark.parametrize("label", _LABELS)
def test_other_labels_of_an_encoding_are_read_in_declarations_and_in_http(label: str) -> None:
    encoding = "cp1250" if "1250" in label else "iso-8859-2"
    by_http = readable(_said(encoding, None), f"text/xml; charset={label}")
    assert by_http.body.decode() == _TEXT
    declared = readable(_said(encoding, label))
    assert etree.fromstring(declared.body).text == "Žluťoučký kůň"
    assert not declared.note or declared.note.startswith(f'the XML declaration has encoding="{label}"')


@pytest.mark.parametrize("label", ["utf8mb4", "unicode-1-1-utf-8"])
def test_other_labels_of_utf_8_are_read(label: str) -> None:
    assert readable(_said("utf-8", None), f"text/xml; charset={label}").body.decode() == _TEXT
    assert readable(_said("utf-8", label)).body.decode() == _TEXT


@pytest.mark.parametrize("label", ["utf-16", "ucs-2", "cp037"])
def test_a_declared_encoding_in_which_the_declaration_itself_is_unreadable_is_not_used(label: str) -> None:
    found = readable(_said("cp1250", label), "text/xml; charset=windows-1250")
    assert (found.body.decode(), "as HTTP declares" in found.note) == (_TEXT, True)


@pytest.mark.parametrize("declared", ["UTF8", "US-ASCII", "ISO-8859-1"])
def test_a_wrong_declaration_is_reported_with_what_it_should_be(declared: str) -> None:
    assert readable(_said("utf-8", declared)).note == (
        f'the XML declaration has encoding="{declared}", but the answer is in UTF-8; it should be'
        ' encoding="UTF-8"'
    )


def test_ascii_bytes_may_be_declared_as_ascii() -> None:
    body = b'<?xml version="1.0" encoding="US-ASCII"?><a>x</a>'
    assert readable(body, "text/xml; charset=us-ascii") == Readable(body=body)


@pytest.mark.parametrize("encoding", ["unicode_escape", "utf-7", "rot13", "punycode", "base64"])
def test_no_codec_that_does_more_than_decode_is_used(encoding: str) -> None:
    body = b"<a>\xff\\u0041+AGE-</a>"
    assert readable(body, f"text/xml; charset={encoding}").body == body


def test_the_declaration_is_found_in_either_quotes() -> None:
    assert declared_encoding(b"<?xml version='1.0' encoding='ISO-8859-2'?><a/>") == "ISO-8859-2"
    assert declared_encoding(b"<a>encoding='x'</a>") == ""

"""The title of an HTML page is found in its beginning, in whatever character set it is written."""

import gzip
import io
import zlib

import pytest

from provider.reading.captures import Capture, read_captures
from provider.reading.titles import TITLE_WINDOW, find_title, may_have_title
from tests.provider.archives import Page, warc_record

HEAD = b"HTTP/1.1 200 OK\r\nContent-Type: text/html\r\n\r\n"


def head(*lines: bytes) -> bytes:
    return b"\r\n".join([b"HTTP/1.1 200 OK", *lines, b"", b""])


def title(page: bytes, http: bytes = HEAD, host: str = "a.example") -> str | None:
    return find_title(page, http, host)


@pytest.mark.parametrize(
    ("page", "expected"),
    [
        (b"<title>A page</title>", "A page"),
        (b"<TITLE lang=en>\r\n A \t page\n</TITLE>", "A page"),
        (b"<title>Fish &amp; chips &#8211; caf&eacute;</title>", "Fish & chips \u2013 café"),
        (b"<title>a < b</title>", "a < b"),
        (b"<title>nul &#0; bell &#7; end</title>", "nul \ufffd bell end"),
        (b"<title>one</title><title>two</title>", "one"),
        (b"<title>  \n </title>", None),
        (b"<title>never ends", None),
        (b"<titles>no</titles>", None),
        (b"<!-- <title>Old</title> --><title>New</title>", "New"),
        (b"<script>'<!--<title>x</title>'</SCRIPT><title>A page</title>", "A page"),
        (b"<!-- <title>never shown</title>", None),
        (b"<title never ends" + b"<title " * 9000, None),
        (b"<title>" * 9000, None),
        (b"<body><svg><title>An icon</title></svg>", None),
        (b"<body><head><title>An old page</title></head>", "An old page"),
        (b"<![CDATA[<title>", None),
        (b"<title><![CDATA[A & B &amp; C]]></title>", "A & B &amp; C"),
        (b'<a title="a < b" <title>Not closed</title>', "Not closed"),
        (b"<p>it's 1 < 2 \"<title>In a text</title>", "In a text"),
        (b"", None),
    ],
)
def test_a_title_is_extracted_and_normalised(page: bytes, expected: str | None) -> None:
    assert title(page) == expected


@pytest.mark.parametrize(
    "before",
    [
        b"<script>document.write('<body >')</script>",
        b"<!-- <body> -->",
        b"<SVG><title>Wrong</title></SVG>",
        b"<svg></svg><svg><style>a {}</style><title>Wrong</title></svg>",
        b"<script>'<svg>'</script>",
        b"<template><title>Wrong</title></template>",
        b"<textarea><title>Wrong</title></textarea>",
        b"<noscript><title>Wrong</title></noscript>",
        b'<meta name=x content="<title>Wrong</title>">',
        b"<meta name=\"it's\" content='<title>Wrong</title>'>",
    ],
)
def test_title_elements_in_scripts_comments_and_svg_are_ignored(before: bytes) -> None:
    assert title(before + b"<title>Right</title>") == "Right"


@pytest.mark.parametrize(
    ("page", "http", "host"),
    [
        ("<title>žluť</title>".encode(), HEAD, "a.example"),
        ("<title>žluť</title>".encode("cp1250"), HEAD, "www.a.cz"),
        (
            "<title>žluť</title>".encode("iso-8859-2"),
            head(b"Content-Type: text/html; charset=ISO-8859-2"),
            "a.cz",
        ),
        ("<meta charset='iso-8859-2'><title>žluť</title>".encode("iso-8859-2"), HEAD, "a.cz"),
        (
            "<meta content='text/html; charset=windows-1250'><title>žluť</title>".encode("cp1250"),
            HEAD,
            "a.example",
        ),
        ("<title>žluť</title>".encode("utf-16"), HEAD, "a.example"),
        ("\ufeff<title>žluť</title>".encode(), head(b"Content-Type: text/html; charset=cp1250"), "a.cz"),
        (
            "<!-- <meta charset=koi8-r> --><meta charset=iso-8859-2><title>žluť</title>".encode("iso-8859-2"),
            HEAD,
            "a.cz",
        ),
        (
            b"<script>"
            + b"x" * 9000
            + "</script><meta charset=iso-8859-2><title>žluť</title>".encode("iso-8859-2"),
            HEAD,
            "a.cz",
        ),
        (
            '<?xml version="1.0" encoding="iso-8859-2"?>\n<title>žluť</title>'.encode("iso-8859-2"),
            head(b"Content-Type: application/xhtml+xml"),
            "a.cz",
        ),
        # The declared character set is wrong, or is not one for text.
        ("<title>žluť</title>".encode("cp1250"), head(b"Content-Type: text/html; charset=utf-8"), "a.sk"),
        ("<title>žluť</title>".encode(), head(b"Content-Type: text/html; charset=hex"), "a.example"),
        ("<title>žluť</title>".encode(), head(b"Content-Type: text/html; charset=nonsense"), "a.example"),
    ],
)
def test_a_title_is_decoded_by_the_declared_or_most_likely_character_set(
    page: bytes, http: bytes, host: str
) -> None:
    assert title(page, http, host) == "žluť"


@pytest.mark.parametrize(
    ("label", "codec", "text"),
    [
        ("iso-2022-jp", "iso2022_jp", "日本語"),
        ("hz-gb-2312", "hz", "中文"),
        ("x-sjis", "cp932", "①日本語"),
        ("gb2312", "gbk", "朱镕基"),
        ("x-mac-ce", "mac_latin2", "žluť"),
        # A declaration in ASCII bytes rules out character sets of two or four bytes.
        ("utf-16", "utf-8", "žluť"),
        ("utf-32", "utf-8", "žluť"),
    ],
)
def test_labels_of_character_sets_have_the_meaning_of_browsers(label: str, codec: str, text: str) -> None:
    page = f"<title>{text}</title>".encode(codec)
    assert title(page, head(b"Content-Type: text/html; charset=" + label.encode())) == text
    assert title(f"<meta charset={label}>".encode() + page) == text


UTF_8 = head(b"Content-Type: text/html; charset=utf-8")


@pytest.mark.parametrize(
    ("raw", "http", "expected"),
    [
        ("Žluť ".encode() + b"\xa9 2005", UTF_8, "Žluť \ufffd 2005"),
        ("Žluť ".encode() + b"\xa9 2005", HEAD, "Žluť \ufffd 2005"),
        ("Žluť ďábelské".encode()[:-1] + b"...", UTF_8, "Žluť ďábelsk\ufffd..."),
        (
            "①日本語".encode("cp932") + b"\x81",
            head(b"Content-Type: text/html; charset=x-sjis"),
            "①日本語\ufffd",
        ),
        # Only the invalid byte suggests a character set other than ASCII.
        (b"Copyright \xa9 2005", UTF_8, "Copyright © 2005"),
        (b"caf\xe9", HEAD, "café"),
        ("Žluťoučký kůň".encode("cp1250"), UTF_8, "Žluťoučký kůň"),
        ("R\ufffdv\ufffd".encode(), UTF_8, "R\ufffdv\ufffd"),
        ("ÁŘ řádná".encode(), head(b"Content-Type: text/html; charset=windows-1250"), "ÁŘ řádná"),
    ],
)
def test_a_few_invalid_bytes_do_not_change_the_character_set(raw: bytes, http: bytes, expected: str) -> None:
    assert title(b"<title>" + raw + b"</title>", http, "a.cz") == expected


def test_one_invalid_byte_does_not_switch_to_a_later_declaration() -> None:
    page = b"<meta charset=windows-1250><title>" + "Žluťoučký".encode() + b" \xa9</title>"
    assert title(page, UTF_8) == "Žluťoučký \ufffd"


@pytest.mark.parametrize("http", [HEAD, UTF_8])
def test_a_title_truncated_within_a_character_keeps_its_character_set(http: bytes) -> None:
    found = title(b"<title>a" + "č".encode() * 6000 + b"</title>", http, "a.cz")
    assert found == "a" + "č" * 298 + "…"


def test_many_blanks_after_charset_do_not_hang_the_search_for_a_declaration() -> None:
    page = b"<title>caf\xe9</title>" + b"<meta " * 80 + b"charset=" + b" " * 64_000 + b"!"
    assert title(page) == "café"


def test_pages_of_other_domains_are_decoded_as_windows_1252() -> None:
    assert title("<title>café “x”</title>".encode("cp1252")) == "café “x”"


@pytest.mark.parametrize(
    ("encoding", "pack"),
    [
        (b"gzip", gzip.compress),
        (b"deflate", zlib.compress),
        (b"deflate", lambda page: zlib.compress(page, wbits=-15)),
    ],
)
def test_a_compressed_page_is_unpacked(encoding: bytes, pack: "type[bytes]") -> None:
    packed = pack(b"<title>Packed</title>" + b"x" * 1000)
    assert title(packed, head(b"Content-Encoding: " + encoding)) == "Packed"


@pytest.mark.parametrize("encoding", [b"gzip", b"deflate", b"gzip, deflate"])
def test_an_uncompressed_page_with_a_content_encoding_is_read_unchanged(encoding: bytes) -> None:
    assert title(b"<title>Plain</title>", head(b"Content-Encoding: " + encoding)) == "Plain"


@pytest.mark.parametrize(
    "fields",
    [
        (b"Content-Encoding: deflate, gzip",),
        (b"Content-Encoding: deflate", b"Content-Encoding:gzip"),
        (b"Transfer-Encoding: gzip, chunked", b"Content-Encoding: deflate"),
        (b"Content-Encoding: gzip, deflate, gzip",),
    ],
)
def test_a_page_that_is_compressed_twice_is_unpacked_twice(fields: tuple[bytes, ...]) -> None:
    packed = gzip.compress(zlib.compress(b"<title>Packed</title>"))
    assert title(packed, head(*fields)) == "Packed"


def test_damaged_compressed_data_have_no_title() -> None:
    page = gzip.compress(b"<title>Packed</title>")[:10] + b"\xff<title>Damaged</title>"
    assert title(page, head(b"Content-Encoding: gzip")) is None


def test_the_fields_of_a_header_may_be_folded() -> None:
    packed = gzip.compress("<title>žluť</title>".encode("iso-8859-2"))
    lines = "Content-Encoding:\r\n gzip\r\nContent-Type: text/html;\r\n\tcharset=iso-8859-2\r\n"
    page = Page(url="http://a.example/", body=packed, mime_type=None, http_headers=lines)
    (found,) = read_captures(io.BytesIO(warc_record(page)))
    assert isinstance(found, Capture)
    assert (found.title, found.mime_type) == ("žluť", "text/html; charset=iso-8859-2")


@pytest.mark.parametrize("encoding", [b"gzip", b"br", b"deflate"])
def test_a_page_that_cannot_be_decompressed_has_no_title(encoding: bytes) -> None:
    assert title(b"\x8b\x00nonsense", head(b"Content-Encoding: " + encoding)) is None


def test_a_chunked_page_is_joined() -> None:
    pieces = b"9\r\n<title>In\r\n12;x=y\r\n pieces</title>more\r\n0\r\n\r\n"
    assert title(pieces, head(b"Transfer-Encoding: chunked")) == "In pieces"


def test_chunks_of_a_compressed_page_are_joined_and_decompressed() -> None:
    packed = gzip.compress(b"<title>Packed pieces</title>")
    pieces = b"%x\r\n%b\r\n0\r\n\r\n" % (len(packed), packed)
    assert title(pieces, head(b"Transfer-Encoding: gzip, chunked")) == "Packed pieces"


def test_decompression_stops_at_a_limit() -> None:
    bomb = gzip.compress(b" " * 50_000_000 + b"<title>Far</title>")
    assert title(bomb, head(b"Content-Encoding: gzip")) is None


def test_a_long_title_is_cut() -> None:
    found = title(b"<title>" + b"long " * 1000 + b"</title>")
    assert found is not None
    assert len(found) == 300
    assert found.endswith("…")


@pytest.mark.parametrize(
    ("mime_type", "status", "expected"),
    [
        ("text/html; charset=utf-8", 200, True),
        ("application/xhtml+xml", 206, True),
        ("Text/HTML", None, True),
        ("text/html", 404, False),
        ("text/plain", 200, False),
        (None, 200, False),
    ],
)
def test_only_html_pages_with_a_success_status_may_have_a_title(
    mime_type: str | None,
    status: int | None,
    expected: bool,  # noqa: FBT001 from the table above
) -> None:
    assert may_have_title(mime_type, status) is expected


@pytest.mark.parametrize(("place", "expected"), [(TITLE_WINDOW - 100, "Late"), (TITLE_WINDOW + 100, None)])
def test_only_the_beginning_of_a_record_is_searched_for_a_title(place: int, expected: str | None) -> None:
    page = Page(url="http://a.example/", body=b" " * place + b"<title>Late</title>" + b" " * 200_000)
    (found,) = read_captures(io.BytesIO(warc_record(page)))
    assert isinstance(found, Capture)
    assert found.title == expected
    assert found.length == len(page.body)

"""How documents are prepared for a browser: only links change."""

import gzip
from html import escape

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from harvester.restoring.browsable import PackedError, treated
from harvester.restoring.links import SiteMap, Target
from harvester.restoring.manifest import Entry

_SITE = SiteMap(
    [
        Target(url="http://h.example/a.html", path="h.example/a.html"),
        Target(url="http://h.example/b.css", path="h.example/b.css"),
        Target(url="http://h.example/i,1.gif", path="h.example/i,1.gif"),
        Target(url="http://h.example/s.js", path="h.example/s.js", charset="windows-1250"),
        Target(url="http://h.example/?a=1&copy=2", path="h.example/copy.html"),
    ]
)
_MOST = 10_000


def _entry(content_type: str, encoding: str = "") -> Entry:
    return Entry(
        url="http://h.example/d/page",
        captured="2007-11-02T03:04:05+00:00",
        identifier="oai:x.example:" + "0" * 32,
        status=200,
        content_type=content_type,
        encoding=encoding,
        fields={},
        digest="",
        verified=False,
        size=0,
        file="",
    )


def _html(body: str, content_type: str = "text/html", charset: str = "utf-8") -> str:
    made = treated(_entry(content_type), body.encode(charset), _SITE, "h.example/d/page.html", most=_MOST)
    return made.decode(charset)


def _css(body: str) -> str:
    return treated(_entry("text/css"), body.encode(), _SITE, "h.example/d/page.css", most=_MOST).decode()


@pytest.mark.parametrize(
    ("body", "becomes"),
    [
        ("<a href=/a.html>x</a>", '<a href="../a.html">x</a>'),
        ("<A\n HREF = '/a.html#x'  class=y>", "<A\n HREF = '../a.html#x'  class=y>"),
        ('<a href="/?a=1&copy=2">', '<a href="../copy.html">'),
        ('<a href="/?a=1&amp;copy=2">', '<a href="../copy.html">'),
        ('<a href="/&#97;.html">', '<a href="../a.html">'),
        ('<a href="/lost?a=1&b=2">', '<a href="http://h.example/lost?a=1&amp;b=2">'),
        ("<a href=/a.html href=/b.css>", '<a href="../a.html" href=/b.css>'),
        ('<img srcset="/i,1.gif, /a.html 2x ,/lost 3x">',
         '<img srcset="../i%2C1.gif, ../a.html 2x ,http://h.example/lost 3x">'),
        ('<img data-src="/i,1.gif" data-srcset="/x 1x">',
         '<img data-src="../i%2C1.gif" data-srcset="http://h.example/x 1x">'),
        ('<p style="background:url(/i,1.gif)">', '<p style="background:url(&quot;../i%2C1.gif&quot;)">'),
        ("<style>a{b:url(/i,1.gif)}</style><a href=/a.html>",
         '<style>a{b:url("../i%2C1.gif")}</style><a href="../a.html">'),
        ('<meta http-equiv=Refresh content="5;URL=/a.html">',
         '<meta http-equiv=Refresh content="5;URL=../a.html">'),
        ('<meta name=description content="5;URL=/a.html">',
         '<meta name=description content="5;URL=/a.html">'),
        ('<base href="/x/"><a href="../a.html">', '<base data-archived-href="/x/"><a href="../a.html">'),
        ('<link rel=stylesheet href=/b.css integrity="sha256-x">',
         '<link rel=stylesheet href="../b.css" data-archived-integrity="sha256-x">'),
        ('<link href="http://out.example/b.css" integrity="sha256-x">',
         '<link href="http://out.example/b.css" integrity="sha256-x">'),
        ("<script src=/s.js></script>", '<script charset="windows-1250" src="../s.js"></script>'),
        ("<script>'<a href=/a.html>'</script><a href=/a.html>",
         "<script>'<a href=/a.html>'</script><a href=\"../a.html\">"),
        ("<svg><title/><a href=/a.html></svg>", '<svg><title/><a href="../a.html"></svg>'),
        ("<!-- <a href=/a.html> --!> --><a href=/a.html>",
         '<!-- <a href=/a.html> --!> --><a href="../a.html">'),
        ("a < b <a href=/a.html", "a < b <a href=/a.html"),
        ('<a href="/a.html>never closed', '<a href="/a.html>never closed'),
        ("<object data=/a.html><param data=/a.html>", '<object data="../a.html"><param data=/a.html>'),
    ],
)  # fmt: skip
def test_the_links_of_a_page_lead_into_the_copy(body: str, becomes: str) -> None:
    assert _html(body) == becomes


@pytest.mark.parametrize(
    ("body", "becomes"),
    [
        ("a{b:url(/i,1.gif)}", 'a{b:url("../i%2C1.gif")}'),
        ("a{b:URL( '/i\\2c 1.gif' )}", 'a{b:URL( "../i%2C1.gif" )}'),
        ("@import '/b.css' print;", '@import "../b.css" print;'),
        ("@import url(/b.css);", '@import url("../b.css");'),
        ("/* url(/b.css) */ a{content:'url(/b.css)'}", "/* url(/b.css) */ a{content:'url(/b.css)'}"),
        (
            "a{b:image-set('/i,1.gif' 1x, url(/b.css) 2x)}",
            'a{b:image-set("../i%2C1.gif" 1x, url("../b.css") 2x)}',
        ),
        ("a{b:url(data:image/gif;base64,AA)}", "a{b:url(data:image/gif;base64,AA)}"),
        ("a{b:myurl(/b.css);c:url(}", "a{b:myurl(/b.css);c:url(}"),
        ("a{b:'never closed\n c:url(/b.css)}", 'a{b:\'never closed\n c:url("../b.css")}'),
    ],
)
def test_the_links_of_a_style_sheet_lead_into_the_copy(body: str, becomes: str) -> None:
    assert _css(body) == becomes


@pytest.mark.parametrize(
    ("body", "content_type", "charset", "becomes"),
    [
        ("<html><head><title>ň", "text/html; charset=windows-1250", "cp1250",
         '<html><head><meta charset="windows-1250"><title>ň'),
        ("<!doctype html><p>ň", 'text/html; charset="utf-8"', "utf-8",
         '<!doctype html><meta charset="utf-8"><p>ň'),
        ('<meta charset="UTF-8"><p>ň', "text/html; charset=utf8", "utf-8", '<meta charset="UTF-8"><p>ň'),
        ('<meta charset="utf-8">ň', "text/html; charset=iso-8859-2", "iso-8859-2",
         '<meta charset="iso-8859-2"><meta charset="utf-8">ň'),
        ("<p>ň", "text/html; charset=no-such", "utf-8", "<p>ň"),
        ("<p>ň", "text/html; charset=utf-16le", "utf-16-le", "\ufeff<p>ň"),
    ],
)  # fmt: skip
def test_a_character_set_from_the_http_header_alone_is_inserted_into_the_page(
    body: str, content_type: str, charset: str, becomes: str
) -> None:
    assert _html(body, content_type, charset) == becomes


def test_xml_keeps_the_character_set_of_its_declaration() -> None:
    entry = _entry("image/svg+xml; charset=windows-1250")
    body = '<?xml version="1.0"?><svg><a xlink:href="/a.html">ň</a></svg>'.encode("cp1250")
    made = treated(entry, body, _SITE, "h.example/d/page.svg", most=_MOST).decode("cp1250")
    assert made == '<?xml version="1.0" encoding="windows-1250"?><svg><a xlink:href="../a.html">ň</a></svg>'


@settings(deadline=None)
@given(body=st.binary(max_size=200))
@example(b"<a href=/a.html>\xff\xfe\x00</a><!--")
@example(b"\xff\xfe<\x00a\x00")
def test_a_page_without_links_keeps_every_byte(body: bytes) -> None:
    harmless = body.replace(b"=", b"").replace(b"(", b"")
    for content_type in ("text/html", "text/css", "image/svg+xml"):
        assert treated(_entry(content_type), harmless, _SITE, "h.example/d/x", most=_MOST) == harmless


@pytest.mark.parametrize(
    "hostile",
    [
        "<a href='" * 20_000, "<" * 100_000, "<!--" * 50_000, "<a " + "b=" * 50_000, "<style>" * 20_000,
        '<p style="' + "(" * 50_000, "<meta http-equiv=refresh content='" + " " * 50_000 + "'>",
        "<img srcset='" + "," * 50_000 + "'>", "<style>" + '\\"' * 50_000, "<style>" + "url(" * 30_000,
        "<style>url(" + " " * 50_000, "<style>" + "a" * 100_000, "<a href='&" + "a" * 50_000 + "'>",
        "<img srcset='a " + "(" * 1_000_000 + "'>",
    ],
)  # fmt: skip
def test_hostile_pages_take_no_more_time_than_others(hostile: str) -> None:
    assert _html(hostile)


def test_an_instruction_of_an_image_ends_at_its_first_closing_sign() -> None:
    link = '<?xml-stylesheet href="/b.css"?>'
    body = link + '<?a b=">" ' * 100_000 + "?><svg><?c d=x" + link.removeprefix("<") + "</svg>"
    made = treated(_entry("image/svg+xml"), body.encode(), _SITE, "h.example/d/x.svg", most=_MOST).decode()
    assert made.startswith('<?xml-stylesheet href="../b.css"?><?a ')


def test_links_are_changed_in_ten_documents_within_one_another() -> None:
    page = ""
    for _ in range(300):
        page = f'<a href=/a.html><iframe srcdoc="{escape(page)}">'
    assert _html(page).count("../a.html") == 11


def test_a_compressed_document_is_decompressed_once() -> None:
    inner = gzip.compress(b"a file that is itself packed")
    entry = _entry("application/x-gzip", "gzip")
    assert treated(entry, gzip.compress(inner), _SITE, "h.example/x.gz", most=_MOST) == inner


@pytest.mark.parametrize(
    ("body", "encoding", "words"),
    [
        (gzip.compress(b"x" * 20_000), "gzip", "larger than"),
        (gzip.compress(b"x" * 500)[:-9], "gzip", "are truncated"),
        (b"\x00nothing", "gzip", "damaged"),
        (b"x", "compress", "not supported"),
    ],
    ids=["too large", "cut off", "damaged", "unknown"],
)
def test_a_document_that_cannot_be_decompressed_is_reported(body: bytes, encoding: str, words: str) -> None:
    with pytest.raises(PackedError, match=words):
        treated(_entry("text/html", encoding), body, _SITE, "h.example/x.html", most=_MOST)

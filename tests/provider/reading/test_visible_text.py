"""The visible text of a page."""

import gzip
from typing import Any

import pytest
from lxml import etree

from provider.reading.visible_text import MOST_CHARACTERS, PAGE_BYTES, visible_text

HEAD = b"HTTP/1.1 200 OK\r\nContent-Type: text/html\r\n\r\n"


@pytest.mark.parametrize(
    ("page", "text"),
    [
        (b"<html><head><title>T</title></head><body><h1>One</h1><p>two</body>", "One two"),
        (b"<p>w<b>or</b>d</p><td>next<br>line</td>", "word next line"),
        (b"<p>a<script>var x = '<p>no</p>'</script><style>p {}</style>b<!-- no --><?no no?></p>", "ab"),
        (b"<noscript>no</noscript><template>no</template><svg><text>no</text></svg>yes", "yes"),
        (b"Fish &amp; chips&nbsp;caf&eacute;", "Fish & chips café"),
        ("<meta charset=windows-1250><p>Žluťoučký".encode("cp1250"), "Žluťoučký"),
        ("<p>Žluťoučký".encode(), "Žluťoučký"),
        (b"<p>nul \0 bell \7 end", "nul bell end"),
        (b"plain words", "plain words"),
        ("<meta charset=utf-8><p>Žluťoučký kůň".encode() + b" \xa9 2005", "Žluťoučký kůň \ufffd 2005"),
        ("<p>Žluťoučký kůň".encode()[:-1], "Žluťoučký ků\ufffd"),
        (b"", ""),
        (b" \n ", ""),
        (b"<!-- only -->", ""),
        (b"<script>never ends", ""),
    ],
)
def test_only_visible_text_is_extracted(page: bytes, text: str) -> None:
    assert visible_text(page, HEAD, "a.cz") == text


@pytest.mark.parametrize(
    ("encoding", "payload", "text"),
    [
        (b"gzip", gzip.compress(b"<p>packed", mtime=0), "packed"),
        (b"gzip, gzip", gzip.compress(gzip.compress(b"<p>packed", mtime=0), mtime=0), "packed"),
        (b"gzip", b"<p>not packed", "not packed"),
        (b"br", b"\x1b\x05\x00", ""),
    ],
)
def test_content_encoding_is_decoded_or_no_text_is_read(encoding: bytes, payload: bytes, text: str) -> None:
    assert visible_text(payload, HEAD[:-2] + b"Content-Encoding: " + encoding + b"\r\n\r\n", "a.cz") == text


@pytest.mark.parametrize("pack", [bytes, gzip.compress])
def test_only_the_beginning_of_a_large_page_is_read(pack: type[bytes]) -> None:
    page = pack(b"<p>word" + b" word" * PAGE_BYTES)
    head = HEAD if pack is bytes else HEAD[:-2] + b"Content-Encoding: gzip\r\n\r\n"
    assert len(visible_text(page, head, "a.cz")) == MOST_CHARACTERS


def test_no_tree_is_built_because_in_it_attributes_cost_the_square_of_their_number(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    targets = []

    class NotingParser(etree.HTMLParser):
        def __init__(self, **options: Any) -> None:
            targets.append(options.get("target"))
            super().__init__(**options)

    monkeypatch.setattr(etree, "HTMLParser", NotingParser)
    tag = b"<p " + b" ".join(b"a%d" % number for number in range(10_000)) + b">"

    assert visible_text(tag + b"word", HEAD, "a.cz") == "word"

    assert (len(targets), None in targets) == (1, False)


def test_a_page_is_read_up_to_elements_that_are_nested_too_deeply() -> None:
    """Otherwise 500 kB of unclosed elements and other end tags would take a quarter of a minute."""
    page = b"<p>begin " + b"<b>" * 87_000 + b"</i>" * 60_000 + b"end"
    assert visible_text(page, HEAD, "a.cz") == "begin"
    assert visible_text(b"<p>begin " + b"<b>" * 200 + b"deep", HEAD, "a.cz") == "begin deep"

"""Answers as pages for people: who wants one, and the stylesheet run here where a browser would not do it.

Browsers give up XSLT (docs/decisions/0005). So the provider runs its own stylesheet for them; the link to it
stays in every answer, for browsers that still follow it.
"""

from collections.abc import Mapping
from functools import cache
from pathlib import Path
from typing import Final

from lxml import etree

STATIC: Final = Path(__file__).parent / "static"
STYLESHEET_FILE: Final = STATIC / "style.xsl"

VARIES: Final = "Accept-Encoding, Accept, Sec-Fetch-Mode"
"""The request's headers that an answer depends on."""

PAGE_HEADERS: Final[Mapping[str, str]] = {
    "Content-Type": "text/html; charset=utf-8",
    "Content-Security-Policy": "default-src 'none'; style-src 'self'; base-uri 'none'; form-action 'none';"
    " frame-ancestors 'none'",
    "Referrer-Policy": "same-origin",
}

_HTML: Final = "text/html"
_XHTML: Final = "application/xhtml+xml"
_XML: Final = ("text/xml", "application/xml")
_XML_AMONG: Final = frozenset({*_XML, "text/*", "application/*", "*/*", "*"})


def is_browser(headers: Mapping[str, str]) -> bool:
    """Whether HTML is preferred to XML (RFC 9110, section 12.5.1), as only browsers say it.

    XHTML has to be named, too: Java's own client, which harvesters use, asks for HTML unless told otherwise.
    """
    weights = _weights(headers.get("Accept", ""))
    xml = max(weights.get(kind, 0.0) for kind in _XML)
    return _XHTML in weights and weights.get(_HTML, 0.0) > xml


def takes_html_alone(headers: Mapping[str, str]) -> bool:
    """Whether HTML is all that is accepted, so that an answer in XML would be of no use to the client."""
    weights = _weights(headers.get("Accept", ""))
    return weights.get(_HTML, 0.0) > 0 and not any(weights.get(kind, 0.0) > 0 for kind in _XML_AMONG)


def wants_page(headers: Mapping[str, str]) -> bool:
    """Whether a person follows a link here, so that an answer is best shown as a page.

    A harvester may have copied a browser's Accept; this header it has no reason to send.
    """
    return headers.get("Sec-Fetch-Mode") == "navigate" and is_browser(headers)


def as_page(answer: bytes) -> bytes:
    """An answer as HTML in UTF-8, by the stylesheet."""
    parser = etree.XMLParser(resolve_entities=False, no_network=True, huge_tree=True)
    return bytes(_transform()(etree.fromstring(answer, parser)))


@cache
def _transform() -> etree.XSLT:
    return etree.XSLT(etree.parse(STYLESHEET_FILE))


def _weights(accept: str) -> Mapping[str, float]:
    found = {}
    for part in accept.lower().split(","):
        kind, *parameters = (piece.strip() for piece in part.split(";"))
        quality = next((piece[2:] for piece in parameters if piece.startswith("q=")), "1")
        try:
            found[kind] = float(quality)
        except ValueError:
            found[kind] = 0.0
    return found

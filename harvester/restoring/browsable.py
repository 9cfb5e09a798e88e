"""Convert an archived document into the file that a browser shows from disk.

HTML, XHTML, SVG and CSS keep their bytes except for links. Information that only the HTTP header contains is
written into the file: the character set, and the target of a redirect. Other packed content is unpacked.
"""

import re
import zlib
from importlib import import_module
from typing import Any, Final

from harvester.restoring import markup
from harvester.restoring.addresses import joined
from harvester.restoring.charsets import (
    Charset,
    Edit,
    charset_of,
    css_charset,
    escaped,
    html_charset,
    text_of,
    xml_charset,
)
from harvester.restoring.links import PageLinks, SiteMap, Target, relative
from harvester.restoring.manifest import Entry
from harvester.restoring.markup import tags

_ANY_WRAPPING: Final = 32 + zlib.MAX_WBITS
_NO_WRAPPING: Final = -zlib.MAX_WBITS
_HTML: Final = frozenset({"text/html"})
_XML: Final = frozenset({"application/xhtml+xml", "image/svg+xml"})
_CSS: Final = frozenset({"text/css"})
_UNKNOWN: Final = frozenset({"", "application/octet-stream", "unknown"})
_REDIRECTS: Final = frozenset({301, 302, 303, 307, 308})
_PAGE: Final = re.compile(rb"\A(?:\xef\xbb\xbf)?\s*<(?:!doctype\s+html|html[\s>])", re.IGNORECASE)
_PAGES: Final = (".html", ".htm", ".xhtml")
_SEEN_EARLY: Final = 900
"""The number of characters within which browsers find a declared character set."""
_DECLARATION: Final = re.compile(r"""<\?xml(?P<rest>(?:\s[^>]*?)?)\?>""")
_ENCODING: Final = re.compile(r"""\sencoding\s*=\s*(?:"[^"]*"|'[^']*')""")
_VERSION: Final = re.compile(r"""\sversion\s*=\s*(?:"[^"]*"|'[^']*')""")


class PackedError(Exception):
    """The content cannot be unpacked; the message says why."""


def unpacked(body: bytes, encoding: str, *, most: int) -> bytes:
    """Decode the content codings listed in Content-Encoding, up to `most` bytes.

    Raises PackedError for an unknown encoding, for broken data, and if the result is larger.
    """
    for name in reversed([one.strip().lower() for one in encoding.split(",")]):
        if name in {"gzip", "x-gzip", "deflate"}:
            body = _inflated(body, most)
        elif name == "br":
            body = _brotli(body, most)
        elif name not in {"", "identity", "none", "utf-8"}:
            raise PackedError(f"Content-Encoding {name!r} is not supported")
    return body


def _inflated(body: bytes, most: int) -> bytes:
    if not body:
        return body
    for bits in (_ANY_WRAPPING, _NO_WRAPPING):
        inflate = zlib.decompressobj(bits)
        try:
            content = inflate.decompress(body, most)
        except zlib.error as error:
            fault = error
            continue
        if inflate.unconsumed_tail:
            raise PackedError(f"it is larger than {most:,} bytes when decompressed")
        if not inflate.eof:
            raise PackedError("its compressed data are truncated")
        return content
    if body.lstrip().startswith(b"<"):
        return body  # declared as packed, but is not
    raise PackedError(f"its compressed data are damaged ({fault})")


def _brotli(body: bytes, most: int) -> bytes:
    try:
        brotli: Any = import_module("brotli")
    except ImportError:
        raise PackedError(
            "Content-Encoding is 'br': install the package brotli, then run the same command again"
        ) from None
    try:
        content: bytes = brotli.decompress(body)
    except brotli.error as error:
        raise PackedError(f"its compressed data are damaged ({error})") from None
    if len(content) > most:
        raise PackedError(f"it is larger than {most:,} bytes when decompressed")
    return content


def kind_of(entry: Entry) -> str:
    """Return the type of the content, without parameters."""
    return entry.content_type.partition(";")[0].strip().lower()


def leads_to(entry: Entry) -> str:
    """Return a redirect's target as an absolute URL; empty for other documents."""
    location = next((value for name, value in entry.fields.items() if name.lower() == "location"), "")
    return (joined(entry.url, location) or "") if entry.status in _REDIRECTS and location else ""


def needs_treatment(entry: Entry, body: bytes) -> bool:
    """Return whether the browsable file may differ from the document."""
    return bool(
        entry.encoding
        or leads_to(entry)
        or kind_of(entry) in _HTML | _XML | _CSS
        or (kind_of(entry) in _UNKNOWN and _PAGE.match(body))
    )


def treated(entry: Entry, body: bytes, site: SiteMap, path: str, *, most: int) -> bytes:
    """Return the browsable file for the path; raises PackedError if the content cannot be unpacked."""
    target = leads_to(entry)
    if target:
        return _leading(PageLinks(site, entry.url, path), target)
    content = unpacked(body, entry.encoding, most=most)
    kind = kind_of(entry)
    if kind in _CSS:
        return _style_sheet(entry, content, site, path)
    if kind in _XML:
        return _xml(entry, content, site, path)
    if kind in _HTML or (kind in _UNKNOWN and _PAGE.match(content)):
        return _html(entry, content, site, path)
    return content


def _html(entry: Entry, content: bytes, site: SiteMap, path: str) -> bytes:
    charset = html_charset(content, entry.content_type)
    text = text_of(content, charset.codec)
    links = PageLinks(site, entry.url, path, charset.codec)
    edits = [*_declared_in_html(text.text, charset), *markup.page_edits(text.text, links, charset.codec)]
    return text.edited(edits)


def _declared_in_html(text: str, charset: Charset) -> list[Edit]:
    """Insert a declaration of the character set if only the HTTP header names it."""
    if not charset.declared_by_http:
        return []
    if charset.codec.startswith("utf-16"):
        return [Edit(begin=0, end=0, text="\ufeff")]
    place = 0
    for tag in tags(text[:_SEEN_EARLY]):
        if tag.name not in {"html", "head"}:
            break
        place = tag.end
    doctype = re.match(r"\s*<!doctype[^>]*>", text, re.IGNORECASE)
    place = place or (doctype.end() if doctype else 0)
    return [
        Edit(begin=place, end=place, text=f'<meta charset="{markup.codec_label(charset.declared_by_http)}">')
    ]


def _xml(entry: Entry, content: bytes, site: SiteMap, path: str) -> bytes:
    charset = xml_charset(content, entry.content_type)
    text = text_of(content, charset.codec)
    links = PageLinks(site, entry.url, path)
    edits = [
        *_declared_in_xml(text.text, charset),
        *markup.page_edits(text.text, links, charset.codec, xml=True),
    ]
    return text.edited(edits)


def _declared_in_xml(text: str, charset: Charset) -> list[Edit]:
    if not charset.declared_by_http:
        return []
    encoding = f' encoding="{markup.codec_label(charset.declared_by_http)}"'
    declaration = _DECLARATION.match(text)
    if declaration is None:
        return [Edit(begin=0, end=0, text=f'<?xml version="1.0"{encoding}?>')]
    begin, end = declaration.span("rest")
    old = _ENCODING.search(text, begin, end)
    if old is not None:
        return [Edit(begin=old.start(), end=old.end(), text=encoding)]
    version = _VERSION.search(text, begin, end)
    place = version.end() if version else begin
    return [Edit(begin=place, end=place, text=encoding)]


def _style_sheet(entry: Entry, content: bytes, site: SiteMap, path: str) -> bytes:
    charset = css_charset(content, entry.content_type)
    text = text_of(content, charset.codec)
    links = PageLinks(site, entry.url, path)
    edits = list(markup.style_edits(text.text, links.text))
    if charset.declared_by_http:
        declaration = f'@charset "{markup.codec_label(charset.declared_by_http)}";'
        edits.insert(0, Edit(begin=0, end=0, text=declaration))
    return text.edited(edits)


def _leading(links: PageLinks, target: str) -> bytes:
    """Return a page that forwards to the target of a redirect."""
    link = escaped(links.text(target) or target)
    return (
        f'<!doctype html><meta charset="utf-8"><meta http-equiv="refresh" content="0; url={link}">'
        f'<title>Moved</title><p>Moved to <a href="{link}">{escaped(target)}</a></p>\n'
    ).encode()


def target_of(entry: Entry, path: str) -> Target:
    """Return the document's entry for the site map."""
    return Target(url=entry.url, path=path, leads_to=leads_to(entry), charset=charset_of(entry.content_type))


def start_page(targets: list[Target], title: str) -> bytes:
    """Return a page that links to each host's page with the shortest URL."""
    hosts: dict[str, Target] = {}
    pages = [one for one in targets if one.path.lower().endswith(_PAGES) and not one.leads_to] or targets
    for target in sorted(pages, key=lambda one: (len(one.url), one.url)):
        hosts.setdefault(target.path.partition("/")[0], target)
    items = "".join(
        f'<li><a href="site/{relative(target.path, "")}">{escaped(target.url)}</a></li>'
        for _, target in sorted(hosts.items())
    )
    name = escaped(title)
    return (
        f'<!doctype html><html lang="en"><meta charset="utf-8"><title>{name}</title><h1>{name}</h1>'
        f"<ul>{items}</ul></html>\n"
    ).encode()

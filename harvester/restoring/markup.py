"""Makes the links of HTML pages and SVG pictures lead into the copy; all other bytes stay as they are."""

import re
from collections.abc import Callable, Iterator
from typing import Final

from harvester.restoring import styles
from harvester.restoring.charsets import Edit, Text, codec
from harvester.restoring.entities import escaped
from harvester.restoring.links import Link, PageLinks
from harvester.restoring.tags import Attribute, Tag, tags

_LINKS: Final = frozenset(
    {"href", "src", "poster", "background", "action", "formaction", "cite", "longdesc", "lowsrc", "dynsrc",
     "xlink:href", "ping"}
)  # fmt: skip
_LAZY: Final = frozenset({"data-src", "data-href", "data-original", "data-background", "data-poster"})
"""Scripts take them for links later on; they are changed only where they lead to a document of the copy."""
_SRCSETS: Final = frozenset({"srcset", "imagesrcset", "data-srcset"})
_STRICT_CHECKS: Final = ("integrity", "crossorigin", "nonce")
"""With these, browsers refuse what comes from a file."""
_POLICIES: Final = frozenset({"content-security-policy", "content-security-policy-report-only"})
_SET_ASIDE: Final = "data-archived-"
"""Stands before the names of attributes that would do harm in a copy."""
_REFRESH: Final = re.compile(
    r"(\s*+[0-9.]*+[\s;,]++(?:url\s*+=\s*+)?)([\"']?)(.*)", re.IGNORECASE | re.DOTALL | re.ASCII
)
_CANDIDATE: Final = re.compile(r"[\s,]*+(\S++)", re.ASCII)
_DESCRIPTORS: Final = re.compile(r"(?:[^,(]|\([^)]*+\)|\()*+")


def edits(text: str, links: PageLinks, page_codec: str, *, xml: bool = False) -> Iterator[Edit]:
    """The changes that a page needs so that its links lead where they should."""
    if xml:
        yield from _edits(text, links, page_codec, xml=True)
        return
    base = next((tag for tag in tags(text) if tag.name == "base" and tag.get("href")), None)
    if base is not None:
        links.set_base(base.value("href"))
    yield from _edits(text, links, page_codec, xml=False)


def _edits(text: str, links: PageLinks, page_codec: str, *, xml: bool) -> Iterator[Edit]:
    for tag in tags(text, xml=xml):
        if tag.name == "base":
            yield from _aside(tag.get("href"))
            continue
        if tag.name == "meta":
            yield from _meta(tag, links)
        yield from _attributes(tag, links, page_codec)
        if tag.name == "style" and tag.content_end is not None:
            yield from styles.edits(text, links.text, begin=tag.end, end=tag.content_end)


def _attributes(tag: Tag, links: PageLinks, page_codec: str) -> Iterator[Edit]:
    local = False
    seen = set()
    for one in tag.attributes:
        if one.name in seen:
            continue
        seen.add(one.name)
        if one.name in _LINKS or (one.name == "data" and tag.name == "object"):
            link = links.link(one.value)
            local = local or (link is not None and link.target is not None)
            yield from _changed(one, link.text if link else None)
            if one.name == "src" and tag.name == "script" and link is not None:
                yield from _script_charset(tag, one, link, page_codec)
        else:
            yield from _changed(one, _other_value(one, links, page_codec))
    for name in _STRICT_CHECKS if local else ():
        yield from _aside(tag.get(name))
    if tag.name == "html":
        yield from _aside(tag.get("manifest"))


def _other_value(one: Attribute, links: PageLinks, page_codec: str) -> str | None:
    """What the value of an attribute becomes that is no plain link; None where it stays."""
    if one.name in _LAZY:
        link = links.restored(one.value)
        return link.text if link else None
    if one.name in _SRCSETS:
        return _srcset(one.value, links)
    if one.name == "style":
        return _edited(one.value, lambda text: styles.edits(text, links.text))
    if one.name == "srcdoc":
        return _edited(one.value, lambda text: _edits(text, links, page_codec, xml=False))
    return None


def _edited(value: str, find: Callable[[str], Iterator[Edit]]) -> str | None:
    found = list(find(value))
    return Text(text=value, codec="utf-8").edited(found).decode() if found else None


def _srcset(value: str, links: PageLinks) -> str | None:
    """A srcset with its links changed (HTML Standard, section 4.8.4.3.10)."""
    found = []
    place = 0
    while (candidate := _CANDIDATE.match(value, place)) is not None:
        url = candidate[1].rstrip(",")
        begin, place = candidate.start(1), candidate.end()
        text = links.text(url)
        if text is not None:
            found.append(Edit(begin=begin, end=begin + len(url), text=text))
        if url == candidate[1] and (descriptors := _DESCRIPTORS.match(value, place)):
            place = descriptors.end()
    return _edited(value, lambda _: iter(found))


def _meta(tag: Tag, links: PageLinks) -> Iterator[Edit]:
    kind, content = tag.value("http-equiv").lower(), tag.get("content")
    if kind in _POLICIES:
        yield from _aside(tag.get("http-equiv"))
    if kind == "refresh" and content is not None:
        found = _REFRESH.match(content.value)
        url = found[3].rstrip() if found else ""
        if found and found[2]:
            url = url.partition(found[2])[0]
        text = links.text(url) if url else None
        if found and text is not None:
            yield from _changed(content, f"{found[1]}{text}")


def _script_charset(tag: Tag, src: Attribute, link: Link, page_codec: str) -> Iterator[Edit]:
    """A script is read in the page's character set unless something says otherwise."""
    charset = link.target.charset if link.target else ""
    if charset and codec(charset) not in {"", page_codec} and tag.get("charset") is None:
        yield Edit(begin=src.begin, end=src.begin, text=f'charset="{codec_label(charset)}" ')


def codec_label(charset: str) -> str:
    """A character set's name as it may stand in markup."""
    return re.sub(r"[^A-Za-z0-9_.:-]", "", charset)


def _aside(one: Attribute | None) -> Iterator[Edit]:
    if one is not None:
        yield Edit(begin=one.begin, end=one.begin, text=_SET_ASIDE)


def _changed(one: Attribute, value: str | None) -> Iterator[Edit]:
    if value is None or value == one.value:
        return
    written = escaped(value)
    yield Edit(begin=one.value_begin, end=one.value_end, text=written if one.quoted else f'"{written}"')

"""Redirect the links of HTML pages and SVG images into the copy; all other bytes stay unchanged."""

import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Final

from harvester.restoring.charsets import Edit, Text, escaped, unescaped
from harvester.restoring.links import Link, PageLinks
from oai.charsets import text_codec

_START: Final = re.compile(r"<(?:[A-Za-z]|/[A-Za-z]|[!?/])")
_NAME: Final = re.compile(r"[^\s/>]+", re.ASCII)
_ATTRIBUTE: Final = re.compile(
    r"""[\s/]*+(?:(?P<end>>)|(?P<name>=?[^\s/>=]*+)
    (?P<assigned>\s*+=\s*+(?:"(?P<double>[^"]*+)"|'(?P<single>[^']*+)'|(?P<bare>[^\s>"'][^\s>]*+))?)?)""",
    re.ASCII | re.VERBOSE,
)
_RAW: Final = frozenset({"script", "style", "textarea", "title", "xmp", "iframe", "noembed", "noframes"})
_FOREIGN: Final = frozenset({"svg", "math"})
_LINKS: Final = frozenset(
    {"href", "src", "poster", "background", "action", "formaction", "cite", "longdesc", "lowsrc", "dynsrc",
     "xlink:href", "ping"}
)  # fmt: skip
_LAZY: Final = frozenset({"data-src", "data-href", "data-original", "data-background", "data-poster"})
"""Attributes that scripts use as links; changed only if they lead to a document of the copy."""
_SRCSETS: Final = frozenset({"srcset", "imagesrcset", "data-srcset"})
_STRICT_CHECKS: Final = ("integrity", "crossorigin", "nonce")
"""With these attributes, browsers refuse content from a file."""
_POLICIES: Final = frozenset({"content-security-policy", "content-security-policy-report-only"})
_SET_ASIDE: Final = "data-archived-"
"""The prefix for names of attributes that would do harm in a copy."""
_REFRESH: Final = re.compile(
    r"(\s*+[0-9.]*+[\s;,]++(?:url\s*+=\s*+)?)([\"']?)(.*)", re.IGNORECASE | re.DOTALL | re.ASCII
)
_CANDIDATE: Final = re.compile(r"[\s,]*+(\S++)", re.ASCII)
# A bracket that is not closed takes the rest. An atomic group: before 3.11.5, Python matches possessive
# quantifiers of alternatives wrongly (gh-106052).
_DESCRIPTORS: Final = re.compile(r"(?>(?:[^,(]|\([^)]*+(?:\)|\Z))*)")
_MOST_LEVELS: Final = 10
"""Documents within `srcdoc` attributes of one another whose links are changed."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Attribute:
    """An attribute of a tag; positions are offsets in the text."""

    name: str
    """Lower case."""
    begin: int
    """The offset of the name; it ends after its number of characters."""
    value: str
    """The value with character references replaced."""
    value_begin: int
    value_end: int
    """Without quotation marks."""
    quoted: bool


@dataclass(frozen=True, kw_only=True, slots=True)
class Tag:
    """A start tag or a processing instruction."""

    name: str
    """In lower case; a processing instruction's begins with `?`."""
    begin: int
    end: int
    """The offset after the tag."""
    attributes: tuple[Attribute, ...]
    content_end: int | None = None
    """The offset of the content's end, for an element that contains only text."""

    def get(self, name: str) -> Attribute | None:
        """Return the first attribute of this name, which is the one that counts."""
        return next((one for one in self.attributes if one.name == name), None)

    def value(self, name: str) -> str:
        """Return the attribute's value without surrounding blanks; empty if there is none."""
        found = self.get(name)
        return found.value.strip() if found else ""


def tags(text: str, *, xml: bool = False) -> Iterator[Tag]:
    """Yield the start tags of a document in order, and in XML also its processing instructions."""
    place, foreign = 0, 0
    while (found := _START.search(text, place)) is not None:
        begin, kind = found.start(), text[found.start() + 1]
        if kind in "!?/":
            place = _behind_other(text, begin, xml=xml)
            if kind == "?" and xml and (instruction := _tag(text, begin + 2, begin, end=place)):
                yield instruction
            foreign -= kind == "/" and _closes_foreign(text, begin)
            continue
        tag = _tag(text, begin + 1, begin)
        if tag is None:
            return
        place = tag.end
        foreign += tag.name in _FOREIGN and text[tag.end - 2] != "/"
        alone = (xml or foreign > 0) and text[tag.end - 2] == "/"
        if tag.name in _RAW and not alone and (tag.name == "style" or not (xml or foreign > 0)):
            place = _content_end(text, tag)
            tag = Tag(name=tag.name, begin=begin, end=tag.end, attributes=tag.attributes, content_end=place)
        yield tag
        if tag.name == "plaintext" and not xml:
            return


def _tag(text: str, place: int, begin: int, *, end: int | None = None) -> Tag | None:
    """Return the tag whose name begins at the position; None for a tag that is not closed before `end`."""
    end = len(text) if end is None else end
    name = _NAME.match(text, place, end)
    if name is None:
        return None
    attributes: list[Attribute] = []
    place = name.end()
    while True:
        found = _ATTRIBUTE.match(text, place, end)
        if found is None or found.end() == place or _is_open(text, found):
            return None
        place = found.end()
        if found["end"]:
            prefix = "?" if text[begin + 1] == "?" else ""
            return Tag(name=prefix + name[0].lower(), begin=begin, end=place, attributes=tuple(attributes))
        attributes.append(_attribute(found))


def _attribute(found: re.Match[str]) -> Attribute:
    kind = next((kind for kind in ("double", "single", "bare") if found[kind] is not None), None)
    return Attribute(
        name=found["name"].lower(),
        begin=found.start("name"),
        value=unescaped(found[kind]) if kind else "",
        value_begin=found.start(kind) if kind else found.end(),
        value_end=found.end(kind) if kind else found.end(),
        quoted=kind in {"double", "single"},
    )


def _is_open(text: str, found: re.Match[str]) -> bool:
    """Return whether a quotation mark is never closed: the tag then extends to the end of the text."""
    has_value = any(found[kind] is not None for kind in ("double", "single", "bare"))
    return bool(found["assigned"]) and not has_value and text[found.end() : found.end() + 1] in {'"', "'"}


def _closes_foreign(text: str, begin: int) -> bool:
    name = _NAME.match(text, begin + 2)
    return name is not None and name[0].lower() in _FOREIGN


def _behind_other(text: str, begin: int, *, xml: bool) -> int:
    """Return the position after a comment, an end tag, a declaration or an instruction."""
    if text.startswith("<!--", begin):
        if text.startswith(("<!-->", "<!--->"), begin):
            return text.index(">", begin) + 1
        return _behind(text, "-->", begin + 4)
    if xml and text.startswith("<![CDATA[", begin):
        return _behind(text, "]]>", begin)
    if xml and text.startswith("<?", begin):
        return _behind(text, "?>", begin)
    return _behind(text, ">", begin)


def _behind(text: str, mark: str, place: int) -> int:
    found = text.find(mark, place)
    return len(text) if found < 0 else found + len(mark)


def _content_end(text: str, tag: Tag) -> int:
    closing = re.compile(rf"</{re.escape(tag.name)}(?=[\s/>])", re.IGNORECASE | re.ASCII)
    found = closing.search(text, tag.end)
    return len(text) if found is None else found.start()


Resolve = Callable[[str], str | None]
"""Returns the replacement of a link, in ASCII; None if it stays unchanged."""

# No part of it backtracks over what it has read, and no match starts within a word or a string: it takes
# linear time for every text.
_TOKEN: Final = re.compile(
    r"""
    (?P<comment>/\*[^*]*+(?:\*(?!/)[^*]*+)*+(?:\*/)?)
    | (?P<import>@import\s*+)(?=["'])
    | (?P<set>(?:-webkit-)?image-set\()
    | (?P<close>\))
    | (?P<string>"(?:[^"\\\n]|\\[\s\S])*+"|'(?:[^'\\\n]|\\[\s\S])*+')
    | (?P<broken>"(?:[^"\\\n]|\\[\s\S])*+|'(?:[^'\\\n]|\\[\s\S])*+)
    | (?<![A-Za-z0-9_-])url\(\s*+(?:(?P<quoted>"(?:[^"\\\n]|\\[\s\S])*+"|'(?:[^'\\\n]|\\[\s\S])*+')
                |(?P<bare>(?:[^"'()\\\s]|\\[\s\S])++))\s*+\)
    | (?P<function>(?<![A-Za-z-])[A-Za-z-]++\()
    """,
    re.IGNORECASE | re.VERBOSE | re.ASCII,
)
_ESCAPE: Final = re.compile(r"\\(?:([0-9A-Fa-f]{1,6})(?:\r\n|[ \t\r\n\f])?|(\r\n|[\n\f])|([\s\S]))")
_LAST_CHARACTER: Final = 0x10FFFF


def style_edits(text: str, resolve: Resolve, *, begin: int = 0, end: int | None = None) -> Iterator[Edit]:
    """Yield the edits that the style sheet between the positions needs."""
    importing, sets = False, []
    for found in _TOKEN.finditer(text, begin, len(text) if end is None else end):
        kind = found.lastgroup
        if kind == "import":
            importing = True
            continue
        if kind in {"set", "function"}:
            sets.append(kind == "set")
        elif kind == "close" and sets:
            sets.pop()
        elif kind in {"quoted", "bare"} or (kind == "string" and (importing or (sets and sets[-1]))):
            yield from _edit(found, kind or "", resolve)
        importing = importing and kind == "comment"


def _edit(found: re.Match[str], kind: str, resolve: Resolve) -> Iterator[Edit]:
    written = found[kind]
    link = written if kind == "bare" else written[1:-1]
    become = resolve(_unescaped(link)) if link.strip() else None
    if become is not None:
        # Characters that could end it are escaped in URLs.
        yield Edit(begin=found.start(kind), end=found.end(kind), text=f'"{become}"')


def _unescaped(link: str) -> str:
    return _ESCAPE.sub(_character, link) if "\\" in link else link


def _character(found: re.Match[str]) -> str:
    if found[1]:
        code = int(found[1], 16)
        return chr(code) if 0 < code <= _LAST_CHARACTER else "�"
    return found[3] or ""


def page_edits(text: str, links: PageLinks, page_codec: str, *, xml: bool = False) -> Iterator[Edit]:
    """Yield the edits after which a page's links lead to the right targets."""
    if xml:
        yield from _edits(text, links, page_codec, xml=True)
        return
    base = next((tag for tag in tags(text) if tag.name == "base" and tag.get("href")), None)
    if base is not None:
        links.set_base(base.value("href"))
    yield from _edits(text, links, page_codec, xml=False)


def _edits(text: str, links: PageLinks, page_codec: str, *, xml: bool, level: int = 0) -> Iterator[Edit]:
    for tag in tags(text, xml=xml):
        if tag.name == "base":
            yield from _aside(tag.get("href"))
            continue
        if tag.name == "meta":
            yield from _meta(tag, links)
        yield from _attributes(tag, links, page_codec, level)
        if tag.name == "style" and tag.content_end is not None:
            yield from style_edits(text, links.text, begin=tag.end, end=tag.content_end)


def _attributes(tag: Tag, links: PageLinks, page_codec: str, level: int) -> Iterator[Edit]:
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
            yield from _changed(one, _other_value(one, links, page_codec, level))
    for name in _STRICT_CHECKS if local else ():
        yield from _aside(tag.get(name))
    if tag.name == "html":
        yield from _aside(tag.get("manifest"))


def _other_value(one: Attribute, links: PageLinks, page_codec: str, level: int) -> str | None:
    """Return the new value of an attribute that is not a plain link; None if it stays unchanged."""
    if one.name in _LAZY:
        link = links.restored(one.value)
        return link.text if link else None
    if one.name in _SRCSETS:
        return _srcset(one.value, links)
    if one.name == "style":
        return _edited(one.value, lambda text: style_edits(text, links.text))
    if one.name == "srcdoc" and level < _MOST_LEVELS:
        return _edited(one.value, lambda text: _edits(text, links, page_codec, xml=False, level=level + 1))
    return None


def _edited(value: str, find: Callable[[str], Iterator[Edit]]) -> str | None:
    found = list(find(value))
    return Text(text=value, codec="utf-8").edited(found).decode() if found else None


def _srcset(value: str, links: PageLinks) -> str | None:
    """Return a srcset with its links replaced (HTML Standard, section 4.8.4.3.10)."""
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
    """Declare a script's character set if it differs from the page's, in which it would be read."""
    charset = link.target.charset if link.target else ""
    if charset and text_codec(charset) not in {"", page_codec} and tag.get("charset") is None:
        yield Edit(begin=src.begin, end=src.begin, text=f'charset="{codec_label(charset)}" ')


def codec_label(charset: str) -> str:
    """Return a character set's name for use in markup."""
    return re.sub(r"[^A-Za-z0-9_.:-]", "", charset)


def _aside(one: Attribute | None) -> Iterator[Edit]:
    if one is not None:
        yield Edit(begin=one.begin, end=one.begin, text=_SET_ASIDE)


def _changed(one: Attribute, value: str | None) -> Iterator[Edit]:
    if value is None or value == one.value:
        return
    written = escaped(value)
    yield Edit(begin=one.value_begin, end=one.value_end, text=written if one.quoted else f'"{written}"')

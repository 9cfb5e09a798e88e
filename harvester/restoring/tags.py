"""Cuts HTML and XML into tags as browsers do, and tells where in the text their attributes lie.

A tolerant reading after the HTML Standard (section 13.2.5): it never fails, and takes time in proportion to
the text. It gives places and changes nothing, so whoever edits leaves all other bytes as they are.
"""

import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

from harvester.restoring.entities import unescaped

_START: Final = re.compile(r"<(?:[A-Za-z]|/[A-Za-z]|[!?/])")
_NAME: Final = re.compile(r"[^\s/>]+", re.ASCII)
_ATTRIBUTE: Final = re.compile(
    r"""[\s/]*+(?:(?P<end>>)|(?P<name>=?[^\s/>=]*+)
    (?P<assigned>\s*+=\s*+(?:"(?P<double>[^"]*+)"|'(?P<single>[^']*+)'|(?P<bare>[^\s>"'][^\s>]*+))?)?)""",
    re.ASCII | re.VERBOSE,
)
_RAW: Final = frozenset({"script", "style", "textarea", "title", "xmp", "iframe", "noembed", "noframes"})
_FOREIGN: Final = frozenset({"svg", "math"})


@dataclass(frozen=True, kw_only=True, slots=True)
class Attribute:
    """An attribute of a tag; the places are those in the text."""

    name: str
    """Lower case."""
    begin: int
    """Where the name begins; it ends behind as many characters."""
    value: str
    """As it is meant: references replaced."""
    value_begin: int
    value_end: int
    """Without quotation marks."""
    quoted: bool


@dataclass(frozen=True, kw_only=True, slots=True)
class Tag:
    """A start tag or a processing instruction."""

    name: str
    """Lower case; with `?` before it for an instruction."""
    begin: int
    end: int
    """Behind the tag."""
    attributes: tuple[Attribute, ...]
    content_end: int | None = None
    """Where the content ends, of an element that holds text alone."""

    def get(self, name: str) -> Attribute | None:
        """The first attribute of this name, which is the one that counts."""
        return next((one for one in self.attributes if one.name == name), None)

    def value(self, name: str) -> str:
        """The attribute's value without blanks around it; empty where there is none."""
        found = self.get(name)
        return found.value.strip() if found else ""


def tags(text: str, *, xml: bool = False) -> Iterator[Tag]:
    """The start tags of a document, in order; in XML also its processing instructions."""
    place, foreign = 0, 0
    while (found := _START.search(text, place)) is not None:
        begin, kind = found.start(), text[found.start() + 1]
        if kind in "!?/":
            if kind == "?" and xml and (instruction := _tag(text, begin + 2, begin)):
                yield instruction
            foreign -= kind == "/" and _closes_foreign(text, begin)
            place = _behind_other(text, begin, xml=xml)
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


def _tag(text: str, place: int, begin: int) -> Tag | None:
    """The tag whose name begins at the place; None for one that is never closed."""
    name = _NAME.match(text, place)
    if name is None:
        return None
    attributes: list[Attribute] = []
    place = name.end()
    while True:
        found = _ATTRIBUTE.match(text, place)
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
    """Whether a quotation mark is never closed: then the tag goes on to the end of the text."""
    has_value = any(found[kind] is not None for kind in ("double", "single", "bare"))
    return bool(found["assigned"]) and not has_value and text[found.end() : found.end() + 1] in {'"', "'"}


def _closes_foreign(text: str, begin: int) -> bool:
    name = _NAME.match(text, begin + 2)
    return name is not None and name[0].lower() in _FOREIGN


def _behind_other(text: str, begin: int, *, xml: bool) -> int:
    """The place behind a comment, an end tag, a declaration or an instruction."""
    if text.startswith("<!--", begin):
        if text.startswith(("<!-->", "<!--->"), begin):
            return text.index(">", begin) + 1
        return _behind(text, "-->", begin + 4)
    if xml and text.startswith("<![CDATA[", begin):
        return _behind(text, "]]>", begin)
    return _behind(text, ">", begin)


def _behind(text: str, mark: str, place: int) -> int:
    found = text.find(mark, place)
    return len(text) if found < 0 else found + len(mark)


def _content_end(text: str, tag: Tag) -> int:
    closing = re.compile(rf"</{re.escape(tag.name)}(?=[\s/>])", re.IGNORECASE | re.ASCII)
    found = closing.search(text, tag.end)
    return len(text) if found is None else found.start()

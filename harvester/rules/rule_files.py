"""Read a rule file and locate errors in it: what filter files and normalise files share.

Source: UIUC OAI harvester architecture, "Filtering" and "Normalizing".
"""

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Final, cast
from xml.parsers import expat

from lxml import etree

from harvester.rules.rule_expressions import (
    Expression,
    ExpressionError,
    FoundNode,
    RecordPath,
    TooMuchError,
    text_of,
)
from harvester.rules.rule_limits import Evaluation
from oai.errors import MalformedXmlError, Phrase, UsageError, ZatvaError
from oai.failures import Failure, FailureCode
from oai.xml import DOCTYPE_REFUSED, parse

_LINE_END: Final = re.compile(r"\r\n|\r|\n")
_TAG: Final = re.compile(rb"<(?:[^<>\"']|\"[^\"]*\"|'[^']*')*>")
# A name is tried from its first character only, so that a long one takes linear time.
_ATTRIBUTE: Final = re.compile(r"(?<![^\s=/<>\"'])([^\s=/<>\"']++)\s*+=\s*+(?:\"[^\"]*+\"|'[^']*+')")
MAX_BYTES: Final = 1024**2
"""The maximum size of a rule file in bytes."""
_NAMESPACES: Final = "selectionNamespaces"
_DECLARATION: Final = re.compile(r"xmlns(?::([^\W\d][\w.\-]*))?\s*=\s*(?:'([^'<]*)'|\"([^\"<]*)\")(?:\s++|$)")
_TRUTHS: Final = {"true": True, "1": True, "false": False, "0": False}


@dataclass(frozen=True, kw_only=True)
class RulePlace:
    """A line and a column, both from 1."""

    line: int
    column: int


@dataclass(frozen=True, kw_only=True)
class ElementPlace(RulePlace):
    """The position at which an element begins, and its start tag as written."""

    tag: str

    def attribute(self, name: str) -> RulePlace:
        """Return the position of the attribute's name in the tag, or of the element if it has none."""
        for found in _attributes(self.tag):
            if found[1] == name:
                lines = _LINE_END.split(self.tag[: found.start(1)])
                column = len(lines[-1]) + (self.column if len(lines) == 1 else 1)
                return RulePlace(line=self.line + len(lines) - 1, column=column)
        return self


def places(data: bytes) -> Sequence[ElementPlace]:
    """Return the position of each element of a well-formed file, in document order.

    Empty if the file is in an encoding that Python's own parser does not know.
    """
    found: list[tuple[int, int, int]] = []
    parser = expat.ParserCreate()

    def note(_name: str, _attributes: dict[str, str]) -> None:
        found.append((parser.CurrentLineNumber, parser.CurrentColumnNumber, parser.CurrentByteIndex))

    parser.StartElementHandler = note
    try:
        parser.Parse(data, True)  # noqa: FBT003 the parser accepts no keyword arguments
    except (expat.ExpatError, LookupError, ValueError):
        return ()
    return [
        ElementPlace(line=line, column=column + 1, tag=_tag(data, index)) for line, column, index in found
    ]


def _tag(data: bytes, index: int) -> str:
    """Return the start tag at a byte offset; empty in an encoding with several bytes per letter."""
    found = _TAG.match(data, index)
    return found[0].decode("utf-8", errors="replace") if found else ""


def _attributes(tag: str) -> Iterator[re.Match[str]]:
    return _ATTRIBUTE.finditer(tag)


class RuleFileError(UsageError):
    """A rule file that cannot be used: the file, the position (0: unknown), the reason and what to do."""

    failure = Failure(code=FailureCode.RULES)

    def __init__(self, source: str, why: str | ZatvaError, *, line: int = 0, column: int = 0) -> None:
        super().__init__("%(where)s: %(reason)s", where=_where(source, line, column), reason=why)
        self.source = source
        self.line = line
        self.column = column
        self.why = why if isinstance(why, ZatvaError) else ZatvaError(why)
        """The reason alone, which can be said in another language."""

    @property
    def reason(self) -> str:
        """The reason and what to do, in English."""
        return str(self.why)


class RuleLimitError(ZatvaError):
    """A rule that exceeded a limit on one record; it may work on others."""

    failure = Failure(code=FailureCode.RECORD_RULE_LIMIT)

    def __init__(self, source: str, why: ZatvaError, *, line: int, column: int) -> None:
        super().__init__("%(where)s: %(reason)s", where=_where(source, line, column), reason=why)


@dataclass(frozen=True, kw_only=True)
class _Placed:
    """A part of a rule with its position in the file, for errors."""

    source: str
    place: RulePlace

    def _fault(self, error: ExpressionError) -> RuleFileError:
        return RuleFileError(self.source, error, line=self.place.line, column=self.place.column)

    def _limit(
        self, evaluation: Evaluation, words: Phrase, expression: str, error: TooMuchError
    ) -> ZatvaError:
        why = ZatvaError(words, said=repr(expression), limit=error)
        line, column = self.place.line, self.place.column
        if evaluation.too_often():
            why = ZatvaError(
                "%(reason)s; more than %(count)s records exceeded it; simplify the rule",
                reason=why, count=evaluation.limits.records,
            )  # fmt: skip
            return RuleFileError(self.source, why, line=line, column=column)
        return RuleLimitError(self.source, why, line=line, column=column)


@dataclass(frozen=True, kw_only=True)
class RulePath(_Placed):
    """The XPath of a rule."""

    path: RecordPath

    def find(self, evaluation: Evaluation) -> list[FoundNode]:
        """Return what it yields on the record.

        Raises RuleLimitError if it exceeds a limit, and RuleFileError if it does so too often or cannot be
        evaluated.
        """
        try:
            return evaluation.find(self.path)
        except ExpressionError as error:
            raise self._fault(error) from None
        except TooMuchError as error:
            words = Phrase("the XPath expression %(said)s exceeds a limit: %(limit)s")
            raise self._limit(evaluation, words, self.path.expression, error) from None


@dataclass(frozen=True, kw_only=True)
class RuleExpression(_Placed):
    """The regular expression of a rule."""

    expression: Expression

    def matches(self, evaluation: Evaluation, value: str) -> bool:
        """Return whether it occurs anywhere in the value; raises as `RulePath.find` does."""
        try:
            return evaluation.matches(self.expression, value)
        except TooMuchError as error:
            words = Phrase("the regular expression %(said)s exceeds a limit: %(limit)s")
            raise self._limit(evaluation, words, self.expression.pattern, error) from None


@dataclass(frozen=True, kw_only=True)
class RuleFile:
    """A well-formed rule file with the right root element, and its declared namespaces."""

    source: str
    root: etree._Element
    namespaces: Mapping[str, str]
    """Namespaces by prefix, from `<selectionNamespaces>`."""
    places: Mapping[etree._Element, ElementPlace] = field(default_factory=dict)

    def rules(self, name: str) -> list[etree._Element]:
        """Return the root's rule elements.

        Raises RuleFileError if there are none, or if there are other elements.
        """
        rules = [child for child in self.children(self.root, (_NAMESPACES, name)) if child.tag == name]
        if not rules:
            raise self.fault(
                self.root,
                "%(tag)s has no %(name)s; write at least one",
                tag=tag_of(self.root),
                name=f"<{name}>",
            )
        return rules

    def children(self, parent: etree._Element, names: tuple[str, ...]) -> Iterator[etree._Element]:
        """Yield the child elements. Raises RuleFileError for other names, and for text between them."""
        if (parent.text or "").strip():
            raise self._text_fault(parent, parent, parent.text)
        for child in parent:
            if (child.tail or "").strip():
                raise self._text_fault(child, parent, child.tail)
            if not isinstance(child.tag, str):
                continue
            if child.tag not in names:
                allowed = ", ".join(f"<{name}>" for name in names) or Phrase("no elements")
                raise self.fault(
                    child, "%(tag)s is not allowed in %(parent)s; allowed: %(allowed)s",
                    tag=tag_of(child), parent=tag_of(parent), allowed=allowed,
                )  # fmt: skip
            yield child

    def attributes(
        self, element: etree._Element, *, required: tuple[str, ...] = (), optional: tuple[str, ...] = ()
    ) -> dict[str, str]:
        """Return the attributes. Raises RuleFileError if one is unknown or missing."""
        # Names alone: lxml looks up each value among all attributes of the element.
        for name in map(str, element.keys()):
            if name not in required + optional:
                allowed = ", ".join(required + optional) or Phrase("none")
                raise self.fault(
                    element, "%(tag)s has no attribute %(name)s; allowed: %(allowed)s", at=name,
                    tag=tag_of(element), name=repr(name), allowed=allowed,
                )  # fmt: skip
        for name in required:
            if element.get(name) is None:
                raise self.fault(
                    element,
                    "%(tag)s lacks the attribute %(name)s; add it",
                    tag=tag_of(element),
                    name=repr(name),
                )
        return {name: value for name in required + optional if (value := element.get(name)) is not None}

    def truth(self, element: etree._Element, name: str) -> bool:
        """Return the value of a boolean attribute; False if it is absent."""
        value = element.get(name, "false")
        try:
            return _TRUTHS[value.strip().lower()]
        except KeyError:
            said = f"{name}={value!r}"
            raise self.fault(element, "%(said)s is not 'true' or 'false'", at=name, said=said) from None

    def path(self, element: etree._Element) -> RulePath:
        """Return the element's `xpath`, checked."""
        try:
            path = RecordPath(expression=element.get("xpath", ""), namespaces=self.namespaces)
        except ExpressionError as error:
            raise self.fault(element, error, at="xpath") from None
        return RulePath(path=path, source=self.source, place=self._place(element, "xpath"))

    def expression(self, element: etree._Element) -> RuleExpression:
        """Return the element's `regexp` with its `ignoreCase`, compiled."""
        ignore_case = self.truth(element, "ignoreCase")
        try:
            expression = Expression(pattern=element.get("regexp", ""), ignore_case=ignore_case)
        except ExpressionError as error:
            raise self.fault(element, error, at="regexp") from None
        place = self._place(element, "regexp")
        return RuleExpression(expression=expression, source=self.source, place=place)

    def fault(
        self, element: etree._Element, reason: str | ZatvaError, *, at: str | None = None, **values: object
    ) -> RuleFileError:
        """Return the error for an invalid element or attribute; `values` are those of the reason's places."""
        place = self._place(element, at)
        why = reason if isinstance(reason, ZatvaError) else ZatvaError(reason, **values)
        return RuleFileError(self.source, why, line=place.line, column=place.column)

    def _text_fault(self, at: etree._Element, parent: etree._Element, text: str | None) -> RuleFileError:
        said = repr((text or "").strip())
        return self.fault(at, "text is not allowed in %(tag)s: %(text)s", tag=tag_of(parent), text=said)

    def _place(self, element: etree._Element, attribute: str | None) -> RulePlace:
        place = self.places.get(element)
        if place is None:
            return RulePlace(line=cast("int | None", element.sourceline) or 0, column=0)
        return place if attribute is None else place.attribute(attribute)


def read_bytes(path: Path, *, source: str | None = None) -> bytes:
    """Read a rule file; raises RuleFileError, naming `source` or the path, if it cannot be read."""
    try:
        with path.open("rb") as file:
            return file.read(MAX_BYTES + 1)
    except OSError as error:
        why = ZatvaError(
            "cannot be read: %(error)s; check the path and its permissions",
            error=error.strerror or str(error),
        )
        raise RuleFileError(source or str(path), why) from None


def parse_xml(data: bytes, *, source: str) -> etree._Element:
    """Return the root element of a rule file. Raises RuleFileError if it is too large or not well-formed."""
    if len(data) > MAX_BYTES:
        raise RuleFileError(source, "larger than 1,048,576 bytes; split the rules")
    try:
        return parse(data, source=source)
    except MalformedXmlError as error:
        why = ZatvaError("a document type declaration (DOCTYPE) is not allowed; remove it")
        if error.reason != DOCTYPE_REFUSED:
            why = ZatvaError("not well-formed XML: `%(error)s`; correct it", error=error.reason)
        raise RuleFileError(source, why, line=error.line, column=error.column) from None


def parse_rules(data: bytes, *, source: str, root: str) -> RuleFile:
    """Parse a rule file whose root element is `root`, and read its namespaces.

    Raises RuleFileError if it is too large, not well-formed, or of another kind, or if its namespaces are
    invalid.
    """
    element = parse_xml(data, source=source)
    placed = dict(zip(element.iter(etree.Element), places(data), strict=False))
    file = RuleFile(source=source, root=element, namespaces={}, places=placed)
    if element.tag != root:
        raise file.fault(
            element, "the root element is %(tag)s; this type of file begins with %(root)s",
            tag=tag_of(element), root=f"<{root}>",
        )  # fmt: skip
    return replace(file, namespaces=_namespaces(file))


def tag_of(element: etree._Element) -> str:
    """Return the start tag without attributes, as errors name it."""
    return f"<{element.tag}>"


def _where(source: str, line: int, column: int) -> str | ZatvaError:
    if not line:
        return source
    if not column:
        return ZatvaError("%(source)s, line %(line)s", source=source, line=line)
    return ZatvaError("%(source)s, line %(line)s, column %(column)s", source=source, line=line, column=column)


def _namespaces(file: RuleFile) -> dict[str, str]:
    elements = file.root.findall(_NAMESPACES)
    for extra in elements[1:]:
        raise file.fault(extra, "a second %(tag)s; combine both into one", tag=tag_of(extra))
    declared: dict[str, str] = {}
    for element in elements:
        file.attributes(element)
        for child in element.iterchildren(etree.Element):
            raise file.fault(
                child, "%(tag)s is not allowed in %(parent)s, which contains text",
                tag=tag_of(child), parent=tag_of(element),
            )  # fmt: skip
        for prefix, uri in _declarations(file, element):
            if prefix in declared:
                raise file.fault(
                    element, "the prefix %(prefix)s is declared twice; keep one", prefix=repr(prefix)
                )
            declared[prefix] = uri
    return declared


def _declarations(file: RuleFile, element: etree._Element) -> Iterator[tuple[str, str]]:
    text, place = text_of(element).strip(), 0
    while place < len(text):
        found = _DECLARATION.match(text, place)
        if found is None:
            raise file.fault(
                element,
                "%(text)s is not a namespace declaration; write xmlns:prefix='uri'",
                text=repr(text[place : place + 60]),
            )
        prefix, uri = found[1], (found[2] or found[3] or "").strip()
        if not prefix:
            raise file.fault(
                element, "%(said)s has no prefix, and XPath has no default namespace; declare a prefix",
                said=f"xmlns={uri!r}",
            )  # fmt: skip
        if prefix in {"xml", "xmlns"} or not uri:
            raise file.fault(
                element, "%(said)s cannot be declared; choose another prefix or a URI",
                said=f"xmlns:{prefix}={uri!r}",
            )  # fmt: skip
        yield prefix, uri
        place = found.end()

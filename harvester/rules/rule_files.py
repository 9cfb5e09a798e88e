"""Reads a rule file, and says where in it a fault stands: what filter files and normalise files share.

Source: UIUC OAI harvester architecture, "Filtering" and "Normalizing".
"""

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final, cast

from lxml import etree

from harvester.rules.rule_expressions import Expression, ExpressionError, Found, RecordPath, text_of
from oai.errors import MalformedXmlError, UsageError
from oai.xml import parse

MAX_BYTES: Final = 1024**2
"""Size of the largest rule file."""

_NAMESPACES: Final = "selectionNamespaces"
_DECLARATION: Final = re.compile(r"xmlns(?::([^\W\d][\w.\-]*))?\s*=\s*(?:'([^'<]*)'|\"([^\"<]*)\")(?=\s|$)")
_TRUTHS: Final = {"true": True, "1": True, "false": False, "0": False}


class RuleFileError(UsageError):
    """A rule file that cannot be used: which file, which line (0: none is known), why, and what to do."""

    def __init__(self, source: str, line: int, reason: str) -> None:
        super().__init__(f"{source}, line {line}: {reason}" if line else f"{source}: {reason}")
        self.source = source
        self.line = line
        self.reason = reason


@dataclass(frozen=True, kw_only=True)
class RulePath:
    """An XPath expression that knows where it was written."""

    path: RecordPath
    source: str
    line: int

    def find(self, record: etree._Element) -> list[Found]:
        """Give what it yields. Raises RuleFileError where it cannot be evaluated on this record."""
        try:
            return self.path.find(record)
        except ExpressionError as error:
            raise RuleFileError(self.source, self.line, str(error)) from None


@dataclass(frozen=True, kw_only=True)
class RuleFile:
    """A well-formed rule file with the right root element, and the namespaces that it declares."""

    source: str
    root: etree._Element
    namespaces: Mapping[str, str]
    """Prefix to namespace, from `<selectionNamespaces>`."""

    def rules(self, name: str) -> list[etree._Element]:
        """Give the root's rule elements.

        Raises RuleFileError where there is none, or something else stands there.
        """
        rules = [child for child in self.children(self.root, (_NAMESPACES, name)) if child.tag == name]
        if not rules:
            raise self.fault(self.root, f"<{self.root.tag}> holds no <{name}>; write at least one")
        return rules

    def children(self, parent: etree._Element, names: tuple[str, ...]) -> Iterator[etree._Element]:
        """Give the child elements. Raises RuleFileError for other names, and for text between them."""
        if (parent.text or "").strip():
            raise self.fault(
                parent, f"the text {(parent.text or '').strip()!r} has no meaning in <{parent.tag}>"
            )
        for child in parent:
            if (child.tail or "").strip():
                raise self.fault(
                    child, f"the text {(child.tail or '').strip()!r} has no meaning in <{parent.tag}>"
                )
            if not isinstance(child.tag, str):
                continue
            if child.tag not in names:
                allowed = " and ".join(f"<{name}>" for name in names)
                raise self.fault(child, f"<{child.tag}> is not known in <{parent.tag}>; it holds {allowed}")
            yield child

    def attributes(
        self, element: etree._Element, *, required: tuple[str, ...] = (), optional: tuple[str, ...] = ()
    ) -> dict[str, str]:
        """Give the attributes. Raises RuleFileError for one that is unknown or missing."""
        found = {str(name): str(value) for name, value in element.attrib.items()}
        for name in found:
            if name not in required + optional:
                allowed = ", ".join(required + optional) or "none"
                raise self.fault(element, f"<{element.tag}> has no attribute {name!r}; it takes: {allowed}")
        for name in required:
            if name not in found:
                raise self.fault(element, f"<{element.tag}> lacks the attribute {name!r}; add it")
        return found

    def truth(self, element: etree._Element, name: str) -> bool:
        """Give a true-or-false attribute, false where it is absent."""
        value = element.get(name, "false")
        try:
            return _TRUTHS[value.strip().lower()]
        except KeyError:
            raise self.fault(element, f"{name}={value!r} is neither 'true' nor 'false'") from None

    def path(self, element: etree._Element) -> RulePath:
        """Give the element's `xpath`, checked."""
        try:
            path = RecordPath(expression=element.get("xpath", ""), namespaces=self.namespaces)
        except ExpressionError as error:
            raise self.fault(element, str(error)) from None
        return RulePath(path=path, source=self.source, line=_line(element))

    def expression(self, element: etree._Element) -> Expression:
        """Give the element's `regexp` with its `ignoreCase`, compiled."""
        ignore_case = self.truth(element, "ignoreCase")
        try:
            return Expression(pattern=element.get("regexp", ""), ignore_case=ignore_case)
        except ExpressionError as error:
            raise self.fault(element, str(error)) from None

    def fault(self, element: etree._Element, reason: str) -> RuleFileError:
        """Make the error for something that is wrong at an element."""
        return RuleFileError(self.source, _line(element), reason)


def read_bytes(path: Path) -> bytes:
    """Read a rule file. Raises RuleFileError where it cannot be read."""
    try:
        with path.open("rb") as file:
            return file.read(MAX_BYTES + 1)
    except OSError as error:
        reason = f"cannot be read: {error.strerror or error}; check the path and its permissions"
        raise RuleFileError(str(path), 0, reason) from None


def parse_rules(data: bytes, *, source: str, root: str) -> RuleFile:
    """Parse a rule file whose root element is `root` and read its namespaces.

    Raises RuleFileError where it is too large, not well-formed, of another kind, or its namespaces are wrong.
    """
    if len(data) > MAX_BYTES:
        raise RuleFileError(source, 0, f"larger than {MAX_BYTES:,} bytes; split the rules")
    try:
        element = parse(data, source=source)
    except MalformedXmlError as error:
        raise RuleFileError(source, error.line, f"not well-formed XML: {error.reason}; mend it") from None
    file = RuleFile(source=source, root=element, namespaces={})
    if element.tag != root:
        raise file.fault(
            element, f"the root element is <{element.tag}>; this kind of file begins with <{root}>"
        )
    return RuleFile(source=source, root=element, namespaces=_namespaces(file))


def _line(element: etree._Element) -> int:
    return cast("int | None", element.sourceline) or 0


def _namespaces(file: RuleFile) -> dict[str, str]:
    elements = file.root.findall(_NAMESPACES)
    for extra in elements[1:]:
        raise file.fault(extra, f"a second <{_NAMESPACES}>; join the two into one")
    declared: dict[str, str] = {}
    for element in elements:
        file.attributes(element)
        for child in element.iterchildren(etree.Element):
            raise file.fault(child, f"<{child.tag}> is not known in <{_NAMESPACES}>; it holds text")
        for prefix, uri in _declarations(file, element):
            if prefix in declared:
                raise file.fault(element, f"the prefix {prefix!r} is declared twice; keep one")
            declared[prefix] = uri
    return declared


def _declarations(file: RuleFile, element: etree._Element) -> Iterator[tuple[str, str]]:
    rest = text_of(element).strip()
    while rest:
        found = _DECLARATION.match(rest)
        if found is None:
            raise file.fault(
                element, f"{rest[:60]!r} is not a namespace declaration; write xmlns:prefix='uri'"
            )
        prefix, uri = found[1], (found[2] or found[3] or "").strip()
        if not prefix:
            raise file.fault(element, f"xmlns={uri!r} has no prefix, and XPath knows no default; give it one")
        if prefix in {"xml", "xmlns"} or not uri:
            raise file.fault(
                element, f"xmlns:{prefix}={uri!r} cannot be declared; choose another prefix or a URI"
            )
        yield prefix, uri
        rest = rest[found.end() :].lstrip()

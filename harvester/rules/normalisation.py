"""Normalise files: elements added to the original ones (UIUC harvester architecture, "Normalizing").

::

    <normalize>
      <selectionNamespaces>xmlns:dc='http://purl.org/dc/elements/1.1/'</selectionNamespaces>
      <mapping xpath="//dc:type">
        <newElement name="dc:type" regexp="jpe?g" ignoreCase="true">
          <newValue>image</newValue>
        </newElement>
      </mapping>
    </normalize>

Position: directly after the element that was found, or that contains the text or attribute that was found. If
the match is in a place that cannot contain more elements (the header, the metadata's root element) or has no
place (a computed value), the new element is added at the end of the metadata's root element.

Name: a prefix is one of `<selectionNamespaces>`; without a prefix, the namespace is that of the surroundings.

A value already present there under the same name is not added again, and the mappings are repeated until none
adds an element. So the result does not depend on the order of mappings that feed one another, and applying
the rules to their own result changes nothing. The repetition always ends: new elements never contain
elements, so the numbers of places, names and values are finite.
"""

from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from lxml import etree

from harvester.rules.rule_expressions import FoundNode, text_of
from harvester.rules.rule_files import RuleExpression, RuleFile, RulePath, parse_rules, read_bytes, tag_of
from harvester.rules.rule_limits import Evaluation, Evaluator, RuleLimits
from oai.xml import metadata_of

_CONTENT_DEPTH: Final = 3
"""The depth of elements in the content of metadata or about: below record, metadata and root element."""


@dataclass(frozen=True, kw_only=True)
class NewElement:
    """A `<newElement>` element: what is added if the expression matches."""

    prefix: str | None
    namespace: str | None
    """None for the namespace of the surroundings."""
    name: str
    expression: RuleExpression
    values: tuple[str, ...]

    def tag(self, surroundings: etree._Element) -> str:
        """Return the tag of the new element in these surroundings, `{namespace}name`."""
        namespace = self.namespace or etree.QName(surroundings).namespace
        return f"{{{namespace}}}{self.name}" if namespace else self.name


@dataclass(frozen=True, kw_only=True)
class NodeMapping:
    """A `<mapping>` element."""

    path: RulePath
    new_elements: tuple[NewElement, ...]


Note = Callable[[NodeMapping, NewElement, str], None]
"""Called for each element that was added: with the mapping, the new element's rule, and the value."""


@dataclass(frozen=True, kw_only=True)
class Mappings:
    """A parsed normalise file; safe to share between threads."""

    mappings: tuple[NodeMapping, ...]
    evaluator: Evaluator = field(default_factory=Evaluator, compare=False)

    def apply(self, record: etree._Element, note: Note | None = None) -> int:
        """Add the new elements to a record, `<record>` in the OAI namespace, and return their number.

        The record is changed in place. A record without metadata, such as a deletion, is not changed. Raises
        RuleLimitError if a rule exceeds a limit on this record, and RuleFileError if that happens too often
        or an XPath cannot be evaluated; the record may then contain some of the new elements.
        """
        root = metadata_of(record)
        if root is None:
            return 0
        addition = _Addition(record=record, root=root, evaluation=self.evaluator.on(record), note=note)
        total = 0
        while added := sum(addition.run(mapping) for mapping in self.mappings):
            total += added
        return total


@dataclass(frozen=True, kw_only=True)
class _Addition:
    """The application of mappings to one record."""

    record: etree._Element
    root: etree._Element
    evaluation: Evaluation
    note: Note | None = None
    existing: dict[etree._Element, set[tuple[str, str]]] = field(default_factory=dict)
    """The tags and values under each parent visited so far."""

    def run(self, mapping: NodeMapping) -> int:
        return sum(self._add(mapping, found) for found in mapping.path.find(self.evaluation))

    def _add(self, mapping: NodeMapping, found: FoundNode) -> int:
        matching = [
            new for new in mapping.new_elements if new.expression.matches(self.evaluation, found.value)
        ]
        parent, last = self._place(found.bearer)
        beside_element = last is not None and last is found.bearer and isinstance(last.tag, str)
        surroundings = last if beside_element and last is not None else parent
        existing = self._existing(parent)
        added = 0
        for new in matching:
            tag = new.tag(surroundings)
            for value in new.values:
                if (tag, value) not in existing:
                    existing.add((tag, value))
                    last = _insert(_element(parent, tag, new, value), parent, last)
                    added += 1
                    if self.note is not None:
                        self.note(mapping, new, value)
        return added

    def _place(self, bearer: etree._Element | None) -> tuple[etree._Element, etree._Element | None]:
        """Return the parent, and the child after which the new element is inserted."""
        parent = None if bearer is None else bearer.getparent()
        if parent is not None and self._is_content(bearer):
            return parent, bearer
        return self.root, next(self.root.iterchildren(reversed=True), None)

    def _is_content(self, element: etree._Element | None) -> bool:
        """Return whether an element can get siblings: it is inside the root element of metadata or about."""
        ancestors = [] if element is None else list(element.iterancestors())
        return self.record in ancestors and ancestors.index(self.record) >= _CONTENT_DEPTH - 1

    def _existing(self, parent: etree._Element) -> set[tuple[str, str]]:
        # Elements that contain elements are excluded: their text may still grow during the application.
        if parent not in self.existing:
            self.existing[parent] = {
                (str(child.tag), text_of(child).strip())
                for child in parent.iterchildren(etree.Element)
                if child.find("*") is None
            }
        return self.existing[parent]


def load_mappings(path: Path, limits: RuleLimits | None = None, *, source: str | None = None) -> Mappings:
    """Read a normalise file, which errors name by `source` or else by its path.

    Raises RuleFileError with file, line, column, reason and what to do.
    """
    source = source or str(path)
    return parse_mappings(read_bytes(path, source=source), source=source, limits=limits)


def parse_mappings(data: bytes, *, source: str, limits: RuleLimits | None = None) -> Mappings:
    """Parse a normalise file; `source` names it in errors. Raises RuleFileError."""
    file = parse_rules(data, source=source, root="normalize")
    file.attributes(file.root)
    rules = tuple(_mapping(file, rule) for rule in file.rules("mapping"))
    return Mappings(mappings=rules, evaluator=Evaluator(limits))


def _mapping(file: RuleFile, rule: etree._Element) -> NodeMapping:
    file.attributes(rule, required=("xpath",))
    new_elements = tuple(_new_element(file, child) for child in file.children(rule, ("newElement",)))
    if not new_elements:
        raise file.fault(rule, "<mapping> has no <newElement>; write at least one")
    return NodeMapping(path=file.path(rule), new_elements=new_elements)


def _new_element(file: RuleFile, element: etree._Element) -> NewElement:
    attributes = file.attributes(element, required=("name", "regexp"), optional=("ignoreCase",))
    prefix, name = _name(file, element, attributes["name"])
    values = tuple(_value(file, child) for child in file.children(element, ("newValue",)))
    if not values:
        raise file.fault(element, "<newElement> has no <newValue>; write at least one")
    return NewElement(
        prefix=prefix,
        namespace=file.namespaces[prefix] if prefix else None,
        name=name,
        expression=file.expression(element),
        values=values,
    )


def _name(file: RuleFile, element: etree._Element, written: str) -> tuple[str | None, str]:
    prefix, _, name = written.rpartition(":")
    try:
        etree.Element(name)
    except ValueError:
        raise file.fault(
            element, "%(name)s is not an element name such as 'dc:type'", at="name", name=f"name={written!r}"
        ) from None
    if prefix and prefix not in file.namespaces:
        raise file.fault(
            element,
            "the namespace prefix %(prefix)s of %(name)s is not declared; "
            "add %(declaration)s to <selectionNamespaces>",
            at="name", prefix=repr(prefix), name=f"name={written!r}", declaration=f"xmlns:{prefix}='…'",
        )  # fmt: skip
    return prefix or None, name


def _value(file: RuleFile, element: etree._Element) -> str:
    file.attributes(element)
    for child in element.iterchildren(etree.Element):
        raise file.fault(
            child, "%(tag)s is not allowed in %(parent)s, which contains text",
            tag=tag_of(child), parent=tag_of(element),
        )  # fmt: skip
    value = text_of(element).strip()
    if not value:
        raise file.fault(element, "<newValue> is empty; write the value to add")
    return value


def _element(parent: etree._Element, tag: str, new: NewElement, value: str) -> etree._Element:
    nsmap = {new.prefix: new.namespace} if new.prefix and new.namespace else None
    element = parent.makeelement(tag, nsmap=nsmap)
    element.text = value
    return element


def _insert(element: etree._Element, parent: etree._Element, last: etree._Element | None) -> etree._Element:
    """Insert the element after `last`, or as the only child, with the whitespace of its neighbours."""
    if last is None:
        parent.append(element)
        return element
    previous = last.getprevious()
    before = parent.text if previous is None else previous.tail
    last.addnext(element)
    if not (last.tail or "").strip() and not (before or "").strip():
        element.tail, last.tail = last.tail, before
    return element

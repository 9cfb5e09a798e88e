"""Normalise files: elements added beside the original (UIUC harvester architecture, "Normalizing"; NOR-1).

::

    <normalize>
      <selectionNamespaces>xmlns:dc='http://purl.org/dc/elements/1.1/'</selectionNamespaces>
      <mapping xpath="//dc:type">
        <newElement name="dc:type" regexp="jpe?g" ignoreCase="true">
          <newValue>image</newValue>
        </newElement>
      </mapping>
    </normalize>

Where: directly after the element that was found, or that bears the text or attribute that was found. What was
found where a record has no room for more (the header, the metadata's root element) or nowhere (a computed
value) adds at the end of the metadata's root element.

Name: a prefix is one of `<selectionNamespaces>`; without one, the namespace is that of the surroundings.

A value that already stands there under the same name is not added again, and the mappings are gone through
until nothing more is added. So the result does not depend on the order of mappings that feed one another, and
applying the rules to their own result changes nothing. It always ends: new elements never hold elements, so
there are only so many places, names and values.
"""

from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from lxml import etree

from harvester.rules.rule_expressions import FoundNode, text_of
from harvester.rules.rule_files import RuleExpression, RuleFile, RulePath, parse_rules, read_bytes
from harvester.rules.rule_limits import Evaluation, Evaluator, RuleLimits
from oai.vocabulary import OAI_NAMESPACE

_METADATA: Final = f"{{{OAI_NAMESPACE}}}metadata"
_CONTENT_DEPTH: Final = 3
"""Of an element in the content of metadata or about: below record, metadata, root element."""


@dataclass(frozen=True, kw_only=True)
class NewElement:
    """One `<newElement>`: what is added where the expression matches."""

    prefix: str | None
    namespace: str | None
    """None for that of the surroundings."""
    name: str
    expression: RuleExpression
    values: tuple[str, ...]

    def tag(self, surroundings: etree._Element) -> str:
        """Give the tag that the element gets there, `{namespace}name`."""
        namespace = self.namespace or etree.QName(surroundings).namespace
        return f"{{{namespace}}}{self.name}" if namespace else self.name


@dataclass(frozen=True, kw_only=True)
class NodeMapping:
    """One `<mapping>`."""

    path: RulePath
    new_elements: tuple[NewElement, ...]


Note = Callable[[NodeMapping, NewElement, str], None]
"""Is told of each element that was added: by which mapping, which of its new elements, with what value."""


@dataclass(frozen=True, kw_only=True)
class Mappings:
    """A normalise file, ready for use; safe to share between threads."""

    mappings: tuple[NodeMapping, ...]
    evaluator: Evaluator = field(default_factory=Evaluator, compare=False)

    def apply(self, record: etree._Element, note: Note | None = None) -> int:
        """Add the new elements to a record, `<record>` in the OAI namespace, and give how many were added.

        The record is changed in place. One without metadata, such as a deletion, is left as it is.
        Raises RuleLimitError where a rule meets a limit on this record, and RuleFileError where that happens
        too often or an XPath cannot be evaluated; the record may have some of the new elements then.
        """
        root = _metadata_root(record)
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
    standing: dict[etree._Element, set[tuple[str, str]]] = field(default_factory=dict)
    """What stands under each parent that was looked at: tag and value."""

    def run(self, mapping: NodeMapping) -> int:
        return sum(self._add(mapping, found) for found in mapping.path.find(self.evaluation))

    def _add(self, mapping: NodeMapping, found: FoundNode) -> int:
        matching = [
            new for new in mapping.new_elements if new.expression.matches(self.evaluation, found.value)
        ]
        parent, last = self._place(found.bearer)
        beside_element = last is not None and last is found.bearer and isinstance(last.tag, str)
        surroundings = last if beside_element and last is not None else parent
        standing = self._standing(parent)
        added = 0
        for new in matching:
            tag = new.tag(surroundings)
            for value in new.values:
                if (tag, value) not in standing:
                    standing.add((tag, value))
                    last = _insert(_element(parent, tag, new, value), parent, last)
                    added += 1
                    if self.note is not None:
                        self.note(mapping, new, value)
        return added

    def _place(self, bearer: etree._Element | None) -> tuple[etree._Element, etree._Element | None]:
        """Give the parent, and the child after which the new element goes."""
        parent = None if bearer is None else bearer.getparent()
        if parent is not None and self._is_content(bearer):
            return parent, bearer
        return self.root, next(self.root.iterchildren(reversed=True), None)

    def _is_content(self, element: etree._Element | None) -> bool:
        """Tell whether an element has room beside it: it stands in the root element of metadata or about."""
        ancestors = [] if element is None else list(element.iterancestors())
        return self.record in ancestors and ancestors.index(self.record) >= _CONTENT_DEPTH - 1

    def _standing(self, parent: etree._Element) -> set[tuple[str, str]]:
        # Elements that hold elements are left out: their text may still grow while we add.
        if parent not in self.standing:
            self.standing[parent] = {
                (str(child.tag), text_of(child).strip())
                for child in parent.iterchildren(etree.Element)
                if child.find("*") is None
            }
        return self.standing[parent]


def load_mappings(path: Path, limits: RuleLimits | None = None) -> Mappings:
    """Read a normalise file. Raises RuleFileError with file, line, column, reason and what to do."""
    return parse_mappings(read_bytes(path), source=str(path), limits=limits)


def parse_mappings(data: bytes, *, source: str, limits: RuleLimits | None = None) -> Mappings:
    """Read the bytes of a normalise file; `source` names it in errors. Raises RuleFileError."""
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
        reason = f"name={written!r} is not an element name such as 'dc:type'"
        raise file.fault(element, reason, at="name") from None
    if prefix and prefix not in file.namespaces:
        raise file.fault(
            element,
            f"the namespace prefix {prefix!r} of name={written!r} is not declared; "
            f"add xmlns:{prefix}='…' to <selectionNamespaces>",
            at="name",
        )
    return prefix or None, name


def _value(file: RuleFile, element: etree._Element) -> str:
    file.attributes(element)
    for child in element.iterchildren(etree.Element):
        raise file.fault(child, f"<{child.tag}> is not allowed in <newValue>, which contains text")
    value = text_of(element).strip()
    if not value:
        raise file.fault(element, "<newValue> is empty; write the value to add")
    return value


def _metadata_root(record: etree._Element) -> etree._Element | None:
    metadata = record.find(_METADATA)
    return None if metadata is None else next(metadata.iterchildren(etree.Element), None)


def _element(parent: etree._Element, tag: str, new: NewElement, value: str) -> etree._Element:
    nsmap = {new.prefix: new.namespace} if new.prefix and new.namespace else None
    element = parent.makeelement(tag, nsmap=nsmap)
    element.text = value
    return element


def _insert(element: etree._Element, parent: etree._Element, last: etree._Element | None) -> etree._Element:
    """Put the element after `last`, or as the only child, with the blanks that set its neighbours apart."""
    if last is None:
        parent.append(element)
        return element
    previous = last.getprevious()
    before = parent.text if previous is None else previous.tail
    last.addnext(element)
    if not (last.tail or "").strip() and not (before or "").strip():
        element.tail, last.tail = last.tail, before
    return element

"""A rule file as rows: what a user edits in a table, and the equivalent XML."""

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from lxml import etree

from harvester.rule_lab.explanation import read_rules
from harvester.rules.filters import FilterMatch
from harvester.rules.rule_expressions import Expression, ExpressionError, RecordPath, text_of
from harvester.rules.rule_files import RuleFile, RuleFileError, parse_rules
from harvester.vocabulary import RuleKind
from oai.errors import ZatvaError
from oai.xml import escape

ROOTS: Final = {RuleKind.FILTER: "filters", RuleKind.NORMALISE: "normalize"}
_LONGEST_REMARK: Final = 80
_PREFIX: Final = re.compile(r"[^\W\d][\w.\-]*")


@dataclass(frozen=True, kw_only=True)
class Namespace:
    """A prefix for XPath expressions and element names, and its namespace."""

    prefix: str
    uri: str


@dataclass(frozen=True, kw_only=True)
class FilterRow:
    """One filter."""

    xpath: str
    regexp: str
    ignore_case: bool = False
    invert: bool = False


@dataclass(frozen=True, kw_only=True)
class ElementRow:
    """One new element of a mapping, with its values."""

    name: str
    regexp: str
    values: tuple[str, ...]
    ignore_case: bool = False


@dataclass(frozen=True, kw_only=True)
class MappingRow:
    """One mapping: the nodes to search, and what is added there."""

    xpath: str
    elements: tuple[ElementRow, ...]


@dataclass(frozen=True, kw_only=True)
class RuleRows:
    """A whole rule file; `mappings` is empty in a filter file, `filters` in a normalise file."""

    kind: RuleKind
    namespaces: tuple[Namespace, ...] = ()
    match: FilterMatch = FilterMatch.ANY
    filters: tuple[FilterRow, ...] = ()
    mappings: tuple[MappingRow, ...] = ()


def rows_of(data: bytes, kind: RuleKind, *, source: str) -> RuleRows:
    """Return the rows of a rule file. Raises RuleFileError if it is invalid."""
    read_rules(data, kind, source=source)
    file = parse_rules(data, source=source, root=ROOTS[kind])
    namespaces = tuple(Namespace(prefix=prefix, uri=uri) for prefix, uri in file.namespaces.items())
    if kind is RuleKind.NORMALISE:
        mappings = tuple(_mapping_row(file, rule) for rule in file.rules("mapping"))
        return RuleRows(kind=kind, namespaces=namespaces, mappings=mappings)
    return RuleRows(
        kind=kind,
        namespaces=namespaces,
        match=FilterMatch(file.root.get("match", FilterMatch.ANY).strip().lower()),
        filters=tuple(_filter_row(file, rule) for rule in file.rules("filter")),
    )


def xml_of(rows: RuleRows) -> bytes:
    """Return the rule file for the rows, in UTF-8; it is not checked here."""
    root = ROOTS[rows.kind]
    match = f' match="{rows.match.value}"' if rows.kind is RuleKind.FILTER else ""
    lines = [f"<{root}{match}>"]
    if rows.namespaces:
        declared = "\n    ".join(escape(_declaration(one)) for one in rows.namespaces)
        lines.append(f"  <selectionNamespaces>{declared}</selectionNamespaces>")
    lines += [_filter_line(row) for row in rows.filters]
    for mapping in rows.mappings:
        lines += _mapping_lines(mapping)
    return "\n".join([*lines, f"</{root}>", ""]).encode()


def lost_as_rows(data: bytes, kind: RuleKind, *, source: str) -> Sequence[str]:
    """Return the beginnings of what rows cannot represent: comments and processing instructions."""
    root = parse_rules(data, source=source, root=ROOTS[kind]).root
    remarks = (etree.Comment, etree.ProcessingInstruction)
    around = [*root.itersiblings(*remarks, preceding=True), *root.itersiblings(*remarks)]
    return [_begun(one) for one in [*around, *root.iter(*remarks)]]


def _begun(remark: etree._Element) -> str:
    text = " ".join(etree.tostring(remark, encoding="unicode", with_tail=False).split())
    return text if len(text) <= _LONGEST_REMARK else f"{text[: _LONGEST_REMARK - 1]}…"


def _filter_row(file: RuleFile, rule: etree._Element) -> FilterRow:
    return FilterRow(
        xpath=rule.get("xpath", ""),
        regexp=rule.get("regexp", ""),
        ignore_case=file.truth(rule, "ignoreCase"),
        invert=file.truth(rule, "invert"),
    )


def _mapping_row(file: RuleFile, rule: etree._Element) -> MappingRow:
    return MappingRow(
        xpath=rule.get("xpath", ""),
        elements=tuple(
            ElementRow(
                name=element.get("name", ""),
                regexp=element.get("regexp", ""),
                values=tuple(text_of(value).strip() for value in file.children(element, ("newValue",))),
                ignore_case=file.truth(element, "ignoreCase"),
            )
            for element in file.children(rule, ("newElement",))
        ),
    )


def _declaration(one: Namespace) -> str:
    sign = '"' if "'" in one.uri else "'"
    return f"xmlns:{one.prefix}={sign}{one.uri}{sign}"


def _filter_line(row: FilterRow) -> str:
    return (
        f'  <filter xpath="{escape(row.xpath)}" regexp="{escape(row.regexp)}"'
        f"{_truth('ignoreCase', value=row.ignore_case)}{_truth('invert', value=row.invert)}/>"
    )


def _mapping_lines(mapping: MappingRow) -> Iterator[str]:
    yield f'  <mapping xpath="{escape(mapping.xpath)}">'
    for row in mapping.elements:
        ignore_case = _truth("ignoreCase", value=row.ignore_case)
        yield f'    <newElement name="{escape(row.name)}" regexp="{escape(row.regexp)}"{ignore_case}>'
        yield from (f"      <newValue>{escape(value)}</newValue>" for value in row.values)
        yield "    </newElement>"
    yield "  </mapping>"


def _truth(name: str, *, value: bool) -> str:
    return f' {name}="true"' if value else ""


@dataclass(frozen=True, kw_only=True)
class RowFault:
    """An error in a field."""

    field: str
    """`prefix`, `uri`, `xpath`, `regexp`, `name` or `values`; empty for an error of the rows as a whole."""
    row: int
    """From 0. The rows of a normalise file are the new elements of all mappings together."""
    why: ZatvaError
    """The reason, which can be said in another language."""


def row_faults(rows: RuleRows) -> list[RowFault]:
    """Return the errors in the rows; empty if the resulting file can be used."""
    found = [*_in_namespaces(rows.namespaces), *_in_filters(rows), *_in_mappings(rows)]
    if not found:
        try:
            read_rules(xml_of(rows), rows.kind, source="the rows")
        except RuleFileError as error:
            found = [RowFault(field="", row=0, why=error.why)]
    return found


def _in_namespaces(namespaces: tuple[Namespace, ...]) -> Iterator[RowFault]:
    declared: set[str] = set()
    for number, one in enumerate(namespaces):
        if not _PREFIX.fullmatch(one.prefix) or one.prefix in {"xml", "xmlns"}:
            why = ExpressionError(
                "%(prefix)s is not a valid prefix; write letters such as dc", prefix=repr(one.prefix)
            )
            yield RowFault(field="prefix", row=number, why=why)
        elif one.prefix in declared:
            why = ExpressionError(
                "the prefix %(prefix)s is declared twice; keep one", prefix=repr(one.prefix)
            )
            yield RowFault(field="prefix", row=number, why=why)
        declared.add(one.prefix)
        uri = one.uri.strip()
        if not uri or "<" in uri or ("'" in uri and '"' in uri) or not _fits_xml(uri):
            why = ExpressionError(
                "%(uri)s is not a valid namespace; write a URI such as http://purl.org/dc/elements/1.1/",
                uri=repr(one.uri),
            )
            yield RowFault(field="uri", row=number, why=why)


def _usable(namespaces: tuple[Namespace, ...]) -> dict[str, str]:
    """Return the namespaces without those in error, which are reported themselves; libxml2 refuses some."""
    faulty = {fault.row for fault in _in_namespaces(namespaces)}
    return {one.prefix: one.uri for number, one in enumerate(namespaces) if number not in faulty}


def _in_filters(rows: RuleRows) -> Iterator[RowFault]:
    namespaces = _usable(rows.namespaces)
    for number, row in enumerate(rows.filters):
        yield from _at("xpath", number, lambda: _path(row.xpath, namespaces))  # noqa: B023 called at once
        yield from _at("regexp", number, lambda: _expression(row.regexp))  # noqa: B023 called at once


def _in_mappings(rows: RuleRows) -> Iterator[RowFault]:
    namespaces = _usable(rows.namespaces)
    number = 0
    for mapping in rows.mappings:
        yield from _at("xpath", number, lambda: _path(mapping.xpath, namespaces))  # noqa: B023 called at once
        for element in mapping.elements:
            yield from _at("regexp", number, lambda: _expression(element.regexp))  # noqa: B023 called at once
            yield from _at("name", number, lambda: _name(element, namespaces))  # noqa: B023 called at once
            yield from _at("values", number, lambda: _values(element))  # noqa: B023 called at once
            number += 1


def _at(field: str, row: int, judge: Callable[[], object]) -> Iterator[RowFault]:
    try:
        judge()
    except ExpressionError as error:
        yield RowFault(field=field, row=row, why=error)


def _path(text: str, namespaces: Mapping[str, str]) -> None:
    _check_characters(text)
    RecordPath(expression=text, namespaces=namespaces)


def _expression(text: str) -> None:
    _check_characters(text)
    Expression(pattern=text, ignore_case=False)


def _name(element: ElementRow, namespaces: Mapping[str, str]) -> None:
    prefix, _, name = element.name.rpartition(":")
    try:
        etree.Element(name)
    except ValueError:
        raise ExpressionError(
            "%(name)s is not an element name such as 'dc:type'", name=repr(element.name)
        ) from None
    if prefix and prefix not in namespaces:
        raise ExpressionError(
            "the prefix %(prefix)s of %(name)s is not declared; add its namespace",
            prefix=repr(prefix), name=repr(element.name),
        )  # fmt: skip


def _values(element: ElementRow) -> None:
    if not element.values or not all(value.strip() for value in element.values):
        raise ExpressionError("the value is missing; write what is to be added")
    for value in element.values:
        _check_characters(value)


def _check_characters(text: str) -> None:
    if not _fits_xml(text):
        raise ExpressionError(
            "%(text)s has a character that is not allowed in XML; remove it", text=repr(text)
        )


def _fits_xml(text: str) -> bool:
    try:
        etree.Element("x").text = text
    except ValueError:
        return False
    return True

"""What is wrong with rows that a person filled in, told at the field where it is."""

import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Final

from lxml import etree

from harvester.rule_lab.checking import read_rules
from harvester.rule_lab.rows import ElementRow, Namespace, RuleRows, xml_of
from harvester.rules.rule_expressions import Expression, ExpressionError, RecordPath
from harvester.rules.rule_files import RuleFileError

_PREFIX: Final = re.compile(r"[^\W\d][\w.\-]*")


@dataclass(frozen=True, kw_only=True)
class RowFault:
    """A fault at a field."""

    field: str
    """`prefix`, `uri`, `xpath`, `regexp`, `name` or `values`; empty: of the rows as a whole."""
    row: int
    """From 0. The rows of a normalise file are its new elements, those of all mappings together."""
    reason: str


def row_faults(rows: RuleRows) -> list[RowFault]:
    """The faults of the rows; none where the file that they make can be used."""
    found = [*_in_namespaces(rows.namespaces), *_in_filters(rows), *_in_mappings(rows)]
    if not found:
        try:
            read_rules(xml_of(rows), rows.kind, source="the rows")
        except RuleFileError as error:
            found = [RowFault(field="", row=0, reason=error.reason)]
    return found


def _in_namespaces(namespaces: tuple[Namespace, ...]) -> Iterator[RowFault]:
    declared: set[str] = set()
    for number, one in enumerate(namespaces):
        if not _PREFIX.fullmatch(one.prefix) or one.prefix in {"xml", "xmlns"}:
            reason = f"{one.prefix!r} is not a valid prefix; write letters such as dc"
            yield RowFault(field="prefix", row=number, reason=reason)
        elif one.prefix in declared:
            yield RowFault(
                field="prefix", row=number, reason=f"the prefix {one.prefix!r} is declared twice; keep one"
            )
        declared.add(one.prefix)
        uri = one.uri.strip()
        if not uri or "<" in uri or ("'" in uri and '"' in uri) or not _fits_xml(uri):
            reason = (
                f"{one.uri!r} is not a valid namespace; write a URI such as http://purl.org/dc/elements/1.1/"
            )
            yield RowFault(field="uri", row=number, reason=reason)


def _in_filters(rows: RuleRows) -> Iterator[RowFault]:
    namespaces = {one.prefix: one.uri for one in rows.namespaces}
    for number, row in enumerate(rows.filters):
        yield from _at("xpath", number, lambda: _path(row.xpath, namespaces))  # noqa: B023 called at once
        yield from _at("regexp", number, lambda: _expression(row.regexp))  # noqa: B023 called at once


def _in_mappings(rows: RuleRows) -> Iterator[RowFault]:
    namespaces = {one.prefix: one.uri for one in rows.namespaces}
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
        yield RowFault(field=field, row=row, reason=str(error))


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
        raise ExpressionError(f"{element.name!r} is not an element name such as 'dc:type'") from None
    if prefix and prefix not in namespaces:
        raise ExpressionError(f"the prefix {prefix!r} of {element.name!r} is not declared; add its namespace")


def _values(element: ElementRow) -> None:
    if not element.values or not all(value.strip() for value in element.values):
        raise ExpressionError("the value is missing; write what is to be added")
    for value in element.values:
        _check_characters(value)


def _check_characters(text: str) -> None:
    if not _fits_xml(text):
        raise ExpressionError(f"{text!r} has a character that is not allowed in XML; remove it")


def _fits_xml(text: str) -> bool:
    try:
        etree.Element("x").text = text
    except ValueError:
        return False
    return True

"""Rows and XML express the same rules, whichever of them is edited."""

import pytest
from hypothesis import given
from hypothesis import strategies as some

from harvester.rule_lab.examples import EXAMPLES
from harvester.rule_lab.rows import (
    ElementRow,
    FilterRow,
    MappingRow,
    Namespace,
    RuleRows,
    lost_as_rows,
    row_faults,
    rows_of,
    xml_of,
)
from harvester.rules.filters import FilterMatch
from harvester.rules.rule_files import RuleFileError
from harvester.vocabulary import RuleKind
from tests.harvester.rule_lab.records import FILTERS, MAPPINGS

_DC = Namespace(prefix="dc", uri="http://purl.org/dc/elements/1.1/")
_PATHS = some.sampled_from(["//dc:title", "count(//dc:date)", "//dc:type | //dc:format", "'a \"<&>\" b'"])
_EXPRESSIONS = some.text(alphabet="ab\"'<>& \t\nžš", min_size=1, max_size=12)
_VALUES = some.text(alphabet="ab\"'<>& \nžš", min_size=1, max_size=12).map(str.strip).filter(bool)
_NAMESPACES = some.lists(
    some.builds(Namespace, prefix=some.just("x"), uri=some.sampled_from(["urn:x", "urn:it's", 'urn:"&'])),
    max_size=1,
).map(lambda more: (_DC, *more))
_FILTERS = some.lists(
    some.builds(
        FilterRow, xpath=_PATHS, regexp=_EXPRESSIONS, ignore_case=some.booleans(), invert=some.booleans()
    ),
    min_size=1,
    max_size=4,
).map(tuple)
_ELEMENTS = some.lists(
    some.builds(
        ElementRow,
        name=some.sampled_from(["dc:type", "note"]),
        regexp=_EXPRESSIONS,
        values=some.lists(_VALUES, min_size=1, max_size=3).map(tuple),
        ignore_case=some.booleans(),
    ),
    min_size=1,
    max_size=3,
).map(tuple)
_MAPPINGS = some.lists(some.builds(MappingRow, xpath=_PATHS, elements=_ELEMENTS), min_size=1, max_size=3).map(
    tuple
)


@given(namespaces=_NAMESPACES, match=some.sampled_from(FilterMatch), filters=_FILTERS)
def test_filters_are_read_back_unchanged(
    namespaces: tuple[Namespace, ...], match: FilterMatch, filters: tuple[FilterRow, ...]
) -> None:
    rows = RuleRows(kind=RuleKind.FILTER, namespaces=namespaces, match=match, filters=filters)
    assert row_faults(rows) == []
    assert rows_of(xml_of(rows), RuleKind.FILTER, source="x") == rows


@given(namespaces=_NAMESPACES, mappings=_MAPPINGS)
def test_mappings_are_read_back_unchanged(
    namespaces: tuple[Namespace, ...], mappings: tuple[MappingRow, ...]
) -> None:
    rows = RuleRows(kind=RuleKind.NORMALISE, namespaces=namespaces, mappings=mappings)
    assert row_faults(rows) == []
    assert rows_of(xml_of(rows), RuleKind.NORMALISE, source="x") == rows


@pytest.mark.parametrize(("content", "kind"), [(FILTERS, RuleKind.FILTER), (MAPPINGS, RuleKind.NORMALISE)])
def test_a_file_written_by_hand_is_preserved_through_rows(content: bytes, kind: RuleKind) -> None:
    rows = rows_of(content, kind, source="x")
    assert rows_of(xml_of(rows), kind, source="x") == rows


@pytest.mark.parametrize("example", EXAMPLES, ids=lambda one: one.key)
def test_every_example_is_valid(example: object) -> None:
    assert row_faults(example.rows) == []  # type: ignore[attr-defined]


def test_there_are_five_examples_of_each_kind() -> None:
    assert [sum(one.kind is kind for one in EXAMPLES) for kind in RuleKind] == [5, 5]


def test_comments_that_rows_cannot_hold_are_named() -> None:
    commented = FILTERS.replace(b"<filter ", b"<!-- why --><filter ", 1) + b"<!-- the end -->"
    assert lost_as_rows(commented, RuleKind.FILTER, source="x") == ["<!-- the end -->", "<!-- why -->"]
    assert lost_as_rows(FILTERS, RuleKind.FILTER, source="x") == []


def test_each_fault_is_reported_at_its_field() -> None:
    filters = RuleRows(
        kind=RuleKind.FILTER,
        namespaces=(_DC, _DC, Namespace(prefix="1", uri="urn:x"), Namespace(prefix="y", uri="<")),
        filters=(FilterRow(xpath="//dc:title", regexp="("), FilterRow(xpath="//z:title", regexp="a\x00")),
    )
    assert [(one.field, one.row) for one in row_faults(filters)] == [
        ("prefix", 1),
        ("prefix", 2),
        ("uri", 3),
        ("regexp", 0),
        ("xpath", 1),
        ("regexp", 1),
    ]
    bad = ElementRow(name="z:type", regexp=".", values=())
    good = ElementRow(name="dc:type", regexp=".", values=("x",))
    mappings = RuleRows(
        kind=RuleKind.NORMALISE,
        namespaces=(_DC,),
        mappings=(
            MappingRow(xpath="//dc:type", elements=(good, bad)),
            MappingRow(xpath="", elements=(good,)),
        ),
    )
    assert [(one.field, one.row) for one in row_faults(mappings)] == [
        ("name", 1),
        ("values", 1),
        ("xpath", 2),
    ]


@pytest.mark.parametrize(
    ("prefix", "uri", "field"),
    [("", "urn:x", "prefix"), ("a b", "urn:x", "prefix"), ("xmlns", "urn:x", "prefix"), ("x", "\0", "uri")],
)
def test_a_namespace_that_libxml2_rejects_is_reported_at_its_field(prefix: str, uri: str, field: str) -> None:
    rows = RuleRows(
        kind=RuleKind.FILTER,
        namespaces=(_DC, Namespace(prefix=prefix, uri=uri)),
        filters=(FilterRow(xpath="//dc:title", regexp="x"),),
    )
    assert [(fault.field, fault.row) for fault in row_faults(rows)] == [(field, 1)]


def test_rows_of_an_invalid_file_are_rejected_with_line_and_column() -> None:
    with pytest.raises(RuleFileError) as caught:
        rows_of(FILTERS.replace(b'"cultur"', b'"("'), RuleKind.FILTER, source="x.xml")
    assert (caught.value.line, caught.value.column) == (3, 32)

"""Conditions in words become filter rows with the same meaning and are read back from them."""

import pytest
from hypothesis import given
from hypothesis import strategies as st
from lxml import etree

from harvester.rule_lab.explanation import read_rules
from harvester.rule_lab.operators import WITHOUT_VALUE, YEARS, Condition, Operator, condition_of
from harvester.rule_lab.rows import FilterRow, RuleRows, xml_of
from harvester.rules.filters import FilterMatch, Filters
from harvester.vocabulary import RuleKind

_TEXTS = st.text(
    st.characters(exclude_categories=["Cs", "Cc", "Zl", "Zp"], exclude_characters="|'"), min_size=1
)


def accepts(match: FilterMatch, record: str, *conditions: tuple[str, Operator, str]) -> bool:
    """Return whether a filter of these conditions keeps the record."""
    rows = [Condition(xpath=xpath, operator=op, value=value).row(match) for xpath, op, value in conditions]
    content = xml_of(RuleRows(kind=RuleKind.FILTER, match=match, filters=tuple(rows)))
    rules = read_rules(content, RuleKind.FILTER, source="conditions")
    assert isinstance(rules, Filters)
    return rules.accepts(etree.fromstring(record))


@given(
    operator=st.sampled_from([one for one in Operator if one is not Operator.MATCHES]),
    match=st.sampled_from(FilterMatch),
    text=_TEXTS.filter(lambda text: text.strip() == text and text.lower() == text),
    year=st.integers(1, 9999),
)
def test_a_condition_is_read_back_from_its_row(
    operator: Operator, match: FilterMatch, text: str, year: int
) -> None:
    value = "" if operator in WITHOUT_VALUE else str(year) if operator in YEARS else text
    condition = Condition(xpath="//dc:title", operator=operator, value=value)

    found = condition_of(condition.row(match), match)

    assert found is not None
    assert found.row(match) == condition.row(match)


@pytest.mark.parametrize("match", FilterMatch)
@pytest.mark.parametrize(
    ("operator", "value", "expected"),
    [
        (Operator.CONTAINS, "MAP", True),
        (Operator.CONTAINS, "plan", False),
        (Operator.EQUALS, "stará mapa", True),
        (Operator.EQUALS, "mapa", False),
        (Operator.BEGINS, "STAR", True),
        (Operator.BEGINS, "mapa", False),
        (Operator.ONE_OF, "kniha | Text", True),
        (Operator.ONE_OF, "kniha | plán", False),
        (Operator.LACKS, "mapa", False),
        (Operator.LACKS, "plán", True),
        (Operator.DIFFERS, "Text", False),
        (Operator.DIFFERS, "mapa", True),
        (Operator.PRESENT, "", True),
        (Operator.ABSENT, "", False),
    ],
)
def test_one_matching_value_is_enough_unless_the_condition_is_negative(
    match: FilterMatch,
    operator: Operator,
    value: str,
    expected: bool,  # noqa: FBT001 a parameter of the test
) -> None:
    record = "<r><type>text</type><type>Stará mapa</type></r>"

    assert accepts(match, record, ("//type", operator, value)) is expected


@pytest.mark.parametrize("match", FilterMatch)
def test_a_record_without_the_field_meets_only_negative_conditions(match: FilterMatch) -> None:
    met = [
        operator
        for operator in Operator
        if accepts(match, "<r/>", ("//type", operator, "1990" if operator in YEARS else "x"))
    ]

    assert met == [Operator.ABSENT, Operator.DIFFERS, Operator.LACKS]


@pytest.mark.parametrize("match", FilterMatch)
@pytest.mark.parametrize(
    ("dates", "since", "until"),
    [
        (["1999", "2015-03-01T10:00:00Z"], True, True),
        (["2015", "1999"], True, True),
        (["1999", "2001"], False, True),
        (["2011", "2015"], True, False),
        (["2010"], True, True),
        (["\n  2015 "], True, False),
        (["  1999"], False, True),
        (["c2015", "", "20. century", "12.3.2015"], False, False),
        ([], False, False),
    ],
)
def test_one_matching_year_is_enough(
    match: FilterMatch,
    dates: list[str],
    since: bool,  # noqa: FBT001 a parameter of the test
    until: bool,  # noqa: FBT001 a parameter of the test
) -> None:
    record = "".join(("<r>", *(f"<date>{date}</date>" for date in dates), "</r>"))

    assert accepts(match, record, ("//date", Operator.SINCE, "2010")) is since
    assert accepts(match, record, ("//date", Operator.UNTIL, "2010")) is until


@pytest.mark.parametrize("match", FilterMatch)
@pytest.mark.parametrize(("sign", "operator"), [(">=", Operator.FIRST_SINCE), ("<=", Operator.FIRST_UNTIL)])
def test_a_stored_rule_that_reads_only_the_first_year_is_read_back_as_such(
    match: FilterMatch, sign: str, operator: Operator
) -> None:
    row = FilterRow(
        xpath=f"number(substring(//dc:date, 1, 4)) {sign} 2010", regexp="^true$", ignore_case=True
    )

    found = condition_of(row, match)

    assert found == Condition(xpath="//dc:date", operator=operator, value="2010")
    assert found.row(match) == row


def test_conditions_are_joined_by_all_or_any() -> None:
    record = "<r><type>text</type><type>map</type><date>1990-05</date></r>"
    good, bad = ("//type", Operator.EQUALS, "map"), ("//date", Operator.SINCE, "2000")
    older = ("//date", Operator.UNTIL, "1999")

    assert not accepts(FilterMatch.ALL, record, good, bad)
    assert accepts(FilterMatch.ANY, record, good, bad)
    assert accepts(FilterMatch.ALL, record, good, older)


@pytest.mark.parametrize(
    ("regexp", "operator", "value"),
    [
        ("^(book|map)$", Operator.ONE_OF, "book | map"),
        ("a.b", Operator.MATCHES, "a.b"),
        (r"a\.b", Operator.CONTAINS, "a.b"),
        ("b$", Operator.MATCHES, "b$"),
        ("^(a|b", Operator.MATCHES, "^(a|b"),
        ("^$", Operator.MATCHES, "^$"),
    ],
)
def test_expressions_become_conditions_in_words_if_possible(
    regexp: str, operator: Operator, value: str
) -> None:
    row = FilterRow(xpath="//dc:type", regexp=regexp, ignore_case=True)

    assert condition_of(row, FilterMatch.ANY) == Condition(xpath="//dc:type", operator=operator, value=value)
    every = condition_of(row, FilterMatch.ALL)
    assert every == Condition(xpath="//dc:type", operator=Operator.MATCHES, value=regexp), "of every value"


@pytest.mark.parametrize(
    "row",
    [
        FilterRow(xpath="//dc:type", regexp="book"),
        FilterRow(xpath="//dc:type", regexp="^book", ignore_case=True, invert=True),
        FilterRow(xpath="count(//dc:type)", regexp="^0$", ignore_case=True, invert=True),
    ],
)
@pytest.mark.parametrize("match", FilterMatch)
def test_rows_that_are_not_conditions_stay_rows(row: FilterRow, match: FilterMatch) -> None:
    assert condition_of(row, match) is None


def test_a_value_that_xpath_cannot_express_is_rejected() -> None:
    with pytest.raises(ValueError, match="both kinds of quotation marks"):
        Condition(xpath="//t", operator=Operator.LACKS, value="'\"").row(FilterMatch.ANY)

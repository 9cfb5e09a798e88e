"""The chart of captures by year."""

from collections.abc import Sequence
from itertools import pairwise

import pytest
from lxml import etree

from provider.titles.chart import chart, years_of


@pytest.mark.parametrize(
    ("captures", "years"),
    [
        ({}, []),
        ({"2020": 3}, [(2020, 3)]),
        ({"2022": 1, "2020": 3}, [(2020, 3), (2021, 0), (2022, 1)]),
        ({"1601": 1, "2020": 3}, [(1601, 1), (2020, 3)]),
    ],
)
def test_years_without_captures_are_gaps(captures: dict[str, int], years: Sequence[tuple[int, int]]) -> None:
    assert years_of(captures) == years


def test_a_chart_has_a_labelled_column_for_each_year_with_captures() -> None:
    drawn = chart(
        [(2020, 4), (2021, 0), (2022, 1)], label='A "b" <c>', number=str, caption=lambda y, n: f"{y}: {n}<"
    )
    svg = etree.fromstring(drawn)
    assert (svg.get("role"), svg.get("aria-label")) == ("img", 'A "b" <c>')
    assert [bar[0].text for bar in svg.iter("rect")] == ["2020: 4<", "2022: 1<"]
    heights = [float(str(bar.get("height"))) for bar in svg.iter("rect")]
    assert heights[0] == 4 * heights[1]
    assert [text.text for text in svg.iter("text")] == ["4", "2020", "2022"]


def test_labels_of_many_years_do_not_overlap() -> None:
    svg = etree.fromstring(
        chart([(year, 1) for year in range(1996, 2027)], label="x", number=str, caption=lambda *_: "")
    )
    texts = [text for text in svg.iter("text") if len(str(text.text)) == 4]
    places = [float(str(text.get("x"))) for text in texts]
    assert 5 < len(places) < 12
    assert min(later - one for one, later in pairwise(places)) >= 80
    assert [texts[0].get("text-anchor"), texts[-1].get("text-anchor"), max(places)] == ["start", "end", 720]

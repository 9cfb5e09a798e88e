"""Conditions of filtering sets: what they match, how they are written, and which are rejected."""

import pytest
from lxml import etree

from harvester.bibliographic.condition_trial import never_true, try_conditions
from harvester.bibliographic.conditions import Conditions, Match, parse_condition
from harvester.bibliographic.filtering_sets import add_set, edit_set, get_set, list_sets, remove_set
from harvester.bibliographic.marc21.converter import Marc21Converter
from harvester.bibliographic.record import RawField
from harvester.bibliographic.sources import SourceSettings, save_source
from harvester.rules.rule_expressions import Expression
from oai.database import Database
from oai.errors import UsageError
from tests.harvester.bibliographic.conftest import Catalogue
from tests.harvester.bibliographic.marc import marcxml

_FIELDS = list(
    Marc21Converter().fields(
        etree.fromstring(
            marcxml(
                "001 nr1",
                "245 10 $aSlovník staré češtiny",
                "650 #7 $aJazyk český$2czenas",
                "653 0# $alexikon",
            )
        )
    )
)


_DECOMPOSED = "Pr\u030ci\u0301lis\u030c C++"


@pytest.mark.parametrize(
    ("line", "true"),
    [
        ("245$a contains STARE", True),
        ("245$a equals slovnik", False),
        ("245$a equals slovník staré češtiny", True),
        ("245$b contains stare", False),
        ("245 contains stare", True),
        ("not 245 contains stare", False),
        ("not 900 exists", True),
        ("65X$a contains lexikon", True),
        ("650[_7]$2 equals czenas", True),
        ("650[*7] exists", True),
        ("650[_0] exists", False),
        ("008/35-37 equals cze", True),
        ("008/6 equals s", True),
        ("LDR/06-07 equals am", True),
        ("001 matches ^nr[0-9]$", True),
        ("245$a matches ^slovník", False),
    ],
)
def test_conditions_on_marc_fields(line: str, true: bool) -> None:  # noqa: FBT001 a value of the table
    assert parse_condition(line).accepts(_FIELDS) is true


@pytest.mark.parametrize(
    ("line", "selected"),
    [
        ("653$a equals C", ["C", "c."]),
        ("653$a equals C++", ["C++", "c++ /"]),
        ("653$a equals c#", ["C#"]),
        ("653$a contains C++", ["C++", "c++ /", "Visual C++ (computer language)", _DECOMPOSED]),
        ("653$a contains R&D", ["R&D management"]),
        ("653$a equals rd", []),
        ("653$a equals R D management", []),
        ("653$a equals prilis c++", [_DECOMPOSED]),
        ("653$a equals slovnik maly", ["Slovník + malý"]),
        ("653$a contains slovnik + maly", ["Slovník + malý"]),
        ("653$a contains art", ["Departure"]),
        ("653$a matches (?i)\\bart", []),
    ],
)
def test_signs_that_distinguish_words_are_compared_and_punctuation_is_ignored(
    line: str, selected: list[str]
) -> None:
    values = [
        "C", "c.", "C++", "c++ /", "C#", "Visual C++ (computer language)", "R&D management",
        _DECOMPOSED, "Slovník + malý", "Departure",
    ]  # fmt: skip
    condition = parse_condition(line)

    found = [value for value in values if condition.accepts([RawField(name="653", values=(("a", value),))])]

    assert found == selected


def test_a_value_with_many_signs_is_compared() -> None:
    value = RawField(name="653", values=(("a", "C++ " + "*" * 500_000),))
    assert parse_condition("653$a contains C++").accepts([value])


@pytest.mark.parametrize("match", list(Match))
def test_any_needs_one_condition_and_all_need_each(match: Match) -> None:
    rules = Conditions(match=match, conditions=[parse_condition("245 exists"), parse_condition("900 exists")])
    assert rules.accepts(_FIELDS) is (match is Match.ANY)


@pytest.mark.parametrize(
    "line",
    [
        "245$a contains slovník",
        "not 655 exists",
        "008/35-37 equals cze",
        "650[_7]$2 matches ^cz",
        "language equals cs",
    ],
)
def test_a_condition_is_written_as_it_is_read(line: str) -> None:
    assert str(parse_condition(line)) == line


@pytest.mark.parametrize(
    ("line", "words"),
    [
        ("", "not a condition"),
        ("245", "not a condition"),
        ("245$a is x", "not a condition"),
        ("245$a contains", "contains needs a value"),
        ("245$a equals ...", "equals needs a value"),
        ("245$a exists x", "does not take a value"),
        ("245$a matches (a", "not valid"),
        ("245$a matches (?=x)", "look-around"),
        ("008/37-35 equals cze", "the last position is before the first"),
    ],
)
def test_conditions_that_can_never_match_are_rejected(line: str, words: str) -> None:
    with pytest.raises(UsageError, match=words):
        parse_condition(line)


def test_sets_are_kept_changed_and_removed(database: Database) -> None:
    with database.session() as session:
        made = add_set(session, name="a", match=Match.ANY, conditions=[parse_condition("245 exists")])
        with pytest.raises(UsageError, match="already"):
            add_set(session, name="a", match=Match.ANY, conditions=made.rules.conditions)
        assert edit_set(session, "a", description="d").revision == 1
        assert edit_set(session, "a", match=Match.ALL).revision == 2
        assert edit_set(session, "a", match=Match.ALL).revision == 2
        assert [str(one) for one in get_set(session, "a").rules.conditions] == ["245 exists"]
        with pytest.raises(UsageError, match="needs a condition"):
            edit_set(session, "a", conditions=[])
        remove_set(session, "a")
        assert list_sets(session) == []


def test_sets_are_listed_by_name_without_accents(database: Database) -> None:
    with database.session() as session:
        for name in ("zima", "Čaj", "cesty"):
            add_set(session, name=name, match=Match.ANY, conditions=[parse_condition("245 exists")])
        assert [one.name for one in list_sets(session)] == ["Čaj", "cesty", "zima"]


async def test_a_set_in_use_is_not_removed(catalogue: Catalogue) -> None:
    with catalogue.database.session() as session:
        made = add_set(session, name="a", match=Match.ANY, conditions=[parse_condition("245 exists")])
        save_source(session, SourceSettings(repository_id=catalogue.repository_id, set_id=made.set_id))
        with pytest.raises(
            UsageError, match=f"used by the imports of repositories {catalogue.repository_id};"
        ):
            remove_set(session, "a")


async def test_conditions_are_tried_on_stored_records(catalogue: Catalogue) -> None:
    rules = Conditions(
        match=Match.ANY, conditions=[parse_condition("655 exists"), parse_condition("245$a contains xyzzy")]
    )
    with catalogue.database.session() as session:
        trial = try_conditions(session, catalogue.settings, rules, [catalogue.repository_id], most=100)
    assert (trial.looked_at, trial.chosen, trial.passed_over, trial.true_of) == (3, 2, 1, [2, 0])
    assert [one.title for one in trial.passed_over_sample] == ["The Czech Language"]
    assert list(never_true(trial, rules)) == ["245$a contains xyzzy"]


async def test_a_trial_of_costly_conditions_ends_at_its_limit(catalogue: Catalogue) -> None:
    rules = Conditions(match=Match.ALL, conditions=[parse_condition("245$a matches (x?){900}x{900}y")])
    repositories = [catalogue.repository_id]
    with (
        catalogue.database.session() as session,
        pytest.raises(UsageError, match="longer than 0 seconds on these records"),
    ):
        try_conditions(session, catalogue.settings, rules, repositories, most=100, seconds=0)


def test_a_regular_expression_is_evaluated_by_the_limited_function() -> None:
    asked = []

    def matching(expression: Expression, value: str) -> bool:
        asked.append((expression.pattern, value))
        return False

    assert not parse_condition("245$a matches ^Slov").accepts(_FIELDS, matching)
    assert asked == [("^Slov", "Slovník staré češtiny")]

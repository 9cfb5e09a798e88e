"""Rules proposed from examples keep the kept records and drop the dropped ones; the simplest is first."""

from typing import Any

import pytest
from lxml import etree

from harvester.rule_lab.by_example import propose_rules
from harvester.rule_lab.explanation import read_rules
from harvester.rule_lab.fields import found_fields, values_of_record
from harvester.rule_lab.operators import Operator
from harvester.vocabulary import RuleKind
from oai.vocabulary import OAI_NAMESPACE, REPAIRED_NAMESPACE

DC = "http://purl.org/dc/elements/1.1/"
MARC = "http://www.loc.gov/MARC21/slim"


def dublin(*sets: str, **fields: str | list[str]) -> etree._Element:
    specs = "".join(f"<setSpec>{one}</setSpec>" for one in sets)
    inner = "".join(
        f"<dc:{name}>{value}</dc:{name}>"
        for name, values in fields.items()
        for value in ([values] if isinstance(values, str) else values)
    )
    return etree.fromstring(
        f'<record xmlns="{OAI_NAMESPACE}"><header><identifier>x</identifier>{specs}</header>'
        f'<metadata><r xmlns:dc="{DC}" xmlns="urn:r">{inner}</r></metadata></record>'
    )


def marc(**subfields: str) -> etree._Element:
    inner = "".join(
        f'<datafield tag="{key[1:4]}" ind1=" " ind2=" ">'
        f'<subfield code="{key[4:]}">{value}</subfield></datafield>'
        for key, value in subfields.items()
    )
    return etree.fromstring(
        f'<record xmlns="{OAI_NAMESPACE}"><header/><metadata><record xmlns="{MARC}">'
        f"<leader>00000nam a22</leader>{inner}</record></metadata></record>"
    )


@pytest.mark.parametrize(
    ("kept", "dropped", "field", "operator", "value"),
    [
        (
            [dublin(type="Text", title="a"), dublin(type=["Text", "x"], title="b")],
            [dublin(type="Image", title="c"), dublin(type="Sound", title="d")],
            "dc:type", Operator.EQUALS, "Text",
        ),
        (
            [dublin(type="Text", title="ab"), dublin(type="Sound", title="bc")],
            [dublin(type="Image", title="cd"), dublin(type="Image", title="de")],
            "dc:type", Operator.DIFFERS, "Image",
        ),
        ([dublin(creator="x"), dublin(creator="y")], [dublin(title="z")], "dc:creator", Operator.PRESENT, ""),
        ([dublin(date="2001-01-01"), dublin(date="2010")], [dublin(date="1999-12-31"), dublin(date="1990")],
            "dc:date", Operator.SINCE, "2001"),
        ([dublin(date="1900"), dublin(date="1950")], [dublin(date="1999"), dublin(date="2001")],
            "dc:date", Operator.UNTIL, "1950"),
        (
            [dublin(date=["1990", "2001-05"]), dublin(date=["2010", "1985"])],
            [dublin(date=["1999", "1970"]), dublin(date=["n.d.", "1995"])],
            "dc:date", Operator.SINCE, "2001",
        ),
        (
            [dublin(subject="Old maps of Brno"), dublin(subject="Maps, old")],
            [dublin(subject="Old books"), dublin(subject="Mapping tools")],
            "dc:subject", Operator.CONTAINS, "maps",
        ),
        ([dublin("books"), dublin("books", "old")], [dublin("journals")],
            "setSpec", Operator.EQUALS, "books"),
        (
            [marc(f245a="x", f041a="cze"), marc(f245a="y", f041a="cze")],
            [marc(f245a="z", f041a="eng")],
            "041 $a", Operator.EQUALS, "cze",
        ),
        (
            [dublin(title="a", source="a+b (c)"), dublin(title="b", source="a+b (c)")],
            [dublin(title="c", source="aab c")],
            "dc:source", Operator.EQUALS, "a+b (c)",
        ),
    ],
    ids=["equals", "differs", "present", "since", "until", "years", "word", "set", "marc", "signs"],
)  # fmt: skip
def test_the_simplest_condition_comes_first(
    kept: list[etree._Element], dropped: list[etree._Element], field: str, operator: Operator, value: str
) -> None:
    found = propose_rules(kept, dropped)
    assert (found[0].field.name, found[0].operator, found[0].value) == (field, operator, value)
    for proposal in found:
        rules = read_rules(proposal.content, RuleKind.FILTER, source="x")
        assert [rules.accepts(one) for one in kept] == [True] * len(kept)  # type: ignore[union-attr]
        assert [rules.accepts(one) for one in dropped] == [False] * len(dropped)  # type: ignore[union-attr]


def test_records_that_no_condition_separates_have_no_proposal() -> None:
    same = {"type": "Text", "title": "The same"}
    assert propose_rules([dublin(**same)], [dublin(**same)]) == []


def test_few_of_the_words_of_a_long_text_are_tried(monkeypatch: pytest.MonkeyPatch) -> None:
    tried: list[bytes] = []

    def reading(content: bytes, *others: Any, **words: Any) -> Any:
        tried.append(content)
        return read_rules(content, *others, **words)

    monkeypatch.setattr("harvester.rule_lab.by_example.read_rules", reading)
    words = [f"w{number}x" for number in range(3000)]
    # Each is a part of a word of the dropped record, which contains it.
    kept, dropped = " ".join(words), " ".join(f"y{word}z" for word in words)
    propose_rules([dublin(description=f"a {kept}")], [dublin(description=f"b {dropped}")])
    assert 50 <= len(tried) <= 300


def test_the_fields_of_records_have_names_examples_and_counts() -> None:
    found = found_fields(
        [values_of_record(one) for one in (dublin("s", title="a"), dublin(title="b", type="T"))]
    )
    assert [(one.field.name, one.field.xpath, one.records, list(one.examples)) for one in found] == [
        ("dc:title", "//dc:title", 2, ["a", "b"]),
        ("dc:type", "//dc:type", 1, ["T"]),
        ("setSpec", "//oai:setSpec", 1, ["s"]),
    ]
    (subfield,) = [one for one in values_of_record(marc(f245a="x")) if one.name == "245 $a"]
    assert subfield.xpath == "//marc:datafield[@tag='245']/marc:subfield[@code='a']"


def test_our_mark_of_a_repaired_record_is_no_field() -> None:
    record = dublin(title="a")
    about = etree.SubElement(record, f"{{{OAI_NAMESPACE}}}about")
    etree.SubElement(about, f"{{{REPAIRED_NAMESPACE}}}repaired").text = "ampersand"
    assert [field.name for field in values_of_record(record)] == ["dc:title"]

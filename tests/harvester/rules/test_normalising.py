import re
from copy import deepcopy
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from lxml import etree

from harvester.rules.filters import parse_filters
from harvester.rules.normalisation import Mappings, load_mappings, parse_mappings
from harvester.rules.rule_files import RuleFileError
from harvester.rules.validation import own_validator
from tests.harvester.rules.rule_samples import DC, DECLARED, OAI, list_of, record, record_xml, tombstone

GUIDE = Path(__file__).parents[3] / "docs" / "how-to" / "rules.md"


def mappings(*rules: str) -> Mappings:
    text = f"<normalize>{DECLARED}{''.join(rules)}</normalize>"
    return parse_mappings(text.encode(), source="normalize.xml")


def new(regexp: str, *values: str, name: str = "dc:type", options: str = "") -> str:
    inner = "".join(f"<newValue>{value}</newValue>" for value in values)
    return f'<newElement name="{name}" regexp="{regexp}" {options}>{inner}</newElement>'


def mapping(xpath: str, *elements: str) -> str:
    return f'<mapping xpath="{xpath}">{"".join(elements)}</mapping>'


def content(of: etree._Element) -> list[tuple[str, str | None]]:
    """Return the elements in the metadata's root: local name and text."""
    root = of.find(f"{{{OAI}}}metadata")
    assert root is not None
    return [(etree.QName(child).localname, child.text) for child in root[0].iterchildren(etree.Element)]


def test_a_new_element_follows_the_original_with_one_for_each_value() -> None:
    rules = mappings(mapping("//dc:type", new("^textbook$", "text", "book"), new("k$", "paper")))
    changed = record("<dc:type>textbook</dc:type><dc:title>a</dc:title>")

    added = rules.apply(changed)

    assert added == 3
    assert content(changed) == [
        ("type", "textbook"), ("type", "text"), ("type", "book"), ("type", "paper"), ("title", "a"),
    ]  # fmt: skip


def test_a_record_with_new_elements_is_still_valid() -> None:
    changed = record("<dc:type>jpeg</dc:type>")

    mappings(mapping("//dc:type", new("jpeg", "image"))).apply(changed)

    assert own_validator("oai_dc").faults(changed) == []
    assert changed.findtext(f".//{{{DC}}}type[2]") == "image"


@pytest.mark.parametrize(
    ("options", "value", "added"), [("", "JPEG", 0), ('ignoreCase="true"', "JPEG", 1), ("", "a jpeg b", 1)]
)
def test_the_expression_is_searched_anywhere_and_is_case_sensitive_by_default(
    options: str, value: str, added: int
) -> None:
    rules = mappings(mapping("//dc:type", new("jpeg", "image", options=options)))

    assert rules.apply(record(f"<dc:type>{value}</dc:type>")) == added


@pytest.mark.parametrize(
    "before",
    [
        "<dc:type>jpeg</dc:type><dc:type>image</dc:type>",
        "<dc:type>image</dc:type><dc:title/><dc:type>jpeg</dc:type>",
        "<dc:type>jpeg</dc:type><dc:type>\n image </dc:type>",
        '<dc:type>jpeg</dc:type><dc:type xml:lang="en">image</dc:type>',
    ],
)
def test_a_value_that_is_already_present_is_not_added_again(before: str) -> None:
    assert mappings(mapping("//dc:type", new("jpeg", "image"))).apply(record(before)) == 0


def test_the_same_value_in_another_element_does_not_count_as_present() -> None:
    rules = mappings(mapping("//dc:type", new("jpeg", "image")))

    assert rules.apply(record("<dc:type>jpeg</dc:type><dc:format>image</dc:format>")) == 1


def test_two_originals_add_one_value_once() -> None:
    changed = record("<dc:type>jpeg</dc:type><dc:type>jpg</dc:type>")

    mappings(mapping("//dc:type", new("jpe?g", "image"))).apply(changed)

    assert content(changed) == [("type", "jpeg"), ("type", "image"), ("type", "jpg")]


@pytest.mark.parametrize("order", [1, -1])
def test_mappings_apply_to_each_others_results_in_any_order(order: int) -> None:
    rules = [mapping("//dc:type", new("^a$", "b")), mapping("//dc:type", new("^b$", "c"))][::order]
    changed = record("<dc:type>a</dc:type>")

    added = mappings(*rules).apply(changed)

    assert added == 2
    assert content(changed) == [("type", "a"), ("type", "b"), ("type", "c")]


letters = st.sampled_from("abcd")
rules_of_letters = st.lists(
    st.tuples(
        st.sampled_from(
            ["//dc:type", "//dc:*[1]", "//dc:type[last()]", "//dc:type/text()", "count(//dc:type)"]
        ),
        st.sampled_from(["a", "b", "c", "d", "[0-9]"]),
        st.lists(letters, min_size=1, max_size=2),
    ),
    min_size=1,
    max_size=5,
)


@given(rules_of_letters, st.lists(letters, max_size=4))
def test_applying_twice_changes_nothing_the_second_time(
    rules: list[tuple[str, str, list[str]]], values: list[str]
) -> None:
    applied = mappings(*(mapping(xpath, new(regexp, *added)) for xpath, regexp, added in rules))
    once = record("".join(f"<dc:type>{value}</dc:type>" for value in values))
    applied.apply(once)
    twice = deepcopy(once)

    assert applied.apply(twice) == 0
    assert etree.tostring(twice) == etree.tostring(once)


def test_an_adjacent_element_with_growing_text_does_not_hide_a_value() -> None:
    changed = etree.fromstring(
        f'<o:record xmlns:o="{OAI}"><o:metadata><m><a>x<b>y</b></a></m></o:metadata></o:record>'
    )
    rules = mappings(mapping("//a[b]", new(".", "xy", name="a")), mapping("//b", new("y", "z", name="b")))

    assert (rules.apply(changed), rules.apply(changed)) == (2, 0)


@pytest.mark.parametrize(
    ("xpath", "after"),
    [
        ("//dc:subject", "subject"),
        ("//dc:subject/text()", "subject"),
        ("//dc:subject/@xml:lang", "subject"),
        ("//dc:title", "title"),
        ("//oai:setSpec", "title"),
        ("/oai:record", "title"),
        ("//oai_dc:dc", "title"),
        ("//oai_dc:dc/@*", "title"),
        ("string(//dc:subject)", "title"),
        ("count(//dc:subject)", "title"),
        ("true()", "title"),
    ],
)
def test_new_elements_without_a_position_are_added_at_the_end_of_the_metadata(xpath: str, after: str) -> None:
    changed = record('<dc:subject xml:lang="cs">1</dc:subject><dc:title>2</dc:title>')

    mappings(mapping(xpath, new(".", "new"))).apply(changed)

    names = [name for name, _ in content(changed)]
    assert names[names.index("type") - 1] == after
    assert own_validator("oai_dc").faults(changed) == []


def test_a_match_in_about_adds_elements_next_to_it() -> None:
    about = f'<about><p xmlns="urn:p" xmlns:dc="{DC}"><dc:type>jpeg</dc:type></p></about>'
    changed = record("", about=about)

    mappings(mapping("//dc:type", new("jpeg", "image"))).apply(changed)

    assert content(changed) == []
    assert [each.text for each in changed.iterfind(f".//{{{DC}}}type")] == ["jpeg", "image"]


def test_adjacent_records_stay_unchanged() -> None:
    first, second = list_of(record_xml("<dc:type>jpeg</dc:type>"), record_xml("<dc:type>jpeg</dc:type>"))

    mappings(mapping("//dc:type", new("jpeg", "image"))).apply(first)

    assert content(first) == [("type", "jpeg"), ("type", "image")]
    assert content(second) == [("type", "jpeg")]


def test_a_deletion_stays_unchanged() -> None:
    deleted = tombstone()
    before = etree.tostring(deleted)

    assert mappings(mapping("/oai:record", new(".*", "x"))).apply(deleted) == 0
    assert etree.tostring(deleted) == before


def test_empty_metadata_can_be_filled() -> None:
    changed = record("")

    mappings(mapping("count(//dc:type)", new("^0$", "text"))).apply(changed)

    assert content(changed) == [("type", "text")]


@pytest.mark.parametrize(
    ("metadata", "expected"),
    [
        ('<m xmlns="urn:m"><kind>jpeg</kind></m>', "{urn:m}form"),
        ("<m><kind>jpeg</kind></m>", "form"),
        ('<a:m xmlns:a="urn:m"><a:kind>jpeg</a:kind></a:m>', "{urn:m}form"),
    ],
)
def test_a_name_without_prefix_takes_the_namespace_of_its_surroundings(metadata: str, expected: str) -> None:
    changed = etree.fromstring(f'<o:record xmlns:o="{OAI}"><o:metadata>{metadata}</o:metadata></o:record>')

    mappings(mapping("//*[local-name()='kind']", new("jpeg", "image", name="form"))).apply(changed)

    stored = etree.fromstring(etree.tostring(changed))
    assert [each.tag for each in stored[0][0]][1] == expected


def test_a_comment_adds_elements_next_to_itself() -> None:
    changed = record("<!--jpeg--><dc:title/>")

    mappings(mapping("//comment()", new("jpeg", "image"))).apply(changed)

    assert content(changed) == [("type", "image"), ("title", None)]


def test_text_around_the_original_stays_in_its_place() -> None:
    changed = etree.fromstring(
        f'<o:record xmlns:o="{OAI}"><o:metadata><m>one <b>jpeg</b> two</m></o:metadata></o:record>'
    )

    mappings(mapping("//b", new("jpeg", "image", name="b"))).apply(changed)

    assert etree.tostring(changed[0][0], method="text") == b"one jpeg twoimage"


def test_a_long_record_is_processed_quickly() -> None:
    changed = record("<dc:subject>art</dc:subject>" * 20_000)

    assert mappings(mapping("//dc:subject", new("art", "Arts", name="dc:subject"))).apply(changed) == 1


GOOD = "<mapping xpath='a'><newElement name='t' regexp='a'><newValue>b</newValue></newElement></mapping>"


def altered(old: str, new: str) -> str:
    """Return a normalise file with one change in its only mapping, on line 2."""
    assert old in GOOD
    return f"<normalize>\n{GOOD.replace(old, new, 1)}</normalize>"


@pytest.mark.parametrize(
    ("text", "line", "reason"),
    [
        ("<normalize>\n<mapping>\n</normalize>", 3, "not well-formed"),
        ("\n<filters match='any'/>", 2, "begins with <normalize>"),
        ("<normalize/>", 1, "has no <mapping>"),
        ("<normalize match='any'/>", 1, "no attribute 'match'"),
        (f"<normalize>{GOOD}\n<prefix>x</prefix></normalize>", 2, "<prefix> is not allowed"),
        (altered(" xpath='a'", ""), 2, "lacks the attribute 'xpath'"),
        (altered("xpath='a'", "xpath='//dc:a'"), 2, "prefix 'dc'"),
        (altered("xpath='a'", "xpath='//a['"), 2, "is not valid XPath 1.0"),
        (altered("xpath='a'", "xpath='a' match='any'"), 2, "no attribute 'match'"),
        (altered("<newElement", "<filter/><newElement"), 2, "<filter> is not allowed"),
        ("<normalize>\n<mapping xpath='a'/></normalize>", 2, "has no <newElement>"),
        (altered("name='t' ", ""), 2, "lacks the attribute 'name'"),
        (altered(" regexp='a'", ""), 2, "lacks the attribute 'regexp'"),
        (altered("regexp='a'", "regexp='('"), 2, "missing )"),
        (altered("<newElement", "\n<newElement").replace("regexp='a'", "regexp=''"), 3, "is empty"),
        (altered("<newValue>b</newValue>", ""), 2, "has no <newValue>"),
        (altered("name='t'", "name='x:t'"), 2, "prefix 'x' of name='x:t'"),
        (altered("name='t'", "name='1'"), 2, "name='1' is not an element name"),
        (altered("name='t'", "name=''"), 2, "name='' is not an element name"),
        (altered(">b<", "> <"), 2, "<newValue> is empty"),
        (altered(">b<", "><b/><"), 2, "contains text"),
        (altered("<newValue>", "<newValue type='a'>"), 2, "no attribute 'type'"),
    ],
)
def test_an_invalid_file_is_rejected_with_line_and_reason(
    text: str, line: int, reason: str, tmp_path: Path
) -> None:
    file = tmp_path / "normalize.xml"
    file.write_text(text)

    with pytest.raises(RuleFileError) as caught:
        load_mappings(file)

    assert (caught.value.source, caught.value.line) == (str(file), line)
    assert reason in str(caught.value)


def test_the_documented_filter_for_records_without_a_subject_keeps_only_those() -> None:
    found = re.search(
        r"<!-- example: no-subject filters -->\n```xml\n(.*?)```",
        GUIDE.read_text(encoding="utf-8"),
        re.DOTALL,
    )
    assert found is not None
    no_subject = parse_filters(found[1].encode(), source="guide")

    assert not no_subject.accepts(record("<dc:subject>Law</dc:subject>"))
    assert no_subject.accepts(record("<dc:title>a</dc:title>"))

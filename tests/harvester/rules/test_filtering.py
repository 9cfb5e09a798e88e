import itertools
import re
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from lxml import etree

from harvester.rules.filters import Filters, load_filters, parse_filters
from harvester.rules.rule_files import RuleFileError
from oai.errors import UsageError
from tests.harvester.rules.rule_samples import DECLARED, list_of, record, record_xml, tombstone


def filters(*rules: str, match: str = "any") -> Filters:
    text = f'<filters match="{match}">{DECLARED}{"".join(rules)}</filters>'
    return parse_filters(text.encode(), source="filters.xml")


def rule(xpath: str, regexp: str, *, invert: bool = False, ignore_case: bool = False) -> str:
    return (
        f'<filter xpath="{xpath}" regexp="{regexp}" '
        f'invert="{str(invert).lower()}" ignoreCase="{str(ignore_case).lower()}"/>'
    )


def subjects(*values: str) -> etree._Element:
    return record("".join(f"<dc:subject>{value}</dc:subject>" for value in values))


# The subjects that the expression "art" matches with and without regard to case.
ANY_OF = {
    (): (False, False, False, False),
    ("art",): (True, True, False, False),
    ("ART",): (False, True, True, False),
    ("law",): (False, False, True, True),
    ("art", "law"): (True, True, True, True),
    ("ART", "law"): (False, True, True, True),
    ("art", "ART"): (True, True, True, False),
    ("art", "art"): (True, True, False, False),
    ("law", "law"): (False, False, True, True),
}
ALL_OF = {
    (): (False, False, False, False),
    ("art",): (True, True, False, False),
    ("ART",): (False, True, True, False),
    ("law",): (False, False, True, True),
    ("art", "law"): (False, False, False, False),
    ("ART", "law"): (False, False, True, False),
    ("art", "ART"): (False, True, False, False),
    ("art", "art"): (True, True, False, False),
    ("law", "law"): (False, False, True, True),
}
OPTIONS = list(itertools.product((False, True), (False, True)))


@pytest.mark.parametrize(
    ("match", "values", "invert", "ignore_case", "accepted"),
    [
        (match, values, invert, ignore_case, accepted)
        for match, table in (("any", ANY_OF), ("all", ALL_OF))
        for values, row in table.items()
        for (invert, ignore_case), accepted in zip(OPTIONS, row, strict=True)
    ],
)
def test_match_invert_and_case_apply_to_every_node(
    match: str, values: tuple[str, ...], *, invert: bool, ignore_case: bool, accepted: bool
) -> None:
    one = filters(rule("//dc:subject", "art", invert=invert, ignore_case=ignore_case), match=match)

    assert one.accepts(subjects(*values)) is accepted


@pytest.mark.parametrize(
    ("match", "values", "accepted"),
    [
        ("any", ("art",), True),
        ("any", ("law",), True),
        ("any", ("sea",), False),
        ("any", ("sea", "law"), True),
        ("all", ("art",), False),
        ("all", ("art law",), True),
        ("all", ("art law", "art"), False),
        ("all", (), False),
    ],
)
def test_match_applies_to_every_filter(match: str, values: tuple[str, ...], *, accepted: bool) -> None:
    two = filters(rule("//dc:subject", "art"), rule("//dc:subject", "law"), match=match)

    assert two.accepts(subjects(*values)) is accepted


VALUES = [
    (),
    ("art",),
    ("ART",),
    ("law",),
    ("art", "law"),
    ("ART", "law"),
    ("art", "art"),
    ("law", "art", "ART"),
]
NAMES = ("subject", "type", "format")


def expected(match: str, per_filter: list[tuple[tuple[str, ...], bool, bool]]) -> bool:
    """The rule in one sentence each: some node of some filter; some node of each filter, and all of them."""
    answers = [
        [("art" in (value.lower() if ignore else value)) is not invert for value in values]
        for values, invert, ignore in per_filter
    ]
    if match == "any":
        return any(True in each for each in answers)
    return all(each and False not in each for each in answers)


def judged(match: str, per_filter: list[tuple[tuple[str, ...], bool, bool]]) -> bool:
    """Return whether a filter file with filters on separate elements accepts a record."""
    named = list(zip(NAMES, per_filter, strict=False))
    rules = [
        rule(f"//dc:{name}", "art", invert=invert, ignore_case=ignore) for name, (_, invert, ignore) in named
    ]
    content = "".join(f"<dc:{name}>{value}</dc:{name}>" for name, (values, _, _) in named for value in values)
    return filters(*rules, match=match).accepts(record(content))


@pytest.mark.parametrize("match", ["any", "all"])
@pytest.mark.parametrize("first", OPTIONS)
@pytest.mark.parametrize("second", OPTIONS)
def test_two_filters_of_every_kind_on_every_number_of_nodes(
    match: str, first: tuple[bool, bool], second: tuple[bool, bool]
) -> None:
    for one, two in itertools.product(VALUES, VALUES):
        per_filter = [(one, *first), (two, *second)]

        assert judged(match, per_filter) is expected(match, per_filter), per_filter


@given(
    match=st.sampled_from(["any", "all"]),
    per_filter=st.lists(
        st.tuples(st.sampled_from(VALUES), st.booleans(), st.booleans()), min_size=1, max_size=3
    ),
)
def test_any_number_of_filters_follows_the_same_rule(
    match: str, per_filter: list[tuple[tuple[str, ...], bool, bool]]
) -> None:
    assert judged(match, per_filter) is expected(match, per_filter)


def test_with_match_all_a_filter_without_nodes_rejects_the_record() -> None:
    two = filters(rule("//dc:subject", "art"), rule("//dc:date", "x", invert=True), match="all")

    assert not two.accepts(subjects("art"))


@given(values=st.lists(st.sampled_from(["art", "ART", "law", "sea"]), min_size=1), invert=st.booleans())
def test_any_and_all_with_the_opposite_inversion_contradict_each_other(
    *, values: list[str], invert: bool
) -> None:
    some = filters(rule("//dc:subject", "art", invert=invert))
    every = filters(rule("//dc:subject", "art", invert=not invert), match="all")

    assert some.accepts(subjects(*values)) is not every.accepts(subjects(*values))


@pytest.mark.parametrize(
    ("xpath", "regexp"),
    [
        ("//@xml:lang", "^cs$"),
        ("//dc:title/text()", "^castle$"),
        ("//dc:title", "^castle gate$"),
        ("//comment()", "^note$"),
        ("//processing-instruction('p')", "^q$"),
        ("//oai:setSpec", "^math$"),
        ("/oai:record/oai:header/oai:setSpec", "^math$"),
        ("oai:header/oai:setSpec", "^math$"),
        ("count(//dc:title)", "^1$"),
        ("count(//dc:title) div 4", "^0[.]25$"),
        ("1 div 0", "^Infinity$"),
        ("-1 div 0", "^-Infinity$"),
        ("number('x')", "^NaN$"),
        ("not(//dc:subject)", "^true$"),
        ("boolean(//dc:subject)", "^false$"),
        ("string(//dc:title)", "^castle gate$"),
        ("string(//dc:subject)", "^$"),
        ("//dc:title[. = 'castle gate' and (true() or false())]", "."),
        ("//dc:title[contains(., 'no:prefix $no foo(')]|//dc:title", "."),
    ],
)
def test_every_kind_of_xpath_result_has_a_value(xpath: str, regexp: str) -> None:
    content = '<dc:title xml:lang="cs">castle<!--note--><b> gate</b></dc:title><?p q?>'

    assert filters(rule(xpath, regexp)).accepts(record(content))


@pytest.mark.parametrize(
    "xpath", ["//dc:subject", "/oai:OAI-PMH//dc:subject", "//oai:record/following::dc:subject"]
)
def test_a_record_is_judged_independently_of_its_neighbours(xpath: str) -> None:
    first, _ = list_of(record_xml("<dc:title>a</dc:title>"), record_xml("<dc:subject>art</dc:subject>"))

    assert not filters(rule(xpath, "art")).accepts(first)


def test_judging_leaves_the_record_as_it_is() -> None:
    first, second = list_of(
        record_xml("<dc:subject>art</dc:subject>"), record_xml("<dc:subject>law</dc:subject>")
    )
    parent = first.getparent()
    assert parent is not None
    before = etree.tostring(parent)

    answers = [filters(rule("//dc:subject", "law")).accepts(each) for each in (first, second)]

    assert (answers, etree.tostring(parent)) == ([False, True], before)


def test_a_deletion_always_passes() -> None:
    assert filters(rule("//dc:subject", "art"), match="all").accepts(tombstone())


def test_case_is_ignored_beyond_ascii() -> None:
    assert filters(rule("//dc:subject", "žatva", ignore_case=True)).accepts(subjects("ŽATVA"))


def test_an_expression_with_catastrophic_backtracking_elsewhere_is_fast() -> None:
    assert not filters(rule("//dc:subject", "^(a+)+$")).accepts(subjects("a" * 100_000 + "b"))


def test_the_syntax_of_the_uiuc_program_is_accepted(tmp_path: Path) -> None:
    file = tmp_path / "filters.xml"
    file.write_text(
        "<filters>\n<selectionNamespaces>\n xmlns:dc='http://purl.org/dc/elements/1.1/'\n"
        ' xmlns:x = "urn:x" </selectionNamespaces>\n<!-- Art -->'
        '<filter invert="False" xpath="//dc:subject" regexp="ART" ignoreCase="TRUE" />\n</filters>\n'
    )

    assert load_filters(file).accepts(subjects("law", "art"))


GOOD = '<filter xpath="//dc:subject" regexp="a"/>'


@pytest.mark.parametrize(
    ("text", "line", "reason"),
    [
        ("<filters>\n<filter>\n</filters>", 3, "not well-formed"),
        ("", 1, "not well-formed"),
        ("<!DOCTYPE filters><filters/>", 1, "DOCTYPE"),
        ("\n<normalize/>", 2, "begins with <filters>"),
        ('<filters xmlns="urn:x"/>', 1, "<{urn:x}filters>"),
        ("<filters match='any'>\n</filters>", 1, "has no <filter>"),
        (f"<filters match='some'>{GOOD}</filters>", 1, "match='some'"),
        (f"<filters mode='any'>{GOOD}</filters>", 1, "no attribute 'mode'"),
        pytest.param(
            "<filters " + " ".join(f"a{number}=''" for number in range(100_000)) + "/>",
            1,
            "no attribute 'a0'",
            id="100,000 attributes",
        ),
        (f"<filters>{DECLARED}\n{GOOD}<mapping/></filters>", 2, "<mapping> is not allowed"),
        (f"<filters>{DECLARED}\n{GOOD}\nor</filters>", 2, "text is not allowed in <filters>: 'or'"),
        (f"<filters>and {DECLARED}{GOOD}</filters>", 1, "text is not allowed in <filters>: 'and'"),
        ("<filters>\n<filter regexp='a'/></filters>", 2, "lacks the attribute 'xpath'"),
        ("<filters>\n<filter xpath='a'/></filters>", 2, "lacks the attribute 'regexp'"),
        ("<filters>\n<filter xpath='' regexp='a'/></filters>", 2, "XPath expression is empty"),
        ("<filters>\n<filter xpath='a' regexp=''/></filters>", 2, "regular expression is empty"),
        ("<filters>\n<filter xpath='a' regexp='a' case='no'/></filters>", 2, "no attribute 'case'"),
        ("<filters>\n<filter xpath='a' regexp='a' invert='no'/></filters>", 2, "invert='no'"),
        ("<filters>\n<filter xpath='a' regexp='a' ignoreCase=''/></filters>", 2, "ignoreCase=''"),
        ("<filters>\n<filter xpath='a' regexp='a'><x/></filter></filters>", 2, "<x> is not allowed"),
        (f"<filters>\n{GOOD}</filters>", 2, "prefix 'dc' in the XPath expression '//dc:subject'"),
        ("<filters>\n<filter xpath='//a[x:b]' regexp='a'/></filters>", 2, "add xmlns:x='…'"),
        ("<filters>\n<filter xpath='//a[' regexp='a'/></filters>", 2, "'//a[' is not valid XPath 1.0"),
        ("<filters>\n<filter xpath='//a[document(\"x\")]' regexp='a'/></filters>", 2, "document()"),
        ("<filters>\n<filter xpath='//a[$b]' regexp='a'/></filters>", 2, "variable $b"),
        (
            "<filters>\n<filter xpath='count(1)' regexp='a'/></filters>",
            2,
            "cannot be evaluated",
        ),
        ("<filters>\n<filter xpath='//namespace::*' regexp='a'/></filters>", 2, "namespace axis"),
        (f"<filters>\n<filter xpath='{'a' * 1001}' regexp='a'/></filters>", 2, "1001 characters"),
        (f"<filters>\n<filter xpath='a' regexp='{'a' * 1001}'/></filters>", 2, "1001 characters"),
        ("<filters>\n<filter xpath='a' regexp='(a'/></filters>", 2, "missing )"),
        ("<filters>\n<filter xpath='a' regexp='(?=a)'/></filters>", 2, "no look-around"),
        ("<filters>\n<filter xpath='a' regexp='(a)\\1'/></filters>", 2, "no back-references"),
        ("<filters>\n<filter xpath='a' regexp='((a{100}){100}){100}'/></filters>", 2, "repetition"),
        (f"<filters>\n{DECLARED}\n{DECLARED}{GOOD}</filters>", 3, "a second <selectionNamespaces>"),
        ("<filters>\n<selectionNamespaces>dc=x</selectionNamespaces></filters>", 2, "'dc=x'"),
        ("<filters>\n<selectionNamespaces>xmlns='x'</selectionNamespaces></filters>", 2, "has no prefix"),
        ("<filters>\n<selectionNamespaces>xmlns:a=''</selectionNamespaces></filters>", 2, "xmlns:a=''"),
        ("<filters>\n<selectionNamespaces>xmlns:xml='a'</selectionNamespaces></filters>", 2, "xmlns:xml='a'"),
        (
            "<filters>\n<selectionNamespaces>xmlns:a='a' xmlns:a='b'</selectionNamespaces></filters>",
            2,
            "twice",
        ),
        (
            "<filters>\n<selectionNamespaces>xmlns:a='a'xmlns:b='b'</selectionNamespaces></filters>",
            2,
            "not a name",
        ),
        ("<filters>\n<selectionNamespaces x='y'/></filters>", 2, "no attribute 'x'"),
        ("<filters>\n<selectionNamespaces><x/></selectionNamespaces></filters>", 2, "<x> is not allowed"),
        (f"<filters>{' ' * 1024**2}</filters>", 0, "larger than 1,048,576 bytes"),
    ],
)
def test_an_invalid_file_is_rejected_with_line_and_reason(
    text: str, line: int, reason: str, tmp_path: Path
) -> None:
    file = tmp_path / "filters.xml"
    file.write_text(text)

    with pytest.raises(RuleFileError) as caught:
        load_filters(file)

    assert (caught.value.source, caught.value.line) == (str(file), line)
    assert reason in str(caught.value)
    where = f"{file}, line {line}, column {caught.value.column}: " if line else f"{file}: "
    assert str(caught.value).startswith(where)
    assert bool(caught.value.column) is bool(line)


def test_a_missing_file_is_a_usage_error(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match=r"none\.xml: cannot be read: No such file"):
        load_filters(tmp_path / "none.xml")


def test_an_xpath_that_fails_only_during_evaluation_raises_an_error() -> None:
    late = filters("\n" + rule("//dc:subject[concat(1)]", "a"))

    with pytest.raises(RuleFileError, match=r"filters\.xml, line 2, column 9: .* cannot be evaluated"):
        late.accepts(subjects("a"))


@pytest.mark.parametrize(
    ("text", "line", "column"),
    [
        ("<filters>\n  <filter xpath='a' regexp='('/></filters>", 2, 21),
        ("<filters>\n  <filter xpath='//a[' regexp='a'/></filters>", 2, 11),
        ("<filters>\n  <filter regexp='a'\n    xpath='//a['/></filters>", 3, 5),
        ("<filters>\r\n  <filter regexp='>xpath=/' \r\n\txpath = 'a['/></filters>", 3, 2),
        ("<filters>\n<!-- <filter> --> <filter regexp='a'/></filters>", 2, 19),
        ("<filters match='žádný'\n><filter xpath='ž' regexp='a'/></filters>", 1, 10),
        ("<filters><filter ž='x' xpath='ž' regexp='a'/></filters>", 1, 18),
        ("<filters>\n<filter xpath='žž' regexp='('/></filters>", 2, 20),
        ("<filters>\n<filter xpath='a' ", 2, 19),
        (" <!DOCTYPE filters><filters/>", 1, 2),
    ],
)
def test_an_invalid_file_is_rejected_with_the_column_too(text: str, line: int, column: int) -> None:
    with pytest.raises(RuleFileError) as caught:
        parse_filters(text.encode(), source="filters.xml")

    assert (caught.value.line, caught.value.column) == (line, column)
    assert str(caught.value).startswith(f"filters.xml, line {line}, column {column}: ")


@pytest.mark.parametrize(("encoding", "column"), [("iso-8859-2", 8), ("utf-16", 1), ("windows-1250", 8)])
def test_faults_in_files_of_other_encodings_have_a_line_and_column(encoding: str, column: int) -> None:
    text = (
        f"<?xml version='1.0' encoding='{encoding}'?>\n<filters>\n<filter xpath='ž[' regexp='ž'/></filters>"
    )

    with pytest.raises(RuleFileError, match=r"'ž\['") as caught:
        parse_filters(text.encode(encoding), source="filters.xml")

    assert caught.value.line == 3
    assert caught.value.column in {column, column + 1}


@pytest.mark.parametrize(
    ("regexp", "advice"),
    [
        ("a(?=b)", "write one filter for each condition, with match='all'"),
        ("a(?!b)", "write a separate filter with invert='true'"),
        ("(?&lt;=a)b", "include the text before the match in the expression"),
        ("(?&lt;!a)b", "include the text before the match in the expression"),
        ("(?>a)", "write '(?:' instead"),
        ("(a)\\1", "write out the alternatives"),
        ("(?P&lt;n>a)(?P=n)", "no back-references"),
        ("a++", "no possessive quantifiers"),
        ("a{1001}", "write '*' or '+' for more"),
        ("(?x)a", "no 'x' flag"),
        ("(?#a)", "write an XML comment"),
        ("(?(1)a|b)", "write the alternatives with '|'"),
        ("a\\Z", "write \\z"),
        ("\\u017e", "\\x{017E}"),
        ("\\h", "write [ \\t]"),
        ("\\p{Latn}", "\\p{Latin}"),
        ("(x{900}){900}", "RE2 counts up to 1,000"),
        ("[a", "RE2's syntax: https://"),
    ],
)
def test_expressions_that_re2_does_not_support_are_rejected_with_an_alternative(
    regexp: str, advice: str
) -> None:
    with pytest.raises(RuleFileError, match=re.escape(advice)):
        filters(rule("//dc:subject", regexp))

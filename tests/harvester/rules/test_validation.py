import re
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from lxml import etree

from harvester.rules.validation import validator_for
from oai.errors import ExitCode, StrictCheckError
from tests.harvester.rules.rule_samples import HEADER, OAI, list_of, record, record_xml, tombstone

SHARED = Path(__file__).parents[4] / "shared"
# fmt: off
ELEMENTS = [
    "title", "creator", "subject", "description", "publisher", "contributor", "date", "type", "format",
    "identifier", "source", "language", "relation", "coverage", "rights",
]
# fmt: on
ABOUT = '<about><p xmlns="urn:p"/></about>'


def faults(of: etree._Element) -> list[str]:
    return validator_for("oai_dc").faults(of)


def raw(inner: str, header: str = f"<header>{HEADER}</header>") -> etree._Element:
    return etree.fromstring(f'<record xmlns="{OAI}">\n{header}\n{inner}</record>')


@given(
    st.lists(
        st.tuples(
            st.sampled_from(ELEMENTS),
            st.sampled_from(["", ' xml:lang="cs"', ' xml:lang="en-GB"', ' xml:lang=""']),
            st.text("aá &<\n", max_size=5),
        )
    )
)
def test_any_dublin_core_elements_in_any_order_are_valid(elements: list[tuple[str, str, str]]) -> None:
    content = "".join(
        f"<dc:{name}{lang}>{text.replace('&', '&amp;').replace('<', '&lt;')}</dc:{name}>"
        for name, lang, text in elements
    )

    assert faults(record(content)) == []


@pytest.mark.parametrize(
    "good",
    [
        record("", header="<identifier>a</identifier><datestamp>2024-02-29T23:59:59Z</datestamp>"),
        record("", header=HEADER + "<setSpec>a:b.c-d_e!~*'()</setSpec>"),
        record("", header=f"<!-- a -->{HEADER}"),
        record("<!-- a --><?p q?>\n<dc:title/>"),
        record("", about=ABOUT + ABOUT),
        tombstone(),
        raw(ABOUT, f'<header status="deleted">{HEADER}</header>'),
    ],
    ids=["seconds", "sets", "comment", "comment in metadata", "abouts", "deletion", "deletion with about"],
)
def test_good_records_of_many_shapes_are_valid(good: etree._Element) -> None:
    assert faults(good) == []


def header(identifier: str = "a", datestamp: str = "2024-05-01", rest: str = "") -> str:
    return f"<identifier>{identifier}</identifier>\n<datestamp>{datestamp}</datestamp>\n{rest}"


@pytest.mark.parametrize(
    ("bad", "line", "element", "reason"),
    [
        (record("\n<dc:titel>a</dc:titel>"), 2, "dc:titel", "this element is not known here"),
        (record("\n<dc:title><b/></dc:title>"), 2, "dc:title", "holds text only"),
        (record("\n<x xmlns='urn:x'/>"), 2, "{urn:x}x", "not expected"),
        (record("\n\n<dc:title id='a'/>"), 3, "dc:title/@id", "this attribute is not known here"),
        (record("<dc:title xml:lang='en US'/>"), 1, "dc:title/@xml:lang", "'en US'"),
        (record("text"), 1, "oai_dc:dc", "holds elements only"),
        (record("", header=header(identifier="")), 1, "oai:identifier", "minimum length"),
        (record("", header=header(datestamp="2024-02-30")), 2, "oai:datestamp", "'2024-02-30'"),
        (record("", header=header(datestamp="2024-05-01T10:00:00")), 2, "oai:datestamp", "T10:00:00"),
        (record("", header=header(datestamp="2024-05-01T10:00:00+02:00")), 2, "oai:datestamp", "+02:00"),
        (record("", header=header(datestamp="2024-05-01Z")), 2, "oai:datestamp", "2024-05-01Z"),
        (record("", header=header(datestamp="2024")), 2, "oai:datestamp", "'2024'"),
        (record("", header=header(rest="<setSpec>a:</setSpec>")), 3, "oai:setSpec", "'a:'"),
        (record("", header=header(rest="<setSpec>a b</setSpec>")), 3, "oai:setSpec", "'a b'"),
        (record("", header=header(rest="<datestamp/>")), 3, "oai:datestamp", "not expected"),
        (record("", header="<identifier>a</identifier>"), 1, "oai:header", "oai:datestamp"),
        (record("", status=' status="gone"'), 1, "oai:header/@status", "'gone'"),
        (record("", status=' status="deleted"'), 1, "oai:metadata", "a deleted record has no metadata"),
        (record("", about="<about/>"), 1, "oai:about", "Missing child"),
        (record("", about='<about><a xmlns="u"/><b xmlns="u"/></about>'), 1, "{u}b", "not expected"),
        (raw("", ""), 1, "oai:record", "oai:header"),
        (raw(""), 1, "oai:record", "there is no oai:metadata"),
        (raw("<metadata/>"), 3, "oai:metadata", "Missing child"),
        (raw("<metadata>text</metadata>"), 3, "oai:metadata", "Missing child"),
        (raw('<metadata><a xmlns="urn:a"/></metadata>'), 3, "{urn:a}a", "begins with the element"),
        (raw("<metadata><dc/></metadata>"), 3, "oai:dc", "not expected"),
        (raw('<metadata><a xmlns="urn:a"/><b xmlns="urn:a"/></metadata>'), 3, "{urn:a}b", "not expected"),
        (etree.fromstring(f'<header xmlns="{OAI}"/>'), 1, "oai:header", "not known here"),
    ],
)  # fmt: skip
def test_each_fault_is_named_with_line_element_and_reason(
    bad: etree._Element, line: int, element: str, reason: str
) -> None:
    found = faults(bad)

    start = f"line {line}, element {element!r}: "
    assert any(fault.startswith(start) and reason in fault for fault in found), found


def test_all_faults_of_a_record_are_given_in_the_order_of_its_lines() -> None:
    bad = record(
        "\n<dc:a/>\n<dc:b/>", header=header(datestamp="soon", rest="<setSpec> </setSpec>"), about="\n<about/>"
    )

    lines = [int(re.findall(r"^line (\d+),", fault)[0]) for fault in faults(bad)]

    assert lines == [2, 3, 4, 5, 6]


def test_lines_are_those_of_the_answer_and_neighbours_do_not_matter() -> None:
    _, second = list_of(record_xml("\n<dc:a/>\n"), record_xml("\n<dc:b/>\n"))

    assert faults(second) == ["line 4, element 'dc:b': this element is not known here"]


def test_a_fault_with_an_endless_value_is_cut() -> None:
    bad = record("", header=header(datestamp="x" * 100_000))

    assert max(map(len, faults(bad))) == 300


def test_checking_leaves_the_record_as_it_is() -> None:
    bad = record("<dc:titel/>")
    before = etree.tostring(bad)

    faults(bad)

    assert etree.tostring(bad) == before


def test_threads_may_share_a_validator() -> None:
    records = [record(f"<dc:x{number}/>") for number in range(200)]

    with ThreadPoolExecutor(4) as pool:
        found = list(pool.map(faults, records))

    assert [len(each) for each in found] == [1] * 200
    assert all(f"'dc:x{number}'" in each[0] for number, each in enumerate(found))


def test_a_format_without_grammar_is_refused_with_a_way_out() -> None:
    with pytest.raises(StrictCheckError, match=r"'marc21'.*oai_dc; use validation 0") as caught:
        validator_for("marc21")

    assert caught.value.exit_code == ExitCode.STRICT_CHECK


@pytest.mark.skipif(not SHARED.exists(), reason="no recorded answers here")
def test_stray_text_in_a_recorded_answer_is_found() -> None:
    tree = etree.parse(str(SHARED / "replies" / "ListRecords2.xml"))

    found = [faults(each) for each in tree.findall(f".//{{{OAI}}}record")]

    assert found == [
        [],
        ["line 22, element 'oai_dc:dc': this element holds elements only, but text stands in it"],
    ]

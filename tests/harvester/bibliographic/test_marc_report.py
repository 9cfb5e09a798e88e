"""Findings of many records are counted."""

from harvester.bibliographic.marc21.structure import Finding, Level
from harvester.bibliographic.marc_report import MarcReport


def _finding(tag: str, place: str = "", *, code: str = "undefined_field", level: int = 2) -> Finding:
    return Finding(level=Level(level), code=code, tag=tag, place=place, found=tag, expected="another")


def _report() -> MarcReport:
    return MarcReport(repository_id=1, metadata_prefix="marc21", level=3)


def test_findings_are_counted_by_code_and_place_with_the_first_records() -> None:
    report = _report()
    for number in range(5):
        report.add(
            f"oai:x:{number}", [_finding("245", "$z"), _finding("245", "$z"), _finding("245", "$y")][:number]
        )

    assert (report.records, report.without_findings, report.findings) == (5, 1, 9)
    (first, second) = report.ranked()
    assert (first.place, first.count, first.records) == ("245$z", 7, 4)
    assert first.identifiers == ["oai:x:1", "oai:x:2", "oai:x:3"]
    assert (second.place, second.count, second.records) == ("245$y", 2, 2)


def test_findings_are_sorted_by_level_and_then_by_frequency() -> None:
    report = _report()
    report.add("oai:x:1", [_finding("100", level=3), _finding("200"), _finding("300")])
    report.add("oai:x:2", [_finding("100", level=3), _finding("300")])

    assert [one.place for one in report.ranked()] == ["300", "200", "100"]


def test_any_number_of_tags_takes_bounded_memory() -> None:
    report = _report()
    for number in range(10_000):
        report.add("oai:x:1", [_finding(f"{number}"), _finding(f"{number}", code="data_field_tag")])

    ranked = {(one.code, one.place): one.count for one in report.ranked()}
    assert len(ranked) == 2002
    assert ranked["undefined_field", "…"] + ranked["data_field_tag", "…"] == 18_000
    assert sum(ranked.values()) == report.findings == 20_000

"""An examination's report in plain words, for a terminal and as a letter to the administrator."""

from collections.abc import Callable, Iterator
from typing import Final

from harvester.doctor.findings import Fact, Grade, Profile, Report
from harvester.doctor.sentences import advice_for, grade_of, in_words
from harvester.doctor.subjects import SUBJECTS
from oai.console import counted
from oai.datestamps import format_datestamp

Translate = Callable[[str], str]

_MARKS: Final = {Grade.GOOD: "+", Grade.ODD: "-", Grade.BAD: "!", Grade.UNKNOWN: "?"}
METHODS: Final = ("ListRecords", "ListIdentifiers and GetRecord")
LEVELS: Final = ("strict", "very strict", "loose")


def troubles(report: Report) -> list[Fact]:
    """The facts that something should be done about, the bad ones first."""
    found = [fact for fact in report.facts if grade_of(fact) in (Grade.BAD, Grade.ODD)]
    return sorted(found, key=lambda fact: grade_of(fact) is not Grade.BAD)


def letter(report: Report, translate: Translate = str) -> str:
    """What the repository's administrator should know, as a text to be sent."""
    found = troubles(report)
    day = format_datestamp(report.examined)[:10]
    opening = translate("On %(day)s we tested how the repository %(url)s answers harvesters.") % {
        "day": day,
        "url": report.base_url,
    }
    if not found:
        return f"{opening}\n\n" + translate("We found no problems. Thank you for maintaining it so well.")
    lines = [opening, "", translate("We found the following problems and suggest these corrections:"), ""]
    for number, fact in enumerate(found, 1):
        lines.append(f"{number}. {translate(SUBJECTS[fact.subject])}: {in_words(fact, translate)}")
        if advice := advice_for(fact, translate):
            lines.append(f"   {advice}")
    lines += ["", translate("Section numbers refer to the OAI-PMH 2.0 specification.")]
    return "\n".join(lines)


def in_lines(report: Report) -> Iterator[str]:
    """The report for a terminal."""
    yield f"{report.repository_name or 'A repository without a name'}, {report.base_url}"
    yield (
        f"{len(report.facts)} findings from {counted(report.requests, 'request')} in {report.seconds:,.1f} s"
    )
    for fact in report.facts:
        yield f"  {_MARKS[grade_of(fact)]} {SUBJECTS[fact.subject]}: {in_words(fact)}"
    yield "Recommended harvesting"
    yield from (f"  {name}: {value}" for name, value in profile_lines(report.profile))


def profile_lines(profile: Profile, translate: Translate = str) -> list[tuple[str, str]]:
    """The profile as pairs of what and how."""
    slices = {"day": translate("day by day"), "month": translate("month by month")}
    return [
        (translate("format"), profile.metadata_prefix),
        (translate("method"), translate(METHODS[profile.method])),
        (translate("in slices"), slices.get(profile.slice or "", translate("no, the whole list at once"))),
        (
            translate("incremental"),
            translate("only changed records") if profile.incremental else translate("all records each time"),
        ),
        (translate("checking"), translate(LEVELS[profile.validation])),
        (translate("seconds between requests"), f"{profile.delay:g}"),
        (translate("retries"), str(profile.retries)),
    ]

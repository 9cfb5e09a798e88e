"""A diagnostics report in words: for a terminal, a web page, or a letter to the repository's operators."""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Final

from sqlalchemy import update
from sqlalchemy.orm import Session

from harvester.models import Repository
from harvester.probing.case import SUBJECTS
from harvester.probing.findings import Fact, Grade, Profile, Report
from oai.console import counted
from oai.languages import SOURCE, minute_in_utc


@dataclass(frozen=True, kw_only=True)
class Wording:
    """A sentence with placeholders for its fact's values, and advice for the administrator."""

    grade: Grade
    text: str
    advice: str = ""


def _good(text: str) -> Wording:
    return Wording(grade=Grade.GOOD, text=text)


def _odd(text: str, advice: str) -> Wording:
    return Wording(grade=Grade.ODD, text=text, advice=advice)


def _bad(text: str, advice: str) -> Wording:
    return Wording(grade=Grade.BAD, text=text, advice=advice)


def _unknown(text: str) -> Wording:
    return Wording(grade=Grade.UNKNOWN, text=text)


_CODES: Final = ("bad verb", "bad argument", "bad token", "bad format", "bad identifier")

_SHIFTED: Final = (
    (
        "`%(request)s` does not list a record with exactly this datestamp, and neither does `%(further)s`: "
        "lists do not select by the datestamps in headers, perhaps because these are in local time."
    ),
    "Write datestamps in UTC (section 3.3) and select by them (section 2.7.1).",
)
_OFFSET: Final = (
    (
        "`%(request)s` also lists records whose datestamps are up to a day outside it: lists do not select by"
        " the datestamps in headers, perhaps because these are in local time."
    ),
    _SHIFTED[1],
)
_UNCLEAR: Final = (
    (
        "`%(request)s` does not list a record with exactly this datestamp: either the bound excludes its own "
        "day or second, or datestamps are in local time."
    ),
    "Include both bounds (section 2.7.1) and write datestamps in UTC (section 3.3).",
)

SENTENCES: Final[Mapping[str, Wording]] = {
    "identify.well": _good("The repository identifies itself: %(name)s."),
    "identify.odd": _odd(
        "The answer to Identify is not valid: %(text)s", "Correct the answer to Identify (section 4.2)."
    ),
    "version.well": _good("The protocol version is 2.0."),
    "version.other": _bad("The protocol version is %(version)s.", "Support version 2.0 of the protocol."),
    "base url.well": _good("baseURL in Identify matches the requested address."),
    "base url.other": _odd(
        "baseURL in Identify is %(told)s, not the requested address.",
        "Write the address at which the repository answers into Identify.",
    ),
    "redirects.none": _good("The address does not redirect."),
    "redirects.some": _odd(
        "The address redirects to %(target)s.",
        "Announce the new address to harvesters and keep the old one working.",
    ),
    "content type.well": _good("Answers are text/xml."),
    "content type.other": _odd(
        "Answers have the content type %(type)s.", "Send answers as text/xml (section 3.1.2.1)."
    ),
    "email.well": _good("The administrator's address is %(email)s."),
    "email.none": _odd(
        "The administrator's address is missing.",
        "Give at least one adminEmail in Identify (section 4.2).",
    ),
    "earliest.well": _good("The earliest datestamp is %(date)s."),
    "earliest.wrong": _odd(
        "The earliest datestamp is %(date)s, which does not match the granularity.",
        "Write earliestDatestamp in the repository's granularity.",
    ),
    "earliest.later": _bad(
        "Records are older than the earliest datestamp %(date)s: one is dated %(older)s.",
        "Set earliestDatestamp so that no record is older; harvesters start there.",
    ),
    "granularity.second": _good("Datestamps are exact to the second."),
    "granularity.day": _good("Datestamps are exact to the day."),
    "granularity.untrue": _bad(
        "Identify declares %(promised)s, but %(count)s of %(of)s datestamps differ, such as %(such)s.",
        "Write all datestamps in the granularity declared in Identify (section 3.3).",
    ),
    "granularity.unknown": _bad(
        "The granularity is %(told)s, which is neither of the two allowed values.",
        "Declare YYYY-MM-DD or YYYY-MM-DDThh:mm:ssZ in Identify.",
    ),
    "datestamps.well": _good("No datestamp is later than the answer."),
    "datestamps.future": _odd(
        "Records are dated later than the answer at %(answered)s: one is dated %(date)s.",
        "Write the time of the last change as the datestamp, in UTC, not in local time (section 3.3).",
    ),
    "deletions.persistent": _good("Deletions are reported permanently."),
    "deletions.transient": _odd(
        "Deletions are reported only for some time: full harvests are needed now and then.",
        "If you can, keep deletions permanently (deletedRecord persistent).",
    ),
    "deletions.no": _odd(
        "Deletions are not reported: only a full harvest finds records that disappeared.",
        "If you can, keep deletions (deletedRecord persistent).",
    ),
    "deletions.unknown": _odd(
        "Identify declares the unknown deletedRecord value %(told)s.",
        "Declare no, transient or persistent as deletedRecord in Identify.",
    ),
    "response date.well": _good("responseDate is in UTC."),
    "response date.wrong": _bad(
        "responseDate is %(told)s, which is not UTC to the second.",
        "Write responseDate as YYYY-MM-DDThh:mm:ssZ: harvesters start the next harvest there (section 3.2).",
    ),
    "response date.unreadable": _bad(
        "responseDate is %(told)s, which cannot be read as a date: harvests cannot continue from it.",
        "Write responseDate as YYYY-MM-DDThh:mm:ssZ: harvesters start the next harvest there (section 3.2).",
    ),
    "clock.well": _good("The server's clock is correct."),
    "clock.ahead": _bad(
        "The server's clock is %(seconds)s seconds ahead: changes in that time can be missed.",
        "Set the server's clock and write responseDate in UTC.",
    ),
    "clock.behind": _odd(
        "The server's clock is %(seconds)s seconds behind.",
        "Set the server's clock and write responseDate in UTC.",
    ),
    "formats.well": _good("Formats offered: %(count)s, including oai_dc."),
    "formats.no dc": _odd(
        "The format oai_dc is not offered.", "Offer oai_dc, which is required (section 3.4)."
    ),
    "formats.failed": _odd(
        "Formats cannot be listed: %(text)s", "Correct ListMetadataFormats (section 4.4)."
    ),
    "records.well": _good("Records are well-formed: %(count)s on the first page."),
    "records.none": _unknown("There are no records yet, so most checks were not possible."),
    "records.faulty": _bad(
        "%(count)s of the records on the first page cannot be read; the first: %(text)s",
        "Correct these records.",
    ),
    "records.failed": _bad("Records cannot be listed: %(text)s", "Correct ListRecords (section 4.5)."),
    "encoding.well": _good("Answers are in UTF-8."),
    "encoding.wrong": _bad(
        "Answers are not valid UTF-8: %(text)s",
        "Send UTF-8, without control characters (section 3.1).",
    ),
    "schema.well": _good("All %(count)s records checked are valid against their schema."),
    "schema.faulty": _odd(
        "%(faulty)s of %(count)s records checked are not valid against their schema; the first: %(text)s",
        "Make the records valid against the schema that the repository declares.",
    ),
    "schema.unknown": _unknown("No schema was available: %(text)s"),
    "page size.well": _good("A page has %(count)s records."),
    "page size.small": _odd(
        "A page has only %(count)s records: harvesting takes many requests.",
        "Return 100 to 500 records per page.",
    ),
    "page size.all": _odd(
        "All %(count)s records are in one answer.", "Split long lists into pages of 100 to 500 records."
    ),
    "size told.told": _good("The length of the list is declared: %(size)s records."),
    "size told.untold": _odd(
        "The length of lists is not declared, so it cannot be checked whether they are complete.",
        "Add completeListSize to each resumptionToken (section 3.5).",
    ),
    "token.well": _good("Lists continue from page to page."),
    "token.failed": _bad(
        "The list does not continue after the first page: %(text)s",
        "Correct the resumption tokens (section 3.5).",
    ),
    "token.repeats": _bad(
        "The second page repeats records of the first one.",
        "Correct the resumption tokens (section 3.5).",
    ),
    "token.one page": _unknown("The list has only one page, so tokens could not be checked."),
    "token again.same": _good("A token can be used again and returns the same page."),
    "token again.other": _bad(
        "A token that is used again returns a different page: an interrupted harvest cannot be resumed.",
        "Return the same page for the same token (section 3.5).",
    ),
    "token again.refused": _bad(
        "A token can be used only once: an interrupted harvest has to start again.",
        "Accept at least the last token again (section 3.5).",
    ),
    "token expiry.told": _good("The expiry of tokens is declared: %(date)s."),
    "token expiry.short": _odd(
        "A token is valid for only %(minutes)s minutes: long harvests may have to start again.",
        "Keep tokens valid for at least one day.",
    ),
    "token expiry.untold": _odd(
        "The expiry of tokens is not declared.", "Add expirationDate to each resumptionToken."
    ),
    "identifiers.same": _good("ListIdentifiers lists the same records as ListRecords."),
    "identifiers.other": _bad(
        "ListIdentifiers lists different records than ListRecords.",
        "List the same records with both verbs (section 4.3).",
    ),
    "identifiers.failed": _odd(
        "Identifiers cannot be listed: %(text)s", "Correct ListIdentifiers (section 4.3)."
    ),
    "get record.well": _good("A single record can be fetched."),
    "get record.other": _bad(
        "GetRecord returns a different record than requested.", "Correct GetRecord (section 4.1)."
    ),
    "get record.failed": _odd(
        "A single record cannot be fetched: %(text)s", "Correct GetRecord (section 4.1)."
    ),
    "from.inclusive": _good("`from` includes its own day or second."),
    "from.exclusive": _bad(
        "`from` excludes records changed at exactly that time: changes can be missed.",
        "Include both bounds (section 2.7.1).",
    ),
    "from.ignored": _bad(
        "`from` is ignored: all records are returned each time.", "Apply `from` (section 2.7.1)."
    ),
    "from.offset": _odd(*_OFFSET),
    "from.failed": _bad(
        "`from` is rejected: %(text)s", "Accept `from` in the declared granularity (section 2.7.1)."
    ),
    "from.shifted": _bad(*_SHIFTED),
    "from.unclear": _bad(*_UNCLEAR),
    "until.inclusive": _good("`until` includes its own day or second."),
    "until.exclusive": _odd(
        "`until` excludes its own day or second.", "Include both bounds (section 2.7.1)."
    ),
    "until.ignored": _odd("`until` is ignored.", "Apply `until` (section 2.7.1)."),
    "until.offset": _odd(*_OFFSET),
    "until.failed": _odd(
        "`until` is rejected: %(text)s", "Accept `until` in the declared granularity (section 2.7.1)."
    ),
    "until.shifted": _odd(*_SHIFTED),
    "until.unclear": _odd(*_UNCLEAR),
    "before earliest.well": _good("Requests before the earliest datestamp are answered with noRecordsMatch."),
    "before earliest.odd": _odd(
        "Requests before the earliest datestamp are answered with %(text)s.",
        "Answer noRecordsMatch and set a correct earliestDatestamp.",
    ),
    "before earliest.listed": _odd(
        "Requests before the earliest datestamp are answered with records (%(count)s).",
        "Answer noRecordsMatch and set a correct earliestDatestamp.",
    ),
    "sets.some": _good("The repository has %(count)s sets."),
    "sets.many": _good("The repository has more than %(count)s sets."),
    "sets.none": _good("The repository has no sets and answers noSetHierarchy."),
    "sets.empty": _odd(
        "The list of sets is empty.", "Answer noSetHierarchy if there are no sets (section 4.6)."
    ),
    "sets.failed": _odd("Sets cannot be listed: %(text)s", "Correct ListSets (section 4.6)."),
    "set.well": _good("The set %(set)s returns its own records."),
    "set.empty": _good("The set %(set)s has no records and answers noRecordsMatch."),
    "set.other": _bad(
        "The set %(set)s returns records whose headers do not name it.",
        "Name all sets in the headers (section 2.5).",
    ),
    "set.failed": _odd("The set %(set)s cannot be harvested: %(text)s", "Correct harvesting by set."),
    **{f"{code}.well": _good("The answer is %(code)s, as expected.") for code in _CODES},
    **{
        f"{code}.other": _odd(
            "The answer is %(text)s instead of %(code)s.", "Answer with the error %(code)s."
        )
        for code in _CODES
    },
    "post.well": _good("Requests by POST are answered."),
    "post.failed": _odd(
        "Requests by POST are not answered: %(text)s", "Accept both POST and GET (section 3.1.1)."
    ),
    "gzip.well": _good("Answers are compressed."),
    "gzip.none": _odd(
        "Answers are not compressed.",
        "Compress answers with gzip, which saves about nine tenths of the data.",
    ),
    "speed.well": _good("A page takes %(seconds)s seconds."),
    "speed.slow": _odd("A page takes %(seconds)s seconds.", "Find out what makes list requests slow."),
}
"""By subject and finding."""


OWN_VALUES: Final = ("a list", "nothing")
"""Values that are not the repository's words, and are translated."""


def grade_of(fact: Fact) -> Grade:
    """Return the fact's grade; unknown if a newer version wrote the fact."""
    wording = SENTENCES.get(fact.key)
    return wording.grade if wording else Grade.UNKNOWN


def in_words(fact: Fact, translate: Callable[[str], str] = str) -> str:
    """Return the fact as a sentence; `translate` translates the sentence before its values are filled in."""
    wording = SENTENCES.get(fact.key)
    values = {name: translate(value) if value in OWN_VALUES else value for name, value in fact.values.items()}
    return translate(wording.text) % _Values(values) if wording else fact.key


def advice_for(fact: Fact, translate: Callable[[str], str] = str) -> str:
    """Return advice for the repository's administrator; empty if all is well."""
    wording = SENTENCES.get(fact.key)
    return translate(wording.advice) % _Values(fact.values) if wording and wording.advice else ""


class _Values(dict[str, Any]):
    """Values of a fact; a report of another version may lack some."""

    def __missing__(self, name: str) -> str:
        return "–"  # noqa: RUF001 a dash on purpose


Translate = Callable[[str], str]

_MARKS: Final = {Grade.GOOD: "+", Grade.ODD: "-", Grade.BAD: "!", Grade.UNKNOWN: "?"}
METHODS: Final = ("ListRecords", "ListIdentifiers and GetRecord")
LEVELS: Final = ("strict", "very strict", "loose")


def troubles(report: Report) -> list[Fact]:
    """Return the facts that require action, the bad ones first."""
    found = [fact for fact in report.facts if grade_of(fact) in (Grade.BAD, Grade.ODD)]
    return sorted(found, key=lambda fact: grade_of(fact) is not Grade.BAD)


def letter(report: Report, translate: Translate = str, language: str = SOURCE) -> str:
    """Return a letter with what the repository's administrator should know.

    `translate` gives texts in the language, whose conventions the date follows.
    """
    found = troubles(report)
    opening = translate("On %(day)s we tested how the repository %(url)s answers harvesters.") % {
        "day": minute_in_utc(report.examined, language),
        "url": report.base_url,
    }
    if not found:
        return f"{opening}\n\n" + translate("We found no problems. Thank you for maintaining it so well.")
    lines = [opening, "", translate("We found the following problems and suggest these corrections:"), ""]
    for number, fact in enumerate(found, 1):
        lines.append(f"{number}. {translate(SUBJECTS[fact.subject])}: {in_words(fact, translate)}")
        if advice := advice_for(fact, translate):
            lines.append(f"   {advice}")
    if any("(section " in advice_for(fact) for fact in found):
        lines += ["", translate("Section numbers refer to the OAI-PMH 2.0 specification.")]
    return "\n".join(lines)


def in_lines(report: Report) -> Iterator[str]:
    """Yield the lines of the report for a terminal."""
    yield f"{report.repository_name or 'A repository without a name'}, {report.base_url}"
    yield (
        f"{len(report.facts)} findings from {counted(report.requests, 'request')} in {report.seconds:,.1f} s"
    )
    for fact in report.facts:
        yield f"  {_MARKS[grade_of(fact)]} {SUBJECTS[fact.subject]}: {in_words(fact)}"
    yield "Recommended harvesting"
    yield from (f"  {name}: {value}" for name, value in profile_lines(report.profile))


def profile_lines(profile: Profile, translate: Translate = str) -> list[tuple[str, str]]:
    """Return the profile as pairs of name and value."""
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


def keep_report(session: Session, repository_id: int, report: Report) -> None:
    """Store the report and its harvest profile, replacing the previous ones. The caller commits."""
    session.execute(
        update(Repository)
        .where(Repository.repository_id == repository_id)
        .values(examined=report.examined, examination=report.as_json(), profile=report.profile.as_json())
    )

"""Selective harvesting: pages that join without gaps, windows, verbs that agree (section 2.7)."""

from collections import Counter
from typing import Final

from oai.datestamps import format_datestamp, parse_datestamp, utc_now
from oai.vocabulary import Granularity
from provider.checking.facts import CannotBeDoneError, NotApplicableError, Walk
from provider.checking.findings import Checklist, Severity, Verdict, verdict
from provider.checking.survey import Survey

LIST: Final = Checklist(subject="lists")

_HEADERS: Final = "verb=ListIdentifiers&metadataPrefix={prefix}"


@LIST.add(
    "no-repeats",
    "No record comes twice in a list",
    section="3.5",
    severity=Severity.SHOULD,
    advice="Order lists by a unique key and go on behind the last one; OFFSET repeats and loses records.",
)
def _no_repeats(survey: Survey) -> Verdict:
    counts = Counter(survey.records.identifiers)
    twice = [identifier for identifier, count in counts.items() if count > 1]
    return _of(survey.records, not twice, "each record once", ", ".join(twice[:3]))


@LIST.add(
    "none-lost",
    "Records seen in the whole list are in the list of their datestamp",
    section="2.7.1",
    advice="from = until = the datestamp of a record has to list that record and all others of that time.",
)
def _none_lost(survey: Survey) -> Verdict:
    moment = survey.sample.datestamp
    seen = {header.identifier for header in survey.records.headers if header.datestamp == moment}
    missing = sorted(seen - set(survey.moment_records.identifiers))
    if missing and not survey.moment_records.ended:
        raise CannotBeDoneError(f"too many records are dated {moment} to walk to their end")
    return _of(survey.moment_records, not missing, f"all of {moment}", ", ".join(missing[:3]))


@LIST.add(
    "agree",
    "ListIdentifiers and ListRecords list the same",
    section="4.3",
    advice="Answer both verbs from the same query: harvesters use one to plan and the other to fetch.",
)
def _agree(survey: Survey) -> Verdict:
    for records, headers in (
        (survey.records, survey.headers),
        (survey.moment_records, survey.moment_headers),
    ):
        if records.ended and headers.ended:
            apart = set(records.headers) ^ set(headers.headers)
            told = sorted(header.identifier for header in apart)[:3]
            return _of(headers, not apart, "the headers of ListRecords", ", ".join(told))
    raise CannotBeDoneError("no list was short enough to be walked to its end by both verbs")


@LIST.add(
    "window",
    "What is listed is dated within the window asked for",
    section="2.7.1",
    advice="Compare from and until with the datestamp that the header shows, in UTC.",
)
def _window(survey: Survey) -> Verdict:
    moment = format_datestamp(survey.moment.moment, survey.granularity)
    late = [header for header in survey.moment_records.headers if header.datestamp != moment]
    return _of(survey.moment_records, not late, moment, late[0].datestamp if late else "")


@LIST.add(
    "from-inclusive",
    "from is inclusive",
    section="2.7.1",
    advice="List what is dated exactly as from says: datestamp >= from.",
)
def _from_inclusive(survey: Survey) -> Verdict:
    return _has_sample(survey, f"{_HEADERS}&from={{moment}}&until={{later}}")


@LIST.add(
    "until-inclusive",
    "until is inclusive",
    section="2.7.1",
    advice="List what is dated exactly as until says: datestamp <= until.",
)
def _until_inclusive(survey: Survey) -> Verdict:
    return _has_sample(survey, f"{_HEADERS}&from={{earlier}}&until={{moment}}")


@LIST.add(
    "from-excludes",
    "from leaves out what is older",
    section="2.7.1",
    advice="Incremental harvests would fetch everything again: compare the datestamp with from.",
)
def _from_excludes(survey: Survey) -> Verdict:
    reply = survey.ask(f"{_HEADERS}&from={{later}}")
    moment = format_datestamp(survey.moment.moment, survey.granularity)
    older = [header for header in reply.headers if header.datestamp <= moment]
    return verdict(not older, reply, expected=f"only later than {moment}")


@LIST.add(
    "until-excludes",
    "until leaves out what is newer",
    section="2.7.1",
    advice="Compare the datestamp with until.",
)
def _until_excludes(survey: Survey) -> Verdict:
    reply = survey.ask(f"{_HEADERS}&until={{earlier}}")
    moment = format_datestamp(survey.moment.moment, survey.granularity)
    newer = [header for header in reply.headers if header.datestamp >= moment]
    return verdict(not newer, reply, expected=f"only earlier than {moment}")


@LIST.add(
    "days",
    "Days are understood, to their end",
    section="2.7.1",
    advice="from and until as YYYY-MM-DD have to work everywhere, and until takes in the whole day.",
)
def _days(survey: Survey) -> Verdict:
    return _has_sample(survey, f"{_HEADERS}&from={{day}}&until={{day}}")


@LIST.add(
    "repeatable",
    "The same request again gives the same first page",
    section="2.7",
    severity=Severity.INFO,
    advice="Put lists in a fixed order.",
)
def _repeatable(survey: Survey) -> Verdict:
    query = survey.query(f"{_HEADERS}&until={{moment}}")
    before, again = survey.client.get(query), survey.client.get(query, fresh=True)
    same = [header.identifier for header in again.headers] == [header.identifier for header in before.headers]
    return verdict(
        same, again, expected="the same identifiers in the same order", came="so" if same else "not"
    )


@LIST.add(
    "datestamp-form",
    "Datestamps are written in the granularity told",
    section="2.7.1",
    advice="Write all datestamps in the form that Identify tells, in UTC, with Z where there are seconds.",
)
def _datestamp_form(survey: Survey) -> Verdict:
    wrong = [header for header in survey.records.headers if not _fits(header.datestamp, survey.granularity)]
    return _of(survey.records, not wrong, survey.granularity, wrong[0].datestamp if wrong else "")


def _fits(text: str, granularity: Granularity) -> bool:
    try:
        return parse_datestamp(text).granularity is granularity
    except ValueError:
        return False


@LIST.add(
    "no-future",
    "No datestamp is in the future",
    section="2.7.1",
    advice="A record dated ahead is missed by incremental harvests once its time has come; set it right.",
)
def _no_future(survey: Survey) -> Verdict:
    page = survey.records.pages[-1]
    latest = max(page.response_date, format_datestamp(utc_now()))
    late = [header for header in survey.records.headers if header.datestamp > latest]
    return _of(survey.records, not late, f"not after {latest}", late[0].datestamp if late else "")


def _has_sample(survey: Survey, template: str) -> Verdict:
    walk = survey.walk(survey.query(template))
    found = survey.sample.identifier in walk.identifiers
    if not found and not walk.ended:
        raise CannotBeDoneError("the list is too long to be walked to its end")
    expected = f"{survey.sample.identifier}, which is dated {survey.sample.datestamp}"
    return _of(walk, found, expected, "" if found else "not among them")


def _of(walk: Walk, passed: object, expected: str, wrong: str) -> Verdict:
    if not walk.pages:
        raise NotApplicableError("there is no such list")
    return verdict(passed, walk.pages[0], expected=expected, came=wrong or walk.described())

"""Selective harvesting: pages without gaps, date ranges, consistent verbs (section 2.7)."""

from collections import Counter
from typing import Final

from oai.datestamps import format_datestamp, parse_datestamp, utc_now
from oai.vocabulary import Granularity
from provider.checking.findings import Checklist, Severity, Verdict, verdict
from provider.checking.survey import CannotBeDoneError, NotApplicableError, Survey, Walk

LIST: Final = Checklist(subject="lists")

_HEADERS: Final = "verb=ListIdentifiers&metadataPrefix={prefix}"


@LIST.add(
    "no-repeats",
    "No record occurs twice in a list",
    section="3.5",
    severity=Severity.SHOULD,
    advice="Order lists by a unique key and continue after the last key; OFFSET repeats and loses records.",
)
def _no_repeats(survey: Survey) -> Verdict:
    counts = Counter(survey.records.identifiers)
    twice = [identifier for identifier, count in counts.items() if count > 1]
    return _of(survey.records, not twice, "each record once", ", ".join(twice[:3]))


@LIST.add(
    "none-lost",
    "Records found in the whole list are also listed by their datestamp",
    section="2.7.1",
    advice="With from = until = the datestamp of a record, list that record and all others with the "
    "same datestamp.",
)
def _none_lost(survey: Survey) -> Verdict:
    moment = survey.sample.datestamp
    seen = {header.identifier for header in survey.records.headers if header.datestamp == moment}
    missing = sorted(seen - set(survey.moment_records.identifiers))
    if missing and not survey.moment_records.ended:
        raise CannotBeDoneError(f"too many records are dated {moment} to read them all")
    return _of(survey.moment_records, not missing, f"all of {moment}", ", ".join(missing[:3]))


@LIST.add(
    "agree",
    "ListIdentifiers and ListRecords list the same records",
    section="4.3",
    advice="Answer both verbs from the same query: harvesters plan with one and fetch with the other.",
)
def _agree(survey: Survey) -> Verdict:
    for records, headers in (
        (survey.records, survey.headers),
        (survey.moment_records, survey.moment_headers),
    ):
        if records.ended and headers.ended:
            apart = set(records.headers) ^ set(headers.headers)
            examples = sorted(header.identifier for header in apart)[:3]
            return _of(headers, not apart, "the headers of ListRecords", ", ".join(examples))
    raise CannotBeDoneError("no list was short enough to be read completely with both verbs")


@LIST.add(
    "window",
    "Listed records are dated within the requested window",
    section="2.7.1",
    advice="Compare from and until with the datestamp in the header, in UTC.",
)
def _window(survey: Survey) -> Verdict:
    moment = format_datestamp(survey.moment.moment, survey.granularity)
    late = [header for header in survey.moment_records.headers if header.datestamp != moment]
    return _of(survey.moment_records, not late, moment, late[0].datestamp if late else "")


@LIST.add(
    "from-inclusive",
    "from is inclusive",
    section="2.7.1",
    advice="Include records with datestamp >= from.",
)
def _from_inclusive(survey: Survey) -> Verdict:
    return _has_sample(survey, f"{_HEADERS}&from={{moment}}&until={{later}}")


@LIST.add(
    "until-inclusive",
    "until is inclusive",
    section="2.7.1",
    advice="Include records with datestamp <= until.",
)
def _until_inclusive(survey: Survey) -> Verdict:
    return _has_sample(survey, f"{_HEADERS}&from={{earlier}}&until={{moment}}")


@LIST.add(
    "from-excludes",
    "from excludes older records",
    section="2.7.1",
    advice="Compare the datestamp with from; otherwise incremental harvests fetch all records each time.",
)
def _from_excludes(survey: Survey) -> Verdict:
    reply = survey.ask(f"{_HEADERS}&from={{later}}")
    moment = format_datestamp(survey.moment.moment, survey.granularity)
    older = [header for header in reply.headers if header.datestamp <= moment]
    return verdict(not older, reply, expected=f"only records later than {moment}")


@LIST.add(
    "until-excludes",
    "until excludes newer records",
    section="2.7.1",
    advice="Compare the datestamp with until.",
)
def _until_excludes(survey: Survey) -> Verdict:
    reply = survey.ask(f"{_HEADERS}&until={{earlier}}")
    moment = format_datestamp(survey.moment.moment, survey.granularity)
    newer = [header for header in reply.headers if header.datestamp >= moment]
    return verdict(not newer, reply, expected=f"only records earlier than {moment}")


@LIST.add(
    "days",
    "Dates without a time are accepted and include the whole day",
    section="2.7.1",
    advice="Accept from and until as YYYY-MM-DD in every repository; until includes the whole day.",
)
def _days(survey: Survey) -> Verdict:
    return _has_sample(survey, f"{_HEADERS}&from={{day}}&until={{day}}")


@LIST.add(
    "repeatable",
    "The same request returns the same first page",
    section="2.7",
    severity=Severity.INFO,
    advice="List records in a fixed order.",
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
    "Datestamps have the declared granularity",
    section="2.7.1",
    advice="Write all datestamps in UTC in the granularity that Identify declares, with Z if they have "
    "a time.",
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
    advice="Do not date records ahead: incremental harvests miss them once that time has passed.",
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
        raise CannotBeDoneError("the list is too long to be read completely")
    expected = f"{survey.sample.identifier}, which is dated {survey.sample.datestamp}"
    return _of(walk, found, expected, "" if found else "not in the list")


def _of(walk: Walk, passed: object, expected: str, wrong: str) -> Verdict:
    if not walk.pages:
        raise NotApplicableError("there is no such list")
    return verdict(passed, walk.pages[0], expected=expected, came=wrong or walk.described())

"""Looks at selective harvesting: whether both bounds are heeded and included, and at sets."""

from datetime import timedelta

from harvester.client.selection import Selection
from harvester.doctor.case import Case, short
from harvester.reading.answers import Header
from harvester.reading.errors import ClientError, NoRecordsMatchError, NoSetHierarchyError
from oai.datestamps import Datestamp, format_datestamp, parse_datestamp
from oai.vocabulary import Granularity


async def look_at_bounds(case: Case) -> None:
    """Ask for the records of a day or second that has one, from there on and up to there."""
    wanted = _latest(case)
    if wanted is None:
        return
    bound = format_datestamp(parse_datestamp(wanted.datestamp).moment, _granularity(case))
    for subject, selection in (
        ("from", Selection(metadata_prefix=case.metadata_prefix, from_=bound)),
        ("until", Selection(metadata_prefix=case.metadata_prefix, from_=bound, until=bound)),
    ):
        await _look_at_bound(case, subject, selection, wanted, bound)


async def look_before_earliest(case: Case) -> None:
    """Ask for what is older than the oldest."""
    if case.identity is None:
        return
    try:
        earliest = parse_datestamp(case.identity.earliest_datestamp).moment
        before = format_datestamp(earliest - timedelta(days=2), _granularity(case))
    except (ValueError, OverflowError):
        return
    try:
        page = await case.listed(Selection(metadata_prefix=case.metadata_prefix, until=before))
    except NoRecordsMatchError:
        case.note("before earliest", "well")
    except ClientError as error:
        case.note("before earliest", "odd", text=short(error))
    else:
        case.note("before earliest", "odd", text=f"{len(page.headers)} records")


async def look_at_sets(case: Case) -> None:
    """Ask for the first page of sets, and for the records of the first one."""
    try:
        page = await anext(case.client.list_sets().pages())
    except NoSetHierarchyError:
        case.note("sets", "none")
        return
    except ClientError as error:
        case.note("sets", "failed", text=short(error))
        return
    if not page.sets:
        told = b"noSetHierarchy" in case.last_reply().body
        case.note("sets", "none" if told else "empty")
        return
    more = bool(page.token and page.token.value)
    case.note("sets", "many" if more else "some", count=len(page.sets))
    await _look_at_set(case, page.sets[0].set_spec)


async def _look_at_set(case: Case, spec: str) -> None:
    try:
        page = await case.listed(Selection(metadata_prefix=case.metadata_prefix, set_spec=spec))
    except NoRecordsMatchError:
        case.note("set", "empty", set=spec)
        return
    except ClientError as error:
        case.note("set", "failed", set=spec, text=short(error))
        return
    inside = all(_is_in(header, spec) for header in page.headers)
    case.note("set", "well" if inside else "other", set=spec)


async def _look_at_bound(case: Case, subject: str, selection: Selection, wanted: Header, bound: str) -> None:
    try:
        page = await case.listed(selection)
    except NoRecordsMatchError:
        case.note(subject, "exclusive")
        return
    except ClientError as error:
        case.note(subject, "failed", text=short(error))
        return
    dates = [found for header in page.headers if (found := _date(header.datestamp)) is not None]
    limit = parse_datestamp(bound)
    if subject == "from":
        heeded = all(date.last_second >= limit.moment for date in dates)
    else:
        heeded = all(date.moment <= limit.last_second for date in dates)
    if not heeded:
        case.note(subject, "ignored")
        return
    there = any(header.identifier == wanted.identifier for header in page.headers)
    # On a long page sequence it may come later; then nothing speaks against it.
    case.note(subject, "inclusive" if there or page.next_token else "exclusive")


def _latest(case: Case) -> Header | None:
    """The record of the latest date on the first page: most others are older than it."""
    headers = [header for header in (case.page.headers if case.page else ()) if _date(header.datestamp)]
    return max(headers, key=lambda header: header.datestamp, default=None)


def _granularity(case: Case) -> Granularity:
    told = case.identity.granularity if case.identity else ""
    return Granularity.SECOND if told == Granularity.SECOND else Granularity.DAY


def _date(text: str) -> Datestamp | None:
    try:
        return parse_datestamp(text)
    except ValueError:
        return None


def _is_in(header: Header, spec: str) -> bool:
    return any(found == spec or found.startswith(f"{spec}:") for found in header.set_specs)

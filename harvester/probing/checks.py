"""The checks of diagnostics: Identify, lists, error answers, selective harvesting."""

from collections.abc import Awaitable, Callable
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from operator import attrgetter, itemgetter

from harvester.client.selection import Selection
from harvester.probing.case import Case, error_in, short
from harvester.reading.answers import Header, Identity, Page, ResumptionToken
from harvester.reading.errors import ClientError, NoRecordsMatchError, NoSetHierarchyError
from harvester.reading.replies import answer_date
from harvester.reading.salvage import identifiers
from oai.datestamps import Datestamp, format_datestamp, in_utc, parse_datestamp, read_moment
from oai.vocabulary import PROTOCOL_VERSION, DeletedRecord, ErrorCode, Granularity, Verb

_CLOCK_SECONDS = 300
_GRANULARITIES: dict[str, str] = {Granularity.SECOND: "second", Granularity.DAY: "day"}
_UNITS = {Granularity.SECOND: timedelta(seconds=1), Granularity.DAY: timedelta(days=1)}
_LOCAL_TIME = timedelta(days=1)
"""Local times, and days of local time, are less than a day from those of UTC."""
_SMALL_PAGE = 50
_LARGE_PAGE = 5000
_SLOW_SECONDS = 5.0
_SHORT_MINUTES = 60
_NONSENSE = "zatva-no-such-thing"


async def look_at_identity(case: Case) -> None:
    """Request Identify. Raises ClientError if the address does not answer OAI-PMH."""
    identity = await case.client.identify(loose=True)
    case.identity = identity
    received = datetime.now(UTC)
    if identity.notes:
        case.note("identify", "odd", text=identity.notes[0])
    else:
        case.note("identify", "well", name=identity.repository_name or identity.base_url)
    right = identity.protocol_version == PROTOCOL_VERSION
    case.note("version", "well" if right else "other", version=identity.protocol_version)
    same = identity.base_url == case.client.base_url
    case.note("base url", "well" if same else "other", told=identity.base_url)
    emails = [email for email in identity.admin_emails if email]
    case.note("email", "well" if emails else "none", email=", ".join(emails))
    known = identity.deleted_record in set(DeletedRecord)
    case.note("deletions", identity.deleted_record if known else "unknown", told=identity.deleted_record)
    _look_at_transport(case)
    _look_at_time(case, identity.response_date, received)


async def look_at_formats(case: Case) -> None:
    """Request the formats, and choose the one to check."""
    try:
        case.formats = await case.client.list_metadata_formats(loose=True)
    except ClientError as error:
        case.note("formats", "failed", text=short(error))
        return
    prefixes = [found.metadata_prefix for found in case.formats]
    case.note("formats", "well" if "oai_dc" in prefixes else "no dc", count=len(prefixes))
    if "oai_dc" not in prefixes and prefixes:
        case.metadata_prefix = prefixes[0]


async def look_at_dates(case: Case) -> None:
    """Compare what Identify announces about datestamps with the datestamps in records."""
    _look_at_future(case)
    identity = case.identity
    if identity is None:
        return
    promised = _GRANULARITIES.get(identity.granularity)
    if promised is None:
        case.note("granularity", "unknown", told=identity.granularity or "nothing")
        return
    headers = case.page.headers if case.page else ()
    stamps = ["" if header.undated else header.datestamp for header in headers]
    wrong = [stamp for stamp in stamps if not _fits(stamp, identity.granularity)]
    if wrong:
        case.note(
            "granularity", "untrue",
            promised=identity.granularity, count=len(wrong), of=len(headers), such=wrong[0] or "''",
        )  # fmt: skip
    else:
        case.note("granularity", promised)
    older = [stamp for stamp in stamps if stamp and stamp[:10] < identity.earliest_datestamp[:10]]
    if not _fits(identity.earliest_datestamp, identity.granularity):
        case.note("earliest", "wrong", date=identity.earliest_datestamp)
    elif older:
        case.note("earliest", "later", date=identity.earliest_datestamp, older=min(older))
    else:
        case.note("earliest", "well", date=identity.earliest_datestamp)


def _look_at_future(case: Case) -> None:
    dates = [found for header in (case.page.headers if case.page else ()) if (found := _date(header))]
    late = [found for found in dates if _is_future(case, found)]
    if late:
        answered = format_datestamp(_time_of_page(case))
        case.note("datestamps", "future", date=str(max(late, key=attrgetter("moment"))), answered=answered)
    elif dates:
        case.note("datestamps", "well")


def _look_at_transport(case: Case) -> None:
    reply = case.last_reply()
    if reply.hops:
        case.note("redirects", "some", target=reply.hops[-1].partition("?")[0])
    else:
        case.note("redirects", "none")
    kind = reply.headers.get("Content-Type", "")
    case.note(
        "content type", "well" if kind.lower().startswith("text/xml") else "other", type=kind or "nothing"
    )


def _look_at_time(case: Case, declared: str, received: datetime) -> None:
    try:
        moment = in_utc(read_moment(declared))
    except ValueError:
        case.note("response date", "unreadable", told=declared or "nothing")
        return
    case.note("response date", "well" if _fits(declared, Granularity.SECOND) else "wrong", told=declared)
    if len(declared.strip()) <= len(Granularity.DAY):
        return  # A day alone does not show the time of the clock.
    ahead = round((moment - received).total_seconds())
    if abs(ahead) <= _CLOCK_SECONDS:
        case.note("clock", "well")
    else:
        case.note("clock", "ahead" if ahead > 0 else "behind", seconds=abs(ahead))


def _fits(datestamp: str, granularity: str) -> bool:
    try:
        return parse_datestamp(datestamp).granularity == granularity
    except ValueError:
        return False


async def look_at_records(case: Case) -> None:
    """Request the first page of records."""
    selection = Selection(metadata_prefix=case.metadata_prefix)
    try:
        page = await case.listed(selection, Verb.LIST_RECORDS)
    except NoRecordsMatchError:
        case.note("records", "none")
        return
    except ClientError as error:
        case.note("records", "failed", text=short(error))
        return
    case.page = page
    if page.faults:
        case.note("records", "faulty", count=len(page.faults), text=page.faults[0].reason)
    else:
        case.note("records", "well", count=len(page.records))
    _look_at_form(case, page)


def _look_at_form(case: Case, page: Page) -> None:
    exchange = case.watching.exchanges[-1]
    odd = [note for note in page.notes if "encod" in note.lower() or "UTF-8" in note or "character" in note]
    case.note("encoding", "wrong" if odd else "well", **({"text": odd[0]} if odd else {}))
    case.note("gzip", "well" if exchange.reply.compression else "none")
    slow = exchange.seconds > _SLOW_SECONDS
    case.note("speed", "slow" if slow else "well", seconds=float(f"{exchange.seconds:.2g}"))
    count = len(page.headers) + len(page.faults)
    if page.next_token:
        case.note("page size", "small" if count < _SMALL_PAGE else "well", count=count)
        declared = page.complete_list_size is not None
        case.note("size told", "told" if declared else "untold", size=page.complete_list_size)
    else:
        case.note("page size", "all" if count > _LARGE_PAGE else "well", count=count)


async def look_at_tokens(case: Case) -> None:
    """Request the second page, twice with the same token."""
    page = case.page
    if page is None:
        return
    if page.token is None or not page.next_token:
        case.note("token", "one page")
        return
    _look_at_expiry(case, page.token)
    try:
        second = await case.continued(page.next_token)
    except ClientError as error:
        case.note("token", "failed", text=short(error))
        return
    first_ids = {header.identifier for header in page.headers}
    repeats = any(header.identifier in first_ids for header in second.headers)
    case.note("token", "repeats" if repeats else "well")
    try:
        again = await case.continued(page.next_token)
    except ClientError:
        case.note("token again", "refused")
        return
    same = [header.identifier for header in again.headers] == [header.identifier for header in second.headers]
    case.note("token again", "same" if same else "other")


async def look_at_identifiers(case: Case) -> None:
    """Request the same records with ListIdentifiers, and one of them with GetRecord."""
    page = case.page
    if page is None or not page.headers:
        return
    try:
        listed = await case.listed(Selection(metadata_prefix=case.metadata_prefix))
    except ClientError as error:
        case.note("identifiers", "failed", text=short(error))
    else:
        _compare_lists(case, listed, page)
    wanted = next((header for header in page.headers if not header.deleted), page.headers[0])
    try:
        record = await case.client.get_record(wanted.identifier, case.metadata_prefix, loose=True)
    except ClientError as error:
        case.note("get record", "failed", text=short(error))
    else:
        case.note("get record", "well" if record.header.identifier == wanted.identifier else "other")


def _compare_lists(case: Case, listed: Page, page: Page) -> None:
    """Compare the readable records of both lists; the pages of the lists may differ in size."""
    faults = (*listed.faults, *page.faults)
    unread = {next(identifiers(fault.raw), "") for fault in faults}
    both = [
        [header.identifier for header in one.headers if header.identifier not in unread]
        for one in (listed, page)
    ]
    if all(one == other for one, other in zip(*both, strict=False)):
        case.note("identifiers", "same")
    elif "" not in unread:  # otherwise the records that only one list has may be the unreadable ones
        case.note("identifiers", "other")


def _look_at_expiry(case: Case, token: ResumptionToken) -> None:
    if token.expiration_date is None:
        case.note("token expiry", "untold")
        return
    try:
        minutes = (parse_datestamp(token.expiration_date).last_second - case.now).total_seconds() / 60
    except ValueError:
        case.note("token expiry", "untold")
        return
    short_lived = minutes < _SHORT_MINUTES
    case.note(
        "token expiry", "short" if short_lived else "told", date=token.expiration_date, minutes=round(minutes)
    )


async def look_at_refusals(case: Case) -> None:
    """Send five invalid requests, each of which must be answered with a specific error."""
    prefix = ("metadataPrefix", case.metadata_prefix)
    records, get = ("verb", Verb.LIST_RECORDS.value), ("verb", Verb.GET_RECORD.value)
    requests = (
        ("bad verb", Verb.LIST_RECORDS, ErrorCode.BAD_VERB, [("verb", _NONSENSE)]),
        ("bad argument", Verb.LIST_RECORDS, ErrorCode.BAD_ARGUMENT, [records]),
        (
            "bad token", Verb.LIST_RECORDS, ErrorCode.BAD_RESUMPTION_TOKEN,
            [records, ("resumptionToken", _NONSENSE)],
        ),
        (
            "bad format", Verb.LIST_RECORDS, ErrorCode.CANNOT_DISSEMINATE_FORMAT,
            [records, ("metadataPrefix", _NONSENSE)],
        ),
        (
            "bad identifier", Verb.GET_RECORD, ErrorCode.ID_DOES_NOT_EXIST,
            [get, ("identifier", f"oai:{_NONSENSE}:1"), prefix],
        ),
    )  # fmt: skip
    for subject, verb, code, arguments in requests:
        try:
            found = error_in(await case.ask(*arguments), verb)
        except ClientError as error:
            found = short(error)
        case.note(subject, "well" if found == code else "other", code=code.value, text=found)


async def look_at_post(case: Case, identify_by_post: Callable[[], Awaitable[Identity]]) -> None:
    """Request Identify by POST."""
    try:
        await identify_by_post()
    except ClientError as error:
        case.note("post", "failed", text=short(error))
    else:
        case.note("post", "well")


async def look_at_bounds(case: Case) -> None:
    """Request records from, and until, a day or second in which a record was changed."""
    wanted = _latest(case)
    if wanted is None:
        return
    moment, granularity = parse_datestamp(wanted.datestamp).moment, _granularity(case)
    try:
        before, bound, after = (
            format_datestamp(moment + count * _UNITS[granularity], granularity) for count in (-1, 0, 1)
        )
    except OverflowError:
        return
    since = Selection(metadata_prefix=case.metadata_prefix, from_=before)
    found = await _look_at_bound(case, "from", wanted, replace(since, from_=bound), since)
    # A record that is not listed within `from` shows nothing about `until`.
    if found != "shifted":
        await _look_at_bound(case, "until", wanted, replace(since, until=bound), replace(since, until=after))


async def look_before_earliest(case: Case) -> None:
    """Request records from before the earliest datestamp."""
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
        case.note("before earliest", "listed", count=len(page.headers))


async def look_at_sets(case: Case) -> None:
    """Request the first page of sets, and the records of the first set."""
    try:
        page = await anext(case.client.list_sets(loose=True).pages())
    except NoSetHierarchyError:
        case.note("sets", "none")
        return
    except ClientError as error:
        case.note("sets", "failed", text=short(error))
        return
    if not page.sets:
        declared = b"noSetHierarchy" in case.last_reply().body
        case.note("sets", "none" if declared else "empty")
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
    inside = all(header.is_in(spec) for header in page.headers)
    case.note("set", "well" if inside else "other", set=spec)


async def _look_at_bound(case: Case, subject: str, wanted: Header, exact: Selection, wider: Selection) -> str:
    """Request the record with its datestamp as the bound; if it is not listed, with the wider bound."""
    found, text = await _listed_within(case, subject, exact, wanted)
    values = {"text": text} if text else {}
    if found == "offset":
        found = await _is_offset(case, subject, exact, wanted)
        values = {"request": "=".join((subject, dict(exact.arguments())[subject]))}
    if found == "exclusive":
        again, _ = await _listed_within(case, subject, wider, wanted)
        # A local day may be a day later than that of UTC, which looks like an excluded bound.
        certain = "exclusive" if _granularity(case) is Granularity.SECOND else "unclear"
        found = {"inclusive": certain, "exclusive": "shifted"}.get(again, "unclear")
        bounds = [dict(selection.arguments())[subject] for selection in (exact, wider)]
        values = {"request": f"{subject}={bounds[0]}", "further": f"{subject}={bounds[1]}"}
    case.note(subject, found, **values)
    return found


async def _listed_within(case: Case, subject: str, selection: Selection, wanted: Header) -> tuple[str, str]:
    """Return whether the list has the record, and the error if there is one.

    `ignored` or `offset` if it has dates outside the bound, by more than a day or less.
    """
    try:
        page = await case.listed(selection)
    except NoRecordsMatchError:
        return "exclusive", ""
    except ClientError as error:
        return "failed", short(error)
    dates = [found for header in page.headers if (found := _date(header)) is not None]
    beyond = max((_beyond(subject, selection, date) for date in dates), default=timedelta(0))
    if beyond > timedelta(0):
        return ("ignored" if beyond > _LOCAL_TIME else "offset"), ""
    there = any(header.identifier == wanted.identifier for header in page.headers)
    # The record may appear on a later page of a long list; then nothing shows that the bound is exclusive.
    return ("inclusive" if there or page.next_token else "exclusive"), ""


def _beyond(subject: str, selection: Selection, date: Datestamp) -> timedelta:
    """Return by how much the date is outside the bound; zero or less if it is within."""
    if subject == "from":
        return parse_datestamp(selection.from_ or "").moment - date.last_second
    return date.moment - parse_datestamp(selection.until or "").last_second


async def _is_offset(case: Case, subject: str, selection: Selection, wanted: Header) -> str:
    """Return `offset` if a bound a day further in also lists only dates less than a day outside it.

    A repository that ignores the bound lists the same records as before, which are now a day further outside.
    One that refuses the bound, because it is in the future, does not ignore it.
    """
    date = parse_datestamp(dict(selection.arguments())[subject])
    step = _LOCAL_TIME if subject == "from" else -_LOCAL_TIME
    bound = format_datestamp(date.moment + step, date.granularity)
    further = replace(selection, from_=bound) if subject == "from" else replace(selection, until=bound)
    again, _ = await _listed_within(case, subject, further, wanted)
    return "ignored" if again == "ignored" else "offset"


def _latest(case: Case) -> Header | None:
    """Return the record with the latest datestamp on the first page, because most others are older.

    Records dated in the future are left out: their datestamps show nothing about bounds.
    """
    dated = [
        (found.moment, header)
        for header in (case.page.headers if case.page else ())
        if (found := _date(header)) and not _is_future(case, found)
    ]
    return max(dated, key=itemgetter(0), default=(None, None))[1]


def _time_of_page(case: Case) -> datetime:
    """Return when the first page of records was answered, by the later of the server's clock and ours."""
    answered = answer_date(case.page.response_date if case.page else "", case.now)
    return max(parse_datestamp(answered).moment, case.now)


def _is_future(case: Case, date: Datestamp) -> bool:
    return (date.moment - _time_of_page(case)).total_seconds() > _CLOCK_SECONDS


def _granularity(case: Case) -> Granularity:
    declared = case.identity.granularity if case.identity else ""
    return Granularity.SECOND if declared == Granularity.SECOND else Granularity.DAY


def _date(header: Header) -> Datestamp | None:
    try:
        return None if header.undated else parse_datestamp(header.datestamp)
    except ValueError:
        return None

"""Looks at the first pages of records: form, size, speed, tokens, and whether the other verbs agree."""

from harvester.client.selection import Selection
from harvester.doctor.case import Case, short
from harvester.reading.answers import Page, ResumptionToken
from harvester.reading.errors import ClientError, NoRecordsMatchError
from oai.datestamps import parse_datestamp
from oai.vocabulary import Verb

_SMALL_PAGE = 50
_LARGE_PAGE = 5000
_SLOW_SECONDS = 5.0
_SHORT_MINUTES = 60


async def look_at_records(case: Case) -> None:
    """Ask for the first page of records."""
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
    case.note("speed", "slow" if slow else "well", seconds=round(exchange.seconds, 2))
    count = len(page.headers)
    if page.next_token:
        case.note("page size", "small" if count < _SMALL_PAGE else "well", count=count)
        told = page.complete_list_size is not None
        case.note("size told", "told" if told else "untold", size=page.complete_list_size)
    else:
        case.note("page size", "all" if count > _LARGE_PAGE else "well", count=count)


async def look_at_tokens(case: Case) -> None:
    """Go on to the second page, twice by the same token."""
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
    """Ask for the same records by ListIdentifiers, and for one of them by GetRecord."""
    page = case.page
    if page is None or not page.headers:
        return
    try:
        listed = await case.listed(Selection(metadata_prefix=case.metadata_prefix))
    except ClientError as error:
        case.note("identifiers", "failed", text=short(error))
    else:
        # Both lists may have pages of another size.
        pairs = zip(listed.headers, page.headers, strict=False)
        same = all(one.identifier == other.identifier for one, other in pairs)
        case.note("identifiers", "same" if same else "other")
    wanted = next((header for header in page.headers if not header.deleted), page.headers[0])
    try:
        record = await case.client.get_record(wanted.identifier, case.metadata_prefix, loose=True)
    except ClientError as error:
        case.note("get record", "failed", text=short(error))
    else:
        case.note("get record", "well" if record.header.identifier == wanted.identifier else "other")


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

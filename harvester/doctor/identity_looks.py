"""Looks at what Identify and ListMetadataFormats say, and at how the server answers."""

from datetime import UTC, datetime

from harvester.doctor.case import Case, short
from harvester.reading.errors import ClientError
from oai.datestamps import parse_datestamp
from oai.vocabulary import PROTOCOL_VERSION, DeletedRecord, Granularity

_CLOCK_SECONDS = 300
_GRANULARITIES = {Granularity.SECOND: "second", Granularity.DAY: "day"}


async def look_at_identity(case: Case) -> None:
    """Ask for Identify. Raises ClientError where there is no OAI-PMH at all."""
    identity = await case.client.identify(loose=True)
    case.identity = identity
    heard = datetime.now(UTC)
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
    _look_at_time(case, identity.response_date, heard)


async def look_at_formats(case: Case) -> None:
    """Ask for the formats, and choose the one to look at."""
    try:
        case.formats = await case.client.list_metadata_formats()
    except ClientError as error:
        case.note("formats", "failed", text=short(error))
        return
    prefixes = [found.metadata_prefix for found in case.formats]
    case.note("formats", "well" if "oai_dc" in prefixes else "no dc", count=len(prefixes))
    if "oai_dc" not in prefixes and prefixes:
        case.metadata_prefix = prefixes[0]


def look_at_dates(case: Case) -> None:
    """Compare what Identify promises of datestamps with those that came."""
    identity = case.identity
    if identity is None:
        return
    promised = (
        _GRANULARITIES.get(Granularity(identity.granularity))
        if _is_granularity(identity.granularity)
        else None
    )
    if promised is None:
        case.note("granularity", "unknown", told=identity.granularity or "nothing")
        return
    headers = case.page.headers if case.page else ()
    wrong = [header.datestamp for header in headers if not _fits(header.datestamp, identity.granularity)]
    if wrong:
        case.note(
            "granularity", "untrue",
            promised=identity.granularity, count=len(wrong), of=len(headers), such=wrong[0],
        )  # fmt: skip
    else:
        case.note("granularity", promised)
    older = [
        header.datestamp for header in headers if header.datestamp[:10] < identity.earliest_datestamp[:10]
    ]
    if not _fits(identity.earliest_datestamp, identity.granularity):
        case.note("earliest", "wrong", date=identity.earliest_datestamp)
    elif older:
        case.note("earliest", "later", date=identity.earliest_datestamp, older=min(older))
    else:
        case.note("earliest", "well", date=identity.earliest_datestamp)


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


def _look_at_time(case: Case, told: str, heard: datetime) -> None:
    try:
        moment = parse_datestamp(told)
    except ValueError:
        case.note("response date", "wrong", told=told or "nothing")
        return
    case.note("response date", "well" if moment.granularity is Granularity.SECOND else "wrong", told=told)
    if moment.granularity is not Granularity.SECOND:
        return
    ahead = round((moment.moment - heard).total_seconds())
    if abs(ahead) <= _CLOCK_SECONDS:
        case.note("clock", "well")
    else:
        case.note("clock", "ahead" if ahead > 0 else "behind", seconds=abs(ahead))


def _is_granularity(text: str) -> bool:
    return text in set(Granularity)


def _fits(datestamp: str, granularity: str) -> bool:
    try:
        return parse_datestamp(datestamp).granularity == granularity
    except ValueError:
        return False

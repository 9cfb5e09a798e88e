"""A run's requests, read from the WARC file in which its answers were kept."""

from dataclasses import dataclass
from datetime import datetime
from pathlib import Path

from warcio.archiveiterator import ArchiveIterator

from harvester.running.raw_capture import FETCH_ERROR
from oai.datestamps import parse_datestamp


@dataclass(frozen=True, kw_only=True)
class KeptRequest:
    """One exchange: when it was written down, the address, and what came."""

    at: datetime | None
    url: str
    status: str
    """The HTTP status, or why there was no answer."""
    size: int
    """Bytes of the body as it came, compressed or not."""


def requests_of(file: Path, *, limit: int) -> list[KeptRequest]:
    """The first requests in their order. Raises OSError where the file cannot be read."""
    found: list[KeptRequest] = []
    with file.open("rb") as opened:
        for record in ArchiveIterator(opened):
            kept = _kept(record)
            if kept is not None:
                found.append(kept)
            if len(found) == limit:
                break
    return found


def _kept(record: object) -> KeptRequest | None:
    kind, headers = getattr(record, "rec_type"), getattr(record, "rec_headers")  # noqa: B009 warcio publishes no types
    body: bytes = getattr(record, "raw_stream").read()  # noqa: B009 as above
    if kind == "response":
        http = getattr(record, "http_headers")  # noqa: B009 as above
        status, size = http.get_statuscode(), len(body)
    elif kind == "metadata" and body.startswith(FETCH_ERROR.encode()):
        status, size = body.decode(errors="replace").partition(": ")[2].strip(), 0
    else:
        return None
    return KeptRequest(
        at=_moment(headers.get_header("WARC-Date") or ""),
        url=headers.get_header("WARC-Target-URI") or "",
        status=status,
        size=size,
    )


def _moment(text: str) -> datetime | None:
    try:
        return parse_datestamp(text[:19] + "Z").moment
    except ValueError:
        return None

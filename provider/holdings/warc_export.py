"""Archived captures as a WARC file, whatever kind of file each of them is in.

Each capture becomes a `response` record (`resource`, if it has no HTTP header) of WARC 1.1 with its bytes as
archived. A revisit gets the bytes of the capture to which it refers, so that the file is complete by itself.
Access rules apply as for every reader; captures that are left out are listed in the last record.
"""

import gzip
import io
from collections.abc import Iterator
from dataclasses import replace
from datetime import UTC, datetime
from typing import Final
from uuid import UUID, uuid4

from oai.database import Database
from oai.datestamps import utc_now
from oai.proxies import Address
from oai.sections import ProviderSettings
from provider.holdings.documents import NotServedError, OpenDocument, damaged, open_document, unreadable
from provider.holdings.lookup import Query, find_captures
from provider.reading.archived_record import DigestError
from provider.reading.content import DamageError

MOST_CAPTURES: Final = 10_000
MOST_BYTES: Final = 4 * 1024**3
"""Bytes of archived content in one file."""
_AT_ONCE: Final = 200
_BLOCK: Final = 1024**2


def export_warc(
    database: Database, settings: ProviderSettings, query: Query, reader: Address | None
) -> Iterator[bytes]:
    """Yield a gzipped WARC file with the captures that the query finds, record by record.

    Raises UsageError at the first step for a query that is invalid. Reads files: call it in a thread.
    """
    left_out: list[str] = []
    written = count = 0
    for number, capture in enumerate(_captures(database, query)):
        if number == 0:
            yield from _packed(
                _header("warcinfo", _info(query), kind="application/warc-fields"), [_info(query)]
            )
        if written >= MOST_BYTES or number >= MOST_CAPTURES:
            left_out.append(f"from {capture[1]} on: the file has reached its largest size")
            break
        try:
            opened = open_document(database, settings, capture[0], reader)
        except NotServedError as refusal:
            left_out.append(f"{capture[1]} {capture[2]:%Y-%m-%dT%H:%M:%SZ}: {refusal}")
            continue
        try:
            _verify(opened)
            written += opened.record.block_length
            count += 1
            yield from _packed(_response(opened), opened.record.block())
        except NotServedError as fault:
            left_out.append(f"{capture[1]} {capture[2]:%Y-%m-%dT%H:%M:%SZ}: {fault}")
        finally:
            opened.record.close()
    if left_out:
        text = "\r\n".join(("left out:", *left_out)).encode()
        yield from _packed(_header("metadata", text, kind="text/plain; charset=utf-8"), [text])


def _captures(database: Database, query: Query) -> Iterator[tuple[UUID, str, datetime]]:
    begin = query.begin
    while True:
        with database.session() as session:
            result = find_captures(session, replace(query, limit=_AT_ONCE, begin=begin))
        yield from ((one.key, one.url, one.archived.astimezone(UTC)) for one in result.found)
        if result.end is None:
            return
        begin = result.end


def _verify(opened: OpenDocument) -> None:
    """Read a document that was not checked when it was opened. Raises NotServedError if it is damaged."""
    if opened.checked:
        return
    try:
        for _block in opened.record.blocks(opened.holder.digest):
            pass
    except (DamageError, DigestError) as fault:
        raise damaged(opened.holder, fault) from None
    except OSError as error:
        raise unreadable(opened.holder, error) from None


def _info(query: Query) -> bytes:
    lines = (
        "software: Zatva",
        "format: WARC File Format 1.1",
        f"description: captures of {query.url} ({query.match})",
    )
    return ("\r\n".join(lines) + "\r\n").encode()


def _response(opened: OpenDocument) -> bytes:
    asked, record = opened.asked, opened.record
    fields = {
        "WARC-Type": "response" if record.has_http_header else "resource",
        "WARC-Record-ID": f"<urn:uuid:{asked.key}>",
        "WARC-Date": _date(asked.archived),
        "WARC-Target-URI": asked.url,
    }
    if opened.holder.digest and opened.holder.digest.startswith("sha1:"):
        fields["WARC-Payload-Digest"] = opened.holder.digest
    kind = "application/http; msgtype=response"
    if not record.has_http_header:
        kind = record.description.content_type or "application/octet-stream"
    return _head({**fields, "Content-Type": kind, "Content-Length": str(record.block_length)})


def _header(record_type: str, content: bytes, *, kind: str) -> bytes:
    return _head(
        {
            "WARC-Type": record_type,
            "WARC-Record-ID": f"<urn:uuid:{uuid4()}>",
            "WARC-Date": _date(utc_now()),
            "Content-Type": kind,
            "Content-Length": str(len(content)),
        }
    )


def _head(fields: dict[str, str]) -> bytes:
    lines = "".join(f"{name}: {' '.join(value.splitlines())}\r\n" for name, value in fields.items())
    return f"WARC/1.1\r\n{lines}\r\n".encode()


def _date(moment: datetime) -> str:
    return (
        moment.astimezone(UTC)
        .isoformat(timespec="microseconds" if moment.microsecond else "seconds")
        .replace("+00:00", "Z")
    )


def _packed(head: bytes, blocks: Iterator[bytes] | list[bytes]) -> Iterator[bytes]:
    """Yield a record as a gzip member."""
    out = io.BytesIO()
    with gzip.GzipFile(fileobj=out, mode="wb", compresslevel=6, mtime=0) as member:
        member.write(head)
        for block in blocks:
            member.write(block)
            if out.tell() >= _BLOCK:
                yield out.getvalue()
                out.seek(0)
                out.truncate()
        member.write(b"\r\n\r\n")
    yield out.getvalue()

"""Captures of a look-up as a WARC file, for the dashboard: within limits, and written while it is sent.

Access rules apply as for an anonymous reader; captures that are left out are listed in the last record.
"""

from collections.abc import Iterator, Sequence
from dataclasses import replace
from datetime import UTC, datetime
from typing import Final
from uuid import UUID

from oai.database import Database
from oai.sections import ProviderSettings
from provider.export.captures import checked_digest
from provider.export.warc_records import capture_header, compressed, information, other_header
from provider.holdings.documents import NotServedError, open_document
from provider.holdings.lookup import Query, find_captures

MOST_CAPTURES: Final = 10_000
MOST_BYTES: Final = 4 * 1024**3
"""Bytes of archived content in one file."""
_AT_ONCE: Final = 200
_FULL: Final = "the file has reached its largest size; `zatva provider export` has no limit"


def export_warc(database: Database, settings: ProviderSettings, query: Query) -> Iterator[bytes]:
    """Yield a gzipped WARC file with the captures that the query finds and everybody may read.

    Raises UsageError at the first step for a query that is invalid. Reads files: call it in a thread.
    """
    left_out: list[str] = []
    written = 0
    for number, capture in enumerate(_captures(database, query)):
        if number == 0:
            yield from information(f"captures of {query.url} ({query.match})")
        if written >= MOST_BYTES or number >= MOST_CAPTURES:
            left_out.append(f"from {capture[1]} on: {_FULL}")
            break
        try:
            opened = open_document(database.read, settings, capture[0], None)
        except NotServedError as refusal:
            left_out.append(f"{capture[1]} {capture[2]:%Y-%m-%dT%H:%M:%SZ}: {refusal}")
            continue
        try:
            digest = checked_digest(opened)
            written += opened.record.block_length
            yield from compressed(capture_header(opened, digest), opened.record.block())
        except NotServedError as fault:
            left_out.append(f"{capture[1]} {capture[2]:%Y-%m-%dT%H:%M:%SZ}: {fault}")
        finally:
            opened.record.close()
    if left_out:
        yield from _listed(left_out)


def _listed(left_out: Sequence[str]) -> Iterator[bytes]:
    text = "\r\n".join(("left out:", *left_out)).encode()
    return compressed(other_header("metadata", len(text), kind="text/plain; charset=utf-8"), [text])


def _captures(database: Database, query: Query) -> Iterator[tuple[UUID, str, datetime]]:
    begin = query.begin
    while True:
        with database.session() as session:
            result = find_captures(session, replace(query, limit=_AT_ONCE, begin=begin))
        yield from ((one.key, one.url, one.archived.astimezone(UTC)) for one in result.found)
        if result.end is None:
            return
        begin = result.end

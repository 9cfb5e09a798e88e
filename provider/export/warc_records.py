"""WARC 1.1 records of an export, each compressed as a gzip member of its own.

A capture becomes a `response` record (`resource`, if it has no HTTP header) with its bytes as archived. A
revisit gets the bytes of the capture to which it refers, so that a file is complete by itself. Source:
ISO 28500:2017, sections 5 and 6; annex D recommends one gzip member per record.
"""

import io
import re
import tempfile
import zlib
from collections.abc import Iterable, Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import IO, Final
from uuid import uuid4

from oai.datestamps import utc_now
from oai.output_files import named
from provider.holdings.documents import OpenDocument

_BLOCK: Final = 1024**2
_IN_MEMORY: Final = 4 * 1024**2
"""A compressed record up to this many bytes is held in memory, a longer one in a temporary file."""
_GZIP: Final = 16 + zlib.MAX_WBITS
_BREAKS: Final = re.compile(r"[\r\n]+")
"""Not those of `str.splitlines`, which URLs may contain."""


def capture_header(opened: OpenDocument, digest: str | None) -> bytes:
    """Return the record's header of a capture; `digest` is that of its payload."""
    asked, record, description = opened.asked, opened.record, opened.record.description
    fields = {
        "WARC-Type": "response" if record.head else "resource",
        "WARC-Record-ID": f"<urn:uuid:{asked.key}>",
        "WARC-Date": warc_date(asked.archived),
        "WARC-Target-URI": asked.url,
    }
    if digest and ":" in digest:  # CDX files may omit the algorithm
        fields["WARC-Payload-Digest"] = digest
    archived = {
        "WARC-IP-Address": description.ip_address,
        "WARC-Truncated": description.truncated,
        "Content-Type": "application/http; msgtype=response" if record.head else description.content_type,
    }
    fields |= {name: value for name, value in archived.items() if value}
    return _header({**fields, "Content-Length": str(record.block_length)})


def other_header(record_type: str, length: int, *, kind: str, target: str = "") -> bytes:
    """Return the header of a record that describes others: its content has that length and type."""
    return _header(
        {
            "WARC-Type": record_type,
            "WARC-Record-ID": f"<urn:uuid:{uuid4()}>",
            "WARC-Date": warc_date(utc_now()),
            **({"WARC-Target-URI": target} if target else {}),
            "Content-Type": kind,
            "Content-Length": str(length),
        }
    )


def information(description: str) -> Iterator[bytes]:
    """Yield the compressed `warcinfo` record with which a file begins."""
    lines = ("software: Zatva", "format: WARC File Format 1.1", f"description: {description}")
    text = "".join(f"{_BREAKS.sub(' ', line)}\r\n" for line in lines).encode()
    return compressed(other_header("warcinfo", len(text), kind="application/warc-fields"), [text])


def warc_date(moment: datetime) -> str:
    """Return the time as WARC writes it, with the fractions of a second that it has."""
    return (
        moment.astimezone(UTC)
        .isoformat(timespec="microseconds" if moment.microsecond else "seconds")
        .replace("+00:00", "Z")
    )


def compressed(header: bytes, blocks: Iterable[bytes]) -> Iterator[bytes]:
    """Yield a record as a gzip member, in pieces of about 1 MB."""
    packing = zlib.compressobj(6, zlib.DEFLATED, _GZIP)
    out = io.BytesIO()
    out.write(packing.compress(header))
    for block in blocks:
        out.write(packing.compress(block))
        if out.tell() >= _BLOCK:
            yield out.getvalue()
            out.seek(0)
            out.truncate()
    out.write(packing.compress(b"\r\n\r\n") + packing.flush())
    yield out.getvalue()


def spooled(pieces: Iterable[bytes], folder: Path | None) -> tuple[IO[bytes], int]:
    """Return an open file with all pieces, at its beginning, and its length; the caller closes it.

    Raises what the pieces raise. Long files are in the folder; None means the system's temporary folder.
    """
    file = tempfile.SpooledTemporaryFile(_IN_MEMORY, dir=None if folder is None else str(folder))  # noqa: SIM115 the caller closes it
    try:
        length = 0
        for piece in pieces:
            with named(folder or tempfile.gettempdir()):
                length += file.write(piece)
        file.seek(0)
    except BaseException:
        file.close()
        raise
    return file, length


def _header(fields: dict[str, str]) -> bytes:
    lines = "".join(f"{name}: {_BREAKS.sub(' ', value)}\r\n" for name, value in fields.items())
    return f"WARC/1.1\r\n{lines}\r\n".encode()

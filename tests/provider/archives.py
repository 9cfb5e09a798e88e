"""Writes ARC and WARC files for tests, plain or compressed by their name; tests add damage themselves.

    write_archive(tmp_path / "a.warc.gz", [warc_info(), warc_record(Page(url="http://a.example/"))])

Records are bytes, so that tests can cut, damage or join them; `offsets` returns where each begins.
"""

import base64
import gzip
import hashlib
import uuid
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Any

from oai.compression import ZSTD
from provider.holdings.identifiers import capture_digest


def capture_key(url: str, archived: datetime) -> uuid.UUID:
    """The key of the document that indexing makes of a capture."""
    return uuid.UUID(bytes=capture_digest(url, archived))


@dataclass(frozen=True, kw_only=True)
class Page:
    """One capture to be written."""

    url: str
    date: str = "2007-11-02T03:04:05Z"
    """As WARC writes it; ARC records get its digits."""
    body: bytes = b"<html><title>A page</title></html>"
    mime_type: str | None = "text/html"
    status: int = 200
    record_type: str = "response"
    digest: bool = True
    """Whether the WARC record says its payload's digest."""

    http_headers: str = ""
    """Further lines of the HTTP header, each with its line break."""

    @property
    def http(self) -> bytes:
        """The HTTP message."""
        kind = f"Content-Type: {self.mime_type}\r\n" if self.mime_type else ""
        head = f"HTTP/1.1 {self.status} Anything\r\nServer: test\r\n{kind}{self.http_headers}\r\n"
        return head.encode() + self.body

    @property
    def payload_digest(self) -> str:
        """`sha1:` and base32 of the body."""
        return "sha1:" + base64.b32encode(hashlib.sha1(self.body).digest()).decode()  # noqa: S324 what WARC uses


def warc_record(page: Page, *, length: int | None = None) -> bytes:
    """A WARC record; `length` is announced instead of the true one."""
    block = page.body if page.record_type == "resource" else page.http
    kind = page.mime_type if page.record_type == "resource" else "application/http; msgtype=response"
    digest = f"WARC-Payload-Digest: {page.payload_digest}\r\n" if page.digest else ""
    head = (
        f"WARC/1.0\r\nWARC-Type: {page.record_type}\r\nWARC-Target-URI: {page.url}\r\n"
        f"WARC-Date: {page.date}\r\nWARC-Record-ID: <urn:uuid:00000000-0000-0000-0000-000000000000>\r\n"
        f"{digest}Content-Type: {kind}\r\nContent-Length: {len(block) if length is None else length}\r\n\r\n"
    )
    return head.encode() + block + b"\r\n\r\n"


def warc_other(record_type: str, target: str = "http://a.example/") -> bytes:
    """A WARC record of a type that is no document."""
    page = Page(url=target, record_type=record_type, body=b"x: y\r\n")
    return warc_record(page)


def request_record(url: str, method: str, number: int, fields: str = "") -> bytes:
    """A WARC record of a request, with this number in its identifier and further fields in its header."""
    block = f"{method} /x HTTP/1.1\r\nHost: a.example\r\n\r\n".encode()
    head = (
        f"WARC/1.0\r\nWARC-Type: request\r\nWARC-Target-URI: {url}\r\nWARC-Date: {Page(url=url).date}\r\n"
        f"WARC-Record-ID: <urn:uuid:00000000-0000-0000-0000-{number:012}>\r\n{fields}"
        f"Content-Type: application/http; msgtype=request\r\nContent-Length: {len(block)}\r\n\r\n"
    )
    return head.encode() + block + b"\r\n\r\n"


def arc_record(page: Page, *, length: int | str | None = None, date: str | None = None) -> bytes:
    """An ARC record; `length` and `date` are written instead of the true ones."""
    digits = date or "".join(filter(str.isdigit, page.date))
    announced = len(page.http) if length is None else length
    line = f"{page.url} 192.0.2.1 {digits} {page.mime_type or 'no-type'} {announced}\n"
    return line.encode() + page.http + b"\n"


def arc_info() -> bytes:
    """The record that an ARC file begins with."""
    text = b"1 0 Tester\nURL IP-address Archive-date Content-type Archive-length\n"
    return b"filedesc://test.arc 0.0.0.0 20071102030405 text/plain %d\n" % len(text) + text + b"\n"


def packed(path: Path, record: bytes) -> bytes:
    """A record as it is in the file: a gzip member or a zstd frame where the file's name says so."""
    if path.name.endswith(".zst"):
        return frame(record)
    return gzip.compress(record, mtime=0) if path.name.endswith(".gz") else record


def frame(content: bytes, dictionary: Any = None, **parameters: int) -> bytes:
    """A zstd frame with its content's size and a checksum; parameters as in PEP 784."""
    options = {ZSTD.CompressionParameter.checksum_flag: 1}
    options |= {ZSTD.CompressionParameter[name]: value for name, value in parameters.items()}
    compressed: bytes = ZSTD.compress(content, options=options, zstd_dict=dictionary)
    return compressed


def skippable(content: bytes, kind: int = 0x5E) -> bytes:
    """A zstd frame that readers pass over; one of kind 0x5D at the beginning of a file has a dictionary."""
    return bytes([kind]) + b"\x2a\x4d\x18" + len(content).to_bytes(4, "little") + content


def offsets(path: Path, records: Sequence[bytes]) -> list[int]:
    """Where each record begins in the file that `write_archive` makes of them, and where the file ends."""
    places = [0]
    for record in records:
        places.append(places[-1] + len(packed(path, record)))
    return places


def write_archive(path: Path, records: Sequence[bytes]) -> Path:
    """Write records to a file, each packed by itself where the name ends in `.gz`; gives the path."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(b"".join(packed(path, record) for record in records))
    return path


def write_pages(path: Path, pages: Sequence[Page]) -> Path:
    """Write a whole good file, ARC or WARC by its name."""
    if ".arc" in path.suffixes:
        return write_archive(path, [arc_info(), *map(arc_record, pages)])
    return write_archive(path, [warc_other("warcinfo"), *map(warc_record, pages)])

"""Writes gzipped WARC files for benchmarks: as a crawler writes them, or of tiny pages only.

Half of a crawl's documents are HTML of 1 to 20 kB, the others images, style sheets and PDF of 1 to 30 kB;
each is preceded by the record of its request, as Heritrix, wget and others write it. All are on 1,200 hosts.
"""

import base64
import gzip
import hashlib
import random
from collections.abc import Iterator
from enum import StrEnum
from pathlib import Path

_FILES = 8
_TLDS = ("cz", "sk", "eu")
_POOL = 1 << 20
_SMALLEST = 1000
# Of ten documents: type, maximum size in bytes, and whether it is text.
_KINDS = (
    *(("text/html", 20_000, True),) * 5,
    *(("image/jpeg", 20_000, False),) * 2,
    ("image/png", 10_000, False),
    ("text/css", 10_000, True),
    ("application/pdf", 30_000, False),
)


class Shape(StrEnum):
    """Contents of the files."""

    CRAWL = "as a crawler writes them"
    TINY_PAGES = "only tiny pages"


def write_warcs(folder: Path, documents: int, shape: Shape) -> Iterator[Path]:
    """Write `documents` documents to a few files, each record a gzip member; yield the files.

    Tiny pages have other URLs than the documents of a crawl: both are indexed into one database.
    """
    folder.mkdir()
    each = -(-documents // _FILES)
    content = _Content()
    for number in range(_FILES):
        path = folder / f"{shape.name.lower()}-{number:02}.warc.gz"
        with path.open("wb") as file:
            for index in range(number * each, min((number + 1) * each, documents)):
                if shape is Shape.CRAWL:
                    file.write(gzip.compress(_request(index), 1))
                    file.write(gzip.compress(_response(index, *content.of(index)), 1))
                else:
                    page = _response(documents + index, "text/html; charset=utf-8", _tiny(index))
                    file.write(gzip.compress(page, 1))
        yield path


class _Content:
    """Content that compresses about as well as real documents, and is the same in each run."""

    def __init__(self) -> None:
        self._chance = chance = random.Random(2007)
        words = ["".join(chance.choices("aeiouklmnprstv", k=chance.randint(2, 9))) for _ in range(3000)]
        self._text = " ".join(chance.choices(words, k=_POOL // 6)).encode()[:_POOL]
        self._noise = chance.randbytes(_POOL)

    def of(self, index: int) -> tuple[str, bytes]:
        """Return MIME type and bytes of a document."""
        mime_type, most, is_text = _KINDS[index % len(_KINDS)]
        size = self._chance.randint(_SMALLEST, most)
        begin = self._chance.randrange(_POOL - size)
        body = (self._text if is_text else self._noise)[begin : begin + size]
        if mime_type == "text/html":
            body = f"<!doctype html><html><head><title>Page {index}</title></head><body>".encode() + body
        return mime_type, body


def _tiny(index: int) -> bytes:
    return f"<!doctype html><title>Page {index}</title><p>{'word ' * (index % 90)}".encode()


def _response(index: int, mime_type: str, body: bytes) -> bytes:
    answer = (
        f"HTTP/1.1 200 OK\r\nContent-Type: {mime_type}\r\nContent-Length: {len(body)}\r\n\r\n".encode() + body
    )
    digest = base64.b32encode(hashlib.sha1(body, usedforsecurity=False).digest()).decode()
    return _record("response", index, answer, f"WARC-Payload-Digest: sha1:{digest}\r\n")


def _request(index: int) -> bytes:
    block = (
        f"GET {_path(index)} HTTP/1.1\r\nHost: {_host(index)}\r\nUser-Agent: crawler\r\nAccept: */*\r\n\r\n"
    )
    return _record("request", index, block.encode())


def _record(kind: str, index: int, block: bytes, more: str = "") -> bytes:
    day, second = divmod(index, 86400)
    moment = f"2024-01-{day + 1:02}T{second // 3600:02}:{second // 60 % 60:02}:{second % 60:02}Z"
    return (
        (
            f"WARC/1.0\r\nWARC-Type: {kind}\r\nWARC-Record-ID: <urn:uuid:{index:032x}>\r\n"
            f"WARC-Target-URI: http://{_host(index)}{_path(index)}\r\nWARC-Date: {moment}\r\n{more}"
            f"Content-Type: application/http; msgtype={kind}\r\nContent-Length: {len(block)}\r\n\r\n"
        ).encode()
        + block
        + b"\r\n\r\n"
    )


def _host(index: int) -> str:
    return f"www{index % 4 + 1}.site{index // 4 % 100 + 1}.{_TLDS[index // 400 % len(_TLDS)]}"


def _path(index: int) -> str:
    return f"/section/{index % 97}/page-{index}.html"

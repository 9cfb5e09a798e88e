"""Writes archive files for benchmarks: small HTML pages in gzipped WARC files."""

import gzip
from collections.abc import Iterator
from pathlib import Path

_FILES = 8


def write_warcs(folder: Path, documents: int) -> Iterator[Path]:
    """So many documents in a few files, each record a gzip member; gives the files."""
    folder.mkdir()
    each = -(-documents // _FILES)
    for number in range(_FILES):
        path = folder / f"bench-{number:02}.warc.gz"
        with path.open("wb") as file:
            for index in range(number * each, min((number + 1) * each, documents)):
                file.write(gzip.compress(_record(index), 1))
        yield path


def _record(index: int) -> bytes:
    body = f"<!doctype html><title>Page {index}</title><p>{'word ' * (index % 90)}".encode()
    answer = b"HTTP/1.1 200 OK\r\nContent-Type: text/html; charset=utf-8\r\n\r\n" + body
    day, second = divmod(index, 86400)
    moment = f"2024-01-{day + 1:02}T{second // 3600:02}:{second // 60 % 60:02}:{second % 60:02}Z"
    return (
        (
            f"WARC/1.0\r\nWARC-Type: response\r\nWARC-Record-ID: <urn:uuid:{index:032x}>\r\n"
            f"WARC-Target-URI: http://www{index % 40}.site{index % 999}.example/page/{index}.html\r\n"
            f"WARC-Date: {moment}\r\nWARC-Payload-Digest: sha1:{index:032X}\r\n"
            f"Content-Type: application/http; msgtype=response\r\nContent-Length: {len(answer)}\r\n\r\n"
        ).encode()
        + answer
        + b"\r\n\r\n"
    )

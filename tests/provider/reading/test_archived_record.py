"""The payload and the header of one archived record."""

import io

from provider.reading.archived_record import ArchivedRecord


def record(http: bytes, *, record_type: str = "response") -> ArchivedRecord:
    head = (
        f"WARC/1.0\r\nWARC-Type: {record_type}\r\nWARC-Target-URI: http://a.example/\r\n"
        "WARC-Date: 2020-01-01T00:00:00Z\r\nContent-Type: application/http; msgtype=response\r\n"
        f"Content-Length: {len(http)}\r\n\r\n"
    )
    return ArchivedRecord(io.BytesIO(head.encode() + http + b"\r\n\r\n"), 0)


def test_a_header_of_a_revisit_that_ends_in_many_blanks_is_read_in_linear_time() -> None:
    """Quadratic time would be minutes."""
    response = record(b"HTTP/1.1 200 OK\r\nContent-Type: text/html\r\n\r\nxx")
    header = b"HTTP/1.1 200 OK\r\nX-A: b\r\nContent-Length: 7\n folded\n \t folded\r\n" + b" " * 400_000
    response.answer_as(record(header, record_type="revisit"))
    assert response.head == b"HTTP/1.1 200 OK\r\nX-A: b\r\n\r\n"


def test_chunks_of_one_byte_are_joined_to_long_blocks() -> None:
    lines = b"1\r\nx\r\n" * 200_000 + b"0\r\n\r\n"
    chunked = record(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n" + lines)
    blocks = list(chunked.blocks(None))
    assert b"".join(blocks) == b"x" * 200_000
    assert len(blocks) <= 1 + len(lines) // 65_536

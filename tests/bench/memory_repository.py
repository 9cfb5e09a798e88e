"""A repository that answers ListRecords from memory.

`python -m tests.bench.memory_repository RECORDS [oai_dc|marc21 [no|transient|persistent]]`.

The responses are made before the first request, in pages of 500 records of about 1 kB each in `oai_dc` or 2
kB in `marc21`, and sent with as little work as possible, so that a benchmark measures the harvester.
"""

import asyncio
import contextlib
import re
import sys
from collections.abc import Awaitable, Callable
from urllib.parse import parse_qs, urlsplit

from tests.bench.marc_records import marc_record

PAGE = 500
_LENGTH = re.compile(rb"\ncontent-length: *([0-9]+)", re.IGNORECASE)
DATE = "2024-05-01T12:00:00Z"
_DC = (
    '<oai_dc:dc xmlns:oai_dc="http://www.openarchives.org/OAI/2.0/oai_dc/"'
    ' xmlns:dc="http://purl.org/dc/elements/1.1/">'
)


def head(date: str) -> str:
    """Return the beginning of a response of this date."""
    return (
        '<?xml version="1.0" encoding="UTF-8"?>\n<OAI-PMH xmlns="http://www.openarchives.org/OAI/2.0/">'
        f"<responseDate>{date}</responseDate><request>http://bench.example/oai</request>"
    )


HEAD = head(DATE)


def identify(policy: str = "persistent") -> str:
    """Return the Identify element with this deletedRecord policy."""
    return (
        "<Identify><repositoryName>Bench</repositoryName><baseURL>http://bench.example/oai</baseURL>"
        "<protocolVersion>2.0</protocolVersion><adminEmail>a@bench.example</adminEmail>"
        f"<earliestDatestamp>2020-01-01T00:00:00Z</earliestDatestamp><deletedRecord>{policy}</deletedRecord>"
        "<granularity>YYYY-MM-DDThh:mm:ssZ</granularity></Identify>"
    )


def dublin_core(number: int, words: str, times: int) -> str:
    """Return Dublin Core with these words as title, and repeated as description."""
    return (
        f"{_DC}<dc:title>{words}</dc:title><dc:creator>Somebody, {number}</dc:creator>"
        f"<dc:description>{words * times}</dc:description><dc:date>2024</dc:date>"
        f"<dc:identifier>http://bench.example/record/{number}</dc:identifier></oai_dc:dc>"
    )


def record(number: int) -> str:
    """Return a Dublin Core record."""
    return _record(number, dublin_core(number, f"Record number {number} of a benchmark ", 14))


def _marc_record(number: int) -> str:
    return _record(number, marc_record(number))


def _record(number: int, metadata: str) -> str:
    return (
        f"<record><header><identifier>oai:bench.example:{number % 97}:{number}</identifier>"
        f"<datestamp>{DATE}</datestamp><setSpec>all</setSpec></header><metadata>{metadata}</metadata></record>"
    )


def _pages(records: int, record: Callable[[int], str]) -> list[bytes]:
    pages = []
    for begin in range(0, records, PAGE):
        end = min(begin + PAGE, records)
        token = str(end) if end < records else ""
        listed = "".join(record(number) for number in range(begin, end))
        pages.append(
            f"{HEAD}<ListRecords>{listed}"
            f'<resumptionToken cursor="{begin}" completeListSize="{records}">{token}</resumptionToken>'
            "</ListRecords></OAI-PMH>".encode()
        )
    return pages


_RECORDS: dict[str, Callable[[int], str]] = {"oai_dc": record, "marc21": _marc_record}


async def serve_requests(
    answer: Callable[[bytes, bytes, asyncio.StreamWriter], Awaitable[None]], end: str = ""
) -> None:
    """Answer each request by its head and form; say when ready, with `end` behind the address."""

    async def connected(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with contextlib.suppress(asyncio.IncompleteReadError, ConnectionError):
            while head := await reader.readuntil(b"\r\n\r\n"):
                length = _LENGTH.search(head)
                await answer(head, await reader.readexactly(int(length[1])) if length else b"", writer)
        writer.close()

    server = await asyncio.start_server(connected, "127.0.0.1", 0)
    sys.stderr.write(f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}{end}\n")
    sys.stderr.flush()
    await server.serve_forever()


async def serve(body_of: Callable[[str, str], bytes], end: str = "") -> None:
    """Answer each request by the body for its target and form."""

    async def answer(head: bytes, form: bytes, writer: asyncio.StreamWriter) -> None:
        body = body_of(head.split(b" ", 2)[1].decode(), form.decode())
        writer.write(b"HTTP/1.1 200 OK\r\nContent-Type: text/xml\r\nContent-Length: %d\r\n\r\n" % len(body))
        writer.write(body)
        await writer.drain()

    await serve_requests(answer, end)


async def _serve(records: int, prefix: str, policy: str) -> None:
    pages = _pages(records, _RECORDS[prefix])
    identified = f"{HEAD}{identify(policy)}</OAI-PMH>".encode()

    def body_of(target: str, form: str) -> bytes:
        arguments = parse_qs(urlsplit(target).query or form)
        if arguments.get("verb") == ["ListRecords"]:
            return pages[int(arguments.get("resumptionToken", ["0"])[0]) // PAGE]
        return identified

    await serve(body_of, "/oai")


if __name__ == "__main__":
    _, number, *more = sys.argv
    chosen, deletion_policy = (*more, *("oai_dc", "persistent")[len(more) :])
    asyncio.run(_serve(int(number), chosen, deletion_policy))

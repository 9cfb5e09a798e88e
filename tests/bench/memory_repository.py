"""A repository that answers ListRecords from memory.

`python -m tests.bench.memory_repository RECORDS [oai_dc|marc21 [no|transient|persistent]]`.

The responses are made before the first request, in pages of 500 records of about 1 kB each in `oai_dc` or 2
kB in `marc21`, and sent with as little work as possible, so that a benchmark measures the harvester.
"""

import asyncio
import re
import sys
from collections.abc import Callable, Mapping
from urllib.parse import parse_qs, urlsplit

from tests.bench.marc_records import marc_record

PAGE = 500
_LENGTH = re.compile(rb"\ncontent-length: *([0-9]+)", re.IGNORECASE)
_DATE = "2024-05-01T12:00:00Z"
HEAD = (
    '<?xml version="1.0" encoding="UTF-8"?>\n<OAI-PMH xmlns="http://www.openarchives.org/OAI/2.0/">'
    f"<responseDate>{_DATE}</responseDate><request>http://bench.example/oai</request>"
)
_DC = (
    '<oai_dc:dc xmlns:oai_dc="http://www.openarchives.org/OAI/2.0/oai_dc/"'
    ' xmlns:dc="http://purl.org/dc/elements/1.1/">'
)


def identify(policy: str = "persistent") -> str:
    """Return the Identify response with this deletedRecord policy."""
    return (
        f"{HEAD}<Identify><repositoryName>Bench</repositoryName><baseURL>http://bench.example/oai</baseURL>"
        "<protocolVersion>2.0</protocolVersion><adminEmail>a@bench.example</adminEmail>"
        f"<earliestDatestamp>2020-01-01T00:00:00Z</earliestDatestamp><deletedRecord>{policy}</deletedRecord>"
        "<granularity>YYYY-MM-DDThh:mm:ssZ</granularity></Identify></OAI-PMH>"
    )


def record(number: int) -> str:
    words = f"Record number {number} of a benchmark "
    return (
        f"<record><header><identifier>oai:bench.example:{number % 97}:{number}</identifier>"
        f"<datestamp>{_DATE}</datestamp><setSpec>all</setSpec></header><metadata>{_DC}"
        f"<dc:title>{words}</dc:title><dc:creator>Somebody, {number}</dc:creator>"
        f"<dc:description>{words * 14}</dc:description><dc:date>2024</dc:date>"
        f"<dc:identifier>http://bench.example/record/{number}</dc:identifier>"
        "</oai_dc:dc></metadata></record>"
    )


def _marc_record(number: int) -> str:
    return (
        f"<record><header><identifier>oai:bench.example:{number % 97}:{number}</identifier>"
        f"<datestamp>{_DATE}</datestamp><setSpec>all</setSpec></header>"
        f"<metadata>{marc_record(number)}</metadata></record>"
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


class _Server:
    def __init__(self, pages: list[bytes], policy: str) -> None:
        self._pages = pages
        self._identify = identify(policy).encode()

    async def answer(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Answer the requests of one connection."""
        try:
            while head := await reader.readuntil(b"\r\n\r\n"):
                length = _LENGTH.search(head)
                form = await reader.readexactly(int(length[1])) if length else b""
                query = urlsplit(head.split(b" ", 2)[1]).query or form
                body = self._body(parse_qs(query.decode()))
                writer.write(
                    b"HTTP/1.1 200 OK\r\nContent-Type: text/xml\r\nContent-Length: %d\r\n\r\n" % len(body)
                )
                writer.write(body)
                await writer.drain()
        except (asyncio.IncompleteReadError, ConnectionError):
            writer.close()

    def _body(self, arguments: Mapping[str, list[str]]) -> bytes:
        if arguments.get("verb") == ["ListRecords"]:
            return self._pages[int(arguments.get("resumptionToken", ["0"])[0]) // PAGE]
        return self._identify


async def _serve(records: int, prefix: str, policy: str) -> None:
    pages = _pages(records, _RECORDS[prefix])
    server = await asyncio.start_server(_Server(pages, policy).answer, "127.0.0.1", 0)
    port = server.sockets[0].getsockname()[1]
    sys.stderr.write(f"repository at http://127.0.0.1:{port}/oai\n")
    sys.stderr.flush()
    await server.serve_forever()


if __name__ == "__main__":
    _, number, *more = sys.argv
    chosen, deletion_policy = (*more, *("oai_dc", "persistent")[len(more) :])
    asyncio.run(_serve(int(number), chosen, deletion_policy))

"""Benchmark of reading all records over HTTP, compared with the bare driver that only fetches the rows."""

import http.client
import re
from functools import partial
from typing import LiteralString
from urllib.parse import quote, urlsplit

import psycopg

from oai.database import Database
from tests.bench.measuring import say, timed

TARGET = 4.0
PAGE = 500
_MOST = 500_000
_TOKEN = re.compile(rb"<resumptionToken[^>]*>([^<]+)</resumptionToken>")

_ROWS_ALONE = """
SELECT document.* FROM document WHERE (document.datestamp, document.id) > (%s, %s)
ORDER BY document.datestamp, document.id LIMIT %s
"""
# Columns of a record: the document's, and the names of its sets.
_ROWS_AND_SETS = """
SELECT document.*, mimetype.name, mimetype.set_spec, domain.name, domain.set_spec, (
    SELECT array_agg(collection.set_spec ORDER BY collection.set_spec)
    FROM document_collection JOIN collection ON collection.id = document_collection.collection_id
    WHERE document_collection.document_id = document.id AND document_collection.direct
)
FROM (
    SELECT * FROM document WHERE (document.datestamp, document.id) > (%s, %s)
    ORDER BY document.datestamp, document.id LIMIT %s
) AS document
JOIN mimetype ON mimetype.id = document.mime_id
LEFT JOIN domain ON domain.id = document.host_id
ORDER BY document.datestamp, document.id
"""


def measure_reading_out(database: Database, base_url: str, documents: int) -> None:
    """Print the rate over HTTP and those of two loops over psycopg, with the ratios."""
    pages = min(documents, _MOST) // PAGE
    rows = pages * PAGE
    over_http = timed(lambda: _read_http(base_url, pages))
    say("reading out", f"records/s ({rows:,} records)", f"speed relative to HTTP (at most {TARGET})")
    say("---", "---:", "---:")
    say("ListRecords, oai_dc, one client that discards the bytes", f"{rows / over_http:,.0f}", "1.00")
    for name, statement in (
        ("psycopg, the rows with their set names", _ROWS_AND_SETS),
        ("psycopg, the rows of `document` alone", _ROWS_ALONE),
    ):
        bare = timed(partial(_read_rows, database, statement, pages))
        say(name, f"{rows / bare:,.0f}", f"{over_http / bare:.2f}")


def _read_http(base_url: str, pages: int) -> None:
    address = urlsplit(base_url)
    connection = http.client.HTTPConnection(str(address.hostname), address.port)
    query = "verb=ListRecords&metadataPrefix=oai_dc"
    for page in range(pages):
        connection.request("GET", f"{address.path}?{query}")
        answer = connection.getresponse()
        body = answer.read()
        token = _TOKEN.search(body, max(0, len(body) - 2000))
        if answer.status != http.client.OK or (token is None and page < pages - 1):
            raise SystemExit(f"page {page + 1} of {pages}: HTTP {answer.status}, {body[:300]!r}")
        if token is not None:
            query = f"verb=ListRecords&resumptionToken={quote(token[1].decode())}"
    connection.close()


def _read_rows(database: Database, statement: LiteralString, pages: int) -> None:
    with psycopg.connect(database.conninfo) as connection:
        behind: tuple[object, object] = ("-infinity", 0)
        for _ in range(pages):
            found = connection.execute(statement, (*behind, PAGE))
            names = [column.name for column in found.description or ()]
            last = found.fetchall()[-1]
            behind = last[names.index("datestamp")], last[names.index("id")]

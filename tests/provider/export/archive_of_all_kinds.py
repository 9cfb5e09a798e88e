"""An archive with captures of every kind that exports treat differently."""

from dataclasses import replace
from datetime import UTC, datetime
from hashlib import sha256
from pathlib import Path

from oai.database import Database
from provider.holdings.access import set_rule
from provider.holdings.collections import add_collection, assign
from provider.holdings.rules import Rule
from provider.holdings.selection import Selection
from provider.indexing.indexer import IndexOptions, index_file
from provider.models import Access
from tests.provider.archives import Page, arc_record, warc_record, write_archive
from tests.provider.holdings.test_documents_access import revisit

OLD = Page(url="http://a.example/old", body=b"<html><title>Old</title></html>")
NEW = Page(
    url="http://a.example/new",
    date="2010-01-01T00:00:00Z",
    body=b"<html><title>New</title>new</html>" * 50_000,
)
SAME = replace(NEW, date="2011-01-01T00:00:00Z")
FILE = Page(url="http://a.example/x.txt", body=b"plain", record_type="resource", mime_type="text/plain")
CHUNKED = Page(
    url="http://a.example/chunked",
    body=b"5\r\nhello\r\n0\r\n\r\n",
    http_headers="Transfer-Encoding: chunked\r\n",
    digest=False,
)
LOST = Page(url="http://a.example/lost", body=b"an original that was never archived")
ROOM = Page(url="http://a.example/room", body=b"for the reading room")
ROOM_AGAIN = replace(ROOM, url="http://a.example/again", date="2012-01-01T00:00:00Z")
EMBARGO = Page(url="http://a.example/embargo")
SECRET = Page(url="http://a.example/secret")
UNKNOWN = Page(url="http://a.example/never-listed")
GONE = Page(url="http://a.example/gone")
DAMAGED = Page(url="http://a.example/damaged", body=bytes(range(256)) * 8)
ELSEWHERE = Page(url="http://b.example/")

_RULES = {
    ROOM.url: Rule(access=Access.READING_ROOM),
    EMBARGO.url: Rule(access=Access.EMBARGO, embargo_until=datetime(2999, 1, 1, tzinfo=UTC)),
    SECRET.url: Rule(access=Access.WITHHELD),
    ELSEWHERE.url: Rule(),
}
_COLLECTIONS = {ROOM.url: "room", EMBARGO.url: "later", SECRET.url: "closed", ELSEWHERE.url: "kept"}
READ_BY_ALL = (OLD, NEW, SAME, FILE, CHUNKED)


def make_archive(database: Database, folder: Path) -> None:
    """Index all captures, set the rules, and remove and damage some of the files."""
    refers = (f"WARC-Refers-To-Target-URI: {ROOM.url}", f"WARC-Refers-To-Date: {ROOM.date}")
    _index(database, folder / "a.arc.gz", arc_record(OLD))
    _index(
        database,
        folder / "b.warc.gz",
        with_fields(warc_record(NEW), "WARC-Truncated: length"),
        warc_record(FILE).replace(
            FILE.payload_digest.encode(), f"SHA-256:{sha256(FILE.body).hexdigest()}".encode()
        ),
        *map(warc_record, (CHUNKED, ROOM, EMBARGO, SECRET, ELSEWHERE)),
        revisit(SAME),
        revisit(LOST),
        revisit(ROOM_AGAIN, *refers),
    )
    for url, rule in _RULES.items():
        _assign(database, f"collection:{_COLLECTIONS[url]}", rule, url)
    with database.session() as session:
        closed = add_collection(session, "collection:closed").id
    _index(database, folder / "c.warc.gz", warc_record(UNKNOWN), collection=closed)
    _index(database, folder / "gone.warc.gz", warc_record(GONE)).unlink()
    damaged = _index(database, folder / "damaged.warc.gz", warc_record(DAMAGED))
    data = bytearray(damaged.read_bytes())
    data[-30] ^= 0xFF
    damaged.write_bytes(data)


def with_fields(record: bytes, *fields: str) -> bytes:
    """A WARC record with more fields in its header."""
    version, rest = record.split(b"\r\n", 1)
    return b"\r\n".join((version, *map(str.encode, fields), rest))


def _assign(database: Database, collection: str, rule: Rule, url: str) -> None:
    with database.session() as session:
        add_collection(session, collection)
        session.commit()
        assign(session, collection, Selection(url=url), margin=1)
        set_rule(session, collection, rule, margin=1)


def _index(database: Database, path: Path, *records: bytes, collection: int | None = None) -> Path:
    collections = () if collection is None else (collection,)
    report = index_file(
        database, write_archive(path, records), IndexOptions(margin=1, collections=collections)
    )
    assert not report.merged.problems
    return path

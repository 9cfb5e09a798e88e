"""The tables of the thesis's data models and of Zatva's, filled with the same generated documents."""

from dataclasses import dataclass
from datetime import datetime
from typing import Final

from sqlalchemy import Connection, text

from tests.bench.paging_readers import (
    COLLECTION,
    FIRST_HOST,
    LATE,
    CursorReader,
    KeysetReader,
    MapReader,
    OffsetReader,
    Reader,
    StoredReader,
)

SMALL: Final = 1000
"""Documents of a small set, whatever the number of documents."""
PARTS: Final = 14
"""The thesis splits 140 million documents into tables of 10 million."""

# 2,000 documents share a datestamp, like those of one archive file.
_GENERATED: Final = f"""
CREATE UNLOGGED TABLE generated AS
SELECT n AS id, md5(n::text)::uuid AS key,
    'http://www' || n % :hosts || '.example.cz/section/' || n % 97 || '/page-' || n || '.html' AS url,
    timestamptz '2007-01-01Z' + n * interval '13 seconds' AS archived,
    timestamptz '2020-01-01Z' + n / 2000 * interval '61 seconds' AS datestamp,
    (1 + n % 5)::integer AS mime_id, ({FIRST_HOST} + n % :hosts)::integer AS host_id,
    CASE WHEN n % 3 = 0 THEN ARRAY[{COLLECTION}, ({COLLECTION + 1} + n / 3 % 3)::integer]
        ELSE CAST(ARRAY[] AS integer[]) END
        || CASE WHEN n > :late THEN ARRAY[{LATE}] ELSE CAST(ARRAY[] AS integer[]) END AS collections
FROM generate_series(CAST(1 AS bigint), CAST(:rows AS bigint)) AS n
"""  # noqa: S608 built from constants
_COLUMNS: Final = """
    id bigint NOT NULL, key uuid NOT NULL, url text COLLATE "C" NOT NULL, archived timestamptz NOT NULL,
    datestamp timestamptz NOT NULL
"""
_SETS: Final = "mime_id integer NOT NULL, host_id integer NOT NULL"
_MEMBERS: Final = "document_id bigint NOT NULL, collection_id integer NOT NULL"
_NAMES: Final = "id, key, url, archived, datestamp"


@dataclass(frozen=True, kw_only=True)
class Model:
    """The tables of one model, in a schema with its name, and how a list is read from them.

    `filled` copies the generated documents from `:first` to `:last`, `changed` gives the document `:id` the
    datestamp `:datestamp`. `parted` names the column by which each table is split.
    """

    name: str
    title: str
    reader: type[Reader]
    tables: dict[str, str]
    indexes: tuple[str, ...]
    filled: tuple[str, ...]
    changed: tuple[str, ...] = ("UPDATE document SET datestamp = :datestamp WHERE id = :id",)
    parted: dict[str, str] | None = None


# As in 3.6, except that the index of lastUpdate has the id, too: without it the order of pages is undefined.
_LOOKUPS: Final = (
    "ALTER TABLE document ADD PRIMARY KEY (id)",
    "CREATE INDEX ON document (url, archived)",
    "CREATE INDEX ON document (datestamp, id)",
)
_THESIS_TABLES: Final = {"document": f"{_COLUMNS}, {_SETS}", "membership": _MEMBERS}
_THESIS_INDEXES: Final = (
    *_LOOKUPS,
    "CREATE INDEX ON document (mime_id)",
    "CREATE INDEX ON document (host_id)",
    "ALTER TABLE membership ADD PRIMARY KEY (document_id, collection_id)",
    "CREATE INDEX ON membership (collection_id)",
)
_CHOSEN: Final = "FROM public.generated WHERE id BETWEEN :first AND :last"
_INTO_DOCUMENT: Final = (
    f"INSERT INTO document ({_NAMES}, mime_id, host_id) SELECT {_NAMES}, mime_id, host_id {_CHOSEN}"
)
_THESIS_FILLED: Final = (
    _INTO_DOCUMENT,
    f"INSERT INTO membership (document_id, collection_id) SELECT id, unnest(collections) {_CHOSEN}",
)
_LIST_PAGE: Final = "list_id bigint, page bigint, document_ids bigint[] NOT NULL, PRIMARY KEY (list_id, page)"

MODELS: Final = (
    Model(
        name="offset",
        title="OFFSET (3.4)",
        reader=OffsetReader,
        tables=_THESIS_TABLES,
        indexes=_THESIS_INDEXES,
        filled=_THESIS_FILLED,
    ),
    Model(
        name="split",
        title="split tables (3.4)",
        reader=OffsetReader,
        tables=_THESIS_TABLES,
        indexes=_THESIS_INDEXES,
        filled=_THESIS_FILLED,
        parted={"document": "id", "membership": "document_id"},
    ),
    Model(
        name="cursor",
        title="cursor (3.5)",
        reader=CursorReader,
        tables=_THESIS_TABLES,
        indexes=_THESIS_INDEXES,
        filled=_THESIS_FILLED,
    ),
    Model(
        name="stored",
        title="stored lists (arrays)",
        reader=StoredReader,
        tables={**_THESIS_TABLES, "list_page": _LIST_PAGE},
        indexes=_THESIS_INDEXES,
        filled=_THESIS_FILLED,
    ),
    Model(
        name="map",
        title="map of sets (3.3)",
        reader=MapReader,
        tables={"document": f"{_COLUMNS}, sets integer[] NOT NULL"},
        indexes=(*_LOOKUPS, "CREATE INDEX ON document USING gin (sets)"),
        filled=(
            f"""
            INSERT INTO document ({_NAMES}, sets)
            SELECT {_NAMES}, ARRAY[mime_id, host_id] || collections {_CHOSEN}
            """,
        ),
    ),
    Model(
        name="keyset",
        title="keyset (Zatva)",
        reader=KeysetReader,
        tables={
            "document": f"{_COLUMNS}, {_SETS}",
            "membership": f"{_MEMBERS}, datestamp timestamptz NOT NULL",
        },
        indexes=(
            *_LOOKUPS,
            "CREATE INDEX ON document (mime_id, datestamp, id)",
            "CREATE INDEX ON document (host_id, datestamp, id)",
            "ALTER TABLE membership ADD PRIMARY KEY (document_id, collection_id)",
            "CREATE INDEX ON membership (collection_id, datestamp, document_id)",
        ),
        filled=(
            _INTO_DOCUMENT,
            f"""
            INSERT INTO membership (document_id, collection_id, datestamp)
            SELECT id, unnest(collections), datestamp {_CHOSEN}
            """,
        ),
        changed=(
            "UPDATE document SET datestamp = :datestamp WHERE id = :id",
            "UPDATE membership SET datestamp = :datestamp WHERE document_id = :id",
        ),
    ),
)
"""The five ways to page of docs/models.md, and the thesis's map of sets."""


def before_late(documents: int) -> int:
    """Return how many documents come before those of the harvest `LATE`."""
    return documents - documents // 4


def generate(connection: Connection, documents: int, more: int) -> None:
    """Create the documents that all models copy, and further ones that are added later."""
    hosts = max(1, documents // SMALL)
    connection.execute(
        text(_GENERATED), {"hosts": hosts, "rows": documents + more, "late": before_late(documents)}
    )
    connection.execute(text("ALTER TABLE generated ADD PRIMARY KEY (id)"))
    connection.execute(text("ANALYZE generated"))


def enter(connection: Connection, model: Model) -> None:
    """Let the transaction's statements use the model's tables."""
    connection.execute(text(f"SET LOCAL search_path = model_{model.name}"))
    if model.parted:
        connection.execute(text("SET LOCAL enable_partitionwise_join = on"))


def create(connection: Connection, model: Model, documents: int) -> None:
    """Create the model's empty tables without indexes."""
    connection.execute(text(f"CREATE SCHEMA model_{model.name}"))
    enter(connection, model)
    for table, columns in model.tables.items():
        split = f" PARTITION BY RANGE ({model.parted[table]})" if model.parted else ""
        connection.execute(text(f"CREATE TABLE {table} ({columns}){split}"))
        for part in range(PARTS) if model.parted else ():
            bounds = (
                "MINVALUE" if part == 0 else documents * part // PARTS,
                "MAXVALUE" if part == PARTS - 1 else documents * (part + 1) // PARTS,
            )
            connection.execute(
                text(
                    f"CREATE TABLE {table}_{part} PARTITION OF {table}"
                    f" FOR VALUES FROM ({bounds[0]}) TO ({bounds[1]})"
                )
            )


def insert(connection: Connection, model: Model, first: int, last: int) -> None:
    """Copy generated documents, with their memberships, into the model's tables."""
    for statement in model.filled:
        connection.execute(text(statement), {"first": first, "last": last})


def build(connection: Connection, model: Model) -> None:
    """Build the indexes of the filled tables."""
    for statement in model.indexes:
        connection.execute(text(statement))


def change(connection: Connection, model: Model, document: int, datestamp: datetime) -> None:
    """Give a document a new datestamp, and so another place in its lists."""
    for statement in model.changed:
        connection.execute(text(statement), {"id": document, "datestamp": datestamp})


def drop(connection: Connection, model: Model) -> None:
    """Remove the model's tables."""
    connection.execute(text(f"DROP SCHEMA model_{model.name} CASCADE"))

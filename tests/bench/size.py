"""Size of a document in the database: bytes in the tables and in each index."""

from sqlalchemy import text

from oai.database import Database
from tests.bench.measuring import say

_SIZES = """
SELECT class.relname AS name, class.relkind AS kind, pg_relation_size(class.oid) AS bytes
FROM pg_class AS class
LEFT JOIN pg_index AS used ON used.indexrelid = class.oid
WHERE coalesce(used.indrelid, class.oid) = ANY(
    ARRAY['document'::regclass, 'document_collection'::regclass]::oid[]
)
ORDER BY coalesce(used.indrelid, class.oid), class.relkind DESC, class.relname
"""


def measure_size(database: Database, documents: int) -> None:
    """Print the bytes per document of each table and index, and their sum."""
    with database.session() as session:
        rows = session.execute(text(_SIZES)).all()
    say("size", f"bytes per document (of {documents:,})")
    say("---", "---:")
    for row in rows:
        say(f"`{row.name}`{'' if row.kind == 'r' else ', index'}", f"{row.bytes / documents:,.1f}")
    say("all", f"{sum(row.bytes for row in rows) / documents:,.1f}")

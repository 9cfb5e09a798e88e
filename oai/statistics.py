"""Statistics of tables that were just filled: autovacuum makes them a minute later, or never if it is off."""

from typing import Final

from sqlalchemy import Engine, text

# Without statistics, the rows of one key are taken for a two-hundredth of the table, so that a few look-ups
# seem to be worth a pass through all of it. For a table that has doubled since, they are nearly as wrong.
_WANTING: Final = text(
    """
    SELECT name FROM unnest(CAST(:tables AS text[])) AS name
    JOIN pg_class AS class ON class.oid = CAST(name AS regclass)
    WHERE pg_relation_size(class.oid)
        > 2 * CAST(class.relpages AS bigint) * CAST(current_setting('block_size') AS bigint)
    """
)


def make_statistics(engine: Engine, *tables: str) -> None:
    """Let PostgreSQL look at samples of those tables that have no statistics yet, or old ones.

    Each is looked at in a transaction of its own, over a connection of its own. It takes some tenths of a
    second, however large the table is. One that another is looking at, or owns, is left out.
    """
    with engine.connect().execution_options(isolation_level="AUTOCOMMIT") as connection:
        for name in connection.scalars(_WANTING, {"tables": list(tables)}).all():
            connection.execute(text(f"ANALYZE (SKIP_LOCKED) {name}"))

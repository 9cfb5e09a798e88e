"""Statistics of freshly filled tables: autovacuum creates them a minute later, or never if it is off."""

from typing import Final

from sqlalchemy import Engine, text

# Without statistics, PostgreSQL assumes that one key matches a two-hundredth of the table, so that it
# prefers a sequential scan to a few look-ups. For a table that has doubled since, they are nearly as wrong.
_WANTING: Final = text(
    """
    SELECT name FROM unnest(CAST(:tables AS text[])) AS name
    JOIN pg_class AS class ON class.oid = CAST(name AS regclass)
    WHERE pg_relation_size(class.oid)
        > 2 * CAST(class.relpages AS bigint) * CAST(current_setting('block_size') AS bigint)
    """
)


def make_statistics(engine: Engine, *tables: str) -> None:
    """Have PostgreSQL sample the tables that have no statistics yet, or outdated ones.

    Each table is analysed in a separate transaction on a dedicated connection. It takes some tenths of a
    second, however large the table is. A table that another session is analysing, or owns, is skipped.
    """
    with engine.connect().execution_options(isolation_level="AUTOCOMMIT") as connection:
        for name in connection.scalars(_WANTING, {"tables": list(tables)}).all():
            connection.execute(text(f"ANALYZE (SKIP_LOCKED) {name}"))

"""Recently filled tables get statistics; tables with current ones are not analysed again."""

from sqlalchemy import text

from oai.database import Database, make_statistics

FILL = text(
    "INSERT INTO oai_metadata_format (metadata_prefix) SELECT 'p' || n FROM generate_series(1, :n) AS n"
)


def rows_expected(database: Database, table: str = "oai_metadata_format") -> int:
    """Return the number of rows in PostgreSQL's statistics; -1 without statistics."""
    with database.engine.connect() as connection:
        found = connection.execute(
            text("SELECT reltuples FROM pg_class WHERE relname = :table"), {"table": table}
        )
        return int(found.scalar_one())


def fill(database: Database, rows: int) -> None:
    with database.engine.begin() as connection:
        connection.execute(text("DELETE FROM oai_metadata_format"))
        connection.execute(FILL, {"n": rows})


def test_a_recently_filled_table_gets_statistics(database: Database) -> None:
    fill(database, 1000)
    assert rows_expected(database) == -1
    make_statistics(database.engine, "oai_metadata_format", "oai_set")
    assert (rows_expected(database), rows_expected(database, "oai_set")) == (1000, -1)


def test_a_table_with_statistics_is_analysed_again_only_after_doubling(database: Database) -> None:
    fill(database, 1000)
    make_statistics(database.engine, "oai_metadata_format")
    with database.engine.begin() as connection:
        connection.execute(text("DELETE FROM oai_metadata_format WHERE metadata_prefix <> 'p1'"))
    make_statistics(database.engine, "oai_metadata_format")
    assert rows_expected(database) == 1000
    fill(database, 5000)
    make_statistics(database.engine, "oai_metadata_format")
    assert rows_expected(database) == 5000

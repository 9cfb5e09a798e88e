"""Values come back from PostgreSQL as they went in."""

import uuid

from hypothesis import given
from hypothesis import strategies as st
from sqlalchemy import text

from harvester.store import records as arrays
from oai.database import Database

TEXTS = st.lists(
    st.none()
    | st.text(st.characters(exclude_characters="\0", exclude_categories=["Cs"]))
    | st.sampled_from(["", "NULL", "null", '"', "\\", "{}", "a,b", " a ", '\\"', "\n"])
)


def back(database: Database, kind: str, literal: str) -> list[object]:
    with database.session() as session:
        found = session.scalars(text(f"SELECT unnest(CAST(:literal AS {kind}[]))"), {"literal": literal})
        return list(found)


def test_any_text_comes_back_as_it_was(database: Database) -> None:
    @given(TEXTS)
    def comes_back(values: list[str | None]) -> None:
        assert back(database, "text", arrays.of_texts(values)) == values

    comes_back()


def test_keys_numbers_and_bytes_come_back(database: Database) -> None:
    keys = [uuid.uuid4(), uuid.UUID(int=0)]
    assert back(database, "uuid", arrays.of_keys([key.hex for key in keys])) == keys
    assert back(database, "bigint", arrays.of_numbers([1, -2, 2**62])) == [1, -2, 2**62]
    assert back(database, "bytea", arrays.of_bytes([b"", b"\0\xff", None])) == [b"", b"\0\xff", None]


def test_nothing_is_an_empty_array(database: Database) -> None:
    literals = {
        "text": arrays.of_texts([]),
        "uuid": arrays.of_keys([]),
        "bigint": arrays.of_numbers([]),
        "bytea": arrays.of_bytes([]),
    }
    assert [back(database, kind, literal) for kind, literal in literals.items()] == [[], [], [], []]

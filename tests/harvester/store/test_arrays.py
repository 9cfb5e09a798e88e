"""Values are read back from PostgreSQL as they were sent."""

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


def test_any_text_is_read_back_unchanged(database: Database) -> None:
    @given(TEXTS)
    def comes_back(values: list[str | None]) -> None:
        assert back(database, "text", arrays.of_texts(values)) == values

    comes_back()


def test_keys_numbers_and_bytes_are_read_back_unchanged(database: Database) -> None:
    keys = [uuid.uuid4(), uuid.UUID(int=0)]
    assert back(database, "uuid", arrays.of_keys([key.hex for key in keys])) == keys
    assert back(database, "bigint", arrays.of_numbers([1, -2, 2**62])) == [1, -2, 2**62]
    assert back(database, "bytea", arrays.of_bytes([b"", b"\0\xff", None])) == [b"", b"\0\xff", None]


def test_no_values_are_an_empty_array(database: Database) -> None:
    literals = {
        "text": arrays.of_texts([]),
        "uuid": arrays.of_keys([]),
        "bigint": arrays.of_numbers([]),
        "bytea": arrays.of_bytes([]),
    }
    assert [back(database, kind, literal) for kind, literal in literals.items()] == [[], [], [], []]

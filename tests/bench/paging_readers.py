"""Reads a list in pages: by OFFSET, from a cursor, from stored identifiers, or after the last row."""

import itertools
from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import Any, Final

from sqlalchemy import Connection, text

COLLECTION: Final = 10
"""The number of the large set, which contains every third document."""
LATE: Final = 20
"""The number of the set of one harvest: the last quarter of the documents."""
FIRST_HOST: Final = 1000
"""The number of the first host; the sets below it are types (1 to 5) and collections."""

_BEGINNING: Final[tuple[object, int]] = ("-infinity", 0)
_numbers: Final = itertools.count(1)
_LIST_SIZE: Final = "SELECT pg_total_relation_size('list_page')"


class Reader(ABC):
    """One list, read by one harvester in one transaction of the connection.

    `begin` is called once, and `seek` moves forward only, because a cursor cannot do more. Rows are
    (id, key, datestamp, URL), without the sets of a record's header.
    """

    counts = False
    """Whether a page counts the rows before it, so that a whole list takes the square of its length."""

    def __init__(self, connection: Connection, set_id: int | None, page: int) -> None:
        self._connection = connection
        self._set_id = set_id
        self._page = page

    def begin(self) -> None:  # noqa: B027 most models have nothing to do
        """Do what precedes the first page."""

    @abstractmethod
    def seek(self, page: int) -> None:
        """Move to a page, counted from 0, as if the pages before it had been read."""

    @abstractmethod
    def read(self) -> Sequence[Any]:
        """Return the rows of the page at the position, none after the last one, and move on."""

    def _rows(self, statement: str, **values: object) -> Sequence[Any]:
        used = {"set": self._set_id} if ":set" in statement else {}
        return self._connection.execute(text(statement), {**used, **values}).all()


def joined(set_id: int | None) -> str:
    """Return the query for a list from the tables of the many-to-many model (thesis, 3.4)."""
    if set_id is None:
        listed = "document"
    elif set_id < FIRST_HOST:
        listed = "membership JOIN document ON id = document_id WHERE collection_id = :set"
    else:
        listed = "document WHERE host_id = :set"
    return f"SELECT id, key, datestamp, url FROM {listed} ORDER BY datestamp, id"  # noqa: S608 built from constants


class OffsetReader(Reader):
    """Each page counts the rows before it (thesis, 3.4)."""

    counts = True

    def __init__(self, connection: Connection, set_id: int | None, page: int) -> None:
        super().__init__(connection, set_id, page)
        self._offset = 0

    def seek(self, page: int) -> None:
        self._offset = page * self._page

    def read(self) -> Sequence[Any]:
        found = self._rows(
            f"{joined(self._set_id)} LIMIT :size OFFSET :offset", size=self._page, offset=self._offset
        )
        self._offset += self._page
        return found


class CursorReader(Reader):
    """A cursor is open from the first page to the last, and with it a transaction (thesis, 3.5)."""

    def __init__(self, connection: Connection, set_id: int | None, page: int) -> None:
        super().__init__(connection, set_id, page)
        self._name = f"harvest_{next(_numbers)}"
        self._at = 0

    def begin(self) -> None:
        # A declaration takes no parameters through every driver; the set's number is ours.
        query = joined(self._set_id).replace(":set", str(self._set_id))
        self._connection.execute(text(f"DECLARE {self._name} NO SCROLL CURSOR FOR {query}"))

    def seek(self, page: int) -> None:
        self._connection.execute(text(f"MOVE FORWARD {(page - self._at) * self._page} FROM {self._name}"))
        self._at = page

    def read(self) -> Sequence[Any]:
        self._at += 1
        return self._rows(f"FETCH FORWARD {self._page} FROM {self._name}")


class StoredReader(Reader):
    """The first request stores the list's identifiers, an array for each page; documents are looked up."""

    def __init__(self, connection: Connection, set_id: int | None, page: int) -> None:
        super().__init__(connection, set_id, page)
        self._list = next(_numbers)
        self._at = 0

    def begin(self) -> None:
        self._connection.execute(
            text(
                f"""
                INSERT INTO list_page (list_id, page, document_ids)
                SELECT :list, (place - 1) / :size, array_agg(id ORDER BY place)
                FROM (SELECT id, row_number() OVER (ORDER BY datestamp, id) AS place
                      FROM ({joined(self._set_id)}) AS listed) AS numbered
                GROUP BY 2
                """  # noqa: S608 built from constants
            ),
            {"list": self._list, "size": self._page}
            | ({} if self._set_id is None else {"set": self._set_id}),
        )

    def seek(self, page: int) -> None:
        self._at = page

    def read(self) -> Sequence[Any]:
        found = self._rows(
            """
            SELECT document.id, key, datestamp, url
            FROM list_page CROSS JOIN LATERAL unnest(document_ids) WITH ORDINALITY AS listed (id, place)
            JOIN document ON document.id = listed.id
            WHERE list_id = :list AND page = :page ORDER BY place
            """,
            list=self._list,
            page=self._at,
        )
        self._at += 1
        return found


class _After(Reader):
    """A page begins after the datestamp and the id of the last row that was read."""

    def __init__(self, connection: Connection, set_id: int | None, page: int) -> None:
        super().__init__(connection, set_id, page)
        self._after = _BEGINNING

    def seek(self, page: int) -> None:
        """Find the last row before the page, which a harvester's token contains."""
        self._after = _BEGINNING
        rows = self._rows(
            self._ordered() + " LIMIT 1 OFFSET :offset", **self._from(), offset=page * self._page - 1
        )
        self._after = (rows[0].datestamp, rows[0].id)

    def read(self) -> Sequence[Any]:
        found = self._rows(self._ordered() + " LIMIT :size", **self._from(), size=self._page)
        if found:
            self._after = (found[-1].datestamp, found[-1].id)
        return found

    def _from(self) -> dict[str, object]:
        return {"datestamp": self._after[0], "id": self._after[1]}

    @abstractmethod
    def _ordered(self) -> str:
        """Return the query for the rows after `:datestamp` and `:id`, in order."""


class MapReader(_After):
    """The document's row contains its sets, as the bits of one column did (thesis, 3.3)."""

    def _ordered(self) -> str:
        belongs = "" if self._set_id is None else "sets @> ARRAY[CAST(:set AS integer)] AND"
        return f"""
            SELECT id, key, datestamp, url FROM document
            WHERE {belongs} (datestamp, id) > (CAST(:datestamp AS timestamptz), CAST(:id AS bigint))
            ORDER BY datestamp, id
        """  # noqa: S608 built from constants


class KeysetReader(_After):
    """Zatva's lists: every kind of set has an index in the order of its pages."""

    def _ordered(self) -> str:
        after = "> (CAST(:datestamp AS timestamptz), CAST(:id AS bigint))"
        if self._set_id is not None and self._set_id < FIRST_HOST:
            return f"""
                SELECT document.id, key, document.datestamp, url FROM membership AS member
                JOIN document ON document.id = member.document_id
                WHERE member.collection_id = :set AND (member.datestamp, member.document_id) {after}
                ORDER BY member.datestamp, member.document_id
            """  # noqa: S608 built from constants
        belongs = "" if self._set_id is None else "host_id = :set AND"
        return f"""
            SELECT id, key, datestamp, url FROM document WHERE {belongs} (datestamp, id) {after}
            ORDER BY datestamp, id
        """  # noqa: S608 built from constants


def list_bytes(connection: Connection) -> int:
    """Return the bytes of all stored lists of identifiers."""
    return int(connection.scalar(text(_LIST_SIZE)) or 0)

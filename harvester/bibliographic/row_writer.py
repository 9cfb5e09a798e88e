"""Write bibliographic rows in bulk; the caller commits.

A batch is sent to the server as one JSON text for each table, which PostgreSQL unpacks.
"""

import uuid
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final

from sqlalchemy import text
from sqlalchemy.exc import DBAPIError
from sqlalchemy.orm import Session

from harvester.bibliographic.batches import UNREADABLE, Omitted, RecordRows, UnchangedRecord, as_text
from harvester.bibliographic.candidates import forget
from harvester.store import records as arrays
from oai.database import first_line, is_about_a_value

_TEXTS: Final = (
    "identifier", "datestamp", "basis", "format", "control_number", "control_source", "kind", "title",
    "subtitle", "sort_title", "statement", "place", "publisher", "date_text", "country", "edition", "extent",
)  # fmt: skip
_YEARS: Final = ("year_from", "year_to", "sort_year")
_LISTS: Final = ("languages", "original_languages")
_OBJECTS: Final = ("titles", "publications", "series", "subjects", "genres", "related", "links", "notes")
_COLUMNS: Final = (*_TEXTS, *_YEARS, *_LISTS, *_OBJECTS)
_BYTES: Final = ("file_digest", "content_digest")
_WEIGHTS: Final = "abcd"

_TYPED: Final = ", ".join(
    [
        *(f"{name} text" for name in _TEXTS),
        *(f"{name} smallint" for name in _YEARS),
        *(f"{name} text[]" for name in _LISTS),
        *(f"{name} jsonb" for name in _OBJECTS),
        *(f"{name} text" for name in _BYTES),
        *(f"words_{weight} text" for weight in _WEIGHTS),
    ]
)
_WORDS: Final = " || ".join(
    f"setweight(to_tsvector('simple', words_{weight}), '{weight.upper()}')" for weight in _WEIGHTS
)
_ID: Final = "(CAST(:ids AS bigint[]))[number]"
# As jsonb, because a text of type json is read three times: checked, divided into rows, and stored as jsonb.
_ROWS: Final = "jsonb_to_recordset(CAST(:rows AS jsonb))"
_PARTS: Final = f"{_ROWS} AS row(number integer, parts jsonb)"
_SET: Final = ", ".join(f"{name} = excluded.{name}" for name in (*_COLUMNS, *_BYTES, "words", "imported"))
_WRITE = text(
    f"""
    INSERT INTO bibliographic_record (bibliographic_id, repository_id, metadata_prefix, identifier_key,
                                      {", ".join(_COLUMNS)}, {", ".join(_BYTES)}, words, imported)
    SELECT {_ID}, :repository_id, :prefix, identifier_key, {", ".join(_COLUMNS)},
           {", ".join(f"decode({name}, 'hex')" for name in _BYTES)}, {_WORDS}, now()
    FROM {_ROWS} AS row(number integer, identifier_key uuid, {_TYPED})
    ON CONFLICT (repository_id, metadata_prefix, identifier_key) DO UPDATE SET {_SET}
    """  # noqa: S608 built from constants
)
_NEW_IDS = text(
    """
    SELECT nextval(pg_get_serial_sequence('bibliographic_record', 'bibliographic_id'))
    FROM generate_series(1, :number)
    """
)
_UNCHANGED = text(
    """
    UPDATE bibliographic_record AS row
    SET file_digest = decode(same.file_digest, 'hex'), basis = same.basis, datestamp = same.datestamp
    FROM json_to_recordset(CAST(:rows AS json))
         AS same(bibliographic_id bigint, file_digest text, basis text, datestamp text)
    WHERE row.bibliographic_id = same.bibliographic_id
    """
)
_FORGET_NAMES = text(
    "DELETE FROM bibliographic_contributor WHERE bibliographic_id = ANY(CAST(:ids AS bigint[]))"
)
_FORGET_NUMBERS = text(
    "DELETE FROM bibliographic_identifier WHERE bibliographic_id = ANY(CAST(:ids AS bigint[]))"
)
_NAMES = text(
    f"""
    INSERT INTO bibliographic_contributor
        (bibliographic_id, position, name, kind, dates, titles, roles, authority_ids, work, main, linked)
    SELECT {_ID}, position - 1, name, kind, dates, titles, roles, authority_ids, work, main, linked
    FROM {_PARTS}, ROWS FROM (jsonb_to_recordset(parts)
        AS (name text, kind text, dates text, titles text, roles text[], authority_ids text[], work text,
            main boolean, linked text))
        WITH ORDINALITY AS part(name, kind, dates, titles, roles, authority_ids, work, main, linked, position)
    """  # noqa: S608 built from constants
)
_NUMBERS = text(
    f"""
    INSERT INTO bibliographic_identifier (bibliographic_id, position, scheme, value, found, state, qualifier)
    SELECT {_ID}, position - 1, scheme, value, found, state, qualifier
    FROM {_PARTS}, ROWS FROM (jsonb_to_recordset(parts)
        AS (scheme text, value text, found text, state text, qualifier text))
        WITH ORDINALITY AS part(scheme, value, found, state, qualifier, position)
    """  # noqa: S608 built from constants
)
_OMIT = text(
    """
    INSERT INTO bibliographic_omission
        (repository_id, metadata_prefix, identifier_key, file_digest, basis, kind, reason)
    SELECT :repository_id, :prefix, identifier_key, decode(file_digest, 'hex'), basis, kind, reason
    FROM json_to_recordset(CAST(:rows AS json))
        AS row(identifier_key uuid, file_digest text, basis text, kind text, reason text)
    ON CONFLICT (repository_id, metadata_prefix, identifier_key) DO UPDATE
    SET file_digest = excluded.file_digest, basis = excluded.basis, kind = excluded.kind,
        reason = excluded.reason
    """
)
_FORGET_OMISSIONS = text(
    """
    DELETE FROM bibliographic_omission
    WHERE repository_id = :repository_id AND metadata_prefix = :prefix
      AND identifier_key = ANY(CAST(:keys AS uuid[]))
    """
)


@dataclass(frozen=True, kw_only=True)
class Table:
    """The bibliographic rows of one format of a repository."""

    session: Session
    repository_id: int
    metadata_prefix: str
    longest: int = 50_000_000
    """Characters of JSON in a statement: an array of type jsonb may have 268 MB."""

    def write(self, records: Sequence[RecordRows]) -> None:
        """Insert or replace records with their names and identifiers; a record keeps its id."""
        if not records:
            return
        given = [one.omitted.bibliographic_id for one in records]
        known = [number for number in given if number is not None]
        if known:
            self.session.execute(_FORGET_NAMES, {"ids": arrays.of_numbers(known)})
            self.session.execute(_FORGET_NUMBERS, {"ids": arrays.of_numbers(known)})
        ids = arrays.of_numbers(self._numbered(given))
        for statement, members in (
            (_WRITE, [one.values for one in records]),
            (_NAMES, [f'"parts": {one.contributors}' for one in records]),
            (_NUMBERS, [f'"parts": {one.identifiers}' for one in records]),
        ):
            for array in self._arrays(members):
                self.session.execute(statement, {**self._scope(), "ids": ids, "rows": array})

    def write_singly(self, records: Sequence[RecordRows]) -> Sequence[Omitted]:
        """Write as `write` does, each record in a savepoint; return those that the server refuses."""
        refused = []
        for one in records:
            try:
                with self.session.begin_nested():
                    self.write([one])
            except DBAPIError as error:
                if not is_about_a_value(error):
                    raise
                reason = f"the database cannot store it: {first_line(error)}"
                refused.append(replace(one.omitted, reason=reason))
        return refused

    def note_same(self, records: Sequence[UnchangedRecord]) -> None:
        """Record that these records were checked and are unchanged."""
        if records:
            rows = [{name: getattr(one, name) for name in UnchangedRecord.__slots__} for one in records]
            self.session.execute(_UNCHANGED, {"rows": as_text(rows)})

    def omit(self, records: Sequence[Omitted]) -> None:
        """Record why records have no rows, and delete their rows; unreadable records keep theirs."""
        if not records:
            return
        gone = [
            one.bibliographic_id
            for one in records
            if one.bibliographic_id is not None and one.kind != UNREADABLE
        ]
        if gone:
            forget(self.session, gone)
        rows = [
            {
                "identifier_key": one.identifier_key.hex,
                "file_digest": one.file_digest,
                "basis": one.basis,
                "kind": one.kind,
                "reason": one.reason,
            }
            for one in records
        ]
        self.session.execute(_OMIT, {**self._scope(), "rows": as_text(rows)})

    def forget_omissions(self, keys: Sequence[uuid.UUID]) -> None:
        """Delete the omissions of records that now have rows."""
        if keys:
            self.session.execute(
                _FORGET_OMISSIONS, {**self._scope(), "keys": arrays.of_texts([key.hex for key in keys])}
            )

    def _arrays(self, members: Sequence[str]) -> Iterator[str]:
        """Yield objects with these members and their numbers, counted from 1, as JSON arrays.

        None of the arrays is longer than allowed unless it contains a single object.
        """
        array: list[str] = []
        length = 0
        for number, each in enumerate(members, 1):
            one = f'{{"number": {number}, {each}}}'
            if array and length + len(one) > self.longest:
                yield f"[{','.join(array)}]"
                array, length = [], 0
            array.append(one)
            length += len(one)
        yield f"[{','.join(array)}]"

    def _scope(self) -> dict[str, Any]:
        return {"repository_id": self.repository_id, "prefix": self.metadata_prefix}

    def _numbered(self, ids: Sequence[int | None]) -> list[int]:
        """Return the records' ids, with new ones for records that have none."""
        missing = ids.count(None)
        new = iter(self.session.scalars(_NEW_IDS, {"number": missing}).all() if missing else ())
        return [next(new) if number is None else number for number in ids]

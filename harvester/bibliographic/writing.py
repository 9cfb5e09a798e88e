"""Writes bibliographic rows many at a time; the caller commits.

A batch goes to the server as one JSON text for each table, which PostgreSQL takes apart itself.
"""

import json
import uuid
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final

from sqlalchemy import text
from sqlalchemy.orm import Session

from harvester.bibliographic.rows import Values
from harvester.store import arrays

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
UNREADABLE: Final = "unreadable"
"""Why a record is omitted whose file may be read another time."""

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
_SET: Final = ", ".join(f"{name} = excluded.{name}" for name in (*_COLUMNS, *_BYTES, "words", "imported"))
_WRITE = text(
    f"""
    INSERT INTO bibliographic_record (bibliographic_id, repository_id, metadata_prefix, identifier_key,
                                      {", ".join(_COLUMNS)}, {", ".join(_BYTES)}, words, imported)
    SELECT bibliographic_id, :repository_id, :prefix, identifier_key, {", ".join(_COLUMNS)},
           {", ".join(f"decode({name}, 'hex')" for name in _BYTES)}, {_WORDS}, now()
    FROM json_to_recordset(CAST(:rows AS json))
         AS row(bibliographic_id bigint, identifier_key uuid, {_TYPED})
    ON CONFLICT (repository_id, metadata_prefix, identifier_key) DO UPDATE SET {_SET}
    """  # noqa: S608 made of our own words
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
_DELETE = text("DELETE FROM bibliographic_record WHERE bibliographic_id = ANY(CAST(:ids AS bigint[]))")
_FORGET_NAMES = text(
    "DELETE FROM bibliographic_contributor WHERE bibliographic_id = ANY(CAST(:ids AS bigint[]))"
)
_FORGET_NUMBERS = text(
    "DELETE FROM bibliographic_identifier WHERE bibliographic_id = ANY(CAST(:ids AS bigint[]))"
)
_NAMES = text(
    """
    INSERT INTO bibliographic_contributor
        (bibliographic_id, position, name, kind, dates, titles, roles, authority_ids, work, main, linked)
    SELECT * FROM json_to_recordset(CAST(:rows AS json))
        AS row(bibliographic_id bigint, position smallint, name text, kind text, dates text, titles text,
               roles text[], authority_ids text[], work text, main boolean, linked text)
    """
)
_NUMBERS = text(
    """
    INSERT INTO bibliographic_identifier (bibliographic_id, position, scheme, value, found, state, qualifier)
    SELECT * FROM json_to_recordset(CAST(:rows AS json))
        AS row(bibliographic_id bigint, position smallint, scheme text, value text, found text, state text,
               qualifier text)
    """
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


@dataclass(frozen=True, kw_only=True, slots=True)
class Written:
    """A record to write."""

    bibliographic_id: int | None
    """None for one that has no row yet."""
    key: uuid.UUID
    values: Values
    contributors: list[Values]
    identifiers: list[Values]


@dataclass(frozen=True, kw_only=True, slots=True)
class Same:
    """A record whose rows stay as they are."""

    bibliographic_id: int
    file_digest: str | None
    basis: str
    datestamp: str


@dataclass(frozen=True, kw_only=True, slots=True)
class Omitted:
    """A record that gets no row, or loses it."""

    identifier_key: uuid.UUID
    bibliographic_id: int | None
    file_digest: str | None
    basis: str
    kind: str
    reason: str


@dataclass(frozen=True, kw_only=True)
class Table:
    """The bibliographic rows of one format of a repository."""

    session: Session
    repository_id: int
    metadata_prefix: str

    def write(self, records: Sequence[Written]) -> None:
        """Insert or replace records with the names and numbers that they have; a record keeps its number."""
        if not records:
            return
        ids = self._ids(records)
        known = [record.bibliographic_id for record in records if record.bibliographic_id is not None]
        if known:
            self.session.execute(_FORGET_NAMES, {"ids": arrays.of_numbers(known)})
            self.session.execute(_FORGET_NUMBERS, {"ids": arrays.of_numbers(known)})
        rows = [
            {"bibliographic_id": number, "identifier_key": record.key.hex, **record.values}
            for number, record in zip(ids, records, strict=True)
        ]
        self.session.execute(_WRITE, {**self._scope(), "rows": _json(rows)})
        names = _placed(ids, [record.contributors for record in records])
        if names:
            self.session.execute(_NAMES, {"rows": _json(names)})
        numbers = _placed(ids, [record.identifiers for record in records])
        if numbers:
            self.session.execute(_NUMBERS, {"rows": _json(numbers)})

    def note_same(self, records: Sequence[Same]) -> None:
        """Note that records were looked at, and are as they were."""
        if records:
            rows = [{name: getattr(one, name) for name in Same.__slots__} for one in records]
            self.session.execute(_UNCHANGED, {"rows": _json(rows)})

    def omit(self, records: Sequence[Omitted]) -> None:
        """Note why records have no rows, and delete those that they had; unreadable ones keep them."""
        if not records:
            return
        gone = [
            one.bibliographic_id
            for one in records
            if one.bibliographic_id is not None and one.kind != UNREADABLE
        ]
        if gone:
            self.session.execute(_DELETE, {"ids": arrays.of_numbers(gone)})
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
        self.session.execute(_OMIT, {**self._scope(), "rows": _json(rows)})

    def forget_omissions(self, keys: Sequence[uuid.UUID]) -> None:
        """Forget why records had no rows, for they have some now."""
        if keys:
            self.session.execute(
                _FORGET_OMISSIONS, {**self._scope(), "keys": arrays.of_texts([key.hex for key in keys])}
            )

    def _scope(self) -> dict[str, Any]:
        return {"repository_id": self.repository_id, "prefix": self.metadata_prefix}

    def _ids(self, records: Sequence[Written]) -> list[int]:
        number = sum(record.bibliographic_id is None for record in records)
        new = iter(self.session.scalars(_NEW_IDS, {"number": number}).all() if number else ())
        return [next(new) if one.bibliographic_id is None else one.bibliographic_id for one in records]


def _placed(ids: Sequence[int], groups: Sequence[list[Values]]) -> list[Values]:
    """The rows that belong to records, each with its record's number and its place."""
    return [
        {"bibliographic_id": number, "position": position, **values}
        for number, group in zip(ids, groups, strict=True)
        for position, values in enumerate(group)
    ]


def _json(rows: Sequence[Values]) -> str:
    return json.dumps(rows, ensure_ascii=False)

"""What is searched for, and the conditions in SQL that restrict the records to it."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from harvester.bibliographic.queries import full_text
from harvester.bibliographic.standard_numbers import find_isbn, find_issn
from harvester.store import arrays


@dataclass(frozen=True, kw_only=True)
class Search:
    """What is searched for; empty fields ask for nothing. Values of one field are alternatives."""

    text: str = ""
    """As `queries` explains."""
    repositories: Sequence[int] = ()
    languages: Sequence[str] = ()
    """ISO 639-2/B codes."""
    kinds: Sequence[str] = ()
    year_from: int | None = None
    year_to: int | None = None
    """Records whose years overlap with these."""
    identifier: str = ""
    """An ISBN or ISSN in any spelling, a control number, a DOI, or any other number, whole."""
    authority_id: str = ""
    """Of a contributor."""


def conditions_of(wanted: Search) -> tuple[list[str], dict[str, Any]]:
    """The conditions in SQL, and their values."""
    conditions, values = ["true"], {}
    words = full_text(wanted.text)
    if words:
        conditions.append("row.words @@ to_tsquery('simple', :words)")
        values["words"] = words
    elif wanted.text.strip():
        conditions.append("false")  # signs alone are found nowhere
    for name, kind, condition in (
        ("repositories", "integer", "row.repository_id = ANY(CAST(:repositories AS integer[]))"),
        ("languages", "text", "row.languages && CAST(:languages AS text[])"),
        ("kinds", "text", "row.kind = ANY(CAST(:kinds AS text[]))"),
    ):
        given = getattr(wanted, name)
        if given:
            conditions.append(condition)
            values[name] = arrays.of_numbers(given) if kind == "integer" else arrays.of_texts(list(given))
    _add_years(wanted, conditions, values)
    _add_numbers(wanted, conditions, values)
    return conditions, values


def _add_years(wanted: Search, conditions: list[str], values: dict[str, Any]) -> None:
    if wanted.year_from is not None:
        conditions.append(
            "COALESCE(row.year_to, CASE WHEN row.year_from IS NOT NULL THEN 9999 END) >= :year_from"
        )
        values["year_from"] = wanted.year_from
    if wanted.year_to is not None:
        conditions.append("COALESCE(row.year_from, row.year_to) <= :year_to")
        values["year_to"] = wanted.year_to


def _add_numbers(wanted: Search, conditions: list[str], values: dict[str, Any]) -> None:
    if wanted.identifier.strip():
        conditions.append(
            "row.bibliographic_id IN (SELECT bibliographic_id FROM bibliographic_identifier"
            " WHERE value = ANY(CAST(:identifiers AS text[])))"
        )
        values["identifiers"] = arrays.of_texts(_spellings(wanted.identifier.strip()))
    if wanted.authority_id.strip():
        conditions.append(
            "row.bibliographic_id IN (SELECT bibliographic_id FROM bibliographic_contributor"
            " WHERE authority_ids <> '{}' AND authority_ids @> CAST(:authority_ids AS text[]))"
        )
        values["authority_ids"] = arrays.of_texts([wanted.authority_id.strip()])


def _spellings(given: str) -> list[str]:
    """The number as given, and as it is kept where it is an ISBN or ISSN."""
    known = [found[0] for found in (find_isbn(given), find_issn(given)) if found is not None]
    return list(dict.fromkeys([given, given.lower(), *known]))

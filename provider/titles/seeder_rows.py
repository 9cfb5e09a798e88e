"""The tables of Seeder's database: the columns that are read, the statements, and their rows.

Names and texts are those in Czech, Seeder's default language.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import date
from typing import Any, Final, LiteralString, TypeVar

import psycopg
from psycopg.rows import class_row

COLUMNS: Final[Mapping[str, tuple[str, ...]]] = {
    "source_source": (
        "id", "active", "name", "annotation", "aleph_id", "issn", "state", "publisher_id", "category_id",
        "sub_category_id",
    ),
    "source_seed": ("id", "active", "source_id", "main_seed", "url", "state", "from_time", "to_time"),
    "source_category": ("id", "name", "name_cs", "name_en"),
    "source_subcategory": ("id", "name", "name_cs", "name_en", "subcategory_id"),
    "source_keyword": ("id", "word"),
    "source_source_keywords": ("source_id", "keyword_id"),
    "publishers_publisher": ("id", "name"),
    "contracts_contract": (
        "id", "created", "state", "creative_commons_type", "valid_from", "valid_to", "year",
        "contract_number",
    ),
    "contracts_contract_sources": ("contract_id", "source_id"),
    "harvests_externaltopiccollection": ("id", "active", "order", "title", "title_cs"),
    "harvests_topiccollection": ("id", "external_collection_id"),
    "harvests_topiccollection_custom_sources": ("topiccollection_id", "source_id"),
    "blacklists_blacklist": ("id", "title", "blacklist_type", "url_list"),
}  # fmt: skip
"""The columns that are read, by table (source/models.py, contracts/models.py and so on)."""
NUMBER_COLUMNS: Final[Mapping[str, tuple[str, ...]]] = {
    "legacy_db_transferrecord": ("original_type_id", "original_id", "target_type_id", "target_id"),
    "django_content_type": ("id", "app_label", "model"),
}
"""Those that give the numbers of subject groups; without them, groups have no numbers."""
TEXT_COLUMNS: Final[Mapping[str, tuple[str, ...]]] = {
    "harvests_externaltopiccollection": ("annotation", "annotation_cs", "image"),
}
"""Those that describe collections; without them, collections have their names only."""
SEED_COLUMNS: Final[Mapping[str, tuple[str, ...]]] = {"harvests_topiccollection": ("custom_seeds",)}
"""Those with the URLs of collections; without them, collections have the captures of their titles only."""
_LACKS: Final = """
SELECT asked.owner, asked.name, asked.relation IS NULL AS no_table, attribute.attnum IS NULL AS no_column
FROM (
    SELECT owner, name, position, to_regclass(quote_ident(owner)) AS relation
    FROM unnest(%s::text[], %s::text[]) WITH ORDINALITY AS given (owner, name, position)
) AS asked LEFT JOIN pg_attribute AS attribute ON attribute.attrelid = asked.relation
    AND attribute.attname = asked.name AND attribute.attnum > 0 AND NOT attribute.attisdropped
WHERE NOT coalesce(has_column_privilege(asked.relation, attribute.attnum, 'SELECT'), false)
ORDER BY asked.position
"""
SOURCES: Final = """
SELECT source.id, source.active, source.state, source.name, source.annotation, source.aleph_id, source.issn,
    publisher.name AS publisher, source.category_id,
    coalesce(nullif(category.name_cs, ''), category.name) AS category, category.name_en AS category_en,
    coalesce(nullif(part.name_cs, ''), part.name) AS part, part.name_en AS part_en,
    part.subcategory_id AS notation
FROM source_source AS source
LEFT JOIN publishers_publisher AS publisher ON publisher.id = source.publisher_id
LEFT JOIN source_category AS category ON category.id = source.category_id
LEFT JOIN source_subcategory AS part ON part.id = source.sub_category_id
ORDER BY source.id
"""
# First the seeds that are harvested: without a main seed, the first one is the title's address.
SEEDS: Final = """
SELECT source_id, id, active, main_seed, url, state, from_time, to_time FROM source_seed
ORDER BY source_id, CASE state WHEN 'inc' THEN 0 WHEN 'old' THEN 1 ELSE 2 END, id
"""
# Valid as in Seeder's `ContractQuerySet.valid`, the newest first as in its `Contract.Meta.ordering`.
CONTRACTS: Final = """
SELECT link.source_id, contract.creative_commons_type, contract.valid_from, contract.valid_to,
    coalesce(contract.contract_number || '/' || contract.year, 'with id ' || contract.id) AS name
FROM contracts_contract_sources AS link JOIN contracts_contract AS contract ON contract.id = link.contract_id
WHERE contract.state = 'VALID' AND (contract.valid_to IS NULL OR contract.valid_to >= current_date)
ORDER BY link.source_id, contract.created DESC, contract.id DESC
"""
KEYWORDS: Final = """
SELECT link.source_id, keyword.word AS name
FROM source_source_keywords AS link JOIN source_keyword AS keyword ON keyword.id = link.keyword_id
"""
# As in Seeder, which ignores whether an internal collection is active.
COLLECTIONS: Final = """
SELECT link.source_id, coalesce(nullif(shown.title_cs, ''), shown.title) AS name
FROM harvests_externaltopiccollection AS shown
JOIN harvests_topiccollection AS internal ON internal.external_collection_id = shown.id
JOIN harvests_topiccollection_custom_sources AS link ON link.topiccollection_id = internal.id
WHERE shown.active
ORDER BY link.source_id, shown."order", shown.id
"""
DESCRIPTIONS: Final = """
SELECT id, coalesce(nullif(title_cs, ''), title) AS title,
    coalesce(nullif(annotation_cs, ''), annotation) AS annotation, nullif(image, '') AS image
FROM harvests_externaltopiccollection WHERE active ORDER BY "order", id
"""
# The size is read without the text, of which one row may have 500 MB.
COLLECTION_SEEDS: Final = """
SELECT internal.external_collection_id, internal.id, octet_length(internal.custom_seeds),
    CASE WHEN octet_length(internal.custom_seeds) <= %s THEN internal.custom_seeds END
FROM harvests_topiccollection AS internal
JOIN harvests_externaltopiccollection AS shown ON shown.id = internal.external_collection_id
WHERE shown.active AND octet_length(internal.custom_seeds) > 0
ORDER BY internal.external_collection_id, internal.id
"""
# All of them: Seeder removes lists that are deleted, and never asks whether one is active.
LISTS: Final = "SELECT id, title, blacklist_type, url_list FROM blacklists_blacklist ORDER BY id"
NUMBERS: Final = """
SELECT record.target_id AS source_id, min(record.original_id)::text AS name
FROM legacy_db_transferrecord AS record
JOIN django_content_type AS original ON original.id = record.original_type_id
JOIN django_content_type AS target ON target.id = record.target_type_id
WHERE (original.app_label, original.model) = ('legacy_db', 'conspectus')
    AND (target.app_label, target.model) = ('source', 'category')
GROUP BY record.target_id HAVING count(DISTINCT record.original_id) = 1
"""


@dataclass(frozen=True, kw_only=True)
class NamedRow:
    """A keyword, collection or number that belongs to a source."""

    source_id: int
    """For the number of a subject group, the category's id."""
    name: str | None


@dataclass(frozen=True, kw_only=True)
class SeedRow:
    """A seed of a source."""

    source_id: int
    id: int
    active: bool
    main_seed: bool
    url: str
    state: str
    from_time: date | None
    to_time: date | None

    @property
    def is_taken(self) -> bool:
        """Whether it becomes a seed of the title."""
        return self.active and bool(self.url.strip())


@dataclass(frozen=True, kw_only=True)
class ContractRow:
    """A valid contract about a source."""

    source_id: int
    name: str
    creative_commons_type: str | None
    valid_from: date | None
    valid_to: date | None


@dataclass(frozen=True, kw_only=True)
class SourceRow:
    """A source, with its publisher and subject."""

    id: int
    active: bool
    state: str
    name: str
    annotation: str | None
    aleph_id: str | None
    issn: str | None
    publisher: str | None
    category_id: int | None
    category: str | None
    category_en: str | None
    part: str | None
    part_en: str | None
    notation: str | None


@dataclass(frozen=True, kw_only=True)
class DescribedRow:
    """A published external collection."""

    id: int
    title: str
    annotation: str | None
    """HTML."""
    image: str | None
    """Path below the folder of Seeder's uploaded files."""


_Row = TypeVar("_Row", NamedRow, SeedRow, ContractRow)
Connection = psycopg.Connection[Any]


def missing_columns(connection: Connection, wanted: Mapping[str, tuple[str, ...]]) -> list[str]:
    """Return in words which tables, columns and rights are missing."""
    pairs = [(table, column) for table, columns in wanted.items() for column in columns]
    found = connection.execute(_LACKS, [[table for table, _ in pairs], [column for _, column in pairs]])
    words = [
        f"no table {table} in the role's search path"
        if no_table
        else f"no column {table}.{column}"
        if no_column
        else f"no right to SELECT {table}.{column}"
        for table, column, no_table, no_column in found
    ]
    return list(dict.fromkeys(words))


def grouped_rows(connection: Connection, kind: type[_Row], query: LiteralString) -> dict[int, list[_Row]]:
    """Return the rows of the query, in its order, by the ids of sources."""
    found: dict[int, list[_Row]] = {}
    with connection.cursor(row_factory=class_row(kind)) as rows:
        for row in rows.execute(query):
            found.setdefault(row.source_id, []).append(row)
    return found

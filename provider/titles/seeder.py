"""Titles from the database of Seeder, the curators' application of Webarchiv (WebarchivCZ/Seeder).

Everything is read in one read-only snapshot, and only the columns of `COLUMNS`, `NUMBER_COLUMNS` and
`TEXT_COLUMNS`: no contact persons, users or comments, and none of the lists of URLs of collections, which may
have 500 MB. Names and texts are those in Czech, Seeder's default language.
"""

import math
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass
from datetime import date
from functools import partial
from typing import Any, Final, LiteralString, TypeVar
from urllib.parse import quote

import psycopg
from lxml import etree, html
from psycopg.conninfo import conninfo_to_dict, make_conninfo
from psycopg.rows import class_row

from oai.errors import RemoteError, UsageError
from provider.models import Access
from provider.titles.entries import AddressList, Read, Refused, Remark, read_entry
from provider.titles.models import SeedKind

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
_TITLES: Final = frozenset({"success", "forced", "terminated", "expired"})
"""States of sources that are or were archived. `expired` is in dumps from before 2022 only."""
_NO_TITLES: Final = frozenset(
    {"voting", "duplicity", "waiting", "reevaluation", "technical", "communication", "vote_accepted",
     "vote_declined", "declined", "ignored"}
)  # fmt: skip
_SEEDS: Final = {"inc": SeedKind.INCLUDE, "old": SeedKind.INCLUDE, "exc": SeedKind.CARVE_OUT}
_BLOCKS: Final = ("p", "br", "div", "li", "h1", "h2", "h3", "h4", "h5", "h6", "tr", "blockquote")
_LIST_KINDS: Final = {0: "for harvests", 1: "for visibility"}
_STATEMENT_SECONDS: Final = 300
_BATCH: Final = 500
_LONGEST: Final = 500
"""Characters of a driver's message that are shown."""
_DEFAULTS: Final = {
    "connect_timeout": 10,
    # A server that vanishes is noticed within a minute.
    "keepalives_idle": 30,
    "keepalives_interval": 10,
    "keepalives_count": 3,
    "application_name": "zatva",
}
"""Parameters of the connection, unless the address has them."""

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
_SOURCES: Final = """
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
_SEED_ROWS: Final = """
SELECT source_id, id, active, main_seed, url, state, from_time, to_time FROM source_seed
ORDER BY source_id, CASE state WHEN 'inc' THEN 0 WHEN 'old' THEN 1 ELSE 2 END, id
"""
# Valid as in Seeder's `ContractQuerySet.valid`, the newest first as in its `Contract.Meta.ordering`.
_CONTRACTS: Final = """
SELECT link.source_id, contract.creative_commons_type, contract.valid_from, contract.valid_to,
    coalesce(contract.contract_number || '/' || contract.year, 'with id ' || contract.id) AS name
FROM contracts_contract_sources AS link JOIN contracts_contract AS contract ON contract.id = link.contract_id
WHERE contract.state = 'VALID' AND (contract.valid_to IS NULL OR contract.valid_to >= current_date)
ORDER BY link.source_id, contract.created DESC, contract.id DESC
"""
_KEYWORDS: Final = """
SELECT link.source_id, keyword.word AS name
FROM source_source_keywords AS link JOIN source_keyword AS keyword ON keyword.id = link.keyword_id
"""
# As in Seeder, which ignores whether an internal collection is active.
_COLLECTIONS: Final = """
SELECT link.source_id, coalesce(nullif(shown.title_cs, ''), shown.title) AS name
FROM harvests_externaltopiccollection AS shown
JOIN harvests_topiccollection AS internal ON internal.external_collection_id = shown.id
JOIN harvests_topiccollection_custom_sources AS link ON link.topiccollection_id = internal.id
WHERE shown.active
ORDER BY link.source_id, shown."order", shown.id
"""
_DESCRIPTIONS: Final = """
SELECT id, coalesce(nullif(title_cs, ''), title) AS title,
    coalesce(nullif(annotation_cs, ''), annotation) AS annotation, nullif(image, '') AS image
FROM harvests_externaltopiccollection WHERE active ORDER BY "order", id
"""
# All of them: Seeder removes lists that are deleted, and never asks whether one is active.
_LISTS: Final = "SELECT id, title, blacklist_type, url_list FROM blacklists_blacklist ORDER BY id"
_NUMBERS: Final = """
SELECT record.target_id AS source_id, min(record.original_id)::text AS name
FROM legacy_db_transferrecord AS record
JOIN django_content_type AS original ON original.id = record.original_type_id
JOIN django_content_type AS target ON target.id = record.target_type_id
WHERE (original.app_label, original.model) = ('legacy_db', 'conspectus')
    AND (target.app_label, target.model) = ('source', 'category')
GROUP BY record.target_id HAVING count(DISTINCT record.original_id) = 1
"""


@dataclass(frozen=True, kw_only=True)
class _Named:
    source_id: int
    """For the number of a subject group, the category's id."""
    name: str | None


@dataclass(frozen=True, kw_only=True)
class _Seed:
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
        return self.active and bool(self.url.strip())


@dataclass(frozen=True, kw_only=True)
class _Contract:
    source_id: int
    name: str
    creative_commons_type: str | None
    valid_from: date | None
    valid_to: date | None


@dataclass(frozen=True, kw_only=True)
class _Source:
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
class _Described:
    """A published external collection."""

    id: int
    title: str
    annotation: str | None
    """HTML."""
    image: str | None
    """Path below the folder of Seeder's uploaded files."""


_Row = TypeVar("_Row", _Named, _Seed, _Contract)
_Connection = psycopg.Connection[Any]


@dataclass(frozen=True, kw_only=True)
class _Around:
    """What belongs to sources, by their ids."""

    seeds: Mapping[int, list[_Seed]]
    contracts: Mapping[int, list[_Contract]]
    keywords: Mapping[int, list[_Named]]
    collections: Mapping[int, list[_Named]]
    numbers: Mapping[int, list[_Named]]
    """Numbers of subject groups, by the ids of categories."""


@dataclass(frozen=True, kw_only=True)
class StateRules:
    """What the state of a source means for its title."""

    public: Collection[str] = ("success",)
    """States of titles that may be listed."""
    ended: Access = Access.READING_ROOM
    """Who may see the captures of terminated and expired sources."""

    def access(self, state: str) -> Access:
        """Return who may see the captures of a source in one of the states that are archived."""
        return {"success": Access.OPEN, "forced": Access.READING_ROOM}.get(state, self.ended)


def read_seeder(
    address: str,
    states: StateRules,
    *,
    media_url: str | None = None,
    statement_seconds: float = _STATEMENT_SECONDS,
) -> Iterator[Read]:
    """Yield the lists and titles of Seeder's database at `postgresql://…`; their keys are the ids there.

    Sources that are not archived are refused by decision. With `media_url`, the URL of Seeder's uploaded
    files, collections have their pictures.
    `statement_seconds` is the time limit for one statement.

    Raises UsageError if the address, the tables or the rights of the role are not those that it needs, and
    RemoteError if the database cannot be reached or stops answering, even after it has yielded titles. Its
    messages never contain the password.
    """
    parameters = _parameters(address)
    place = _place(parameters)
    try:
        with psycopg.connect(make_conninfo(**parameters), client_encoding="utf8") as connection:
            connection.isolation_level = psycopg.IsolationLevel.REPEATABLE_READ
            connection.read_only = True
            connection.prepare_threshold = None  # poolers may not know prepared statements
            limit = str(math.ceil(statement_seconds * 1000))
            connection.execute("SELECT set_config('statement_timeout', %s, true)", [limit])
            yield from _titles(connection, place, states)
            yield from _collections(connection, media_url)
    except psycopg.Error as error:
        raise RemoteError(f"Seeder's database {place}: {_said(error)}; nothing has been imported") from None


def seeder_place(address: str) -> str:
    """Return where a database of Seeder is, without the password. Raises UsageError as `read_seeder` does."""
    return _place(_parameters(address))


def _parameters(address: str) -> dict[str, Any]:
    """Return the address as libpq's parameters, which the messages of libpq may quote in part."""
    try:
        given = conninfo_to_dict(address)
    except psycopg.ProgrammingError:
        given = {}
    numbers = str(given.get("port") or "").replace(",", "")
    words = f"{given.get('host') or ''}{given.get('dbname') or ''}"
    # What follows a sign in the password that is not written as %XX is taken for these.
    if not given or "@" in words or (numbers and not numbers.isdecimal()):
        raise UsageError(
            "the address of Seeder's database cannot be read; write postgresql://USER@HOST:PORT/DATABASE, "
            "with special characters as %XX, and put the password into PGPASSWORD or ~/.pgpass"
        )
    return {**_DEFAULTS, **given}


def _place(parameters: Mapping[str, Any]) -> str:
    """Return where the database is, without the password."""
    user, host, port, name = (parameters.get(part) for part in ("user", "host", "port", "dbname"))
    service = parameters.get("service")
    server = f"{user}@{host or ''}" if user else host or ""
    place = f"{server}{f':{port}' if port else ''}{f'/{name}' if name else ''}"
    return place or (f"of the service {service}" if service else "at libpq's default address")


def _said(error: psycopg.Error) -> str:
    return error.diag.message_primary or " ".join(str(error).split())[:_LONGEST] or type(error).__name__


def _titles(connection: _Connection, place: str, states: StateRules) -> Iterator[Read]:
    lacks = _lacks(connection, COLUMNS)
    if lacks:
        raise UsageError(
            f"Seeder's database {place}: {'; '.join(lacks)}. Expected are the tables of Seeder as of 2026: "
            "apply its migrations (`manage.py migrate`), or grant the rights that docs/how-to/titles.md lists"
        )
    lacks = _lacks(connection, NUMBER_COLUMNS)
    if lacks:
        yield Remark(place="all", words=f"{'; '.join(lacks)}: subject groups have no numbers")
    yield from _lists(connection)
    around = _Around(
        seeds=_grouped(connection, _Seed, _SEED_ROWS),
        contracts=_grouped(connection, _Contract, _CONTRACTS),
        keywords=_grouped(connection, _Named, _KEYWORDS),
        collections=_grouped(connection, _Named, _COLLECTIONS),
        numbers={} if lacks else _grouped(connection, _Named, _NUMBERS),
    )
    with connection.cursor("sources", row_factory=class_row(_Source)) as sources:
        sources.itersize = _BATCH
        for source in sources.execute(_SOURCES):
            yield from _title(source, around, states)


def _collections(connection: _Connection, media_url: str | None) -> Iterator[Read]:
    lacks = _lacks(connection, TEXT_COLUMNS)
    if lacks:
        yield Remark(place="all", words=f"{'; '.join(lacks)}: collections are not described")
        return
    with connection.cursor(row_factory=class_row(_Described)) as rows:
        for position, row in enumerate(rows.execute(_DESCRIPTIONS)):
            yield read_entry(f"collection {row.id}", partial(_description, row, position, media_url))


def _description(row: _Described, position: int, media_url: str | None) -> dict[str, Any]:
    picture = f"{media_url.rstrip('/')}/{quote(row.image)}" if media_url and row.image else None
    return {
        "collection": row.title,
        "annotation": plain_text(row.annotation or "") or None,
        "picture": picture,
        "position": position,
    }


def plain_text(markup: str) -> str:
    """Return the text of HTML, a line for each paragraph or item of a list.

    Markup cannot fail to be read: like a browser, the parser makes something of everything.
    """
    if not markup.strip():
        return ""
    # A line break in HTML is a blank.
    root = html.fragment_fromstring(" ".join(markup.split()), create_parent=True)
    etree.strip_elements(root, "script", "style", etree.Comment, with_tail=False)
    for element in root.iter(*_BLOCKS):
        element.tail = f"\n{element.tail or ''}"
    lines = (" ".join(line.split()) for line in str(root.text_content()).splitlines())
    return "\n".join(filter(None, lines))


def _lacks(connection: _Connection, wanted: Mapping[str, tuple[str, ...]]) -> list[str]:
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


def _lists(connection: _Connection) -> Iterator[AddressList]:
    with connection.cursor("lists") as rows:
        rows.itersize = 1  # a list may have some megabytes
        for number, title, kind, addresses in rows.execute(_LISTS):
            words = _LIST_KINDS.get(kind, f"of the type {kind}")
            yield AddressList(key=str(number), title=title, kind=words, text=addresses)


def _grouped(connection: _Connection, kind: type[_Row], query: LiteralString) -> dict[int, list[_Row]]:
    found: dict[int, list[_Row]] = {}
    with connection.cursor(row_factory=class_row(kind)) as rows:
        for row in rows.execute(query):
            found.setdefault(row.source_id, []).append(row)
    return found


def _title(source: _Source, around: _Around, states: StateRules) -> Iterator[Read]:
    key = str(source.id)
    if not source.active:
        yield Refused(place=key, reason="it is not active", is_decision=True)
    elif source.state in _NO_TITLES:
        yield Refused(place=key, reason=f"its state is {source.state!r}, not archived", is_decision=True)
    elif source.state not in _TITLES:
        known = ", ".join(sorted(_TITLES | _NO_TITLES))
        yield Refused(place=key, reason=f"its state is {source.state!r}; known are {known}")
    else:
        entry = read_entry(key, partial(_values, source, around, states))
        yield entry
        if not isinstance(entry, Refused):
            yield from (Remark(place=key, words=words) for words in _remarks(source, around))


def _values(source: _Source, around: _Around, states: StateRules) -> dict[str, Any]:
    contracts = around.contracts.get(source.id, ())
    begins = [contract.valid_from for contract in contracts if contract.valid_from]
    ends = [contract.valid_to for contract in contracts if contract.valid_to]
    return {
        "key": str(source.id),
        "name": source.name,
        "publisher": source.publisher or None,
        "annotation": source.annotation or None,
        "issn": source.issn or None,
        "catalogue_number": source.aleph_id or None,
        "subjects": _subjects(source, around),
        "keywords": sorted(_names(around.keywords.get(source.id, ()))),
        "collections": _names(around.collections.get(source.id, ())),
        "state": source.state,
        "public": source.state in states.public,
        "access": states.access(source.state),
        "licence": next(filter(None, (one.creative_commons_type for one in contracts)), None),
        "contract_from": min(begins, default=None),
        # An open contract has no end.
        "contract_to": max(ends) if ends and len(ends) == len(contracts) else None,
        "seeds": _seeds(around.seeds.get(source.id, ())),
    }


def _subjects(source: _Source, around: _Around) -> list[dict[str, Any]]:
    if not source.category:
        return []
    numbers = around.numbers.get(source.category_id or 0, ())
    subject = {
        "name": source.category,
        "name_en": source.category_en or None,
        "number": next((one.name for one in numbers), None),
        "notation": source.notation or None,
        "part": source.part or None,
        "part_en": source.part_en or None,
    }
    return [subject]


def _names(found: Collection[_Named]) -> list[str]:
    names = (one.name.strip() for one in found if one.name)
    return list(dict.fromkeys(filter(None, names)))


def _seeds(found: Collection[_Seed]) -> list[dict[str, Any]]:
    unknown = [f"seed {seed.id} has the state {seed.state!r}" for seed in found if seed.state not in _SEEDS]
    if unknown:
        raise ValueError(f"{'; '.join(unknown)}; known are {', '.join(_SEEDS)}")
    mains = [seed.id for seed in found if seed.is_taken and seed.main_seed and seed.state == "inc"]
    return [
        {
            "url": seed.url,
            "kind": _SEEDS[seed.state],
            "main": seed.id in mains[:1],
            "harvested_from": seed.from_time,
            "harvested_to": seed.to_time,
        }
        for seed in found
        if seed.is_taken
    ]


def _remarks(source: _Source, around: _Around) -> Iterator[str]:
    """Yield what its curators should look at."""
    yield from _seed_remarks(around.seeds.get(source.id, ()))
    contracts = around.contracts.get(source.id, ())
    if source.state == "success" and not contracts:
        yield "its state is 'success', but it has no valid contract; the state decides"
    for contract in contracts:
        if source.state != "success":
            yield f"its state is {source.state!r}, but contract {contract.name} is valid; the state decides"
        if contract.valid_from is None:
            yield f"its contract {contract.name} is valid, but does not say since when"
        elif contract.valid_to and contract.valid_from > contract.valid_to:
            yield f"its contract {contract.name} ends on {contract.valid_to}, before it begins"


def _seed_remarks(seeds: Collection[_Seed]) -> Iterator[str]:
    if not any(seed.is_taken and seed.state != "exc" for seed in seeds):
        yield "it has no active seed, and so no captures"
    for seed in seeds:
        if not seed.url.strip():
            yield f"its seed {seed.id} has no URL and is left out"
        elif not seed.active and seed.state == "exc":
            yield f"its carve-out {seed.url!r} is not active and is left out"
        if seed.from_time and seed.to_time and seed.from_time > seed.to_time:
            yield f"its seed {seed.url!r} ends on {seed.to_time}, before it begins on {seed.from_time}"

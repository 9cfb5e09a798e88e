"""Titles from the database of Seeder, the curators' application of Webarchiv (WebarchivCZ/Seeder).

Everything is read in one read-only snapshot, and only the columns of `COLUMNS`, `NUMBER_COLUMNS`,
`TEXT_COLUMNS` and `SEED_COLUMNS`: no contact persons, users or comments. The URLs of a collection may have
500 MB; more than `_MOST_BYTES` are not read. Names and texts are those in Czech, Seeder's default
language.
"""

import math
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any, Final
from urllib.parse import quote

import psycopg
from lxml import etree, html
from psycopg.conninfo import conninfo_to_dict, make_conninfo
from psycopg.rows import class_row

from oai.errors import Phrase, RemoteError, UsageError
from provider.models import Access
from provider.titles.entries import (
    MOST_COLLECTION_SEEDS,
    AddressList,
    NotDescribed,
    Read,
    Refused,
    Remark,
    read_entry,
)
from provider.titles.entry_errors import EntryError
from provider.titles.models import SeedKind
from provider.titles.seeder_rows import (
    COLLECTION_SEEDS,
    COLLECTIONS,
    COLUMNS,
    CONTRACTS,
    DESCRIPTIONS,
    KEYWORDS,
    LISTS,
    NUMBER_COLUMNS,
    NUMBERS,
    SEED_COLUMNS,
    SEEDS,
    SOURCES,
    TEXT_COLUMNS,
    Connection,
    ContractRow,
    DescribedRow,
    NamedRow,
    SeedRow,
    SourceRow,
    grouped_rows,
    missing_columns,
)

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
_MOST_BYTES: Final = 8 * 2**20
"""Of the URLs of one internal collection."""
_DEFAULTS: Final = {
    "connect_timeout": 10,
    # A server that vanishes is noticed within a minute.
    "keepalives_idle": 30,
    "keepalives_interval": 10,
    "keepalives_count": 3,
    "application_name": "zatva",
}
"""Parameters of the connection, unless the address has them."""


@dataclass(frozen=True, kw_only=True)
class _Around:
    """What belongs to sources, by their ids."""

    seeds: Mapping[int, list[SeedRow]]
    contracts: Mapping[int, list[ContractRow]]
    keywords: Mapping[int, list[NamedRow]]
    collections: Mapping[int, list[NamedRow]]
    numbers: Mapping[int, list[NamedRow]]
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
        raise RemoteError(f"Seeder's database {place}: {_reason(error)}; nothing has been imported") from None


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


def _reason(error: psycopg.Error) -> str:
    return error.diag.message_primary or " ".join(str(error).split())[:_LONGEST] or type(error).__name__


def _titles(connection: Connection, place: str, states: StateRules) -> Iterator[Read]:
    lacks = missing_columns(connection, COLUMNS)
    if lacks:
        raise UsageError(
            f"Seeder's database {place}: {'; '.join(lacks)}. Expected are the tables of Seeder as of 2026: "
            "apply its migrations (`manage.py migrate`), or grant the rights that docs/how-to/titles.md lists"
        )
    lacks = missing_columns(connection, NUMBER_COLUMNS)
    if lacks:
        yield Remark(place="all", words=f"{'; '.join(lacks)}: subject groups have no numbers")
    yield from _lists(connection)
    around = _Around(
        seeds=grouped_rows(connection, SeedRow, SEEDS),
        contracts=grouped_rows(connection, ContractRow, CONTRACTS),
        keywords=grouped_rows(connection, NamedRow, KEYWORDS),
        collections=grouped_rows(connection, NamedRow, COLLECTIONS),
        numbers={} if lacks else grouped_rows(connection, NamedRow, NUMBERS),
    )
    with connection.cursor("sources", row_factory=class_row(SourceRow)) as sources:
        sources.itersize = _BATCH
        for source in sources.execute(SOURCES):
            yield from _title(source, around, states)


def _collections(connection: Connection, media_url: str | None) -> Iterator[Read]:
    lacks = missing_columns(connection, TEXT_COLUMNS)
    if lacks:
        yield NotDescribed(place="all", words=f"{'; '.join(lacks)}: collections are not described")
        return
    seeds: dict[int, list[str] | None] = {}
    lacks = missing_columns(connection, SEED_COLUMNS)
    if lacks:
        yield Remark(place="all", words=f"{'; '.join(lacks)}: the URLs of collections stay as they are")
    else:
        seeds, refused = _collection_seeds(connection)
        yield from refused
    with connection.cursor(row_factory=class_row(DescribedRow)) as rows:
        for position, row in enumerate(rows.execute(DESCRIPTIONS)):
            urls = None if lacks else seeds.get(row.id, [])
            values = partial(_description, row, position, media_url, urls)
            yield read_entry(Phrase("collection %(number)s", number=row.id), values)


def _collection_seeds(connection: Connection) -> tuple[dict[int, list[str] | None], list[Refused]]:
    """Return the URLs of external collections by their ids, None if not all could be taken, and why."""
    seeds: dict[int, list[str] | None] = {}
    refused = []
    with connection.cursor("seeds") as rows:
        rows.itersize = 1  # a list may have some megabytes
        for shown, number, size, addresses in rows.execute(COLLECTION_SEEDS, [_MOST_BYTES]):
            before = seeds.get(shown, [])
            together = list(dict.fromkeys([*(before or ()), *(addresses or "").split()]))
            why = None
            if addresses is None:
                why = Phrase(
                    "its custom seeds have %(size)s bytes, and at most %(limit)s are read; the URLs of its "
                    "collection stay as they are",
                    size=f"{size:,}",
                    limit=f"{_MOST_BYTES:,}",
                )
            elif len(together) > MOST_COLLECTION_SEEDS:
                why = Phrase(
                    "it has more than %(limit)s custom seeds; the URLs of its collection stay as they are",
                    limit=f"{MOST_COLLECTION_SEEDS:,}",
                )
            seeds[shown] = None if why or before is None else together
            if why:
                place = Phrase("internal collection %(number)s", number=number)
                refused.append(Refused(place=place, reason=why, is_decision=True))
    return seeds, refused


def _description(
    row: DescribedRow, position: int, media_url: str | None, seeds: list[str] | None
) -> dict[str, Any]:
    picture = f"{media_url.rstrip('/')}/{quote(row.image)}" if media_url and row.image else None
    return {
        "collection": row.title,
        "annotation": plain_text(row.annotation or "") or None,
        "picture": picture,
        "position": position,
        "seeds": seeds,
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


def _lists(connection: Connection) -> Iterator[AddressList]:
    with connection.cursor("lists") as rows:
        rows.itersize = 1  # a list may have some megabytes
        for number, title, kind, addresses in rows.execute(LISTS):
            words = _LIST_KINDS.get(kind, f"of the type {kind}")
            yield AddressList(key=str(number), title=title, kind=words, text=addresses)


def _title(source: SourceRow, around: _Around, states: StateRules) -> Iterator[Read]:
    key = str(source.id)
    if not source.active:
        yield Refused(place=key, reason=Phrase("it is not active"), is_decision=True)
    elif source.state in _NO_TITLES:
        reason = Phrase("its state is %(state)s, not archived", state=repr(source.state))
        yield Refused(place=key, reason=reason, is_decision=True)
    elif source.state not in _TITLES:
        known = ", ".join(sorted(_TITLES | _NO_TITLES))
        reason = Phrase("its state is %(state)s; known are %(known)s", state=repr(source.state), known=known)
        yield Refused(place=key, reason=reason)
    else:
        entry = read_entry(key, partial(_values, source, around, states))
        yield entry
        if not isinstance(entry, Refused):
            yield from (Remark(place=key, words=words) for words in _remarks(source, around))


def _values(source: SourceRow, around: _Around, states: StateRules) -> dict[str, Any]:
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


def _subjects(source: SourceRow, around: _Around) -> list[dict[str, Any]]:
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


def _names(found: Collection[NamedRow]) -> list[str]:
    names = (one.name.strip() for one in found if one.name)
    return list(dict.fromkeys(filter(None, names)))


def _seeds(found: Collection[SeedRow]) -> list[dict[str, Any]]:
    unknown = next((seed for seed in found if seed.state not in _SEEDS), None)
    if unknown is not None:
        raise EntryError(
            "seed %(number)s has the state %(state)s; known are %(known)s",
            number=unknown.id,
            state=repr(unknown.state),
            known=", ".join(_SEEDS),
        )
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


def _remarks(source: SourceRow, around: _Around) -> Iterator[Phrase]:
    """Yield what its curators should look at."""
    yield from _seed_remarks(around.seeds.get(source.id, ()))
    contracts = around.contracts.get(source.id, ())
    if source.state == "success" and not contracts:
        yield Phrase("its state is 'success', but it has no valid contract; the state decides")
    for contract in contracts:
        if source.state != "success":
            yield Phrase(
                "its state is %(state)s, but contract %(name)s is valid; the state decides",
                state=repr(source.state),
                name=contract.name,
            )
        if contract.valid_from is None:
            name = contract.name
            yield Phrase("its contract %(name)s is valid, but does not say since when", name=name)
        elif contract.valid_to and contract.valid_from > contract.valid_to:
            yield Phrase(
                "its contract %(name)s ends on %(day)s, before it begins",
                name=contract.name,
                day=contract.valid_to.isoformat(),
            )


def _seed_remarks(seeds: Collection[SeedRow]) -> Iterator[Phrase]:
    if not any(seed.is_taken and seed.state != "exc" for seed in seeds):
        yield Phrase("it has no active seed, and so no captures")
    for seed in seeds:
        if not seed.url.strip():
            yield Phrase("its seed %(number)s has no URL and is left out", number=seed.id)
        elif not seed.active and seed.state == "exc":
            yield Phrase("its carve-out %(url)s is not active and is left out", url=repr(seed.url))
        if seed.from_time and seed.to_time and seed.from_time > seed.to_time:
            yield Phrase(
                "its seed %(url)s ends on %(day)s, before it begins on %(first_day)s",
                url=repr(seed.url),
                day=seed.to_time.isoformat(),
                first_day=seed.from_time.isoformat(),
            )

"""A database of Seeder: the tables and columns that its migrations create, and rows in them.

They are in the schema `seeder`. Columns that Django fills have defaults instead, keys are not declared, and
there are some columns that must not be read.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final

import psycopg
from psycopg import sql

_STATES: Final = {"-": "exc", "~": "old"}
_TABLES: Final = """
CREATE SCHEMA seeder;
SET search_path TO seeder;
CREATE TABLE source_category (
    id serial PRIMARY KEY, name varchar(150) NOT NULL, name_cs varchar(150), name_en varchar(150),
    slug varchar(50)
);
CREATE TABLE source_subcategory (
    id serial PRIMARY KEY, name varchar(255) NOT NULL, name_cs varchar(255), name_en varchar(255),
    slug varchar(50), category_id integer NOT NULL, subcategory_id varchar(40)
);
CREATE TABLE publishers_publisher (
    id serial PRIMARY KEY, active boolean NOT NULL DEFAULT true, created timestamptz NOT NULL DEFAULT now(),
    last_changed timestamptz NOT NULL DEFAULT now(), name varchar(150) NOT NULL
);
CREATE TABLE source_source (
    id serial PRIMARY KEY, active boolean NOT NULL DEFAULT true, created timestamptz NOT NULL DEFAULT now(),
    last_changed timestamptz NOT NULL DEFAULT now(), name varchar(256) NOT NULL,
    comment text DEFAULT 'secret', annotation text, suggested_by varchar(10), aleph_id varchar(100),
    issn varchar(20), state varchar(15) NOT NULL, frequency integer, screenshot varchar(100),
    screenshot_date timestamptz, dead_source boolean NOT NULL DEFAULT false,
    priority_source boolean NOT NULL DEFAULT false, slug varchar(50),
    publisher_id integer, publisher_contact_id integer, category_id integer NOT NULL,
    sub_category_id integer, owner_id integer NOT NULL DEFAULT 1, created_by_id integer NOT NULL DEFAULT 1
);
CREATE TABLE source_seed (
    id serial PRIMARY KEY, active boolean NOT NULL DEFAULT true, created timestamptz NOT NULL DEFAULT now(),
    last_changed timestamptz NOT NULL DEFAULT now(), source_id integer NOT NULL,
    main_seed boolean NOT NULL DEFAULT false, url varchar(200) NOT NULL, state varchar(15) NOT NULL,
    comment text DEFAULT 'secret', from_time date, to_time date, javascript boolean NOT NULL DEFAULT false,
    global_reject boolean NOT NULL DEFAULT false, youtube boolean NOT NULL DEFAULT false,
    calendars boolean NOT NULL DEFAULT false, local_traps boolean NOT NULL DEFAULT false,
    redirect boolean NOT NULL DEFAULT false, robots boolean NOT NULL DEFAULT false,
    gentle_fetch varchar(10) NOT NULL DEFAULT '', budget integer
);
CREATE TABLE source_keyword (id serial PRIMARY KEY, word varchar(255) NOT NULL UNIQUE, slug varchar(50));
CREATE TABLE source_source_keywords (
    id serial PRIMARY KEY, source_id integer NOT NULL, keyword_id integer NOT NULL
);
CREATE TABLE contracts_contract (
    id serial PRIMARY KEY, active boolean NOT NULL DEFAULT true, created timestamptz NOT NULL DEFAULT now(),
    last_changed timestamptz NOT NULL DEFAULT now(), publisher_id integer NOT NULL DEFAULT 1,
    state varchar(15) NOT NULL, creative_commons_type varchar(128), valid_from date, valid_to date,
    year integer NOT NULL DEFAULT 2020, contract_file varchar(100), contract_number integer,
    in_communication boolean NOT NULL DEFAULT false, description text DEFAULT 'secret',
    parent_contract_id integer
);
CREATE TABLE contracts_contract_sources (
    id serial PRIMARY KEY, contract_id integer NOT NULL, source_id integer NOT NULL
);
CREATE TABLE harvests_externaltopiccollection (
    id serial PRIMARY KEY, active boolean NOT NULL DEFAULT false, created timestamptz NOT NULL DEFAULT now(),
    last_changed timestamptz NOT NULL DEFAULT now(), "order" integer NOT NULL DEFAULT 0,
    title varchar(255) NOT NULL, title_cs varchar(255), title_en varchar(255),
    slug varchar(50) NOT NULL DEFAULT '', owner_id integer NOT NULL DEFAULT 1,
    annotation text NOT NULL DEFAULT '', annotation_cs text, annotation_en text, image varchar(100),
    image_text varchar(32) NOT NULL DEFAULT ''
);
CREATE TABLE harvests_topiccollection (
    id serial PRIMARY KEY, active boolean NOT NULL DEFAULT true, created timestamptz NOT NULL DEFAULT now(),
    last_changed timestamptz NOT NULL DEFAULT now(), external_collection_id integer,
    title varchar(255) NOT NULL, title_cs varchar(255), title_en varchar(255),
    owner_id integer NOT NULL DEFAULT 1, custom_seeds text, seeds_frozen text,
    status integer NOT NULL DEFAULT 1, scheduled_on timestamptz, target_frequency varchar(19),
    annotation text NOT NULL DEFAULT '', annotation_cs text, annotation_en text,
    all_open boolean NOT NULL DEFAULT false, date_from date, date_to date,
    collection_alias varchar(64) NOT NULL DEFAULT '',
    aggregation_with_same_type boolean NOT NULL DEFAULT true, auto_created boolean NOT NULL DEFAULT false
);
CREATE TABLE harvests_topiccollection_custom_sources (
    id serial PRIMARY KEY, topiccollection_id integer NOT NULL, source_id integer NOT NULL
);
CREATE TABLE blacklists_blacklist (
    id serial PRIMARY KEY, active boolean NOT NULL DEFAULT true, created timestamptz NOT NULL DEFAULT now(),
    last_changed timestamptz NOT NULL DEFAULT now(), title varchar(256) NOT NULL,
    blacklist_type integer NOT NULL, url_list text NOT NULL
);
CREATE TABLE django_content_type (
    id serial PRIMARY KEY, app_label varchar(100) NOT NULL, model varchar(100) NOT NULL
);
CREATE TABLE legacy_db_transferrecord (
    id serial PRIMARY KEY, last_update timestamptz NOT NULL DEFAULT now(),
    created timestamptz NOT NULL DEFAULT now(), original_id integer NOT NULL,
    target_id integer NOT NULL, original_type_id integer NOT NULL, target_type_id integer NOT NULL
);
"""


@dataclass
class Seeder:
    """Seeder's database. Methods that add a row return its id."""

    connection: psycopg.Connection
    address: str

    def create(self) -> None:
        """Create the tables."""
        self.connection.execute(_TABLES)

    def drop(self) -> None:
        """Remove all tables."""
        self.connection.execute("DROP SCHEMA seeder CASCADE")

    def add(self, table: str, **values: Any) -> int:
        """Add a row."""
        query = sql.SQL("INSERT INTO {} ({}) VALUES ({}) RETURNING id").format(
            sql.Identifier(table),
            sql.SQL(", ").join(map(sql.Identifier, values)),
            sql.SQL(", ").join(sql.Placeholder() * len(values)),
        )
        row = self.connection.execute(query, list(values.values())).fetchone()
        assert row is not None
        return int(row[0])

    def change(self, table: str, number: int, **values: Any) -> None:
        """Change a row."""
        for name, value in values.items():
            query = sql.SQL("UPDATE {} SET {} = %s WHERE id = %s")
            self.connection.execute(
                query.format(sql.Identifier(table), sql.Identifier(name)), [value, number]
            )

    def source(self, state: str = "success", *urls: str, **values: Any) -> int:
        """Add a source with these seeds; one that begins with `-` is excluded, with `~` old."""
        category = values.pop("category_id", None) or self.add("source_category", name="Hudba")
        source = self.add(
            "source_source", **{"name": "A source", "state": state, "category_id": category, **values}
        )
        for url in urls:
            self.seed(source, url.lstrip("-~"), state=_STATES.get(url[:1], "inc"))
        return source

    def seed(self, source: int, url: str, **values: Any) -> int:
        """Add a seed."""
        return self.add("source_seed", **{"source_id": source, "url": url, "state": "inc", **values})

    def contract(self, *sources: int, **values: Any) -> int:
        """Add a contract for these sources, which is valid."""
        contract = self.add("contracts_contract", **{"state": "VALID", "valid_from": "2015-01-01", **values})
        for source in sources:
            self.add("contracts_contract_sources", contract_id=contract, source_id=source)
        return contract

    def keywords(self, source: int, *words: str) -> None:
        """Add keywords, and assign them to the source."""
        for word in words:
            keyword = self.add("source_keyword", word=word)
            self.add("source_source_keywords", source_id=source, keyword_id=keyword)

    def collection(self, *sources: int, internals: int = 1, seeds: Sequence[str] = (), **values: Any) -> int:
        """Add an external collection, and internal ones with these sources and one of these texts each."""
        shown = self.add("harvests_externaltopiccollection", **{"active": True, **values})
        link = "harvests_topiccollection_custom_sources"
        for number in range(max(internals, len(seeds))):
            text = seeds[number] if number < len(seeds) else None
            internal = self.add(
                "harvests_topiccollection", title="internal", external_collection_id=shown, custom_seeds=text
            )
            for source in sources:
                self.add(link, topiccollection_id=internal, source_id=source)
        return shown

    def addresses(self, title: str, *lines: str, kind: int = 1) -> int:
        """Add a list of addresses, as its form does."""
        return self.add("blacklists_blacklist", title=title, blacklist_type=kind, url_list="\r\n".join(lines))

    def number(self, category: int, number: int, model: str = "conspectus") -> None:
        """Store the number that a category had in the database before Seeder."""
        self.add(
            "legacy_db_transferrecord",
            original_type_id=self.add("django_content_type", app_label="legacy_db", model=model),
            original_id=number,
            target_type_id=self.add("django_content_type", app_label="source", model="category"),
            target_id=category,
        )

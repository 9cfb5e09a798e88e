"""Titles imported into the archive of a test."""

import itertools
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from sqlalchemy import select, text
from sqlalchemy.orm import Session

from oai.database import Database
from oai.sections.provider import ListMeaning
from provider.holdings.mark import advance_mark
from provider.models import UNLISTED, Document
from provider.titles.access import settle_access
from provider.titles.entries import Read, TitleEntry
from provider.titles.imports import NO_MEANINGS, ImportPlan, apply_import, plan_import
from provider.titles.models import Title
from provider.titles.publication import count_new
from provider.titles.ranges import Conflict, RangeRules

RULES = RangeRules()
_DATES = itertools.count()


def entry(key: str, *urls: str, **values: Any) -> TitleEntry:
    """Return a title with these seeds; one that begins with `-` is a carve-out."""
    seeds = [
        {"url": url.removeprefix("-"), "kind": "carve-out" if url.startswith("-") else "include"}
        for url in urls
    ]
    return TitleEntry.model_validate(
        {"key": key, "name": f"Title {key}", "publisher": "P", "seeds": seeds, **values}
    )


@dataclass
class Titles:
    """Imports titles, and returns stored ones."""

    database: Database
    rules: RangeRules = RULES

    def plan(
        self, *entries: Read, source: str = "test", meanings: Mapping[str, ListMeaning] = NO_MEANINGS
    ) -> ImportPlan:
        with self.database.session() as session:
            return plan_import(session, source, entries, self.rules, meanings)

    def bring(
        self, *entries: Read, source: str = "test", meanings: Mapping[str, ListMeaning] = NO_MEANINGS
    ) -> Sequence[Conflict]:
        """Import all of the source's titles and lists, with datestamps in the past."""
        with self.database.session() as session:
            plan = plan_import(session, source, entries, self.rules, meanings)
            conflicts = apply_import(session, plan, self.rules, margin=0)
            self.make_due(session)
        return conflicts

    def count(self) -> int:
        """Count new captures; return how many titles have a new datestamp."""
        with self.database.session() as session:
            changed = count_new(session, margin=0)
            self.make_due(session)
        return changed

    def __getitem__(self, key: str) -> Title:
        with self.database.session() as session:
            return session.scalars(select(Title).where(Title.source_key == key)).one()

    @staticmethod
    def make_due(session: Session) -> None:
        """Give titles published just now the next date of a past year as datestamp."""
        session.execute(
            text(
                "UPDATE title SET datestamp = :date"
                " WHERE datestamp BETWEEN now() - interval '1 day' AND now() + interval '1 day'"
            ),
            {"date": datetime(2021, 1, 1, tzinfo=UTC) + timedelta(days=next(_DATES))},
        )
        session.execute(
            text(
                "UPDATE title_membership AS own SET datestamp = title.datestamp FROM title"
                " WHERE title.title_id = own.title_id"
            )
        )
        session.commit()
        advance_mark(session)


@pytest.fixture
def titles(database: Database) -> Titles:
    return Titles(database)


def settle(database: Database) -> int:
    """Apply changed rules and sets to documents; return how many changed."""
    with database.session() as session:
        return settle_access(session, margin=1)


def datestamps(database: Database) -> dict[str, datetime]:
    """Return the datestamp of each document, by URL."""
    with database.session() as session:
        return {row.url: row.datestamp for row in session.execute(select(Document.url, Document.datestamp))}


def make_documents_due(database: Database) -> None:
    """Date listed documents to a year that is over, in their order."""
    date = "UPDATE document SET datestamp = timestamptz '2021-01-01Z' + make_interval(secs => id)"
    follow = "UPDATE document_collection AS own SET datestamp = document.datestamp FROM document"
    with database.session() as session:
        session.execute(text(f"{date} WHERE datestamp <> :unlisted"), {"unlisted": UNLISTED})
        session.execute(text(f"{follow} WHERE document.id = own.document_id"))
        session.commit()
        advance_mark(session)

"""Capture counts of titles after random changes, compared with counting all documents."""

import random
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from threading import Thread
from typing import Any, Final

import pytest
from sqlalchemy import select, text

from oai.database import Database
from provider.holdings.mark import advance_mark, reserve
from provider.models import UNLISTED, Document
from provider.titles.capture_counts import forget_figures, hold_figures
from provider.titles.imports import apply_import, plan_import, preview_import
from provider.titles.models import Title, TitleSegment
from provider.titles.publication import count_new
from tests.provider.archive import Archive, let_keys_be_missing
from tests.provider.served import until
from tests.provider.titles.conftest import RULES, Titles, entry

SITE: Final = "http://a.cz/"
_PATHS: Final = ("", "x/", "x/1", "x/y/", "x/y/1", "z/")
_CHANGES: Final = (
    "deleted = true",
    "deleted = false",
    "access = 'withheld'",
    "access = 'open'",
    "length = length + 1",
)
_WAITING: Final = """
SELECT count(*) FROM pg_locks JOIN pg_database ON pg_database.oid = pg_locks.database
WHERE datname = current_database() AND locktype = 'advisory' AND NOT granted
"""
_CHANGE: Final = """
UPDATE document SET {}, datestamp = :date
WHERE id IN (SELECT id FROM document ORDER BY md5(concat(id, ' ', CAST(:salt AS text))) LIMIT 2)
"""


def _stored(database: Database) -> Mapping[str, Any]:
    with database.session() as session:
        return {
            title.source_key: (
                title.captures,
                title.first_capture,
                title.last_capture,
                {int(year): number for year, number in title.captures_by_year.items()},
            )
            for title in session.scalars(select(Title))
        }


def _by_brute_force(database: Database) -> Mapping[str, Any]:
    with database.session() as session:
        segments = session.scalars(select(TitleSegment)).all()
        documents = session.scalars(select(Document)).all()
        moments: dict[int, list[datetime]] = {}
        for one in documents:
            for segment in segments:
                is_inside = segment.low <= (one.url_key or "") < segment.high and not segment.is_carve_out
                listed = not one.deleted and one.access != "withheld"
                if is_inside and listed and segment.title_id is not None:
                    moments.setdefault(segment.title_id, []).append(one.archived)
        return {
            title.source_key: _figures(moments.get(title.title_id, []))
            for title in session.scalars(select(Title))
        }


def _figures(found: list[datetime]) -> tuple[Any, ...]:
    years = Counter(moment.year for moment in found)
    return len(found), min(found, default=None), max(found, default=None), dict(years)


@dataclass(kw_only=True)
class Steps:
    """Random changes of an archive and its titles, each in a separate transaction."""

    database: Database
    archive: Archive
    chance: random.Random

    def add(self) -> None:
        with self.database.session() as session:
            date = reserve(session, 1)
            for _ in range(self.chance.randint(1, 6)):
                access = self.chance.choice(("open", "reading room", "withheld"))
                # A title is counted again without its first or last capture; few captures are one.
                archived = datetime(2010, 1, 1, tzinfo=UTC) + timedelta(days=self.chance.randrange(1500))
                self.archive.add(
                    f"{SITE}{self.chance.choice(_PATHS)}",
                    datestamp=UNLISTED if access == "withheld" else date,
                    archived=archived,
                    access=access,
                )
            session.rollback()

    def change(self) -> None:
        """Change two documents like staff, take-downs and indexing."""
        values: dict[str, object] = {"salt": str(self.chance.random())}
        with self.database.session() as session:
            values["date"] = reserve(session, 1)
            session.execute(text(_CHANGE.format(self.chance.choice(_CHANGES))), values)
            session.commit()

    def bring(self) -> None:
        """Import up to four titles with random seeds, and one with a carve-out; all others are removed."""
        wanted = [
            entry(str(number), *(f"{SITE}{path}" for path in self.chance.sample(_PATHS, 2)))
            for number in range(self.chance.randint(1, 4))
        ]
        bring(self.database, *wanted, entry("carved", SITE, f"-{SITE}{self.chance.choice(_PATHS)}"))

    def count(self) -> None:
        with self.database.session() as session:
            count_new(session, margin=0)
            session.commit()
            advance_mark(session)


def bring(database: Database, *entries: Any) -> None:
    with database.session() as session:
        apply_import(session, plan_import(session, "test", entries, RULES), RULES, margin=0)
        session.commit()


@pytest.mark.parametrize("seed", [0, *(pytest.param(seed, marks=pytest.mark.long) for seed in (1, 2))])
def test_counts_equal_a_count_of_all_documents_after_any_changes(
    database: Database, archive: Archive, seed: int
) -> None:
    chance = random.Random(seed)
    steps = Steps(database=database, archive=archive, chance=chance)
    for _ in range(5):
        steps.add()
    steps.bring()
    for _ in range(8):
        for step in chance.choices((steps.add, steps.change, steps.bring), (3, 4, 1), k=3):
            step()
            if chance.random() < 0.3:
                steps.count()
        steps.count()
        assert _stored(database) == _by_brute_force(database)


def test_counting_adds_only_changed_documents(database: Database, titles: Titles, archive: Archive) -> None:
    archive.add(SITE)
    titles.bring(entry("1", SITE))
    with database.session() as session:
        session.execute(text("UPDATE title SET captures = 1000"))
        date = reserve(session, 1)
        session.commit()
    archive.add(SITE, datestamp=date)
    titles.count()
    assert titles["1"].captures == 1001


def test_a_change_committed_after_a_count_is_included_in_the_next_count(
    database: Database, titles: Titles, archive: Archive
) -> None:
    archive.add(SITE)
    archive.add(f"{SITE}x/1")
    titles.bring(entry("1", SITE))
    with database.session() as session:
        date = reserve(session, 1)
        session.execute(text("UPDATE document SET deleted = true, datestamp = :date"), {"date": date})
        titles.count()
        bring(database, entry("1", SITE), entry("2", f"{SITE}x/"))
        assert (titles["1"].captures, titles["2"].captures) == (1, 1)
        session.commit()
    titles.count()
    assert (titles["1"].captures, titles["2"].captures) == (0, 0)


@pytest.mark.copied_database("changes the table")
def test_a_document_is_counted_once_its_key_is_filled(
    database: Database, titles: Titles, archive: Archive
) -> None:
    let_keys_be_missing(database)
    archive.add(SITE, url_key=None)
    titles.bring(entry("1", SITE))
    assert titles["1"].captures == 0
    with database.session() as session:
        session.execute(text("UPDATE document SET url_key = 'cz,a)/'"))
        forget_figures(session)
        session.commit()
    titles.count()
    assert titles["1"].captures == 1


def test_an_import_locks_no_title_while_it_waits_for_a_count(database: Database, titles: Titles) -> None:
    titles.bring(entry("1", SITE))
    with database.session() as session:
        hold_figures(session)
        importing = Thread(target=bring, args=(database, entry("1", SITE, publisher="Other")))
        importing.start()
        until(lambda: session.scalar(text(_WAITING)))
        session.execute(text("SELECT FROM title FOR UPDATE NOWAIT"))
        session.commit()
    importing.join()
    assert titles["1"].publisher == "Other"


def test_previews_of_imports_use_no_numbers_of_titles(database: Database, titles: Titles) -> None:
    titles.bring(entry("1", SITE))
    with database.session() as session:
        for _ in range(3):
            wanted = (entry("1", SITE), entry("2", f"{SITE}x/"))
            assert not preview_import(session, plan_import(session, "test", wanted, RULES), RULES)
            session.rollback()
    titles.bring(entry("1", SITE), entry("2", f"{SITE}x/"))
    assert titles["2"].title_id == titles["1"].title_id + 1


def test_a_preview_of_an_import_does_not_delay_the_mark(database: Database, archive: Archive) -> None:
    archive.add(SITE)
    held = text("SELECT count(*) FROM pg_locks WHERE locktype = 'advisory' AND classid = 0x5A50")
    with database.session() as session:
        plan = plan_import(session, "test", [entry("1", SITE)], RULES)
        preview_import(session, plan, RULES)
        assert session.scalar(held) == 0
        session.rollback()
        apply_import(session, plan, RULES, margin=0)
        assert session.scalar(held) == 1

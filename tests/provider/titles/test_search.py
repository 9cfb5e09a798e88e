"""The search in titles."""

import pytest
from alembic.script import ScriptDirectory
from sqlalchemy import text

from oai import migrations
from oai.database import Database
from provider.titles import search
from provider.titles.entries import CollectionEntry
from tests.plans import work_of
from tests.provider.archive import Archive
from tests.provider.titles.conftest import Titles, entry
from tests.provider.titles.test_repository import FULL

MAGAZINE = entry("9", "http://rez.cz/", name="Řežavý časopis")
_MANY_TITLES = """
INSERT INTO title_set (set_spec, name)
SELECT 'publisher:' || number, 'Publisher ' || number FROM generate_series(1, {sets}) AS number;
INSERT INTO title (title_id, key, source, source_key, name, public, datestamp)
SELECT number, gen_random_uuid(), 'list', number::text, 'Title ' || number, true, now()
FROM generate_series(1, 5000) AS number;
INSERT INTO title_search (title_id, key, sort_name, words) SELECT title_id, key, name, '' FROM title;
INSERT INTO title_membership (title_id, set_spec, datestamp, key)
SELECT title_id, 'publisher:' || 1 + title_id % {sets}, datestamp, key FROM title;
ANALYZE title, title_set, title_search, title_membership;
"""


def test_a_position_in_a_list_stays_valid_when_its_title_is_removed(
    titles: Titles, archive: Archive, database: Database
) -> None:
    archive.add("http://www.example.cz/")
    archive.add("http://rez.cz/")
    titles.bring(FULL, MAGAZINE)
    titles.bring(MAGAZINE)
    with database.session() as session:
        page = search.find_titles(session, search.TitleQuery(after=titles["1"].key))
    assert [title.name for title in page.titles] == ["Řežavý časopis"]


def test_only_the_selected_set_is_offered_if_there_are_too_many(
    titles: Titles, archive: Archive, database: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(search, "MOST_CHOICES", 1)
    archive.add("http://www.example.cz/")
    hidden = CollectionEntry(collection="Hidden", annotation="secret")
    titles.bring(FULL.model_copy(update={"collections": ("A", "B")}), hidden)
    with database.session() as session:
        assert search.choices(session, "collection", None) == []
        assert search.choices(session, "collection", "b") == [("b", "B")]
        assert search.choices(session, "collection", "hidden") == []
        assert search.choices(session, "subject", None) == [("1", "Kulturní politika")]


def test_sets_of_titles_are_offered_sorted_regardless_of_accents(
    titles: Titles, archive: Archive, database: Database
) -> None:
    archive.add("http://www.example.cz/")
    titles.bring(FULL.model_copy(update={"collections": ("Zima", "Čaj", "Cesty", "dům")}))
    with database.session() as session:
        names = [name for _part, name in search.choices(session, "collection", None)]
    assert names == ["Čaj", "Cesty", "dům", "Zima"]


def test_the_number_of_found_titles_is_counted_up_to_a_limit(
    titles: Titles, archive: Archive, database: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(search, "MOST_COUNTED", 1)
    archive.add("http://www.example.cz/")
    archive.add("http://rez.cz/")
    titles.bring(FULL, MAGAZINE)
    with database.session() as session:
        page = search.find_titles(session, search.TitleQuery())
    assert (page.count, page.more) == (1, True)


def test_the_search_text_is_updated_with_the_title(
    titles: Titles, archive: Archive, database: Database
) -> None:
    archive.add("http://www.example.cz/")
    titles.bring(FULL, MAGAZINE)
    titles.bring(FULL.model_copy(update={"name": "Nový název"}), MAGAZINE)
    with database.session() as session:
        found = [
            [title.name for title in search.find_titles(session, search.TitleQuery(words=asked)).titles]
            for asked in ("novy", "priklad")
        ]
    assert found == [["Nový název"], []]


def test_the_migration_fills_the_search_table_as_imports_do(
    titles: Titles, archive: Archive, database: Database
) -> None:
    archive.add("http://www.example.cz/")
    titles.bring(FULL, MAGAZINE)
    rows = text("SELECT title_id, key, sort_name, words FROM title_search")
    fill = ScriptDirectory(str(migrations.folder())).get_revision("0049").module.FILL
    with database.session() as session:
        before = session.execute(rows).all()
        session.execute(text("DELETE FROM title_search"))
        session.execute(text(fill))
        assert session.execute(rows).all() == before != []


@pytest.mark.parametrize("sets", [10, 1000])
@pytest.mark.copied_database("changes statistics")
def test_offering_the_sets_of_titles_reads_no_other_memberships(database: Database, sets: int) -> None:
    with database.session() as session:
        session.execute(text(_MANY_TITLES.format(sets=sets)))
        with work_of(database, "title_set") as work:
            found = search.choices(session, "publisher", None)
    assert len(found) == (sets if sets < search.MOST_CHOICES else 0)
    assert max(work) < 2000

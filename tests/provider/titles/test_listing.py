"""Titles for those who maintain them: found by name, whether they are listed or not."""

import pytest

from provider.titles.listing import find_by_name
from tests.provider.titles.conftest import Titles, entry


def test_titles_are_found_by_names_publisher_and_key(titles: Titles) -> None:
    titles.bring(
        entry("web-1", name="Město Nové", alternative_names=["Staré Město"], publisher="Čas"),
        entry("2", name="Vesnice", public=False),
    )
    with titles.database.session() as session:
        found = {
            words: [one.source_key for one in find_by_name(session, words, limit=5)]
            for words in ("mesto NOVE", "stare", "cas mesto", "WEB-1", "100%", "vesnice", "title x")
        }

    assert found == {
        "mesto NOVE": ["web-1"], "stare": ["web-1"], "cas mesto": ["web-1"], "WEB-1": ["web-1"], "100%": [],
        "vesnice": ["2"], "title x": [],
    }  # fmt: skip


def test_a_search_by_name_searches_the_last_titles(titles: Titles, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("provider.titles.listing.MOST_SEARCHED", 2)
    titles.bring(*[entry(key) for key in "1234"])
    with titles.database.session() as session:
        found = [one.source_key for one in find_by_name(session, "title", limit=5)]
        first = find_by_name(session, "title", limit=1)

    assert found == ["4", "3"]
    assert [one.source_key for one in first] == ["4"]

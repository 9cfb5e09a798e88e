"""Exports: what is written is imported again without a change, whatever characters it has."""

from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from oai.database import Database
from provider.titles.entries import READERS, CollectionEntry, Read
from provider.titles.export import EXPORTS
from tests.provider.titles.conftest import Titles, entry

SITE = "http://www.example.cz/"
_DATES = {"harvested_from": "2020-01-31", "harvested_to": "2021-01-31"}
_FULL: dict[str, Any] = {
    "alternative_names": ["A; B", "C", "", '["D"]'],
    "publisher": "=Čas", "annotation": "'+1\r\n\n\"x\", ;\ty",
    "languages": ["cze", "eng"], "issn": "1234-5679", "catalogue_number": "-1", "classification": ["[1]"],
    "subjects": [
        {"name": "Hudba", "number": 9, "part": "Opera", "notation": "782", "name_en": "Music"},
        {"name": "8: x"},
    ],
    "keywords": ["'=a", "b"], "collections": ["Volby", "Sport"], "state": "", "public": False,
    "access": "reading room", "licence": "https://creativecommons.org/licenses/by/3.0/cz/",
    "contract_from": "2020-01-31", "contract_to": "2120-01-31",
    "seeds": [
        {"url": "http://b.cz/", "kind": "carve-out"}, {"url": SITE, "main": True}, {"url": "x y"},
        {"url": "http://c.cz/", **_DATES},
    ],
}  # fmt: skip
"""Everything that a title can have."""
_COLLECTIONS = (
    CollectionEntry(
        collection="Volby", annotation="", picture="http://x.cz/a.jpg", position=0, seeds=(SITE,)
    ),
    CollectionEntry(collection="Sport", annotation="-", seeds=("http://s.cz/ 1", "http://s.cz/2")),
)


@pytest.fixture(params=sorted(EXPORTS))
def kind(request: pytest.FixtureRequest) -> str:
    return str(request.param)


def _exported(database: Database, kind: str, source: str = "test") -> str:
    with database.session() as session:
        return "".join(EXPORTS[kind](session, source))


def _read(folder: Path, kind: str, content: str) -> list[Read]:
    file = folder / "titles"
    file.write_bytes(content.encode())
    return list(READERS[kind](file))


def test_an_export_has_everything_that_the_import_needs(titles: Titles, kind: str, tmp_path: Path) -> None:
    plain = entry("2", SITE, "-http://b.cz/", keywords=["a", "b"], subjects=[{"name": "Hudba", "number": 9}])
    titles.bring(plain, entry("1", **_FULL), entry("3"), *_COLLECTIONS)

    found = _read(tmp_path, kind, _exported(titles.database, kind))
    plan = titles.plan(*found)

    assert (plan.changes_nothing, plan.unchanged, plan.not_taken) == (True, 3, []), plan


def test_urls_with_the_separators_of_other_columns_are_exported(
    titles: Titles, kind: str, tmp_path: Path
) -> None:
    urls = ("http://a.cz/;http://b.cz/", "http://c.cz/,")
    titles.bring(
        entry("1", *urls),
        entry("2", SITE, "-http://a.cz/x;"),
        entry("3", collections=["Volby"]),
        CollectionEntry(collection="Volby", seeds=urls),
    )

    plan = titles.plan(*_read(tmp_path, kind, _exported(titles.database, kind)))

    assert (plan.changes_nothing, plan.unchanged, plan.not_taken) == (True, 3, []), plan


def test_an_export_leaves_out_titles_that_are_gone_and_other_sources(
    titles: Titles, kind: str, tmp_path: Path
) -> None:
    titles.bring(entry("1"), entry("2"))
    titles.bring(entry("1"))
    titles.bring(entry("3"), source="other")

    found = _read(tmp_path, kind, _exported(titles.database, kind))

    assert [getattr(one, "key", None) for one in found] == ["1"]


def test_an_export_has_more_titles_than_one_query_reads(titles: Titles, kind: str, tmp_path: Path) -> None:
    many = [entry(f"{number}", f"http://x.cz/{number}") for number in range(1001)]
    titles.bring(*many)

    found = _read(tmp_path, kind, _exported(titles.database, kind))

    assert found == many


def test_cells_are_plain_where_they_can_be(titles: Titles) -> None:
    titles.bring(
        entry("1", SITE, "-http://b.cz/", keywords=["a", "b"], subjects=[{"name": "Hudba", "number": 9}])
    )

    header, row = _exported(titles.database, "csv").splitlines()

    assert header.startswith("\ufeffkey,name,alternative_names,")
    assert row == f"1,Title 1,,P,,,,,,9: Hudba,a; b,,,yes,,,,,{SITE},http://b.cz/"


def test_a_cell_may_have_many_characters(titles: Titles, tmp_path: Path) -> None:
    long = entry("1", *[f"http://x.cz/{'a' * 1000}/{number}" for number in range(200)])
    titles.bring(long)

    assert _read(tmp_path, "csv", _exported(titles.database, "csv")) == [long]


def test_a_cell_that_begins_like_a_list_and_is_none_is_refused(tmp_path: Path) -> None:
    (refused,) = _read(tmp_path, "csv", 'key,name,seeds,keywords\n1,A,,"[""a"", b]"\n')
    assert "not JSON" in str(getattr(refused, "reason", ""))


_TEXT = st.text(alphabet=st.characters(exclude_characters="\0", exclude_categories=["Cs"]), max_size=8)


@settings(max_examples=30, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    name=_TEXT.map(lambda text: f"a{text}"),
    texts=st.lists(_TEXT | st.sampled_from(["=1", "'-1", ";", '["']), max_size=3),
    value=_TEXT | st.sampled_from(["=1", "'-1", '["']),
    urls=st.lists(_TEXT.filter(str.strip), max_size=3),
)
def test_any_text_survives_an_export(
    titles: Titles, tmp_path: Path, name: str, texts: list[str], value: str, urls: list[str]
) -> None:
    seeds = [{"url": f"x{url}"} for url in urls]
    subjects = [{"name": f"9:{text}x"} for text in texts]
    titles.bring(entry("1", name=name, keywords=texts, annotation=value, seeds=seeds, subjects=subjects))

    for kind in EXPORTS:
        plan = titles.plan(*_read(tmp_path, kind, _exported(titles.database, kind)))
        assert (plan.changes_nothing, plan.not_taken) == (True, [])

"""Search ignores accents, pages by key, and counts by facet."""

import asyncio
import base64
import json

import pytest
from sqlalchemy import func, select

from harvester.bibliographic.facets import FacetCount, count_facets
from harvester.bibliographic.record_view import get_record
from harvester.bibliographic.search import (
    FoundWords,
    Search,
    SearchOrder,
    full_text,
    search,
)
from harvester.bibliographic.sources import SourceSettings, check_template, save_source
from oai.database import Database
from oai.errors import UsageError
from oai.settings import Settings
from tests.harvester.bibliographic.conftest import Catalogue, harvested


@pytest.fixture(scope="module")
def filled(
    shared_database: Database, shared_settings: Settings, tmp_path_factory: pytest.TempPathFactory
) -> Catalogue:
    """Three imported records, which the tests only read."""

    async def imported() -> Catalogue:
        folder = tmp_path_factory.mktemp("store")
        async with harvested(shared_database, shared_settings, folder, {}) as catalogue:
            catalogue.imported()
            return catalogue

    return asyncio.run(imported())


def _found(catalogue: Catalogue, **wanted: object) -> list[str]:
    with catalogue.database.session() as session:
        return sorted(hit.title for hit in search(session, Search(**wanted)).hits)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("text", "titles"),
    [
        ("kaciru", ["Knihy kacířů"]),
        ("KACÍŘŮ", ["Knihy kacířů"]),
        ("kniha", ["Knihy kacířů"]),
        ('"stare cestiny"', ["Slovník staré češtiny"]),
        ('"cestiny stare"', []),
        ("hus", ["Knihy kacířů"]),
        ("nareci", ["The Czech Language"]),
        ("slovnik or knihy", ["Knihy kacířů", "Slovník staré češtiny"]),
        ("slovnik -cestin", []),
        ("978-80-200-0129-0", ["Slovník staré češtiny"]),
        ("8020001298", ["Slovník staré češtiny"]),
        ("nr2", ["Slovník staré češtiny"]),
        ("&", []),
        ("", ["Knihy kacířů", "Slovník staré češtiny", "The Czech Language"]),
    ],
)
def test_records_are_found_by_words(filled: Catalogue, text: str, titles: list[str]) -> None:
    assert _found(filled, text=text) == titles


@pytest.mark.parametrize("words", ["slovensko 1918 1922", "slovensko issn 19181922"])
def test_a_span_of_years_is_found_even_if_it_could_be_an_issn(filled: Catalogue, words: str) -> None:
    query = func.to_tsquery("simple", full_text("Slovensko 1918-1922"))
    with filled.database.session() as session:
        assert session.scalar(select(func.to_tsvector("simple", words).bool_op("@@")(query)))


@pytest.mark.parametrize(
    ("query", "marked"),
    [
        ("kniha", ["knihy", "kníh"]),
        ("KACÍŘŮ", ["kacířů"]),
        ('"stare knihy"', ["Staré", "knihy"]),
        ("sto -knihy", ["století", "Století"]),
        ("kacir or of", ["kacířů", "of"]),
        ("o", []),
        ("", []),
    ],
)
def test_words_of_the_query_are_marked_in_hits(query: str, marked: list[str]) -> None:
    title = "Staré knihy kacířů, století kníh; Století of l'art"
    pieces = FoundWords.of(query).split(title)

    assert "".join(text for text, _hit in pieces) == title
    assert [text for text, hit in pieces if hit] == marked


def test_identifiers_and_authority_ids_are_matched_whole(filled: Catalogue) -> None:
    assert _found(filled, identifier="80-200-0129-8") == ["Slovník staré češtiny"]
    assert _found(filled, identifier="nr3") == ["The Czech Language"]
    assert _found(filled, authority_id="jn19981001473") == ["Knihy kacířů"]
    assert _found(filled, identifier="nr") == []


async def test_numbers_are_found_in_the_form_in_which_the_record_has_them(catalogue: Catalogue) -> None:
    catalogue.put(4, "024 7# $a10.1000/ABC.1$2doi", "024 2# $aM-2600-0043-8", "245 10 $aNoty")
    catalogue.put(
        5, "245 10 $aČlánek", "500 ## $aISBN 80-200-1333-4 na obálce", "773 0# $tVěstník$x0317-8471"
    )
    await catalogue.harvest()
    catalogue.imported()
    for number in ("80-200-1333-4", '"ISBN 80-200-1333-4"', "0317-8471", "03178471"):
        assert _found(catalogue, text=number) == ["Článek"]
    for number in (
        "https://doi.org/10.1000/ABC.1",
        "doi:10.1000/abc.1",
        "M-2600-0043-8",
        "979-0-2600-0043-8",
    ):
        assert _found(catalogue, identifier=number) == ["Noty"]
        assert _found(catalogue, text=number) == ["Noty"]


def test_restrictions_are_combined(filled: Catalogue) -> None:
    assert len(_found(filled, languages=["cze"], kinds=["book"], year_from=2010, year_to=2020)) == 3
    assert _found(filled, languages=["ger"]) == []
    assert _found(filled, year_to=2014) == []
    assert _found(filled, year_from=2016) == []
    assert _found(filled, repositories=[filled.repository_id + 1]) == []


@pytest.mark.parametrize("order", list(SearchOrder))
def test_paging_by_key_returns_each_record_once(filled: Catalogue, order: SearchOrder) -> None:
    wanted = Search(text="kniha or slovnik or czech")
    seen = []
    after = None
    with filled.database.session() as session:
        while True:
            page = search(session, wanted, order=order, after=after, limit=1)
            seen += [hit.title for hit in page.hits]
            after = page.next
            if after is None:
                break
        whole = search(session, wanted, order=order)
    assert seen == [hit.title for hit in whole.hits]
    assert len(set(seen)) == 3


def test_titles_are_sorted_without_leading_articles(filled: Catalogue) -> None:
    with filled.database.session() as session:
        hits = search(session, Search()).hits
    assert [hit.title for hit in hits] == ["The Czech Language", "Knihy kacířů", "Slovník staré češtiny"]


@pytest.mark.parametrize("key", ["x", "W10", "WyJ5ZWFyIiwgIjEiLCAiMSJd", "é"])
def test_an_invalid_page_key_is_rejected(filled: Catalogue, key: str) -> None:
    with filled.database.session() as session, pytest.raises(UsageError):
        search(session, Search(), after=key)


@pytest.mark.parametrize(
    "key",
    [
        ("title", "\0", "1"),
        ("title", "\ud800", "1"),
        ("title", "a", "9" * 23),
        ("title", "a", "1.5"),
        ("title", "a", None),
        ("newest", "nan", "1"),
        ("newest", "9" * 10, "1"),
        ("newest", "2000", "1", "1"),
        ("relevance", "nan", "-1"),
        ("relevance", "1e-99", "-1"),
        ("relevance", "inf", "-1"),
    ],
)
def test_a_page_key_with_values_that_the_database_cannot_read_is_rejected(
    filled: Catalogue, key: tuple[object, ...]
) -> None:
    wanted, order = Search(text="kniha or slovnik"), SearchOrder(str(key[0]))
    written = base64.urlsafe_b64encode(json.dumps(key).encode()).decode()
    with filled.database.session() as session, pytest.raises(UsageError, match="is not a page key"):
        search(session, wanted, order=order, after=written)


def test_a_page_key_of_many_brackets_is_rejected(filled: Catalogue) -> None:
    written = base64.urlsafe_b64encode(b"[" * 200_000).decode()
    with filled.database.session() as session, pytest.raises(UsageError, match="is not a page key"):
        search(session, Search(), after=written)


def test_facets_count_all_hits(filled: Catalogue) -> None:
    with filled.database.session() as session:
        facets = count_facets(session, Search(text="kniha or slovnik"))
    assert (facets.total, facets.whole) == (2, True)
    assert facets.sources == [FacetCount(value=str(filled.repository_id), count=2)]
    assert facets.languages == [FacetCount(value="cze", count=2)]
    assert facets.decades == [FacetCount(value="2010", count=2)]
    assert facets.kinds == [FacetCount(value="book", count=2)]


def test_a_record_has_a_link_to_the_original(filled: Catalogue) -> None:
    template = "https://biblio.example/documents/{control_number}?from={identifier}&n={local}"
    with filled.database.session() as session:
        save_source(session, SourceSettings(repository_id=filled.repository_id, record_url_template=template))
        (hit,) = search(session, Search(identifier="nr1")).hits
        record = get_record(session, hit.bibliographic_id)
    assert record.original_url == ("https://biblio.example/documents/nr1?from=oai%3Afake.example%3A1&n=1")
    assert record.contributors[0].name == "Hus, Jan"
    assert record.genres == [{"text": "edice", "kind": "genre", "source": "czenas", "authority_ids": []}]


def test_a_missing_record_is_reported(filled: Catalogue) -> None:
    with filled.database.session() as session, pytest.raises(UsageError, match="no bibliographic record 999"):
        get_record(session, 999)


@pytest.mark.parametrize(
    "template",
    [
        "https://x.example/",
        "javascript:{identifier}",
        "https://{identifier}/",
        "https://x.example/{title}",
        "{local}",
    ],
)
def test_templates_without_a_usable_address_are_rejected(template: str) -> None:
    with pytest.raises(UsageError):
        check_template(template)

"""Enrichment: the record of a title, the values it adds, and when they are kept or removed."""

from collections.abc import Callable
from datetime import UTC, datetime

import pytest

from oai.errors import UsageError
from provider.titles.catalogue import TitleItem, title_by_key
from provider.titles.enrichment import (
    CatalogueRead,
    CatalogueRecord,
    DeletedRecord,
    EnrichmentPlan,
    Outcome,
    TitleOutcome,
    apply_enrichment,
    catalogue_numbers,
    match,
    number_key,
    plan_enrichment,
    record_keys,
)
from provider.titles.entries import Refused
from provider.titles.search import TitleQuery, find_titles
from tests.provider.archive import Archive
from tests.provider.titles.conftest import Titles, entry

SITE = "http://www.example.cz/"
NUMBER = "web20132499695"
IDENTIFIER = "oai:aleph.example:NKC01-002499695"
FOUND = {
    "languages": ("cze", "eng"),
    "alternative_names": ("Example", "Old name"),
    "place": "Praha",
    "country": "xr",
    "first_published": 1998,
}


def record(number: str = NUMBER, identifier: str | None = None, **values: object) -> CatalogueRecord:
    place = identifier or f"records.mrc, {number}"
    return CatalogueRecord(
        found_in=place,
        control_number=number,
        identifier=identifier,
        **{**FOUND, **values},  # type: ignore[arg-type]
    )


Enrich = Callable[..., EnrichmentPlan]


@pytest.fixture
def enrich(titles: Titles) -> Enrich:
    """Enriches the titles of the source `test` from these records."""

    def work(*read: CatalogueRead, percent: float = 100) -> EnrichmentPlan:
        with titles.database.session() as session:
            plan = plan_enrichment(session, "test", match(catalogue_numbers(session, "test"), read))
            plan.check(percent)
            apply_enrichment(session, plan, margin=0)
            titles.make_due(session)
        return plan

    return work


def shown(titles: Titles, key: str = "1") -> TitleItem:
    with titles.database.session() as session:
        found = title_by_key(session, titles[key].key, datetime.max.replace(tzinfo=UTC))
    assert found is not None
    return found


def added(title: TitleItem) -> dict[str, object]:
    values = (title.languages, title.alternative_names, title.published_in, title.country)
    return dict(zip(FOUND, (*values, title.first_published), strict=True))


def only(plan: EnrichmentPlan) -> TitleOutcome:
    (one,) = plan.titles
    return one


@pytest.mark.parametrize(
    ("number", "control_number", "identifier", "same"),
    [
        (NUMBER, NUMBER, None, True),
        (" WEB2013 2499695", NUMBER, None, True),
        ("20132499695", NUMBER, None, True),
        ("nkc20132499695", NUMBER, None, False),
        (NUMBER, "20132499695", None, False),
        ("002499695", NUMBER, IDENTIFIER, True),
        ("2499695", NUMBER, IDENTIFIER, True),
        ("nkc01-002499695", "", IDENTIFIER, True),
        ("SKC01-002499695", NUMBER, IDENTIFIER, False),
        ("2499695", NUMBER, "oai:aleph.example:002499695", True),
        ("2499695", NUMBER, None, False),
        ("1", "x1", "oai:other.example:1", False),
        ("000", "0", None, True),
    ],
)
def test_a_number_names_the_record_with_that_control_or_system_number(
    number: str, control_number: str, identifier: str | None, *, same: bool
) -> None:
    assert (number_key(number) in record_keys(control_number, identifier)) is same


def test_added_values_survive_the_next_import_and_a_second_enrichment(
    titles: Titles, archive: Archive, enrich: Enrich
) -> None:
    archive.add(SITE)
    titles.bring(entry("1", SITE, catalogue_number=NUMBER), entry("2", "http://b.cz/"))
    before = titles["1"].datestamp
    plan = enrich(record(), record("web1"))
    assert (only(plan).outcome, only(plan).fields, plan.without_number) == (Outcome.NEW, tuple(FOUND), 1)
    assert [one.control_number for one in plan.matches.others] == ["web1"]
    expected = {name: list(one) if isinstance(one, tuple) else one for name, one in FOUND.items()}
    assert added(shown(titles)) == expected
    enriched = titles["1"].datestamp
    assert enriched > before
    assert titles.plan(entry("1", SITE, catalogue_number=NUMBER), entry("2", "http://b.cz/")).changed == []
    titles.bring(entry("1", SITE, catalogue_number=NUMBER, publisher="New"))
    assert added(shown(titles)) == expected
    changed = titles["1"].datestamp
    assert only(enrich(record())).outcome is Outcome.UNCHANGED
    assert titles["1"].datestamp == changed
    plan = enrich(record(place="Brno"))
    assert (only(plan).outcome, only(plan).fields) == (Outcome.CHANGED, ("place",))
    assert shown(titles).published_in == "Brno"


def test_values_of_the_source_precede_values_of_the_catalogue(titles: Titles, enrich: Enrich) -> None:
    own = {"languages": ["ger"], "alternative_names": ["Beispiel"]}
    titles.bring(entry("1", SITE, name="EXAMPLE", catalogue_number=NUMBER, **own))
    enrich(record())
    title = shown(titles)
    assert (title.languages, title.alternative_names) == (["ger"], ["Beispiel", "Old name"])


def test_readers_find_a_title_by_a_name_that_the_catalogue_adds(
    titles: Titles, archive: Archive, enrich: Enrich
) -> None:
    archive.add(SITE)
    titles.bring(entry("1", SITE, catalogue_number=NUMBER))
    enrich(record(alternative_names=("Živa",)))
    with titles.database.session() as session:
        assert find_titles(session, TitleQuery(words="ziva")).count == 1


@pytest.mark.parametrize(
    ("read", "outcome"),
    [
        ([], Outcome.UNKNOWN),
        ([Refused(place=IDENTIFIER, reason="damaged")], Outcome.UNKNOWN),
        ([DeletedRecord(identifier=IDENTIFIER)], Outcome.DELETED),
        ([record(), record(identifier=IDENTIFIER, place="Brno")], Outcome.AMBIGUOUS),
        ([record(identifier=IDENTIFIER), record()], Outcome.UNCHANGED),
    ],
)
def test_a_missing_deleted_or_ambiguous_record_keeps_added_values(
    titles: Titles, enrich: Enrich, read: list[CatalogueRead], outcome: Outcome
) -> None:
    titles.bring(entry("1", SITE, catalogue_number=NUMBER))
    assert only(enrich(*read)).kept is False
    enrich(record(identifier=IDENTIFIER))
    one = only(enrich(*read))
    assert one.outcome is outcome
    assert one.kept is (outcome is not Outcome.UNCHANGED)
    assert shown(titles).published_in == "Praha"


def test_a_deleted_record_is_matched_by_its_system_number(titles: Titles, enrich: Enrich) -> None:
    titles.bring(entry("1", SITE, catalogue_number="002499695"))
    one = only(enrich(DeletedRecord(identifier=IDENTIFIER)))
    assert (one.outcome, one.kept) == (Outcome.DELETED, False)


@pytest.mark.parametrize("number", [None, "web1"])
def test_values_are_removed_if_a_title_no_longer_names_the_record(
    titles: Titles, enrich: Enrich, number: str | None
) -> None:
    titles.bring(entry("1", SITE, catalogue_number=NUMBER))
    enrich(record())
    titles.bring(entry("1", SITE, catalogue_number=number))
    assert only(enrich(record())).outcome is Outcome.REMOVED
    assert (shown(titles).published_in, shown(titles).languages) == (None, [])


def test_a_number_changed_after_reading_the_catalogue_keeps_added_values(
    titles: Titles, enrich: Enrich
) -> None:
    titles.bring(entry("1", SITE, catalogue_number=NUMBER))
    enrich(record())
    with titles.database.session() as session:
        matches = match(catalogue_numbers(session, "test"), [record()])
    titles.bring(entry("1", SITE, catalogue_number="web1"))
    with titles.database.session() as session:
        one = only(plan_enrichment(session, "test", matches))
    assert (one.outcome, one.kept) == (Outcome.UNKNOWN, True)


def test_many_changes_need_approval_and_first_additions_do_not_need_it(
    titles: Titles, enrich: Enrich
) -> None:
    numbers = [f"web{number:011}" for number in range(30)]
    titles.bring(*(entry(one, f"http://{one}.cz/", catalogue_number=one) for one in numbers))
    enrich(*map(record, numbers), percent=20)
    with pytest.raises(UsageError, match=r"the enrichment would change 30 and remove 0 of 30 titles"):
        enrich(*(record(one, place="Brno") for one in numbers), percent=20)
    enrich(*(record(one, place="Brno") for one in numbers[:20]), percent=20)

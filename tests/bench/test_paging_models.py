"""Every model lists exactly the same documents, in the same order and pages."""

from collections.abc import Iterator
from datetime import UTC, datetime

import pytest
from sqlalchemy import Connection, text

from oai.database import Database, open_database
from oai.settings import Settings
from tests.bench.paging_models import fill
from tests.bench.paging_readers import COLLECTION, FIRST_HOST, LATE
from tests.bench.paging_tables import MODELS, Model, change, enter, generate, insert

DOCUMENTS = 2100
PAGE = 300
SETS = {
    "true": None,
    f"{COLLECTION} = ANY(collections)": COLLECTION,
    f"{LATE} = ANY(collections)": LATE,
    f"host_id = {FIRST_HOST}": FIRST_HOST,
}

Pages = list[list[int]]


@pytest.fixture(scope="module")
def filled(shared_settings: Settings) -> Iterator[Database]:
    """A database with all models of the same documents."""
    with open_database(shared_settings, check_tables=False) as database:
        with database.engine.begin() as connection:
            generate(connection, DOCUMENTS, more=1)
            for model in MODELS:
                fill(connection, model, DOCUMENTS)
        yield database


@pytest.fixture
def connection(filled: Database) -> Iterator[Connection]:
    """A transaction that is rolled back at the end of the test."""
    with filled.engine.connect() as connection:
        yield connection
        connection.rollback()


def listed(connection: Connection, model: Model, set_id: int | None) -> Pages:
    reader = model.reader(connection, set_id, PAGE)
    reader.begin()
    pages = []
    while page := reader.read():
        pages.append([row.id for row in page])
    return pages


def expected(connection: Connection, condition: str) -> Pages:
    query = f"SELECT id FROM public.generated WHERE {condition} ORDER BY datestamp, id"  # noqa: S608 built from constants
    found = list(connection.scalars(text(query)))
    return [found[first : first + PAGE] for first in range(0, len(found), PAGE)]


def every_list(connection: Connection) -> dict[str, list[Pages]]:
    found = {}
    for model in MODELS:
        enter(connection, model)
        found[model.name] = [listed(connection, model, set_id) for set_id in SETS.values()]
    return found


def test_lists_have_the_same_pages_in_every_model(connection: Connection) -> None:
    connection.execute(text("DELETE FROM public.generated WHERE id = :id"), {"id": DOCUMENTS + 1})
    wanted = [expected(connection, condition) for condition in SETS]

    found = every_list(connection)

    assert found == dict.fromkeys(found, wanted)
    assert [len(pages) for pages in wanted] == [7, 3, 2, 4]


def test_a_page_is_found_without_reading_the_previous_ones(connection: Connection) -> None:
    for model in MODELS:
        enter(connection, model)
        for set_id in SETS.values():
            pages = listed(connection, model, set_id)
            reader = model.reader(connection, set_id, PAGE)
            reader.begin()
            for number in sorted({1, len(pages) - 1}):
                reader.seek(number)
                assert [row.id for row in reader.read()] == pages[number], model.name


def test_new_and_changed_documents_are_last_in_every_model(connection: Connection) -> None:
    now = datetime(2026, 1, 1, tzinfo=UTC)
    for model in MODELS:
        enter(connection, model)
        insert(connection, model, DOCUMENTS + 1, DOCUMENTS + 1)
        change(connection, model, 6, now)

    found = every_list(connection)

    renew = "UPDATE public.generated SET datestamp = :now WHERE id = 6"
    connection.execute(text(renew), {"now": now})
    wanted = [expected(connection, condition) for condition in SETS]
    assert found == dict.fromkeys(found, wanted)
    assert wanted[1][-1][-1] == 6


def test_only_offset_paging_skips_a_document_after_a_change_between_two_pages(connection: Connection) -> None:
    skipped = {}
    for model in MODELS:
        enter(connection, model)
        reader = model.reader(connection, None, PAGE)
        reader.begin()
        seen = {row.id for row in reader.read()}
        change(connection, model, 6, datetime(2026, 1, 1, tzinfo=UTC))
        while page := reader.read():
            seen.update(row.id for row in page)
        skipped[model.name] = sorted(set(range(1, DOCUMENTS + 1)) - seen)

    # The documents after the changed one move forward by a place, the first of the next page into this one.
    assert skipped == {model.name: [PAGE + 1] if model.reader.counts else [] for model in MODELS}
    assert any(skipped.values())

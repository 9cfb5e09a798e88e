"""A first load builds the indexes of lists at its end; an interrupted one is reported and resumed."""

import json
from pathlib import Path

import pytest
from sqlalchemy import text

from oai.database import Database
from oai.errors import DatabaseNotReadyError, UsageError
from provider.indexing.first_load import begin_first_load, finish_first_load, missing_indexes, refuse_unserved
from provider.indexing.indexer import IndexOptions, index_file
from tests.commands import Done, zatva
from tests.provider.archives import Page, write_pages

pytestmark = pytest.mark.copied_database("a first load drops indexes and builds them again")
PAGES = [Page(url=f"http://www.a.example/{number}") for number in range(3)]


def indexes(database: Database) -> list[str]:
    with database.session() as session:
        found = session.scalars(
            text("SELECT indexdef FROM pg_indexes WHERE tablename = 'document' ORDER BY indexname")
        )
        return list(found)


def first_load(environment: dict[str, str], path: Path) -> Done:
    return zatva(environment, "provider", "index", "--first-load", "--json", path)


def test_a_first_load_rebuilds_the_same_indexes(
    environment: dict[str, str], database: Database, tmp_path: Path
) -> None:
    before = indexes(database)
    done = first_load(environment, write_pages(tmp_path / "x.warc.gz", PAGES))
    assert done.returncode == 0, done.stderr
    assert "building the index ix_document_host" in done.stderr
    assert json.loads(done.stdout.splitlines()[-1])["total"]["new"] == 3
    assert indexes(database) == before


def test_a_first_load_is_refused_if_there_are_documents(
    environment: dict[str, str], database: Database, tmp_path: Path
) -> None:
    index_file(database, write_pages(tmp_path / "x.warc.gz", PAGES), IndexOptions(margin=1))
    before = indexes(database)
    done = first_load(environment, write_pages(tmp_path / "y.warc.gz", PAGES))
    assert done.returncode == 2
    assert "--first-load requires an empty archive" in done.stderr
    assert indexes(database) == before


def test_an_interrupted_first_load_blocks_other_commands_and_is_resumed(
    environment: dict[str, str], database: Database, tmp_path: Path
) -> None:
    before = indexes(database)
    path = write_pages(tmp_path / "x.warc.gz", PAGES)
    begin_first_load(database)
    assert len(indexes(database)) < len(before)
    index_file(database, path, IndexOptions(margin=1, first_load=True))
    with database.session() as session, pytest.raises(DatabaseNotReadyError, match="incomplete"):
        refuse_unserved(session)
    with pytest.raises(DatabaseNotReadyError, match="--first-load"):
        index_file(database, path, IndexOptions(margin=1))
    served = zatva(environment, "provider", "serve", "--port", "0")
    assert (served.returncode, "first load is incomplete" in served.stderr) == (6, True)
    done = first_load(environment, path)
    assert done.returncode == 0, done.stderr
    assert indexes(database) == before


def test_building_indexes_resumes_after_an_interruption(database: Database) -> None:
    before = indexes(database)
    begin_first_load(database)
    built: list[str] = []

    def interrupt_at_the_third(name: str) -> None:
        if len(built) == 2:
            raise UsageError("enough")
        built.append(name)

    with pytest.raises(UsageError):
        finish_first_load(database, interrupt_at_the_third)
    with database.session() as session:
        assert not set(built) & set(missing_indexes(session))
    finish_first_load(database, lambda _: None)
    assert indexes(database) == before

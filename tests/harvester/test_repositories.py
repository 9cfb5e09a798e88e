"""Rows of repositories are created once and replaced whole, also by concurrent transactions."""

import re
import time
import unicodedata
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from random import Random
from string import ascii_letters
from typing import TypeVar

import pytest
from sqlalchemy import func, select, text
from sqlalchemy.orm import Session

from harvester.listing import find_repositories
from harvester.models import MetadataFormat, OaiSet, PrefixMapping, Repository
from harvester.reading.answers import FormatInfo, SetInfo
from harvester.recognition import RepositoryFacts
from harvester.repositories import (
    add_repository,
    change_repository,
    ensure_repository,
    note_facts,
)
from oai.database import Database
from oai.errors import UsageError
from tests.measures import PACKAGES, ROOT

URL = "http://archive.example/oai"
_WAITING = text(
    "SELECT count(*) FROM pg_stat_activity WHERE wait_event_type = 'Lock' AND datname = current_database()"
)
Result = TypeVar("Result")


@pytest.fixture
def beside() -> Iterator[ThreadPoolExecutor]:
    with ThreadPoolExecutor(1) as pool:
        yield pool


def at_once(
    database: Database,
    pool: ThreadPoolExecutor,
    first: Callable[[Session], Result],
    second: Callable[[Session], Result],
) -> tuple[Result, Result]:
    """Run the second function in a transaction that starts while that of the first one is open."""

    def work() -> Result:
        with database.session() as session:
            result = second(session)
            session.commit()
            return result

    with database.session() as session:
        result = first(session)
        other = pool.submit(work)
        _until_it_waits(database, other)
        session.commit()
    return result, other.result(60)


def _until_it_waits(database: Database, work: "Future[Result]") -> None:
    end = time.monotonic() + 60
    with database.session() as session:
        while not work.done() and not session.scalar(_WAITING):
            session.rollback()
            assert time.monotonic() < end
            time.sleep(0.01)


def test_two_harvests_of_a_new_address_get_the_same_repository(
    database: Database, beside: ThreadPoolExecutor
) -> None:
    def ensure(session: Session) -> int:
        return ensure_repository(session, base_url=URL, base_dir=None).repository_id

    first, second = at_once(database, beside, ensure, ensure)
    assert first == second
    with database.session() as session:
        assert session.scalar(select(func.count()).select_from(Repository)) == 1


def test_a_list_of_sets_that_ends_with_a_fault_adds_to_the_known_ones(database: Database) -> None:
    with database.session() as session:
        number = add_repository(session, base_url=URL).repository_id
        for specs, fault in ((["maps", "books"], ""), (["maps", "prints"], "HTTP status 500")):
            sets = [SetInfo(set_spec=spec, set_name=spec.title()) for spec in specs]
            note_facts(session, number, RepositoryFacts(sets=sets, sets_fault=fault))
        known = session.execute(select(OaiSet.set_spec, OaiSet.set_name).order_by(OaiSet.set_spec)).all()
    assert [tuple(row) for row in known] == [("books", "Books"), ("maps", "Maps"), ("prints", "Prints")]


def test_two_concurrent_updates_of_the_facts_of_a_repository_do_not_conflict(
    database: Database, beside: ThreadPoolExecutor
) -> None:
    with database.session() as session:
        number = add_repository(session, base_url=URL).repository_id
        session.commit()
    facts = RepositoryFacts(sets=[SetInfo(set_spec="maps", set_name="Maps")])

    def note(session: Session) -> None:
        note_facts(session, number, facts)

    at_once(database, beside, note, note)
    with database.session() as session:
        assert session.scalars(select(OaiSet.set_spec)).all() == ["maps"]


def test_sets_and_formats_that_the_database_cannot_hold_are_left_out(
    database: Database, caplog: pytest.LogCaptureFixture
) -> None:
    generator = Random(0)  # the server compresses repeated letters
    long = "".join(generator.choices(ascii_letters, k=10_000))
    sets = [SetInfo(set_spec=spec, set_name=long) for spec in ("maps", long, long[:1000])]
    keys = [("oai_dc", "s", "n"), ("oai_dc", "s", "n"), (long, "", ""), ("marc", long, ""), ("ese", "", "")]
    keys += [(long[:334], long[:333], long[:333]), (long[:335], long[:333], long[:333])]
    formats = [FormatInfo(metadata_prefix=one, schema=two, namespace=three) for one, two, three in keys]
    with database.session() as session:
        made = add_repository(session, base_url=URL, facts=RepositoryFacts(sets=sets, formats=formats))
        session.commit()
        assert set(session.scalars(select(OaiSet.set_spec))) == {"maps", long[:1000]}
        assert _formats(session, made) == {"ese", "oai_dc", long[:334]}
    assert "setSpecs are longer than 1000 bytes: 1" in caplog.text
    assert "because longer than 1000 bytes, or more than 500: 3" in caplog.text


def test_the_number_of_stored_formats_is_limited_to_what_a_page_can_show(database: Database) -> None:
    formats = [FormatInfo(metadata_prefix=f"f{n}", schema="", namespace="") for n in range(50_000)]
    with database.session() as session:
        made = add_repository(session, base_url=URL, facts=RepositoryFacts(formats=formats))
        other = add_repository(
            session, base_url=URL, base_dir="b", facts=RepositoryFacts(formats=formats[:9])
        )
        assert len(_formats(session, made)) == 500
        assert _formats(session, other) == {f"f{n}" for n in range(9)}


def _formats(session: Session, repository: Repository) -> set[str]:
    offered = select(MetadataFormat.metadata_prefix).join(
        PrefixMapping, PrefixMapping.prefix_id == MetadataFormat.prefix_id
    )
    return set(session.scalars(offered.where(PrefixMapping.repository_id == repository.repository_id)))


_SECRET_URL = "http://me:s%40cret@a.example/oai?to=x@y.example"
_PUBLIC_URL = "http://a.example/oai?to=x@y.example"


@pytest.mark.parametrize(
    ("name", "shown"),
    [
        (None, _PUBLIC_URL),
        ("", _PUBLIC_URL),
        (_SECRET_URL, _PUBLIC_URL),
        ("Library of Telč", "Library of Telč"),
        ("us@telc.example", "us@telc.example"),
    ],
)
def test_a_name_is_shown_without_credentials_by_python_and_by_sql(
    database: Database, name: str | None, shown: str
) -> None:
    with database.session() as session:
        made = add_repository(session, base_url=_SECRET_URL, base_dir="a")
        session.execute(text("UPDATE oai_repository SET repository_name = :name"), {"name": name})
        row = session.get_one(Repository, made.repository_id, populate_existing=True)
        assert (row.display_name, row.display_url) == (shown, _PUBLIC_URL)
        columns = (Repository.display_name, Repository.display_url, Repository.base_url)
        assert session.execute(select(*columns)).one() == (shown, _PUBLIC_URL, _SECRET_URL)
        assert "cret" not in str(row.repository_name)
        found = {words: find_repositories(session, limit=9, search=words) for words in ("cret", "A.example")}
        assert found == {"cret": [], "A.example": [row]}


@pytest.mark.parametrize(
    ("name", "words", "found"),
    [
        ("Moravská zemská knihovna", "moravska", True),
        ("Moravska zemska knihovna", "MORAVSKÁ ZEM", True),
        (unicodedata.normalize("NFD", "Městská knihovna"), "měst", True),
        ("Městská knihovna", "stska\u00a0kni", True),
        ("Ελληνική Βιβλιοθήκη", "ελληνικη", True),
        ("Studies in a large library of Łódź", "large library of łodz", True),
        ("Studies in a large library of Łódź", "studies in a large library of brno", False),
        ("100% Library", "0%", True),
        ("1000 Library", "0%", False),
        ("a_b", "A_B", True),
        ("aXb", "a_b", False),
        ("[a] (b*", "[á] (b*", True),
        ("Zatva™", "tva™", True),
    ],
)
def test_repositories_are_found_without_accents_and_special_characters_are_literal(
    database: Database, name: str, words: str, *, found: bool
) -> None:
    with database.session() as session:
        add_repository(session, base_url=URL).repository_name = name
        session.flush()
        assert bool(find_repositories(session, limit=9, search=words)) is found


def test_a_name_that_was_stored_without_a_limit_is_shown_cut(database: Database) -> None:
    with database.session() as session:
        made = add_repository(session, base_url=URL)
        session.execute(text("UPDATE oai_repository SET repository_name = repeat('N', 100000)"))
        row = session.get_one(Repository, made.repository_id, populate_existing=True)
        assert session.scalar(select(Repository.display_name)) == row.display_name == "N" * 2000


def test_a_name_is_stored_without_credentials(database: Database) -> None:
    with database.session() as session:
        row = add_repository(session, base_url=_SECRET_URL, base_dir="a")
        change_repository(session, row.repository_id, repository_name=_SECRET_URL)
        assert session.scalar(text("SELECT repository_name FROM oai_repository")) == _PUBLIC_URL


@pytest.mark.parametrize(
    ("given", "own"),
    [
        ("http://a.example/oai?verb=ListRecords&metadataPrefix=marc21&set=maps", "http://a.example/oai"),
        ("http://a.example/index.php?page=oai&verb=Identify", "http://a.example/index.php?page=oai"),
        ("http://a.example/oai?resumptionToken=x", "http://a.example/oai"),
    ],
)
def test_the_address_of_a_request_is_not_a_base_url(database: Database, given: str, own: str) -> None:
    with database.session() as session:
        with pytest.raises(UsageError, match=f"give only the base URL: {re.escape(own)}$"):
            add_repository(session, base_url=given)
        assert add_repository(session, base_url=own).base_url == own


def test_the_displayed_name_of_a_repository_is_chosen_in_one_place() -> None:
    """`Repository.display_name` removes credentials; a name or address chosen elsewhere might not."""
    by_hand = re.compile(
        r"repository_name\)? or [\w.]*(?:base_url|address)"
        r"|coalesce\([^()]*repository_name"
        r"|Repository\.repository_name, Repository\.base_url"
        r"|\{\{[^}]*\b(?:repository|row)\.base_url"
    )
    found = {
        f"{file.relative_to(ROOT)}: {line.strip()}"
        for package in PACKAGES
        for kind in ("py", "html", "txt")
        for file in (ROOT / package).rglob(f"*.{kind}")
        for line in file.read_text().splitlines()
        if by_hand.search(line) and file.name != "models.py"
    }
    # Identify's base URL is the one that the repository itself states.
    assert {line.partition(":")[0] for line in found} == {"harvester/probing/checks.py"}

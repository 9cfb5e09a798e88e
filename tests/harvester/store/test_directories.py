"""Where files are placed: no two share a path on any file system."""

import unicodedata
from datetime import UTC, datetime

import pytest
from hypothesis import HealthCheck, given
from hypothesis import settings as hypothesis_settings
from hypothesis import strategies as st
from sqlalchemy import text
from sqlalchemy.orm import Session

from harvester.models import Repository
from harvester.repositories import add_repository
from harvester.store import diff
from harvester.store import records as arrays
from harvester.store.paths import identifier_digits, note_folders, place_files, record_path
from harvester.store.records import RecordRow, write_records
from harvester.vocabulary import Change, RecordStatus
from oai.database import Database
from tests.harvester.store.identifiers import identifier_of

_LETTERS = st.sampled_from(
    [*"aAbBé:/.%~@+-İßKk", "e\u0301", "\u017f", "\u212b", "Å", "ﬁ", "oai:", ".xml", "~2", "\U0001f600"]
)
_IDENTIFIERS = st.lists(
    st.one_of(
        st.lists(_LETTERS, max_size=5).map("".join),
        st.text(st.characters(exclude_categories=["Cs"]), max_size=8),
    ),
    min_size=1, max_size=20, unique=True,
)  # fmt: skip


@pytest.fixture
def repository_id(database: Database) -> int:
    with database.session() as session:
        added = add_repository(session, base_url="http://a.example/oai", base_dir="a")
        session.commit()
        return added.repository_id


@given(identifiers=_IDENTIFIERS, size=st.integers(1, 5), parse_id=st.booleans(), cut=st.integers(0, 20))
@hypothesis_settings(
    max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
def test_no_two_identifiers_share_a_path_in_any_letter_case_or_unicode_form(
    database: Database,
    repository_id: int,
    identifiers: list[str],
    size: int,
    parse_id: bool,  # noqa: FBT001 given so
    cut: int,
) -> None:
    with database.session() as session:
        places = dict[str, str]()
        for batch in (identifiers[:cut], identifiers[cut:]):
            if batch:
                places |= _placed(session, repository_id, batch, size, parse_id=parse_id)
        session.rollback()
    for form in ("NFC", "NFD", "NFKC", "NFKD"):
        folded = {unicodedata.normalize(form, place).casefold() for place in places.values()}
        assert len(folded) == len(identifiers)
        steps = {place.rpartition("/")[0] for place in folded}
        assert not {f"{step}/".startswith(f"{place}/") for place in folded for step in steps} & {True}
    for identifier, place in places.items():
        assert identifier_of(place, parse_id=parse_id) in {identifier, None}


def _placed(
    session: Session, repository_id: int, identifiers: list[str], size: int, *, parse_id: bool
) -> dict[str, str]:
    paths = [record_path(identifier, parse_id=parse_id) for identifier in identifiers]
    places = place_files(session, paths, repository_id=repository_id, files_per_directory=size)
    found = dict(zip(identifiers, places, strict=True))
    rows = [
        RecordRow(
            record_id=None,
            key=identifier_digits(identifier),
            # A NUL, which XML does not allow, is not accepted by the database either.
            identifier=identifier.replace("\0", "?"),
            filename=place,
            datestamp="2024-01-01",
            status=RecordStatus.ACTIVE,
            change=Change.NEW,
            digest=b"",
            set_specs=(),
        )
        for identifier, place in found.items()
    ]
    write_records(
        session,
        rows,
        repository_id=repository_id,
        metadata_prefix="oai_dc",
        now=datetime.now(UTC),
        feed_run=None,
    )
    return found


def test_folders_that_were_found_full_get_no_more_files(database: Database, repository_id: int) -> None:
    with database.session() as session:
        note_folders(session, {"a": 3, "a/starting_at_5": 2, "b": 5}, repository_id=repository_id)
        note_folders(session, {"b": 1}, repository_id=repository_id)
        places = place_files(
            session, ["a/x.xml", "b/x.xml"], repository_id=repository_id, files_per_directory=5
        )
    assert places == ["a/starting_at_5/x.xml", "b/starting_at_5/x.xml"]


@pytest.mark.parametrize("statement", [arrays._TAKEN.text, diff._ROWS_NOW.text])  # noqa: SLF001
def test_names_are_looked_up_one_by_one_however_many_the_table_has(
    database: Database, repository_id: int, statement: str
) -> None:
    """As a plain condition, each page of a harvest read all rows that the repository had by then."""
    with database.session() as session:
        _placed(session, repository_id, [f"oai:a:{number}" for number in range(5000)], 500, parse_id=True)
        session.commit()
        session.execute(text("ANALYZE oai_record"))
        names = [record_path(f"oai:a:{number}", parse_id=True) for number in range(4800, 5800)]
        values = {"repository_id": repository_id, "names": arrays.of_texts(names), "ids": "{1,2,3}"}
        plan = session.execute(text(f"EXPLAIN (ANALYZE) {statement}"), values).scalars().all()
    assert not [line for line in plan if "Seq Scan on oai_record" in line]
    assert sum(int(line.split(":")[1]) for line in plan if "Rows Removed by" in line) < 10
    assert [line for line in plan if "uq_oai_record_filename" in line]


def test_names_of_a_repository_newer_than_the_statistics_are_looked_up_by_the_index_of_names(
    database: Database, repository_id: int
) -> None:
    """PostgreSQL assumes a repository with one record, for which any index seems good enough.

    With this number of rows, the index of names has a level more than the other one.
    """
    fill = text("""
        INSERT INTO oai_record
            (repository_id, metadata_prefix, identifier, identifier_key, filename, datestamp, status)
        SELECT :id, 'oai_dc', number, CAST(md5(:id || ' ' || number) AS uuid), 'oai/r/' || number || '.xml',
               '2020-01-01', 'active'
        FROM generate_series(1, :count) AS number
    """)
    with database.session() as session:
        session.execute(fill, {"id": repository_id, "count": 360})
        session.commit()
        session.execute(text("ANALYZE oai_record"))
        newer = Repository(base_url="http://b/oai", base_dir="b")
        session.add(newer)
        session.flush()
        session.execute(fill, {"id": newer.repository_id, "count": 20_000})
        values = {"repository_id": newer.repository_id, "names": "{a,b}"}
        plan = session.execute(text(f"EXPLAIN {arrays._TAKEN.text}"), values).scalars().all()  # noqa: SLF001
    assert [line for line in plan if "uq_oai_record_filename" in line]

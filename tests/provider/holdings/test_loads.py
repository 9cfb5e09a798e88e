"""A load lists what an indexing run published, without information that harvesters may not see."""

from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from sqlalchemy import func, select, update

from oai.database import Database
from provider.holdings.collections import add_collection, lineage
from provider.holdings.loads import ListedLoad, add_up, begin_load, end_load, list_loads, load_of_run
from provider.holdings.takedowns import TakedownRequest, enter
from provider.indexing.index_runs import add_run, is_over
from provider.indexing.indexer import FileReport, IndexOptions, index_file
from provider.indexing.models import IndexFile, IndexFileState, IndexRun
from provider.models import Collection, Document, Domain, Load, LoadPart, PublicationMark
from tests.provider.archives import Page, write_pages
from tests.provider.holdings.staff import WITHHELD, Staff
from tests.provider.reading.test_cdx_files import cdxj

LATER = datetime(2900, 1, 1, tzinfo=UTC)


def begun(database: Database, *, spec: str | None = None) -> IndexOptions:
    """The options of a new load, perhaps for a collection."""
    with database.session() as session:
        family: tuple[int, ...] = ()
        if spec is not None:
            add_collection(session, spec)
            session.commit()
            family = lineage(session, spec)
        number = begin_load(session, family[0] if family else None)
    return IndexOptions(margin=1, collections=family, load_id=number)


def load(database: Database, path: Path, options: IndexOptions, *hosts: str) -> FileReport:
    return index_file(database, write_pages(path, [Page(url=f"http://{host}/") for host in hosts]), options)


def listed(database: Database, *, mark: datetime = LATER, limit: int = 9) -> list[ListedLoad]:
    with database.session() as session:
        return list(list_loads(session, mark, limit=limit))


def domains(one: ListedLoad) -> dict[str, int | None]:
    return {named.set_spec: named.documents for named in one.domains}


def datestamps(database: Database) -> tuple[datetime, datetime]:
    with database.session() as session:
        first, last = session.execute(
            select(func.min(Document.datestamp), func.max(Document.datestamp))
        ).one()
    return first, last


def test_a_load_shows_counts_datestamps_collection_and_domains(database: Database, tmp_path: Path) -> None:
    options = begun(database, spec="collection:serials:2026")
    load(database, tmp_path / "a.warc", options, "a.b.example", "b.example", "c.test")
    load(database, tmp_path / "b.warc", options, "d.example")
    (one,) = listed(database)
    assert (one.new, one.changed, (one.since, one.until)) == (4, 0, datestamps(database))
    assert one.collection is not None
    assert one.collection.set_spec == "collection:serials:2026"
    assert list(domains(one).items()) == [("domain:example", 3), ("domain:test", 1)]


def test_a_load_is_not_listed_before_its_last_datestamp(database: Database, tmp_path: Path) -> None:
    load(database, tmp_path / "a.warc", begun(database), "a.example")
    until = datestamps(database)[1]
    assert listed(database, mark=until - timedelta(seconds=1)) == []
    assert [one.new for one in listed(database, mark=until)] == [1]


def test_completed_documents_count_as_changed_and_known_ones_are_not_counted(
    database: Database, tmp_path: Path
) -> None:
    path = write_pages(tmp_path / "x.warc", [Page(url="http://a.example/"), Page(url="http://b.example/")])
    list_ = cdxj(tmp_path / "x.cdxj", [Page(url="http://a.example/")], path)
    first, second, third = (begun(database) for _ in range(3))
    index_file(database, list_, first)
    index_file(database, path, second)
    index_file(database, path, IndexOptions(margin=1, load_id=third.load_id, again=True))
    assert [(one.load_id, one.new, one.changed) for one in listed(database)] == [
        (second.load_id, 1, 1),
        (first.load_id, 1, 0),
    ]
    assert [domains(one) for one in listed(database)] == [{"domain:example": 2}, {"domain:example": 1}]


def test_withheld_documents_are_not_counted_in_loads(
    database: Database, staff: Staff, tmp_path: Path
) -> None:
    staff.make("secret")
    staff.rule("secret", WITHHELD)
    options = begun(database, spec="collection:secret")
    assert load(database, tmp_path / "a.warc", options, "a.example").merged.new == 1
    assert listed(database) == []


def test_taken_down_documents_are_not_counted_in_loads(database: Database, tmp_path: Path) -> None:
    with database.session() as session:
        enter(session, TakedownRequest(targets=("*.secret.test",), reason="r", requester="q"))
        session.commit()
    options = begun(database)
    assert load(database, tmp_path / "a.warc", options, "www.secret.test", "a.example").merged.new == 2
    load(database, tmp_path / "b.warc", options, "secret.test")
    (one,) = listed(database)
    assert (one.new, domains(one)) == (1, {"domain:example": 1})


def test_a_hidden_document_that_is_completed_is_not_counted_in_loads(
    database: Database, tmp_path: Path
) -> None:
    path = write_pages(tmp_path / "x.warc", [Page(url="http://a.example/")])
    index_file(database, cdxj(tmp_path / "x.cdxj", [Page(url="http://a.example/")], path), begun(database))
    with database.session() as session:
        session.execute(update(Document).values(deleted=True, hidden=True))
        session.commit()
    assert index_file(database, path, begun(database)).merged.completed == 1
    assert [(one.new, one.changed) for one in listed(database)] == [(1, 0)]


def test_sets_that_are_not_public_are_omitted_from_loads(database: Database, tmp_path: Path) -> None:
    load(database, tmp_path / "a.warc", begun(database, spec="collection:x"), "a.example", "b.test")
    with database.session() as session:
        session.execute(
            update(Domain).where(Domain.set_spec == "domain:test").values(unlisted=Domain.documents)
        )
        session.execute(update(Collection).values(access="withheld", unlisted=Collection.documents))
        session.commit()
    (one,) = listed(database)
    assert (one.collection, domains(one)) == (None, {"domain:example": 1})


def test_rows_that_are_due_are_added_up_without_a_change_of_the_list(
    database: Database, tmp_path: Path
) -> None:
    options = begun(database)
    for name in ("a", "b", "c"):
        load(database, tmp_path / f"{name}.warc", options, f"{name}.example", f"{name}.test")
    before = listed(database)
    for mark, rows in ((datetime(2020, 1, 1, tzinfo=UTC), 3), (LATER, 1)):
        with database.session() as session:
            session.execute(update(PublicationMark).values(moment=mark))
            session.commit()
            add_up(session, options.load_id)
            assert session.scalar(select(func.count()).select_from(LoadPart)) == rows
    assert listed(database) == before
    assert (before[0].new, domains(before[0])) == (6, {"domain:example": 3, "domain:test": 3})


def test_a_load_without_documents_is_removed_at_its_end(database: Database, tmp_path: Path) -> None:
    full, empty = begun(database), begun(database)
    load(database, tmp_path / "a.warc", full, "a.example")
    with database.session() as session:
        for one in (full, empty):
            end_load(session, one.load_id)
        assert session.scalars(select(Load.load_id)).all() == [full.load_id]


def test_loads_are_listed_in_pages_newest_first(database: Database, tmp_path: Path) -> None:
    for number in range(3):
        load(database, tmp_path / f"{number}.warc", begun(database), f"{number}.example")
    first = listed(database, limit=2)
    with database.session() as session:
        second = list_loads(session, LATER, limit=2, before=first[-1].load_id)
    assert [one.load_id for one in (*first, *second)] == [3, 2, 1]


def test_the_files_of_a_queued_run_share_a_load(database: Database, tmp_path: Path) -> None:
    with database.session() as session:
        run = IndexRun(host="here", again=False)
        numbers = add_run(session, run, [(tmp_path / "a.warc", 1), (tmp_path / "b.warc", 1)])
        session.commit()
        assert load_of_run(session, run.id, None) == load_of_run(session, run.id, None) == 1
        for number, over in zip(numbers, (False, True), strict=True):
            done = update(IndexFile).where(IndexFile.id == number).values(state=IndexFileState.DONE)
            session.execute(done)
            assert is_over(session, number) is over


@pytest.fixture
def staff(database: Database) -> Staff:
    return Staff(database)

"""Rows of archive files."""

import os
from datetime import UTC, datetime
from pathlib import Path

from sqlalchemy import select

from oai.database import Database
from oai.failures import FailureCode
from provider.holdings.arcs import AssignedRow, load_problems, save_problems, settle, shared_names
from provider.models import Arc
from provider.reading.framing import FramingProblem
from provider.storage.files import UNREAD, ArchiveFile, look_at
from provider.storage.places import stored_name
from tests.provider.holdings.staff import index


def test_the_time_of_a_file_is_exact_to_the_microsecond(tmp_path: Path) -> None:
    path = tmp_path / "a.warc"
    path.touch()
    os.utime(path, ns=(0, 1_234_567_890_123_456_789))
    assert look_at(path).modified == datetime(2009, 2, 13, 23, 31, 30, 123456, tzinfo=UTC)


def test_saving_the_problems_of_a_file_keeps_those_of_other_files(database: Database, tmp_path: Path) -> None:
    code = FailureCode.ARCHIVE_RECORD_BROKEN
    old, new = FramingProblem.of(code, "old", offset=1), FramingProblem.of(code, "new", offset=2)
    for name in "abc":
        index(database, tmp_path, name)
    with database.session() as session:
        first, second, third = session.scalars(select(Arc.id).order_by(Arc.id)).all()
        for number in (first, second, third):
            save_problems(session, number, [old])
        save_problems(session, second, [new])
        problems = [load_problems(session, number) for number in (first, second, third)]
    assert problems == [(old,), (new,), (old,)]


def test_names_shared_by_several_files_with_documents_are_listed(database: Database) -> None:
    paths = {
        "/one/shared.warc.gz": 1, "/two/shared.warc.gz": 1, "/three/shared.warc.gz": 1,
        "/one/copy.warc": 1, "/two/copy.warc": 0,
        "/one/packed.warc": 1, "/two/packed.warc.gz": 1,
        "/one.wacz#archive/data.warc.gz": 1, "/two.wacz#archive/data.warc.gz": 1,
        "/one/single.warc": 1,
    }  # fmt: skip
    with database.session() as session:
        for path, documents in paths.items():
            name = stored_name(path.rpartition("/")[2])
            session.add(Arc(path=path, name=name, size=1, modified=UNREAD, documents=documents))
        assert shared_names(session) == ["shared.warc.gz"]


def test_only_a_missing_file_of_the_same_name_is_recognised_as_moved(database: Database) -> None:
    with database.session() as session:
        for name in ("before.warc", "new.warc", "other.warc"):
            session.add(Arc(path=f"/gone/{name}", name=name, size=1, modified=UNREAD))
        session.flush()
        named = session.scalars(select(Arc.id).where(Arc.name == "new.warc")).one()
        file = ArchiveFile(path=Path("/here/new.warc"), size=1, modified=UNREAD)
        assert settle(session, file, whole=True) == AssignedRow(arc_id=named, known=True, moved=True)
        further = ArchiveFile(path=Path("/here/further.warc"), size=1, modified=UNREAD)
        assert not settle(session, further, whole=True).known

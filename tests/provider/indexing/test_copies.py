"""Documents follow their captures: into files with new names, and to the copy that has the content."""

import os
from collections.abc import Sequence
from pathlib import Path

from sqlalchemy import select

from oai.database import Database
from oai.failures import FailureCode
from provider.holdings.fixity import Checker, FixityChoice
from provider.indexing.indexer import IndexOptions, index_file
from provider.models import Arc, ArcProblem
from tests.provider.archives import Page, write_pages
from tests.provider.indexing.indexed import check_counts, counts

OPTIONS = IndexOptions(margin=1)
DAYS = [
    [
        Page(url=f"http://a.example/{n}", date=f"2024-01-0{day}T00:00:00Z", body=f"{day}: {n}".encode())
        for n in range(3)
    ]
    for day in (1, 2, 3)
]


def write(path: Path, pages: Sequence[Page], *, changed: int) -> Path:
    """Write a file whose time of change is the given second."""
    write_pages(path, pages)
    os.utime(path, (changed, changed))
    return path


def assert_intact(database: Database) -> None:
    """Every document is where its row says, and the counts agree."""
    check_counts(database)
    with database.session() as session:
        for check in Checker(session=session, choice=FixityChoice()).check():
            assert check.findings == [], check.path


def gone(database: Database) -> int:
    """How many files are noted to lack documents."""
    with database.session() as session:
        code = ArcProblem.failure_code == FailureCode.ARCHIVE_DOCUMENTS_GONE
        return len(session.scalars(select(ArcProblem).where(code)).all())


def test_a_new_file_with_the_name_of_a_moved_one_does_not_get_its_documents(
    database: Database, tmp_path: Path
) -> None:
    path = write(tmp_path / "01" / "site.warc.gz", DAYS[0], changed=1)
    index_file(database, path, OPTIONS)
    moved = tmp_path / "old" / "site.warc.gz"
    moved.parent.mkdir()
    path.rename(moved)
    new = write(tmp_path / "02" / "site.warc.gz", DAYS[1], changed=2)
    assert counts(index_file(database, new, OPTIONS)) == (3, 0, 0, 0)
    assert counts(index_file(database, moved, OPTIONS)) == (0, 0, 3, 0)
    assert (gone(database), paths_of(database)) == (0, {str(moved), str(new)})
    assert_intact(database)


def paths_of(database: Database) -> set[str | None]:
    with database.session() as session:
        return set(session.scalars(select(Arc.path)))

"""Documents follow their captures to renamed files, and to the copy that has the content."""

import base64
import hashlib
import os
import random
from collections.abc import Sequence
from dataclasses import replace
from itertools import product
from pathlib import Path

import pytest
from sqlalchemy import select, text, update
from sqlalchemy.orm import Session

from oai.database import Database
from oai.digests import same_digest
from oai.failures import FailureCode
from provider.holdings.fixity import Checker, FixityChoice
from provider.indexing.indexer import FileReport, IndexOptions, index_file
from provider.indexing.staging import open_staging
from provider.models import Arc, ArcProblem, Document
from tests.provider.archives import Page, warc_record, write_archive, write_pages
from tests.provider.holdings.test_documents_access import revisit
from tests.provider.indexing.indexed import check_counts, counts

OPTIONS = IndexOptions(margin=1)
AGAIN = IndexOptions(margin=1, again=True)
DAYS = [
    [
        Page(url=f"http://a.example/{n}", date=f"2024-01-0{day}T00:00:00Z", body=f"{day}: {n}".encode())
        for n in range(3)
    ]
    for day in (1, 2, 3)
]
PAGE = DAYS[0][0]


def write(path: Path, pages: Sequence[Page], *, changed: int) -> Path:
    """Write a file with this second as its modification time."""
    write_pages(path, pages)
    os.utime(path, (changed, changed))
    return path


def assert_intact(database: Database) -> None:
    """Check that every document is at the place in its row, and that the counts are correct."""
    check_counts(database)
    with database.session() as session:
        for check in Checker(session=session, choice=FixityChoice()).check():
            assert check.findings == [], check.path


def files(database: Database) -> dict[str, int]:
    """The number of documents by file name, of files with documents."""
    with database.session() as session:
        rows = session.execute(select(Arc.path, Arc.documents).where(Arc.documents > 0))
        return {Path(path or "").name: documents for path, documents in rows}


def gone(database: Database) -> int:
    """Return how many files are stored as lacking documents."""
    with database.session() as session:
        code = ArcProblem.failure_code == FailureCode.ARCHIVE_DOCUMENTS_GONE
        return len(session.scalars(select(ArcProblem).where(code)).all())


def codes(report: FileReport) -> list[FailureCode]:
    return [problem.failure.code for problem in report.merged.problems]


def test_a_wrong_document_count_is_corrected_when_a_file_is_indexed_again(
    database: Database, tmp_path: Path
) -> None:
    path = write_pages(tmp_path / "x.warc.gz", DAYS[0])
    index_file(database, path, OPTIONS)
    for pages in (DAYS[0], [*DAYS[0], *DAYS[1]], DAYS[2]):
        with database.session() as session:
            session.execute(update(Arc).values(documents=-7))
            session.commit()
        index_file(database, write_pages(path, pages), AGAIN)
        check_counts(database)


@pytest.mark.parametrize(
    "names", [("crawl.warc.gz", "crawl-1.warc.gz"), ("crawl-1.warc.gz", "crawl.warc.gz")]
)
def test_a_renamed_file_keeps_its_documents_if_its_old_name_is_reused(
    database: Database, tmp_path: Path, names: Sequence[str]
) -> None:
    path = write(tmp_path / "crawl.warc.gz", DAYS[0], changed=1)
    index_file(database, path, OPTIONS)
    path.rename(tmp_path / "crawl-1.warc.gz")
    write(path, DAYS[1], changed=2)
    for name in names:
        index_file(database, tmp_path / name, OPTIONS)
    assert files(database) == {"crawl.warc.gz": 3, "crawl-1.warc.gz": 3}
    assert_intact(database)
    assert not any(codes(index_file(database, tmp_path / name, OPTIONS)) for name in names)
    assert gone(database) == 0
    assert all(index_file(database, tmp_path / name, OPTIONS).skipped for name in names)


def test_files_that_swap_their_names_keep_their_documents(database: Database, tmp_path: Path) -> None:
    one, two = (write(tmp_path / f"{n}.warc.gz", DAYS[n], changed=n) for n in (1, 2))
    for path in (one, two):
        index_file(database, path, OPTIONS)
    one.rename(tmp_path / "kept")
    two.rename(one)
    (tmp_path / "kept").rename(two)
    for path in (one, two):
        index_file(database, path, OPTIONS)
    assert_intact(database)
    for path in (one, two):
        assert codes(index_file(database, path, OPTIONS)) == []
    assert_intact(database)


def test_an_indexed_copy_gets_the_documents_missing_from_the_first_file(
    database: Database, tmp_path: Path
) -> None:
    first, copy = (write(tmp_path / f"{name}.warc.gz", DAYS[0], changed=1) for name in "xy")
    for path in (first, copy):
        index_file(database, path, OPTIONS)
    write(first, DAYS[0][:1], changed=2)
    assert codes(index_file(database, first, OPTIONS)) == [FailureCode.ARCHIVE_DOCUMENTS_GONE]
    assert counts(index_file(database, copy, OPTIONS)) == (0, 0, 3, 0)
    assert_intact(database)
    assert (counts(index_file(database, first, OPTIONS)), gone(database)) == ((0, 0, 0, 1), 0)
    assert all(index_file(database, path, OPTIONS).skipped for path in (first, copy))


def test_a_copy_with_further_documents_gets_missing_ones_only_when_forced(
    database: Database, tmp_path: Path
) -> None:
    first = write(tmp_path / "x.warc.gz", DAYS[0], changed=1)
    copy = write(tmp_path / "y.warc.gz", [*DAYS[0], *DAYS[1]], changed=1)
    for path in (first, copy):
        index_file(database, path, OPTIONS)
    write(first, DAYS[0][:1], changed=2)
    assert codes(index_file(database, first, OPTIONS)) == [FailureCode.ARCHIVE_DOCUMENTS_GONE]
    # Reading all files with documents again for a copy would take days in a large archive.
    assert index_file(database, copy, OPTIONS).skipped
    assert counts(index_file(database, copy, AGAIN)) == (0, 3, 3, 0)
    assert_intact(database)


def test_a_copy_is_read_once_for_missing_documents_that_it_does_not_have(
    database: Database, tmp_path: Path
) -> None:
    first, copy = (write(tmp_path / f"{name}.warc.gz", DAYS[0][:1], changed=1) for name in "xy")
    write(first, [*DAYS[0][:1], *DAYS[1]], changed=1)
    for path in (first, copy):
        index_file(database, path, OPTIONS)
    write(first, DAYS[1][:1], changed=2)
    index_file(database, first, OPTIONS)
    assert not index_file(database, copy, OPTIONS).skipped
    assert codes(index_file(database, first, OPTIONS)) == [FailureCode.ARCHIVE_DOCUMENTS_GONE]
    assert index_file(database, copy, OPTIONS).skipped


def test_a_new_file_with_the_name_of_a_moved_file_does_not_get_its_documents(
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


def test_documents_stay_readable_however_files_are_renamed(database: Database, tmp_path: Path) -> None:
    chance = random.Random(3)
    names = [tmp_path / f"{name}.warc.gz" for name in "abcd"]
    second = 0
    for day in range(1, 9):
        contents = [path.read_bytes() for path in names if path.exists()]
        times = [path.stat().st_mtime for path in names if path.exists()]
        for path in names:
            path.unlink(missing_ok=True)
        for path, content, time in zip(chance.sample(names, len(contents)), contents, times, strict=True):
            path.write_bytes(content)
            os.utime(path, (time, time))
        if free := [path for path in names if not path.exists()]:
            second += 1
            pages = [replace(page, date=f"2024-02-{day:02}T00:00:00Z") for page in DAYS[0]]
            write(chance.choice(free), pages, changed=second)
        for _ in range(2):
            for path in chance.sample(names, len(names)):
                if path.exists():
                    index_file(database, path, OPTIONS)
        assert_intact(database)


def document(database: Database) -> Document:
    with database.session() as session:
        return session.scalars(select(Document)).one()


@pytest.mark.parametrize("together", [True, False])
def test_a_response_replaces_a_revisit_of_the_same_url_and_second(
    database: Database, tmp_path: Path, *, together: bool
) -> None:
    page = replace(PAGE, body=b"<html><title>The only copy</title>")
    records = [revisit(replace(page, status=304)), warc_record(page)]
    parts = [records] if together else [[record] for record in records]
    paths = [write_archive(tmp_path / f"{n}.warc.gz", part) for n, part in enumerate(parts)]
    for path in paths:
        index_file(database, path, OPTIONS)
    found = document(database)
    assert (found.record_type, found.length, found.title, found.http_status) == (
        "response", len(page.body), "The only copy", 200,
    )  # fmt: skip
    assert files(database) == {paths[-1].name: 1}
    for path in paths:
        report = index_file(database, path, AGAIN).merged
        assert (report.moved, report.completed, report.problems) == (0, 0, ())
    assert_intact(database)


def test_a_response_in_another_file_replaces_a_revisit_with_a_new_datestamp(
    database: Database, tmp_path: Path
) -> None:
    index_file(database, write_archive(tmp_path / "a.warc.gz", [revisit(PAGE)]), OPTIONS)
    before = document(database)
    report = index_file(
        database, write_archive(tmp_path / "b.warc.gz", [warc_record(PAGE)]), IndexOptions(margin=60)
    )
    assert (*counts(report), report.merged.completed) == (0, 0, 1, 0, 1)
    after = document(database)
    assert (after.key, after.datestamp > before.datestamp) == (before.key, True)


def test_a_revisit_does_not_replace_a_response_whose_file_has_changed(
    database: Database, tmp_path: Path
) -> None:
    first = write(tmp_path / "a.warc.gz", [PAGE], changed=1)
    index_file(database, first, OPTIONS)
    write(first, [PAGE, DAYS[0][1]], changed=2)
    index_file(database, write_archive(tmp_path / "b.warc.gz", [revisit(PAGE)]), OPTIONS)
    assert document(database).record_type == "response"
    assert files(database) == {"a.warc.gz": 1}


def stated(page: Page, digest: str) -> bytes:
    """The record with another digest."""
    return warc_record(page).replace(page.payload_digest.encode(), digest.encode())


@pytest.mark.parametrize("together", [True, False])
@pytest.mark.parametrize(
    ("body", "digest", "expected"),
    [
        (b"content Y", "sha1:{hex}", [FailureCode.ARCHIVE_DIGEST_DIFFERS]),
        (b"content X", "sha1:{hex}", []),
        (b"content X", "SHA-1:{base32}", []),
        (b"content X", "sha512:aa", []),
        (b"longer content", "sha512:aa", [FailureCode.ARCHIVE_DIGEST_DIFFERS]),
    ],
)
def test_different_content_is_reported_in_every_notation_of_digests(
    database: Database, tmp_path: Path, body: bytes, digest: str, expected: list[str], *, together: bool
) -> None:
    one, other = (replace(PAGE, body=content) for content in (b"content X", body))
    value = other.payload_digest.removeprefix("sha1:")
    digest = digest.format(hex=base64.b32decode(value).hex(), base32=value)
    records = [warc_record(one), stated(other, digest)]
    parts = [records] if together else [[record] for record in records]
    reports = [
        index_file(database, write_archive(tmp_path / f"{n}.warc.gz", part), OPTIONS)
        for n, part in enumerate(parts)
    ]
    if together:
        expected = [FailureCode.ARCHIVE_TIME_REPEATED for _ in expected]
    assert (codes(reports[-1]), reports[-1].merged.duplicates) == (expected, 0 if expected else 1)


def test_digests_are_compared_in_sql_as_in_python(database: Database) -> None:
    digests: list[str | None] = [None, "x", "md6:aa", "sha1:short"]
    for name in ("md5", "sha1", "sha256"):
        for content in (b"one", b"other"):
            value = hashlib.new(name, content, usedforsecurity=False)
            base32 = base64.b32encode(value.digest()).decode()
            digests += [f"{name}:{value.hexdigest()}", f"{name}:{base32}", f"{name}:{base32.rstrip('=')}"]
            digests.append(f"{name}:{value.hexdigest()}".upper().replace("SHA", "SHA-"))
    with database.engine.connect() as connection, Session(connection) as session:
        open_staging(session)
        for one, other in product(digests, repeat=2):
            values = {"one": one, "other": other}
            same = session.scalar(text("SELECT pg_temp.same(:one, :other)"), values)
            assert same is (True if one and one == other else same_digest(one, other)), values

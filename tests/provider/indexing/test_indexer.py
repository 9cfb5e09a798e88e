"""Captures of files become documents once; faults are reported; counts stay correct."""

import json
import os
import random
import shutil
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path

import pytest
from sqlalchemy import func, select, text, update

from oai.database import Database
from oai.errors import InterruptedRunError
from oai.failures import Failure, FailureCode
from provider.holdings.collections import add_collection, drop, lineage
from provider.indexing.archive_search import find_archives
from provider.indexing.indexer import IndexOptions, index_file
from provider.models import Arc, ArcProblem, Collection, Document, Domain, Mimetype
from provider.storage.places import place_of, stored_path
from tests.provider.archives import (
    Page,
    arc_info,
    arc_record,
    request_record,
    warc_other,
    warc_record,
    write_archive,
    write_pages,
)
from tests.provider.indexing.indexed import check_counts, counts, places

OPTIONS = IndexOptions(margin=1)
AGAIN = IndexOptions(margin=1, again=True)
PAGES = [
    Page(url="http://www.a.example/"),
    Page(url="http://www.a.example/logo", mime_type="image/svg+xml"),
    Page(url="http://b.example/", mime_type=None),
    Page(url="http://192.0.2.7/"),
]


@pytest.mark.parametrize("name", ["x.warc", "x.warc.gz", "x.warc.zst", "x.arc", "x.arc.gz"])
def test_every_page_of_a_file_becomes_a_document(database: Database, tmp_path: Path, name: str) -> None:
    report = index_file(database, write_pages(tmp_path / name, PAGES), OPTIONS)
    assert (counts(report), report.merged.problems) == ((4, 0, 0, 0), ())
    with database.session() as session:
        specs = session.scalars(select(Domain.set_spec).order_by(Domain.set_spec)).all()
        assert specs == [
            "domain:example",
            "domain:example:a",
            "domain:example:a:www",
            "domain:example:b",
            "domain:~ip",
            "domain:~ip:192.0.2.7",
        ]
        types = session.execute(select(Mimetype.set_spec, Mimetype.documents).order_by(Mimetype.set_spec))
        # An ARC record also has a type, but that of the HTTP header is used.
        assert [tuple(row) for row in types] == [
            ("mimetype:image", 1),
            ("mimetype:image:svg!2Bxml", 1),
            ("mimetype:text", 2),
            ("mimetype:text:html", 2),
            ("mimetype:unknown", 1),
        ]
    check_counts(database)


def test_indexing_again_changes_nothing(database: Database, tmp_path: Path) -> None:
    path = write_pages(tmp_path / "x.warc.gz", PAGES)
    index_file(database, path, OPTIONS)
    before = places(database)
    assert counts(index_file(database, path, AGAIN)) == (0, 4, 0, 0)
    skipped = index_file(database, path, OPTIONS)
    assert (counts(skipped), skipped.skipped) == ((0, 4, 0, 0), True)
    assert places(database) == before
    check_counts(database)


def test_a_file_that_has_grown_is_read_again(database: Database, tmp_path: Path) -> None:
    index_file(database, write_pages(tmp_path / "x.warc.gz", PAGES[:2]), OPTIONS)
    report = index_file(database, write_pages(tmp_path / "x.warc.gz", PAGES), OPTIONS)
    assert counts(report) == (2, 2, 0, 0)


@pytest.mark.parametrize("name", ["x.warc.gz", "x.arc.gz", "x.warc", "x.arc"])
def test_a_moved_file_keeps_its_documents(database: Database, tmp_path: Path, name: str) -> None:
    old = write_pages(tmp_path / "old" / name, PAGES)
    index_file(database, old, OPTIONS)
    before = places(database)
    new = tmp_path / name
    shutil.move(old, new)
    assert counts(index_file(database, new, OPTIONS)) == (0, 0, 4, 0)
    assert places(database) == [(str(new), offset, stamp) for _, offset, stamp in before]
    with database.session() as session:
        assert session.scalar(select(func.count()).select_from(Arc)) == 1


@pytest.mark.parametrize(
    ("kind", "from_", "to"),
    [
        ("warc", "", ".gz"),
        ("warc", ".gz", ".zst"),
        ("warc", ".zst", ""),
        ("arc", "", ".gz"),
        ("arc", ".gz", ""),
    ],
)
def test_a_recompressed_file_updates_only_the_places_of_its_documents(
    database: Database, tmp_path: Path, kind: str, from_: str, to: str
) -> None:
    old = write_pages(tmp_path / f"x.{kind}{from_}", PAGES)
    index_file(database, old, OPTIONS)
    before = places(database)
    old.unlink()
    new = write_pages(tmp_path / f"x.{kind}{to}", PAGES)
    assert counts(index_file(database, new, OPTIONS)) == (0, 0, 4, 0)
    after = places(database)
    assert [stamp for *_, stamp in after] == [stamp for *_, stamp in before]
    assert [offset for _, offset, _ in after] != [offset for _, offset, _ in before]
    assert {path for path, *_ in after} == {str(new)}
    check_counts(database)


def test_titles_are_kept_and_missing_ones_are_filled(database: Database, tmp_path: Path) -> None:
    path = write_pages(tmp_path / "x.warc.gz", PAGES)
    index_file(database, path, OPTIONS)
    with database.session() as session:
        titles = select(Document.title).order_by(Document.url)
        before = session.scalars(titles).all()
        assert set(before) == {"A page", None}
        # As a version before this one left them.
        session.execute(update(Document).values(title=None))
        session.commit()
        report = index_file(database, path, AGAIN)
        assert (counts(report), report.merged.completed) == ((0, 4, 0, 0), 2)
        assert session.scalars(titles).all() == before


def test_a_renamed_file_keeps_its_documents(database: Database, tmp_path: Path) -> None:
    old = write_pages(tmp_path / "x.warc.gz", PAGES)
    index_file(database, old, OPTIONS)
    new = old.rename(tmp_path / "y.warc.gz")
    assert counts(index_file(database, new, OPTIONS)) == (0, 0, 4, 0)
    with database.session() as session:
        assert session.scalars(select(Arc.path)).all() == [str(new)]
    check_counts(database)


def test_a_different_file_of_the_same_name_is_not_recognised_as_the_moved_file(
    database: Database, tmp_path: Path
) -> None:
    old = write_pages(tmp_path / "one" / "x.warc.gz", PAGES)
    index_file(database, old, OPTIONS)
    old.unlink()
    other = write_pages(tmp_path / "two" / "x.warc.gz", [Page(url="http://c.example/")])
    assert counts(index_file(database, other, OPTIONS)) == (1, 0, 0, 0)
    check_counts(database)


def test_captures_of_a_copy_are_counted_as_duplicates(database: Database, tmp_path: Path) -> None:
    one = write_pages(tmp_path / "one.warc.gz", PAGES)
    two = write_pages(tmp_path / "two.warc.gz", PAGES)
    index_file(database, one, OPTIONS)
    before = places(database)
    for _ in range(2):
        assert counts(index_file(database, two, AGAIN)) == (0, 0, 0, 4)
        assert counts(index_file(database, one, AGAIN)) == (0, 4, 0, 0)
    assert places(database) == before
    check_counts(database)


def test_an_indexed_copy_gets_the_documents_of_a_missing_file(database: Database, tmp_path: Path) -> None:
    first, copy = (write_pages(tmp_path / folder / "x.warc.gz", PAGES) for folder in ("one", "two"))
    index_file(database, first, OPTIONS)
    assert counts(index_file(database, copy, OPTIONS)) == (0, 0, 0, 4)
    assert index_file(database, copy, OPTIONS).skipped
    first.unlink()
    assert counts(index_file(database, copy, OPTIONS)) == (0, 0, 4, 0)
    assert {path for path, *_ in places(database)} == {str(copy)}
    assert index_file(database, copy, OPTIONS).skipped
    check_counts(database)


def dotted_row(database: Database, folder: Path) -> Path:
    """Index a file, store its path as earlier versions did for `../w`, and return the file."""
    (folder / "sub").mkdir()
    archive = write_pages(folder / "w" / "x.warc.gz", PAGES)
    index_file(database, archive, OPTIONS)
    with database.session() as session:
        session.execute(update(Arc).values(path=str(folder / "sub" / ".." / "w" / "x.warc.gz")))
        session.commit()
    return archive


def paths(database: Database) -> list[str | None]:
    with database.session() as session:
        return list(session.scalars(select(Arc.path).order_by(Arc.path)))


def test_a_path_with_dots_is_corrected_when_the_file_is_indexed_again(
    database: Database, tmp_path: Path
) -> None:
    archive = dotted_row(database, tmp_path)
    before = places(database)
    assert counts(index_file(database, archive, OPTIONS)) == (0, 4, 0, 0)
    assert paths(database) == [str(archive)]
    assert [place[1:] for place in places(database)] == [place[1:] for place in before]
    assert index_file(database, archive, OPTIONS).skipped
    check_counts(database)


@pytest.mark.parametrize(("plain", "options"), [(0, OPTIONS), (1, AGAIN), (4, AGAIN)])
def test_two_rows_for_the_same_file_are_merged(
    database: Database, tmp_path: Path, plain: int, options: IndexOptions
) -> None:
    archive = dotted_row(database, tmp_path)
    with database.session() as session:
        dotted = session.scalars(select(Arc)).one()
        values = {"name": dotted.name, "size": dotted.size, "modified": dotted.modified}
        twin = Arc(path=str(archive), documents=plain, **values)
        session.add(twin)
        session.flush()
        dotted.documents -= plain
        moved = select(Document.id).order_by(Document.id).limit(plain)
        session.execute(update(Document).where(Document.id.in_(moved)).values(arc_id=twin.id))
        session.commit()
    check_counts(database)
    assert counts(index_file(database, archive, options)) == (0, 4, 0, 0)
    assert paths(database) == [str(archive)]
    check_counts(database)


def test_a_path_with_dots_after_a_symbolic_link_is_resolved_as_the_system_does(
    database: Database, tmp_path: Path
) -> None:
    far, near = (write_pages(tmp_path / where / "w" / "x.warc", PAGES) for where in ("far", "near"))
    (tmp_path / "far" / "deep").mkdir()
    (tmp_path / "near" / "link").symlink_to(tmp_path / "far" / "deep")
    assert find_archives([tmp_path / "near" / "link" / ".." / "w"]) == [far]
    through = tmp_path / "near" / "link" / ".." / "w" / "x.warc"
    index_file(database, through, OPTIONS)
    assert counts(index_file(database, near, OPTIONS)) == (0, 0, 0, 4)
    assert paths(database) == sorted(map(str, (near, through)))
    assert counts(index_file(database, far, OPTIONS)) == (0, 4, 0, 0)
    assert paths(database) == sorted(map(str, (near, far)))


def test_a_file_with_documents_is_not_read_again_for_a_missing_one_of_its_name(
    database: Database, tmp_path: Path
) -> None:
    lost = write_pages(tmp_path / "one" / "x.warc.gz", PAGES)
    other = write_pages(tmp_path / "two" / "x.warc.gz", [Page(url="http://c.example/")])
    for path in (lost, other):
        index_file(database, path, OPTIONS)
    lost.unlink()
    assert index_file(database, other, OPTIONS).skipped


def test_a_repeated_capture_in_a_file_is_a_duplicate(database: Database, tmp_path: Path) -> None:
    path = write_pages(tmp_path / "x.warc.gz", [PAGES[0], PAGES[0]])
    for options, expected in ((OPTIONS, (1, 0, 0, 1)), (AGAIN, (0, 1, 0, 1))):
        assert counts(index_file(database, path, options)) == expected


def test_a_capture_with_other_content_is_a_problem(database: Database, tmp_path: Path) -> None:
    index_file(database, write_pages(tmp_path / "one.warc.gz", PAGES), OPTIONS)
    before = places(database)
    other = write_pages(tmp_path / "two.warc.gz", [Page(url=PAGES[0].url, body=b"quite another page")])
    report = index_file(database, other, OPTIONS)
    assert counts(report) == (0, 0, 0, 0)
    assert str(tmp_path / "one.warc.gz") in report.merged.problems[0].reason
    assert report.merged.problems[0].failure.code == FailureCode.ARCHIVE_DIGEST_DIFFERS
    assert places(database) == before


def test_content_replaced_in_a_file_updates_the_document_and_is_reported(
    database: Database, tmp_path: Path
) -> None:
    first, logo, other, last = PAGES
    path = write_pages(tmp_path / "x.warc.gz", PAGES)
    index_file(database, path, OPTIONS)
    with database.session() as session:
        session.execute(update(Document).values(datestamp=datetime(2020, 1, 1, tzinfo=UTC)))
        session.execute(update(Document).where(Document.url == first.url).values(hidden=True, deleted=True))
        session.commit()
    repaired = replace(first, body=b"<html><title>Repaired</title>", status=203)
    typed = replace(logo, body=b"text", mime_type="text/plain")
    write_pages(path, [typed, repaired, replace(last, record_type="revisit", digest=False), other])
    report = index_file(database, path, OPTIONS)
    assert (*counts(report), report.merged.completed) == (0, 0, 3, 0, 2)
    replaced, differs = sorted(report.merged.problems, key=lambda one: one.failure.code)
    assert replaced.failure == Failure(code=FailureCode.ARCHIVE_CONTENT_REPLACED, facts={"count": 2})
    assert "other content than when they were indexed: 2" in replaced.reason
    assert differs.failure.code == FailureCode.ARCHIVE_DIGEST_DIFFERS
    with database.session() as session:
        found = {one.url: one for one in session.scalars(select(Document))}
    document = found[first.url]
    assert (document.digest, document.title, document.http_status) == (
        repaired.payload_digest, "Repaired", 203,
    )  # fmt: skip
    assert (document.length, document.hidden, document.deleted) == (len(repaired.body), True, True)
    assert document.datestamp > found[other.url].datestamp
    assert (found[last.url].record_type, found[last.url].digest) == ("revisit", None)
    assert found[logo.url].digest == logo.payload_digest
    check_counts(database)
    write_pages(path, PAGES)
    assert index_file(database, path, OPTIONS).merged.completed == 2


@pytest.mark.parametrize("digest", [True, False])
def test_a_document_of_unknown_type_is_corrected_when_its_http_header_is_recognised(
    database: Database, tmp_path: Path, *, digest: bool
) -> None:
    page = Page(url="http://radio.example/", mime_type="audio/mpeg", body=b"music", digest=digest)
    record, path = warc_record(page), tmp_path / "x.warc.gz"
    index_file(database, write_archive(path, [record.replace(b"HTTP/", b"none/")]), OPTIONS)
    write_archive(path, [record])
    assert index_file(database, path, AGAIN).merged.completed == 1
    with database.session() as session:
        document = session.scalars(select(Document)).one()
    facts = (document.length, document.http_status, document.digest)
    assert facts == (len(page.body), 200, page.payload_digest)
    check_counts(database)


def test_a_document_keeps_its_content_if_the_order_of_records_changes(
    database: Database, tmp_path: Path
) -> None:
    page, other = PAGES[0], replace(PAGES[0], body=b"<html>Another")
    path = write_pages(tmp_path / "x.warc.gz", [page, other])
    index_file(database, path, OPTIONS)
    write_pages(path, [other, page])
    report = index_file(database, path, OPTIONS)
    assert (counts(report), report.merged.completed) == ((0, 0, 1, 0), 0)
    with database.session() as session:
        assert session.scalars(select(Document.digest)).one() == page.payload_digest


def test_documents_missing_from_a_changed_file_are_reported(database: Database, tmp_path: Path) -> None:
    index_file(database, write_pages(tmp_path / "x.warc.gz", PAGES), OPTIONS)
    report = index_file(database, write_pages(tmp_path / "x.warc.gz", PAGES[:1]), OPTIONS)
    (problem,) = report.merged.problems
    assert "indexed from this file earlier that are no longer in it: 3" in problem.reason
    assert problem.failure == Failure(code=FailureCode.ARCHIVE_DOCUMENTS_GONE, facts={"count": 3})


def _with_request(answer: bytes, url: str, method: str, date: str) -> list[bytes]:
    return [answer, request_record(url, method, 0).replace(b"03:04:05Z", date.encode())]


def test_documents_that_were_made_of_answers_to_other_methods_follow_their_file(
    database: Database, tmp_path: Path
) -> None:
    url = "https://forms.example/search"
    page, answer = (warc_record(Page(url=url, date=f"2007-11-02T03:04:0{second}Z")) for second in (5, 9))
    path = write_archive(tmp_path / "x.warc.gz", [page, answer])
    assert counts(index_file(database, path, OPTIONS)) == (2, 0, 0, 0)
    new = warc_record(Page(url=url, date="2007-11-02T03:04:07Z"))
    records = [
        page,
        *_with_request(new, url, "HEAD", "03:04:07Z"),
        *_with_request(answer, url, "POST", "03:04:09Z"),
    ]
    write_archive(path, records)

    report = index_file(database, path, OPTIONS)

    assert (counts(report), report.merged.problems) == ((0, 1, 1, 0), ())
    assert report.ignored == {"request": 2, "post": 1, "head": 1}
    with database.session() as session:
        assert session.scalars(select(Document.deleted)).all() == [False, False]
    again = index_file(database, path, AGAIN)
    assert (counts(again), again.merged.problems) == ((0, 2, 0, 0), ())
    check_counts(database)


def test_a_page_with_the_url_and_second_of_an_ignored_answer_is_indexed(
    database: Database, tmp_path: Path
) -> None:
    url = "https://forms.example/search"
    page = warc_record(Page(url=url))
    answer = warc_record(Page(url=url, body=b"", status=204))
    path = write_archive(tmp_path / "x.warc.gz", [*_with_request(answer, url, "OPTIONS", "03:04:05Z"), page])
    for options in (OPTIONS, AGAIN):
        report = index_file(database, path, options)
        assert (report.ignored, report.merged.problems) == ({"request": 1, "options": 1}, ())
    with database.session() as session:
        assert session.scalars(select(Document.http_status)).all() == [200]


def test_an_answer_that_a_cdx_file_has_listed_stays_when_its_archive_file_is_indexed(
    database: Database, tmp_path: Path
) -> None:
    url = "https://forms.example/search"
    answer = warc_record(Page(url=url, date="2007-11-02T03:04:05.250Z"))
    records = _with_request(answer, url, "POST", "03:04:05.250Z")
    path = write_archive(tmp_path / "x.warc.gz", records)
    line = {"url": url, "mime": "text/html", "status": "200", "offset": "0", "filename": "x.warc.gz"}
    listed = tmp_path / "x.cdxj"
    listed.write_text(f"example,forms)/search 20071102030405 {json.dumps(line)}\n")
    assert index_file(database, listed, replace(OPTIONS, archive_dir=tmp_path)).merged.new == 1
    report = index_file(database, path, OPTIONS)
    assert (report.merged.completed, report.merged.problems) == (1, ())


def test_problems_are_stored_and_reported_again_when_the_file_is_skipped(
    database: Database, tmp_path: Path
) -> None:
    path = write_archive(tmp_path / "x.warc", [warc_record(PAGES[0]), b"garbage\n", warc_other("request")])
    first = index_file(database, path, OPTIONS)
    second = index_file(database, path, OPTIONS)
    assert (len(first.merged.problems), first.ignored) == (1, {"request": 1})
    assert second.skipped
    assert second.merged.problems == first.merged.problems
    index_file(database, write_pages(path, PAGES[:1]), OPTIONS)
    with database.session() as session:
        assert session.scalar(select(func.count()).select_from(ArcProblem)) == 0


def test_a_file_that_cannot_be_opened_is_reported(database: Database, tmp_path: Path) -> None:
    for path in (tmp_path / "gone.warc", tmp_path):
        report = index_file(database, path, OPTIONS)
        assert "cannot be opened" in report.merged.problems[0].reason
        assert report.merged.problems[0].failure.code == FailureCode.ARCHIVE_NOT_READABLE


@pytest.fixture
def latin_2(tmp_path: Path) -> Path:
    """An archive file in a folder, whose names are in ISO 8859-2, as older Czech systems wrote them."""
    path = Path(os.fsdecode(os.fsencode(tmp_path) + b"/b\xfdval\xe9/\xe8l%nky 1.warc.gz"))
    try:
        return write_pages(path, PAGES[:2])
    except OSError:
        pytest.skip("this file system keeps no such names")


def test_a_file_whose_name_is_not_utf_8_is_indexed_and_skipped_the_next_time(
    database: Database, latin_2: Path
) -> None:
    assert counts(index_file(database, latin_2, OPTIONS)) == (2, 0, 0, 0)
    assert index_file(database, latin_2, OPTIONS).skipped
    with database.session() as session:
        (arc,) = session.scalars(select(Arc)).all()
    assert arc.path is not None
    assert arc.path.endswith("/b%FDval%E9/%E8l%25nky%201.warc.gz")
    assert arc.path.startswith("file:///")
    assert arc.name == "%E8l%25nky%201.warc"
    assert place_of(arc.path) == latin_2


def test_a_moved_file_whose_name_is_not_utf_8_is_recognised(database: Database, latin_2: Path) -> None:
    index_file(database, latin_2, OPTIONS)
    moved = latin_2.rename(latin_2.parent.parent / latin_2.name)
    assert counts(index_file(database, moved, OPTIONS)) == (0, 0, 2, 0)
    with database.session() as session:
        assert [place_of(path or "") for path in session.scalars(select(Arc.path))] == [moved]


@pytest.mark.parametrize("path", ["/srv/a.warc", "/srv/%E8.warc", "/srv/\\xe8.warc", "/srv/\udce8 %E8.warc"])
def test_every_path_is_restored_from_its_stored_form(path: str) -> None:
    stored = stored_path(Path(path))
    assert str(place_of(stored)) == path
    assert stored.isprintable()
    assert (stored == path) == path.isprintable()


def test_a_file_named_directly_is_recognised_by_its_first_bytes(database: Database, tmp_path: Path) -> None:
    (tmp_path / "capture").write_bytes(arc_record(PAGES[0]))
    (tmp_path / "notes.txt").write_bytes(b"hello\n" + arc_record(PAGES[1]))
    assert counts(index_file(database, tmp_path / "capture", OPTIONS)) == (1, 0, 0, 0)
    report = index_file(database, tmp_path / "notes.txt", OPTIONS)
    assert counts(report) == (0, 0, 0, 0)
    assert [one.failure.code for one in report.merged.problems] == [FailureCode.ARCHIVE_NOT_ARCHIVE]


def test_a_bz2_file_named_directly_is_reported_with_advice(database: Database, tmp_path: Path) -> None:
    (tmp_path / "x.warc.bz2").write_bytes(b"BZh91AY")
    (problem,) = index_file(database, tmp_path / "x.warc.bz2", OPTIONS).merged.problems
    assert problem.failure == Failure(code=FailureCode.ARCHIVE_PACKED, facts={"format": "bz2"})
    assert "unpack it, then index the result" in problem.reason


def test_adjusted_dates_are_counted_and_not_reported_as_problems(database: Database, tmp_path: Path) -> None:
    records = [arc_info(), arc_record(PAGES[0], date="2016020900"), arc_record(PAGES[1])]
    report = index_file(database, write_archive(tmp_path / "x.arc", records), OPTIONS)
    assert (counts(report), report.adjusted_dates) == ((2, 0, 0, 0), 1)
    assert report.merged.problems == ()


def test_problems_beyond_the_limit_are_reported_as_a_number(database: Database, tmp_path: Path) -> None:
    bad = warc_record(Page(url="no url"))
    report = index_file(database, write_archive(tmp_path / "x.warc", [bad] * 1500), OPTIONS)
    assert len(report.merged.problems) == 1001
    last = report.merged.problems[-1]
    assert last.reason == "and 500 more problems in this file"
    assert last.failure == Failure(code=FailureCode.ARCHIVE_MORE_PROBLEMS, facts={"count": 500})


def test_an_interruption_leaves_no_documents_of_the_file(database: Database, tmp_path: Path) -> None:
    path = write_pages(tmp_path / "x.warc.gz", [Page(url=f"http://a.example/{n}") for n in range(600)])
    calls = iter(range(10))

    def interrupt_the_second_time(_: int) -> None:
        if next(calls):
            raise InterruptedRunError("enough")

    with pytest.raises(InterruptedRunError):
        index_file(database, path, OPTIONS, interrupt_the_second_time)
    assert places(database) == []
    assert counts(index_file(database, path, OPTIONS)) == (600, 0, 0, 0)


def test_new_documents_go_into_the_collection_with_one_datestamp(database: Database, tmp_path: Path) -> None:
    with database.session() as session:
        add_collection(session, "collection:serials:nov07")
        session.commit()
        family = lineage(session, "collection:serials:nov07")
    options = IndexOptions(margin=1, collections=family)
    index_file(database, write_pages(tmp_path / "x.warc.gz", PAGES), options)
    with database.session() as session:
        rows = session.execute(
            text(
                "SELECT set_spec, direct, m.datestamp = d.datestamp AS same, count(*) AS number"
                " FROM document_collection m JOIN collection c ON c.id = collection_id"
                " JOIN document d ON d.id = document_id GROUP BY 1, 2, 3 ORDER BY 1"
            )
        )
        assert [tuple(row) for row in rows] == [
            ("collection", False, True, 4),
            ("collection:serials", False, True, 4),
            ("collection:serials:nov07", True, True, 4),
        ]
    check_counts(database)


def test_counts_stay_correct_after_any_changes_of_files(database: Database, tmp_path: Path) -> None:
    chance = random.Random(7)
    hosts = ["a.example", "www.a.example", "x.www.a.example", "localhost", "192.0.2.1", "b.test"]
    for _ in range(25):
        files = sorted(tmp_path.glob("*/*"))
        action = chance.choice(["write", "write", "move", "delete", "pack"])
        if action == "write" or not files:
            pages = [
                Page(url=f"http://{chance.choice(hosts)}/{chance.randrange(20)}")
                for _ in range(chance.randrange(8))
            ]
            suffix = chance.choice(["warc", "warc.gz", "arc", "arc.gz"])
            file = write_pages(tmp_path / chance.choice("pq") / f"{chance.choice('xyz')}.{suffix}", pages)
        else:
            file = chance.choice(files)
            if action == "delete":
                file.unlink()
                continue
            new = tmp_path / chance.choice("pq") / (chance.choice("xyz") + "".join(file.suffixes))
            file = file.rename(new) if action == "move" else file
        index_file(database, file, OPTIONS)
        check_counts(database)


def test_a_collection_removed_during_indexing_is_reported(database: Database, tmp_path: Path) -> None:
    with database.session() as session:
        add_collection(session, "collection:short")
        session.commit()
        family = lineage(session, "collection:short")

    def remove(_offset: int) -> None:
        with database.session() as session:
            if session.scalar(select(Collection.id)) is not None:
                drop(session, "collection:short", force=False, margin=1)

    options = IndexOptions(margin=1, collections=family)
    report = index_file(database, write_pages(tmp_path / "x.warc.gz", PAGES), options, remove)
    (problem,) = report.merged.problems
    assert problem.reason == "not indexed: its collection was removed meanwhile"
    assert problem.failure.code == FailureCode.ARCHIVE_COLLECTION_GONE
    assert not report.indexed


@pytest.mark.parametrize("charset", ["undefined", "unicode_escape", "hex", "idna"])
def test_a_page_in_a_strange_character_set_is_indexed(
    database: Database, tmp_path: Path, charset: str
) -> None:
    page = Page(
        url="http://a.example/",
        mime_type=f"text/html; charset={charset}",
        body="<title>Žatva \\ud800</title>".encode(),
    )
    report = index_file(database, write_pages(tmp_path / "x.warc.gz", [page]), OPTIONS)
    assert counts(report)[0] == 1
    with database.session() as session:
        assert session.scalars(select(Document.title)).one() == "Žatva \\ud800"

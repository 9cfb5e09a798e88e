"""WACZ files are indexed in place with the same result as the files in them; faults are reported."""

import io
import json
import shutil
import struct
import zipfile
from collections.abc import Callable, Sequence
from pathlib import Path
from random import Random
from typing import Any

import pytest
from sqlalchemy import func, select, text

from oai.database import Database
from oai.failures import FailureCode
from oai.sections import ProviderSettings
from provider.export.warc_download import export_warc
from provider.holdings.documents import open_document
from provider.holdings.fixity import Checker, FixityChoice
from provider.holdings.lookup import MatchType, Query
from provider.indexing.archive_search import search
from provider.indexing.browsing import FileKnown, changed_files, find_files, list_folder
from provider.indexing.indexer import FileReport, IndexOptions, index_file
from provider.models import Arc, Document
from provider.storage.files import Presence, presence
from provider.storage.places import Member, place_of, stored_path
from provider.storage.zip_directory import MOST_DIRECTORY, MemberError, read_directory, read_member
from tests.provider.archives import Page, frame, packed, skippable, warc_other, warc_record, write_archive
from tests.provider.holdings.test_documents_access import revisit
from tests.provider.reading.test_zstd_frames import DICTIONARIES
from tests.provider.waczs import PAGES_HEADER, datapackage, multi_wacz, wacz

OPTIONS = IndexOptions(margin=1)
PAGES = [
    Page(url="http://a.example/", body=b"<html><title>A</title></html>" * 40),
    Page(url="http://a.example/none", body=b"<html>without</html>" * 5000),
    Page(url="http://b.example/logo", mime_type="image/png", body=bytes(range(256)) * 300),
    Page(url="http://b.example/file", record_type="resource", mime_type="text/plain", body=b"plain"),
]
RECORDS = [
    warc_other("warcinfo"),
    *map(warc_record, PAGES),
    revisit(Page(url=PAGES[0].url, date="2010-01-01T00:00:00Z", body=PAGES[0].body)),
]
GZIPPED = b"".join(packed(Path("x.gz"), record) for record in RECORDS)
DICTIONARY = DICTIONARIES[0]
KEY = Document.key


def forms(folder: Path) -> dict[str, Path]:
    """The same records in every form that is read."""
    with_dictionary = skippable(DICTIONARY.dict_content, 0x5D) + b"".join(
        frame(record, DICTIONARY) for record in RECORDS
    )
    pieces = [frame(r[i : i + 1500]) for r in RECORDS for i in range(0, len(r), 1500)]
    (folder / "dictionary").mkdir(parents=True)
    (folder / "dictionary" / "x.warc.zst").write_bytes(with_dictionary)
    (folder / "pieces").mkdir()
    (folder / "pieces" / "x.warc.zst").write_bytes(b"".join(pieces))
    return {
        "plain": write_archive(folder / "plain" / "x.warc", RECORDS),
        "gzip": write_archive(folder / "gzip" / "x.warc.gz", RECORDS),
        "zstd": write_archive(folder / "zstd" / "x.warc.zst", RECORDS),
        "zstd with a dictionary": folder / "dictionary" / "x.warc.zst",
        "zstd in pieces": folder / "pieces" / "x.warc.zst",
        "wacz": wacz(folder / "x.wacz", {"x.warc.gz": GZIPPED}),
        "wacz with a plain file": wacz(folder / "p.wacz", {"x.warc": b"".join(RECORDS)}),
        "wacz with zstd": wacz(folder / "z.wacz", {"x.warc.zst": with_dictionary}),
        "wacz with extra fields": wacz(
            folder / "e.wacz", {"x.warc.gz": GZIPPED}, extra=struct.pack("<2H8s", 0xCAFE, 8, b"x" * 8)
        ),
        "wacz files in a wacz": multi_wacz(
            folder / "multi.wacz",
            {
                "one.wacz": wacz(
                    folder / "parts" / "one.wacz",
                    {"x.warc.gz": b"".join(packed(Path("x.gz"), record) for record in RECORDS[:3])},
                ).read_bytes(),
                "parts/two.wacz": wacz(
                    folder / "parts" / "two.wacz", {"x.warc": b"".join(RECORDS[3:])}
                ).read_bytes(),
            },
        ),
        "two files": wacz(
            folder / "two.wacz",
            {
                "x.warc.gz": b"".join(packed(Path("x.gz"), record) for record in RECORDS[:3]),
                "y.warc.gz": b"".join(packed(Path("x.gz"), record) for record in RECORDS[3:]),
            },
        ),
    }


def index(database: Database, path: Path, options: IndexOptions = OPTIONS) -> list[FileReport]:
    return [index_file(database, file, options) for file in search([path]).archives]


def contents(database: Database) -> list[tuple[Any, ...]]:
    """Every document with its bytes as served."""
    found = []
    with database.session() as session:
        columns = (KEY, Document.url, Document.digest, Document.length, Document.title, Document.record_type)
        rows: list[Any] = [tuple(row) for row in session.execute(select(*columns).order_by(KEY))]
    for row in rows:
        opened = open_document(database.read, ProviderSettings(), row[0], None)
        with_body = b"".join(opened.record.blocks(opened.holder.digest))
        opened.record.close()
        found.append((*row, opened.checked, opened.record.description.http_status, with_body))
    return found


def test_all_forms_of_archive_files_give_the_same_documents(database: Database, tmp_path: Path) -> None:
    results = {}
    for name, path in forms(tmp_path).items():
        reports = index(database, path)
        assert [one.merged.problems for one in reports] == [()] * len(reports), name
        assert sum(one.merged.new for one in reports) == 5, name
        results[name] = contents(database)
        exported = b"".join(
            export_warc(
                database,
                ProviderSettings(),
                Query(url="http://a.example/none", match=MatchType.EXACT, limit=1),
            )
        )
        (tmp_path / "out.warc.gz").write_bytes(exported)
        assert index_file(database, tmp_path / "out.warc.gz", OPTIONS).merged.duplicates == 1, name
        with database.session() as session:
            checks = list(Checker(session=session, choice=FixityChoice()).check())
            assert [(one.findings, one.checked > 0) for one in checks if one.checked] == [([], True)] * len(
                reports
            ), name
            session.execute(text("TRUNCATE arc, document CASCADE"))
            session.commit()
    assert len(results["plain"]) == 5
    assert {name for name, found in results.items() if found != results["plain"]} == set()


def test_a_moved_or_unpacked_wacz_file_keeps_its_documents(database: Database, tmp_path: Path) -> None:
    path = wacz(tmp_path / "x.wacz", {"x.warc.gz": GZIPPED})
    (report,) = index(database, path)
    assert stored_path(report.path) == f"{path}#archive/x.warc.gz"
    assert index(database, path)[0].skipped
    moved = tmp_path / "deep" / "y.wacz"
    moved.parent.mkdir()
    shutil.move(path, moved)
    assert presence(f"{path}#archive/x.warc.gz") is Presence.GONE
    assert presence(f"{moved}#archive/y.warc.gz") is Presence.GONE
    assert presence(f"{moved}#archive/x.warc.gz") is Presence.HERE
    assert index(database, moved)[0].merged.moved == 5
    moved.unlink()
    (tmp_path / "x.warc").write_bytes(b"".join(RECORDS))
    assert index(database, tmp_path / "x.warc")[0].merged.moved == 5
    with database.session() as session:
        assert session.scalars(select(Arc.path)).all() == [str(tmp_path / "x.warc")]


def test_a_member_with_a_wrong_digest_is_not_indexed(database: Database, tmp_path: Path) -> None:
    content = {"archive/x.warc.gz": GZIPPED, "archive/y.warc": b"".join(RECORDS[:2])}
    package = datapackage(content)
    package["resources"][0]["hash"] = "sha256:" + "0" * 64
    path = wacz(
        tmp_path / "x.wacz",
        {"x.warc.gz": GZIPPED, "y.warc": b"".join(RECORDS[:2])},
        datapackage=json.dumps(package),
    )
    bad, good = index(database, path)
    assert (bad.indexed, good.indexed) == (False, True)
    assert [one.failure.code for one in bad.merged.problems] == [FailureCode.ARCHIVE_MEMBER_ALTERED]
    assert "archive/x.warc.gz does not have the digest in datapackage.json" in bad.merged.problems[0].reason
    with database.session() as session:
        assert session.scalars(select(Document.url)).all() == [PAGES[0].url]
        assert session.scalar(select(func.count()).select_from(Arc)) == 1


def altered(size: int | None = None, crc: int | None = None) -> Callable[[Path], Path]:
    """Return a function that changes the directory entry of the first member."""

    def change(path: Path) -> Path:
        data = bytearray(path.read_bytes())
        place = data.index(b"PK\x01\x02")
        if crc is not None:
            data[place + 16 : place + 20] = crc.to_bytes(4, "little")
        if size is not None:
            data[place + 20 : place + 28] = size.to_bytes(4, "little") * 2
        path.write_bytes(bytes(data))
        return path

    return change


def encrypted(path: Path) -> Path:
    data = bytearray(path.read_bytes())
    data[data.index(b"PK\x01\x02") + 8] |= 1
    path.write_bytes(bytes(data))
    return path


def twice(path: Path) -> Path:
    with pytest.warns(UserWarning, match="Duplicate name"), zipfile.ZipFile(path, "a") as file:
        file.writestr("archive/x.warc.gz", GZIPPED)
    return path


def renamed_in_header(path: Path) -> Path:
    data = path.read_bytes()
    path.write_bytes(data.replace(b"archive/x.warc.gz", b"archive/z.warc.gz", 1))
    return path


def nothing(path: Path) -> Path:
    return path


def named(name: str) -> Callable[[Path], Path]:
    """Return a function that renames the member."""

    def change(path: Path) -> Path:
        with zipfile.ZipFile(path, "w") as file:
            file.writestr(zipfile.ZipInfo(name, (2026, 1, 1, 0, 0, 0)), GZIPPED)
        return path

    return change


def beyond_the_end(path: Path) -> Path:
    """Let the directory refer to an offset after itself."""
    data = bytearray(path.read_bytes())
    place = data.index(b"PK\x01\x02") + 42
    data[place : place + 4] = (len(data) - 10).to_bytes(4, "little")
    path.write_bytes(bytes(data))
    return path


def overlapping(path: Path) -> Path:
    """Let a second entry of the directory have the data of the first one, as overlapping zip bombs do."""
    out = io.BytesIO(path.read_bytes())
    with zipfile.ZipFile(out, "a") as file:
        info = file.getinfo("archive/x.warc.gz")
        other = zipfile.ZipInfo("archive/y.warc.gz", info.date_time)
        other.header_offset, other.CRC, other.file_size = info.header_offset, info.CRC, info.file_size
        other.compress_size = info.compress_size
        file.filelist.append(other)
        file.NameToInfo[other.filename] = other
        file._didModify = True  # type: ignore[attr-defined]  # noqa: SLF001 writes the directory again
    path.write_bytes(out.getvalue())
    return path


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        (altered(size=len(GZIPPED) - 1), "has another size"),
        (altered(size=10**9), "overlaps another member or the directory"),
        (encrypted, "it is encrypted"),
        (twice, "another member has the same path"),
        (renamed_in_header, "names another file"),
        (overlapping, "overlaps another member"),
        (beyond_the_end, "overlaps another member"),
        (named("/archive/x.warc.gz"), "its path is absolute, has parts such as .."),
        (named("archive/../../x.warc.gz"), "its path is absolute, has parts such as .."),
        (named("archive\\x.warc.gz"), "its path is absolute, has parts such as .."),
        (named("x.warc.gz"), "are in its folder archive"),
        (named("archive/x.wacz#y.warc.gz"), "its path has .wacz#"),
    ],
)
def test_a_member_that_cannot_be_read_in_place_is_refused(
    database: Database, tmp_path: Path, change: Callable[[Path], Path], reason: str
) -> None:
    path = change(wacz(tmp_path / "x.wacz", {"x.warc.gz": GZIPPED}))
    for report in index(database, path):
        assert not report.indexed
        (problem,) = report.merged.problems
        assert problem.failure.code is FailureCode.ARCHIVE_MEMBER_REFUSED
        assert reason in problem.reason
    with database.session() as session:
        assert session.scalar(select(func.count()).select_from(Document)) == 0


_Nested = Callable[[Path, bytes], Path]


def _multi(name: str = "in.wacz", change: Callable[[Path], Path] = nothing) -> _Nested:
    return lambda path, inner: change(multi_wacz(path, {name: inner}))


def _twice_nested(path: Path, inner: bytes) -> Path:
    middle = multi_wacz(path.with_name("middle"), {"in.wacz": inner})
    return multi_wacz(path, {"middle.wacz": middle.read_bytes()})


@pytest.mark.parametrize(
    ("nest", "reason"),
    [
        (_twice_nested, "a WACZ file may be in one other WACZ file only"),
        (_multi("../in.wacz"), "its path is absolute, has parts such as .."),
        (_multi(change=altered(size=100)), "has another size"),
        (_multi(change=altered(size=10**9)), "overlaps another member or the directory"),
        (_multi(change=encrypted), "it is encrypted"),
        (lambda path, inner: multi_wacz(path, {"in.wacz": inner}, compression=8), "stored as they are"),
        (lambda path, inner: multi_wacz(path, {"in.wacz": inner[:-30]}), "not a readable ZIP file"),
    ],
)
def test_a_wacz_in_a_wacz_that_cannot_be_read_in_place_is_refused(
    database: Database, tmp_path: Path, nest: _Nested, reason: str
) -> None:
    inner = wacz(tmp_path / "in" / "x.wacz", {"x.warc.gz": GZIPPED}).read_bytes()
    (report,) = index(database, nest(tmp_path / "x.wacz", inner))
    (problem,) = report.merged.problems
    assert (report.indexed, reason in problem.reason) == (False, True), problem.reason


def test_digests_of_a_wacz_in_a_wacz_are_checked(database: Database, tmp_path: Path) -> None:
    inner = wacz(tmp_path / "in" / "x.wacz", {"x.warc.gz": GZIPPED}).read_bytes()
    damaged = inner.replace(GZIPPED, GZIPPED[:-40] + b"\xff" * 40)
    reports = index(database, multi_wacz(tmp_path / "x.wacz", {"a.wacz": damaged, "b.wacz": inner}))
    assert [(one.indexed, one.merged.new) for one in reports] == [(False, 0), (True, 5)]
    assert str(reports[1].path) == f"{tmp_path}/x.wacz#b.wacz#archive/x.warc.gz"
    assert "does not have the digest in datapackage.json" in reports[0].merged.problems[0].reason


def test_a_compressed_member_and_one_with_a_wrong_checksum_are_refused(
    database: Database, tmp_path: Path
) -> None:
    path = wacz(tmp_path / "x.wacz", {"x.warc.gz": GZIPPED}, compression=zipfile.ZIP_DEFLATED)
    (report,) = index(database, path)
    assert "WACZ requires WARC files to be stored as they are" in report.merged.problems[0].reason
    path = altered(crc=1)(wacz(tmp_path / "y.wacz", {"y.warc.gz": GZIPPED}))
    (report,) = index(database, path)
    assert "does not have the checksum in the ZIP directory" in report.merged.problems[0].reason


@pytest.mark.parametrize(
    ("others", "reason"),
    [
        ({"datapackage": json.dumps({"resources": []})}, "has no digest of archive/x.warc.gz"),
        ({"datapackage": "{"}, "datapackage.json does not list resources"),
        (
            {"datapackage": json.dumps({"resources": [{"path": "archive/x.warc.gz", "hash": "crc7:0"}]})},
            "unknown algorithm",
        ),
        (
            {"datapackage": json.dumps({"resources": [{"path": "y", "hash": "0"}]})},
            "has no digest of archive",
        ),
        ({"pages_jsonl": "{}\n[]\n" + '{"url":1}\n'}, "2 lines of pages/pages.jsonl are not pages"),
        ({"pages_jsonl": "x" * (33 << 20)}, "has more than 33,554,432 bytes"),
    ],
)
def test_a_member_without_a_usable_digest_is_indexed_and_reported(
    database: Database, tmp_path: Path, others: dict[str, Any], reason: str
) -> None:
    (report,) = index(database, wacz(tmp_path / "x.wacz", {"x.warc.gz": GZIPPED}, **others))
    assert (report.merged.new, report.indexed) == (5, True)
    (problem,) = report.merged.problems
    assert problem.failure.code is FailureCode.ARCHIVE_MEMBER_UNCHECKED
    assert reason in problem.reason


def test_a_datapackage_with_a_wrong_digest_is_refused(database: Database, tmp_path: Path) -> None:
    stated = json.dumps({"hash": "sha256:" + "0" * 64})
    (report,) = index(database, wacz(tmp_path / "x.wacz", {"x.warc.gz": GZIPPED}, digest=stated))
    assert not report.indexed
    assert "datapackage.json does not have the digest" in report.merged.problems[0].reason


def titles(database: Database) -> Sequence[str | None]:
    with database.session() as session:
        order = select(Document.title).order_by(Document.url, Document.archived)
        return session.scalars(order).all()


def test_missing_titles_are_filled_from_the_list_of_pages(database: Database, tmp_path: Path) -> None:
    pages = [
        {"url": PAGES[0].url, "ts": "2007-11-02T03:04:00Z", "title": "Not this one"},
        {"url": PAGES[1].url + "#top", "ts": "2001-01-01T00:00:00Z", "title": "Old"},
        {"url": PAGES[1].url, "ts": "2007-11-02T03:05:00Z", "title": " From  the\nlist "},
        {"url": PAGES[1].url, "ts": "2020-01-01T00:00:00Z", "title": "New"},
        {"url": PAGES[2].url, "ts": "2007-11-02T03:05:00Z", "title": "No page"},
        {"url": "mailto:x", "ts": "never", "title": "Nothing"},
    ]
    (report,) = index(database, wacz(tmp_path / "x.wacz", {"x.warc.gz": GZIPPED}, pages=pages))
    assert report.merged.problems == ()
    assert titles(database) == ["A", "Not this one", "From the list", None, None]


def test_missing_titles_are_filled_from_both_lists_of_pages(database: Database, tmp_path: Path) -> None:
    """Browsertrix Crawler lists only the seeds in the first one. An answer to a form is no page."""
    posted = {"url": PAGES[1].url, "ts": "2007-11-02T03:05:00Z", "title": "Posted", "method": "POST"}
    others = [posted, {"url": PAGES[1].url, "ts": "2020-01-01T00:00:00Z", "title": "Other", "method": "GET"}]
    extra = PAGES_HEADER + "".join(json.dumps(page) + "\n" for page in others) + "[]\n"
    seeds = [{"url": PAGES[0].url, "ts": "2007-11-02T03:04:00Z", "title": "Not this one"}]
    path = wacz(tmp_path / "x.wacz", {"x.warc.gz": GZIPPED}, pages=seeds, extraPages_jsonl=extra)
    (report,) = index(database, path)
    assert titles(database)[:3] == ["A", "Not this one", "Other"]
    assert [one.reason for one in report.merged.problems] == [
        "1 lines of pages/extraPages.jsonl are not pages"
    ]


@pytest.mark.parametrize(("length", "title"), [(100_000, "Other"), (40_000_000, None)])
def test_other_pages_with_long_texts_are_no_problem(
    database: Database, tmp_path: Path, length: int, title: str | None
) -> None:
    other = {"url": PAGES[1].url, "title": "Other", "text": "x" * length}
    extra = PAGES_HEADER + json.dumps(other) + "\n"
    (report,) = index(database, wacz(tmp_path / "x.wacz", {"x.warc.gz": GZIPPED}, extraPages_jsonl=extra))
    assert (titles(database)[2], report.merged.problems) == (title, ())


def test_the_limit_on_titles_counts_both_lists_of_pages(database: Database, tmp_path: Path) -> None:
    line = json.dumps({"url": "http://x.example/", "title": "x"}) + "\n"
    listed = PAGES_HEADER + line * 120_000
    path = wacz(tmp_path / "x.wacz", {"x.warc.gz": GZIPPED}, pages_jsonl=listed, extraPages_jsonl=listed)
    (report,) = index(database, path)
    assert [one.reason for one in report.merged.problems] == [
        "titles are taken from the first 80,000 pages of pages/extraPages.jsonl"
    ]


def test_an_invalid_or_empty_wacz_file_is_reported_and_not_stored(database: Database, tmp_path: Path) -> None:
    (tmp_path / "a.wacz").write_bytes(b"PK")
    with zipfile.ZipFile(tmp_path / "b.wacz", "w") as file:
        file.writestr("datapackage.json", "{}")
    (tmp_path / "c.wacz").write_bytes(wacz(tmp_path / "d.wacz", {"x.warc.gz": GZIPPED}).read_bytes()[:-30])
    (tmp_path / "d.wacz").unlink()
    reports = index(database, tmp_path)
    assert [one.merged.problems[0].reason for one in reports] == [
        "cannot be opened: the file is not a readable ZIP file: File is not a zip file",
        "cannot be opened: the WACZ file has no WARC files",
        "cannot be opened: the file is not a readable ZIP file: File is not a zip file",
    ]
    with database.session() as session:
        assert session.scalar(select(func.count()).select_from(Arc)) == 0


def test_a_zip_directory_above_the_size_limit_is_not_read(tmp_path: Path) -> None:
    end = struct.pack("<4s4H2LH", b"PK\x05\x06", 0, 0, 1, 1, 5 << 20, 1 << 20, 0)
    path = tmp_path / "x.wacz"
    path.write_bytes(bytes(6 << 20) + end)
    with path.open("rb") as file, pytest.raises(OSError, match="its directory has 5,242,880 bytes"):
        read_directory(file)


def test_the_folder_browser_shows_a_wacz_file_as_one_file(database: Database, tmp_path: Path) -> None:
    path = wacz(tmp_path / "x.wacz", {"x.warc.gz": GZIPPED, "y.warc": b"".join(RECORDS)})
    files = find_files([str(tmp_path)], [str(tmp_path)])
    assert [stored_path(one) for one in files] == [
        f"{path}#archive/x.warc.gz",
        f"{path}#archive/y.warc",
    ]
    with database.session() as session:
        (entry,) = list_folder(session, [str(tmp_path)], str(tmp_path)).entries
        assert (entry.name, entry.known, entry.size) == (
            "x.wacz",
            FileKnown.NEW,
            len(GZIPPED) + len(b"".join(RECORDS)),
        )
        assert changed_files(session, files) == files
    index_file(database, files[0], OPTIONS)
    with database.session() as session:
        assert changed_files(session, files) == files[1:]
    index_file(database, files[1], OPTIONS)
    with database.session() as session:
        (entry,) = list_folder(session, [str(tmp_path)], str(tmp_path)).entries
        assert entry.known is FileKnown.INDEXED


def test_verifying_a_wacz_file_checks_all_files_in_it(database: Database, tmp_path: Path) -> None:
    path = wacz(tmp_path / "x.wacz", {"x.warc.gz": GZIPPED, "y.warc": b"".join(RECORDS[:2])})
    index(database, path)
    with database.session() as session:
        for name in (str(path), "x.wacz"):
            checker = Checker(session=session, choice=FixityChoice(files=[name]))
            assert [one.path for one in checker.check()] == [f"{path}#archive/x.warc.gz"]
    data = path.read_bytes()
    path.write_bytes(data.replace(GZIPPED, GZIPPED[:-40] + b"\xff" * 40))
    with database.session() as session:
        (check,) = Checker(session=session, choice=FixityChoice()).check()
        assert [one.fault.value for one in check.findings] == ["altered"]


@pytest.mark.parametrize(
    ("stored", "member"),
    [
        ("/a/x.wacz#archive/y.warc", "archive/y.warc"),
        ("s3://b/X.WACZ#archive/y.wacz#z", "z"),
        ("file:///a/%E8.wacz#archive/y.warc", "archive/y.warc"),
        ("/a/x.wacz", None),
        ("file:///a/x.wacz%23archive/y.warc", None),
    ],
)
def test_places_in_a_wacz_file_are_stored_and_parsed(stored: str, member: str | None) -> None:
    place = place_of(stored)
    assert (place.path if isinstance(place, Member) else None) == member
    assert stored_path(place) == stored


def test_a_path_that_looks_like_a_place_in_a_wacz_file_stays_a_path() -> None:
    path = Path("/a/x.wacz#archive/y.warc")
    assert place_of(stored_path(path)) == path


@pytest.mark.parametrize("compression", [zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED])
def test_a_list_of_pages_may_be_larger_than_a_zip_directory(compression: int) -> None:
    content = Random(1).randbytes(MOST_DIRECTORY + (1 << 20))  # no shorter when compressed
    file = io.BytesIO()
    with zipfile.ZipFile(file, "w", compression) as written:
        written.writestr("pages/pages.jsonl", content)

    assert read_member(file, "pages/pages.jsonl", len(content)) == content
    with pytest.raises(MemberError, match=f"has more than {len(content) - 1:,} bytes"):
        read_member(file, "pages/pages.jsonl", len(content) - 1)


@pytest.mark.parametrize("compression", [zipfile.ZIP_BZIP2, zipfile.ZIP_LZMA])
def test_a_member_that_would_be_decompressed_at_once_is_not_read(compression: int) -> None:
    file = io.BytesIO()
    with zipfile.ZipFile(file, "w", compression) as written:
        written.writestr("pages/pages.jsonl", b"page")

    with pytest.raises(MemberError, match="another method than deflate"):
        read_member(file, "pages/pages.jsonl", 1000)

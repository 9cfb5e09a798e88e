"""Archive files are compared with the index; missing, moved, changed and altered ones are reported."""

import errno
import gzip
import os
from argparse import Namespace
from collections.abc import Iterator
from io import BytesIO, StringIO
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import update

from oai.cli import Invocation
from oai.console import Console
from oai.database import Database
from oai.settings import Settings
from provider.commands import verify
from provider.holdings import fixity
from provider.holdings.fixity import Checker, Fault, FileCheck, FixityChoice
from provider.indexing.indexer import IndexOptions, index_file
from provider.models import Arc
from tests.provider.archives import Page, arc_record, offsets, warc_record, write_archive
from tests.provider.test_commands import objects, zatva

PAGES = [
    Page(url="http://a.example/1", body=b"first page"),
    Page(url="http://a.example/2", body=b"second page", mime_type="image/png"),
    Page(url="http://b.example/3", body=b"third page", digest=False),
    Page(url="http://a.example/1", date="2008-01-01T00:00:00Z", record_type="revisit", body=b""),
]


@pytest.fixture
def plain(database: Database, tmp_path: Path) -> Path:
    """Four captures in a file that is not compressed."""
    path = write_archive(tmp_path / "x.warc", [warc_record(page) for page in PAGES])
    index_file(database, path, IndexOptions(margin=1))
    return path


def checked(
    database: Database, elsewhere: dict[str, list[Path]] | None = None, **choice: Any
) -> list[FileCheck]:
    with database.session() as session:
        return list(
            Checker(session=session, choice=FixityChoice(**choice), elsewhere=elsewhere or {}).check()
        )


def faults(database: Database, **choice: Any) -> list[tuple[Fault, str | None]]:
    return [(one.fault, one.url) for file in checked(database, **choice) for one in file.findings]


@pytest.mark.usefixtures("plain")
def test_an_intact_archive_has_no_findings(database: Database, tmp_path: Path) -> None:
    records = [arc_record(Page(url="http://arc.example/")), arc_record(Page(url="http://arc.example/ b"))]
    for name in ("y.arc", "z.arc.gz"):
        index_file(database, write_archive(tmp_path / name, records), IndexOptions(margin=1))
    files = checked(database)
    assert [file.findings for file in files] == [[]] * len(files)
    assert sum(file.checked for file in files) == len(PAGES) + 2


@pytest.mark.usefixtures("plain")
def test_a_file_is_found_by_a_path_with_dots(database: Database, tmp_path: Path) -> None:
    dotted = str(tmp_path / "sub" / ".." / "x.warc")
    assert [file.checked for file in checked(database, files=[dotted])] == [len(PAGES)]
    with database.session() as session:
        session.execute(update(Arc).values(path=dotted))  # as earlier versions stored it
        session.commit()
    assert [file.path for file in checked(database, files=[dotted])] == [dotted]


def test_a_changed_byte_is_reported_with_its_capture_and_offset(database: Database, plain: Path) -> None:
    plain.write_bytes(plain.read_bytes().replace(b"second page", b"sec0nd page"))
    (file,) = checked(database)
    (found,) = file.findings
    place = offsets(plain, [warc_record(page) for page in PAGES])[1]
    assert (found.fault, found.url, found.offset) == (Fault.ALTERED, PAGES[1].url, place)
    assert "digest" in found.reason


@pytest.mark.usefixtures("plain")
def test_a_read_error_is_reported_as_unreadable_and_not_as_altered(
    database: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    class FailingFile(BytesIO):
        def read(self, _size: int | None = -1, /) -> bytes:
            raise OSError(errno.EIO, "Input/output error")

    monkeypatch.setattr(fixity, "open_record", lambda *_args, **_kwargs: FailingFile())
    (file,) = checked(database)
    (found,) = file.findings
    assert (found.fault, found.documents, file.checked) == (Fault.UNREADABLE, len(PAGES), 0)
    assert "Input/output error" in found.reason


def test_a_digest_that_was_wrong_when_indexed_is_not_reported_as_damage(
    environment: dict[str, str], database: Database, tmp_path: Path
) -> None:
    page = PAGES[1]
    record = warc_record(page).replace(page.payload_digest.encode(), PAGES[0].payload_digest.encode())
    path = tmp_path / "x.warc.gz"
    path.write_bytes(gzip.compress(record, compresslevel=0))
    index_file(database, path, IndexOptions(margin=1))
    done = zatva(environment, "verify")
    assert (done.returncode, "1 mismatched" in done.stdout) == (0, True)
    assert objects(environment, "verify")[0]["failure_code"] == "archive_digest_wrong"
    facts = path.stat()
    path.write_bytes(path.read_bytes().replace(b"second page", b"sec0nd page"))
    os.utime(path, ns=(facts.st_atime_ns, facts.st_mtime_ns))
    assert faults(database) == [(Fault.ALTERED, page.url)]
    path.write_bytes(gzip.compress(record, compresslevel=0))
    os.utime(path, ns=(facts.st_atime_ns, facts.st_mtime_ns + 10**9))
    assert faults(database) == [(Fault.ALTERED, page.url)]


def test_a_digest_computed_by_the_indexer_is_checked(database: Database, plain: Path) -> None:
    plain.write_bytes(plain.read_bytes().replace(b"third page", b"thIrd page"))
    assert faults(database) == [(Fault.ALTERED, PAGES[2].url)]


def test_a_truncated_file_is_reported_as_changed_with_its_lost_captures(
    database: Database, plain: Path
) -> None:
    place = offsets(plain, [warc_record(page) for page in PAGES])[2]
    os.truncate(plain, place + 20)
    assert faults(database) == [
        (Fault.CHANGED, None),
        (Fault.ALTERED, PAGES[2].url),
        (Fault.ALTERED, PAGES[3].url),
    ]
    assert checked(database)[0].findings[2].reason == "the file ends before this place"


def test_another_record_at_the_offset_is_reported_with_its_url(database: Database, plain: Path) -> None:
    content = plain.read_bytes().replace(b"http://a.example/2", b"http://a.example/X")
    plain.write_bytes(content)
    (file,) = checked(database)
    assert [one.reason for one in file.findings] == ["a record of http://a.example/X was found"]


def test_a_file_compressed_after_indexing_is_reported_for_each_capture(
    database: Database, plain: Path
) -> None:
    plain.write_bytes(gzip.compress(plain.read_bytes()))
    found = [fault for fault, _ in faults(database)]
    # The first record still begins where the file does.
    assert found == [Fault.CHANGED, *[Fault.ALTERED] * (len(PAGES) - 1)]


def test_a_missing_file_is_reported_with_its_documents_or_found_by_name_elsewhere(
    database: Database, plain: Path, tmp_path: Path
) -> None:
    (tmp_path / "there").mkdir()
    other = plain.rename(tmp_path / "there" / "x.warc")
    ((missing,),) = [file.findings for file in checked(database)]
    assert (missing.fault, missing.documents) == (Fault.MISSING, len(PAGES))
    ((moved,),) = [file.findings for file in checked(database, elsewhere={"x.warc": [other]})]
    assert (moved.fault, str(other) in moved.reason) == (Fault.MOVED, True)


def test_a_file_that_moved_and_was_compressed_is_found_by_name(
    database: Database, plain: Path, tmp_path: Path
) -> None:
    (tmp_path / "there").mkdir()
    other = tmp_path / "there" / "x.warc.gz"
    other.write_bytes(gzip.compress(plain.read_bytes()))
    plain.unlink()
    ((moved,),) = [file.findings for file in checked(database, elsewhere={"x.warc": [other]})]
    assert (moved.fault, str(other) in moved.reason) == (Fault.MOVED, True)


def test_a_file_of_the_same_name_and_another_size_is_not_the_moved_file(
    database: Database, plain: Path, tmp_path: Path
) -> None:
    other = write_archive(tmp_path / "there" / "x.warc", [warc_record(Page(url="http://c.example/"))])
    plain.unlink()
    ((missing,),) = [file.findings for file in checked(database, elsewhere={"x.warc": [other]})]
    assert missing.fault == Fault.MISSING


def test_an_indexed_file_with_other_documents_is_not_the_moved_file(
    environment: dict[str, str], database: Database, plain: Path, tmp_path: Path
) -> None:
    other = tmp_path / "there" / "x.warc"
    other.parent.mkdir()
    # As long as the other one, so that they differ by its documents alone.
    other.write_bytes(plain.read_bytes().replace(b".example/", b".exampla/"))
    index_file(database, other, IndexOptions(margin=1))
    plain.unlink()
    total = objects(environment, "verify", "--search", tmp_path)[-1]["total"]
    assert (total["missing"], total["moved"]) == (1, 0)


def test_an_indexed_copy_of_a_missing_file_is_reported_as_its_new_place(
    environment: dict[str, str], database: Database, plain: Path, tmp_path: Path
) -> None:
    other = write_archive(tmp_path / "a" / "x.warc", [warc_record(Page(url="http://c.example/"))])
    copy = tmp_path / "there" / "x.warc"
    copy.parent.mkdir()
    copy.write_bytes(plain.read_bytes())
    for path in (other, copy):
        index_file(database, path, IndexOptions(margin=1))
    plain.unlink()
    shown = zatva(environment, "verify", "--search", tmp_path).stdout
    assert (f"it is now at {copy};" in shown, "0 missing, 1 moved" in shown) == (True, True)
    assert zatva(environment, "index", copy).returncode == 0
    assert zatva(environment, "verify", "--search", tmp_path).returncode == 0


@pytest.mark.usefixtures("plain")
def test_checked_captures_are_selected_by_set_sample_start_and_file(
    database: Database, tmp_path: Path
) -> None:
    other = write_archive(tmp_path / "y.warc.gz", [warc_record(Page(url="http://c.example/"))])
    index_file(database, other, IndexOptions(margin=1))
    first, second = checked(database)
    assert [file.checked for file in checked(database, set_spec="domain:example:a")] == [3]
    assert [file.checked for file in checked(database, set_spec="mimetype:image")] == [1]
    assert [file.checked for file in checked(database, sample=2)] == [2, 1]
    assert [file.path for file in checked(database, after=first.number)] == [second.path]
    assert [file.path for file in checked(database, files=["y.warc"])] == [str(other)]


def test_the_command_reports_faults_as_text_as_json_and_by_exit_code(
    environment: dict[str, str], plain: Path, tmp_path: Path
) -> None:
    assert (zatva(environment, "verify").returncode, len(objects(environment, "verify"))) == (0, 1)
    plain.write_bytes(plain.read_bytes().replace(b"second page", b"sec0nd page"))
    done = zatva(environment, "verify")
    assert (done.returncode, "altered: " in done.stdout, "1 altered" in done.stdout) == (3, True, True)
    found, total = objects(environment, "verify")
    assert (found["identifier"][:4], total["total"]["altered"]) == ("oai:", 1)
    assert (found["failure_code"], found["failure_facts"]) == ("archive_altered", {})
    plain.rename(tmp_path / "x.warc.away")
    (tmp_path / "there").mkdir()
    (tmp_path / "x.warc.away").rename(tmp_path / "there" / "x.warc")
    shown = zatva(environment, "verify", "--search", tmp_path / "there").stdout
    assert "moved: " in shown
    assert "- The archive file is not at its indexed path; a file with its name is elsewhere. Index" in shown
    past = zatva(environment, "verify", "--after", "99")
    assert (past.returncode, "nothing was checked: no chosen file has a number" in past.stderr) == (0, True)
    assert zatva(environment, "verify", "nothing.warc").returncode == 2
    assert zatva(environment, "verify", "--set", "domain:nowhere").returncode == 2


def test_an_interrupted_check_prints_the_option_that_resumes_it(
    settings: Settings, database: Database, plain: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    whole = Checker.check
    number = checked(database, files=[str(plain)])[0].number

    def broken_off(self: Checker) -> Iterator[FileCheck]:
        yield next(whole(self))
        raise KeyboardInterrupt

    monkeypatch.setattr(Checker, "check", broken_off)
    arguments = Namespace(files=[], set=None, sample=None, search=None, after=0)
    errors = StringIO()
    console = Console(out=StringIO(), err=errors)
    with pytest.raises(KeyboardInterrupt):
        verify(Invocation(arguments=arguments, settings=settings, console=console))
    assert f"--after {number}" in errors.getvalue()

"""Archive files are found by name below folders; files that are named directly are always accepted."""

import os
from pathlib import Path

import pytest

from oai.errors import UsageError
from oai.failures import Failure, FailureCode
from provider.indexing.archive_search import find_archives, search
from tests.provider.archives import write_archive


def test_folders_are_searched_by_file_name_and_named_files_are_always_found(tmp_path: Path) -> None:
    for name in ("b.warc.gz", "deep/a.ARC", "deep/b.warc.zst", "c.txt", "d.warc.open"):
        write_archive(tmp_path / name, [])
    found = find_archives([tmp_path, tmp_path / "c.txt", tmp_path / "b.warc.gz"])
    assert [path.name for path in found] == ["b.warc.gz", "c.txt", "a.ARC", "b.warc.zst"]


def test_dots_in_a_path_are_resolved_and_symbolic_links_are_not(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    archive = write_archive(tmp_path / "w" / "x.warc", [])
    (tmp_path / "sub").mkdir()
    (tmp_path / "link").symlink_to(tmp_path / "w")
    monkeypatch.chdir(tmp_path / "sub")
    for given in ("../w", "../w/x.warc", tmp_path / "sub" / ".." / "w"):
        assert find_archives([Path(given)]) == [archive]
    assert find_archives([Path("../link/../link")]) == [tmp_path / "link" / "x.warc"]


def test_a_missing_path_is_refused(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="no such file or folder"):
        find_archives([tmp_path / "nothing"])


@pytest.mark.parametrize(
    ("name", "failure"),
    [
        ("x.warc.bz2", Failure(code=FailureCode.ARCHIVE_PACKED, facts={"format": "bz2"})),
        ("x.arc.zst", Failure(code=FailureCode.ARCHIVE_PACKED, facts={"format": "zst"})),
        ("x.ARC.BZ2", Failure(code=FailureCode.ARCHIVE_PACKED, facts={"format": "bz2"})),
        ("x.warc.gz.xz", Failure(code=FailureCode.ARCHIVE_PACKED, facts={"format": "xz"})),
        ("x.cdx.bz2", Failure(code=FailureCode.ARCHIVE_PACKED, facts={"format": "bz2"})),
        ("x.warc.gz.open", Failure(code=FailureCode.ARCHIVE_UNFINISHED)),
        ("x.arc.part", Failure(code=FailureCode.ARCHIVE_UNFINISHED)),
    ],
)
def test_unsupported_archive_files_in_a_folder_are_reported(
    tmp_path: Path, name: str, failure: Failure
) -> None:
    write_archive(tmp_path / "deep" / name, [])
    found = search([tmp_path])
    assert found.archives == []
    assert {path: problem.failure for path, problem in found.refused.items()} == {
        tmp_path / "deep" / name: failure
    }


@pytest.mark.parametrize("name", ["x.warc.gz.md5", "x.warc.txt", "x.zip", "warc.bz2", "x.warc.gz.idx"])
def test_other_files_in_a_folder_are_ignored(tmp_path: Path, name: str) -> None:
    write_archive(tmp_path / name, [])
    assert search([tmp_path]).refused == {}


def test_a_file_named_directly_is_accepted_whatever_its_name(tmp_path: Path) -> None:
    path = write_archive(tmp_path / "x.warc.open", [])
    found = search([path])
    assert (found.archives, found.refused) == ([path], {})


def test_an_unreadable_folder_is_reported(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    locked = tmp_path / "locked"
    locked.mkdir()
    archive = write_archive(tmp_path / "x.warc", [])
    scandir = os.scandir

    def refuse(folder: str) -> object:
        if Path(folder) == locked:
            raise PermissionError(13, "Permission denied", folder)
        return scandir(folder)

    monkeypatch.setattr(os, "scandir", refuse)
    found = search([tmp_path])
    assert found.archives == [archive]
    assert found.refused[locked].failure.code == FailureCode.ARCHIVE_NOT_READABLE
    assert found.refused[locked].reason == "the folder cannot be read: Permission denied"

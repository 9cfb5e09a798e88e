"""The manifest: its files are on the disk, and after a power cut it is enough to continue."""

from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from harvester.restoring.manifest import Entry, Manifest, Request, open_manifest
from oai.errors import TryLaterError, UsageError

_REQUEST = Request(what="collection:x", form="files")


def _entry(number: int) -> Entry:
    return Entry(
        url=f"http://h.example/{number}\u2028ň",
        captured="2007-11-02T03:04:05+00:00",
        identifier=f"oai:a.example:{number:032x}",
        status=200,
        content_type="text/html",
        encoding="",
        fields={"Location": "/"},
        digest="",
        verified=False,
        size=1,
        file=f"site/{number}.html",
    )


def _written(folder: Path, count: int) -> Path:
    manifest = open_manifest(folder, _REQUEST)
    manifest.add([_entry(number) for number in range(count)])
    manifest.close()
    return manifest.path


def _reopened(folder: Path, request: Request = _REQUEST) -> Manifest:
    manifest = open_manifest(folder, request)
    manifest.close()
    return manifest


@settings(deadline=None, max_examples=30)
@given(lost=st.integers(1, 400))
def test_a_truncated_manifest_keeps_its_whole_lines_and_is_continued(
    lost: int, tmp_path_factory: pytest.TempPathFactory
) -> None:
    folder = tmp_path_factory.mktemp("cut")
    path = _written(folder, 3)
    data = path.read_bytes()[:-lost]
    path.write_bytes(data)
    manifest = open_manifest(folder, _REQUEST)
    assert len(manifest.entries) == data.count(b"\n") - 1
    manifest.add([_entry(7)])
    manifest.close()
    assert _reopened(folder).entries[_entry(7).url] == _entry(7)


def test_a_finished_manifest_is_no_longer_finished_when_something_is_added(tmp_path: Path) -> None:
    manifest = open_manifest(tmp_path, _REQUEST)
    manifest.add([_entry(2), _entry(1)])
    manifest.finish(_REQUEST, source="http://p.example/oai")
    manifest.close()
    assert _reopened(tmp_path).finished
    assert list(_reopened(tmp_path).entries) == [_entry(1).url, _entry(2).url]
    _written(tmp_path, 1)
    assert not _reopened(tmp_path).finished


def test_a_folder_of_another_restore_or_with_other_files_is_rejected(tmp_path: Path) -> None:
    _written(tmp_path / "restore", 1)
    with pytest.raises(UsageError, match="collection:x"):
        _reopened(tmp_path / "restore", Request(what="collection:y", form="files"))
    with pytest.raises(UsageError, match="'files', not 'warc'"):
        _reopened(tmp_path / "restore", Request(what="collection:x", form="warc"))
    with pytest.raises(UsageError, match="has other contents"):
        _reopened(tmp_path)
    (tmp_path / "restore" / "manifest.jsonl").write_text("[1]\n")
    with pytest.raises(UsageError, match="not the manifest"):
        _reopened(tmp_path / "restore")


def test_two_processes_do_not_restore_into_one_folder(tmp_path: Path) -> None:
    manifest = open_manifest(tmp_path, _REQUEST)
    with pytest.raises(TryLaterError, match="another process"):
        open_manifest(tmp_path, _REQUEST)
    manifest.close()
    assert not _reopened(tmp_path).entries


def test_a_folder_without_restored_documents_may_be_used_for_another_restore(tmp_path: Path) -> None:
    _reopened(tmp_path)
    other = Request(what="collection:y", form="warc")
    assert not _reopened(tmp_path, other).entries
    _reopened(tmp_path, other)

"""WARC files of a restore: a new file follows a full one, and all can be read and indexed."""

import io
import json
import random
from collections.abc import Iterable, Sequence
from dataclasses import replace
from pathlib import Path

import pytest
from warcio.archiveiterator import ArchiveIterator
from warcio.indexer import Indexer

from harvester.restoring.documents import FetchedDocument
from harvester.restoring.manifest import Entry
from harvester.restoring.warc_files import WarcKeeper
from tests.harvester.restoring.listed import capture, sha1

_LARGEST = 20_000
_BATCH = 4


def _document(number: int) -> FetchedDocument:
    body = random.Random(number).randbytes(3000)  # cannot be compressed
    return FetchedDocument(
        capture=capture(
            url=f"http://h.example/{number}?x=%C5%88",
            identifier=f"oai:a.example:{number:032x}",
            digest=sha1(body),
        ),
        body=body,
        content_type="text/html; charset=utf-8",
        encoding="",
        status=200,
        fields={"Location": "/x", "Transfer-Encoding": "chunked"},
        verified=True,
    )


def _keeper(folder: Path, known: Iterable[Entry] = ()) -> WarcKeeper:
    return WarcKeeper(folder, "http://h.example/", "http://p.example/oai", known, largest=_LARGEST)


def _keep(keeper: WarcKeeper, numbers: Sequence[int]) -> list[Entry]:
    return [
        entry
        for first in range(0, len(numbers), _BATCH)
        for entry in keeper.keep([_document(number) for number in numbers[first : first + _BATCH]])
    ]


def _names(folder: Path) -> list[str]:
    return sorted(path.name for path in (folder / "warc").iterdir())


def _read(path: Path) -> tuple[str, dict[str, bytes]]:
    """Return the name in the file's first record, and the body of each document."""
    with path.open("rb") as file:
        records = iter(ArchiveIterator(file, check_digests="raise"))
        info = next(records)
        assert info.rec_type == "warcinfo"
        found = [
            (one.rec_headers.get_header("WARC-Target-URI"), one.content_stream().read()) for one in records
        ]
    assert len(dict(found)) == len(found)
    return info.rec_headers.get_header("WARC-Filename"), dict(found)


def _all(folder: Path) -> dict[str, bytes]:
    found: dict[str, bytes] = {}
    for name in _names(folder):
        declared, here = _read(folder / "warc" / name)
        assert declared == name
        assert not found.keys() & here.keys()
        found |= here
    return found


def _expected(numbers: Iterable[int]) -> dict[str, bytes]:
    return {document.capture.url: document.body for document in map(_document, numbers)}


def test_a_full_file_is_followed_by_a_new_one(tmp_path: Path) -> None:
    keeper = _keeper(tmp_path)
    entries = _keep(keeper, range(30))
    keeper.finish()
    assert _names(tmp_path) == [f"h.example-{number:05}.warc.gz" for number in range(4)]
    sizes = [(tmp_path / "warc" / name).stat().st_size for name in _names(tmp_path)]
    assert all(_LARGEST <= size < _LARGEST + _BATCH * 4000 for size in sizes[:-1])
    assert _all(tmp_path) == _expected(range(30))
    assert all(keeper.holds(entry) for entry in entries)


@pytest.mark.parametrize(("status", "kind"), [(200, "response"), (None, "resource")])
def test_a_document_without_a_type_has_no_content_type(tmp_path: Path, status: int | None, kind: str) -> None:
    keeper = _keeper(tmp_path)
    keeper.keep([replace(_document(1), content_type="", status=status)])
    keeper.finish()
    (path,) = (tmp_path / "warc").iterdir()
    with path.open("rb") as file:
        *_, record = ArchiveIterator(file)
        assert record.rec_type == kind
        assert (record.http_headers or record.rec_headers).get_header("Content-Type") is None


def test_an_index_has_each_record_at_the_position_in_the_manifest(tmp_path: Path) -> None:
    keeper = _keeper(tmp_path)
    entries = _keep(keeper, range(12))
    keeper.finish()
    index = io.StringIO()
    indexer = Indexer(
        ["warc-type", "warc-target-uri", "warc-date", "http:status", "offset", "length"], [], "-"
    )
    for name in _names(tmp_path):
        with (tmp_path / "warc" / name).open("rb") as file:
            indexer.process_one(file, index, name)
    lines = [json.loads(line) for line in index.getvalue().splitlines()]
    assert [line for line in lines if line["warc-type"] != "warcinfo"] == [
        {
            "warc-type": "response",
            "warc-target-uri": entry.url,
            "warc-date": "2007-11-02T03:04:05Z",
            "http:status": "200",
            "offset": str(entry.offset),
            "length": str(entry.packed),
        }
        for entry in entries
    ]


@pytest.mark.parametrize(("written", "noted"), [(8, 4), (9, 8)])
def test_what_a_killed_run_wrote_without_noting_it_is_removed_and_written_again(
    written: int, noted: int, tmp_path: Path
) -> None:
    """The first run was killed in a file that had become full, the second in the next file."""
    killed = _keeper(tmp_path)
    known = _keep(killed, range(written))[:noted]
    killed.close()
    again = _keeper(tmp_path, known)
    entries = _keep(again, range(noted, 16))
    again.finish()
    assert _names(tmp_path) == ["h.example-00000.warc.gz", "h.example-00001.warc.gz"]
    assert _all(tmp_path) == _expected(range(16))
    assert all(again.holds(entry) for entry in (*known, *entries))


def test_a_run_killed_between_two_files_continues_with_the_next(tmp_path: Path) -> None:
    first = _keeper(tmp_path)
    known = _keep(first, range(8))
    first.finish()
    second = _keeper(tmp_path, known)
    entries = _keep(second, range(8, 12))
    second.finish()
    assert {entry.file for entry in entries} == {"warc/h.example-00001.warc.gz"}
    assert _all(tmp_path) == _expected(range(12))


def test_a_file_with_its_final_name_has_only_documents_of_the_manifest(tmp_path: Path) -> None:
    keeper = _keeper(tmp_path)
    noted: list[Entry] = []
    for first in range(0, 32, _BATCH):
        batch = keeper.keep([_document(number) for number in range(first, first + _BATCH)])
        named = [name for name in _names(tmp_path) if not name.endswith(".open")]
        known = {entry.url for entry in noted}
        assert all(_read(tmp_path / "warc" / name)[1].keys() <= known for name in named)
        noted += batch
    keeper.close()
    assert len(_names(tmp_path)) == 4


def test_a_truncated_record_does_not_count_as_stored(tmp_path: Path) -> None:
    keeper = _keeper(tmp_path)
    first, last = _keep(keeper, range(2))
    keeper.finish()
    path = tmp_path / "warc" / _names(tmp_path)[0]
    path.write_bytes(path.read_bytes()[:-1])
    assert (keeper.holds(first), keeper.holds(last)) == (True, False)

"""WACZ files: parts, large members, and the detection of damage."""

import json
import zipfile
from collections.abc import Callable, Iterator
from datetime import UTC, datetime
from pathlib import Path

import pytest

from oai.database import Database
from oai.sections import ProviderSettings
from provider.export.captures import CaptureReader, ExportedCapture
from provider.export.manifest import ExportFacts, Manifest
from provider.export.selection import ExportChoice, choose, numbers
from provider.export.sorted_lines import SortedLines
from provider.export.wacz_file import PART_BYTES, WaczFile
from provider.holdings.lookup import MatchType
from provider.indexing.indexer import IndexOptions, index_file
from tests.provider.archives import Page, write_pages
from tests.provider.export.wacz_checks import read_wacz

PAGES = [
    Page(url=f"http://a.example/{number}", date=f"{date}T00:00:00Z", body=bytes(range(number, 256)) * 4)
    for number, date in enumerate(["0001-01-01"] + ["2007-11-02"] * 6)
]
CHOICE = ExportChoice(look_ups=[("a.example", MatchType.HOST)])
FACTS = ExportFacts(
    selection="captures of a.example",
    title="Žluťoučký kůň",
    reader="an anonymous reader",
    created=datetime(2026, 11, 26, 12, 0, 1, tzinfo=UTC),
    namespace="a.example",
    software="Zatva",
)


@pytest.fixture
def write(database: Database, tmp_path: Path) -> Iterator[Callable[[int], Path]]:
    """Return a function that exports the pages in parts of the given size in bytes."""
    index_file(database, write_pages(tmp_path / "x.warc.gz", PAGES), IndexOptions(margin=1))

    def written(part_bytes: int) -> Path:
        path = tmp_path / "x.wacz"
        with SortedLines() as chosen, Manifest(FACTS, tmp_path) as manifest, path.open("wb") as file:
            choose(
                database, ExportChoice(look_ups=[("a.example", MatchType.HOST)]), chosen, lambda _number: None
            )
            with WaczFile(file, manifest, part_bytes=part_bytes) as wacz:
                reader = CaptureReader(database=database, settings=ProviderSettings(), folder=tmp_path)
                for capture in reader.read(numbers(chosen)):
                    assert isinstance(capture, ExportedCapture)
                    assert wacz.add(capture) == capture.length
                    manifest.exported(capture)
                wacz.finish()
        return path

    yield written
    assert {one.name for one in tmp_path.iterdir()} <= {"x.warc.gz", "x.wacz", "changed.wacz"}


@pytest.mark.parametrize(("part_bytes", "parts"), [(PART_BYTES, 1), (2500, 3), (1, 7)])
def test_parts_have_a_maximum_size_and_a_common_index(
    write: Callable[[int], Path], part_bytes: int, parts: int
) -> None:
    wacz = read_wacz(write(part_bytes))
    assert len(wacz.warcs) == parts
    assert wacz.captures == {(page.url, page.date): page.body for page in PAGES}
    assert len(wacz.pages) == len(PAGES)
    assert wacz.description["title"] == FACTS.title


def test_large_members_have_zip64_fields_in_both_headers(
    write: Callable[[int], Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(zipfile, "ZIP64_LIMIT", 600)
    path = write(1)
    assert len(read_wacz(path).captures) == len(PAGES)
    with zipfile.ZipFile(path) as file:
        extra = {info.filename.partition("/")[0]: bool(info.extra) for info in file.infolist()}
    assert (extra["archive"], extra["zatva"]) == (True, True)


def test_many_lines_make_several_blocks(
    write: Callable[[int], Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("provider.export.wacz_file.BLOCK_LINES", 3)
    path = write(PART_BYTES)
    assert len(read_wacz(path).index) == len(PAGES)
    with zipfile.ZipFile(path) as file:
        assert len(file.read("indexes/index.idx").splitlines()) == 1 + 3


def _without(path: str) -> Callable[[dict[str, bytes]], None]:
    def change(members: dict[str, bytes]) -> None:
        del members[next(name for name in members if name.startswith(path))]

    return change


def _changed(path: str) -> Callable[[dict[str, bytes]], None]:
    def change(members: dict[str, bytes]) -> None:
        name = next(name for name in members if name.startswith(path))
        members[name] = members[name][:-9] + b"x" + members[name][-8:]

    return change


def _misled(members: dict[str, bytes]) -> None:
    description = json.loads(members["datapackage.json"])
    description["wacz_version"] = "1.2.0"
    members["datapackage.json"] = json.dumps(description).encode()


@pytest.mark.parametrize(
    "damage",
    [
        _without("archive/"),
        _without("indexes/index.cdx.gz"),
        _without("indexes/index.idx"),
        _without("pages/"),
        _without("zatva/"),
        _changed("archive/"),
        _changed("indexes/index.cdx.gz"),
        _changed("pages/"),
        _misled,
    ],
)
def test_missing_and_changed_members_of_a_wacz_file_are_detected(
    write: Callable[[int], Path], damage: Callable[[dict[str, bytes]], None]
) -> None:
    path = write(PART_BYTES)
    with zipfile.ZipFile(path) as file:
        members = {name: file.read(name) for name in file.namelist()}
    damage(members)
    changed = path.with_name("changed.wacz")
    with zipfile.ZipFile(changed, "w") as file:
        for name, content in members.items():
            file.writestr(name, content)
    with pytest.raises((AssertionError, KeyError)):
        read_wacz(changed)

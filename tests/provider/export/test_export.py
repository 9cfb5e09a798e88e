"""`zatva provider export`: contents, access rights, and the report of what was left out."""

import io
import json
import re
import zipfile
from pathlib import Path
from typing import Any

import pytest
from warcio.archiveiterator import ArchiveIterator

from oai.cli import Invocation
from oai.console import Console
from oai.database import Database
from oai.errors import ExitCode, UsageError
from oai.settings import Settings
from provider.export.commands import export
from provider.export.warc_records import other_header
from provider.indexing.indexer import IndexOptions, index_file
from tests.commands import Process, results, zatva
from tests.provider.archives import Page
from tests.provider.conftest import Kept
from tests.provider.export.archive_of_all_kinds import (
    CHUNKED,
    DAMAGED,
    ELSEWHERE,
    EMBARGO,
    FILE,
    GONE,
    LOST,
    NEW,
    OLD,
    READ_BY_ALL,
    ROOM,
    ROOM_AGAIN,
    SAME,
    SECRET,
    UNKNOWN,
    make_archive,
)
from tests.provider.export.wacz_checks import read_wacz
from zatva.cli import build_parser

_LEFT_OUT = {
    "withheld": 1,
    "restricted": 2,
    "original_restricted": 1,
    "original_missing": 1,
    "unavailable": 1,
    "damaged": 1,
}


@pytest.fixture(scope="module", autouse=True)
def archive(kept: Kept, tmp_path_factory: pytest.TempPathFactory) -> None:
    make_archive(kept.open(), tmp_path_factory.mktemp("archive"))


def test_a_warc_header_has_the_archived_url_without_line_breaks() -> None:
    """U+0085, U+2028 and U+2029 are in URLs that were archived with bytes that are not UTF-8."""
    header = other_header("metadata", 1, kind="a\r\n b", target="http://a.example/\x85\u2028\u2029").decode()
    assert "WARC-Target-URI: http://a.example/\x85\u2028\u2029\r\nContent-Type: a  b\r\n" in header


def test_a_host_is_exported_as_wacz_with_openly_accessible_captures_only(
    tmp_path: Path, kept_environment: dict[str, str]
) -> None:
    out = tmp_path / "out" / "site.wacz"
    out.parent.mkdir()
    (report,) = results(kept_environment, "provider", "export", "a.example", "--host", "--out", out, expect=3)
    assert (report["captures"], report["missing"], report["left_out"]) == (5, 3, _LEFT_OUT)
    wacz = read_wacz(out)
    assert wacz.captures == {(page.url, page.date): _payload(page) for page in READ_BY_ALL}
    assert {(page["url"], page["ts"], page.get("title")) for page in wacz.pages} == {
        (OLD.url, OLD.date, "Old"),
        (NEW.url, NEW.date, "New"),
        (SAME.url, SAME.date, "New"),
        (CHUNKED.url, CHUNKED.date, None),
    }
    _check_manifest(wacz.manifest)
    assert list(out.parent.iterdir()) == [out]


def _payload(page: Page) -> bytes:
    return b"hello" if page is CHUNKED else page.body


def _check_manifest(manifest: dict[str, Any]) -> None:
    assert (manifest["left_out"], manifest["truncated"]) == (_LEFT_OUT, 2)
    assert {(one["reason"], one.get("url")) for one in manifest["captures_left_out"]} == {
        ("withheld", None),
        ("restricted", ROOM.url),
        ("restricted", EMBARGO.url),
        ("original_restricted", ROOM_AGAIN.url),
        ("original_missing", LOST.url),
        ("unavailable", GONE.url),
        ("damaged", DAMAGED.url),
    }
    (resolved,) = manifest["captures_resolved"]
    assert (resolved["url"], resolved["date"], resolved["original_date"]) == (NEW.url, SAME.date, NEW.date)


def test_an_exported_file_does_not_reveal_withheld_documents(
    tmp_path: Path, kept_environment: dict[str, str]
) -> None:
    out = tmp_path / "site.wacz"
    (tmp_path / "urls").write_text(f"{SECRET.url}\n\n{UNKNOWN.url}\nhttp://a.example/none\n{OLD.url}\n")
    done = zatva(kept_environment, "provider", "export", "--list", tmp_path / "urls", "--out", out)
    assert (done.returncode, done.stdout) == (0, f"{_summary_of(out)}; left out: 1 withheld\n")
    wacz = read_wacz(out)
    assert wacz.manifest["without_captures"] == [UNKNOWN.url, "http://a.example/none"]
    assert {url for url, _ in wacz.captures} == {OLD.url}
    with zipfile.ZipFile(out) as file:
        content = b"".join(file.read(name) for name in file.namelist() if name != "zatva/manifest.json")
    assert b"secret" not in content
    assert b"never-listed" not in content


def _summary_of(out: Path) -> str:
    with zipfile.ZipFile(out) as file:
        manifest = json.loads(file.read("zatva/manifest.json"))
    return f"{manifest['captures']} capture, {manifest['record_bytes']:,} bytes"


def test_staff_can_export_reading_room_documents(tmp_path: Path, kept_environment: dict[str, str]) -> None:
    out = tmp_path / "room.wacz"
    words = ("a.example/*", "--format", "wacz", "--reading-room", "--out", out)
    (report,) = results(kept_environment, "provider", "export", *words, expect=3)
    assert report["left_out"] == {**_LEFT_OUT, "restricted": 1, "original_restricted": 0}
    wacz = read_wacz(out)
    assert wacz.captures[ROOM_AGAIN.url, ROOM_AGAIN.date] == ROOM.body
    assert wacz.captures[ROOM.url, ROOM.date] == ROOM.body
    assert EMBARGO.url not in {url for url, _ in wacz.captures}


def test_captures_are_exported_by_set_by_time_and_by_several_urls(kept: Kept, tmp_path: Path) -> None:
    out = tmp_path / "some.wacz"
    for words, pages in (
        ("--set domain:example:a --from 2009-01-01", (NEW, SAME)),
        ("--set domain:example:a --until 2010-01-01T00:00:00Z --from 2009-01-01", (NEW,)),
        ("--set mimetype:text:plain", (FILE,)),
        ("--set collection:kept", (ELSEWHERE,)),
        (f"*.b.example {NEW.url} {NEW.url}* --from 2010-01-01T00:00:01Z", (SAME,)),
        ("b.example --domain", (ELSEWHERE,)),
        (f"{OLD.url}* {ELSEWHERE.url} {OLD.url}", (OLD, ELSEWHERE)),
    ):
        assert export_here(kept.settings, *words.split(), "--out", str(out)) is ExitCode.DONE
        assert read_wacz(out).captures == {(page.url, page.date): page.body for page in pages}, words


def export_here(settings: Settings, *words: str) -> ExitCode:
    """Run the command in this process."""
    arguments = build_parser().parse_args(["provider", "export", *words])
    console = Console(quiet=True, out=io.StringIO())
    return export(Invocation(arguments=arguments, settings=settings, console=console))


@pytest.mark.parametrize("name", ["none.wacz", "none.warc.gz"])
def test_an_export_of_withheld_captures_only_writes_no_file_and_gives_the_reason(
    kept: Kept, tmp_path: Path, name: str
) -> None:
    message = "no captures that may be in the file; left out: 1 withheld; nothing is written"
    with pytest.raises(UsageError, match=message):
        export_here(kept.settings, SECRET.url, "--out", str(tmp_path / name))
    assert list(tmp_path.iterdir()) == []


def test_standard_output_stays_empty_if_all_captures_are_withheld(
    kept: Kept, capsysbinary: pytest.CaptureFixture[bytes]
) -> None:
    with pytest.raises(UsageError, match="left out: 1 withheld; nothing is written"):
        export_here(kept.settings, SECRET.url)
    assert capsysbinary.readouterr().out == b""


def test_a_warc_export_is_written_to_standard_output(
    database: Database, tmp_path: Path, environment: dict[str, str]
) -> None:
    make_archive(database, tmp_path)
    out = tmp_path / "again.warc.gz"
    with out.open("wb") as file, (tmp_path / "errors").open("w+b") as errors:
        words = ("provider", "export", "a.example", "--host")
        assert Process(environment, *words, stdout=file, stderr=errors).wait() == 3
    assert re.search("5 captures, .* bytes; 1 revisit got .*; left out: ", (tmp_path / "errors").read_text())
    info, *found, last = _records(out)
    assert (info[0], last[:2]) == ("warcinfo", ("metadata", "urn:zatva:manifest"))
    _check_manifest(json.loads(last[3]))
    assert {(url, date): body for _, url, date, body in found} == {
        (page.url, page.date): _payload(page) for page in READ_BY_ALL
    }
    report = index_file(database, out, IndexOptions(margin=1))
    assert not report.merged.problems
    assert report.merged.new == 0


def _records(path: Path) -> list[tuple[str, str, str, bytes]]:
    found = []
    for record in ArchiveIterator(io.BytesIO(path.read_bytes())):
        of = record.rec_headers.get_header
        body = record.content_stream().read()
        found.append((record.rec_type, of("WARC-Target-URI") or "", of("WARC-Date"), body))
    return found


@pytest.mark.parametrize(
    ("words", "message"),
    [
        ((), "give URLs .*, one set with --set, or one --of-title"),
        (("a.example", "--set", "domain:example:a"), "give URLs .*, one set with --set, or one --of-title"),
        (("a.example", "--format", "wacz"), "cannot be written to standard output"),
        (("http://a.example/none", "--out", "x.warc.gz"), "no captures; nothing is written"),
        (("--set", "collection:none", "--out", "x.warc.gz"), "no set 'collection:none'"),
        (("--set=", "--out", "x.warc.gz"), "no set ''"),
        (("--set", "collection:closed", "--from", "yesterday"), "--from: 'yesterday'"),
        (("a.example", "--out", "/dev/null"), "not a regular file"),
        (("--list", "/nowhere"), "--list: /nowhere"),
        (("a.example", "--title", "A", "--out", "x.warc.gz"), "a WARC file has no title"),
    ],
)
def test_invalid_export_arguments_are_refused_with_a_reason(
    kept: Kept, tmp_path: Path, words: tuple[str, ...], message: str
) -> None:
    words = tuple(str(tmp_path / word) if word == "x.warc.gz" else word for word in words)
    with pytest.raises(UsageError, match=message):
        export_here(kept.settings, *words)
    assert list(tmp_path.glob("x*")) == []

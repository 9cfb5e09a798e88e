"""The commands, run as real processes."""

import contextlib
import json
import os
import signal
import subprocess
import time
from collections.abc import Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import func, select

from oai.audit import AuditEntry
from oai.database import Database
from provider.collection_commands import lines_of_list
from provider.holdings.identifiers import oai_identifier
from provider.holdings.loads import list_loads
from provider.indexing.indexer import IndexOptions, index_file
from provider.models import Document, Load, Takedown
from tests import commands
from tests.commands import Done
from tests.provider.archives import Page, packed, warc_record, write_archive, write_pages

PAGES = [Page(url=f"http://www.a.example/{number}") for number in range(3)]


def zatva(environment: dict[str, str], *arguments: str | Path) -> Done:
    return commands.zatva(environment, "provider", *arguments)


def objects(environment: dict[str, str], *arguments: str | Path) -> list[Any]:
    done = zatva(environment, *arguments, "--json")
    assert done.returncode in {0, 3}, done.stderr
    return [json.loads(line) for line in done.stdout.splitlines()]


def indexed(database: Database, path: Path, pages: Sequence[Page]) -> None:
    """Index the pages as the command does, for tests of later commands."""
    index_file(database, write_pages(path, pages), IndexOptions(margin=1))


def test_the_status_names_files_of_the_same_name(
    environment: dict[str, str], database: Database, tmp_path: Path
) -> None:
    for folder in ("one", "two"):
        indexed(database, tmp_path / folder / "same.warc.gz", [Page(url=f"http://{folder}.example/")])
        named = zatva(environment, "status")
        assert ("have the same name" in named.stderr, "same.warc" in named.stdout) == (folder == "two",) * 2
    assert objects(environment, "status")[0]["shared_names"] == ["same.warc.gz"]


def test_indexing_a_folder_reports_each_file(environment: dict[str, str], tmp_path: Path) -> None:
    for name in ("a.warc.gz", "b.warc.gz"):
        write_pages(tmp_path / name, [Page(url=f"http://{name}.example/")])
    one, two, total = objects(environment, "index", tmp_path, "--jobs", "1")
    assert (one["file"], one["new"], one["ignored"]) == (str(tmp_path / "a.warc.gz"), 1, {"warcinfo": 1})
    assert two["file"] == str(tmp_path / "b.warc.gz")
    assert total == {
        "total": {
            "new": 2,
            "unchanged": 0,
            "moved": 0,
            "duplicates": 0,
            "completed": 0,
            "files": 2,
            "problems": 0,
        }
    }


def test_damage_is_reported_with_its_offset_and_by_exit_code(
    environment: dict[str, str], tmp_path: Path
) -> None:
    good = packed(tmp_path / "x.warc.gz", warc_record(PAGES[0]))
    (tmp_path / "x.warc.gz").write_bytes(good + b"garbage" + good)
    done = zatva(environment, "index", tmp_path)
    assert done.returncode == 3
    assert f"{len(good):,}" in done.stdout
    assert "begin no gzip member" in done.stdout or "gzip data is damaged" in done.stdout
    assert (
        "- A part of the archive file is damaged and cannot be read; the records after it are" in done.stdout
    )
    assert "1 files: 1 new, 0 unchanged, 0 moved, 1 duplicates, 0 completed; 1 problems" in done.stdout
    again, _ = objects(environment, "index", tmp_path)
    assert again["problems"][0]["failure_code"] == "archive_record_broken"
    assert again["problems"][0]["failure_facts"] == {"bytes": 7}


def test_files_that_cannot_be_indexed_are_reported_with_advice(
    environment: dict[str, str], tmp_path: Path
) -> None:
    write_pages(tmp_path / "a.warc.gz", PAGES)
    (tmp_path / "b.warc.bz2").write_bytes(b"PK")
    good, bad, total = objects(environment, "index", tmp_path)
    assert (good["problems"], total["total"]["problems"]) == ([], 1)
    assert (bad["file"], bad["problems"][0]["failure_code"]) == (
        str(tmp_path / "b.warc.bz2"),
        "archive_packed",
    )
    done = zatva(environment, "index", tmp_path)
    assert done.returncode == 3
    assert (
        "- The file is packed as bz2, which cannot be indexed. Unpack it and index the result" in done.stdout
    )
    queued = zatva(environment, "index", "--queue", tmp_path)
    assert (queued.returncode, "1 file queued" in queued.stdout) == (3, True)
    assert "b.warc.bz2: not indexed: files packed as .bz2 are not read" in queued.stderr


def test_control_characters_in_file_names_are_escaped_in_output(
    environment: dict[str, str], tmp_path: Path
) -> None:
    name = "e\x1b[31mred\x07\nforged.warc.gz"
    write_pages(tmp_path / name, PAGES)
    (tmp_path / f"{name}.bz2").write_bytes(b"PK")
    indexed, queued = (zatva(environment, "index", *queue, tmp_path) for queue in ([], ["--queue"]))
    (tmp_path / name).unlink()
    verified, status = zatva(environment, "verify"), zatva(environment, "status", "--run", "1")
    for shown in (indexed.stdout, queued.stderr, verified.stdout, status.stdout):
        assert "e\\x1b[31mred\\x07\\x0aforged.warc.gz" in shown
        assert not {"\x1b", "\x07"} & set(shown)
    assert objects(environment, "status", "--run", "1")[0]["path"] == str(tmp_path / name)


def test_invalid_arguments_are_usage_errors(environment: dict[str, str], tmp_path: Path) -> None:
    nothing = zatva(environment, "index", tmp_path / "nothing")
    assert (nothing.returncode, nothing.stdout) == (2, "")
    assert "no such file or folder" in nothing.stderr
    date = zatva(environment, "collection", "assign", "a", "--arc", "x", "--from", "yesterday")
    assert (date.returncode, "--from: 'yesterday'" in date.stderr) == (2, True)
    foreign = zatva(environment, "hide", "oai:other.example:1")
    assert (foreign.returncode, "not an identifier of this repository" in foreign.stderr) == (2, True)
    nameless = zatva(environment, "collection", "add", "nm", "--name", " ")
    assert (nameless.returncode, "the name of a collection must not be empty" in nameless.stderr) == (2, True)
    assert objects(environment, "collection", "list") == []


def test_indexing_an_empty_folder_succeeds(environment: dict[str, str], tmp_path: Path) -> None:
    (tmp_path / "empty").mkdir()
    done = zatva(environment, "index", tmp_path / "empty")
    assert (done.returncode, done.stdout.splitlines()[0]) == (0, "no ARC, WARC or CDX files found there")


def test_collections_are_created_filled_and_listed(environment: dict[str, str], tmp_path: Path) -> None:
    write_pages(tmp_path / "x.warc.gz", PAGES)
    objects(environment, "index", tmp_path, "--collection", "serials:nov07")
    objects(environment, "collection", "add", "crawls", "--name", "Crawls", "--description", "All of them")
    (assigned,) = objects(environment, "collection", "assign", "crawls", "--domain", "a.example")
    (removed,) = objects(environment, "collection", "remove", "serials:nov07", "--url-prefix", PAGES[0].url)
    assert (assigned["documents"], removed["documents"]) == (3, 1)
    (named,) = objects(environment, "collection", "add", "serials:nov07", "--name", "November")
    assert named == {"set_spec": "collection:serials:nov07", "name": "November", "documents": 2}
    listed = objects(environment, "collection", "list")
    assert {row["set_spec"]: row["documents"] for row in listed} == {
        "collection": 3,
        "collection:crawls": 3,
        "collection:serials": 2,
        "collection:serials:nov07": 2,
    }


def test_a_document_is_hidden_by_identifier_or_url(
    environment: dict[str, str], database: Database, tmp_path: Path
) -> None:
    indexed(database, tmp_path / "x.warc.gz", PAGES)
    with database.session() as session:
        key = session.scalars(select(Document.key).where(Document.url == PAGES[0].url)).one()
    identifier = oai_identifier("webarchive.localdomain", key)
    assert objects(environment, "hide", identifier) == [{"documents": 1, "taken_down": 0}]
    assert objects(environment, "hide", PAGES[1].url)[0]["documents"] == 1
    assert objects(environment, "status")[0]["hidden"] == 2
    assert objects(environment, "unhide", "--url-prefix", "http://www")[0]["documents"] == 2
    (status,) = objects(environment, "status")
    assert (status["documents"], status["hidden"], status["files"]) == (3, 0, 1)


def test_hiding_a_url_hides_all_spellings_that_find_lists(
    environment: dict[str, str], database: Database, tmp_path: Path
) -> None:
    urls = ["http://A.example:80/Port", "https://www.a.example/port#top", "http://a.example/other"]
    indexed(database, tmp_path / "x.warc.gz", [Page(url=url) for url in urls])
    assert objects(environment, "hide", "a.example/port") == [{"documents": 2, "taken_down": 0}]
    assert objects(environment, "hide", "a.example/port") == [{"documents": 0, "taken_down": 0}]
    assert [one["access"] for one in objects(environment, "find", "a.example/port", "--all")] == [
        "hidden"
    ] * 2
    assert [one["url"] for one in objects(environment, "find", "a.example", "--host")] == [urls[2]]
    assert objects(environment, "unhide", "http://a.example/port") == [{"documents": 2, "taken_down": 0}]


@pytest.mark.parametrize(
    "chosen",
    [
        ["http://a.example/absent"],
        ["oai:webarchive.localdomain:" + "0" * 32],
        ["--url-prefix", "https://a.example/"],
        ["--domain", "a.example", "--until", "2001-01-01"],
    ],
)
def test_hiding_without_any_document_is_noted(
    environment: dict[str, str], database: Database, tmp_path: Path, chosen: list[str]
) -> None:
    indexed(database, tmp_path / "x.warc.gz", PAGES)
    for command in ("hide", "unhide"):
        done = zatva(environment, command, *chosen)
        assert (done.returncode, done.stdout.startswith("0 documents")) == (0, True)
        assert "no documents match; find them with `zatva provider find" in done.stderr
        assert ("takedown add" in done.stderr) is (command == "hide")


def test_hiding_counts_documents_already_hidden_by_a_takedown(
    environment: dict[str, str], database: Database, tmp_path: Path
) -> None:
    indexed(database, tmp_path / "x.warc.gz", PAGES)
    objects(environment, "takedown", "add", "a.example/1", "--reason", "r", "--requester", "q")
    done = zatva(environment, "hide", "--domain", "a.example")
    assert done.stdout == "3 documents hidden; of them already hidden by a take-down: 1\n"
    done = zatva(environment, "unhide", "--domain", "a.example")
    assert done.stdout == "2 documents shown again; still hidden by a take-down: 1\n"
    hidden = objects(environment, "hide", "a.example/1")
    assert hidden == [{"documents": 0, "taken_down": 1}]
    assert zatva(environment, "hide", "a.example/1").stdout == "0 documents hidden\n"


def test_records_of_a_set_get_a_new_datestamp(
    environment: dict[str, str], database: Database, tmp_path: Path
) -> None:
    indexed(database, tmp_path / "x.warc.gz", PAGES)
    assert objects(environment, "redate", "--set", "domain:example:a") == [{"documents": 3, "titles": 0}]
    done = zatva(environment, "redate", "--titles")
    assert (done.stdout, done.stderr) == ("0 titles with a new datestamp\n", "")
    assert zatva(environment, "redate").returncode == 2


@pytest.mark.parametrize("jobs", ["1", "2"])
def test_an_interrupted_run_leaves_complete_files_and_can_be_resumed(
    environment: dict[str, str], database: Database, tmp_path: Path, jobs: str
) -> None:
    small = write_pages(tmp_path / "a.warc.gz", PAGES)
    large = [warc_record(Page(url=f"http://b.example/{n}", body=b"x" * 100)) for n in range(4000)]
    write_archive(tmp_path / "b.warc.gz", large)
    write_pages(tmp_path / "c.warc.gz", [Page(url="http://c.example/")])
    words = ("provider", "index", tmp_path, "--jobs", jobs)
    with commands.Process(environment, *words, stderr=subprocess.PIPE) as process:
        while not _count(database):
            assert process.poll() is None
            time.sleep(0.02)
        _interrupt(process.pid)
        _, errors = process.communicate(timeout=60)
    assert process.returncode == 130, errors
    assert "Traceback" not in errors
    assert _count(database) in {3, 4}
    reports = objects(environment, "index", tmp_path, "--jobs", "1")
    assert reports[0]["file"] == str(small)
    assert reports[0]["skipped"]
    assert _count(database) == 4004


def _interrupt(process_id: int) -> None:
    """Send the signal of Ctrl+C on a terminal to the process and to its children."""
    children = Path(f"/proc/{process_id}/task/{process_id}/children").read_text().split()
    for one in (process_id, *map(int, children)):
        with contextlib.suppress(ProcessLookupError):  # one of its processes may have ended meanwhile
            os.kill(one, signal.SIGINT)


def _count(database: Database) -> int:
    with database.session() as session:
        return session.scalar(select(func.count()).select_from(Document)) or 0


def test_rules_are_set_listed_and_lifted(environment: dict[str, str], tmp_path: Path) -> None:
    objects(environment, "index", write_pages(tmp_path / "x.warc.gz", PAGES), "--collection", "a:b")
    (ruled,) = objects(environment, "collection", "access", "a", "embargo", "--until", "2999-01-01", "--json")
    assert ruled == {"set_spec": "collection:a", "access": "embargo", "documents": 3}
    rows = {row["set_spec"]: row for row in objects(environment, "collection", "list")}
    assert rows["collection:a"]["embargo_until"] == "2999-01-01T00:00:00Z"
    assert objects(environment, "access", "refresh") == [{"documents": 0}]
    assert objects(environment, "collection", "access", "a", "reading-room")[0]["documents"] == 3
    done = zatva(environment, "collection", "access", "a", "embargo")
    assert (done.returncode, "--until" in done.stderr) == (2, True)


def test_a_collection_is_moved_and_dropped(environment: dict[str, str], tmp_path: Path) -> None:
    objects(environment, "index", write_pages(tmp_path / "x.warc.gz", PAGES), "--collection", "a:b")
    (moved,) = objects(environment, "collection", "move", "a:b", "c:d")
    assert (moved["set_spec"], moved["documents"]) == ("collection:c:d", 3)
    assert zatva(environment, "collection", "drop", "c").returncode == 2
    assert objects(environment, "collection", "drop", "c", "--force")[0]["documents"] == 3
    assert [row["set_spec"] for row in objects(environment, "collection", "list")] == [
        "collection",
        "collection:a",
    ]


def test_documents_are_hidden_and_found_by_file_and_domain(
    environment: dict[str, str], database: Database, tmp_path: Path
) -> None:
    indexed(database, tmp_path / "x.warc.gz", PAGES)
    indexed(database, tmp_path / "y.warc.gz", [Page(url="http://b.example/")])
    assert objects(environment, "hide", "--arc", "x.warc.gz") == [{"documents": 3, "taken_down": 0}]
    assert objects(environment, "find", "http://www.a.example/1") == []
    (found,) = objects(environment, "find", "a.example/1", "--all")
    assert (found["access"], found["file"]) == ("hidden", str(tmp_path / "x.warc.gz"))
    assert objects(environment, "unhide", "--domain", "a.example", "--from", "2007-11-02") == [
        {"documents": 3, "taken_down": 0}
    ]
    assert len(objects(environment, "find", "example", "--domain")) == 4
    assert len(objects(environment, "find", "www.a.example/", "--prefix", "--limit", "2")) == 2
    assert zatva(environment, "find", "/nothing").returncode == 2


def test_found_captures_are_filtered_collapsed_and_sorted(
    environment: dict[str, str], database: Database, tmp_path: Path
) -> None:
    pages = [
        Page(url="http://a.example/", date=f"200{year}-01-01T00:00:00Z", status=status)
        for year, status in ((1, 200), (2, 404), (4, 200))
    ]
    indexed(database, tmp_path / "x.warc.gz", pages)

    def years(*options: str) -> list[str]:
        return [row["archived"][:4] for row in objects(environment, "find", "a.example", *options)]

    assert years("--reverse", "--filter", "status:200") == ["2004", "2001"]
    assert years("--closest", "2002-11-01") == ["2002", "2004", "2001"]
    assert years("--filter", "!status:200", "--filter", "url:http:.*") == ["2002"]
    assert years("--collapse", "urlkey") == ["2001"]
    assert "use --limit" in zatva(environment, "find", "a.example", "--limit", "2").stderr
    assert "use --limit" not in zatva(environment, "find", "a.example", "--limit", "3").stderr
    assert zatva(environment, "find", "a.example", "--filter", "200").returncode == 2
    unknown = zatva(environment, "find", "a.example", "--filter", "=stat:200")
    assert (
        unknown.returncode,
        "unknown field 'stat'; the fields are urlkey, timestamp, url, mime, status" in unknown.stderr,
    ) == (2, True)


def test_an_asterisk_widens_a_search_as_in_cdx_servers(
    environment: dict[str, str], database: Database, tmp_path: Path
) -> None:
    pages = [Page(url=f"http://www.a.example/{name}") for name in ("1", "2", "x")]
    indexed(database, tmp_path / "x.warc.gz", pages)
    for asked in ("http://www.a.example/*", "*.example"):
        assert len(objects(environment, "find", asked, "--filter", "=status:200")) == 3, asked
    assert objects(environment, "find", "a.example/*", "--host") != []
    assert "--prefix" in zatva(environment, "find", "a.example/none").stdout
    reverse = zatva(environment, "find", "a.example/*", "--reverse")
    assert (reverse.returncode, "cannot be combined with prefix" in reverse.stderr) == (2, True)


def test_a_file_whose_name_is_not_utf_8_is_indexed_queued_verified_and_hidden(
    environment: dict[str, str], tmp_path: Path
) -> None:
    raw = os.fsencode(tmp_path) + b"/\xe8.warc.gz"
    try:
        path = write_pages(Path(os.fsdecode(raw)), PAGES)
    except OSError:
        pytest.skip("this file system keeps no such names")
    shown = f"file://{tmp_path}/%E8.warc.gz"
    report, _ = objects(environment, "index", tmp_path)
    assert (report["file"], report["new"], report["problems"]) == (shown, 3, [])
    assert shown in zatva(environment, "index", tmp_path).stdout
    for name in (path, path.name, shown):
        assert objects(environment, "verify", name)[-1]["total"]["documents"] == 3
    objects(environment, "index", "--queue", tmp_path)
    assert [row["path"] for row in objects(environment, "status", "--run", "1")] == [shown]
    assert objects(environment, "find", "a.example", "--domain")[0]["file"] == shown
    assert objects(environment, "hide", "--arc", path) == [{"documents": 3, "taken_down": 0}]


def test_indexing_reports_when_harvesters_will_find_new_documents(
    environment: dict[str, str], tmp_path: Path
) -> None:
    write_pages(tmp_path / "a.warc.gz", PAGES)

    first = zatva(environment, "index", str(tmp_path))
    second = zatva(environment, "index", str(tmp_path), "--again")

    assert "harvesters find new documents 3 seconds later" in first.stderr
    assert "harvesters find" not in second.stderr


def test_a_takedown_is_previewed_entered_listed_and_lifted(
    environment: dict[str, str], database: Database, tmp_path: Path
) -> None:
    indexed(database, tmp_path / "a.warc.gz", PAGES)
    addresses = tmp_path / "addresses.txt"
    addresses.write_text("http://a.example/1\n\na.example/2\n", encoding="utf-8")
    words: list[str | Path] = [
        "takedown",
        "add",
        "--list",
        addresses,
        "--reason",
        "court order",
        "--requester",
        "Jan",
    ]
    (seen,) = objects(environment, *words, "--dry-run")
    assert (seen["documents"], seen["harvesters"], len(seen["examples"])) == (2, 0, 2)
    (entered,) = objects(environment, *words)
    assert entered == {"takedown_id": 1, "documents": 2, "harvesters": 0}
    done = zatva(environment, "takedown", "list")
    assert "http://a.example/1 and 1 more" in done.stdout
    (ended,) = objects(environment, "takedown", "lift", "1", "--reason", "over")
    assert ended["documents"] == 2
    assert objects(environment, "takedown", "list") == []
    (saved,) = objects(environment, "takedown", "list", "--all")
    assert (saved["targets"], saved["all_targets"]) == (
        "http://a.example/1 and 1 more",
        ["http://a.example/1", "a.example/2"],
    )
    assert "lifted_because: over" in zatva(environment, "takedown", "show", "1").stdout
    refused = zatva(environment, "takedown", "add", "blog", "--reason", "r", "--requester", "q")
    assert (refused.returncode, "1: 'blog'" in refused.stderr) == (2, True)


def test_only_line_feeds_separate_the_lines_of_a_list(tmp_path: Path) -> None:
    """URLs archived with bytes that are not UTF-8 contain other characters at which Python splits."""
    (tmp_path / "list.txt").write_bytes("http://a.example/\x85\u2028x\r\n\nb.example\n".encode())
    assert lines_of_list(tmp_path / "list.txt") == ["http://a.example/\x85\u2028x", "b.example"]


def test_all_takedowns_are_listed_unless_a_limit_is_given(
    environment: dict[str, str], database: Database
) -> None:
    with database.session() as session:
        session.add_all(
            Takedown(targets=[f"http://a.example/{number}"], reason="court order", requester="Jan")
            for number in range(205)
        )
        session.commit()
    numbers = [row["takedown_id"] for row in objects(environment, "takedown", "list")]
    assert numbers == list(range(205, 0, -1))
    assert len(zatva(environment, "takedown", "list").stdout.splitlines()) == 206
    limited = objects(environment, "takedown", "list", "--limit", "101")
    assert [row["takedown_id"] for row in limited] == numbers[:101]


def test_an_indexing_command_creates_one_load_if_it_adds_documents(
    environment: dict[str, str], database: Database, tmp_path: Path
) -> None:
    for name in ("a", "b"):
        write_pages(tmp_path / f"{name}.warc.gz", [Page(url=f"http://{name}.example/")])
    for new in (1, 0):
        *files, total = objects(environment, "index", tmp_path, "--jobs", "1", "--collection", "serials")
        assert [file["new"] for file in files] == [new, new]
        assert (total["total"]["new"], total["total"]["files"]) == (2 * new, 2)
    with database.session() as session:
        (load,) = list_loads(session, datetime(2900, 1, 1, tzinfo=UTC), limit=9)
        assert session.scalars(select(Load.load_id)).all() == [load.load_id]
    assert load.collection is not None
    assert (load.new, load.collection.set_spec) == (2, "collection:serials")


def _audited(database: Database, *actions: str) -> list[AuditEntry]:
    with database.session() as session:
        wanted = select(AuditEntry).where(AuditEntry.action.in_(actions)).order_by(AuditEntry.audit_id)
        return list(session.scalars(wanted))


def test_changes_of_collections_by_commands_are_audited(
    environment: dict[str, str], database: Database, tmp_path: Path
) -> None:
    indexed(database, tmp_path / "x.warc.gz", PAGES)
    for words in (
        ("add", "serials"),
        ("assign", "serials", "--domain", "a.example", "--from", "2000-01-01"),
        ("access", "serials", "withheld"),
        ("move", "serials", "periodicals"),
        ("drop", "periodicals", "--force"),
    ):
        assert zatva(environment, "collection", *words).returncode == 0

    add, assign, access, move, drop = _audited(
        database, *(f"collection.{verb}" for verb in ("add", "assign", "access", "move", "remove"))
    )
    old, new = "collection:serials", "collection:periodicals"
    assert [one.object_id for one in (add, assign, access, move, drop)] == [old, old, old, new, new]
    assert add.after is not None
    assert add.after["access"] == "open"
    assert assign.after is not None
    assert assign.after["selection"] == {"domain": "a.example", "since": "2000-01-01T00:00:00Z"}
    assert assign.before is not None
    assert (assign.before["documents"], assign.after["documents"]) == (0, 3)
    assert (access.before, access.after) == ({"access": "open"}, {"access": "withheld"})
    assert move.before is not None
    assert move.after is not None
    assert (move.before["set_spec"], move.after["set_spec"], "name" in move.before) == (old, new, False)
    assert drop.before is not None
    assert (drop.before["access"], drop.after) == ("withheld", None)


def test_hiding_and_takedowns_by_commands_are_audited(
    environment: dict[str, str], database: Database, tmp_path: Path
) -> None:
    indexed(database, tmp_path / "x.warc.gz", PAGES)
    with database.session() as session:
        key = session.scalars(select(Document.key).where(Document.url == PAGES[0].url)).one()
    objects(environment, "hide", oai_identifier("webarchive.localdomain", key))
    objects(environment, "hide", "--domain", "a.example", "--until", "2100-12-31")
    objects(environment, "takedown", "add", "*.a.example", "--dry-run")
    objects(environment, "takedown", "add", "a.example/1", "--reason", "r", "--requester", "q")
    objects(environment, "takedown", "lift", "1", "--reason", "r")

    one, many, *takedowns = _audited(database, "document.hide", "takedown.add", "takedown.lift")
    assert (one.object_id, one.object_name) == (str(key), PAGES[0].url)
    assert one.before is not None
    assert one.after is not None
    assert (one.before["hidden"], one.before["deleted"]) == (False, False)
    assert (one.after["hidden"], one.after["documents"]) == (True, 1)
    assert many.object_id is None
    assert many.after == {
        "selection": {"domain": "a.example", "until": "2100-12-31T23:59:59Z"},
        "documents": 2,
    }
    assert [(entry.object_id, entry.object_name) for entry in takedowns] == [("1", "a.example/1")] * 2

"""`zatva rule` as a user runs it: versions, trials, and a replay that is previewed before it is applied."""

from collections.abc import AsyncIterator
from pathlib import Path

import pytest
from sqlalchemy import select

from harvester.models import History
from oai.database import Database
from tests.harvester.fake_repository import FakeRepository, many, serve
from tests.harvester.rule_lab.records import FILTERS
from tests.harvester.test_commands import run

_FEW = FILTERS.replace(b"//dc:subject", b"//dc:title").replace(b"cultur", b"Title [0-4] ")
_MAPPINGS = b"""<normalize><selectionNamespaces>xmlns:dc='http://purl.org/dc/elements/1.1/'
</selectionNamespaces><mapping xpath="//dc:title"><newElement name="dc:subject" regexp="Title">
<newValue>Titles</newValue></newElement>
</mapping></normalize>"""


def _bytes(file: Path) -> bytes:
    return file.read_bytes()


def _write(file: Path, content: bytes) -> None:
    file.write_bytes(content)


@pytest.fixture
async def fake() -> AsyncIterator[FakeRepository]:
    async with serve(FakeRepository(items=many(20))) as served:
        yield served


async def test_a_rule_is_kept_in_versions(environment: dict[str, str], tmp_path: Path) -> None:
    file = tmp_path / "mine.xml"
    file.write_bytes(FILTERS)
    added = await run(environment, "rule", "add", "Culture", str(file), "--note", "one", "--json")
    assert (added.code, added.json["number"], added.json["kind"]) == (0, 1, "filter"), added.err
    kept = Path(added.json["path"])
    assert _bytes(kept) == FILTERS

    _write(kept, _FEW)
    shown = await run(environment, "rule", "show", "Culture")
    assert "changed by hand; save it as a version with `zatva rule edit RULE`" in shown.out
    edited = await run(environment, "rule", "edit", "Culture", "--json")
    assert (edited.code, edited.json["number"]) == (0, 2), edited.err
    listed = await run(environment, "rule", "versions", "Culture", "--diff")
    assert "-  <filter" in listed.out

    file.write_bytes(b"<filters><filter xpath='//x' regexp='('/></filters>")
    refused = await run(environment, "rule", "edit", "Culture", str(file))
    assert refused.code == 2
    assert "line 1, column" in refused.err
    assert _bytes(kept) == _FEW
    checked = await run(environment, "rule", "check", str(kept))
    assert checked.code == 0, checked.err


async def test_rules_are_tried_and_a_replay_is_previewed_before_it_is_applied(
    fake: FakeRepository, environment: dict[str, str], database: Database, tmp_path: Path
) -> None:
    filters, mappings = tmp_path / "filters.xml", tmp_path / "mappings.xml"
    filters.write_bytes(_FEW)
    mappings.write_bytes(_MAPPINGS)
    harvest = ("harvest", fake.url, "--out", str(tmp_path / "out"), "--keep-raw")
    assert (await run(environment, *harvest)).code == 0

    tried = await run(environment, "rule", "try", str(filters), "--repository", "1", "--json")
    assert tried.code == 0, tried.err
    assert (tried.json["tried"], tried.json["counts"]) == (20, {"accepted": 5, "refused": 15})
    assert tried.json["never_matched"] == [2]
    live = await run(environment, "rule", "try", str(mappings), "--live", "1", "--records", "5")
    assert live.code == 0, live.err
    assert "5 of 5 samples tested: 5 changed" in live.out
    assert "+      <dc:subject>Titles</dc:subject>" in live.out

    rules = ("--filter", str(filters), "--normalise", str(mappings))
    ended = await run(environment, "rule", "replay", "1", *rules, "--json")
    assert ended.code == 0, ended.err
    counts = {word: number for word, number in ended.json["counts"].items() if number}
    assert counts == {"updated": 5, "left out now": 15}
    assert "+      <dc:subject>Titles</dc:subject>" in ended.json["samples"]["updated"][0]["diff"]
    assert "0 of 1 matched" in ended.json["samples"]["left out now"][0]["why"]
    one_kind = await run(environment, "rule", "replay", "1", *rules[:2], "--json")
    assert one_kind.code == 0, one_kind.err
    counts = {word: number for word, number in one_kind.json["counts"].items() if number}
    assert counts == {"unchanged": 5, "left out now": 15}
    with database.session() as session:
        assert session.scalars(select(History.history_id)).all() == [1]

    done = await run(environment, "rule", "replay", "1", *rules, "--apply")
    assert done.code == 0, done.err
    with database.session() as session:
        replayed = session.get_one(History, 2)
        assert (replayed.updated_count, replayed.filtered_count) == (5, 15)
        assert replayed.filter_digest is not None
        assert replayed.normalize_digest is not None
    again = await run(environment, "rule", "replay", "1", *rules, "--json")
    assert {word: number for word, number in again.json["counts"].items() if number} == {
        "unchanged": 5,
        "left out now": 15,
    }


async def test_examples_are_listed_and_a_rule_is_added_from_one(environment: dict[str, str]) -> None:
    listed = await run(environment, "rule", "examples")
    assert "marc-books" in listed.out
    unnamed = await run(environment, "rule", "add", "Books", "--example=")
    assert (unnamed.code, "no example ''" in unnamed.err) == (2, True)
    added = await run(environment, "rule", "add", "Books", "--example", "marc-books")
    assert added.code == 0, added.err
    assert "version 1" in added.out

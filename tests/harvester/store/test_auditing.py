"""Fixity: missing, altered and stray files are found, and no others."""

import hashlib
import json
from pathlib import Path

import pytest
from sqlalchemy import select, update

from harvester.harvest.checkpoint import is_held, only_harvest
from harvester.models import Record
from harvester.store.diff import is_same_file
from harvester.store.models import StoreAudit, damage
from tests.harvester.fake_repository import Item
from tests.harvester.library import Library, touch


async def test_an_unchanged_store_is_clean(library: Library) -> None:
    library.fake.items += [
        Item(identifier="oai:fake.example:DEL", deleted=True),
        Item(identifier="http://x/é"),
    ]
    await library.run(files_per_directory=4)
    audit, found = library.audit()
    assert (audit.clean, audit.files, found) == (True, 26, [])


async def test_missing_altered_stray_and_unfinished_files_are_found(library: Library) -> None:
    await library.run()
    there = library.folder / "fake.example"
    (there / "3.xml").unlink()
    (there / "7.xml").write_bytes((there / "7.xml").read_bytes().replace(b"Title", b"Totle"))
    touch(there / "99.xml", b"<r/>")
    touch(library.folder / "~x" / "note.txt", b"mine")
    touch(there / "5.xml~part", b"<rec")
    audit, found = library.audit()
    assert {(one.kind.value, one.path, one.identifier, one.unfinished) for one in found} == {
        ("missing", "fake.example/3.xml", "oai:fake.example:3", False),
        ("altered", "fake.example/7.xml", "oai:fake.example:7", False),
        ("stray", "fake.example/99.xml", None, False),
        ("stray", "~x/note.txt", None, False),
        ("stray", "fake.example/5.xml~part", None, True),
    }
    assert (audit.clean, audit.files, audit.missing, audit.altered, audit.stray) == (False, 25, 1, 1, 3)
    with library.database.session() as session:
        row = session.scalars(select(StoreAudit)).one()
    assert (row.files, row.missing, row.altered, row.stray) == (25, 1, 1, 3)
    assert row.ended is not None


async def test_a_file_that_cannot_be_read_is_unreadable_and_the_store_not_damaged(
    library: Library,
) -> None:
    await library.run()
    unreadable = library.folder / "fake.example/3.xml"
    unreadable.unlink()
    unreadable.symlink_to("3.xml")  # a loop, which the system refuses to open even for root
    audit, (found,) = library.audit()
    assert (found.kind.value, found.path, found.identifier) == (
        "unreadable", "fake.example/3.xml", "oai:fake.example:3",
    )  # fmt: skip
    assert "symbolic links" in (found.reason or "")
    assert (audit.clean, audit.missing, audit.altered, audit.stray, audit.unreadable) == (False, 0, 0, 0, 1)
    with library.database.session() as session:
        row = session.scalars(select(StoreAudit)).one()
    assert (row.state, row.failure_code) == ("failed", "store_audit_incomplete")
    assert row.failure_facts == {"said": "1 of 25 files cannot be read"}
    (library.folder / "fake.example/7.xml").unlink()
    assert library.audit()[0].failure == damage(missing=1, altered=0, stray=0)


async def test_repair_removes_only_unfinished_files(library: Library) -> None:
    await library.run()
    touch(library.folder / "fake.example/5.xml~part", b"<rec")
    touch(library.folder / "fake.example/stray.xml", b"<r/>")
    audit, _ = library.audit(repair=True)
    assert (audit.repaired, audit.clean) == (1, False)
    assert len(library.files()) == 26
    (library.folder / "fake.example/stray.xml").unlink()
    assert library.audit()[0].clean


async def test_names_that_are_not_utf_8_are_stray_like_others(library: Library) -> None:
    await library.run()
    touch(Path(f"{library.folder}/a\udcff.xml"), b"x")
    _, found = library.audit()
    assert [one.path for one in found] == ["a\\xff.xml"]


async def test_findings_during_a_harvest_are_checked_again(library: Library) -> None:
    await library.run()
    touch(library.folder / "new.xml", b"<r/>")

    def commit(_seconds: float) -> None:
        with library.database.session() as session:
            session.execute(
                update(Record)
                .where(Record.identifier == "oai:fake.example:3")
                .values(filename="new.xml", digest=hashlib.sha256(b"<r/>").digest())
            )
            session.commit()
        (library.folder / "fake.example/3.xml").unlink()

    audit, found = library.audit(busy=lambda: True, sleep=commit)
    assert (audit.clean, found) == (True, [])


def test_a_repository_counts_as_busy_while_it_is_harvested(library: Library) -> None:
    assert not is_held(library.database, library.repository_id)
    with only_harvest(library.database, library.repository_id):
        assert is_held(library.database, library.repository_id)
        assert not is_held(library.database, library.repository_id + 1)


async def test_the_command_ends_with_3_and_a_line_for_each_finding(library: Library) -> None:
    await library.run()
    code, out, _ = await library.command("store", "verify", "--json")
    assert (code, json.loads(out)["clean"]) == (0, True)
    (library.folder / "fake.example/3.xml").unlink()
    code, out, _ = await library.command("store", "verify", str(library.repository_id), "--json")
    finding, audit = map(json.loads, out.splitlines())
    assert (code, finding["kind"], finding["path"]) == (3, "missing", "fake.example/3.xml")
    assert (audit["missing"], audit["clean"]) == (1, False)


def test_a_spelling_with_another_inode_number_is_the_same_file_unless_both_are_listed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "Case").mkdir()
    (tmp_path / "Case/a.xml").touch()
    assert not is_same_file(tmp_path, "case/a.xml", b"Case/a.xml")
    monkeypatch.setattr("os.path.exists", lambda _: True)
    monkeypatch.setattr("os.path.samefile", lambda *_: False)
    assert is_same_file(tmp_path, "case/a.xml", b"Case/a.xml")
    assert not is_same_file(tmp_path, "case/b.xml", b"Case/a.xml")
    (tmp_path / "case").mkdir()
    assert not is_same_file(tmp_path, "case/a.xml", b"Case/a.xml")

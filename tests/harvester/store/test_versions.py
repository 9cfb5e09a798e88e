"""Replaced versions of records are kept, within limits, with the runs that replaced them."""

from collections.abc import Sequence
from datetime import UTC, datetime, timedelta

from sqlalchemy import select, update

from harvester.models import Record
from harvester.store.changes import prune_changes
from harvester.store.models import RecordVersion
from harvester.store.paths import identifier_key
from harvester.store.versions import ListedVersion, list_versions, version_content
from tests.harvester.fake_repository import Item
from tests.harvester.library import Library


def a_change(library: Library, number: int, title: str) -> None:
    identifier = f"oai:fake.example:{number}"
    library.fake.items[number] = Item(
        identifier=identifier, title=title, datestamp=f"2024-06-0{len(title)}T00:00:00Z"
    )


def versions(library: Library, number: int = 4) -> tuple[Sequence[ListedVersion], list[str]]:
    """Return the versions of a record, and the files of those that were replaced."""
    with library.database.session() as session:
        key = identifier_key(f"oai:fake.example:{number}")
        record = session.scalars(select(Record).where(Record.identifier_key == key)).one()
        found = list_versions(session, record)
        contents = [
            version_content(session, record.record_id, one.version_id) or b""
            for one in found
            if one.version_id
        ]
        return found, [content.decode() for content in contents]


async def test_each_replaced_version_is_kept_with_the_run_that_replaced_it(library: Library) -> None:
    runs = [await library.run()]
    for title in ("x", "xx"):
        a_change(library, 4, title)
        runs.append(await library.run(full=True))
    runs.append(await library.run(full=True))  # no changes

    found, contents = versions(library)

    assert [one.version_id is None for one in found] == [True, False, False]
    assert [one.run and one.run.history_id for one in found] == [
        runs[2].history_id,
        runs[2].history_id,
        runs[1].history_id,
    ]
    assert [one.datestamp for one in found[:2]] == ["2024-06-02T00:00:00Z", "2024-06-01T00:00:00Z"]
    assert [one.size for one in found[1:]] == [len(content.encode()) for content in contents]
    assert "<dc:title>x</dc:title>" in contents[0]
    assert len(versions(library, 5)[0]) == 1


async def test_a_run_keeps_no_more_versions_than_its_limit(library: Library) -> None:
    library.change_settings(keep_versions=1)
    await library.run()
    for number in (4, 5):
        a_change(library, number, "x")
    await library.run(full=True)

    assert sorted(len(versions(library, number)[0]) for number in (4, 5)) == [1, 2]


async def test_an_altered_or_missing_file_is_not_a_version(library: Library) -> None:
    await library.run()
    named = {number: next(library.folder.rglob(f"{number}.xml")) for number in (4, 5)}
    named[4].write_bytes(b"<altered/>")
    named[5].unlink()
    for number in (4, 5):
        a_change(library, number, "x")
    await library.run(full=True)

    assert [len(versions(library, number)[0]) for number in (4, 5)] == [1, 1]


async def test_versions_are_removed_with_the_change_feed_and_with_the_repository(library: Library) -> None:
    await library.run()
    for number in (4, 5):
        a_change(library, number, "x")
    await library.run(full=True)
    with library.database.session() as session:
        old = datetime.now(UTC) - timedelta(days=31)
        session.execute(update(RecordVersion).where(RecordVersion.version_id == 1).values(replaced=old))
        session.commit()

    prune_changes(library.database, keep_days=30)
    with library.database.session() as session:
        left = session.scalars(select(RecordVersion.version_id)).all()
    code, _, _ = await library.command("repository", "remove", "1")
    with library.database.session() as session:
        afterwards = session.scalars(select(RecordVersion.version_id)).all()

    assert (left, code, afterwards) == ([2], 0, [])

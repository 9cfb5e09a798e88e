"""Records without a datestamp, which a lenient harvest stores with the date of the answer."""

from dataclasses import replace

import pytest
from sqlalchemy import delete

from harvester.harvest.page_writer import effect_of
from harvester.harvest.transform import Prepared, Transformer
from harvester.models import Record
from harvester.reading.answers import Header
from harvester.store.records import KnownRecord
from harvester.vocabulary import Level, Method, RecordStatus
from oai.failures import FailureCode
from tests.harvester.fake_repository import Item, many
from tests.harvester.library import Library

NOW = "2024-06-01T12:00:00Z"


def undated(count: int) -> list[Item]:
    return [replace(item, datestamp="") for item in many(count)]


def stamps(library: Library) -> dict[str, str]:
    return {row.identifier: row.datestamp for row in library.records().values()}


async def test_undated_records_are_stored_with_the_date_of_the_answer_and_counted_in_one_warning(
    library: Library,
) -> None:
    library.fake.items = [*undated(12), *many(14)[12:]]
    outcome = await library.run()
    assert (outcome.verdict, outcome.counts["new"]) == ("complete", 14)
    assert list(stamps(library).values()).count(NOW) == 12
    (note,) = outcome.notes
    assert note.failure is not None
    assert note.failure.code is FailureCode.RECORDS_UNDATED
    assert note.failure.facts == {"count": 12, "identifier": "oai:fake.example:0"}
    assert "got the date of the answer: 12; the first" in note.text


async def test_unchanged_undated_records_stay_unchanged_and_changed_ones_are_updated(
    library: Library,
) -> None:
    library.fake.items = undated(12)
    await library.run()
    library.fake.now = "2024-07-01T12:00:00Z"
    library.fake.items[3] = replace(library.fake.items[3], title="Another title")
    again = await library.run(full=True)
    assert (again.counts["unchanged"], again.counts["updated"], again.verdict) == (11, 1, "complete")
    assert sorted(stamps(library).values())[-2:] == [NOW, "2024-07-01T12:00:00Z"]


async def test_the_watermark_moves_and_the_next_harvest_is_incremental(library: Library) -> None:
    library.fake.items = undated(12)
    await library.run()
    await library.run()
    assert library.fake.lists()[-1]["from"] == "2024-06-01T11:59:00Z"


@pytest.mark.parametrize("method", Method)
async def test_both_methods_store_all_undated_records(library: Library, method: Method) -> None:
    library.fake.items = undated(12)
    outcome = await library.run(method=method)
    assert (outcome.verdict, outcome.counts["new"], outcome.counts["undated"]) == ("complete", 12, 12)


async def test_a_strict_harvest_stops_at_the_first_undated_record(library: Library) -> None:
    library.fake.items = undated(12)
    outcome = await library.run(validation=Level.STRICT)
    assert (outcome.verdict, outcome.counts["records"]) == ("failed", 0)
    assert "'' is not a datestamp" in (outcome.failure_reason or "")


async def test_the_rows_are_rebuilt_from_files_without_datestamps(library: Library) -> None:
    library.fake.items = undated(3)
    await library.run()
    before = stamps(library)
    code, out, error = await library.command("store", "rebuild", str(library.repository_id))
    assert code == 0, (out, error)
    assert stamps(library) == before
    with library.database.session() as session:
        session.execute(delete(Record))
        session.commit()
    code, out, error = await library.command("store", "rebuild", str(library.repository_id))
    assert code == 0, (out, error)
    assert stamps(library).keys() == before.keys()
    assert all(len(stamp) == len(NOW) for stamp in stamps(library).values())


def test_a_repeated_deletion_without_a_datestamp_is_not_a_change() -> None:
    header = Header(identifier="oai:a:1", datestamp="2024-07-01T12:00:00Z", deleted=True, undated=True)
    gone = KnownRecord(
        record_id=1, filename=None, digest=None, status=RecordStatus.DELETED, datestamp="2024-06-01T12:00:00Z"
    )
    tombstone = Prepared(header=header, key="00", data=None, digest=None)
    assert effect_of(tombstone, gone) == "unchanged"
    assert effect_of(tombstone._replace(header=replace(header, undated=False)), gone) == "tombstones"


@pytest.mark.parametrize("first_undated", [True, False])
def test_of_a_dated_and_an_undated_version_the_last_one_is_stored(*, first_undated: bool) -> None:
    dated = Header(identifier="oai:a:1", datestamp="2020-01-01")
    without = replace(dated, datestamp=NOW, undated=True)
    versions = [without, dated] if first_undated else [dated, without]
    batch = Transformer().prepare([(header, None) for header in versions], url="http://a.example/oai")
    assert [record.header for record in batch.records] == [versions[1]]
    assert not batch.outdated

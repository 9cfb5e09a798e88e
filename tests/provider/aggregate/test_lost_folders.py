"""Lost folders of the store: which records are listed, and how often their pages are refused."""

import shutil
from collections.abc import Callable
from dataclasses import replace

import pytest
from lxml import etree
from sqlalchemy import text

from oai.database import Database
from provider.aggregate.catalogue import UnreadablePageError
from provider.aggregate.stored_records import MissingFolderError, read_stored
from provider.aggregate.update import Updater, notice_unreadable, updater
from provider.holdings.mark import MarkBehindError
from tests.plans import work_of
from tests.provider.aggregate.harvested_rows import OAI, Harvested
from tests.provider.served import until

RECORDS = 60
PIECE = 10

UNREADABLE = """
WITH record AS (
    INSERT INTO aggregate_record (repository_id, format_id, identifier, identifier_key, harvested_identifier,
        harvested_key, datestamp, harvested_datestamp, harvest_time, deleted, altered, set_ids)
    SELECT 1, 1, n, md5(n::text)::uuid, n, md5(n::text)::uuid, '9999-01-01', '', now(), false, false, '{}'
    FROM generate_series(1, :number) AS n
    RETURNING id
)
INSERT INTO aggregate_unreadable (record_id, reason, looked_at) SELECT id, 'gone', now() FROM record
"""

Walk = Callable[[], list[str]]


@pytest.fixture
def walk(harvested: Harvested, database: Database) -> Walk:
    """Publish records, every second one in the folder `deep/lost`; walking returns the identifiers listed."""
    (harvested.folder / "deep" / "lost").mkdir(parents=True)
    with database.session() as session:
        for number in range(RECORDS):
            harvested.write(session, f"deep/lost/{number}" if number % 2 else str(number))
        session.commit()
    harvested.update()

    def listed() -> list[str]:
        arguments = [("metadataPrefix", "oai_dc")]
        found: list[str] = []
        while True:
            answer = harvested.repository().answer([("verb", "ListRecords"), *arguments])
            page = etree.fromstring(answer.body)
            found += (element.text or "" for element in page.iter(f"{OAI}identifier"))
            token = page.findtext(f".//{OAI}resumptionToken")
            if not token:
                return found
            arguments = [("resumptionToken", token)]

    last = [("verb", "GetRecord"), ("metadataPrefix", "oai_dc"), ("identifier", f"oai:one:{RECORDS - 2}")]

    def is_published() -> bool:
        try:
            return not harvested.repository().answer(last).errors
        except MarkBehindError:
            return False

    until(is_published)
    return listed


def _refuse(walk: Walk, database: Database) -> UnreadablePageError:
    """Walk to the first page that is refused, and note its records as the server does."""
    with pytest.raises(UnreadablePageError) as refused:
        walk()
    with database.session() as session:
        notice_unreadable(session, refused.value.reasons)
        session.commit()
    return refused.value


def _update_in_pieces(harvested: Harvested) -> int:
    with updater(harvested.database.engine, harvested.settings) as found:
        assert isinstance(found, Updater)
        return replace(found, together=PIECE).run().records


@pytest.mark.parametrize("folder", ["deep", "deep/lost"])
def test_after_one_refused_page_no_other_page_is_refused_for_the_same_lost_folder(
    harvested: Harvested, database: Database, walk: Walk, folder: str
) -> None:
    shutil.rmtree(harvested.folder / folder)
    assert len(_refuse(walk, database).reasons) < 5
    assert _update_in_pieces(harvested) == RECORDS / 2
    listed = walk()
    assert not [name for name in listed if "lost" in name]
    assert len(listed) >= RECORDS / 2
    with database.session() as session:
        reasons = session.scalars(text("SELECT DISTINCT reason FROM aggregate_unreadable")).all()
    assert len(reasons) == RECORDS / 2
    assert all(reason.endswith(".xml: No such file or directory") for reason in reasons)


def test_files_that_are_missing_from_an_existing_folder_hide_no_other_record(
    harvested: Harvested, database: Database, walk: Walk
) -> None:
    (harvested.folder / "deep" / "lost" / "1.xml").unlink()
    _refuse(walk, database)
    assert harvested.update() == 1
    assert "oai:one:deep/lost/3" in walk()


@pytest.mark.parametrize("is_mount_point", [False, True])
def test_a_page_is_refused_for_its_missing_base_directory_and_not_for_each_file(
    harvested: Harvested, database: Database, walk: Walk, *, is_mount_point: bool
) -> None:
    harvested.folder.rename(harvested.folder.with_name("away"))
    if is_mount_point:
        harvested.folder.mkdir()
    refused = _refuse(walk, database)
    reason = f"the folder {harvested.folder} is missing or empty; mount or restore it"
    assert set(refused.reasons.values()) == {reason}
    assert len(refused.reasons) == 5
    assert harvested.update() == 0
    harvested.folder.with_name("away").rename(harvested.folder)
    assert "oai:one:deep/lost/3" in walk()


def test_a_missing_base_directory_is_distinguished_from_a_missing_file(harvested: Harvested) -> None:
    with pytest.raises(MissingFolderError):
        read_stored(harvested.settings.store / "two", "1.xml", "oai:one:1")
    (harvested.folder / "2.xml").touch()
    with pytest.raises(Exception, match="No such file") as found:
        read_stored(harvested.folder, "1.xml", "oai:one:1")
    assert not isinstance(found.value, MissingFolderError)


def test_requests_for_a_missing_base_directory_do_not_keep_an_update_busy(
    harvested: Harvested, database: Database, walk: Walk
) -> None:
    harvested.folder.rename(harvested.folder.with_name("away"))
    _refuse(walk, database)
    checks: list[None] = []

    def ask_again() -> None:
        assert len(checks) < RECORDS
        checks.append(None)
        _refuse(walk, database)

    with updater(database.engine, harvested.settings, ask_again) as found:
        assert isinstance(found, Updater)
        assert found.run().records == 0
    assert checks


@pytest.mark.copied_database("rows that plans go through are counted")
@pytest.mark.parametrize("number", [1000, 4000])
def test_an_update_reads_few_of_many_unreadable_records(
    harvested: Harvested, database: Database, number: int
) -> None:
    harvested.update()
    with database.session() as session:
        session.execute(text(UNREADABLE), {"number": number})
        session.commit()
    with work_of(database, "aggregate_unreadable") as work:
        assert _update_in_pieces(harvested) == 0
    assert 0 < sum(work) < 5 * PIECE

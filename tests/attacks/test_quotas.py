"""Quotas of organisations, and the disk space that harvests leave free."""

import os
import shutil
from collections import Counter
from datetime import timedelta
from pathlib import Path
from typing import Any
from zoneinfo import ZoneInfo

import pytest
from sqlalchemy import select, update

from harvester.harvest.quota import Quota, Stored, open_quota
from harvester.harvest.raw_capture import raw_folder
from harvester.harvest.run import Tuning
from harvester.models import Record
from harvester.store.audit import Audit
from harvester.vocabulary import RunStatus
from oai.audit import AuditEntry
from oai.datestamps import utc_now
from oai.disk import DiskFloor, DiskFullError
from oai.failures import FailureCode
from oai.languages import minute
from oai.owners import Organisation, RepositoryOwner
from tests.commands import zatva
from tests.harvester.conftest import library
from tests.harvester.library import Library
from tests.web.conftest import Browser, Server
from tests.web.rows import a_repository, a_run, a_schedule

__all__ = ["library"]


def owned(library: Library, **values: Any) -> int:
    """Give the library's repository to an organisation."""
    with library.database.session() as session:
        owner = Organisation(short_name="mzk", name="Moravian Library", **values)
        session.add(owner)
        session.flush()
        number = owner.organisation_id
        session.add(RepositoryOwner(repository_id=library.repository_id, organisation_id=number))
        session.commit()
    return number


def stored(library: Library) -> int:
    with library.database.session() as session:
        return session.scalars(select(Organisation.records)).one()


def limit(library: Library, records: int) -> None:
    with library.database.session() as session:
        session.execute(update(Organisation).values(max_records=records))
        session.commit()


def audit(library: Library) -> Audit:
    return library.audit()[0]


async def test_a_harvest_stops_at_the_record_quota_and_resumes_after_it_is_raised(
    library: Library,
) -> None:
    owned(library, max_records=20)
    library.tuning = Tuning(group_records=1)
    stopped = await library.run()
    assert (stopped.status, stopped.verdict, len(library.records())) == ("incomplete", "partial", 20)
    assert stopped.failure is not None
    assert stopped.failure.code is FailureCode.QUOTA_RECORDS
    assert stopped.failure.facts == {"organisation": "mzk", "limit": 20, "stored": 20}
    assert (stored(library), audit(library).clean) == (20, True)
    again = await library.run()
    assert (again.status, len(library.records())) == ("incomplete", 20)
    limit(library, 25)
    asked = len(library.fake.asked)
    resumed = await library.run()
    assert (resumed.status, resumed.verdict, len(library.records())) == ("completed", "complete", 25)
    assert (resumed.counts["new"], stored(library), audit(library).clean) == (25, 25, True)
    lists = [one for one in library.fake.asked[asked:] if one["verb"] == "ListRecords"]
    assert [("resumptionToken" in one) for one in lists] == [True]


async def test_the_setting_limits_organisations_without_their_own_quota(library: Library) -> None:
    owned(library)
    library.tuning = Tuning(group_records=1)
    library.change_settings(organisation_records=10)
    assert ((await library.run()).status, len(library.records())) == ("incomplete", 10)
    limit(library, 0)
    assert ((await library.run()).status, len(library.records())) == ("completed", 25)


async def test_a_harvest_stops_at_the_byte_quota_and_resumes_after_it_is_raised(
    library: Library,
) -> None:
    number = owned(library)
    library.tuning = Tuning(group_records=1)
    await library.run(max_records=1)
    with library.database.session() as session:
        one = session.scalars(select(Record.size)).one()
        assert one is not None
        session.execute(update(Organisation).values(max_bytes=21 * one))
        session.commit()
    stopped = await library.run(full=True)
    assert (stopped.status, len(library.records())) == ("incomplete", 20)
    assert stopped.failure is not None
    assert (stopped.failure.code, stopped.failure.facts["organisation"]) == (FailureCode.QUOTA_BYTES, "mzk")
    with library.database.session() as session:
        sizes, files = session.scalars(select(Record.size)).all(), [*library.folder.rglob("*.xml")]
        organisation = session.get_one(Organisation, number)
        assert organisation.bytes == sum(filter(None, sizes)) == sum(file.stat().st_size for file in files)
        organisation.max_bytes = 0
        session.commit()
    assert ((await library.run()).status, len(library.records())) == ("completed", 25)


async def test_raw_answers_and_records_without_a_size_count_toward_the_byte_quota(library: Library) -> None:
    number = owned(library)
    await library.run()
    raw = raw_folder(library.settings, library.repository_id)
    raw.mkdir(parents=True)
    (raw / "1.warc.gz").write_bytes(b"x" * 1000)
    with library.database.session() as session:
        known = sum(filter(None, session.scalars(select(Record.size))))
        session.execute(update(Record).where(Record.record_id <= 5).values(size=None))
        quota = open_quota(session, library.repository_id, library.settings)
        counted = session.get_one(Organisation, number).bytes
    assert quota is not None
    assert counted == pytest.approx(known + 1000, rel=0.02)
    assert quota.stored.bytes == counted


async def test_a_smaller_version_fits_into_a_full_organisation(library: Library) -> None:
    owned(library, max_bytes=1)
    quota = Quota(organisation_id=1, short_name="mzk", limit=Stored(0, 100), stored=Stored(1, 100))
    quota.check(Stored(0, -10))
    quota.check(Stored(0, 10))
    with pytest.raises(DiskFullError):
        quota.check(Stored(0, 1))


async def test_repositories_without_an_organisation_have_no_quota(library: Library) -> None:
    library.change_settings(organisation_records=1)
    assert ((await library.run()).status, len(library.records())) == ("completed", 25)


async def test_a_full_organisation_still_receives_changes_and_deletions(library: Library) -> None:
    owned(library, max_records=25)
    await library.run()
    library.delete(3)
    outcome = await library.run(full=True)
    assert (outcome.status, outcome.counts["deleted"], outcome.counts["unchanged"]) == ("completed", 1, 24)


async def test_deleted_records_no_longer_count_toward_the_quota(library: Library) -> None:
    owned(library, max_records=25)
    await library.run()
    library.delete(3)
    await library.run(full=True)
    await library.run(full=True)
    assert stored(library) == 24


async def test_two_harvests_of_one_organisation_share_its_quota(library: Library) -> None:
    number = owned(library, max_records=25)

    def others(counts: Any, _total: object) -> None:
        # Meanwhile another harvest of the organisation stores 10 records.
        if counts["pages"] == 1:
            with library.database.session() as session:
                session.execute(
                    update(Organisation)
                    .where(Organisation.organisation_id == number)
                    .values(records=Organisation.records + 10)
                )
                session.commit()

    library.tuning = Tuning(group_records=1, old_seconds=0)
    outcome = await library.run(on_progress=others)
    assert (outcome.status, outcome.failure and outcome.failure.code) == (
        "incomplete",
        FailureCode.QUOTA_RECORDS,
    )


class Disk:
    """A disk of 1 TB whose free space the test sets."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, *, total: int = 10**12) -> None:
        self.total, self.free = total, total
        usage = type(shutil.disk_usage("/"))
        monkeypatch.setattr(
            "oai.disk.shutil.disk_usage",
            lambda _place: usage(self.total, self.total - self.free, self.free),
        )


def inodes(monkeypatch: pytest.MonkeyPatch, *, total: int, free: int) -> None:
    """Set the number of inodes that every file system reports."""
    blocks = os.statvfs("/")[:5]
    monkeypatch.setattr(
        "oai.disk.os.statvfs", lambda _place: os.statvfs_result((*blocks, total, free, free, 0, 255))
    )


async def test_no_harvest_starts_below_the_minimum_free_disk_space(
    library: Library, monkeypatch: pytest.MonkeyPatch
) -> None:
    disk = Disk(monkeypatch)
    disk.free = 5 * 10**9 - 1
    outcome = await library.run()
    assert (outcome.status, library.fake.asked) == ("incomplete", [])
    assert outcome.failure is not None
    assert (outcome.failure.code, outcome.failure.facts["free"], outcome.failure.facts["floor"]) == (
        FailureCode.DISK_FLOOR,
        5 * 10**9 - 1,
        5 * 10**9,
    )
    disk.free += 1
    assert (await library.run()).status == "completed"


async def test_a_running_harvest_stops_below_the_minimum_free_space_and_resumes_above(
    library: Library, monkeypatch: pytest.MonkeyPatch
) -> None:
    disk = Disk(monkeypatch)
    library.tuning = Tuning(group_records=1)

    def fill(counts: Counter[str], _total: int | None) -> None:
        # The disk fills up once the first page is stored.
        if counts["pages"] == 1:
            disk.free = 10**9

    outcome = await library.run(on_progress=fill)
    assert (outcome.status, outcome.verdict, len(library.records())) == ("incomplete", "partial", 10)
    assert outcome.failure is not None
    assert (outcome.failure.code, audit(library).clean) == (FailureCode.DISK_FLOOR, True)
    disk.free = 10**10
    resumed = await library.run()
    assert (resumed.status, resumed.counts["new"], audit(library).clean) == ("completed", 25, True)


async def test_five_percent_of_a_small_disk_are_left_free(
    library: Library, monkeypatch: pytest.MonkeyPatch
) -> None:
    disk = Disk(monkeypatch, total=10**10)
    disk.free = 5 * 10**8 - 1
    assert (await library.run()).status == "incomplete"
    disk.free += 1
    assert (await library.run()).status == "completed"


async def test_a_minimum_share_of_inodes_is_left_free(
    library: Library, monkeypatch: pytest.MonkeyPatch
) -> None:
    Disk(monkeypatch)
    inodes(monkeypatch, total=10**6, free=4_999)
    outcome = await library.run()
    assert outcome.failure is not None
    assert (outcome.status, outcome.failure.code, outcome.failure.facts["free"]) == (
        "incomplete",
        FailureCode.DISK_INODES,
        4_999,
    )
    inodes(monkeypatch, total=10**6, free=5_000)
    assert (await library.run()).status == "completed"


async def test_file_systems_without_inode_limit_have_no_minimum_of_inodes(
    library: Library, monkeypatch: pytest.MonkeyPatch
) -> None:
    Disk(monkeypatch)
    inodes(monkeypatch, total=0, free=0)
    assert (await library.run()).status == "completed"


async def test_an_administrator_limits_an_organisation_by_page_and_api(
    server: Server, administrator: Browser, owner: Browser
) -> None:
    def limited() -> int | None:
        with server.database.session() as session:
            return session.scalars(
                select(Organisation.max_records).where(Organisation.organisation_id == number)
            ).one()

    with server.database.session() as session:
        number, name = session.execute(
            select(Organisation.organisation_id, Organisation.short_name)
        ).first() or (0, "")
        session.execute(update(Organisation).where(Organisation.organisation_id == number).values(records=90))
        session.commit()
    form = {"name": "Library", "short_name": name, "max_records": "100"}
    at = f"/admin/organisations/{number}"
    assert (await administrator.post(at, form))[0] == 303
    page = (await administrator.get(at))[1]
    assert (limited(), "90 of 100 records" in page, "almost full" in page) == (100, True, True)
    assert (await administrator.post(at, {**form, "max_records": "-1"}))[0] == 422
    assert (await administrator.post(at, {**form, "max_records": ""}))[0] == 303
    assert limited() is None
    assert (await owner.post(at, form))[0] in {403, 404}
    assert limited() is None
    with server.database.session() as session:
        entries = session.scalars(select(AuditEntry).where(AuditEntry.action == "organisation.edit")).all()
        assert "max_records" in str(entries[0].after)


async def test_partners_and_administrators_see_that_an_organisation_is_almost_full(
    server: Server, administrator: Browser, owner: Browser, colleague: Browser
) -> None:
    with server.database.session() as session:
        a_repository(session)
        session.execute(
            update(Organisation)
            .where(Organisation.short_name == "mzk")
            .values(bytes=8 * 10**9, max_bytes=10**10)
        )
        for number, short_name in ((1, "mzk"), (2, "nk")):
            made = a_repository(session, folder=short_name)
            session.add(RepositoryOwner(repository_id=made.repository_id, organisation_id=number))
        session.commit()
    for browser, sees in ((administrator, True), (owner, True), (colleague, False)):
        assert ("almost full" in (await browser.get("/"))[1]) is sees
    assert "almost full" in (await administrator.get("/admin/organisations"))[1]


async def test_only_an_administrator_can_run_a_schedule_again_immediately(
    server: Server, administrator: Browser, owner: Browser
) -> None:
    with server.database.session() as session:
        made = a_repository(session)
        session.add(RepositoryOwner(repository_id=made.repository_id, organisation_id=1))
        number = a_schedule(session, made).id
        failed = a_run(session, made, status=RunStatus.FAILED, harvest_start_time=utc_now())
        session.commit()
        assert (await owner.post(f"/schedules/{number}/run"))[0] == 303
        failed.status = RunStatus.COMPLETED
        session.commit()
    status, page, _ = await owner.post(f"/schedules/{number}/run")
    again = {"metadata_prefix": "oai_dc", "frequency": "", "time_zone": "UTC", "do": "save"}
    once, added, _ = await owner.post("/schedules/new?repository=1", again)
    assert (status, "15 minutes must be between two runs" in page) == (409, True)
    assert (once, "15 minutes must be between two runs" in added) == (422, True)
    assert (await administrator.post(f"/schedules/{number}/run"))[0] == 303


async def test_a_refused_run_shows_the_next_allowed_time_in_the_users_time_zone(
    server: Server, owner: Browser
) -> None:
    began = utc_now().replace(second=0, microsecond=0)
    with server.database.session() as session:
        made = a_repository(session)
        session.add(RepositoryOwner(repository_id=made.repository_id, organisation_id=1))
        number = a_schedule(session, made).id
        a_run(session, made, harvest_start_time=began)
        session.commit()
    await owner.post("/account/language", {"language": "cs"})
    await owner.post("/account/time-zone", {"time_zone": "Asia/Tokyo"})
    at = [minute(began + timedelta(minutes=more), "cs", ZoneInfo("Asia/Tokyo")) for more in (0, 15)]

    form = {"metadata_prefix": "oai_dc"}
    for path, sent, button in (
        (f"/schedules/{number}/run", {}, f'action="/schedules/{number}/run"'),
        ("/repositories/1/harvest", form, 'action="/repositories/1/harvest"'),
    ):
        status, page, _ = await owner.post(path, sent)
        assert (status, button in page) == (409, True), path
        assert f"začala {at[0]} a mezi" in page
        assert f"Další běh je možný od {at[1]}." in page
        assert "partner_minutes" not in page
        assert f'name="next" value="{path}"' not in page, "it only takes forms"
        assert 'name="next" value="/' in page


def test_indexing_stops_before_the_disk_is_full(environment: dict[str, str], tmp_path: Path) -> None:
    everything = {"ZATVA_HARVESTER__FLOOR_BYTES": "1" + 18 * "0", "ZATVA_HARVESTER__FLOOR_PERCENT": "100"}
    archive = tmp_path / "empty.warc"
    archive.write_bytes(b"")
    done = zatva({**environment, **everything}, "provider", "index", archive)
    assert (done.returncode, "free some space, or lower harvester.floor_bytes" in done.stderr) == (75, True)


def test_bytes_written_since_the_last_disk_check_count(tmp_path: Path) -> None:
    floor = DiskFloor(folders=[tmp_path / "new" / "folder"], bytes=10**18, percent=100, every=100)
    floor.wrote(60)
    with pytest.raises(DiskFullError, match="free some space"):
        floor.wrote(60)


def test_a_small_disk_is_checked_before_it_is_full(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    usage = type(shutil.disk_usage(tmp_path))
    frees = iter((15, 4))
    monkeypatch.setattr("oai.disk.shutil.disk_usage", lambda _place: usage(100, 0, next(frees)))
    floor = DiskFloor(folders=[tmp_path], bytes=10**18, percent=5)
    floor.check()
    floor.wrote(9)
    with pytest.raises(DiskFullError, match="free some space"):
        floor.wrote(2)

"""Disks are sampled once an hour, and the trend of two weeks says when one is full."""

import shutil
from datetime import timedelta
from pathlib import Path

import pytest
from sqlalchemy import text

from manager.disks import forecast_disks, sample_disks
from manager.worker.process import host_name
from oai.database import Database
from oai.disk import Disk, disks_of
from oai.settings import Settings

DISK = Disk(folder=Path("/data"), total=1000, free=400)


def sample(database: Database, hours: float, free: float) -> None:
    statement = text(
        "INSERT INTO disk_sample (host, folder, at, total, free)"
        " VALUES (:host, '/data', now() - make_interval(secs => :seconds), 1000, :free)"
    )
    with database.session() as session:
        session.execute(statement, {"host": host_name(), "seconds": hours * 3600, "free": int(free)})
        session.commit()


def test_a_disk_is_sampled_once_an_hour_and_old_samples_are_deleted(database: Database) -> None:
    sample(database, 24 * 100, 1)
    sample(database, 2, 500)
    with database.session() as session:
        assert [sample_disks(session, [DISK]) for _ in range(2)] == [1, 0]
        frees = session.scalars(text("SELECT free FROM disk_sample ORDER BY at")).all()
    assert frees == [500, 400]


@pytest.mark.parametrize(
    ("per_hour", "hours", "days"),
    [(1, 48, 400 / 24), (10, 48, 40 / 24), (0, 48, None), (-1, 48, None), (10, 12, None), (0.001, 48, None)],
    ids=["slowly", "quickly", "still", "emptying", "too short", "in ages"],
)
def test_the_trend_forecasts_when_the_disk_is_full(
    database: Database, per_hour: float, hours: int, days: float | None
) -> None:
    for hour in range(hours + 1):
        sample(database, hour, 400 + hour * per_hour)
    with database.session() as session:
        (found,) = forecast_disks(session)
        now = session.scalars(text("SELECT now()")).one()
    assert (found.free, found.total) == (400, 1000)
    if days is None:
        assert found.full is None
    else:
        assert found.full is not None
        assert abs(found.full - now - timedelta(days=days)) < timedelta(hours=1)


def test_a_disk_without_recent_samples_has_no_forecast(database: Database) -> None:
    sample(database, 72, 400)
    with database.session() as session:
        assert forecast_disks(session) == []


def test_the_disk_of_a_missing_folder_is_that_of_its_nearest_existing_parent(
    settings: Settings, tmp_path: Path
) -> None:
    missing = settings.model_copy(update={"data": tmp_path / "a" / "b"})
    (disk,) = disks_of(missing)
    assert 0 < disk.free < disk.total


def test_a_disk_is_listed_once_although_its_free_space_changes_between_reads(
    settings: Settings, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    usage = type(shutil.disk_usage(tmp_path))
    frees = iter((500, 400))
    monkeypatch.setattr("oai.disk.shutil.disk_usage", lambda _place: usage(1000, 500, next(frees)))
    with_store = settings.model_copy(update={"data": tmp_path})
    assert [disk.free for disk in disks_of(with_store)] == [500]

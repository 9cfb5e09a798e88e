"""When a disk will be full, from hourly samples of its free space that the leading manager takes."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Final

from sqlalchemy import delete, func, select
from sqlalchemy.orm import Session

from manager.models import DiskSample
from manager.worker.process import host_name
from oai.disk import Disk

EVERY: Final = timedelta(hours=1)
_KEPT: Final = timedelta(days=90)
_WINDOW: Final = timedelta(days=14)
"""The time whose trend continues, in the estimate."""
_LEAST: Final = timedelta(days=1)
"""A trend over less time is none: a single large harvest would look like a disk that is filling up."""
_FURTHEST: Final = timedelta(days=365)


@dataclass(frozen=True, kw_only=True)
class DiskForecast:
    """The last sample of a disk, and when it will be full."""

    host: str
    folder: str
    total: int
    free: int
    """Bytes at the time of the sample."""
    full: datetime | None
    """None if its free space does not decrease, for more than a year ahead, and before a day has passed."""


def sample_disks(session: Session, disks: Sequence[Disk]) -> int:
    """Store a sample of each disk of this host, unless the last one is recent; return how many.

    The caller commits.
    """
    host = host_name()
    # A new leader does not know of the samples of the last one. Some minutes less, because clocks differ.
    since = func.now() - 0.9 * EVERY
    recent = select(DiskSample.folder).where(DiskSample.host == host, DiskSample.at > since)
    known = set(session.scalars(recent))
    new = [disk for disk in disks if str(disk.folder) not in known]
    session.add_all(
        DiskSample(host=host, folder=str(disk.folder), total=disk.total, free=disk.free) for disk in new
    )
    if new:
        session.execute(delete(DiskSample).where(DiskSample.at < func.now() - _KEPT))
    session.flush()
    return len(new)


def forecast_disks(session: Session) -> list[DiskForecast]:
    """Return the disks that were sampled in the last two days, by host and folder."""
    seconds = func.extract("epoch", DiskSample.at)
    last = func.max(DiskSample.at)
    rows = session.execute(
        select(
            DiskSample.host,
            DiskSample.folder,
            func.regr_slope(DiskSample.free, seconds).label("slope"),
            (last - func.min(DiskSample.at)).label("span"),
            last.label("last"),
            func.now().label("now"),
        )
        .where(DiskSample.at > func.now() - _WINDOW)
        .group_by(DiskSample.host, DiskSample.folder)
        .having(last > func.now() - 2 * _LEAST)
        .order_by(DiskSample.host, DiskSample.folder)
    ).all()
    found = []
    for row in rows:
        sample = session.get_one(DiskSample, (row.host, row.folder, row.last))
        full = None
        if row.slope is not None and row.slope < 0 and row.span >= _LEAST:
            left = sample.free / -row.slope
            full = row.now + timedelta(seconds=left) if left < _FURTHEST.total_seconds() else None
        found.append(
            DiskForecast(host=row.host, folder=row.folder, total=sample.total, free=sample.free, full=full)
        )
    return found

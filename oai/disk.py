"""The free disk space that Zatva leaves: whatever writes much stops before the disk is full."""

import os
import shutil
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar

from oai.errors import ExitCode, ZatvaError
from oai.failures import Failure, FailureCode
from oai.settings import Settings


class DiskFullError(ZatvaError):
    """There is no room for what comes next, of which nothing has been written."""

    exit_code: ClassVar[ExitCode] = ExitCode.TRY_LATER
    failure: Failure

    def __init__(self, failure: Failure) -> None:
        super().__init__(failure.sentence())
        self.failure = failure


@dataclass(frozen=True, kw_only=True)
class Disk:
    """The disk of a folder: sizes in bytes, and inodes, of which each file needs one."""

    folder: Path
    total: int
    free: int
    inodes: int = 0
    """0 if the file system has no limit."""
    free_inodes: int = 0

    def lack(self, least: int, percent: float) -> Failure | None:
        """Return which of the two is below its floor: free bytes, or free inodes; None if neither is.

        The same share of the inodes must stay free as of the bytes (`floor_of`).
        """
        floor = floor_of(self.total, least, percent)
        if self.free < floor:
            return self._below(FailureCode.DISK_FLOOR, self.free, floor)
        least_inodes = floor * self.inodes // max(self.total, 1)
        if self.free_inodes < least_inodes:
            return self._below(FailureCode.DISK_INODES, self.free_inodes, least_inodes)
        return None

    def _below(self, code: FailureCode, free: int, floor: int) -> Failure:
        setting = "harvester.floor_bytes or harvester.floor_percent"
        facts = {"folder": str(self.folder), "free": free, "floor": floor, "setting": setting}
        return Failure(code=code, facts=facts)


def floor_of(total: int, least: int, percent: float) -> int:
    """Return the bytes of a disk that must stay free: `least`, or this share of it if that is smaller."""
    return min(least, int(total * percent / 100))


def disks_of(settings: Settings, *others: Path) -> list[Disk]:
    """Return the disks of the data folder, the store and the other folders, each one once."""
    found: list[Disk] = []
    devices = set()
    for folder in (settings.data, settings.store, *others):
        disk, device = _disk_of(folder), nearest_existing(folder).stat().st_dev
        # By the device, because the free space may change in between; by the space as well, because some file
        # systems have several devices on one disk.
        known = device in devices or (disk.total, disk.free) in {(other.total, other.free) for other in found}
        if not known:
            found.append(disk)
        devices.add(device)
    return found


def _disk_of(folder: Path) -> Disk:
    there = nearest_existing(folder)
    usage, inodes = shutil.disk_usage(there), os.statvfs(there)
    return Disk(
        folder=folder,
        total=usage.total,
        free=usage.free,
        inodes=inodes.f_files,
        free_inodes=inodes.f_favail,
    )


def nearest_existing(folder: Path) -> Path:
    """Return the folder, or the nearest of its parents that exists; raises OSError if it cannot be seen."""
    return next(step for step in (folder, *folder.absolute().parents) if step.exists())


@dataclass(kw_only=True)
class DiskFloor:
    """The free space that must stay on the disks of these folders."""

    folders: Sequence[Path]
    bytes: int
    percent: float
    every: int = 64 * 1024**2
    """Maximum bytes that `wrote` waits for between two looks at the disk."""
    _written: int = 0
    _spare: int = sys.maxsize
    """Bytes above the floor at the last look, so that a small disk is looked at before it is full."""

    def check(self) -> None:
        """Raise DiskFullError if one of the disks has less free space, or a smaller share of free inodes."""
        self._spare = sys.maxsize
        for folder in self.folders:
            disk = _disk_of(folder)
            if failure := disk.lack(self.bytes, self.percent):
                raise DiskFullError(failure)
            self._spare = min(self._spare, disk.free - floor_of(disk.total, self.bytes, self.percent))

    def wrote(self, count: int) -> None:
        """Count written bytes, and look at the disks from time to time. Raises DiskFullError like `check`."""
        self._written += count
        if self._written >= min(self.every, self._spare):
            self._written = 0
            self.check()


def open_floor(settings: Settings, *folders: Path) -> DiskFloor:
    """Return the floor of the data folder's disk and of those of the folders, after a first look at them.

    Raises DiskFullError if there is too little space already.
    """
    ours = settings.harvester
    floor = DiskFloor(folders=(settings.data, *folders), bytes=ours.floor_bytes, percent=ours.floor_percent)
    floor.check()
    return floor

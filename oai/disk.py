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


def disks_of(settings: Settings, *others: Path) -> list[Disk]:
    """Return the disks of the data folder, the store and the other folders, each one once."""
    found: list[Disk] = []
    devices = set()
    for folder in (settings.data, settings.store, *others):
        there = nearest_existing(folder)
        usage, device = shutil.disk_usage(there), there.stat().st_dev
        # By the device, because the free space may change in between; by the space as well, because some file
        # systems have several devices on one disk.
        known = device in devices or (usage.total, usage.free) in {(disk.total, disk.free) for disk in found}
        if not known:
            inodes = os.statvfs(there)
            found.append(
                Disk(
                    folder=folder,
                    total=usage.total,
                    free=usage.free,
                    inodes=inodes.f_files,
                    free_inodes=inodes.f_favail,
                )
            )
        devices.add(device)
    return found


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
            there = nearest_existing(folder)
            disk, inodes = shutil.disk_usage(there), os.statvfs(there)
            floor = min(self.bytes, int(disk.total * self.percent / 100))
            if disk.free < floor:
                raise _below(FailureCode.DISK_FLOOR, folder, disk.free, floor)
            self._spare = min(self._spare, disk.free - floor)
            least = floor * inodes.f_files // max(disk.total, 1)
            if inodes.f_favail < least:
                raise _below(FailureCode.DISK_INODES, folder, inodes.f_favail, least)

    def wrote(self, count: int) -> None:
        """Count written bytes, and look at the disks from time to time. Raises DiskFullError like `check`."""
        self._written += count
        if self._written >= min(self.every, self._spare):
            self._written = 0
            self.check()


def _below(code: FailureCode, folder: Path, free: int, floor: int) -> DiskFullError:
    setting = "harvester.floor_bytes or harvester.floor_percent"
    facts = {"folder": str(folder), "free": free, "floor": floor, "setting": setting}
    return DiskFullError(Failure(code=code, facts=facts))


def open_floor(settings: Settings, *folders: Path) -> DiskFloor:
    """Return the floor of the data folder's disk and of those of the folders, after a first look at them.

    Raises DiskFullError if there is too little space already.
    """
    ours = settings.harvester
    floor = DiskFloor(folders=(settings.data, *folders), bytes=ours.floor_bytes, percent=ours.floor_percent)
    floor.check()
    return floor

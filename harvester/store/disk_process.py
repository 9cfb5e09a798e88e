"""A process that works on files for another: `python -m harvester.store.disk_process FOLDER PARENT`.

Each call to the system gives up the interpreter's lock and has to wait for it again. Beside a thread that
parses pages, a thread that writes thousands of files would wait most of its time, so a process does it.
"""

import sys
from collections.abc import Sequence

from harvester.store.atomic_files import OPEN_AT_ONCE, Disk
from oai.child import Answer, Companion, CompanionEndedError, serve

_OURS = 50
"""Descriptors that the process needs besides those of files, at most."""
_FILES_AND_OURS = 2 * 3000 + _OURS
"""A group of pages has up to 3,000 records, and so one sync for them; the next one's are open beside."""


class DiskProcess:
    """The other process, as its parent sees it; start it in a thread that lives as long as it."""

    def __init__(self, base: str) -> None:
        self._companion = Companion(__name__, base)

    @property
    def number(self) -> int:
        """The process's id."""
        return self._companion.number

    def close(self) -> None:
        """End the process, which has answered all it was asked."""
        self._companion.close()

    def missing(self, paths: Sequence[str]) -> list[str]:
        """As `Disk.missing`."""
        return list(self._ask("missing", paths))

    def begin(self, files: Sequence[tuple[str, bytes]], leaving: Sequence[str] = ()) -> None:
        """As `Disk.begin`."""
        self._ask("begin", files, leaving)

    def settle(self) -> None:
        """As `Disk.settle`."""
        self._ask("settle")

    def _ask(self, *request: object) -> Sequence[str]:
        try:
            self._companion.send(*request)
            answer: OSError | Sequence[str] | None = self._companion.receive()
        except CompanionEndedError as error:
            raise OSError(
                f"the process that writes the record files {error}; files that it had not finished "
                "do not count as stored: run the harvest again to resume it"
            ) from None
        if isinstance(answer, OSError):
            raise answer
        return answer or ()


def main() -> None:
    """Work on files below the folder that the command line names."""
    base = sys.argv[1]
    disk = Disk(base, open_at_once=_room())

    def work(answer: Answer, name: str, *arguments: object) -> None:
        try:
            outcome = getattr(disk, name)(*arguments)
        except OSError as error:
            # A write, unlike an open, does not say in its error where it was.
            unplaced = error.errno is not None and error.filename is None
            outcome = OSError(error.errno, error.strerror, base) if unplaced else error
        answer(outcome)

    serve(work)
    disk.close()


def _room() -> int:
    """How many files this process, which has nothing else open, may have open at a time."""
    if sys.platform == "win32":
        return OPEN_AT_ONCE
    import resource  # noqa: PLC0415 Windows lacks it

    _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    most = _FILES_AND_OURS if hard == resource.RLIM_INFINITY else min(hard, _FILES_AND_OURS)
    resource.setrlimit(resource.RLIMIT_NOFILE, (most, hard))
    return max(most - _OURS, 1)


if __name__ == "__main__":
    main()

"""A process that handles files for its parent: `python -m harvester.store.disk_process FOLDER PARENT`.

Each system call releases the interpreter's lock and has to wait to get it again. Next to a thread that parses
pages, a thread that writes thousands of files would wait most of its time; a separate process does not.
"""

import signal
import sys
from collections.abc import Sequence

from harvester.store.atomic_files import OPEN_AT_ONCE, Disk
from oai.child import Answer, Companion, CompanionEndedError, ProcessKilledError, serve

_OURS = 50
"""Maximum number of descriptors that the process needs besides those of files."""
_FILES_AND_OURS = 2 * 3000 + _OURS
"""A group of pages has up to 3,000 records, synced at once, while the files of the next group are open."""


class DiskProcess(Companion):
    """The file process as its parent sees it; start it in a thread that outlives it."""

    def __init__(self, base: str) -> None:
        super().__init__(__name__, base)

    def missing(self, paths: Sequence[str]) -> list[str]:
        """Return the missing paths, as `Disk.missing` does."""
        return list(self._ask("missing", paths))

    def begin(self, files: Sequence[tuple[str, bytes]], leaving: Sequence[str] = ()) -> None:
        """Start writing and removing files, as `Disk.begin` does."""
        self._ask("begin", files, leaving)

    def settle(self) -> None:
        """Make the files durable, as `Disk.settle` does."""
        self._ask("settle")

    def _ask(self, *request: object) -> Sequence[str]:
        try:
            self.send(*request)
            answer: OSError | Sequence[str] | None = self.receive()
        except CompanionEndedError as error:
            if error.status == -signal.SIGKILL:
                raise ProcessKilledError("writes the record files", self.number) from None
            raise OSError(
                f"the process that writes the record files {error}; files that it had not finished "
                "do not count as stored: run the harvest again to resume it"
            ) from None
        if isinstance(answer, OSError):
            raise answer
        return answer or ()


def main() -> None:
    """Handle files below the folder given on the command line."""
    disk = Disk(sys.argv[1], open_at_once=most_open_files())

    def work(answer: Answer, name: str, *arguments: object) -> None:
        try:
            outcome = getattr(disk, name)(*arguments)
        except OSError as error:
            outcome = error
        answer(outcome)

    serve(work)
    disk.close()


def most_open_files() -> int:
    """Return how many files this process may have open at a time; it opens nothing else."""
    if sys.platform == "win32":
        return OPEN_AT_ONCE
    import resource  # noqa: PLC0415 Windows lacks it

    _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    most = _FILES_AND_OURS if hard == resource.RLIM_INFINITY else min(hard, _FILES_AND_OURS)
    resource.setrlimit(resource.RLIMIT_NOFILE, (most, hard))
    return max(most - _OURS, 1)


if __name__ == "__main__":
    main()

"""A process that converts endlessly, for tests that kill it; prints the ids of its processes."""

import itertools
import multiprocessing
import sys
import uuid
from collections.abc import Iterator, Sequence
from pathlib import Path

from harvester.bibliographic.batches import Chooser, Converting
from harvester.bibliographic.conditions import Conditions, Match
from harvester.bibliographic.conversion_processes import convert_all
from harvester.bibliographic.converters import Candidate

_CANDIDATE = Candidate(
    key=uuid.UUID(int=0),
    identifier="oai:x:1",
    filename=None,
    datestamp="",
    digest=None,
    bibliographic_id=None,
    content_digest=None,
    omitted=None,
)


def endless() -> Iterator[Sequence[Candidate]]:
    """Yield pages of candidates without files."""
    return itertools.repeat([_CANDIDATE])


def converting(folder: Path) -> Converting:
    """Return a converter that looks for files in the folder and selects all records."""
    return Converting(folder=folder, chooser=Chooser(rules=Conditions(match=Match.ALL, conditions=())))


def main() -> None:
    """Convert until killed."""
    for number, _batch in enumerate(convert_all(endless(), converting(Path.cwd()), processes=2)):
        if number == 0:
            sys.stdout.write(" ".join(str(one.pid) for one in multiprocessing.active_children()) + "\n")
            sys.stdout.flush()


if __name__ == "__main__":
    main()

"""Output files that exist under their names only once they are complete."""

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import BinaryIO, Final

UNFINISHED: Final = "~part"
"""Suffix of a file that is still being written."""


@contextmanager
def complete_file(name: Path) -> Iterator[BinaryIO]:
    """Provide a file that gets its name once the block is complete; after an error, nothing is left of it.

    An existing file of that name is replaced. Raises OSError.
    """
    unfinished = name.with_name(name.name + UNFINISHED)
    try:
        with unfinished.open("wb") as file:
            yield file
            file.flush()
            os.fsync(file.fileno())
        # Synced before it gets its name, which then never refers to an incomplete file.
        unfinished.replace(name)
    finally:
        unfinished.unlink(missing_ok=True)

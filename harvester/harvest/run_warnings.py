"""A run's warnings: bounded, and saved with its checkpoint so that they outlive the process."""

import logging
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any

from oai.failures import Failure

_MOST = 1000
_LONGEST = 2000
_log = logging.getLogger("harvester.running.notes")


@dataclass(frozen=True, kw_only=True)
class Note:
    """A warning in technical words, and its code with facts where it has one."""

    text: str
    failure: Failure | None = None


@dataclass(kw_only=True)
class Warnings:
    """The first thousand warnings of a run; further ones are only counted."""

    kept: list[Note] = field(default_factory=list)
    _unsaved: list[Note] = field(default_factory=list)
    _left_out: int = 0
    _odd: set[str] = field(default_factory=set)

    def warn_once(self, oddity: str, *, where: str) -> None:
        """Add a warning of something that many answers have; the first one is named."""
        if oddity not in self._odd and len(self._odd) < _MOST:
            self._odd.add(oddity)
            self.warn(f"{where}: {oddity}")

    def warn(self, warning: str, failure: Failure | None = None) -> None:
        """Add a warning, and log it."""
        _log.warning("%s", warning)
        self.keep(Note(text=warning, failure=failure))

    def keep(self, note: Note) -> None:
        """Add a warning."""
        if len(self.kept) >= _MOST:
            self._left_out += 1
            return
        # PostgreSQL keeps neither NUL nor half of a surrogate pair.
        text = note.text[:_LONGEST].replace("\0", "\N{SYMBOL FOR NULL}").encode(errors="replace").decode()
        stored = Note(text=text, failure=note.failure)
        self.kept.append(stored)
        self._unsaved.append(stored)

    def take_unsaved(self) -> Sequence[Note]:
        """Those that came since this was last asked."""
        unsaved, self._unsaved = self._unsaved, []
        return unsaved

    def all(self) -> tuple[Note, ...]:
        """All that the history keeps."""
        more = (Note(text=f"and {self._left_out:,} more warnings"),) if self._left_out else ()
        return (*self.kept, *more)


def columns_of(notes: Iterable[Note]) -> dict[str, list[Any]]:
    """The columns of rows that keep warnings: their texts, and as many failures."""
    kept = list(notes)
    return {
        "warnings": [note.text for note in kept],
        "warning_failures": [note.failure.as_json() if note.failure else None for note in kept],
    }


def notes_of(warnings: Sequence[str], failures: Sequence[object]) -> list[Note]:
    """The warnings of such a row; a run that an earlier version began has no failures of its first ones."""
    padded = [*([None] * (len(warnings) - len(failures))), *failures]
    return [
        Note(text=text, failure=Failure.from_json(failure))
        for text, failure in zip(warnings, padded, strict=False)
    ]

"""A run's warnings: limited in number, and saved with its checkpoint so that they survive the process."""

import logging
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any

from oai.failures import Failure, failure_in

_MOST = 1000
_LONGEST = 2000
_log = logging.getLogger("harvester.running.notes")


@dataclass(frozen=True, kw_only=True)
class Note:
    """A warning as technical text, with a code and facts if it has one."""

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
        """Add a warning about an oddity that many answers share, with the place of the first one."""
        if oddity not in self._odd and len(self._odd) < _MOST:
            self._odd.add(oddity)
            self.warn(f"{where}: {oddity}", failure_in(oddity))

    def warn(self, warning: str, failure: Failure | None = None) -> None:
        """Add a warning, and log it; a `CodedText` has its failure itself."""
        _log.warning("%s", warning)
        self.keep(Note(text=warning, failure=failure or failure_in(warning)))

    def keep(self, note: Note) -> None:
        """Add a warning without logging it."""
        if len(self.kept) >= _MOST:
            self._left_out += 1
            return
        # PostgreSQL can store neither NUL nor half of a surrogate pair.
        text = note.text[:_LONGEST].replace("\0", "\N{SYMBOL FOR NULL}").encode(errors="replace").decode()
        stored = Note(text=text, failure=note.failure)
        self.kept.append(stored)
        self._unsaved.append(stored)

    def take_unsaved(self) -> Sequence[Note]:
        """Return the warnings added since the last call."""
        unsaved, self._unsaved = self._unsaved, []
        return unsaved

    def all(self) -> tuple[Note, ...]:
        """Return all warnings that the history keeps."""
        more = (Note(text=f"and {self._left_out:,} more warnings"),) if self._left_out else ()
        return (*self.kept, *more)


def columns_of(notes: Iterable[Note]) -> dict[str, list[Any]]:
    """Return the warning columns of a row: the texts, and as many failures."""
    kept = list(notes)
    return {
        "warnings": [note.text for note in kept],
        "warning_failures": [note.failure.as_json() if note.failure else None for note in kept],
    }


def notes_of(warnings: Sequence[str], failures: Sequence[object]) -> list[Note]:
    """Return the warnings of such a row; if an earlier version began the run, the first have no failures."""
    padded = [*([None] * (len(warnings) - len(failures))), *failures]
    return [
        Note(text=text, failure=Failure.from_json(failure))
        for text, failure in zip(warnings, padded, strict=False)
    ]

"""A run's warnings: bounded, and saved with its checkpoint so that they outlive the process."""

import logging
from collections.abc import Sequence
from dataclasses import dataclass, field

_MOST = 1000
_LONGEST = 2000
_log = logging.getLogger(__name__)


@dataclass(kw_only=True)
class Notes:
    """The first thousand warnings of a run; further ones are only counted."""

    kept: list[str] = field(default_factory=list)
    _unsaved: list[str] = field(default_factory=list)
    _left_out: int = 0
    _odd: set[str] = field(default_factory=set)

    def warn_once(self, oddity: str, *, where: str) -> None:
        """Add a warning of something that many answers have; the first one is named."""
        if oddity not in self._odd and len(self._odd) < _MOST:
            self._odd.add(oddity)
            self.warn(f"{where}: {oddity}")

    def warn(self, warning: str) -> None:
        """Add a warning, and log it."""
        _log.warning("%s", warning)
        self.keep(warning)

    def keep(self, warning: str) -> None:
        """Add a warning."""
        if len(self.kept) >= _MOST:
            self._left_out += 1
            return
        # PostgreSQL keeps neither NUL nor half of a surrogate pair.
        text = warning[:_LONGEST].replace("\0", "\N{SYMBOL FOR NULL}").encode(errors="replace").decode()
        self.kept.append(text)
        self._unsaved.append(text)

    def take_unsaved(self) -> Sequence[str]:
        """Those that came since this was last asked."""
        unsaved, self._unsaved = self._unsaved, []
        return unsaved

    def all(self) -> tuple[str, ...]:
        """What the history is told."""
        more = (f"and {self._left_out:,} more warnings",) if self._left_out else ()
        return (*self.kept, *more)

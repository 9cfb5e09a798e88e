"""Times at which the database does not answer: logged with their end, without a line for each attempt."""

import logging
import threading
import time
from collections.abc import Callable
from datetime import timedelta
from typing import Final

from oai.logs import RareWarning

_log = logging.getLogger(__name__)

_SETTLED_SECONDS: Final = 10.0
"""The database is back if nothing has failed for as long: some statements work during a failover, too."""


class Outage:
    """Whether the database answers to a process; may be used by several threads."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._lock = threading.Lock()
        self._warnings: dict[str, RareWarning] = {}
        self._began: float | None = None
        self._failed = 0.0
        self._answered: float | None = None

    def failed(self, reason: str) -> None:
        """Log that the database does not answer, once a minute for each reason, with a count."""
        with self._lock:
            self._failed = self._clock()
            self._answered = None
            if self._began is None:
                self._began = self._failed
            warning = self._warnings.setdefault(reason, RareWarning(_log, self._clock))
            warning.warn(
                f"the database does not answer: {reason}; Zatva tries again; "
                "if it lasts, run `zatva doctor` and see the server's log"
            )

    def answered(self) -> None:
        """Note that a transaction succeeded; log how long the database was away if it was."""
        with self._lock:
            if self._began is None:
                return
            now = self._clock()
            if self._answered is None:
                self._answered = now
            if now < self._failed + _SETTLED_SECONDS:
                return
            away = timedelta(seconds=round(self._answered - self._began))
            self._began = None
            self._warnings.clear()
        _log.warning("the database answers again; it was away for %s", away)

"""The transaction of pages that were taken in and are not committed yet."""

import time
from collections import Counter
from dataclasses import dataclass, field

from sqlalchemy import text
from sqlalchemy.orm import Session

from oai.database import Database

_OLD_SECONDS = 1.0


@dataclass(kw_only=True)
class Uncommitted:
    """One session for several groups of pages, with the run's counts as they were before the first."""

    open: Session | None = None
    """None while there is nothing to commit."""
    _counts: Counter[str] = field(default_factory=Counter)
    _begun: float = 0.0

    @property
    def old(self) -> bool:
        """Whether the first of it has waited long enough: others want to see it, and a kill would lose it."""
        return self.open is not None and time.monotonic() - self._begun > _OLD_SECONDS

    def session(self, database: Database, counts: Counter[str]) -> Session:
        """The session for what is taken in next; `counts` are the run's before it."""
        if self.open is None:
            self.open = database.session()
            self._counts, self._begun = counts, time.monotonic()
            # The order of commits is kept in any case; what a power cut loses is fetched again.
            self.open.execute(text("SET LOCAL synchronous_commit = off"))
        return self.open

    def commit(self) -> None:
        """Commit it."""
        if self.open is not None:
            self.open.commit()
            self._close()

    def abandon(self) -> Counter[str]:
        """Let go of it; gives the counts that are in force again."""
        self._close()
        return self._counts

    def _close(self) -> None:
        session, self.open = self.open, None
        if session is not None:
            session.close()

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
    """One session for several groups of pages, with the run's counts as they were before the first.

    What fails once fails for good: behind later pages, nobody would ask for those that are lost.
    """

    _session: Session | None = None
    _failure: BaseException | None = None
    _counts: Counter[str] = field(default_factory=Counter)
    _begun: float = 0.0

    @property
    def open(self) -> Session | None:
        """The session, or None while there is nothing to commit; raises again what failed before."""
        if self._failure is not None:
            raise self._failure
        return self._session

    @property
    def old(self) -> bool:
        """Whether the first of it has waited long enough: others want to see it, and a kill would lose it."""
        return self.open is not None and time.monotonic() - self._begun > _OLD_SECONDS

    def session(self, database: Database, counts: Counter[str]) -> Session:
        """The session for what is taken in next; `counts` are the run's before it."""
        session = self.open
        if session is None:
            session = self._session = database.session()
            self._counts, self._begun = counts, time.monotonic()
            # The order of commits is kept in any case; what a power cut loses is fetched again.
            session.execute(text("SET LOCAL synchronous_commit = off"))
        return session

    def commit(self) -> None:
        """Commit it."""
        session = self.open
        if session is not None:
            session.commit()
            session.close()
            self._session = None

    def abandon(self, failure: BaseException, counts: Counter[str]) -> Counter[str]:
        """Let go of it, for this failed; gives the counts that hold then, `counts` being the run's now."""
        self._failure = self._failure or failure
        if self._session is None:
            return counts
        self._session.close()
        self._session = None
        return self._counts

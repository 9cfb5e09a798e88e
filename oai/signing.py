"""Signing keys, created once and shared by every instance through the database.

A key can be replaced while servers run: the new one signs, and the former one is still accepted for a while.
"""

import secrets
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Final

from sqlalchemy import delete, func, select
from sqlalchemy.dialects.postgresql import insert
from sqlalchemy.orm import Session

from oai.database import Database
from oai.models import FormerSigningKey, SigningKey

REREAD_SECONDS: Final = 60.0
"""After this time every server has noticed that a key was replaced."""
UNKNOWN_SECONDS: Final = 1.0
"""Keys as old as this are read again for a signature of none of them: another server may have a newer key."""
_KEY_BYTES: Final = 32


@dataclass(frozen=True, kw_only=True)
class KeyState:
    """A key without its secret; `until` is when a former key ends, None for the one that signs."""

    purpose: str
    created: datetime
    until: datetime | None


def signing_keys(session: Session, purpose: str) -> Sequence[bytes]:
    """Return the 256-bit key that signs for `purpose`, then the former ones that are still accepted.

    The first caller of all instances creates the key. Commits in that case.
    """
    current = select(SigningKey.key).where(SigningKey.purpose == purpose)
    key = session.scalars(current).one_or_none()
    if key is None:
        fresh = insert(SigningKey).values(purpose=purpose, key=secrets.token_bytes(_KEY_BYTES))
        # If another instance inserted its key first, this insert does nothing and both read that key.
        session.execute(fresh.on_conflict_do_nothing())
        session.commit()
        key = session.scalars(current).one()
    former = select(FormerSigningKey.key).where(
        FormerSigningKey.purpose == purpose, FormerSigningKey.until > func.now()
    )
    return [key, *session.scalars(former.order_by(FormerSigningKey.until.desc()))]


def replace_keys(session: Session, *, overlap: timedelta) -> None:
    """Replace every key; those before are accepted for `overlap` at most. The caller commits."""
    # Locked, so that of two replacements at once the second one replaces the keys of the first.
    present = session.scalars(select(SigningKey).order_by(SigningKey.purpose).with_for_update()).all()
    now = session.scalars(select(func.now())).one()
    end = now + overlap
    session.execute(delete(FormerSigningKey).where(FormerSigningKey.until <= now))
    for former in session.scalars(select(FormerSigningKey)):
        former.until = min(former.until, end)
    for key in present:
        session.add(FormerSigningKey(purpose=key.purpose, key=key.key, created=key.created, until=end))
        key.key, key.created = secrets.token_bytes(_KEY_BYTES), now


def key_states(session: Session) -> list[KeyState]:
    """Return the keys that are accepted, by purpose, the present one first."""
    present = session.execute(select(SigningKey.purpose, SigningKey.created)).all()
    former = session.execute(
        select(FormerSigningKey.purpose, FormerSigningKey.created, FormerSigningKey.until).where(
            FormerSigningKey.until > func.now()
        )
    ).all()
    states = [KeyState(purpose=row.purpose, created=row.created, until=None) for row in present]
    states += [KeyState(purpose=row.purpose, created=row.created, until=row.until) for row in former]
    return sorted(states, key=lambda state: (state.purpose, -state.created.timestamp()))


class KeyRing:
    """The keys of one purpose, read again once in a while. Thread-safe: a race only reads them twice."""

    def __init__(
        self, database: Database, purpose: str, *, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self._database = database
        self._purpose = purpose
        self._clock = clock
        self._read: tuple[float, Sequence[bytes]] | None = None

    def keys(self, *, seconds: float = REREAD_SECONDS) -> Sequence[bytes]:
        """Return what `signing_keys` returned at most so many seconds ago."""
        known = self._read
        if known is None or self._clock() - known[0] >= seconds:
            with self._database.reading() as session:
                known = self._read = (self._clock(), signing_keys(session, self._purpose))
        return known[1]

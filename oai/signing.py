"""Signing keys, created once and shared by every instance through the database."""

import secrets

from sqlalchemy import select
from sqlalchemy.dialects.postgresql import insert
from sqlalchemy.orm import Session

from oai.models import SigningKey

_KEY_BYTES = 32


def signing_key(session: Session, purpose: str) -> bytes:
    """Return the 256-bit key for `purpose`; the first caller of all instances creates it. Commits."""
    wanted = select(SigningKey.key).where(SigningKey.purpose == purpose)
    key = session.scalars(wanted).one_or_none()
    if key is None:
        fresh = insert(SigningKey).values(purpose=purpose, key=secrets.token_bytes(_KEY_BYTES))
        # If another instance inserted its key first, this insert does nothing and both read that key.
        session.execute(fresh.on_conflict_do_nothing())
        session.commit()
        key = session.scalars(wanted).one()
    return key

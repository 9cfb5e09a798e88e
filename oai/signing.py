"""Signing keys, made once and shared through the database by every instance."""

import secrets

from sqlalchemy import select
from sqlalchemy.dialects.postgresql import insert
from sqlalchemy.orm import Session

from oai.models import SigningKey

_KEY_BYTES = 32


def signing_key(session: Session, purpose: str) -> bytes:
    """The 256-bit key for `purpose`; the first caller of all instances makes it. Commits by itself."""
    wanted = select(SigningKey.key).where(SigningKey.purpose == purpose)
    key = session.scalars(wanted).one_or_none()
    if key is None:
        fresh = insert(SigningKey).values(purpose=purpose, key=secrets.token_bytes(_KEY_BYTES))
        session.execute(fresh.on_conflict_do_nothing())
        session.commit()
        key = session.scalars(wanted).one()
    return key

"""The dashboard's tables: users, their sessions, and one-time sign-in links."""

from datetime import datetime
from enum import StrEnum

from sqlalchemy import CheckConstraint, ForeignKey, Identity, LargeBinary, Text, func
from sqlalchemy.orm import Mapped, mapped_column

from oai.models import Base


class Role(StrEnum):
    """What a user may do."""

    VIEWER = "viewer"
    ADMINISTRATOR = "administrator"


class User(Base):
    """A person who signs in."""

    __tablename__ = "web_user"
    __table_args__ = (CheckConstraint("role IN ('viewer', 'administrator')", name="role"),)

    user_id: Mapped[int] = mapped_column(Identity(), primary_key=True)
    name: Mapped[str] = mapped_column(Text, unique=True)
    role: Mapped[str] = mapped_column(Text, server_default=Role.VIEWER)
    created: Mapped[datetime] = mapped_column(server_default=func.now())


class UserSession(Base):
    """A signed-in browser."""

    __tablename__ = "web_session"

    token_hash: Mapped[bytes] = mapped_column(LargeBinary, primary_key=True)
    """SHA-256 of the cookie's value."""
    user_id: Mapped[int] = mapped_column(ForeignKey("web_user.user_id", ondelete="CASCADE"), index=True)
    csrf_token: Mapped[str] = mapped_column(Text)
    created: Mapped[datetime] = mapped_column(server_default=func.now())
    expires: Mapped[datetime]


class SignInLink(Base):
    """A link that signs its user in once."""

    __tablename__ = "web_sign_in_link"

    token_hash: Mapped[bytes] = mapped_column(LargeBinary, primary_key=True)
    """SHA-256 of the link's token."""
    user_id: Mapped[int] = mapped_column(ForeignKey("web_user.user_id", ondelete="CASCADE"), index=True)
    expires: Mapped[datetime]
    used: Mapped[datetime | None]

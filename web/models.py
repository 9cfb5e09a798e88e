"""Tables of the dashboard: users, sessions, links, API tokens, self-tests."""

from datetime import datetime
from enum import StrEnum
from typing import Any

from sqlalchemy import (
    ARRAY,
    BigInteger,
    CheckConstraint,
    ForeignKey,
    Identity,
    Index,
    LargeBinary,
    Text,
    func,
    text,
)
from sqlalchemy.dialects.postgresql import JSONB
from sqlalchemy.orm import Mapped, mapped_column

import oai.owners  # noqa: F401 the table that users refer to
from oai.models import Base
from oai.rights import Role

__all__ = [
    "ApiToken",
    "KnownBrowser",
    "LinkKind",
    "RecoveryCode",
    "ReportCard",
    "Role",
    "SelfTest",
    "SignInAttempt",
    "SignInLink",
    "User",
    "UserIdentity",
    "UserSession",
]


class LinkKind(StrEnum):
    """Purpose of a one-time link."""

    SIGN_IN = "sign-in"
    INVITATION = "invitation"
    """Lets a new user set a password."""


class User(Base):
    """A user of the dashboard."""

    __tablename__ = "web_user"
    __table_args__ = (
        CheckConstraint("role IN ('viewer', 'partner', 'curator', 'administrator')", name="role"),
        CheckConstraint("role <> 'partner' OR organisation_id IS NOT NULL", name="partner_organisation"),
    )

    user_id: Mapped[int] = mapped_column(Identity(), primary_key=True)
    name: Mapped[str] = mapped_column(Text, unique=True)
    role: Mapped[str] = mapped_column(Text, server_default=Role.VIEWER)
    created: Mapped[datetime] = mapped_column(server_default=func.now())
    organisation_id: Mapped[int | None] = mapped_column(
        ForeignKey("web_organisation.organisation_id", ondelete="RESTRICT"), index=True
    )
    password_hash: Mapped[str | None] = mapped_column(Text)
    """Argon2id hash; null if the user signs in only by link or through a proxy."""
    language: Mapped[str | None] = mapped_column(Text)
    """en, cs or sk; null: the browser's."""
    time_zone: Mapped[str | None] = mapped_column(Text)
    """IANA name; null: the installation's."""
    disabled: Mapped[datetime | None]
    """Time from which the user may not sign in."""
    last_sign_in: Mapped[datetime | None]
    totp_secret: Mapped[str | None] = mapped_column(Text)
    """Secret of the user's authenticator app, in Base32 (RFC 6238)."""
    totp_since: Mapped[datetime | None]
    """Time from which a sign-in needs a code; null: the secret is only proposed, or there is none."""
    totp_step: Mapped[int | None] = mapped_column(BigInteger)
    """Number of the 30-second step of the last accepted code: each code is accepted once."""


class UserIdentity(Base):
    """An account of an OpenID provider with which a user signs in."""

    __tablename__ = "web_identity"

    issuer: Mapped[str] = mapped_column(Text, primary_key=True)
    """Address of the provider, as in its discovery document."""
    subject: Mapped[str] = mapped_column(Text, primary_key=True)
    """The provider's identifier of the account; never given to another."""
    user_id: Mapped[int] = mapped_column(ForeignKey("web_user.user_id", ondelete="CASCADE"), index=True)
    created: Mapped[datetime] = mapped_column(server_default=func.now())
    last_used: Mapped[datetime | None]
    """Time of the last sign-in."""


class UserSession(Base):
    """A session of a signed-in browser."""

    __tablename__ = "web_session"

    token_hash: Mapped[bytes] = mapped_column(LargeBinary, primary_key=True)
    """SHA-256 of the cookie's value."""
    user_id: Mapped[int] = mapped_column(ForeignKey("web_user.user_id", ondelete="CASCADE"), index=True)
    csrf_token: Mapped[str] = mapped_column(Text)
    created: Mapped[datetime] = mapped_column(server_default=func.now())
    expires: Mapped[datetime]
    address: Mapped[str | None] = mapped_column(Text)
    """Client address at sign-in."""
    browser: Mapped[str | None] = mapped_column(Text)
    """User-Agent header at sign-in."""
    way: Mapped[str] = mapped_column(Text, server_default="link")
    """How the user signed in: link, password, proxy or openid."""
    idle_until: Mapped[datetime] = mapped_column(server_default=text("now() + interval '1 hour'"))
    """Time at which the session ends unless the user makes a request before."""
    confirmed: Mapped[datetime] = mapped_column(server_default=func.now())
    """Time at which the user last proved who they are, by signing in or again for a dangerous step."""
    awaits_code: Mapped[bool] = mapped_column(server_default=text("false"))
    """Whether the second factor is still missing; until then the session gives no access."""


class RecoveryCode(Base):
    """A code that replaces the authenticator app once."""

    __tablename__ = "web_recovery_code"

    code_hash: Mapped[bytes] = mapped_column(LargeBinary, primary_key=True)
    """SHA-256 of the code, which has 120 random bits."""
    user_id: Mapped[int] = mapped_column(ForeignKey("web_user.user_id", ondelete="CASCADE"), index=True)
    used: Mapped[datetime | None]


class KnownBrowser(Base):
    """A browser in which a user has signed in; strangers' attempts do not delay the user there."""

    __tablename__ = "web_known_browser"

    token_hash: Mapped[bytes] = mapped_column(LargeBinary, primary_key=True)
    """SHA-256 of the cookie's value."""
    user_id: Mapped[int] = mapped_column(ForeignKey("web_user.user_id", ondelete="CASCADE"), index=True)
    expires: Mapped[datetime]


class SignInLink(Base):
    """A one-time sign-in link."""

    __tablename__ = "web_sign_in_link"

    token_hash: Mapped[bytes] = mapped_column(LargeBinary, primary_key=True)
    """SHA-256 of the link's token."""
    user_id: Mapped[int] = mapped_column(ForeignKey("web_user.user_id", ondelete="CASCADE"), index=True)
    expires: Mapped[datetime]
    used: Mapped[datetime | None]
    kind: Mapped[str] = mapped_column(Text, server_default=LinkKind.SIGN_IN)


class SignInAttempt(Base):
    """An attempt to sign in; processes that share the database count attempts together."""

    __tablename__ = "web_sign_in_attempt"
    __table_args__ = (Index(None, "key", "at"),)

    attempt_id: Mapped[int] = mapped_column(BigInteger, Identity(), primary_key=True)
    key: Mapped[str] = mapped_column(Text)
    """Where it came from: `address …` or `browser …`; `code …` for a second factor."""
    user_name: Mapped[str] = mapped_column(Text, server_default="")
    """The user name, in lower case."""
    at: Mapped[datetime] = mapped_column(server_default=func.now(), index=True)


class ApiToken(Base):
    """A token with which programs act in a user's name."""

    __tablename__ = "web_api_token"

    token_id: Mapped[int] = mapped_column(Identity(), primary_key=True)
    user_id: Mapped[int] = mapped_column(ForeignKey("web_user.user_id", ondelete="CASCADE"), index=True)
    name: Mapped[str] = mapped_column(Text)
    token_hash: Mapped[bytes] = mapped_column(LargeBinary, unique=True)
    """SHA-256 of the token."""
    scopes: Mapped[list[str]] = mapped_column(ARRAY(Text))
    """read, harvest, archive, admin."""
    created: Mapped[datetime] = mapped_column(server_default=func.now())
    expires: Mapped[datetime] = mapped_column(server_default=text("now() + interval '365 days'"))
    last_used: Mapped[datetime | None]
    """Time of last use, to the minute."""
    revoked: Mapped[datetime | None]


class ReportCard(Base):
    """The link to a repository's report card, for its own administrators."""

    __tablename__ = "web_report_card"

    repository_id: Mapped[int] = mapped_column(
        ForeignKey("oai_repository.repository_id", ondelete="CASCADE"), primary_key=True, autoincrement=False
    )
    token_hash: Mapped[bytes] = mapped_column(LargeBinary, unique=True)
    """SHA-256 of the link's token."""
    created: Mapped[datetime] = mapped_column(server_default=func.now())
    expires: Mapped[datetime]
    checked: Mapped[datetime | None]
    """Time of the last check that was started by the link."""


class SelfTest(Base):
    """A check of our own provider against the specification, started on the dashboard."""

    __tablename__ = "web_self_test"

    self_test_id: Mapped[int] = mapped_column(Identity(), primary_key=True)
    base_url: Mapped[str] = mapped_column(Text)
    asked_by: Mapped[str | None] = mapped_column(Text)
    started: Mapped[datetime] = mapped_column(server_default=func.now())
    ended: Mapped[datetime | None]
    checks: Mapped[int] = mapped_column(server_default="0")
    """Number of checks made so far."""
    findings: Mapped[list[dict[str, Any]]] = mapped_column(JSONB, server_default=text("'[]'"))
    failure: Mapped[str | None] = mapped_column(Text)
    """Why the self-test was aborted."""

"""The tables of notices: who wants to be told what, what goes on, and what is to be sent."""

from datetime import datetime
from enum import StrEnum
from typing import Any

from sqlalchemy import (
    BigInteger,
    CheckConstraint,
    ForeignKey,
    Identity,
    Index,
    SmallInteger,
    Text,
    func,
    text,
)
from sqlalchemy.dialects.postgresql import JSONB
from sqlalchemy.orm import Mapped, mapped_column

from oai.models import Base


class Kind(StrEnum):
    """What a rule wants to be told."""

    ERROR = "error"
    """When a source begins to fail, once a day while it goes on, and when it works again."""
    CHANGE = "change"
    """The same, and each harvest that changed something."""
    ALWAYS = "always"
    """The same, and each other harvest."""
    DAILY = "daily"
    """One summary a day, and nothing else."""
    WEEKLY = "weekly"
    """One summary a week, and nothing else."""


class Channel(StrEnum):
    """How something is sent."""

    MAIL = "mail"
    WEBHOOK = "webhook"
    HOOK = "hook"
    """A hook of the settings, whatever it does."""


class Language(StrEnum):
    """The languages that notices are written in."""

    ENGLISH = "en"
    CZECH = "cs"
    SLOVAK = "sk"


class Occasion(StrEnum):
    """What a notice is about."""

    FAILING = "failing"
    """A source begins to fail, or fails worse than before."""
    STILL_FAILING = "still failing"
    WORKS_AGAIN = "works again"
    ENDED = "ended"
    """A harvest ended, and the rule wants to know of each."""
    SUSPENDED = "suspended"
    """A schedule failed so often that it makes no more jobs."""
    STUCK = "stuck"
    """A harvest that runs has made no progress for long."""
    SET_ASIDE = "set aside"
    """A schedule makes no sense as it is written."""
    SUMMARY = "summary"
    TEST = "test"


class NoticeState(StrEnum):
    """Where a notice stands; each change is a compare-and-swap."""

    WAITING = "waiting"
    CLAIMED = "claimed"
    """A manager has it and prepares to send it."""
    HANDED = "handed over"
    """It is on its way; only a word from the other side says whether it came."""
    SENT = "sent"
    GIVEN_UP = "given up"
    UNSURE = "unsure"
    """A mail that was on its way when its sender went: it may have come, so it is not sent again."""


def _one_of(column: str, words: type[StrEnum]) -> CheckConstraint:
    listed = ", ".join(f"'{word}'" for word in words)
    return CheckConstraint(f"{column} IN ({listed})", name=column)


class NoticeRule(Base):
    """Who is told what, about which repository or schedule, how, in which language."""

    __tablename__ = "notice_rule"
    __table_args__ = (
        _one_of("kind", Kind),
        _one_of("language", Language),
        CheckConstraint("channel IN ('mail', 'webhook')", name="channel"),
    )

    rule_id: Mapped[int] = mapped_column(Identity(), primary_key=True)
    repository_id: Mapped[int | None] = mapped_column(
        ForeignKey("oai_repository.repository_id", ondelete="CASCADE"), index=True
    )
    """None: all repositories."""
    recurring_id: Mapped[int | None] = mapped_column(
        ForeignKey("oai_recurring_job.id", ondelete="CASCADE"), index=True
    )
    """None: all its schedules, and harvests without one."""
    kind: Mapped[str] = mapped_column(Text, server_default=Kind.ERROR)
    channel: Mapped[str] = mapped_column(Text)
    target: Mapped[str] = mapped_column(Text)
    """Mail addresses, with commas between them, or a web address."""
    language: Mapped[str] = mapped_column(Text, server_default=Language.ENGLISH)
    added: Mapped[datetime] = mapped_column(server_default=func.now())
    """Harvests that ended before are not told of."""
    summarised: Mapped[datetime] = mapped_column(server_default=func.now())
    """How far the last summary reached."""


class NoticeStreak(Base):
    """A source that fails, and that a rule has told of; the row goes when the source works again."""

    __tablename__ = "notice_streak"

    rule_id: Mapped[int] = mapped_column(
        ForeignKey("notice_rule.rule_id", ondelete="CASCADE"), primary_key=True
    )
    repository_id: Mapped[int] = mapped_column(
        ForeignKey("oai_repository.repository_id", ondelete="CASCADE"), primary_key=True
    )
    metadata_prefix: Mapped[str] = mapped_column(Text, primary_key=True)
    set_spec: Mapped[str] = mapped_column(Text, primary_key=True)
    gravity: Mapped[int] = mapped_column(SmallInteger)
    """1: records are refused, the others come; 2: the harvest fails."""
    began: Mapped[datetime]
    failures: Mapped[int] = mapped_column(server_default="1")
    told: Mapped[datetime]


class Notice(Base):
    """The outbox: what is to be sent, and what has been sent, one row for each recipient and occasion."""

    __tablename__ = "notice"
    __table_args__ = (
        _one_of("state", NoticeState),
        _one_of("channel", Channel),
        Index("ix_notice_open", "channel", "due", postgresql_where=text("ended IS NULL")),
    )

    notice_id: Mapped[int] = mapped_column(BigInteger, Identity(), primary_key=True)
    rule_id: Mapped[int | None] = mapped_column(
        ForeignKey("notice_rule.rule_id", ondelete="CASCADE"), index=True
    )
    """None for a hook."""
    repository_id: Mapped[int | None] = mapped_column(
        ForeignKey("oai_repository.repository_id", ondelete="SET NULL"), index=True
    )
    history_id: Mapped[int | None] = mapped_column(BigInteger)
    """The run that it is about; its row may be gone by now."""
    occasion: Mapped[str] = mapped_column(Text)
    channel: Mapped[str] = mapped_column(Text)
    target: Mapped[str] = mapped_column(Text)
    """Addresses as the rule had them, or the hook's name."""
    language: Mapped[str] = mapped_column(Text, server_default=Language.ENGLISH)
    facts: Mapped[dict[str, Any]] = mapped_column(JSONB)
    """All that its words are made of."""
    state: Mapped[str] = mapped_column(Text, server_default=NoticeState.WAITING)
    created: Mapped[datetime] = mapped_column(server_default=func.now())
    due: Mapped[datetime] = mapped_column(server_default=func.now())
    """When it is tried next."""
    tries: Mapped[int] = mapped_column(SmallInteger, server_default="0")
    expires: Mapped[datetime | None]
    """When whoever has it counts as gone."""
    ended: Mapped[datetime | None]
    """When it was sent or given up."""
    last_error: Mapped[str | None] = mapped_column(Text)

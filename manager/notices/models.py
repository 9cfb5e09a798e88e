"""The tables of notices: rules for who is notified, sources that are failing, and the outbox."""

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
    UniqueConstraint,
    func,
    text,
)
from sqlalchemy.dialects.postgresql import JSONB
from sqlalchemy.orm import Mapped, mapped_column, relationship

from oai.models import Base


class Kind(StrEnum):
    """What a rule reports."""

    ERROR = "error"
    """When a source begins to fail, once a day while it keeps failing, and when it works again."""
    CHANGE = "change"
    """The same as `error`, and each harvest that changed something."""
    ALWAYS = "always"
    """The same as `change`, and all other harvests."""
    DAILY = "daily"
    """One summary a day and no other notices."""
    WEEKLY = "weekly"
    """One summary a week and no other notices."""


class Channel(StrEnum):
    """How a notice is delivered."""

    MAIL = "mail"
    WEBHOOK = "webhook"
    HOOK = "hook"
    """A hook from the settings, whatever its effect."""
    SERVICE = "service"
    """A chat or push service from the settings."""


class Language(StrEnum):
    """The languages in which notices are written."""

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
    """A harvest ended, and the rule reports every harvest."""
    SUSPENDED = "suspended"
    """A schedule failed so often that it makes no more jobs."""
    STUCK = "stuck"
    """A running harvest has made no progress for a long time."""
    SET_ASIDE = "set aside"
    """A schedule or a job is invalid as written."""
    STORE_AUDIT = "store audit"
    """An audit of a store found damage, or did not finish."""
    REPORT = "report"
    """Many notices to one recipient at once, in one message."""
    SUMMARY = "summary"
    TEST = "test"
    CONFIRM = "confirm"
    """A mail with a link by which the recipient agrees to receive notices."""
    DIGEST_CONFIRM = "digest link"
    """The same for the weekly digest of a repository to its own administrator."""
    DIGEST = "digest"


class NoticeState(StrEnum):
    """State of a notice; each change is a compare-and-swap."""

    WAITING = "waiting"
    CLAIMED = "claimed"
    """A manager has claimed it and prepares to send it."""
    HANDED = "handed over"
    """It is being transmitted; only the recipient's confirmation shows whether it arrived."""
    SENT = "sent"
    GIVEN_UP = "given up"
    UNSURE = "unsure"
    """A mail that was being transmitted when its sender died: it may have arrived, and is not repeated."""
    MUTED = "muted"
    """Not sent, because its repository was muted; `last_error` has the note."""
    COLLECTED = "collected"
    """One of many: it is in the report `report_id`, or waits for the report to be written."""


class UnsentReason(StrEnum):
    """Why a message waits or was not sent, as in `last_error`, if it is not what another program said.

    In stored texts, a number is in the place of `%(number)s`.
    """

    UNCONFIRMED = "the recipient has not confirmed the address yet"
    NO_LINK = "no link can be written to confirm the address; set web.base_url"
    BEHIND = "waits for message %(number)s"
    POSTPONED = "postponed: %(number)s mails per hour for an organisation (mail.per_hour)"
    NO_MAIL_SERVER = "no mail server is set; set mail.host"
    SENT_AGAIN = "the sending process ended; the message is sent again"
    DOUBTFUL = (
        "the sending process ended while the message was on its way; it may have been delivered, so it "
        "is not sent again"
    )
    # Of webhooks and services, after the target.
    NO_ANSWER = "no answer in %(number)s seconds"
    NO_CONNECTION = "no connection; the sender's log has the reason"
    NO_WHOLE_ANSWER = "no complete answer; the sender's log has the reason"
    STATUS = "HTTP status %(number)s"
    GONE = "HTTP status %(number)s; the receiver does not accept further messages"


class MuteKind(StrEnum):
    """Why failures need no attention for a time."""

    ACKNOWLEDGED = "acknowledged"
    """Somebody knows of a failed run; until its harvest succeeds or fails in another way."""
    MUTED = "muted"
    MAINTENANCE = "maintenance"
    """The same as `muted`, and no harvest begins."""


def _one_of(column: str, words: type[StrEnum]) -> CheckConstraint:
    listed = ", ".join(f"'{word}'" for word in words)
    return CheckConstraint(f"{column} IN ({listed})", name=column)


class NoticeRule(Base):
    """A rule: who is notified of what, about which repository or schedule, how, and in which language."""

    __tablename__ = "notice_rule"
    __table_args__ = (
        _one_of("kind", Kind),
        _one_of("language", Language),
        CheckConstraint("channel IN ('mail', 'webhook', 'service')", name="channel"),
    )

    rule_id: Mapped[int] = mapped_column(Identity(), primary_key=True)
    repository_id: Mapped[int | None] = mapped_column(
        ForeignKey("oai_repository.repository_id", ondelete="CASCADE"), index=True
    )
    """NULL for all repositories."""
    recurring_id: Mapped[int | None] = mapped_column(
        ForeignKey("oai_recurring_job.id", ondelete="CASCADE"), index=True
    )
    """NULL for all its schedules, and harvests without a schedule."""
    kind: Mapped[str] = mapped_column(Text, server_default=Kind.ERROR)
    channel: Mapped[str] = mapped_column(Text)
    target: Mapped[str] = mapped_column(Text)
    """Mail addresses, separated by commas, a web address, or the name of a service."""
    language: Mapped[str] = mapped_column(Text, server_default=Language.ENGLISH)
    added: Mapped[datetime] = mapped_column(server_default=func.now())
    """Harvests that ended earlier are not reported."""
    summarised: Mapped[datetime] = mapped_column(server_default=func.now())
    """The end of the period that the last summary covered."""
    signing_key: Mapped[str | None] = mapped_column(Text)
    """The key with which posts are signed; NULL: the common one of the settings."""
    next_key: Mapped[str | None] = mapped_column(Text)
    """The key that replaces it; until then, posts are signed with both."""
    next_key_from: Mapped[datetime | None]
    """When `next_key` replaces `signing_key`."""


class NoticeAddress(Base):
    """A mail address in an organisation's rules; it receives notices when it is confirmed."""

    __tablename__ = "notice_address"
    __table_args__ = (UniqueConstraint("organisation_id", "address"),)

    address_id: Mapped[int] = mapped_column(Identity(), primary_key=True)
    organisation_id: Mapped[int] = mapped_column(
        ForeignKey("web_organisation.organisation_id", ondelete="CASCADE")
    )
    address: Mapped[str] = mapped_column(Text)
    """In small letters."""
    asked: Mapped[datetime] = mapped_column(server_default=func.now())
    """When the last link was made; earlier ones are not valid."""
    links: Mapped[int] = mapped_column(SmallInteger, server_default="0")
    """How many links were sent."""
    confirmed: Mapped[datetime | None]


class NoticeMailCount(Base):
    """How many mails were sent for an organisation in the present hour."""

    __tablename__ = "notice_mail_count"

    organisation_id: Mapped[int] = mapped_column(
        ForeignKey("web_organisation.organisation_id", ondelete="CASCADE"),
        primary_key=True,
        autoincrement=False,
    )
    hour: Mapped[datetime]
    mails: Mapped[int]


class NoticeStreak(Base):
    """A failing source that a rule has reported; the row is deleted when the source works again."""

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
    """1: records are rejected, the others are stored; 2: the harvest fails."""
    began: Mapped[datetime]
    failures: Mapped[int] = mapped_column(server_default="1")
    told: Mapped[datetime]


class Notice(Base):
    """The outbox: notices waiting and sent, one row for each recipient and occasion."""

    __tablename__ = "notice"
    __table_args__ = (
        _one_of("state", NoticeState),
        _one_of("channel", Channel),
        Index("ix_notice_open", "channel", "due", postgresql_where=text("ended IS NULL")),
        Index(None, "rule_id", "ended"),
        Index(None, "report_id", postgresql_where=text("report_id IS NOT NULL")),
    )

    notice_id: Mapped[int] = mapped_column(BigInteger, Identity(), primary_key=True)
    rule_id: Mapped[int | None] = mapped_column(ForeignKey("notice_rule.rule_id", ondelete="CASCADE"))
    """NULL for a hook."""
    repository_id: Mapped[int | None] = mapped_column(
        ForeignKey("oai_repository.repository_id", ondelete="SET NULL"), index=True
    )
    history_id: Mapped[int | None] = mapped_column(BigInteger)
    """The run that the notice is about; its row may have been deleted."""
    occasion: Mapped[str] = mapped_column(Text)
    channel: Mapped[str] = mapped_column(Text)
    target: Mapped[str] = mapped_column(Text)
    """The addresses as the rule had them, or the hook's name."""
    language: Mapped[str] = mapped_column(Text, server_default=Language.ENGLISH)
    facts: Mapped[dict[str, Any]] = mapped_column(JSONB)
    """The facts from which its text is rendered."""
    state: Mapped[str] = mapped_column(Text, server_default=NoticeState.WAITING)
    created: Mapped[datetime] = mapped_column(server_default=func.now())
    due: Mapped[datetime] = mapped_column(server_default=func.now())
    """The time of the next attempt."""
    tries: Mapped[int] = mapped_column(SmallInteger, server_default="0")
    expires: Mapped[datetime | None]
    """When the sender that has claimed it counts as dead."""
    ended: Mapped[datetime | None]
    """When it was sent or given up, or its report was written."""
    last_error: Mapped[str | None] = mapped_column(Text)
    report_id: Mapped[int | None] = mapped_column(
        BigInteger, ForeignKey("notice.notice_id", ondelete="SET NULL")
    )
    """The report that has it."""
    report: Mapped["Notice | None"] = relationship(remote_side=notice_id, lazy="raise", viewonly=True)

    @property
    def report_state(self) -> str | None:
        """What became of the report that has it."""
        return None if self.report is None else self.report.state


class Mute(Base):
    """An acknowledged failure, or a time in which the failures of a repository need no attention."""

    __tablename__ = "mute"
    __table_args__ = (
        _one_of("kind", MuteKind),
        CheckConstraint("(kind = 'acknowledged') = (history_id IS NOT NULL)", name="run"),
        CheckConstraint("kind = 'acknowledged' OR ends IS NOT NULL", name="ends"),
    )

    mute_id: Mapped[int] = mapped_column(Identity(), primary_key=True)
    kind: Mapped[str] = mapped_column(Text)
    repository_id: Mapped[int | None] = mapped_column(
        ForeignKey("oai_repository.repository_id", ondelete="CASCADE"), index=True
    )
    """NULL for all repositories."""
    history_id: Mapped[int | None] = mapped_column(BigInteger)
    """The acknowledged run; its row may have been deleted. The next three are its harvest and failure."""
    metadata_prefix: Mapped[str | None] = mapped_column(Text)
    set_spec: Mapped[str | None] = mapped_column(Text)
    failure_code: Mapped[str | None] = mapped_column(Text)
    note: Mapped[str] = mapped_column(Text, server_default="")
    made_by: Mapped[str] = mapped_column(Text, server_default="")
    """The user's name."""
    starts: Mapped[datetime] = mapped_column(server_default=func.now())
    ends: Mapped[datetime | None]


class NoticeDigest(Base):
    """The weekly digest of a repository for its own administrator."""

    __tablename__ = "notice_digest"
    __table_args__ = (_one_of("language", Language),)

    repository_id: Mapped[int] = mapped_column(
        ForeignKey("oai_repository.repository_id", ondelete="CASCADE"), primary_key=True, autoincrement=False
    )
    address: Mapped[str] = mapped_column(Text)
    language: Mapped[str] = mapped_column(Text)
    token: Mapped[str] = mapped_column(Text, unique=True)
    """Of the link by which the recipient confirms and stops it."""
    card: Mapped[str] = mapped_column(Text)
    """The token of the report card's link, which each digest repeats."""
    asked: Mapped[datetime] = mapped_column(server_default=func.now())
    confirmed: Mapped[datetime | None]
    written: Mapped[datetime | None]
    """The end of the time that the last digest covered; NULL before it is confirmed."""

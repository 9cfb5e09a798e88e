"""The tables of the rule lab: rule files that are looked after, and every version that each has had."""

from datetime import datetime
from enum import StrEnum

from sqlalchemy import CheckConstraint, ForeignKey, Identity, LargeBinary, Text, UniqueConstraint, func
from sqlalchemy.orm import Mapped, mapped_column

from harvester.models import Repository
from oai.models import Base


class Rule(Base):
    """A rule file. The file at `path` is what harvests read; its versions are kept beside it, here."""

    __tablename__ = "oai_rule"
    __table_args__ = (
        UniqueConstraint("path"),
        CheckConstraint("kind IN ('filter', 'normalise')", name="kind"),
    )

    rule_id: Mapped[int] = mapped_column(Identity(), primary_key=True)
    kind: Mapped[str] = mapped_column(Text)
    name: Mapped[str] = mapped_column(Text)
    description: Mapped[str] = mapped_column(Text, server_default="")
    repository_id: Mapped[int | None] = mapped_column(
        ForeignKey(Repository.repository_id, ondelete="SET NULL"), index=True
    )
    """Whose it is: of those who see this repository; none: of those who see them all."""
    path: Mapped[str] = mapped_column(Text)
    """Of the file, below the data folder, with `/`."""
    created: Mapped[datetime] = mapped_column(server_default=func.now())


class RuleVersion(Base):
    """One version of a rule file, byte for byte."""

    __tablename__ = "oai_rule_version"
    __table_args__ = (UniqueConstraint("rule_id", "number"),)

    version_id: Mapped[int] = mapped_column(Identity(), primary_key=True)
    rule_id: Mapped[int] = mapped_column(ForeignKey(Rule.rule_id, ondelete="CASCADE"))
    number: Mapped[int]
    """From 1, without gaps."""
    content: Mapped[bytes] = mapped_column(LargeBinary)
    digest: Mapped[str] = mapped_column(Text, index=True)
    """SHA-256 of the content, in hexadecimal digits; `oai_history` has that of the files that runs read."""
    saved: Mapped[datetime] = mapped_column(server_default=func.now())
    saved_by: Mapped[str | None] = mapped_column(Text)
    """Name of the user; none: found in the file."""
    note: Mapped[str] = mapped_column(Text, server_default="")


class RuleKind(StrEnum):
    """What a rule file does with a record."""

    FILTER = "filter"
    """Keeps it or leaves it out."""
    NORMALISE = "normalise"
    """Adds elements beside the original ones."""

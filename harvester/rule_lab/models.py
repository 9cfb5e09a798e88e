"""The tables of the rule lab: registered rule files, and every version of each."""

from datetime import datetime

from sqlalchemy import CheckConstraint, ForeignKey, Identity, LargeBinary, Text, UniqueConstraint, func
from sqlalchemy.orm import Mapped, mapped_column

from harvester.models import Repository
from oai.models import Base


class Rule(Base):
    """A rule file. Harvests read the file at `path`; its versions are stored in the database."""

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
    """The repository to which it belongs; users who see this repository see the rule.

    NULL: users who see all.
    """
    path: Mapped[str] = mapped_column(Text)
    """The path of the file below the data folder, with `/`."""
    created: Mapped[datetime] = mapped_column(server_default=func.now())


class RuleVersion(Base):
    """A version of a rule file, byte for byte."""

    __tablename__ = "oai_rule_version"
    __table_args__ = (UniqueConstraint("rule_id", "number"),)

    version_id: Mapped[int] = mapped_column(Identity(), primary_key=True)
    rule_id: Mapped[int] = mapped_column(ForeignKey(Rule.rule_id, ondelete="CASCADE"))
    number: Mapped[int]
    """Numbered from 1 without gaps."""
    content: Mapped[bytes] = mapped_column(LargeBinary)
    digest: Mapped[str] = mapped_column(Text, index=True)
    """SHA-256 of the content in hexadecimal; `oai_history` has the digests of the files that runs read."""
    saved: Mapped[datetime] = mapped_column(server_default=func.now())
    saved_by: Mapped[str | None] = mapped_column(Text)
    """Name of the user; NULL if the version was found in the file."""
    note: Mapped[str] = mapped_column(Text, server_default="")

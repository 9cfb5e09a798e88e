"""The tables of files that are prepared for download: WARC and WACZ files in `provider.export_folder`."""

from datetime import datetime
from enum import StrEnum
from typing import Any, Final

from sqlalchemy import ARRAY, BigInteger, CheckConstraint, ForeignKey, Identity, Index, Text, func, text
from sqlalchemy.dialects.postgresql import JSONB
from sqlalchemy.orm import Mapped, mapped_column

from oai.failures import Failure
from oai.models import Base


class ExportForm(StrEnum):
    """The format of an export."""

    WARC = "warc"
    WACZ = "wacz"


class ExportState(StrEnum):
    """Progress of preparing a file."""

    QUEUED = "queued"
    RUNNING = "running"
    READY = "ready"
    FAILED = "failed"
    REMOVED = "removed"
    """It expired, somebody removed it, or a document in it was withdrawn."""


_OPEN: Final = "state IN ('queued', 'running', 'ready')"
_SUFFIXES: Final = {ExportForm.WACZ: ".wacz", ExportForm.WARC: ".warc.gz"}


class PreparedExport(Base):
    """A file that somebody asked for, and what became of it; the row outlives the file."""

    __tablename__ = "prepared_export"
    __table_args__ = (
        CheckConstraint("state IN ('queued', 'running', 'ready', 'failed', 'removed')", name="state"),
        CheckConstraint("form IN ('warc', 'wacz')", name="form"),
        Index("ix_prepared_export_open", "export_id", postgresql_where=text(_OPEN)),
    )

    export_id: Mapped[int] = mapped_column(Identity(), primary_key=True)
    form: Mapped[str] = mapped_column(Text)
    selection: Mapped[dict[str, Any]] = mapped_column(JSONB)
    """As `ExportChoice.as_json`."""
    title: Mapped[str] = mapped_column(Text)
    """What the file is called, also in a WACZ file itself."""
    reading_room: Mapped[bool] = mapped_column(server_default=text("false"))
    """It has documents that may be read in the reading room only, so only the archive's staff gets it."""
    asked_by: Mapped[str | None] = mapped_column(Text)
    """The user, or the account on the machine for a command."""
    state: Mapped[str] = mapped_column(Text, server_default=ExportState.QUEUED)
    queued: Mapped[datetime] = mapped_column(server_default=func.now())
    host: Mapped[str | None] = mapped_column(Text)
    """The machine of the worker that prepares or prepared it."""
    started: Mapped[datetime | None]
    ended: Mapped[datetime | None]
    """When it was ready or failed."""
    chosen: Mapped[int | None] = mapped_column(BigInteger)
    """Captures to be read; NULL until they have been looked up."""
    examined: Mapped[int] = mapped_column(BigInteger, server_default="0")
    """Captures that have been read."""
    captures: Mapped[int] = mapped_column(BigInteger, server_default="0")
    """Those that are in the file."""
    left_out: Mapped[dict[str, int]] = mapped_column(JSONB, server_default=text("'{}'"))
    """Number of the others by reason (`provider.export.captures.Reason`)."""
    bytes: Mapped[int] = mapped_column(BigInteger, server_default="0")
    """Of the file, so far; 0 once it is removed."""
    expires: Mapped[datetime | None]
    removed: Mapped[datetime | None]
    removed_by: Mapped[str | None] = mapped_column(Text)
    """The user; NULL if it expired or was withdrawn."""
    failure_code: Mapped[str | None] = mapped_column(Text)
    failure_facts: Mapped[dict[str, Any] | None] = mapped_column(JSONB(none_as_null=True))

    @property
    def failure(self) -> Failure | None:
        """Why it failed, or why it was withdrawn."""
        return Failure.stored(self.failure_code, self.failure_facts)

    @property
    def file_name(self) -> str:
        """The name of the file in the folder."""
        return f"export-{self.export_id}{_SUFFIXES[ExportForm(self.form)]}"


class PreparedExportPart(Base):
    """Documents whose content or URL is in a file, for a look at their access rules before it is sent.

    A row has thousands of them, so that a million documents take some megabytes.
    """

    __tablename__ = "prepared_export_part"

    part_id: Mapped[int] = mapped_column(BigInteger, Identity(), primary_key=True)
    export_id: Mapped[int] = mapped_column(
        ForeignKey("prepared_export.export_id", ondelete="CASCADE"), index=True
    )
    content: Mapped[bool]
    """Whether the file has their content, or only their URLs among what was left out."""
    documents: Mapped[list[int]] = mapped_column(ARRAY(BigInteger))
    """Their ids."""

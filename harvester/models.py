"""The harvester's tables, with their UIUC names in snake_case (UIUC, "Tables and Columns").

They are a public interface: columns may be added, but not dropped, and rows inserted by plain SQL are valid.
"""

import uuid
from datetime import datetime
from typing import Any, Final

from sqlalchemy import (
    ARRAY,
    BigInteger,
    CheckConstraint,
    ColumnElement,
    Dialect,
    ForeignKey,
    Identity,
    Index,
    LargeBinary,
    SmallInteger,
    Text,
    TypeDecorator,
    UniqueConstraint,
    false,
    func,
    literal_column,
    text,
)
from sqlalchemy.dialects.postgresql import JSONB
from sqlalchemy.ext.hybrid import hybrid_property
from sqlalchemy.orm import Mapped, mapped_column

from harvester.vocabulary import AccessProtocol, Change, DeletionPolicy, RecordStatus
from oai.failures import Failure, FailureCode
from oai.models import Base
from oai.reach import CREDENTIALS, without_credentials

_LONGEST_NAME: Final = 2000
"""Characters of the longest base URL; names have 500, but earlier versions stored any that was declared."""
_PLAUSIBLE: Final = "BETWEEN '1970-01-01 00:00:00+00' AND '9000-01-01 00:00:00+00'"


class _Name(TypeDecorator[str]):
    """A name. If it is an address, credentials in it are neither stored nor, if SQL stored them, read."""

    impl = Text
    cache_ok = True

    def process_bind_param(self, value: str | None, dialect: Dialect) -> str | None:  # noqa: ARG002
        return value and without_credentials(value)

    def process_result_value(self, value: str | None, dialect: Dialect) -> str | None:  # noqa: ARG002
        return value and without_credentials(value)


class Repository(Base):
    """A harvested repository. Base URL and base directory are sufficient; Identify provides the rest."""

    __tablename__ = "oai_repository"
    __table_args__ = (
        UniqueConstraint("base_url", "base_dir"),
        CheckConstraint("deletion_policy IN ('remove', 'mark', 'move')", name="deletion_policy"),
        CheckConstraint("protocol IN ('oai-pmh', 'sru', 'z39.50')", name="protocol"),
    )

    repository_id: Mapped[int] = mapped_column(Identity(), primary_key=True)
    repository_name: Mapped[str | None] = mapped_column(_Name)
    name_given: Mapped[bool] = mapped_column(server_default=false())
    """Whether a person entered the name: Identify does not overwrite it then."""
    base_url: Mapped[str] = mapped_column(Text)
    base_dir: Mapped[str] = mapped_column(Text)
    """Root folder of the record files; a relative one is below the store (`ZATVA_DATA/store`)."""
    protocol_version: Mapped[str | None] = mapped_column(Text)
    admin_email: Mapped[str | None] = mapped_column(Text)
    registry_prefix: Mapped[str | None] = mapped_column(Text)
    date_added: Mapped[datetime] = mapped_column(server_default=func.now())
    granularity: Mapped[str | None] = mapped_column(Text)
    deleted_record: Mapped[str | None] = mapped_column(Text)
    earliest_datestamp: Mapped[str | None] = mapped_column(Text)
    identified: Mapped[datetime | None]
    """Time of the last answer to Identify."""
    plain_prefix: Mapped[str | None] = mapped_column(Text)
    """The format whose files have plain names, the first one harvested; files of others have `@prefix`."""
    deletion_policy: Mapped[str] = mapped_column(Text, server_default=DeletionPolicy.REMOVE)
    """remove, mark or move: what becomes of the files of deleted records."""
    brake_deletions: Mapped[float | None]
    """Percentage of the records that one run may delete; NULL: the setting `harvester.brake_deletions`."""
    brake_updates: Mapped[float | None]
    """Percentage of the records that one run may change; NULL: the setting `harvester.brake_updates`."""
    not_before: Mapped[datetime | None]
    """Time until which the repository asked not to be contacted (a Retry-After longer than we wait)."""
    examined: Mapped[datetime | None]
    """Time of the last diagnosis."""
    examination: Mapped[dict[str, Any] | None] = mapped_column(JSONB(none_as_null=True))
    """Report of the diagnosis, as printed by `zatva repository doctor --json`."""
    profile: Mapped[dict[str, Any] | None] = mapped_column(JSONB(none_as_null=True))
    """Recommended harvest parameters: method, slice, incremental, validation, delay and retries."""
    guarded: Mapped[bool] = mapped_column(server_default=false())
    """Whether members of an organisation may enter its address.

    Harvests then stay on the public internet, unless `web.private_addresses` allows more.
    """
    repairs: Mapped[list[str]] = mapped_column(ARRAY(Text), server_default=text("'{}'"))
    """What harvests repair in broken records (`reading.repairs.Repair`), as a person has chosen."""
    protocol: Mapped[str] = mapped_column(Text, server_default=AccessProtocol.OAI_PMH)
    """oai-pmh, sru or z39.50. For the latter two, a harvest's set is its query, in CQL or PQF."""

    @hybrid_property
    def display_name(self) -> str:
        """The name, or the base URL of a repository without a name; cut, and never with credentials."""
        return without_credentials(self.repository_name or self.base_url)[:_LONGEST_NAME]

    @display_name.inplace.expression
    @classmethod
    def _display_name(cls) -> ColumnElement[str]:
        name = func.coalesce(func.nullif(cls.repository_name, ""), cls.base_url)
        return func.left(_without_credentials(name), literal_column(f"{_LONGEST_NAME}"))

    @hybrid_property
    def display_url(self) -> str:
        """The base URL without user name and password."""
        return without_credentials(self.base_url)

    @display_url.inplace.expression
    @classmethod
    def _display_url(cls) -> ColumnElement[str]:
        return _without_credentials(cls.base_url)


def _without_credentials(url: Any) -> ColumnElement[str]:  # noqa: ANN401 an SQL expression
    # Literals instead of parameters, so that equal expressions are equal to PostgreSQL, too.
    return func.regexp_replace(url, literal_column(f"'{CREDENTIALS}'"), literal_column(r"'\1'"))


class RepositoryLock(Base):
    """Keeps harvests of its repository from beginning, until it is deleted or expires.

    An external indexer inserts and deletes it by SQL. There is one row for each holder: several may hold the
    same repository, and each deletes its own row.
    """

    __tablename__ = "oai_repository_lock"
    __table_args__ = (
        CheckConstraint("length(holder) BETWEEN 1 AND 200", name="holder"),
        CheckConstraint("length(reason) BETWEEN 1 AND 2000", name="reason"),
        # Within the range of Python's datetime: one later time would break every query.
        CheckConstraint(f"locked {_PLAUSIBLE}", name="locked"),
        CheckConstraint(f"expires {_PLAUSIBLE}", name="expires"),
    )

    repository_id: Mapped[int] = mapped_column(
        ForeignKey("oai_repository.repository_id", ondelete="CASCADE"), primary_key=True
    )
    holder: Mapped[str] = mapped_column(Text, primary_key=True, server_default=text("CURRENT_USER"))
    """The program that holds it; the database user if it gives no name."""
    reason: Mapped[str] = mapped_column(Text)
    """Why, for those who see that harvests wait."""
    locked: Mapped[datetime] = mapped_column(server_default=func.now())
    expires: Mapped[datetime] = mapped_column(server_default=text("now() + interval '6 hours'"))
    """From then on the row has no effect; the manager removes it."""


class OaiSet(Base):
    """A set that a repository lists."""

    __tablename__ = "oai_set"

    repository_id: Mapped[int] = mapped_column(
        ForeignKey("oai_repository.repository_id", ondelete="CASCADE"), primary_key=True
    )
    set_spec: Mapped[str] = mapped_column(Text, primary_key=True)
    set_name: Mapped[str | None] = mapped_column(Text)


class MetadataFormat(Base):
    """A metadata format that some repository offers."""

    __tablename__ = "oai_metadata_format"
    __table_args__ = (UniqueConstraint("metadata_prefix", "metadata_schema", "metadata_namespace"),)

    prefix_id: Mapped[int] = mapped_column(Identity(), primary_key=True)
    metadata_prefix: Mapped[str] = mapped_column(Text)
    metadata_schema: Mapped[str] = mapped_column(Text, server_default="")
    metadata_namespace: Mapped[str] = mapped_column(Text, server_default="")


class PrefixMapping(Base):
    """Which repository offers which format."""

    __tablename__ = "oai_prefix_mapping"

    repository_id: Mapped[int] = mapped_column(
        ForeignKey("oai_repository.repository_id", ondelete="CASCADE"), primary_key=True
    )
    prefix_id: Mapped[int] = mapped_column(
        ForeignKey("oai_metadata_format.prefix_id", ondelete="CASCADE"), primary_key=True
    )


class Record(Base):
    """A harvested record: its header, and the place of its file."""

    __tablename__ = "oai_record"
    __table_args__ = (
        UniqueConstraint("repository_id", "metadata_prefix", "identifier_key"),
        CheckConstraint("status IN ('active', 'deleted')", name="status"),
        CheckConstraint("update_flag IN ('new', 'updated', 'unchanged', 'deleted')", name="update_flag"),
        # A repeated harvest changes the flag of each row. With room on its page for the new version, no
        # index needs an update, and the space of the old version is reused.
        {"postgresql_with": {"fillfactor": 50}},
    )

    record_id: Mapped[int] = mapped_column(BigInteger, Identity(), primary_key=True)
    repository_id: Mapped[int]
    """The record's repository, with which it is removed.

    Triggers ensure this and check it once per statement; a foreign key, checked for each row, took a fifth of
    an insert's time.
    """
    identifier: Mapped[str] = mapped_column(Text)
    identifier_key: Mapped[uuid.UUID]
    """First 128 bits of the identifier's SHA-256: an identifier may be longer than an index entry can be."""
    filename: Mapped[str | None] = mapped_column(Text)
    """Path of the record's file below the base directory, with `/`; NULL if a deletion removed it."""
    harvest_time: Mapped[datetime] = mapped_column(server_default=func.now())
    """When the record was last fetched and found new or changed."""
    datestamp: Mapped[str] = mapped_column(Text)
    """Datestamp as the repository wrote it; the date of the answer if it wrote none."""
    metadata_prefix: Mapped[str] = mapped_column(Text)
    status: Mapped[str] = mapped_column(Text, server_default=RecordStatus.ACTIVE)
    """active or deleted."""
    update_flag: Mapped[str] = mapped_column(Text, server_default=Change.NEW)
    """new, updated, unchanged or deleted: what the last harvest that saw it did with it."""
    digest: Mapped[bytes | None] = mapped_column(LargeBinary)
    """SHA-256 of the file's bytes (fixity)."""
    size: Mapped[int | None] = mapped_column(BigInteger)
    """Bytes of the file; NULL for a deleted record, and for one stored before sizes were kept."""
    deletion_reason: Mapped[str | None] = mapped_column(Text)
    """For a deleted record: tombstone, or disappeared if the repository does not report deletions."""


Index(
    "uq_oai_record_filename",
    Record.repository_id,
    func.md5(func.lower(Record.filename)),
    unique=True,
    postgresql_where=text("filename IS NOT NULL"),
)


class SetMapping(Base):
    """The sets named by a record's header; removed with the record.

    A trigger of `oai_record` ensures this. A foreign key, checked for each row, took three quarters of an
    insert's time.
    """

    __tablename__ = "oai_set_mapping"

    record_id: Mapped[int] = mapped_column(BigInteger, primary_key=True)
    """The record; only a harvest writes here, in the transaction that writes the record."""
    set_spec: Mapped[str] = mapped_column(Text, primary_key=True)


class Harvest(Base):
    """The state of one selective harvest (repository, format, set): watermark, checkpoint, live progress."""

    __tablename__ = "oai_harvest"
    __table_args__ = (UniqueConstraint("repository_id", "metadata_prefix", "set_spec"),)

    harvest_id: Mapped[int] = mapped_column(Identity(), primary_key=True)
    repository_id: Mapped[int] = mapped_column(ForeignKey("oai_repository.repository_id", ondelete="CASCADE"))
    metadata_prefix: Mapped[str] = mapped_column(Text)
    set_spec: Mapped[str] = mapped_column(Text, server_default="")
    """Empty for the whole repository."""
    watermark: Mapped[str | None] = mapped_column(Text)
    """The server's responseDate when the last complete harvest began: the next `from`, less an overlap."""
    complete_from: Mapped[str | None] = mapped_column(Text)
    """The datestamp from which everything is stored up to the watermark; NULL if that is all records."""
    restarts: Mapped[bool] = mapped_column(server_default=text("false"))
    """Whether the next run requests again what complete harvests had received (since `complete_from`)."""
    watermark_lag: Mapped[float | None]
    """Seconds by which the server's clock was behind ours at the watermark; 0 if ahead, NULL if unknown."""
    resumption_token: Mapped[str | None] = mapped_column(Text)
    """Token of the page after the last committed one, while a run is in progress or interrupted."""
    run_parameters: Mapped[dict[str, Any] | None] = mapped_column(JSONB(none_as_null=True))
    """What the current run requests, so that only a run of the same kind resumes it."""
    run_response_date: Mapped[str | None] = mapped_column(Text)
    """The server's responseDate on the run's first page: the next watermark."""
    run_started: Mapped[datetime | None]
    counts: Mapped[dict[str, int]] = mapped_column(JSONB, server_default=text("'{}'"))
    """Counts of the current or last run.

    Their names: new, updated, unchanged, deleted, filtered, invalid, records, pages, requests, bytes.
    """
    complete_list_size: Mapped[int | None] = mapped_column(BigInteger)
    run_state: Mapped[dict[str, Any]] = mapped_column(JSONB, server_default=text("'{}'"))
    """State of the current or interrupted run: the windows still to request, and the evidence so far."""
    warnings: Mapped[list[str]] = mapped_column(JSONB, server_default=text("'[]'"))
    """Warnings of the current or interrupted run."""
    warning_failures: Mapped[list[dict[str, Any] | None]] = mapped_column(JSONB, server_default=text("'[]'"))
    """For each warning its code and facts, or null."""
    records_per_second: Mapped[float | None]
    estimated_end: Mapped[datetime | None]
    """Estimated end of the run, from its rate and completeListSize."""
    pace: Mapped[list[list[float]]] = mapped_column(JSONB, server_default=text("'[]'"))
    """Samples since its process began: seconds, and the run's records and requests until then."""
    job_id: Mapped[int | None] = mapped_column(index=True)
    process_id: Mapped[int | None]
    host: Mapped[str | None] = mapped_column(Text)
    last_sign: Mapped[datetime | None]
    """The last sign of life of the run's process, which gives one every second or two; NULL before any."""
    last_error: Mapped[str | None] = mapped_column(Text)
    """What the run waits for, its last warning, or the error with which it ended."""
    last_failure: Mapped[dict[str, Any] | None] = mapped_column(JSONB(none_as_null=True))
    """The same as a code with facts (`FailureCode`), if it has one."""
    updated: Mapped[datetime] = mapped_column(server_default=func.now(), onupdate=func.now())


class History(Base):
    """One row for each ended harvest.

    `record_count` + `invalid_count` are received: `new_count` + `updated_count` + `unchanged_count` +
    `deleted_count` - `disappeared_count` + `postponed_count` + `tombstone_count` + `filtered_count` +
    `repeated_count` + `invalid_count`.

    A harvest that was interrupted and resumed has a row for each of its processes. The last row counts the
    whole harvest; the earlier ones name it in `continued_by`, and count 0, so that sums count each record
    once. What they had counted is in `evidence`, under `reached`.
    """

    __tablename__ = "oai_history"

    history_id: Mapped[int] = mapped_column(BigInteger, Identity(), primary_key=True)
    harvest_id: Mapped[int | None]
    run_started: Mapped[datetime | None]
    """Start of the run, before any interruption; with `harvest_id` it identifies the run in `oai_change`."""
    repository_id: Mapped[int] = mapped_column(ForeignKey("oai_repository.repository_id", ondelete="CASCADE"))
    record_count: Mapped[int] = mapped_column(BigInteger, server_default="0")
    """Records seen, including deletions and repetitions, without rejected ones."""
    harvest_start_time: Mapped[datetime]
    harvest_end_time: Mapped[datetime] = mapped_column(server_default=func.now())
    job_id: Mapped[int | None] = mapped_column(index=True)
    """The job that ran it; its row in `oai_job` no longer exists."""
    recurring_id: Mapped[int | None]
    status: Mapped[str] = mapped_column(Text)
    """completed, no changes, held and others; the reference of the API lists them (`RunStatus`)."""
    verdict: Mapped[str] = mapped_column(Text, server_default="failed")
    """complete, partial or failed: whether everything requested has been received."""
    failure_reason: Mapped[str | None] = mapped_column(Text)
    failure_code: Mapped[str | None] = mapped_column(Text)
    """What failed (`FailureCode`), for programs; NULL if the failure has no code."""
    failure_facts: Mapped[dict[str, Any] | None] = mapped_column(JSONB(none_as_null=True))
    """Numbers and texts used in the message of `failure_code`."""

    @property
    def failure(self) -> Failure | None:
        """Return why records are missing; None if no reason is stored."""
        found = Failure.stored(self.failure_code, self.failure_facts)
        if found is None and self.failure_reason:
            return Failure(code=FailureCode.OTHER)
        return found

    set_spec: Mapped[str | None] = mapped_column(Text)
    metadata_prefix: Mapped[str | None] = mapped_column(Text)
    new_count: Mapped[int] = mapped_column(BigInteger, server_default="0")
    updated_count: Mapped[int] = mapped_column(BigInteger, server_default="0")
    unchanged_count: Mapped[int] = mapped_column(BigInteger, server_default="0")
    deleted_count: Mapped[int] = mapped_column(BigInteger, server_default="0")
    filtered_count: Mapped[int] = mapped_column(BigInteger, server_default="0")
    invalid_count: Mapped[int] = mapped_column(BigInteger, server_default="0")
    repeated_count: Mapped[int] = mapped_column(BigInteger, server_default="0")
    """Records received again in the same harvest, or with an older datestamp than before."""
    tombstone_count: Mapped[int] = mapped_column(BigInteger, server_default="0")
    """Deletions of records that were not in the store."""
    disappeared_count: Mapped[int] = mapped_column(BigInteger, server_default="0")
    """Deleted records that were not received: a complete list no longer contained them."""
    postponed_count: Mapped[int] = mapped_column(BigInteger, server_default="0")
    """Deletions received but not applied, because the harvest is held or interrupted."""
    continued_by: Mapped[int | None] = mapped_column(BigInteger)
    """The row (`history_id`) that counts this harvest since it was resumed; NULL for the last row."""
    requests: Mapped[int] = mapped_column(server_default="0")
    bytes: Mapped[int] = mapped_column(BigInteger, server_default="0")
    warnings: Mapped[list[str]] = mapped_column(JSONB, server_default=text("'[]'"))
    warning_failures: Mapped[list[dict[str, Any] | None]] = mapped_column(JSONB, server_default=text("'[]'"))
    """For each warning its code and facts, or null."""
    evidence: Mapped[dict[str, Any]] = mapped_column(JSONB, server_default=text("'{}'"))
    """The evidence for the verdict."""
    harvest_method: Mapped[int] = mapped_column(SmallInteger, server_default="0")
    """0 ListRecords, 1 ListIdentifiers and GetRecord."""
    host: Mapped[str | None] = mapped_column(Text)
    process_id: Mapped[int | None]
    raw_path: Mapped[str | None] = mapped_column(Text)
    """The WARC file with the run's requests and answers, below the data folder; NULL if none were kept."""
    replay_of: Mapped[int | None] = mapped_column(BigInteger)
    """The run (`history_id`) whose stored answers were replayed."""
    filter_digest: Mapped[str | None] = mapped_column(Text)
    """SHA-256 of the filter file as the run read it, in hexadecimal digits."""
    normalize_digest: Mapped[str | None] = mapped_column(Text)
    """SHA-256 of the normalise file as the run read it, in hexadecimal digits."""
    pace: Mapped[list[list[float]]] = mapped_column(JSONB, server_default=text("'[]'"))
    """Samples over its course: seconds since it began, records and requests until then."""
    announced: Mapped[datetime | None]
    """When notices were sent and hooks called for it; NULL while that is pending."""


Index("ix_oai_history_unannounced", History.history_id, postgresql_where=text("announced IS NULL"))
Index(
    "ix_oai_history_filter_digest",
    History.filter_digest,
    History.history_id,
    postgresql_where=text("filter_digest IS NOT NULL"),
)
Index(
    "ix_oai_history_normalize_digest",
    History.normalize_digest,
    History.history_id,
    postgresql_where=text("normalize_digest IS NOT NULL"),
)
Index(
    "ix_oai_history_continued_by",
    History.continued_by,
    postgresql_where=text("continued_by IS NOT NULL"),
)
# The last runs of each repository, for lists of repositories.
Index("ix_oai_history_repository_runs", History.repository_id, History.history_id)
# The last runs of each schedule, for planning its next one.
Index(
    "ix_oai_history_recurring_runs",
    History.recurring_id,
    History.history_id,
    postgresql_where=text("recurring_id IS NOT NULL"),
)
Index("ix_oai_history_status", History.status, History.history_id)
# Includes the columns that a calendar adds up, so that a year of runs is read from the index alone.
Index(
    "ix_oai_history_ended",
    History.harvest_end_time,
    postgresql_include=[
        "repository_id", "status", "record_count", "new_count", "updated_count", "deleted_count",
        "continued_by",
    ],
)  # fmt: skip

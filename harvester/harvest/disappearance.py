"""Records that a full list lacks: what a run saw, and what is taken to have disappeared.

Before they are deleted, `disappearance_check` may request them from the repository.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from sqlalchemy import Row, text
from sqlalchemy.orm import Session

from harvester.harvest.verdict import PROPER
from harvester.store import deletions
from harvester.store import records as arrays
from harvester.store.records import RunKey
from harvester.vocabulary import DeletionReason

_NAMED = """
    EXISTS (
        SELECT FROM oai_set_mapping AS mapping
        WHERE mapping.record_id = record.record_id
          AND (mapping.set_spec = :set_spec OR starts_with(mapping.set_spec, :set_spec || ':')))
    """
OURS = f"""
    record.repository_id = :repository_id AND record.metadata_prefix = :prefix AND record.status = 'active'
    AND (:set_spec = '' OR {_NAMED})
    """
_ENDS = ", ".join(f"'{end.value}'" for end in sorted(PROPER))
# A record may merely have left this set: another harvest of the same format covers it if that harvest is of
# one of the record's sets or of the whole repository, has reached the end of its lists once, and has no lower
# bound after the record's datestamp.
_COVERING = f"""
    covering AS MATERIALIZED (
        SELECT other.set_spec, CASE WHEN other.watermark IS NOT NULL THEN other.complete_from END AS first
        FROM oai_harvest AS other
        WHERE other.repository_id = :repository_id AND other.metadata_prefix = :prefix
          AND other.harvest_id <> :harvest_id
          AND (other.watermark IS NOT NULL OR EXISTS (
              SELECT FROM oai_history AS run
              WHERE run.repository_id = :repository_id AND run.harvest_id = other.harvest_id
                AND run.evidence ->> 'end' IN ({_ENDS}))))
    """  # noqa: S608 built from constants only
_ELSEWHERE = """
    :set_spec <> '' AND EXISTS (
        SELECT FROM covering
        WHERE (first IS NULL OR record.datestamp >= left(first, length(record.datestamp)))
          AND (covering.set_spec = '' OR EXISTS (
              SELECT FROM oai_set_mapping AS mapping
              WHERE mapping.record_id = record.record_id
                AND (mapping.set_spec = covering.set_spec
                     OR starts_with(mapping.set_spec, covering.set_spec || ':')))))
    """
# A run that was interrupted may resume a list from before another harvest stored a record. A later time than
# now only shows that a clock was wrong.
_UNSEEN = f"""
    {OURS} AND record.harvest_time NOT BETWEEN :run_started AND now()
    AND NOT EXISTS (SELECT FROM oai_seen AS seen WHERE seen.record_id = record.record_id)
    """
_DISAPPEARED = text(
    f"""
    WITH {_COVERING}, unseen AS MATERIALIZED (
        SELECT record_id, identifier, datestamp FROM oai_record AS record WHERE {_UNSEEN})
    SELECT record_id, identifier FROM unseen AS record WHERE NOT ({_ELSEWHERE}) LIMIT :most
    """  # noqa: S608 built from constants only
)
_STAGE = text(
    f"""
    WITH {_COVERING}, unseen AS MATERIALIZED (
    SELECT record.record_id, record.digest, {_ELSEWHERE} AS elsewhere
    FROM oai_record AS record
    WHERE {_UNSEEN}
    ), staged AS (
    INSERT INTO oai_held_deletion (harvest_id, run_started, record_id, datestamp, reason, digest)
    SELECT :harvest_id, :run_started, record_id, :datestamp,
           CASE WHEN :certain OR EXISTS (
               SELECT FROM oai_held_deletion AS earlier
               WHERE earlier.harvest_id = :harvest_id AND earlier.record_id = unseen.record_id
                 AND earlier.digest IS NOT DISTINCT FROM unseen.digest)
           THEN :reason ELSE 'unconfirmed' END, digest
    FROM unseen WHERE NOT elsewhere
    ON CONFLICT DO NOTHING
    RETURNING reason)
    SELECT (SELECT count(*) FROM staged WHERE reason = :reason) AS disappeared,
        (SELECT count(*) FROM staged WHERE reason <> :reason) AS unconfirmed,
        (SELECT count(*) FROM unseen WHERE elsewhere) AS elsewhere,
        (SELECT count(*) FROM oai_seen JOIN oai_record AS record USING (record_id)
         WHERE :set_spec <> '' AND record.status = 'active' AND NOT {_NAMED}) AS unnamed
    """  # noqa: S608 built from constants only
)
_SEEN = text(
    """
    INSERT INTO oai_sighting (harvest_id, run_started, record_ids)
    VALUES (:harvest_id, :run_started, CAST(:ids AS bigint[]))
    """
)
# A separate table, indexed and analysed before it is joined: otherwise PostgreSQL estimates ten rows and
# compares each record with each.
_GATHER = (
    text(
        """
        CREATE TEMPORARY TABLE oai_seen ON COMMIT DROP AS
        SELECT DISTINCT unnest(record_ids) AS record_id FROM oai_sighting
        WHERE harvest_id = :harvest_id AND run_started = :run_started
        """
    ),
    text("CREATE UNIQUE INDEX ON oai_seen (record_id)"),
    text("ANALYZE oai_seen"),
)
_FORGET = text("DELETE FROM oai_sighting WHERE harvest_id = :harvest_id AND run_started <> :run_started")
_FORGET_ALL = text("DELETE FROM oai_sighting WHERE harvest_id = :harvest_id")


@dataclass(frozen=True, kw_only=True)
class ListedRecords:
    """What a full harvest lists: a set of a repository in one format, or everything with an empty set."""

    repository_id: int
    metadata_prefix: str
    set_spec: str

    @property
    def parameters(self) -> Mapping[str, object]:
        """Return the parameters of the statements."""
        return {
            "repository_id": self.repository_id, "prefix": self.metadata_prefix, "set_spec": self.set_spec
        }  # fmt: skip


def note_seen(session: Session, run: RunKey, record_ids: Sequence[int]) -> None:
    """Record that the run saw these records. The caller commits."""
    if record_ids:
        session.execute(_SEEN, {**run.parameters, "ids": arrays.of_numbers(record_ids)})


def forget_earlier(session: Session, run: RunKey) -> None:
    """Delete the notes of what earlier runs of the harvest saw. The caller commits."""
    session.execute(_FORGET, run.parameters)


def forget_seen(session: Session, run: RunKey) -> None:
    """Delete the notes of what the harvest's runs saw. The caller commits."""
    session.execute(_FORGET_ALL, {"harvest_id": run.harvest_id})


def stage_disappeared(
    session: Session,
    run: RunKey,
    listed: ListedRecords,
    *,
    datestamp: str,
    certain: bool = True,
) -> Row[Any]:
    """Stage the deletion of records that the run should have seen but did not.

    Return their number as `disappeared`, and as `elsewhere` the number of those that are left alone: when one
    set is harvested, those that another harvest of the repository covers; as `unnamed` the number of seen
    records whose headers do not name that set. Unless the list is `certain` to have skipped no record, only
    records that the last full harvest did not see either disappear; `unconfirmed` is the number of the
    others. The caller commits at once, and guarantees that the run saw everything.
    """
    _gather(session, run)
    found = session.execute(
        _STAGE,
        {
            **run.parameters,
            **listed.parameters,
            "datestamp": datestamp,
            "certain": certain,
            "reason": DeletionReason.DISAPPEARED.value,
        },
    ).one()
    deletions.forget_unconfirmed(session, run)
    return found


def disappeared_records(
    session: Session, run: RunKey, listed: ListedRecords, *, most: int
) -> Sequence[tuple[int, str]]:
    """Return ids and identifiers of the records that would disappear, at most so many.

    The caller ends the transaction, and guarantees that the run saw everything.
    """
    _gather(session, run)
    found = session.execute(_DISAPPEARED, {**run.parameters, **listed.parameters, "most": most})
    return [(number, identifier) for number, identifier in found]


def _gather(session: Session, run: RunKey) -> None:
    for statement in _GATHER:
        session.execute(statement, run.parameters)

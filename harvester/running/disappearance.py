"""What a complete list of everything had no more, where a repository does not tell of deletions (HAR-9)."""

from collections.abc import Sequence

from sqlalchemy import text
from sqlalchemy.orm import Session

from harvester.store import arrays
from harvester.store.records import RunKey
from harvester.vocabulary import DeletionReason

# A record that another harvest of the same format answers for, because that has one of its sets or all
# records, may merely have left this set.
OURS = """
    record.repository_id = :repository_id AND record.metadata_prefix = :prefix AND record.status = 'active'
    AND (:set_spec = '' OR EXISTS (
        SELECT FROM oai_set_mapping AS mapping
        WHERE mapping.record_id = record.record_id
          AND (mapping.set_spec = :set_spec OR starts_with(mapping.set_spec, :set_spec || ':'))))
    """
_ELSEWHERE = """
    :set_spec <> '' AND EXISTS (
        SELECT FROM oai_harvest AS other
        WHERE other.repository_id = :repository_id AND other.metadata_prefix = :prefix
          AND other.harvest_id <> :harvest_id
          AND (other.set_spec = '' OR EXISTS (
              SELECT FROM oai_set_mapping AS mapping
              WHERE mapping.record_id = record.record_id
                AND (mapping.set_spec = other.set_spec
                     OR starts_with(mapping.set_spec, other.set_spec || ':')))))
    """
_STAGE = text(
    f"""
    WITH staged AS (
    INSERT INTO oai_held_deletion (harvest_id, run_started, record_id, datestamp, reason, digest)
    SELECT :harvest_id, :run_started, record.record_id, :datestamp, :reason, record.digest
    FROM oai_record AS record
    WHERE {OURS}
      AND NOT EXISTS (SELECT FROM oai_seen AS seen WHERE seen.record_id = record.record_id)
      AND NOT ({_ELSEWHERE})
    ON CONFLICT DO NOTHING
    RETURNING 1)
    SELECT count(*) FROM staged
    """  # noqa: S608 made of our own words
)
_SEEN = text(
    """
    INSERT INTO oai_sighting (harvest_id, run_started, record_ids)
    VALUES (:harvest_id, :run_started, CAST(:ids AS bigint[]))
    """
)
# A table of its own, with an index and statistics before it is joined: without them PostgreSQL takes it for
# ten rows, and compares each record with each.
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
_ANY_ACTIVE = text(
    """
    SELECT EXISTS (SELECT FROM oai_record
                   WHERE repository_id = :repository_id AND metadata_prefix = :prefix AND status = 'active')
    """
)
_FORGET = text("DELETE FROM oai_sighting WHERE harvest_id = :harvest_id AND run_started <> :run_started")
_FORGET_ALL = text("DELETE FROM oai_sighting WHERE harvest_id = :harvest_id")


def any_active(session: Session, *, repository_id: int, metadata_prefix: str) -> bool:
    """Whether the repository has active records in the format; before a first harvest it has none."""
    found = session.execute(_ANY_ACTIVE, {"repository_id": repository_id, "prefix": metadata_prefix})
    return bool(found.scalar_one())


def note_seen(session: Session, run: RunKey, record_ids: Sequence[int]) -> None:
    """Note that the run saw these records. The caller commits."""
    if record_ids:
        session.execute(_SEEN, {**_key(run), "ids": arrays.of_numbers(record_ids)})


def forget_earlier(session: Session, run: RunKey) -> None:
    """Forget what earlier runs of the harvest saw. The caller commits."""
    session.execute(_FORGET, _key(run))


def forget_seen(session: Session, run: RunKey) -> None:
    """Forget what the harvest's runs saw. The caller commits."""
    session.execute(_FORGET_ALL, {"harvest_id": run.harvest_id})


def stage_disappeared(
    session: Session, run: RunKey, *, repository_id: int, metadata_prefix: str, set_spec: str, datestamp: str
) -> int:
    """Stage the deletion of the records that the run should have seen and did not; gives how many.

    Of a harvest of one set, those that another harvest of the repository answers for are left alone. The
    caller commits at once, and knows that the run saw everything.
    """
    for statement in _GATHER:
        session.execute(statement, _key(run))
    found = session.execute(
        _STAGE,
        {
            **_key(run),
            "repository_id": repository_id,
            "prefix": metadata_prefix,
            "set_spec": set_spec,
            "datestamp": datestamp,
            "reason": DeletionReason.DISAPPEARED.value,
        },
    )
    return int(found.scalar_one())


def _key(run: RunKey) -> dict[str, object]:
    return {"harvest_id": run.harvest_id, "run_started": run.run_started}

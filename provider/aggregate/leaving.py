"""Records that leave the aggregate, because their source did or no longer has them.

They are looked for once, listed in a temporary table, and taken from it piece by piece: to look for the next
piece among all records of the source each time would take the square of their number.
"""

from collections.abc import Sequence
from typing import Any, Final

from sqlalchemy import Row, text
from sqlalchemy.orm import Session

from provider.aggregate.merging import Staged

# The table belongs to the updater's connection and goes with it: after an update that was cut off, the next
# one lists what is left.
_TABLE: Final = """
CREATE TEMP TABLE IF NOT EXISTS leaving (repository_id integer, id bigint, PRIMARY KEY (repository_id, id))
"""
# OFFSET keeps the look-up one by the whole key: as a join it would be planned by statistics, which what was
# just harvested does not have.
_NOT_HARVESTED: Final = """
    AND NOT EXISTS (
        SELECT FROM oai_record AS current
        WHERE current.repository_id = record.repository_id
            AND current.metadata_prefix
                = (SELECT harvested_prefix FROM aggregate_format WHERE id = record.format_id)
            AND current.identifier_key = record.harvested_key
        OFFSET 0
    )
"""
_ANY: Final = "SELECT EXISTS (SELECT FROM leaving WHERE repository_id = :repository_id)"
_LIST: Final = """
INSERT INTO leaving
SELECT repository_id, id FROM aggregate_record AS record WHERE repository_id = :repository_id AND NOT deleted
"""
_NEXT: Final = "SELECT id FROM leaving WHERE repository_id = :repository_id ORDER BY id LIMIT :most"
_TAKEN: Final = "DELETE FROM leaving WHERE repository_id = :repository_id AND id = ANY(:ids)"
_RECORDS: Final = f"""
SELECT {", ".join(Staged._fields)} FROM aggregate_record AS record WHERE id = ANY(:ids) AND NOT deleted
"""  # noqa: S608 built from our own words


def list_leaving(session: Session, repository_id: int, *, withdrawn: bool) -> bool:
    """List the source's living records that leave, unless some are listed still; gives whether there are any.

    All of a withdrawn source leave, of others those that are no longer harvested. The caller commits.
    """
    values = {"repository_id": repository_id}
    session.execute(text(_TABLE))
    if session.execute(text(_ANY), values).scalar_one():
        return True
    session.execute(text(_LIST if withdrawn else _LIST + _NOT_HARVESTED), values)
    # Without statistics, a piece would be sorted out of all that are listed.
    session.execute(text("ANALYZE leaving"))
    return bool(session.execute(text(_ANY), values).scalar_one())


def take_leaving(session: Session, repository_id: int, most: int, *, withdrawn: bool) -> Sequence[Row[Any]]:
    """The next so many records that were listed, with the columns of Staged, and take them off the list.

    Those that do not leave any more, for they were harvested meanwhile, are left out.
    """
    values = {"repository_id": repository_id}
    ids = list(session.scalars(text(_NEXT), {**values, "most": most}))
    session.execute(text(_TAKEN), {**values, "ids": ids})
    return session.execute(text(_RECORDS if withdrawn else _RECORDS + _NOT_HARVESTED), {"ids": ids}).all()

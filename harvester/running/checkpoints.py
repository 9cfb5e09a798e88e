"""Where a harvest stands, in its `oai_harvest` row: begin, save with each page, end. The caller commits."""

import os
import socket
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any

from sqlalchemy import func, select, update
from sqlalchemy.dialects.postgresql import insert
from sqlalchemy.orm import Session

from harvester.models import Harvest
from harvester.running.parameters import HarvestRequest, in_granularity
from oai.datestamps import format_datestamp, parse_datestamp
from oai.vocabulary import Granularity


@dataclass(frozen=True, kw_only=True)
class Checkpoint:
    """Where a run begins: afresh, or where the one before it was cut off."""

    harvest_id: int
    from_: str | None
    token: str
    counts: Mapping[str, int]
    watermark: str | None
    response_date: str | None
    run_started: datetime

    @property
    def resumed(self) -> bool:
        """Whether the run goes on from a saved token."""
        return bool(self.token)


def begin(
    session: Session, request: HarvestRequest, *, granularity: str | None, overlap: float, now: datetime
) -> Checkpoint:
    """Find or make the row, and note the run that begins."""
    row = _row(session, request)
    kind = request.kind()
    parameters = row.run_parameters or {}
    resumes = bool(row.resumption_token) and parameters.get("kind") == kind
    if not resumes:
        from_ = _from(request, row.watermark, granularity=granularity, overlap=overlap)
        row.run_parameters = {"kind": kind, "from": from_}
        row.resumption_token = None
        row.counts = {}
        row.complete_list_size = row.run_response_date = None
        row.run_started = now
    row.job_id = request.job_id
    row.process_id = os.getpid()
    row.host = socket.gethostname()
    row.last_error = None
    session.flush()
    return Checkpoint(
        harvest_id=row.harvest_id,
        from_=(row.run_parameters or {}).get("from"),
        token=row.resumption_token or "",
        counts=dict(row.counts),
        watermark=row.watermark,
        response_date=row.run_response_date,
        run_started=row.run_started or now,
    )


def restart(session: Session, harvest_id: int) -> None:
    """Begin the run's list again, for its token is no longer good."""
    _update(session, harvest_id, resumption_token=None, counts={}, run_response_date=None)


def save(
    session: Session,
    harvest_id: int,
    *,
    token: str,
    counts: Counter[str],
    response_date: str | None,
    complete_list_size: int | None,
) -> None:
    """Note how far the run is, in the same transaction as the page's rows."""
    _update(
        session,
        harvest_id,
        resumption_token=token or None,
        counts=dict(counts),
        run_response_date=response_date,
        complete_list_size=complete_list_size,
        last_error=None,
    )


def note(session: Session, harvest_id: int, message: str) -> None:
    """Note what the run waits for, or what went wrong."""
    _update(session, harvest_id, last_error=message)


def end(
    session: Session, harvest_id: int, *, watermark: str | None, keep_token: bool, error: str | None
) -> None:
    """Note that the run is over. Without `keep_token` nothing of it can be resumed."""
    values: dict[str, Any] = {"job_id": None, "process_id": None, "last_error": error}
    if not keep_token:
        values |= {"resumption_token": None, "run_parameters": None}
    if watermark is not None:
        values["watermark"] = watermark
    _update(session, harvest_id, **values)


def _row(session: Session, request: HarvestRequest) -> Harvest:
    key = {
        "repository_id": request.repository_id,
        "metadata_prefix": request.metadata_prefix,
        "set_spec": request.set_spec,
    }
    session.execute(insert(Harvest).values(**key).on_conflict_do_nothing())
    return session.scalars(select(Harvest).filter_by(**key)).one()


def _from(
    request: HarvestRequest, watermark: str | None, *, granularity: str | None, overlap: float
) -> str | None:
    """The `from` to send: as asked, else the watermark less the overlap (HAR-4)."""
    if request.harvest_from is not None:
        return in_granularity(request.harvest_from, granularity)
    if request.full or watermark is None:
        return None
    moment = parse_datestamp(watermark).moment - timedelta(seconds=overlap)
    return in_granularity(format_datestamp(moment, Granularity.SECOND), granularity)


def _update(session: Session, harvest_id: int, **values: Any) -> None:  # noqa: ANN401 any column's type
    session.execute(
        update(Harvest).where(Harvest.harvest_id == harvest_id).values(**values, updated=func.now())
    )

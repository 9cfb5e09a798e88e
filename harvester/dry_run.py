"""Plans a harvest without harvesting: what would be asked for, and why."""

import asyncio
from dataclasses import replace

from sqlalchemy import select
from sqlalchemy.orm import Session

from harvester.access import access_of
from harvester.client.repository_client import open_client
from harvester.models import Repository
from harvester.repositories import check_base_url, get_repository
from harvester.running import checkpoints
from harvester.running.opening import target
from harvester.running.parameters import HarvestRequest
from harvester.running.planning import Plan, Standing, Target, plan
from oai.datestamps import format_datestamp, utc_now
from oai.errors import UsageError
from oai.settings import Settings


def rehearse(
    session: Session, settings: Settings, request: HarvestRequest, *, url: str | None, folder: str | None
) -> Plan:
    """The plan of the harvest, with nothing written.

    A repository that has been asked before is not asked again; another one is asked who it is. It is the one
    with the base URL `url` (and the folder), which may have no row yet, or that of the request's number.
    Raises UsageError, ClientError and TryLaterError.
    """
    row = get_repository(session, request.repository_id) if url is None else _row(session, url, folder)
    if row is not None and access_of(row.protocol).query is not None:
        raise UsageError(f"repository {row.repository_id} uses {row.protocol}, but --dry-run needs OAI-PMH")
    standing, waits = Standing(), None
    if row is not None:
        standing = checkpoints.standing(session, request.of(row.repository_id))
        waits = row.not_before
    if row is not None and row.identified is not None:
        found = target(row)
    else:
        found = asyncio.run(_asked(row.base_url if row is not None else check_base_url(url or ""), settings))
    now = utc_now()
    remarks = []
    if waits is not None and waits > now:
        remarks.append(f"the repository asked to wait until {format_datestamp(waits)}")
    planned = plan(request, found, standing, now=now, overlap=settings.harvester.overlap)
    limited = replace(planned, recovery_seconds=settings.harvester.max_recovery_seconds)
    return limited.with_remarks(remarks)


def _row(session: Session, url: str, folder: str | None) -> Repository | None:
    query = select(Repository).where(Repository.base_url == url).order_by(Repository.repository_id)
    if folder is not None:
        query = query.where(Repository.base_dir == folder)
    return session.scalars(query).first()


async def _asked(url: str, settings: Settings) -> Target:
    async with open_client(url, settings.harvester) as client:
        identity = await client.identify()
    return Target(
        base_url=url,
        granularity=identity.granularity,
        earliest_datestamp=identity.earliest_datestamp,
        deleted_record=identity.deleted_record,
    )

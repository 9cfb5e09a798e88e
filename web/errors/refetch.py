"""Fetch a broken record again on request, by its schedule's rules and within the rate limit."""

from aiohttp import web
from sqlalchemy.orm import Session

from harvester.harvest.models import Quarantined
from harvester.harvest.refetch import Refetched, RefetchState, fetch_again
from harvester.harvest.request import HarvestRequest
from harvester.listing import find_records
from harvester.models import Repository
from manager.replays import request_for
from web.auth.access import who_asks
from web.imports.sources import IMPORTS
from web.repositories.explorer import EXPLORATIONS
from web.site.i18n import _
from web.site.keys import SETTINGS, database_of
from web.site.timeouts import with_short_timeouts

_CHANGED = frozenset({RefetchState.STORED, RefetchState.DELETED})
_IN_STORE = _CHANGED | {RefetchState.UNCHANGED}


async def refetch(
    request: web.Request, repository: Repository, error: Quarantined
) -> tuple[Refetched, int | None]:
    """Return the result and the id of the record if it is in the store.

    If no schedule determines the rules, the record is checked but not stored. An import follows a change of
    the store. Raises UsageError and
    TryLaterError like `fetch_again` and `Explorations.check`.
    """
    settings, database = with_short_timeouts(request.config_dict[SETTINGS]), database_of(request)
    by_schedule = await database.run(request_for, settings, error)
    plain = HarvestRequest(
        repository_id=error.repository_id, metadata_prefix=error.metadata_prefix, set_spec=error.set_spec
    )
    request.config_dict[EXPLORATIONS].check(repository)
    result = await fetch_again(
        database.database, settings, error, by_schedule or plain, store=by_schedule is not None
    )
    if result.fate in _CHANGED:
        request.config_dict[IMPORTS].follow(error.repository_id, by=who_asks(request).name)
    return result, await database.run(_stored, error) if result.fate in _IN_STORE else None


def sentence(fate: RefetchState) -> str:
    """Return what happened to the record, in the reader's language."""
    return {
        RefetchState.BROKEN: _("The record is still rejected."),
        RefetchState.READABLE: _(
            "The record is valid now, but no schedule defines the rules for storing it; the next "
            "harvest stores it."
        ),
        RefetchState.STORED: _("The record is valid now and was stored."),
        RefetchState.UNCHANGED: _("The record is valid now; it is already stored unchanged."),
        RefetchState.DELETED: _("The repository now reports the record as deleted."),
        RefetchState.FILTERED: _(
            "The record is valid now, but the filter rules exclude it, so it was not stored."
        ),
    }[fate]


def _stored(session: Session, error: Quarantined) -> int | None:
    """Return the id of the record's row."""
    found = find_records(
        session,
        error.repository_id,
        limit=1,
        metadata_prefix=error.metadata_prefix,
        identifier=error.identifier,
    )
    return found[0].record_id if found else None

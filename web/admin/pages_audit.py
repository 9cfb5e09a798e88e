"""The audit log as a page and as a file, with a filter in the query string."""

from collections.abc import Sequence
from datetime import date, datetime, timedelta
from typing import Final
from urllib.parse import urlencode

from aiohttp import web

from oai.audit import AuditEntry, Filter, list_actions, list_entries
from web.auth.access import administrators_only
from web.site.export import AT_ONCE, KINDS, columns_of, export
from web.site.forms import Form
from web.site.keys import database_of
from web.site.paging import number_in
from web.site.render import render
from web.site.zones import midnight

_PAGE: Final = 50
_CHANGES: Final = 6
_LONGEST: Final = 80
_FIELDS: Final = ("user", "action", "kind", "number", "since", "until")
_COLUMNS: Final = columns_of(
    "at", "user_name", "via", "action", "object_kind", "object_id", "object_name", "status", "address",
    "before", "after", "count",
)  # fmt: skip
_FIRST_YEAR: Final = 1970
_LAST_YEAR: Final = 9000


@administrators_only
async def show(request: web.Request) -> web.Response:
    """Show the newest entries that match the filter; `before` pages to older entries."""
    database, given = database_of(request), _given(request)
    before = number_in(request, "before")
    # One row more than is shown: if it exists, there are older entries.
    entries = await database.run(list_entries, _filter(given), limit=_PAGE + 1, before=before)
    older = {**given, "before": entries[_PAGE - 1].audit_id} if len(entries) > _PAGE else None
    return render(
        request,
        "admin_audit.html",
        entries=entries[:_PAGE],
        changes=_changes,
        form=Form(values=given),
        actions=await database.run(list_actions),
        query=urlencode(given),
        older=urlencode(older) if older else None,
    )


@administrators_only
async def download(request: web.Request) -> web.StreamResponse:
    """Export the entries that match the filter, newest first; times are UTC."""
    wanted = _filter(_given(request))

    async def behind(last: AuditEntry | None) -> Sequence[AuditEntry]:
        before = last.audit_id if last else None
        return await database_of(request).run(list_entries, wanted, limit=AT_ONCE, before=before)

    return await export(request, "audit", _COLUMNS, behind)


def _changes(entry: AuditEntry) -> list[str]:
    """Return the first changed columns, one a line, for example `state: 0 → 2`; the export lists all.

    Of a new object, its values; numbers and times that the database sets are left out.
    """
    before, after = entry.before or {}, entry.after or {}
    if not before:
        values = [f"{name}: {_short(after[name])}" for name in sorted(after) if not _is_set(name)]
        return values[:_CHANGES]
    names = sorted({*before, *after})
    return [f"{name}: {_short(before.get(name))} → {_short(after.get(name))}" for name in names][:_CHANGES]


def _is_set(name: str) -> bool:
    return name in {"id", "created", "added", "date_added", "summarised"} or (
        name.endswith("_id") and name != "job_id"
    )


def _short(value: object) -> str:
    text = "-" if value is None else str(value)
    return text if len(text) <= _LONGEST else f"{text[:_LONGEST]}…"


def _given(request: web.Request) -> dict[str, str]:
    """Return the filter from the query string; no text column contains control characters."""
    given = {name: request.query.get(name, "").strip() for name in _FIELDS}
    return {name: text for name, text in given.items() if text and text.isprintable()}


def _filter(given: dict[str, str]) -> Filter:
    texts = {name: text for name, text in given.items() if name not in ("since", "until")}
    return Filter(
        **texts, since=_day(given.get("since")), until=_day(given.get("until"), later=timedelta(days=1))
    )


def _day(text: str | None, *, later: timedelta = timedelta()) -> datetime | None:
    """Return the start (UTC) of a day in the reader's time zone, or None if the text is not a date."""
    try:
        day = date.fromisoformat(text or "")
    except ValueError:
        return None
    return midnight(day + later) if _FIRST_YEAR <= day.year < _LAST_YEAR else None


ROUTES = (
    web.get("/admin/audit", show),
    web.get(f"/admin/audit.{KINDS}", download, allow_head=False),
)

"""The audit log as a page, with a filter in its address, and as CSV."""

import csv
import io
from datetime import UTC, date, datetime, timedelta
from typing import Final
from urllib.parse import urlencode

from aiohttp import web
from sqlalchemy.orm import Session

from web.access import administrators_only
from web.forms import Form
from web.log_entries import Filter, all_entries, list_actions, list_entries
from web.rendering import render
from web.threads import database_of

_PAGE: Final = 50
_MOST_ROWS: Final = 100_000
"""Rows of one CSV file; narrow the filter for older ones."""
_FIELDS: Final = ("user", "action", "kind", "number", "since", "until")
_COLUMNS: Final = (
    "at", "user_name", "via", "action", "object_kind", "object_id", "object_name", "status", "address",
)  # fmt: skip
_FORMULA: Final = ("=", "+", "-", "@", "\t", "\r")
_DIGITS: Final = 18
_FIRST_YEAR: Final = 1970
_LAST_YEAR: Final = 9000


@administrators_only
async def show(request: web.Request) -> web.Response:
    """The newest entries that the filter lets through; `before` leads to older ones."""
    database, given = database_of(request), _given(request)
    text = request.query.get("before", "")
    before = int(text) if text.isascii() and text.isdecimal() and len(text) <= _DIGITS else None
    # One more than is shown tells whether there are older ones.
    entries = await database.run(list_entries, _filter(given), limit=_PAGE + 1, before=before)
    older = {**given, "before": entries[_PAGE - 1].audit_id} if len(entries) > _PAGE else None
    return render(
        request,
        "admin_audit.html",
        entries=entries[:_PAGE],
        form=Form(values=given),
        actions=await database.run(list_actions),
        query=urlencode(given),
        older=urlencode(older) if older else None,
    )


@administrators_only
async def download(request: web.Request) -> web.Response:
    """The entries that the filter lets through as CSV (RFC 4180, UTF-8), the newest first; times are UTC."""
    text = await database_of(request).run(_as_csv, _filter(_given(request)))
    headers = {"Content-Disposition": 'attachment; filename="audit.csv"'}
    return web.Response(text=text, content_type="text/csv", charset="utf-8", headers=headers)


def _as_csv(session: Session, wanted: Filter) -> str:
    out = io.StringIO()
    writer = csv.writer(out)
    writer.writerow(_COLUMNS)
    for entry in all_entries(session, wanted, most=_MOST_ROWS):
        values = [getattr(entry, name) for name in _COLUMNS]
        values[0] = entry.at.astimezone(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
        writer.writerow([_harmless(value) for value in values])
    return out.getvalue()


def _harmless(value: object) -> str:
    """The value as text that no spreadsheet takes for a formula: people choose the names of things."""
    text = "" if value is None else str(value)
    return f"'{text}" if text.startswith(_FORMULA) else text


def _given(request: web.Request) -> dict[str, str]:
    """What the address asks for; no text of the database has control characters."""
    given = {name: request.query.get(name, "").strip() for name in _FIELDS}
    return {name: text for name, text in given.items() if text and text.isprintable()}


def _filter(given: dict[str, str]) -> Filter:
    texts = {name: text for name, text in given.items() if name not in ("since", "until")}
    until = _day(given.get("until"))
    return Filter(
        **texts, since=_day(given.get("since")), until=None if until is None else until + timedelta(days=1)
    )


def _day(text: str | None) -> datetime | None:
    """The beginning of the day in UTC; None for what is no date."""
    try:
        day = date.fromisoformat(text or "")
    except ValueError:
        return None
    return datetime.combine(day, datetime.min.time(), UTC) if _FIRST_YEAR <= day.year < _LAST_YEAR else None


ROUTES = (
    web.get("/admin/audit", show),
    web.get("/admin/audit.csv", download),
)

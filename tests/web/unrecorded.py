"""Finds pages that change something without an entry in the audit log, in all tests of the dashboard.

A page that answers below 300 is taken for a step of a form, and its entry is deleted (`web.auth.audit`).
"""

import re
from contextvars import ContextVar
from typing import Any, Final

from aiohttp import web
from aiohttp.typedefs import Handler
from psycopg import Cursor
from sqlalchemy import Connection, Engine, event

from oai.actions import action_of_route
from web.auth.access import canonical, is_api

_WRITTEN: Final = re.compile(r"(?<!FOR )\b(INSERT INTO|UPDATE|DELETE FROM) (?!SET )(\w+)")
_AUDIT: Final = "web_audit"
_OF_NO_ACTION: Final = frozenset({"web_session", "web_api_token"})
"""Tables in which any request may write when a session or token was last used."""
_statements: ContextVar[list[tuple[str, str]] | None] = ContextVar("statements", default=None)


def _executed(connection: Connection, cursor: Cursor[Any], statement: str, *_rest: object) -> None:
    if cursor.rowcount:
        connection.info.setdefault("written", []).extend(_WRITTEN.findall(statement))


def _committed(connection: Connection) -> None:
    written, statements = connection.info.pop("written", []), _statements.get()
    if statements is not None:
        statements.extend(written)


def _undone(connection: Connection) -> None:
    if not connection.invalidated:  # `info` would connect again
        connection.info.pop("written", None)


def watch(engine: Engine) -> None:
    """Note the statements that write, of the requests that `unrecorded_changes` follows, once committed."""
    listeners: dict[str, Any] = {
        "after_cursor_execute": _executed,
        "commit": _committed,
        "rollback": _undone,
    }
    for name, listener in listeners.items():
        if not event.contains(engine, name, listener):
            event.listen(engine, name, listener)


def unrecorded_changes(found: set[str]) -> Any:
    """Return a middleware that adds to `found` the route and tables of each change without an entry."""

    @web.middleware
    async def watching(request: web.Request, handler: Handler) -> web.StreamResponse:
        path = canonical(request)
        is_page = request.method == "POST" and path is not None and not is_api(request)
        if not is_page or action_of_route("POST", str(path)) is None:
            return await handler(request)
        statements: list[tuple[str, str]] = []
        _statements.set(statements)
        response = await handler(request)
        tables = {table for _, table in statements} - {_AUDIT} - _OF_NO_ACTION
        # `settle` deletes the entry, or completes it.
        # What a refused form writes, such as a new secret to choose, changes nothing.
        if tables and response.status < 400 and ("UPDATE", _AUDIT) not in statements:
            found.add(f"{path} writes {', '.join(sorted(tables))}")
        return response

    return watching

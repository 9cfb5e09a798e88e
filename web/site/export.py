"""Downloads that are written piece by piece; lists as CSV for spreadsheets (RFC 4180) or JSON."""

import asyncio
import csv
import io
import json
from collections.abc import Awaitable, Callable, Iterable, Iterator, Mapping, Sequence
from datetime import datetime
from operator import attrgetter
from typing import Final, TypeVar
from uuid import UUID

from aiohttp import web

from oai.datestamps import format_datestamp
from web.auth.audit import record_export
from web.site.keys import database_of

KINDS: Final = "{kind:csv|json}"
"""Path suffixes of exported lists."""
AT_ONCE: Final = 300
"""Rows per batch, if the query can return any number: small, so that the first bytes are sent at once."""
_BOM: Final = "\ufeff"
"""First character of CSV, without which Excel decodes it in the legacy code page of the reader's language."""
_TYPES: Final = {"csv": "text/csv", "json": "application/json"}
_FORMULA: Final = ("=", "+", "-", "@", "\uff1d", "\uff0b", "\uff0d", "\uff20", "\t", "\r", "\n")
"""Beginnings of text that spreadsheets run: full-width signs, too, as East Asian versions read them."""

_Row = TypeVar("_Row")
Columns = Mapping[str, Callable[[_Row], object]]


def columns_of(*names: str, of: str | None = None) -> dict[str, Callable[[object], object]]:
    """Return columns named after the rows' attributes, or after those of their attribute `of`."""
    return {name: attrgetter(f"{of}.{name}" if of else name) for name in names}


async def export(
    request: web.Request,
    name: str,
    columns: Columns[_Row],
    behind: Callable[[_Row | None], Awaitable[Sequence[_Row]]],
) -> web.StreamResponse:
    """Stream the rows in the format of the path's suffix, by default CSV, in UTF-8; times are UTC.

    `behind` returns some rows after the one given, the first rows for None, and no rows at the end.
    """
    kind = request.match_info.get("kind", "csv")
    rows = await behind(None)
    await record_export(request, name, kind)
    response = web.StreamResponse(
        headers={
            "Content-Type": f"{_TYPES[kind]}; charset=utf-8",
            "Content-Disposition": f'attachment; filename="zatva-{name}.{kind}"',
        }
    )
    await response.prepare(request)
    await _write(response, kind, rows, columns, behind)
    return response


async def export_list(
    request: web.Request,
    name: str,
    columns: Columns[_Row],
    find: Callable[..., Sequence[_Row]],
    **place: Callable[[_Row], object],
) -> web.StreamResponse:
    """Stream the rows that `find` reads from the database, as `export` does.

    `place` is the argument of `find` after which, or before which, rows follow, with its value for a row.
    """

    async def behind(last: _Row | None) -> Sequence[_Row]:
        given = {} if last is None else {argument: of_row(last) for argument, of_row in place.items()}
        return await database_of(request).run(find, limit=AT_ONCE, **given)

    return await export(request, name, columns, behind)


async def stream(
    request: web.Request, pieces: Iterator[bytes], *, media: str, file_name: str
) -> web.StreamResponse:
    """Send the pieces as a file of that media type; each is made in a thread when the last one was sent.

    If one cannot be made, the client sees a broken download (`web.site.faults.unfinished`).
    """
    response = web.StreamResponse(
        headers={"Content-Type": media, "Content-Disposition": f'attachment; filename="{file_name}"'}
    )
    piece = await asyncio.to_thread(next, pieces, None)
    await response.prepare(request)
    while piece is not None:
        await response.write(piece)
        piece = await asyncio.to_thread(next, pieces, None)
    return response


async def _write(
    response: web.StreamResponse,
    kind: str,
    rows: Sequence[_Row],
    columns: Columns[_Row],
    behind: Callable[[_Row | None], Awaitable[Sequence[_Row]]],
) -> None:
    opening, between, closing = ("[\n", ",\n", "\n]\n") if kind == "json" else (_BOM + _line(columns), "", "")
    await response.write(opening.encode())
    before = ""
    while rows:
        lines = [_written({key: get(row) for key, get in columns.items()}, kind) for row in rows]
        await response.write((before + between.join(lines)).encode())
        before = between
        rows = await behind(rows[-1])
    await response.write(closing.encode())


def _written(row: Mapping[str, object], kind: str) -> str:
    values = {name: _plain(value) for name, value in row.items()}
    return json.dumps(values, ensure_ascii=False) if kind == "json" else _line(values.values())


def _plain(value: object) -> object:
    if isinstance(value, UUID):
        return str(value)
    return format_datestamp(value) if isinstance(value, datetime) else value


def _line(values: Iterable[object]) -> str:
    out = io.StringIO()
    csv.writer(out, lineterminator="\r\n").writerow([_harmless(value) for value in values])
    return out.getvalue()


def _harmless(value: object) -> object:
    """Prefix text that a spreadsheet would run as a formula with a quote: users choose names."""
    if isinstance(value, Mapping):
        return json.dumps(value, ensure_ascii=False)
    text = "; ".join(map(str, value)) if isinstance(value, (list, tuple)) else value
    return f"'{text}" if isinstance(text, str) and text.startswith(_FORMULA) else text

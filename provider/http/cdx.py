"""`/cdx`: look-ups in the manner of the CDX servers that replay software asks (pywb, OpenWayback).

Lists only what the one who asks may read: replay software gives out what it finds here. So it is open
documents for all, and those for the reading room where the question comes from there.
"""

import calendar
import json
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import PurePath
from typing import Final

from aiohttp import web

from oai.errors import UsageError
from provider.holdings.lookup import Found, Match, Query, find_captures
from provider.holdings.rules import in_reading_room
from provider.http.admission import admitted
from provider.http.attending import ATTENDANCE
from provider.http.keys import DATABASE, SETTINGS
from provider.models import Access

PATH: Final = "/cdx"

_TIMESTAMP: Final = re.compile(r"[0-9]{4}(?:[0-9]{2}){0,5}", re.ASCII)
_EARLIEST: Final = "00000101000000"
_LATEST: Final = "99991231235959"
_UNKNOWN: Final = "unk"
_REVISIT: Final = "warc/revisit"


def _mime(one: Found) -> str:
    if one.record_type == "revisit":
        return _REVISIT
    return one.mime_type if "/" in one.mime_type else _UNKNOWN


_FIELDS: Final[Mapping[str, Callable[[Found], str]]] = {
    "urlkey": lambda one: one.url_key,
    "timestamp": lambda one: one.archived.strftime("%Y%m%d%H%M%S"),
    "url": lambda one: one.url,
    "mime": _mime,
    "status": lambda one: str(one.http_status or "-"),
    "digest": lambda one: (one.digest or "-").removeprefix("sha1:"),
    "redirect": lambda _: "-",
    "robotflags": lambda _: "-",
    "length": lambda _: "-",
    "offset": lambda one: str(one.offset),
    "filename": lambda one: PurePath(one.path).name,
}
"""The fields of an eleven-field CDX line, in its order.

The length in such a line is that of the record as it lies in the file, which is not kept here; readers take
the record that begins at the offset.
"""
_SAME_FIELDS: Final = {"original": "url", "mimetype": "mime", "statuscode": "status"}
_IN_NO_JSON: Final = frozenset({"redirect", "robotflags", "length"})


@dataclass(frozen=True, kw_only=True)
class _Asked:
    query: Query
    output: str
    fields: tuple[str, ...]
    """Those that are asked for; none for all."""


def add_routes(app: web.Application) -> None:
    """Add the path of CDX look-ups."""
    app.router.add_get(PATH, _answer, allow_head=True)


async def _answer(request: web.Request) -> web.Response:
    settings, database = request.app[SETTINGS].provider, request.app[DATABASE]
    visitor = request.app[ATTENDANCE].visitor(request)
    rules = [Access.OPEN]
    if not visitor.ours and in_reading_room(settings, visitor.address):
        rules.append(Access.READING_ROOM)

    def work() -> tuple[str, str]:
        asked = _read(request, settings.cdx_lines, rules)
        with database.session() as session:
            found = find_captures(session, asked.query)
        return _WRITERS[asked.output](found, asked.fields)

    try:
        content_type, text = await admitted(request, work)
    except UsageError as error:
        return web.Response(status=400, text=f"400: {error}\n")
    return web.Response(
        text=text, content_type=content_type, charset="utf-8", headers={"Cache-Control": "no-cache"}
    )


def _read(request: web.Request, most: int, rules: list[Access]) -> _Asked:
    """The arguments of a look-up; raises UsageError that says what is wrong with them."""
    arguments = dict(request.query)
    unknown = arguments.keys() - _ARGUMENTS
    if unknown:
        raise UsageError(f"argument {min(unknown)!r} is not known here; known: {', '.join(_ARGUMENTS)}")
    url = arguments.get("url", "")
    match = Match(_choice(arguments, "matchType", tuple(Match)))
    if "matchType" not in arguments:
        url, match = _wildcard(url)
    closest = arguments.get("closest") or None
    if closest is not None and match is not Match.EXACT:
        closest = None  # pywb sends one with every question
    _choice(arguments, "sort", ("default", "closest"))
    limit = arguments.get("limit") or str(most)
    if not (limit.isascii() and limit.isdigit() and int(limit)):
        raise UsageError(f"limit {limit!r} is no number from 1 on")
    query = Query(
        url=url,
        match=match,
        since=_moment(arguments, "from", _EARLIEST),
        until=_moment(arguments, "to", _LATEST),
        closest=_moment({"closest": closest or ""}, "closest", _EARLIEST),
        limit=min(int(limit), most),
        rules=tuple(rules),
    )
    output = _choice(arguments, "output", tuple(_WRITERS))
    return _Asked(query=query, output=output, fields=_fields(arguments.get("fl") or arguments.get("fields")))


_ARGUMENTS: Final = (
    "url", "matchType", "from", "to", "closest", "sort", "limit", "output", "fl", "fields"
)  # fmt: skip


def _choice(arguments: Mapping[str, str], name: str, choices: tuple[str, ...]) -> str:
    """The argument's value, the first choice where there is none."""
    value = arguments.get(name) or choices[0]
    if value not in choices:
        raise UsageError(f"{name} {value!r} is none of {', '.join(choices)}")
    return value


def _wildcard(url: str) -> tuple[str, Match]:
    """`http://host/path*` is a prefix, `*.host` a domain."""
    if url.startswith("*."):
        return url.removeprefix("*."), Match.DOMAIN
    if url.endswith("*"):
        return url.removesuffix("*"), Match.PREFIX
    return url, Match.EXACT


def _moment(arguments: Mapping[str, str], name: str, rest: str) -> datetime | None:
    """A time as `YYYYMMDDhhmmss`, UTC; what is left out at its end is taken from `rest`."""
    value = arguments.get(name)
    if not value:
        return None
    if not _TIMESTAMP.fullmatch(value):
        raise UsageError(f"{name} {value!r} is no time; write YYYYMMDDhhmmss or the beginning of it")
    digits = value + rest[len(value) :]
    year, month, day = int(digits[:4]), int(digits[4:6]), int(digits[6:8])
    try:
        day = min(day, calendar.monthrange(year, month)[1]) if len(value) < len("YYYYMMDD") else day
        hour, minute, second = (int(digits[place : place + 2]) for place in (8, 10, 12))
        fraction = 999_999 if rest == _LATEST else 0
        return datetime(year, month, day, hour, minute, second, fraction, tzinfo=UTC)
    except (ValueError, calendar.IllegalMonthError):
        raise UsageError(f"{name} {value!r} is no possible time") from None


def _fields(text: str | None) -> tuple[str, ...]:
    fields = tuple(_SAME_FIELDS.get(name, name) for name in (text or "").split(",") if name)
    unknown = [name for name in fields if name not in _FIELDS]
    if unknown:
        raise UsageError(f"field {unknown[0]!r} is none of {', '.join(_FIELDS)}")
    return fields


def _text(found: list[Found], fields: tuple[str, ...]) -> tuple[str, str]:
    chosen = [_FIELDS[name] for name in fields or _FIELDS]
    return "text/plain", "".join(" ".join(write(one) for write in chosen) + "\n" for one in found)


def _json(found: list[Found], fields: tuple[str, ...]) -> tuple[str, str]:
    return "application/x-ndjson", "".join(f"{_object(one, fields)}\n" for one in found)


def _cdxj(found: list[Found], fields: tuple[str, ...]) -> tuple[str, str]:
    own = tuple(name for name in fields or _FIELDS if name not in {"urlkey", "timestamp"})
    lines = (f"{one.url_key} {_FIELDS['timestamp'](one)} {_object(one, own or ('url',))}\n" for one in found)
    return "text/x-cdxj", "".join(lines)


def _object(one: Found, fields: tuple[str, ...]) -> str:
    names = [name for name in fields or _FIELDS if name not in _IN_NO_JSON]
    return json.dumps({name: _FIELDS[name](one) for name in names}, ensure_ascii=False)


_WRITERS: Final = {"text": _text, "json": _json, "cdxj": _cdxj}

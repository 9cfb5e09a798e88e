"""`/cdx`: look-ups in the manner of the CDX servers that replay software asks (pywb, OpenWayback).

Lists only what the one who asks may read: replay software gives out what it finds here. So it is open
documents for all, and those for the reading room where the question comes from there.
"""

import json
from collections.abc import Callable, Mapping, Sequence
from typing import Final
from urllib.parse import urlencode

from aiohttp import web

from oai.errors import UsageError
from oai.sections import ProviderSettings
from oai.signing import signing_key
from provider.holdings.found import FIELDS, Found
from provider.holdings.lookup import Match, Result, find_captures
from provider.holdings.rules import in_reading_room
from provider.http.admission import admitted
from provider.http.attending import ATTENDANCE
from provider.http.cdx_arguments import Asked, Limits, read_arguments
from provider.http.keys import DATABASE, SETTINGS
from provider.http.resume_keys import PURPOSE, ResumeKeys
from provider.models import Access

PATH: Final = "/cdx"

_IN_NO_JSON: Final = frozenset({"redirect", "robotflags", "length"})


def add_routes(app: web.Application) -> None:
    """Add the path of CDX look-ups."""
    app.router.add_get(PATH, _answer, allow_head=True)


async def _answer(request: web.Request) -> web.Response:
    settings, database = request.app[SETTINGS].provider, request.app[DATABASE]
    limits = Limits(lines=settings.cdx_lines, examined=settings.cdx_examined, rules=_rules(request, settings))

    def work() -> web.Response:
        with database.session() as session:
            keys = ResumeKeys(signing_key(session, PURPOSE))
            asked = read_arguments(request.query, limits, keys.read)
            result = find_captures(session, asked.query)
        return _response(request, asked, result, keys)

    try:
        return await admitted(request, work, lengthy=_is_lengthy(request))
    except UsageError as error:
        return web.Response(status=400, text=f"400: {error}\n")


def _rules(request: web.Request, settings: ProviderSettings) -> Sequence[Access]:
    visitor = request.app[ATTENDANCE].visitor(request)
    if not visitor.ours and in_reading_room(settings, visitor.address):
        return (Access.OPEN, Access.READING_ROOM)
    return (Access.OPEN,)


def _is_lengthy(request: web.Request) -> bool:
    """Replay asks for one URL at a time, and should not wait behind those who read the index out."""
    wide = request.query.get("matchType", Match.EXACT) != Match.EXACT or "*" in request.query.get("url", "")
    return wide or "filter" in request.query


def _response(request: web.Request, asked: Asked, result: Result, keys: ResumeKeys) -> web.Response:
    """The answer, and where to go on; raises UsageError where it ended early and the client cannot know."""
    headers = {"Cache-Control": "no-cache"}
    key = None if result.end is None else keys.write(result.end, asked.query)
    if result.cut and not asked.with_key:
        raise UsageError(
            f"the limit of {asked.query.examined:,} captures per request was reached before the end; "
            "narrow the request (url, from, to), or continue with showResumeKey=true and resumeKey"
        )
    if key is not None:
        following = [(name, value) for name, value in request.query.items() if name != "resumeKey"]
        headers["Link"] = f'<?{urlencode([*following, ("resumeKey", key)])}>; rel="next"'
    content_type, write = _WRITERS[asked.output]
    text = write(result.found, asked.fields, key if asked.with_key else None)
    return web.Response(text=text, content_type=content_type, charset="utf-8", headers=headers)


def _text(found: Sequence[Found], fields: Sequence[str], key: str | None) -> str:
    chosen = [FIELDS[name] for name in fields or FIELDS]
    lines = "".join(" ".join(write(one) for write in chosen) + "\n" for one in found)
    return lines + _last_line(key)


def _json(found: Sequence[Found], fields: Sequence[str], key: str | None) -> str:
    lines = "".join(f"{_object(one, fields)}\n" for one in found)
    return lines + ("" if key is None else json.dumps({"resumeKey": key}) + "\n")


def _cdxj(found: Sequence[Found], fields: Sequence[str], key: str | None) -> str:
    own = [name for name in fields or FIELDS if name not in {"urlkey", "timestamp"}]
    lines = (f"{one.url_key} {FIELDS['timestamp'](one)} {_object(one, own or ['url'])}\n" for one in found)
    return "".join(lines) + _last_line(key)


def _last_line(key: str | None) -> str:
    """An empty line and the key, as the Wayback CDX server has it."""
    return "" if key is None else f"\n{key}\n"


def _object(one: Found, fields: Sequence[str]) -> str:
    names = [name for name in fields or FIELDS if name not in _IN_NO_JSON]
    return json.dumps({name: FIELDS[name](one) for name in names}, ensure_ascii=False)


_Write = Callable[[Sequence[Found], Sequence[str], str | None], str]
_WRITERS: Final[Mapping[str, tuple[str, _Write]]] = {
    "text": ("text/plain", _text),
    "json": ("application/x-ndjson", _json),
    "cdxj": ("text/x-cdxj", _cdxj),
}

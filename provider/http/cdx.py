"""`/cdx`: look-ups as in the CDX servers that replay software queries (pywb, OpenWayback).

Lists only what the client may read, because replay software serves what it finds here: open documents for
all clients, and documents for the reading room for requests from there.
"""

import calendar
import hashlib
import json
import re
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from typing import Final
from urllib.parse import urlencode
from uuid import UUID

from aiohttp import web
from itsdangerous import BadData, URLSafeSerializer
from multidict import MultiMapping

from oai.errors import UsageError
from oai.signing import signing_keys
from provider.holdings.capture import (
    FIELDS,
    FoundCapture,
    field_name,
    read_collapse,
    read_filters,
    read_number,
)
from provider.holdings.index_reads import ReadOrder
from provider.holdings.lookup import LookupPlace, LookupResult, MatchType, Query, find_captures, read_wildcard
from provider.holdings.rules import in_reading_room
from provider.http.admission import admitted
from provider.http.keys import DATABASE, SETTINGS
from provider.http.middleware import ATTENDANCE
from provider.models import Access

ARGUMENTS: Final = (
    "url", "matchType", "from", "to", "closest", "sort", "limit", "filter", "collapse", "output", "fl",
    "fields", "showResumeKey", "resumeKey",
)  # fmt: skip
OUTPUTS: Final = ("text", "json", "cdxj")

_SEVERAL: Final = frozenset({"filter"})
_TIMESTAMP: Final = re.compile(r"[0-9]{4}(?:[0-9]{2}){0,5}", re.ASCII)
_EARLIEST: Final = "00000101000000"
_LATEST: Final = "99991231235959"
PURPOSE: Final = "resume key of look-ups"
"""The purpose under which `oai.signing` stores the signing key."""
PATH: Final = "/cdx"
_IN_NO_JSON: Final = frozenset({"redirect", "robotflags", "length"})


@dataclass(frozen=True, kw_only=True)
class CdxLimits:
    """Limits of one look-up."""

    lines: int
    examined: int
    rules: Sequence[Access]


@dataclass(frozen=True, kw_only=True)
class Asked:
    """A look-up, and the form of its answer."""

    query: Query
    output: str
    fields: tuple[str, ...]
    """The requested fields; empty for all."""
    with_key: bool
    """Whether the client requested the key to continue after the end of an answer."""


def read_arguments(
    arguments: MultiMapping[str], limits: CdxLimits, place_of: Callable[[str, Query], LookupPlace]
) -> Asked:
    """Parse the arguments; `place_of` returns the position of a key in a look-up.

    Raises UsageError that names the wrong argument and its allowed values.
    """
    _check_names(arguments)
    query = _query(arguments, limits)
    key = arguments.get("resumeKey")
    if key:
        query = replace(query, begin=place_of(key, query))
    return Asked(
        query=query,
        output=_choice(arguments, "output", OUTPUTS),
        fields=tuple(
            field_name(name)
            for name in (arguments.get("fl") or arguments.get("fields") or "").split(",")
            if name
        ),
        with_key=_choice(arguments, "showResumeKey", ("false", "true")) == "true",
    )


def _check_names(arguments: MultiMapping[str]) -> None:
    names = Counter(name for name, _ in arguments.items())
    unknown = names.keys() - ARGUMENTS
    if unknown:
        raise UsageError(f"unknown argument {min(unknown)!r}; the arguments are {', '.join(ARGUMENTS)}")
    repeated = {name for name, times in names.items() if times > 1} - _SEVERAL
    if repeated:
        raise UsageError(f"argument {min(repeated)!r} is given more than once")


def _query(arguments: MultiMapping[str], limits: CdxLimits) -> Query:
    url = arguments.get("url", "")
    match = MatchType(_choice(arguments, "matchType", tuple(MatchType)))
    if "matchType" not in arguments:
        url, match = read_wildcard(url)
    order, closest = _order(arguments, match)
    written = arguments.get("limit") or str(limits.lines)
    limit = read_number(written)
    if limit is None:
        raise UsageError(f"limit {written[:100]!r} is not a number of 1 or more")
    return Query(
        url=url,
        match=match,
        since=_moment(arguments, "from", _EARLIEST),
        until=_moment(arguments, "to", _LATEST),
        order=order,
        closest=closest,
        limit=min(limit, limits.lines),
        examined=limits.examined,
        rules=tuple(limits.rules),
        filters=read_filters(arguments.getall("filter", [])),
        collapse=read_collapse(arguments.get("collapse")),
    )


def _order(arguments: MultiMapping[str], match: MatchType) -> tuple[ReadOrder, datetime | None]:
    """Return the order of one URL's captures; pywb sends `closest` and `sort=closest` with every request."""
    sort = _choice(arguments, "sort", ("default", "closest", "reverse"))
    closest = _moment(arguments, "closest", _EARLIEST)
    if sort == "reverse":
        return ReadOrder.REVERSE, None
    if closest is None or match is not MatchType.EXACT:
        return ReadOrder.FORWARD, None
    return ReadOrder.CLOSEST, closest


def _choice(arguments: MultiMapping[str], name: str, choices: Sequence[str]) -> str:
    """Return the argument's value, or the first choice if it is missing."""
    value = arguments.get(name) or choices[0]
    if value not in choices:
        raise UsageError(f"unknown {name} {value!r}; allowed are {', '.join(choices)}")
    return value


def _moment(arguments: MultiMapping[str], name: str, rest: str) -> datetime | None:
    """Parse a time as `YYYYMMDDhhmmss`, UTC; `rest` supplies the digits omitted at its end."""
    value = arguments.get(name)
    if not value:
        return None
    if not _TIMESTAMP.fullmatch(value):
        raise UsageError(f"{name} {value!r} is not a time; write YYYYMMDDhhmmss or the beginning of it")
    digits = value + rest[len(value) :]
    year, month, day = int(digits[:4]), int(digits[4:6]), int(digits[6:8])
    try:
        day = min(day, calendar.monthrange(year, month)[1]) if len(value) < len("YYYYMMDD") else day
        hour, minute, second = (int(digits[place : place + 2]) for place in (8, 10, 12))
        fraction = 999_999 if rest == _LATEST else 0
        return datetime(year, month, day, hour, minute, second, fraction, tzinfo=UTC)
    except (ValueError, calendar.IllegalMonthError):
        raise UsageError(f"{name} {value!r} is not a valid time") from None


class ResumeKeys:
    """Writes resume keys with the first signing key and reads those of all."""

    def __init__(self, keys: Sequence[bytes]) -> None:
        self._keys = list(reversed(keys))
        """The one that signs is last, as itsdangerous wants it."""

    def write(self, place: LookupPlace, query: Query) -> str:
        """Return the key of a position in this look-up, in URL-safe characters."""
        capture = place.capture.hex if place.capture else None
        text: str = self._serializer(query).dumps([capture, place.host, place.run, place.keyed])
        return text

    def read(self, key: str, query: Query) -> LookupPlace:
        """Return the position of a key. Raises UsageError if the key belongs to another look-up."""
        try:
            capture, host, run, keyed = self._serializer(query).loads(key)
            # Earlier versions wrote the ids of rows.
            document = UUID(hex=capture) if capture else None
        except (BadData, ValueError, AttributeError):
            raise UsageError(
                f"resumeKey {key[:100]!r} does not belong to this look-up; repeat all other "
                "arguments unchanged"
            ) from None
        return LookupPlace(capture=document, host=host, run=run, keyed=keyed)

    def _serializer(self, query: Query) -> URLSafeSerializer:
        asked = (query.url, query.match, query.order, str(query.closest))
        return URLSafeSerializer(
            self._keys,
            salt=f"{PURPOSE} {asked!r}",
            signer_kwargs={"key_derivation": "hmac", "digest_method": hashlib.sha256},
        )


def add_routes(app: web.Application) -> None:
    """Add the path of CDX look-ups."""
    app.router.add_get(PATH, _answer, allow_head=True)


async def _answer(request: web.Request) -> web.Response:
    settings, database = request.app[SETTINGS].provider, request.app[DATABASE]
    limits = CdxLimits(
        lines=settings.cdx_lines, examined=settings.cdx_examined, rules=readable_rules(request)
    )

    def work() -> web.Response:
        with database.session() as session:
            keys = ResumeKeys(signing_keys(session, PURPOSE))
            asked = read_arguments(request.query, limits, keys.read)
            result = find_captures(session, asked.query)
        return _response(request, asked, result, keys)

    try:
        return await admitted(request, work, lengthy=_is_lengthy(request))
    except UsageError as error:
        return web.Response(status=400, text=f"400: {error}\n")


def readable_rules(request: web.Request) -> Sequence[Access]:
    """Return the access rules of the documents that the client may open."""
    visitor, settings = request.app[ATTENDANCE].visitor(request), request.app[SETTINGS].provider
    if not visitor.ours and in_reading_room(settings, visitor.address):
        return (Access.OPEN, Access.READING_ROOM)
    return (Access.OPEN,)


def _is_lengthy(request: web.Request) -> bool:
    """Return whether the look-up is lengthy: replay reads single URLs and must not wait for bulk readers."""
    wide = request.query.get("matchType", MatchType.EXACT) != MatchType.EXACT or "*" in request.query.get(
        "url", ""
    )
    return wide or "filter" in request.query


def _response(request: web.Request, asked: Asked, result: LookupResult, keys: ResumeKeys) -> web.Response:
    """Return the answer with the next key; raises UsageError if it was cut and cannot be continued."""
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


def _text(found: Sequence[FoundCapture], fields: Sequence[str], key: str | None) -> str:
    chosen = [FIELDS[name] for name in fields or FIELDS]
    lines = "".join(" ".join(write(one) for write in chosen) + "\n" for one in found)
    return lines + _last_line(key)


def _json(found: Sequence[FoundCapture], fields: Sequence[str], key: str | None) -> str:
    lines = "".join(f"{_object(one, fields)}\n" for one in found)
    return lines + ("" if key is None else json.dumps({"resumeKey": key}) + "\n")


def _cdxj(found: Sequence[FoundCapture], fields: Sequence[str], key: str | None) -> str:
    own = [name for name in fields or FIELDS if name not in {"urlkey", "timestamp"}]
    lines = (f"{one.url_key} {FIELDS['timestamp'](one)} {_object(one, own or ['url'])}\n" for one in found)
    return "".join(lines) + _last_line(key)


def _last_line(key: str | None) -> str:
    """Return an empty line and the key, as the Wayback CDX server does."""
    return "" if key is None else f"\n{key}\n"


def _object(one: FoundCapture, fields: Sequence[str]) -> str:
    names = [name for name in fields or FIELDS if name not in _IN_NO_JSON]
    return json.dumps({name: FIELDS[name](one) for name in names}, ensure_ascii=False)


_Write = Callable[[Sequence[FoundCapture], Sequence[str], str | None], str]
_WRITERS: Final[Mapping[str, tuple[str, _Write]]] = {
    "text": ("text/plain", _text),
    "json": ("application/x-ndjson", _json),
    "cdxj": ("text/x-cdxj", _cdxj),
}

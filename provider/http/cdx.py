"""`/cdx`: look-ups in the manner of the CDX servers that replay software asks (pywb, OpenWayback).

Lists only what the one who asks may read: replay software gives out what it finds here. So it is open
documents for all, and those for the reading room where the question comes from there.
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

from aiohttp import web
from itsdangerous import BadData, URLSafeSerializer
from multidict import MultiMapping

from oai.errors import UsageError
from oai.sections import ProviderSettings
from oai.signing import signing_key
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


@dataclass(frozen=True, kw_only=True)
class CdxLimits:
    """What one look-up may have."""

    lines: int
    examined: int
    rules: Sequence[Access]


@dataclass(frozen=True, kw_only=True)
class Asked:
    """A look-up, and how its answer is to be written."""

    query: Query
    output: str
    fields: tuple[str, ...]
    """Those that are asked for; none for all."""
    with_key: bool
    """Whether the client knows how to go on behind the end of an answer."""


def read_arguments(
    arguments: MultiMapping[str], limits: CdxLimits, place_of: Callable[[str, Query], LookupPlace]
) -> Asked:
    """Read them; `place_of` gives the place that a key stands for in a look-up.

    Raises UsageError that says which is wrong, and how it may be written.
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
    """The order of one URL's captures; pywb sends `closest` and `sort=closest` with every question."""
    sort = _choice(arguments, "sort", ("default", "closest", "reverse"))
    closest = _moment(arguments, "closest", _EARLIEST)
    if sort == "reverse":
        return ReadOrder.REVERSE, None
    if closest is None or match is not MatchType.EXACT:
        return ReadOrder.FORWARD, None
    return ReadOrder.CLOSEST, closest


def _choice(arguments: MultiMapping[str], name: str, choices: Sequence[str]) -> str:
    """The argument's value, the first choice where there is none."""
    value = arguments.get(name) or choices[0]
    if value not in choices:
        raise UsageError(f"unknown {name} {value!r}; allowed are {', '.join(choices)}")
    return value


def _moment(arguments: MultiMapping[str], name: str, rest: str) -> datetime | None:
    """A time as `YYYYMMDDhhmmss`, UTC; what is left out at its end is taken from `rest`."""
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


PURPOSE: Final = "resume key of look-ups"
"""What the signing key is for, as `oai.signing` keeps it."""


class ResumeKeys:
    """Writes and reads keys with one signing key."""

    def __init__(self, key: bytes) -> None:
        self._key = key

    def write(self, place: LookupPlace, query: Query) -> str:
        """The key of a place in this look-up: URL-safe characters."""
        text: str = self._serializer(query).dumps([place.capture, place.host, place.run])
        return text

    def read(self, key: str, query: Query) -> LookupPlace:
        """The place that a key stands for. Raises UsageError where it is none of this look-up's."""
        try:
            capture, host, run = self._serializer(query).loads(key)
        except BadData:
            raise UsageError(
                f"resumeKey {key[:100]!r} does not belong to this look-up; repeat all other "
                "arguments unchanged"
            ) from None
        return LookupPlace(capture=capture, host=host, run=run)

    def _serializer(self, query: Query) -> URLSafeSerializer:
        asked = (query.url, query.match, query.order, str(query.closest))
        return URLSafeSerializer(
            self._key,
            salt=f"{PURPOSE} {asked!r}",
            signer_kwargs={"key_derivation": "hmac", "digest_method": hashlib.sha256},
        )


PATH: Final = "/cdx"

_IN_NO_JSON: Final = frozenset({"redirect", "robotflags", "length"})


def add_routes(app: web.Application) -> None:
    """Add the path of CDX look-ups."""
    app.router.add_get(PATH, _answer, allow_head=True)


async def _answer(request: web.Request) -> web.Response:
    settings, database = request.app[SETTINGS].provider, request.app[DATABASE]
    limits = CdxLimits(
        lines=settings.cdx_lines, examined=settings.cdx_examined, rules=_rules(request, settings)
    )

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
    wide = request.query.get("matchType", MatchType.EXACT) != MatchType.EXACT or "*" in request.query.get(
        "url", ""
    )
    return wide or "filter" in request.query


def _response(request: web.Request, asked: Asked, result: LookupResult, keys: ResumeKeys) -> web.Response:
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
    """An empty line and the key, as the Wayback CDX server has it."""
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

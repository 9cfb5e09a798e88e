"""`/cdx`: look-ups as in the CDX servers that replay software queries (pywb, OpenWayback).

Lists only what the client may read, because replay software serves what it finds here: open documents for
all clients, and documents for the reading room for requests from there.
"""

import hashlib
from collections.abc import Sequence
from typing import Final
from urllib.parse import urlencode
from uuid import UUID

from aiohttp import web
from itsdangerous import BadData, URLSafeSerializer

from oai.errors import UsageError
from oai.signing import signing_keys
from provider.holdings.lookup import LookupPlace, LookupResult, MatchType, Query, find_captures
from provider.holdings.url_key_state import www_rule
from provider.holdings.urlkeys import url_key
from provider.http.admission import admitted
from provider.http.cdx_arguments import Asked, CdxLimits, read_arguments
from provider.http.cdx_dialects import DIALECTS
from provider.http.keys import DATABASE, SETTINGS
from provider.http.middleware import readable_rules

PURPOSE: Final = "resume key of look-ups"
"""The purpose under which `oai.signing` stores the signing key."""
PATH: Final = "/cdx"
_OF_THE_FIRST: Final = frozenset({"resumeKey", "offset"})
"""Arguments that the request for the next captures does not repeat."""
_SIFTING: Final = frozenset({"filter", "collapse", "collapseToFirst", "collapseToLast", "collapseTime"})
"""Arguments with which even a look-up of a single URL is lengthy."""


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
        asked: tuple[object, ...] = (query.url, query.match, query.order, str(query.closest))
        if query.onward:
            asked = (*asked, "onward")
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
        lines=settings.cdx_lines,
        examined=settings.cdx_examined,
        filter_seconds=settings.cdx_filter_seconds,
        rules=readable_rules(request),
    )
    name = request.query.get("dialect") or settings.cdx_dialect
    dialect = DIALECTS.get(name, DIALECTS[settings.cdx_dialect])

    def work() -> web.Response:
        if name not in DIALECTS:
            raise UsageError(f"unknown dialect {name[:100]!r}; allowed are {', '.join(DIALECTS)}")
        with database.session() as session:
            keys = ResumeKeys(signing_keys(session, PURPOSE))
            asked = read_arguments(request.query, dialect, limits, keys.read)
            result = find_captures(session, asked.query)
            key = url_key(asked.query.url, www_rule(session))
        return _response(request, asked, result, keys, key)

    try:
        return await admitted(request, work, lengthy=_is_lengthy(request), look_up=True)
    except UsageError as error:
        content_type, text = dialect.refuse(str(error))
        return web.Response(status=400, text=text, content_type=content_type, charset="utf-8")


def _is_lengthy(request: web.Request) -> bool:
    """Return whether the look-up is lengthy: replay reads single URLs and must not wait for bulk readers."""
    wide = request.query.get("matchType", MatchType.EXACT) != MatchType.EXACT or "*" in request.query.get(
        "url", ""
    )
    return wide or not _SIFTING.isdisjoint(request.query)


def _response(
    request: web.Request, asked: Asked, result: LookupResult, keys: ResumeKeys, url_key: str
) -> web.Response:
    """Return the answer with the next key; raises UsageError if it was cut and cannot be continued."""
    headers = {"Cache-Control": "no-cache"}
    key = _next_key(asked, result, keys)
    if key is not None:
        following = [(name, value) for name, value in request.query.items() if name not in _OF_THE_FIRST]
        headers["Link"] = f'<?{urlencode([*following, ("resumeKey", key)])}>; rel="next"'
    if asked.dialect.key_header is not None:
        headers[asked.dialect.key_header] = url_key
    found = result.found
    for step in asked.steps:
        found = step(found)
    text = asked.output.write(found, asked.columns, key if asked.with_key else None)
    return web.Response(text=text, content_type=asked.output.content_type, charset="utf-8", headers=headers)


def _next_key(asked: Asked, result: LookupResult, keys: ResumeKeys) -> str | None:
    """Return the key to continue; raises UsageError if the client cannot continue."""
    if asked.whole and result.end is not None and not result.cut:
        raise UsageError(
            f"more than {asked.query.limit:,} captures match, and this sort, collapse or limit needs all of "
            "them; narrow the request (url, from, to, filter)"
        )
    if result.cut and not (asked.continues and asked.with_key):
        advice = ", or continue with showResumeKey=true and resumeKey" if asked.continues else ""
        raise UsageError(
            f"the limit of {asked.query.examined:,} captures per request, or of "
            f"{asked.query.filter_seconds:g} seconds for its filters, was reached before the end; "
            f"narrow the request (url, from, to){advice}"
        )
    return keys.write(result.end, asked.query) if result.end is not None and asked.continues else None

"""Connections: broken, slow, with wrong lengths or compression, redirected."""

import gzip
import zlib
from collections.abc import Callable, Sequence

from tests.harvester.hostile.faults import at_page, first_times, from_page, holding, whole
from tests.harvester.hostile.scenario import (
    POISON,
    WHOLE,
    Scenario,
    limited,
    one_lost,
    remote_failed,
    scenario,
)
from tests.harvester.hostile.server import XML_TYPE, Ask, Fault, Reply

_GZIP = [("Content-Encoding", "gzip")]
_QUICK = {"timeout": 0.5}


def _sent(
    change: Callable[[bytes], bytes], headers: Sequence[tuple[str, str]] = (), *, more: int | None = None
) -> Fault:
    """Change the body of every answer, add headers, and announce a wrong number of bytes."""

    def fault(ask: Ask) -> Reply:
        body = change(ask.good)
        length = None if more is None else len(body) + more
        return Reply(body=body, headers=[XML_TYPE, *headers], length=length)

    return fault


def _same(body: bytes) -> bytes:
    return body


def _raw_deflate(body: bytes) -> bytes:
    packer = zlib.compressobj(wbits=-zlib.MAX_WBITS)
    return packer.compress(body) + packer.flush()


def _cut(ask: Ask) -> Reply:
    return Reply(body=ask.good[:1500], length=len(ask.good), reset=True)


def _cut_within(ask: Ask) -> Reply:
    """Reset the connection within the poisoned record."""
    body = ask.good[: ask.good.index(POISON.record().encode()) + 200]
    return Reply(body=body, length=len(ask.good), reset=True)


def _kept_alive(ask: Ask) -> Reply:
    return Reply(body=ask.good, length=len(ask.good) - 300, kept_alive=True)


def _in_chunks(ask: Ask) -> Reply:
    body = b"%x\r\n%s\r\n0\r\n\r\n" % (len(ask.good), ask.good)
    return Reply(body=body, headers=[XML_TYPE, ("Transfer-Encoding", "chunked")], length=len(ask.good))


def _drip(ask: Ask) -> Reply:
    return Reply(body=ask.good, drip=0.05)


def _redirect(location: Callable[[Ask], str | None], code: int = 302) -> Fault:
    def fault(ask: Ask) -> Reply:
        to = location(ask)
        return Reply(status=code, headers=[("Location", to)] if to is not None else [])

    return fault


def _with_cookie(ask: Ask) -> Reply | None:
    """Redirect to the same address with a cookie, as load balancers do."""
    if ask.cookies == "node=7":
        return None
    query = "&".join(f"{name}={value}" for name, value in ask.arguments.items()).replace("|", "%7C")
    headers = [("Location", f"{ask.path}?{query}"), ("Set-Cookie", "node=7; Path=/; HttpOnly")]
    return Reply(status=302, headers=headers)


def _chain(length: int) -> Fault:
    """Redirect several times in a row, then answer."""

    def fault(ask: Ask) -> Reply | None:
        step = int(ask.path.rpartition("-")[2]) if "-" in ask.path else 0
        if step == length:
            return None
        query = "&".join(f"{name}={value}" for name, value in ask.arguments.items()).replace("|", "%7C")
        return Reply(status=302, headers=[("Location", f"/oai-{step + 1}?{query}")])

    return fault


def _bomb(_ask: Ask) -> Reply:
    return Reply(
        body=gzip.compress(b"<OAI-PMH>" + b" " * 30_000_000), headers=[XML_TYPE, ("Content-Encoding", "gzip")]
    )


SCENARIOS: tuple[Scenario, ...] = (
    scenario("reset-once", "the connection is reset within one page, the first time",
        lambda: at_page(10, first_times(1, _cut)), WHOLE),
    scenario("reset-before-answer", "the connection is reset before any byte, the first time",
        lambda: at_page(10, first_times(1, lambda _ask: Reply(status=0))), WHOLE),
    scenario("reset-lasting", "the connection is reset after 1,500 bytes of every answer from the middle on",
        lambda: from_page(10, _cut), WHOLE, remote_failed(10), notable=True),
    scenario("reset-without-answer", "the connection is reset before any byte from the middle on",
        lambda: from_page(10, whole(Reply(status=0))), remote_failed(10)),
    one_lost("reset-for-record", "the connection is reset wherever one record would be",
        lambda: holding(POISON, _cut_within), remote_failed(10)),
    scenario("slow-drip-once", "one page comes byte by byte, the first time",
        lambda: at_page(10, first_times(1, _drip)), WHOLE, settings=_QUICK),
    scenario("slow-drip-lasting", "every answer comes byte by byte from the middle on",
        lambda: from_page(10, _drip), remote_failed(10), settings=_QUICK),
    scenario("no-content-length", "no answer says how long it is",
        lambda: _sent(_same, more=-10_000_000), WHOLE),
    scenario("content-length-too-long", "every answer announces 100 bytes more than come",
        lambda: _sent(_same, more=100), WHOLE),
    scenario("content-length-too-short-once", "one page announces half its bytes, the first time",
        lambda: at_page(10, first_times(1, _sent(_same, more=-2000))), WHOLE),
    one_lost("content-length-too-short", "what holds one record announces 400 bytes too few",
        lambda: holding(POISON, _sent(_same, more=-400)), remote_failed(10)),
    scenario("content-length-too-short-at-end", "every answer announces all but the line breaks at its end",
        lambda: _sent(lambda body: body + b"\n\n", more=-2), WHOLE),
    scenario("content-length-too-short-gzip", "one compressed page announces half its bytes, the first time",
        lambda: at_page(10, first_times(1, _sent(gzip.compress, _GZIP, more=-200))), WHOLE),
    scenario("content-length-too-short-kept-alive",
        "each answer announces 300 bytes too few, the first time, and the rest meets the next request",
        lambda: first_times(1, _kept_alive), WHOLE),
    scenario("content-length-twice", "every answer announces its length twice",
        lambda: lambda ask: Reply(
            body=ask.good, headers=[XML_TYPE, ("Content-Length", str(len(ask.good)))]), WHOLE),
    scenario("content-length-and-chunks", "every answer comes in chunks, and announces its length as well",
        lambda: _in_chunks, WHOLE),
    scenario("blank-before-colon", "every answer has a header field with a blank before its colon",
        lambda: _sent(_same, [("X-Powered-By ", "PHP")]), WHOLE),
    scenario("gzip", "every answer is compressed, and says so",
        lambda: _sent(gzip.compress, [("Content-Encoding", "gzip")]), WHOLE),
    scenario("gzip-unannounced", "every answer is compressed, and does not say so",
        lambda: _sent(gzip.compress), WHOLE),
    scenario("gzip-lie", "every answer says that it is compressed, and is not",
        lambda: _sent(_same, [("Content-Encoding", "gzip")]), WHOLE),
    scenario("deflate", "every answer is compressed by deflate, in zlib's wrapping",
        lambda: _sent(zlib.compress, [("Content-Encoding", "deflate")]), WHOLE),
    scenario("deflate-raw", "every answer is compressed by deflate, without wrapping",
        lambda: _sent(_raw_deflate, [("Content-Encoding", "deflate")]), WHOLE),
    scenario("gzip-broken-once", "one compressed page breaks off, the first time",
        lambda: at_page(10, first_times(1, _sent(
            lambda body: gzip.compress(body)[:-40], [("Content-Encoding", "gzip")]))), WHOLE),
    one_lost("gzip-bomb", "what holds one record would unpack to more than we accept",
        lambda: holding(POISON, _bomb), limited(10), settings={"max_answer_bytes": 20_000_000}),
    scenario("redirects", "every request is redirected three times", lambda: _chain(3), WHOLE),
    scenario("redirect-with-cookie", "requests without a cookie are redirected to themselves, with a cookie",
        lambda: _with_cookie, WHOLE),
    scenario("redirects-too-many", "every request is redirected thirty times",
        lambda: _chain(30), remote_failed(0)),
    scenario("redirect-loop", "every request is redirected to itself",
        lambda: _redirect(lambda ask: f"{ask.base}?verb={ask.verb}"), remote_failed(0)),
    scenario("redirect-nowhere", "every request is redirected without an address",
        lambda: _redirect(lambda _ask: None), remote_failed(0)),
    scenario("redirect-to-file", "every request is redirected to a file of ours",
        lambda: _redirect(lambda _ask: "file:///etc/hostname"), remote_failed(0)),
    scenario("redirect-to-ftp", "every request is redirected to FTP",
        lambda: _redirect(lambda _ask: "ftp://127.0.0.1/oai"), remote_failed(0)),
    scenario("redirect-without-arguments", "every request is redirected to an address without its arguments",
        lambda: lambda ask: None if ask.path == "/new" else Reply(status=301, headers=[("Location", "/new")]),
        WHOLE),
)  # fmt: skip

"""Requests over real sockets to servers with HTTP faults."""

import gzip
import zlib
from urllib.parse import parse_qs

import aiohttp
import pytest

from harvester.client.exchange import HttpRequest, RawReply
from harvester.client.peers import corrected_header, open_sessions
from harvester.client.repository_client import Client, open_client
from harvester.client.transport import MAX_REDIRECTS, HttpReply, HttpTransport, open_transport, request_url
from harvester.reading.errors import (
    AnswerTooLargeError,
    HttpStatusError,
    TransportError,
    TransportKind,
)
from oai.failures import Failure, FailureCode
from oai.reach import UnreachableZoneError, Zone, zone_of
from oai.sections import HarvesterSettings
from tests.harvester.client.raw_server import RawServer, reply, serve_raw
from tests.harvester.fake_repository import FakeRepository, many, serve

_QUICK = HarvesterSettings(retries=0, timeout=10)
_IDENTIFY = FakeRepository().answer({"verb": "Identify"}).encode()


async def _ask(url: str, settings: HarvesterSettings = _QUICK) -> HttpReply:
    async with open_transport(settings) as transport:
        return await transport(url, [("verb", "Identify")])


async def _name(server: RawServer, settings: HarvesterSettings = _QUICK) -> str:
    async with serve_raw(server), open_client(server.url, settings) as client:
        return (await client.identify()).repository_name


@pytest.mark.parametrize(
    ("body", "header"),
    [
        (gzip.compress(_IDENTIFY), "Content-Encoding: gzip"),
        (gzip.compress(_IDENTIFY), "X-Nothing: said"),
        (gzip.compress(_IDENTIFY), "Content-Encoding: deflate"),
        (zlib.compress(_IDENTIFY), "Content-Encoding: deflate"),
        (zlib.compress(_IDENTIFY)[2:-4], "Content-Encoding: deflate"),
        (_IDENTIFY, "Content-Encoding: gzip"),
        (_IDENTIFY, "Content-Encoding: br"),
        (gzip.compress(gzip.compress(_IDENTIFY)), "Content-Encoding: gzip"),
    ],
    ids=["gzip", "not told", "told as deflate", "zlib", "raw", "told in vain", "told as br", "twice"],
)
async def test_a_body_is_read_whatever_compression_is_announced(body: bytes, header: str) -> None:
    assert await _name(RawServer(answer=lambda _: reply(body, header))) == "Fake"


@pytest.mark.parametrize("date", ["Fri, 01 Jan 99999999999999999999 00:00:00 GMT", "yesterday", ""])
async def test_a_date_header_that_cannot_be_read_is_ignored(date: str) -> None:
    assert await _name(RawServer(answer=lambda _: reply(_IDENTIFY, f"Date: {date}"))) == "Fake"


async def test_a_compression_that_was_not_requested_is_named() -> None:
    with pytest.raises(TransportError, match="compressed with 'br', though only gzip and deflate") as caught:
        await _name(RawServer(answer=lambda _: reply(b"\x8b\x02\x80xyz", "Content-Encoding: br")))
    assert caught.value.failure == Failure(code=FailureCode.HTTP_INVALID)


async def test_truncated_compressed_data_count_as_a_lost_connection() -> None:
    body = gzip.compress(_IDENTIFY)[:-20]
    with pytest.raises(TransportError, match="truncated") as caught:
        await _name(RawServer(answer=lambda _: reply(body)))
    assert caught.value.kind is TransportKind.DISCONNECTED


async def test_a_decompression_bomb_is_rejected() -> None:
    body = gzip.compress(_IDENTIFY + b" " * 30_000_000)
    settings = _QUICK.model_copy(update={"max_answer_bytes": 1_000_000})
    with pytest.raises(AnswerTooLargeError, match="1,000,000"):
        await _name(RawServer(answer=lambda _: reply(body)), settings)


async def test_a_whole_answer_is_accepted_if_the_announced_length_is_too_long() -> None:
    server = RawServer(answer=lambda _: reply(_IDENTIFY, length=len(_IDENTIFY) + 1000))
    assert await _name(server) == "Fake"
    assert len(server.asked) == 1


async def test_a_whole_answer_is_accepted_if_its_length_is_wrong_and_the_connection_stays_open() -> None:
    settings = _QUICK.model_copy(update={"slow_seconds": 0.2})
    server = RawServer(answer=lambda _: reply(_IDENTIFY, length=len(_IDENTIFY) + 1000), hold=True)
    assert await _name(server, settings) == "Fake"


async def test_a_truncated_answer_counts_as_a_lost_connection() -> None:
    server = RawServer(answer=lambda _: reply(_IDENTIFY[:300], length=len(_IDENTIFY)))
    with pytest.raises(TransportError) as caught:
        await _name(server)
    assert caught.value.kind is TransportKind.DISCONNECTED


_CHUNKS = b"%x\r\n%s\r\n0\r\n\r\n" % (len(_IDENTIFY), _IDENTIFY)
_SIZE = len(_IDENTIFY)


def _answer(*header: str, body: bytes = _IDENTIFY) -> RawServer:
    """Return a server whose answers have only this header and close the connection."""
    head = "\r\n".join(["HTTP/1.1 200 OK", "Connection: close", *header, "", ""])
    return RawServer(answer=lambda _: head.encode() + body)


@pytest.mark.parametrize(
    "server",
    [
        _answer(f"Content-Length: {_SIZE}", f"content-length:{_SIZE}"),
        _answer(f"Content-Length: {_SIZE}, {_SIZE}"),
        _answer(f"Content-Length: {_SIZE}", "Transfer-Encoding: chunked", body=_CHUNKS),
        _answer("Transfer-Encoding : chunked", "Content-Length: 7", body=_CHUNKS),
        _answer("X-Powered-By : PHP", f"Content-Length: {_SIZE}"),
        _answer("Transfer-Encoding: identity", f"Content-Length: {_SIZE}"),
        _answer(f"Content-Length: {_SIZE}", "Transfer-encoding:Identity"),
    ],
    ids=[
        "repeated",
        "as a list",
        "and chunked",
        "wrong and chunked",
        "blank before colon",
        "identity",
        "last",
    ],
)
async def test_a_header_with_a_clear_meaning_is_read_even_if_it_breaks_the_rules(server: RawServer) -> None:
    async with serve_raw(server), open_client(server.url, _QUICK) as client:
        assert (await client.identify()).repository_name == "Fake"
        assert (await client.identify()).repository_name == "Fake"
    assert len(server.asked) == 3, "the server's later answers are read leniently at once"


async def test_an_answer_whose_transfer_encoding_is_identity_is_read_until_the_connection_closes() -> None:
    assert await _name(_answer("Transfer-Encoding: identity")) == "Fake"


async def test_a_correct_header_is_not_changed() -> None:
    header = b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\nX-Folded: a\r\n b : c\r\nX-Url: http : //x"
    assert corrected_header(header) == header


@pytest.mark.parametrize(
    ("server", "found"),
    [
        (_answer("Content-Length: 5", f"Content-Length: {_SIZE}"), "Duplicate Content-Length"),
        (_answer(f"Content-Length: +{_SIZE}"), "Invalid character in Content-Length"),
        (_answer("No field"), "Invalid header token"),
        (_answer("Transfer-Encoding: chunked", body=b"5\nhello\n0\n\n"), "Expected LF after chunk size"),
    ],
    ids=["two lengths", "no number", "no colon", "chunks"],
)
async def test_an_answer_that_breaks_the_rules_of_http_is_reported_as_such(
    server: RawServer, found: str
) -> None:
    settings = _QUICK.model_copy(update={"retries": 3})
    with pytest.raises(TransportError) as caught:
        await _name(server, settings)
    assert str(caught.value).endswith(f": the answer breaks the rules of HTTP ({found})")
    assert caught.value.failure == Failure(code=FailureCode.HTTP_INVALID)
    assert len(server.asked) == 2


async def test_a_lenient_connection_does_not_lead_to_private_addresses_either() -> None:
    server = _answer(f"Content-Length: {_SIZE}", f"Content-Length: {_SIZE}")
    async with serve_raw(server):
        for lenient in (False, True):
            async with open_sessions(None, zone_of, private=True) as sessions:
                session = sessions.choose(public_only=True, lenient=lenient)
                with pytest.raises(aiohttp.ClientConnectorError) as caught:
                    await session.get(server.url)
                assert isinstance(caught.value.os_error, UnreachableZoneError)
    assert not server.asked


async def test_the_received_part_of_a_truncated_page_is_used_in_lenient_reading() -> None:
    body = FakeRepository(items=many(5)).answer({"verb": "ListRecords"}).encode()
    cut = body[: body.index(b"Title 3")]
    server = RawServer(answer=lambda _: reply(cut, length=len(body)))
    async with serve_raw(server), open_client(server.url, _QUICK) as client:
        page = await anext(client.records(loose=True).pages())
        assert len(page.records) == 3
        assert page.cut_off
        with pytest.raises(TransportError):
            await anext(client.records())


async def test_a_slow_answer_is_cancelled_long_before_the_time_limit() -> None:
    server = RawServer(answer=lambda _: reply(_IDENTIFY), drip=0.02)
    settings = HarvesterSettings(retries=0, timeout=3600, slow_seconds=0.3, slow_rate=1000)
    with pytest.raises(TransportError, match="slow_rate") as caught:
        await _name(server, settings)
    assert caught.value.kind is TransportKind.TIMEOUT


async def test_a_steady_answer_may_take_longer_than_slow_seconds() -> None:
    server = RawServer(answer=lambda _: reply(_IDENTIFY), drip=0.001)
    assert await _name(server, HarvesterSettings(retries=0, slow_seconds=0.3, slow_rate=10)) == "Fake"


def _with_cookie(server: RawServer) -> bytes:
    """Redirect requests without the cookie to the same address, with the cookie."""
    if "\r\nCookie: node=7\r\n" in server.asked[-1]:
        return reply(_IDENTIFY)
    return reply(b"", "Location: /oai?verb=Identify", "Set-Cookie: node=7; Path=/", status="302 Found")


async def test_cookies_are_kept_for_the_repository_even_if_its_host_is_an_ip_address() -> None:
    server = RawServer(answer=lambda _: _with_cookie(server))
    async with serve_raw(server), open_client(server.url, _QUICK) as client:
        await client.identify()
        await client.identify()
    assert len(server.asked) == 3
    assert "cookie" not in server.asked[0].lower()


async def test_cookies_are_kept_when_further_requests_may_lead_only_to_the_public_internet() -> None:
    server = RawServer(answer=lambda _: _with_cookie(server))
    settings = _QUICK.model_copy(update={"private_addresses": True})
    opened = open_transport(settings, zone_of=lambda _: Zone.PUBLIC)
    async with serve_raw(server), opened as transport:
        assert (await transport(server.url, [("verb", "Identify")])).status == 200


async def test_redirects_are_followed_and_recorded() -> None:
    async with serve(FakeRepository()) as repository:

        def answer(line: str) -> bytes:
            if "/oai" not in line:
                return reply(b"", f"Location: {repository.url}?verb=Identify", status="301 Moved")
            return reply(b"", "Location: /new?verb=Identify#part", status="302 Found")

        async with serve_raw(RawServer(answer=answer)) as server:
            found = await _ask(server.url)
            base = server.url.removesuffix("/oai")
    assert found.status == 200
    assert found.hops == [f"{base}/new?verb=Identify", f"{repository.url}?verb=Identify"]
    assert found.url == f"{server.url}?verb=Identify"


async def test_arguments_are_added_to_a_redirect_without_them() -> None:
    async with serve(FakeRepository()) as repository:
        server = RawServer(answer=lambda _: reply(b"", f"Location: {repository.url}", status="301 Moved"))
        assert await _name(server) == "Fake"


@pytest.mark.parametrize(
    "location",
    [
        "file:///etc/passwd",
        "ftp://127.0.0.1/x",
        "javascript:alert(1)",
        "gopher://x/",
        "http:///nowhere",
        "http://[x",
        "http://127.0.0.1:99999/oai",
    ],
)
async def test_redirects_lead_only_to_http(location: str) -> None:
    server = RawServer(answer=lambda _: reply(b"", f"Location: {location}", status="302 Found"))
    async with serve_raw(server):
        with pytest.raises(TransportError) as caught:
            await _ask(server.url)
    assert caught.value.kind is TransportKind.REDIRECT
    assert location in str(caught.value)


async def test_credentials_of_an_address_are_sent_only_to_its_server_and_shown_in_no_message() -> None:
    other = RawServer(answer=lambda _: reply(_IDENTIFY))
    async with serve_raw(other):
        server = RawServer(answer=lambda _: b"")
        moved = iter([f"{server.url}/moved", other.url, other.url])
        server.answer = lambda _: reply(b"", f"Location: {next(moved)}", status="302 Found")
        async with serve_raw(server):
            moved = iter([f"{server.url}/moved", other.url])
            answered = await _ask(server.url.replace("://", "://me:s%40cret@"))
    sent = ["Authorization: Basic bWU6c0BjcmV0\r\n" in one for one in server.asked]
    assert sent == [True, True]
    assert not any("Authorization" in one for one in other.asked)
    assert answered.url == f"{server.url}?verb=Identify"
    with pytest.raises(TransportError) as raised:
        await _ask(server.url.replace("://", "://me:s%40cret@"))  # The server is gone.
    assert "cret" not in str(raised.value) + raised.value.url


async def test_redirects_have_a_limit() -> None:
    server = RawServer(answer=lambda _: reply(b"", "Location: /oai?verb=Identify", status="307 Again"))
    async with serve_raw(server):
        with pytest.raises(TransportError, match=f"more than {MAX_REDIRECTS} redirects"):
            await _ask(server.url)
    assert len(server.asked) == MAX_REDIRECTS + 1


async def test_a_redirect_keeps_encoded_characters_and_encodes_the_others() -> None:
    def answer(line: str) -> bytes:
        if "/oai" in line:
            return reply(b"", "Location: /ně co?a=%2Fb%20c", status="302 Found")
        return reply(_IDENTIFY)

    server = RawServer(answer=answer)
    assert await _name(server) == "Fake"
    assert server.asked[1].startswith("GET /n%C4%9B%20co?a=%2Fb%20c HTTP/1.1")


async def test_a_large_answer_with_an_error_status_is_read_completely() -> None:
    body = _IDENTIFY.replace(b"</OAI-PMH>", b"<!--" + b"x" * 500_000 + b"--></OAI-PMH>")
    assert await _name(RawServer(answer=lambda _: reply(body, status="404 Not Found"))) == "Fake"


async def test_an_internationalised_host_name_is_sent_in_ascii() -> None:
    sent: list[HttpRequest] = []

    async def send(request: HttpRequest) -> RawReply:
        sent.append(request)
        location = [("Location", "//me@ŽLUŤ.example:81/ně?verb=Identify")] if len(sent) == 1 else []
        return RawReply(status=302 if location else 200, reason="", headers=location, body=b"")

    await HttpTransport(send=send)("http://žatva.example:8080/oai", [("verb", "Identify")])
    assert [request.url for request in sent] == [
        "http://xn--atva-kbb.example:8080/oai?verb=Identify",
        "http://me@xn--lu-yta1h.example:81/n%C4%9B?verb=Identify",
    ]


async def test_a_redirect_status_without_a_location_is_an_error_status() -> None:
    with pytest.raises(HttpStatusError, match="304"):
        await _name(RawServer(answer=lambda _: reply(b"", status="304 Not Modified")))


async def test_post_sends_a_form() -> None:
    server = RawServer(answer=lambda _: reply(_IDENTIFY))
    async with serve_raw(server), open_client(f"{server.url}?site=1", _QUICK, method="POST") as client:
        await client.identify()
    assert server.asked[0].startswith("POST /oai?site=1 HTTP/1.1")
    assert "Content-Type: application/x-www-form-urlencoded\r\n" in server.asked[0]
    assert parse_qs(server.bodies[0].decode()) == {"verb": ["Identify"]}


async def test_a_server_that_rejects_long_addresses_receives_post_requests_from_then_on() -> None:
    def answer(line: str) -> bytes:
        return reply(_IDENTIFY) if line.startswith("POST") else reply(b"", status="414 URI Too Long")

    server = RawServer(answer=answer)
    async with serve_raw(server), open_client(server.url, _QUICK) as client:
        await client.identify()
        await client.identify()
    assert [head.split()[0] for head in server.asked] == ["GET", "POST", "POST"]


@pytest.mark.parametrize(("status", "methods"), [(307, ["POST", "POST"]), (303, ["POST", "GET"])])
async def test_a_redirected_form_stays_a_form_unless_the_status_is_see_other(
    status: int, methods: list[str]
) -> None:
    def answer(line: str) -> bytes:
        if "/oai" in line:
            return reply(b"", "Location: /new", status=f"{status} Elsewhere")
        return reply(_IDENTIFY)

    server = RawServer(answer=answer)
    async with serve_raw(server), open_client(server.url, _QUICK, method="POST") as client:
        await client.identify()
    assert [head.split()[0] for head in server.asked] == methods
    assert server.bodies[1] == (b"verb=Identify" if status == 307 else b"")


async def test_the_caller_may_pass_a_session_which_stays_open() -> None:
    body = gzip.compress(_IDENTIFY)
    server = RawServer(answer=lambda _: reply(body, "Content-Encoding: gzip"))
    async with serve_raw(server), aiohttp.ClientSession(headers={"X-Mine": "yes"}) as session:
        async with open_client(server.url, _QUICK, session=session) as client:
            await client.identify()
        assert not session.closed
    assert "X-Mine: yes" in server.asked[0]
    assert "User-Agent: Zatva" in server.asked[0]


async def test_user_agent_contact_and_accepted_encodings_are_sent() -> None:
    server = RawServer(answer=lambda _: reply(_IDENTIFY))
    await _name(server, HarvesterSettings(user_agent="Mine/1", contact="me@example.org"))
    assert "User-Agent: Mine/1\r\n" in server.asked[0]
    assert "From: me@example.org\r\n" in server.asked[0]
    assert "Accept-Encoding: gzip, deflate\r\n" in server.asked[0]


async def test_any_function_may_be_the_transport() -> None:
    async def transport(base_url: str, arguments: object) -> HttpReply:
        return HttpReply(url=f"{base_url}?{arguments}", status=200, headers={}, body=_IDENTIFY)

    assert (await Client("http://x.example/", transport).identify()).repository_name == "Fake"


def test_a_base_url_may_have_arguments_or_a_fragment() -> None:
    wanted = [("verb", "Identify")]
    assert request_url("http://x/o?a=b", wanted) == "http://x/o?a=b&verb=Identify"
    assert request_url("http://x/o?", wanted) == "http://x/o?verb=Identify"
    assert request_url("http://x/o#top", wanted) == "http://x/o?verb=Identify"


async def test_a_page_that_is_repeatedly_truncated_is_requested_a_limited_number_of_times() -> None:
    body = FakeRepository(items=many(5)).answer({"verb": "ListRecords"}).encode()
    server = RawServer(answer=lambda _: reply(body[:-300], length=len(body)))
    settings = HarvesterSettings(retries=2)

    async def at_once(_: float) -> None:
        """Return without waiting."""

    async with serve_raw(server), open_client(server.url, settings, sleep=at_once) as client:
        page = await anext(client.records(loose=True).pages())
    assert page.cut_off
    assert len(server.asked) == 3

"""Documents are fetched from a provider that is busy, refuses, fails, sends wrong data, or is gone."""

import asyncio
from base64 import b16encode, b32encode, b64encode, urlsafe_b64encode
from collections.abc import Callable, Sequence
from hashlib import sha256

import pytest

from harvester.client import ServerBusyError, TransportError, TransportKind
from harvester.client.exchange import HttpRequest, RawReply
from harvester.client.retries import Retrying
from harvester.client.transport import HttpTransport
from harvester.restoring.captures import Capture
from harvester.restoring.documents import FetchedDocument, Fetcher, fetch_all
from harvester.restoring.manifest import Missing, Reason
from oai.limits import AnswerLimits
from tests.harvester.restoring.listed import capture, sha1

_FALLBACK = "application/octet-stream"
_BODY = b"\x1f\x8b as archived"


class Server:
    """Replays these answers, then repeats the last one."""

    def __init__(self, *answers: RawReply | TransportError) -> None:
        self.answers = list(answers)
        self.asked: list[HttpRequest] = []
        self.waits: list[float] = []

    async def __call__(self, request: HttpRequest) -> RawReply:
        self.asked.append(request)
        answer = self.answers.pop(0) if len(self.answers) > 1 else self.answers[0]
        if isinstance(answer, TransportError):
            raise answer
        return answer

    def fetcher(self, most: int = 1000) -> Fetcher:
        async def sleep(seconds: float) -> None:
            self.waits.append(seconds)

        return Fetcher(
            base_url="http://p.example/oai",
            transport=HttpTransport(send=self, limits=AnswerLimits(answer_bytes=1000)),
            retrying=Retrying(retries=2, max_wait=100, sleep=sleep),
            most=most,
        )


def _reply(status: int = 200, body: bytes = _BODY, **headers: str) -> RawReply:
    fields = [(name.replace("_", "-"), value) for name, value in headers.items()]
    return RawReply(status=status, headers=fields, body=body)


_SILENT = TransportError("http://p.example/", TransportKind.REFUSED, "nobody is there")


async def test_a_document_is_returned_as_archived_with_its_metadata() -> None:
    server = Server(
        _reply(Content_Type="text/html", Content_Encoding="gzip", X_Archive_Orig_Status="302",
               X_Archive_Orig_Location="/x")
    )  # fmt: skip
    found = await server.fetcher()(capture(digest=sha1(_BODY)))
    assert isinstance(found, FetchedDocument)
    assert (found.body, found.content_type, found.encoding) == (_BODY, "text/html", "gzip")
    assert (found.status, found.fields, found.verified) == (302, {"Location": "/x"}, True)
    assert dict(server.asked[0].headers)["Accept-Encoding"] == "identity"
    assert server.asked[0].url == f"http://p.example/archive/{found.capture.key}"


@pytest.mark.parametrize(("listed", "expected"), [("unknown", ""), ("application/octet-stream", _FALLBACK)])
async def test_the_default_content_type_of_a_provider_is_not_used_for_the_document(
    listed: str, expected: str
) -> None:
    found = await Server(_reply(Content_Type=_FALLBACK)).fetcher()(capture(mime_type=listed))
    assert isinstance(found, FetchedDocument)
    assert found.content_type == expected


@pytest.mark.parametrize(
    ("answer", "reason", "requests"),
    [
        (_reply(body=b"something else"), Reason.DIGEST, 2),
        (_reply(403, b"403: in the reading room only"), Reason.RESTRICTED, 1),
        (_reply(410, b"410: withheld"), Reason.WITHHELD, 1),
        (_reply(404, b"404: no document has this identifier"), Reason.GONE, 1),
        (_reply(500, b"500: the archived record is damaged"), Reason.DAMAGED, 1),
        (_reply(500, b"<h1>Internal error</h1>"), Reason.REFUSED, 3),
        (_reply(503, b"503: the archive file cannot be read"), Reason.UNAVAILABLE, 1),
        (_reply(404, b"<h1>What?</h1>"), Reason.REFUSED, 1),
        (_SILENT, Reason.UNAVAILABLE, 3),
    ],
)
async def test_a_missing_document_is_reported_with_the_reason(
    answer: RawReply | TransportError, reason: Reason, requests: int
) -> None:
    server = Server(answer)
    found = await server.fetcher()(capture(digest=sha1(_BODY)))
    assert isinstance(found, Missing)
    assert (found.reason, len(server.asked)) == (reason, requests)
    assert found.detail


async def test_a_busy_provider_is_requested_again_at_the_time_that_it_named() -> None:
    server = Server(_reply(503, b"503: busy", Retry_After="7"), _reply())
    assert isinstance(await server.fetcher()(capture(digest=sha1(_BODY))), FetchedDocument)
    assert server.waits == [7]


async def test_a_provider_that_is_busy_for_too_long_ends_the_run() -> None:
    with pytest.raises(ServerBusyError):
        await Server(_reply(503, b"503: busy", Retry_After="9000")).fetcher()(capture())


async def test_bytes_damaged_in_transit_are_fetched_again() -> None:
    server = Server(_reply(body=b"broken"), _reply())
    assert isinstance(await server.fetcher()(capture(digest=sha1(_BODY))), FetchedDocument)


@pytest.mark.parametrize("encode", [b64encode, urlsafe_b64encode, b32encode, b16encode])
async def test_a_digest_is_read_in_each_notation(encode: Callable[[bytes], bytes]) -> None:
    digest = f"SHA-256:{encode(sha256(_BODY).digest()).decode()}"
    found = await Server(_reply()).fetcher()(capture(digest=digest))
    assert isinstance(found, FetchedDocument)
    assert found.verified


@pytest.mark.parametrize("digest", ["", "sha1:", "sha1:short", "crc32:ABCD"])
async def test_a_document_without_a_digest_counts_as_not_verified(digest: str) -> None:
    found = await Server(_reply()).fetcher()(capture(digest=digest))
    assert isinstance(found, FetchedDocument)
    assert not found.verified


async def test_a_digest_of_the_chunked_body_counts_as_not_verified() -> None:
    server = Server(_reply(X_Archive_Orig_Transfer_Encoding="chunked"))
    found = await server.fetcher()(capture(digest=sha1(b"5\r\nchunk")))
    assert isinstance(found, FetchedDocument)
    assert not found.verified


async def test_a_document_that_is_too_large_is_not_requested() -> None:
    server = Server(_reply())
    found = await server.fetcher(most=10)(capture(length=11))
    assert isinstance(found, Missing)
    assert (found.reason, server.asked) == (Reason.TOO_LARGE, [])


async def test_an_unreachable_provider_ends_the_run_and_received_documents_are_kept() -> None:
    kept: list[str] = []

    def keep(documents: Sequence[FetchedDocument]) -> None:
        kept.extend(document.capture.url for document in documents)

    server = Server(_reply(), _reply(), _SILENT)
    captures: list[Capture] = [capture(url=f"http://h.example/{number}") for number in range(50)]
    with pytest.raises(TransportError):
        await fetch_all(captures, server.fetcher(), keep, workers=1, on_done=lambda *_: None)
    assert kept == [one.url for one in captures[:2]]
    assert len(server.asked) == 2 + 5 * 3


async def test_the_number_of_concurrent_requests_is_limited() -> None:
    under_way, most = 0, 0

    async def fetch(one: Capture) -> FetchedDocument | Missing:
        nonlocal under_way, most
        under_way += 1
        most = max(most, under_way)
        await asyncio.sleep(0)
        under_way -= 1
        return Missing(reason=Reason.GONE, detail="", identifier=one.identifier)

    absent = await fetch_all([capture()] * 20, fetch, lambda _: None, workers=3, on_done=lambda *_: None)
    assert (len(absent), most) == (20, 3)

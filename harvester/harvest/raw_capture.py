"""Keeps every request and answer of a run in one WARC file, so that it can be replayed.

Each process writes its own file. When an interrupted run is resumed, the new process writes another one; a
record of type `metadata` with the start of the run links the files.
"""

import asyncio
import json
import os
import threading
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from io import BytesIO
from pathlib import Path
from typing import Any, BinaryIO
from urllib.parse import urlsplit

from warcio.archiveiterator import ArchiveIterator
from warcio.statusandheaders import StatusAndHeaders
from warcio.warcwriter import WARCWriter

from harvester.client.exchange import AUTHORIZATION, HttpRequest, RawReply, Send
from harvester.reading.errors import ClientError, TransportError, TransportKind
from oai.datestamps import parse_datestamp
from oai.errors import required
from oai.settings import Settings

RUN_URI = "urn:zatva:run"
"""Target URI of the record that states which run a file belongs to."""
FETCH_ERROR = "fetchError"
"""The field with the reason why a request has no answer."""
_FIELDS = "application/warc-fields"
_SOFTWARE = "Zatva (OAI-PMH harvester)"


def raw_folder(settings: Settings, repository_id: int) -> Path:
    """Return the folder of a repository's raw answers, which is outside the store of records."""
    return settings.data / "raw" / str(repository_id)


def raw_file(settings: Settings, repository_id: int, started: datetime) -> Path:
    """Return a file name for a process that starts now; the names sort by time."""
    name = f"{started.astimezone(UTC):%Y%m%dT%H%M%S.%f}Z-{os.getpid()}.warc.gz"
    return raw_folder(settings, repository_id) / name


class RawCapture:
    """An open WARC file, created with the first request and complete after each record.

    Exchanges are written in worker threads. The lock keeps their records apart, and an answer that arrives
    after `close` is dropped.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self._file: BinaryIO | None = None
        self._closed = False
        self._lock = threading.Lock()

    @property
    def begun(self) -> bool:
        """Whether the file exists."""
        return self._file is not None

    def around(self, send: Send) -> Send:
        """Wrap `send`, so that each exchange is written to the file before it is processed."""

        async def captured(request: HttpRequest) -> RawReply:
            try:
                reply = await send(request)
            except ClientError as error:
                await asyncio.to_thread(self._write_failure, request, str(error))
                raise
            await asyncio.to_thread(self._write_exchange, request, reply)
            return reply

        return captured

    def note_run(self, facts: Mapping[str, Any]) -> None:
        """Record which run the file belongs to, and what is needed to repeat its requests."""
        payload = json.dumps(dict(facts)).encode()
        with self._lock:
            writer = self._writer()
            self._write(writer, _metadata_record(writer, RUN_URI, payload, "application/json", {}))

    def close(self) -> None:
        """Close the file after syncing it to disk."""
        with self._lock:
            self._closed = True
            if self._file is not None:
                os.fsync(self._file.fileno())
                self._file.close()

    def _write_exchange(self, request: HttpRequest, reply: RawReply) -> None:
        with self._lock:
            if self._closed:
                return
            writer = self._writer()
            kept = _request_record(writer, request)
            headers = {"WARC-Concurrent-To": kept.rec_headers.get_header("WARC-Record-ID")}
            if reply.cut is not None:
                headers["WARC-Truncated"] = _truncation(reply.cut)
            answer = writer.create_warc_record(
                request.url,
                "response",
                payload=BytesIO(reply.body),
                length=len(reply.body),
                warc_headers_dict=headers,
                http_headers=_http_headers(_status(reply), reply.headers),
            )
            self._write(writer, kept, answer)

    def _write_failure(self, request: HttpRequest, reason: str) -> None:
        with self._lock:
            if self._closed:
                return
            writer = self._writer()
            kept = _request_record(writer, request)
            headers = {"WARC-Concurrent-To": kept.rec_headers.get_header("WARC-Record-ID")}
            payload = f"{FETCH_ERROR}: {' '.join(reason.split())}\r\n".encode()
            self._write(writer, kept, _metadata_record(writer, request.url, payload, _FIELDS, headers))

    def _writer(self) -> Any:  # noqa: ANN401 warcio publishes no types
        if self._file is None:
            self.path.parent.mkdir(parents=True, exist_ok=True)
            self._file = self.path.open("xb")
            writer = WARCWriter(self._file, gzip=True, warc_version="1.1")
            self._write(writer, writer.create_warcinfo_record(self.path.name, {"software": _SOFTWARE}))
            return writer
        return WARCWriter(self._file, gzip=True, warc_version="1.1")

    def _write(self, writer: Any, *records: Any) -> None:  # noqa: ANN401 warcio publishes no types
        for record in records:
            writer.write_record(record)
        required(self._file, "the writer writes to it").flush()


def _request_record(writer: Any, request: HttpRequest) -> Any:  # noqa: ANN401 warcio publishes no types
    parts = urlsplit(request.url)
    path = parts.path or "/"
    line = f"{request.method} {path}{'?' + parts.query if parts.query else ''} HTTP/1.1"
    sent = [pair for pair in request.headers if pair[0] != AUTHORIZATION]
    headers = [("Host", parts.netloc), *sent]
    return writer.create_warc_record(
        request.url,
        "request",
        payload=BytesIO(request.body),
        length=len(request.body),
        http_headers=StatusAndHeaders(line, headers, is_http_request=True),
    )


def _metadata_record(
    writer: Any,  # noqa: ANN401 warcio publishes no types
    uri: str,
    payload: bytes,
    content_type: str,
    headers: dict[str, str],
) -> Any:  # noqa: ANN401
    return writer.create_warc_record(
        uri,
        "metadata",
        payload=BytesIO(payload),
        length=len(payload),
        warc_content_type=content_type,
        warc_headers_dict=headers,
    )


def _status(reply: RawReply) -> str:
    # warcio escapes headers that are not in ASCII, but refuses such a status line.
    return f"{reply.status} {reply.reason.encode('ascii', 'backslashreplace').decode()}".rstrip()


def _http_headers(status: str, headers: Any) -> StatusAndHeaders:  # noqa: ANN401 pairs of texts
    # The body is stored without its chunk framing, so readers must not expect it.
    renamed = [
        (f"X-Archive-Orig-{name}" if name.lower() == "transfer-encoding" else name, value)
        for name, value in headers
    ]
    return StatusAndHeaders(status, renamed, protocol="HTTP/1.1")


def _truncation(cut: TransportError) -> str:
    return "time" if cut.kind is TransportKind.TIMEOUT else "disconnect"


@dataclass(frozen=True, kw_only=True)
class KeptRequest:
    """One exchange: the time of capture, the URL, and the answer's size and status."""

    at: datetime | None
    url: str
    status: str
    """The HTTP status, or the reason why there was no answer."""
    size: int
    """Bytes of the body as received, compressed or not."""


def requests_of(file: Path, *, limit: int) -> list[KeptRequest]:
    """Return the first requests in file order. Raises OSError if the file cannot be read."""
    found: list[KeptRequest] = []
    with file.open("rb") as opened:
        for record in ArchiveIterator(opened):
            kept = _kept(record)
            if kept is not None:
                found.append(kept)
            if len(found) == limit:
                break
    return found


def _kept(record: object) -> KeptRequest | None:
    kind, headers = getattr(record, "rec_type"), getattr(record, "rec_headers")  # noqa: B009 warcio publishes no types
    body: bytes = getattr(record, "raw_stream").read()  # noqa: B009 as above
    if kind == "response":
        http = getattr(record, "http_headers")  # noqa: B009 as above
        status, size = http.get_statuscode(), len(body)
    elif kind == "metadata" and body.startswith(FETCH_ERROR.encode()):
        status, size = body.decode(errors="replace").partition(": ")[2].strip(), 0
    else:
        return None
    return KeptRequest(
        at=_moment(headers.get_header("WARC-Date") or ""),
        url=headers.get_header("WARC-Target-URI") or "",
        status=status,
        size=size,
    )


def _moment(text: str) -> datetime | None:
    try:
        return parse_datestamp(text[:19] + "Z").moment
    except ValueError:
        return None

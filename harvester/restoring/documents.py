"""Fetch an archived document from a Zatva provider, and verify that it is what was archived."""

import asyncio
import re
from collections.abc import Awaitable, Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final
from urllib.parse import urljoin

from harvester.client import (
    AnswerTooLargeError,
    ClientError,
    HttpReply,
    TransportError,
)
from harvester.client.retries import Retrying
from harvester.client.transport import HttpTransport
from harvester.restoring.captures import Capture
from harvester.restoring.manifest import BY_STATUS, Missing, Reason, missing
from oai.digests import DigestCheck

_SUCCESS: Final = 200
_BUSY: Final = 503
_ORIGINAL: Final = "X-Archive-Orig-"
_NO_TYPE: Final = ("unknown", "application/octet-stream")
"""How a provider lists, and how it sends, a document that was archived without a type."""
_WITH_STATUS: Final = re.compile(rb"\A[0-9]{3}: ")
"""The beginning of a provider's answer that says why a document is not delivered."""
_LONGEST_DETAIL: Final = 500
_HEAVY: Final = 32 * 1024**2
"""In bytes; larger documents are fetched one at a time."""
_FAILURES: Final = 5
"""After this many documents in a row without an answer, the provider counts as unreachable."""


@dataclass(frozen=True, kw_only=True)
class FetchedDocument:
    """A document as archived."""

    capture: Capture
    body: bytes
    """With its content encoding, if it has one."""
    content_type: str
    """Empty if the archive has none."""
    encoding: str
    """Content-Encoding; usually empty."""
    status: int | None
    fields: Mapping[str, str]
    """Other fields of its HTTP header, as far as the provider delivers them."""
    verified: bool
    """Whether its digest was compared; some archives have none."""


class NotGivenError(Exception):
    """The provider does not deliver a document; the message says why."""

    def __init__(self, status: int, detail: str) -> None:
        super().__init__(detail)
        self.status = status


@dataclass(kw_only=True)
class Fetcher:
    """Fetches documents from one provider."""

    base_url: str
    transport: HttpTransport
    retrying: Retrying
    most: int
    """In bytes; larger documents are not fetched."""
    requests: int = 0
    bytes: int = 0
    _failures: int = 0
    _heavy: asyncio.Semaphore = field(default_factory=lambda: asyncio.Semaphore(1))

    async def __call__(self, capture: Capture) -> FetchedDocument | Missing:
        """Return the document of a capture, or why it is missing.

        Raises TryLaterError if the provider asks to come back later than the configured wait, and
        TransportError if it does not answer several times in a row.
        """
        if capture.length is not None and capture.length > self.most:
            detail = (
                f"{capture.length:,} bytes exceed the limit of {self.most:,}; see setting max_answer_bytes"
            )
            return missing(capture, Reason.TOO_LARGE, detail)
        if capture.length is None or capture.length > _HEAVY:
            async with self._heavy:
                return await self._fetched(capture)
        return await self._fetched(capture)

    async def _fetched(self, capture: Capture) -> FetchedDocument | Missing:
        try:
            document = await self._checked(capture)
        except NotGivenError as error:
            reason = BY_STATUS.get(error.status, Reason.UNAVAILABLE)
            found: FetchedDocument | Missing = missing(capture, reason, str(error))
        except AnswerTooLargeError as error:
            found = missing(capture, Reason.TOO_LARGE, str(error))
        except TransportError as error:
            self._failures += 1
            if self._failures >= _FAILURES:
                raise
            return missing(capture, Reason.UNAVAILABLE, str(error))
        except ClientError as error:
            found = missing(capture, Reason.REFUSED, str(error))
        else:
            found = document
        self._failures = 0
        return found

    async def _checked(self, capture: Capture) -> FetchedDocument | Missing:
        for _ in range(2):  # the error may have occurred in transmission
            reply = await self._reply(capture)
            chunked = "chunked" in reply.headers.get(f"{_ORIGINAL}Transfer-Encoding", "").lower()
            check = DigestCheck(capture.digest)
            check.see(reply.body)
            if check.well() or not check.known or chunked:
                # Some archives store the digest of the chunked body; the provider compares it and then joins
                # the chunks.
                return _document(capture, reply, verified=check.well())
        detail = (
            f"{len(reply.body):,} bytes were received, but they do not have the digest {capture.digest!r}"
        )
        return missing(capture, Reason.DIGEST, detail)

    async def _reply(self, capture: Capture) -> HttpReply:
        url = urljoin(self.base_url, f"archive/{capture.key}")

        async def attempt() -> HttpReply:
            self.requests += 1
            reply = await self.transport.fetch(url)
            self.bytes += len(reply.body)
            _raise_not_given(reply)
            if reply.cut is not None:
                raise reply.cut
            return reply

        return await self.retrying.fetch(attempt)


def _raise_not_given(reply: HttpReply) -> None:
    """Raise what the provider reports about a document, unless it is only busy."""
    if reply.status == _SUCCESS or not _WITH_STATUS.match(reply.body):
        return
    if reply.status in BY_STATUS or (reply.status == _BUSY and "Retry-After" not in reply.headers):
        words = " ".join(reply.body.decode("utf-8", errors="replace").partition(": ")[2].split())
        raise NotGivenError(reply.status, words[:_LONGEST_DETAIL])


def _document(capture: Capture, reply: HttpReply, *, verified: bool) -> FetchedDocument:
    status = reply.headers.get(f"{_ORIGINAL}Status", "")
    fields = {
        name[len(_ORIGINAL) :]: value
        for name, value in reply.headers.items()
        if name.lower().startswith(_ORIGINAL.lower()) and name.lower() != f"{_ORIGINAL}status".lower()
    }
    return FetchedDocument(
        capture=capture,
        body=reply.body,
        content_type="" if (capture.mime_type, reply.content_type) == _NO_TYPE else reply.content_type,
        encoding=reply.headers.get("Content-Encoding", ""),
        status=int(status) if status.isascii() and status.isdigit() else capture.status,
        fields=fields,
        verified=verified,
    )


_MOST_DOCUMENTS: Final = 64
_MOST_BYTES: Final = 8 * 1024**2

Fetch = Callable[[Capture], Awaitable[FetchedDocument | Missing]]
Keep = Callable[[Sequence[FetchedDocument]], None]
"""Stores documents; blocking, and durable when it returns."""


class Batches:
    """Collects documents into batches that are worth writing."""

    def __init__(self, keep: Keep) -> None:
        self._keep = keep
        self._held: list[FetchedDocument] = []
        self._size = 0
        self._lock = asyncio.Lock()

    async def add(self, document: FetchedDocument) -> None:
        """Add a document; the caller that fills a batch waits until it is stored, and so do the others."""
        async with self._lock:
            # The lock is held while a batch is written: batches are written one at a time, and the memory is
            # bounded.
            self._held.append(document)
            self._size += len(document.body)
            if len(self._held) >= _MOST_DOCUMENTS or self._size >= _MOST_BYTES:
                await self._flush()

    async def flush(self) -> None:
        """Store the remaining documents."""
        async with self._lock:
            await self._flush()

    async def _flush(self) -> None:
        held, self._held, self._size = self._held, [], 0
        if held:
            # Shielded, so that a cancelled task does not separate a batch's files from their manifest lines.
            await asyncio.shield(asyncio.to_thread(self._keep, held))


async def fetch_all(
    captures: Sequence[Capture],
    fetch: Fetch,
    keep: Keep,
    *,
    workers: int,
    on_done: Callable[[int, int], None],
) -> list[Missing]:
    """Fetch all documents, `workers` at a time; returns those that are missing.

    `on_done` is called with the number of finished and of missing documents. Documents fetched before an
    error or an interruption are stored. Raises what `fetch` and `keep` raise.
    """
    queue = _Queue(waiting=iter(captures), fetch=fetch, batches=Batches(keep), on_done=on_done)
    try:
        async with asyncio.TaskGroup() as group:
            for _ in range(workers):
                group.create_task(queue.work())
    except BaseExceptionGroup as errors:
        raise errors.exceptions[0] from None
    finally:
        await queue.batches.flush()
    return queue.absent


@dataclass(kw_only=True)
class _Queue:
    """The captures shared by several workers.

    The workers are coroutines of one event loop: the iterator, the counter and the list are used between two
    awaits, and so need no lock.
    """

    waiting: Iterator[Capture]
    fetch: Fetch
    batches: Batches
    on_done: Callable[[int, int], None]
    done: int = 0
    absent: list[Missing] = field(default_factory=list)

    async def work(self) -> None:
        for capture in self.waiting:
            found = await self.fetch(capture)
            if isinstance(found, Missing):
                self.absent.append(found)
            else:
                await self.batches.add(found)
            self.done += 1
            self.on_done(self.done, len(self.absent))

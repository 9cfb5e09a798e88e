"""Answers a run's requests from the WARC files of an earlier one, instead of from the network (HAR-10)."""

import asyncio
import hashlib
import json
import zlib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from io import BytesIO
from pathlib import Path
from typing import Any, BinaryIO

from warcio.archiveiterator import ArchiveIterator

from harvester.client.exchange import HttpRequest, RawReply
from harvester.reading.errors import TransportError, TransportKind
from harvester.running.raw_capture import FETCH_ERROR, RUN_URI
from harvester.running.sourcing import MissingAnswerError
from oai.errors import UsageError

_KINDS = {"time": TransportKind.TIMEOUT, "disconnect": TransportKind.DISCONNECTED}
_GZIP = 16 + zlib.MAX_WBITS
_PIECE = 256 * 1024
_LONGEST_BEFORE = timedelta(days=2)
"""How long before its run begins a file may have been made: Identify may have had to wait."""


@dataclass(frozen=True, kw_only=True)
class _Kept:
    """Where an answer is, or why there is none."""

    request: HttpRequest
    path: Path
    offset: int
    failure: str = ""


@dataclass(kw_only=True)
class Replay:
    """The answers of one run. `facts` is what `RawCapture.note_run` wrote down first."""

    facts: dict[str, Any]
    answers: dict[str, list[_Kept]] = field(default_factory=dict)
    _given: dict[str, int] = field(default_factory=dict)

    async def __call__(self, request: HttpRequest) -> RawReply:
        """The answer that the run got to this request; asked again, the next one it got, at last the last.

        Raises MissingAnswerError.
        """
        key = _key(request.method, request.url, request.body)
        kept = self.answers.get(key)
        if not kept:
            raise MissingAnswerError(request, "the earlier run did not send this request")
        number = self._given.get(key, 0)
        self._given[key] = number + 1
        found = kept[min(number, len(kept) - 1)]
        if found.failure and number >= len(kept):
            raise MissingAnswerError(request, f"the earlier run received no answer ({found.failure})")
        if found.failure:
            raise TransportError(request.url, TransportKind.DISCONNECTED, found.failure)
        return await asyncio.to_thread(_read_reply, request.url, found)

    def exchanges(self) -> Iterator[tuple[HttpRequest, RawReply]]:
        """Each request that got an answer, in the order in which they were first made, with its last one."""
        for kept in self.answers.values():
            answered = [one for one in kept if not one.failure]
            if answered:
                yield answered[-1].request, _read_reply(answered[-1].request.url, answered[-1])


def open_replay(last: Path) -> Replay:
    """The replay of the run that `last` is the last file of, together with the run's earlier files.

    Raises UsageError where the file is not there, or does not tell its run.
    """
    if not last.is_file():
        raise UsageError(
            f"{last}: the stored answers of the run were not found; they may have been moved or removed"
        )
    files = _files_of_run(last)
    facts = _facts(files[0])
    assert facts is not None  # noqa: S101 files without them are not among the run's
    replay = Replay(facts=facts)
    for path in files:
        # What a later process asked again counts alone: it went on from what it was told then.
        replay.answers.update(_index(path))
    return replay


def _files_of_run(last: Path) -> Sequence[Path]:
    facts = _facts(last)
    if facts is None:
        raise UsageError(f"{last}: the run ended before it started its list, so there is no answer to replay")
    earliest = datetime.fromisoformat(facts["run_started"]) - _LONGEST_BEFORE
    bound = f"{earliest:%Y%m%dT%H%M%S}"
    others = [path for path in last.parent.glob("*.warc.gz") if bound <= path.name < last.name]
    mine = (facts["harvest_id"], facts["run_started"])
    found = [
        path
        for path in sorted(others)
        if (told := _facts(path)) and (told["harvest_id"], told["run_started"]) == mine
    ]
    return [*found, last]


def _facts(path: Path) -> dict[str, Any] | None:
    for record, _ in _records(path):
        if record.rec_headers.get_header("WARC-Target-URI") == RUN_URI:
            facts: dict[str, Any] = json.loads(record.raw_stream.read())
            return facts
    return None


def _index(path: Path) -> dict[str, list[_Kept]]:
    found: dict[str, list[_Kept]] = {}
    asked: dict[str, HttpRequest] = {}
    for record, offset in _records(path):
        headers = record.rec_headers
        if record.rec_type == "request":
            method = record.http_headers.protocol
            uri = headers.get_header("WARC-Target-URI")
            asked[headers.get_header("WARC-Record-ID")] = HttpRequest(
                method=method, url=uri, body=record.raw_stream.read()
            )
            continue
        request = asked.pop(headers.get_header("WARC-Concurrent-To"), None)
        if request is None:
            continue
        failure = _failure(record) if record.rec_type == "metadata" else ""
        kept = _Kept(request=request, path=path, offset=offset, failure=failure)
        found.setdefault(_key(request.method, request.url, request.body), []).append(kept)
    return found


def _records(path: Path) -> Iterator[tuple[Any, int]]:
    """The file's records with their offsets, up to where a killed process stopped writing."""
    with path.open("rb") as file:
        for data, offset in _members(file):
            yield _record(data), offset


def _record(data: bytes) -> Any:  # noqa: ANN401 warcio publishes no types
    return next(iter(ArchiveIterator(BytesIO(data))))


def _members(file: BinaryIO) -> Iterator[tuple[bytes, int]]:
    """The compressed members from here on, each of which is a record, with their offsets; whole ones only."""
    offset = file.tell()
    rest = b""
    while True:
        member = zlib.decompressobj(_GZIP)
        pieces: list[bytes] = []
        size = 0
        while not member.eof:
            chunk = rest or file.read(_PIECE)
            if not chunk:
                return
            try:
                pieces.append(member.decompress(chunk))
            except zlib.error:
                # Nothing behind damage can be found again; a request that needs it will be missing.
                return
            size += len(chunk)
            rest = b""
        rest = member.unused_data
        yield b"".join(pieces), offset
        offset += size - len(rest)


def _read_reply(url: str, kept: _Kept) -> RawReply:
    with kept.path.open("rb") as file:
        file.seek(kept.offset)
        data, _ = next(_members(file))
    record = _record(data)
    truncated = record.rec_headers.get_header("WARC-Truncated")
    status, _, reason = record.http_headers.statusline.partition(" ")
    cut = None
    if truncated:
        words = "the answer was truncated when it was harvested"
        cut = TransportError(url, _KINDS.get(truncated, TransportKind.DISCONNECTED), words)
    return RawReply(
        status=int(status),
        reason=reason,
        headers=list(record.http_headers.headers),
        body=record.raw_stream.read(),
        cut=cut,
    )


def _failure(record: Any) -> str:  # noqa: ANN401 warcio publishes no types
    text: str = record.raw_stream.read().decode("utf-8", errors="replace")
    return text.partition(f"{FETCH_ERROR}: ")[2].strip()


def _key(method: str, url: str, body: bytes) -> str:
    return hashlib.sha256(b"\0".join((method.encode(), url.encode(), body))).hexdigest()

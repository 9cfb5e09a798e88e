"""The source of a run's answers: the network, captured or not, or the WARC files of an earlier run."""

import asyncio
import contextlib
import hashlib
import json
import zlib
from collections.abc import AsyncIterator, Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from io import BytesIO
from pathlib import Path
from typing import Any, BinaryIO

from sqlalchemy.orm import Session
from warcio.archiveiterator import ArchiveIterator

from harvester.client.exchange import HttpRequest, RawReply, Send
from harvester.client.loops import list_limits
from harvester.client.protocol_client import ProtocolClient
from harvester.client.repository_client import ReadPage
from harvester.client.retries import retry_options
from harvester.client.transport import HttpTransport, request_headers
from harvester.harvest.checkpoint import Checkpoint
from harvester.harvest.plan import RunPlan, SavedState
from harvester.harvest.raw_capture import FETCH_ERROR, RUN_URI, RawCapture, raw_file
from harvester.harvest.request import HarvestRequest
from harvester.harvest.result import get_history
from harvester.models import History
from harvester.protocols import http_client, open_protocol_client
from harvester.reading.errors import TransportError, TransportKind
from harvester.reading.repairs import Repair
from harvester.repositories import get_repository
from harvester.vocabulary import AccessProtocol, Method, Slice
from oai.datestamps import utc_now
from oai.errors import RemoteError, UsageError, required
from oai.settings import Settings

_KINDS = {"time": TransportKind.TIMEOUT, "disconnect": TransportKind.DISCONNECTED}
_GZIP = 16 + zlib.MAX_WBITS
_PIECE = 256 * 1024
_LONGEST_WAIT_OF_A_JOB = 300.0
"""Seconds."""
_LONGEST_BEFORE = timedelta(days=2)
"""Maximum age of a file at the start of its run: Identify may have had to wait."""


class MissingAnswerError(RemoteError):
    """A request that the earlier run did not send, or that got no answer."""

    def __init__(self, request: HttpRequest, reason: str) -> None:
        form = f" with {request.body.decode('ascii', errors='replace')!r}" if request.body else ""
        super().__init__(
            f"{request.method} {request.url}{form}: {reason}, so the replay ends here; records "
            "before it are stored. For the rest, harvest again with --keep-raw"
        )


def as_it_is(send: Send) -> Send:
    """Return `send` unchanged."""
    return send


@dataclass(kw_only=True)
class AnswerSource:
    """Provides a run's client, and knows what is captured."""

    settings: Settings
    protocol: str = AccessProtocol.OAI_PMH
    capture: RawCapture | None = None
    replay: "Replay | None" = None
    repairs: tuple[Repair, ...] = ()
    around: Callable[[Send], Send] = as_it_is
    """The wrapper nearest to the network: captured exchanges pass through it, too."""

    @property
    def now(self) -> datetime:
        """The time to plan with: the present, or that of the replayed run."""
        return datetime.fromisoformat(self.replay.facts["planned"]) if self.replay else utc_now()

    @property
    def may_request_again(self) -> bool:
        """Whether a list that ended may be requested again: in a replay, only if the replayed run did so."""
        return self.replay is None or self.replay.has_repeated_requests

    def raw_bytes(self) -> int:
        """Return the size of the captured file until now."""
        return self.capture.path.stat().st_size if self.capture is not None and self.capture.begun else 0

    @property
    def raw_path(self) -> str | None:
        """The captured file, as a path relative to the data folder; None if there is none."""
        if self.capture is None or not self.capture.begun:
            return None
        return self.capture.path.relative_to(self.settings.data).as_posix()

    @contextlib.asynccontextmanager
    async def client(
        self, base_url: str, *, on_wait: Callable[[float, str], None], read_page: ReadPage | None
    ) -> AsyncIterator[ProtocolClient]:
        """Provide the run's client; at the end of the block, what was captured is on disk."""
        chosen = self.settings.harvester
        if self.replay is not None:
            transport = HttpTransport(send=self.replay, limits=chosen.limits, headers=request_headers(chosen))
            url = self.replay.facts["base_url"]
            yield http_client(
                self.protocol,
                url,
                transport,
                read_page=read_page,
                limits=chosen.limits,
                lists=list_limits(chosen),
                repairs=self.repairs,
                **retry_options(chosen, sleep=_at_once),
            )
            return
        kept = self.capture.around if self.capture else as_it_is
        try:
            opened = open_protocol_client(
                self.protocol,
                base_url,
                chosen,
                on_wait=on_wait,
                around=lambda send: kept(self.around(send)),
                read_page=read_page,
                repairs=self.repairs,
            )
            async with opened as client:
                yield client
        finally:
            if self.capture is not None:
                self.capture.close()

    def note_run(self, request: HarvestRequest, plan: RunPlan, point: Checkpoint) -> None:
        """Record with the answers which run they belong to, and what was requested."""
        if self.capture is not None:
            self.capture.note_run(
                {
                    "harvest_id": point.harvest_id,
                    "run_started": point.run_started.isoformat(),
                    "base_url": plan.base_url,
                    "method": int(request.method),
                    "from": plan.from_,
                    "until": request.harvest_to,
                    "slice": request.slice.value if request.slice else None,
                    "max": request.max_records,
                    "planned": plan.calendar.latest.isoformat(),
                }
            )


def open_source(
    session: Session, settings: Settings, request: HarvestRequest, *, started: datetime
) -> AnswerSource:
    """Return the source of a run that starts now. Raises UsageError if the answers to replay do not exist."""
    repository = get_repository(session, request.repository_id)
    protocol, repairs = repository.protocol, tuple(map(Repair, repository.repairs))
    if request.replay is not None:
        kept = _kept(settings, _replayed(session, request.replay))
        return AnswerSource(settings=settings, protocol=protocol, replay=open_replay(kept), repairs=repairs)
    if request.job_id is not None:
        settings = _for_a_job(settings)
    if settings.harvester.keep_raw and protocol != AccessProtocol.Z3950:
        path = raw_file(settings, request.repository_id, started)
        return AnswerSource(settings=settings, protocol=protocol, capture=RawCapture(path), repairs=repairs)
    return AnswerSource(settings=settings, protocol=protocol, repairs=repairs)


def _for_a_job(settings: Settings) -> Settings:
    """Return the settings with which a job leaves longer waits to the queue instead of occupying a worker."""
    longest = min(settings.harvester.max_wait, _LONGEST_WAIT_OF_A_JOB)
    harvester = settings.harvester.model_copy(update={"max_wait": longest})
    return settings.model_copy(update={"harvester": harvester})


def replay_request(
    session: Session, settings: Settings, request: HarvestRequest, history_id: int
) -> HarvestRequest:
    """Return the request for what the earlier run requested, with the rules of `request`.

    Raises UsageError if there is no such run, or if it has no stored answers.
    """
    history = _replayed(session, history_id)
    facts = open_replay(_kept(settings, history)).facts
    return replace(
        request,
        repository_id=history.repository_id,
        metadata_prefix=history.metadata_prefix or request.metadata_prefix,
        set_spec=history.set_spec or "",
        harvest_from=facts["from"],
        harvest_to=facts["until"],
        full=True,
        method=Method(facts["method"]),
        slice=Slice(facts["slice"]) if facts["slice"] else None,
        max_records=facts["max"],
        ignore_wait=True,
        replay=history_id,
    )


def open_kept(session: Session, settings: Settings, history_id: int) -> "Replay":
    """Return the stored answers of the run. Raises UsageError if there is no such run, or none are stored."""
    return open_replay(_kept(settings, _replayed(session, history_id)))


def check_saved_state(request: HarvestRequest, saved_state: SavedState) -> None:
    """Raise UsageError if a replay would replace an interrupted harvest."""
    interrupted = saved_state.parameters.get("kind")
    if request.replay is not None and interrupted and interrupted != request.kind():
        raise UsageError(
            "an interrupted harvest of this format and set can be resumed; complete it first, then replay"
        )


def _replayed(session: Session, history_id: int) -> History:
    history = get_history(session, history_id)
    if history.raw_path is None:
        raise UsageError(
            f"run {history_id} has no stored answers; harvest with --keep-raw, or set harvester.keep_raw"
        )
    return history


def _kept(settings: Settings, history: History) -> Path:
    return settings.data / (history.raw_path or "")


async def _at_once(_seconds: float) -> None:
    """Do not wait: the replayed answers are already available."""


@dataclass(frozen=True, kw_only=True)
class _Kept:
    """Where an answer is stored, or why there is none."""

    request: HttpRequest
    path: Path
    offset: int
    failure: str = ""


@dataclass(kw_only=True)
class Replay:
    """The answers of one run. `facts` is what `RawCapture.note_run` recorded first.

    The event loop counts the answers given in `_given`, between awaits; only reading the file uses a thread.
    """

    facts: dict[str, Any]
    answers: dict[str, list[_Kept]] = field(default_factory=dict)
    _given: dict[str, int] = field(default_factory=dict)

    async def __call__(self, request: HttpRequest) -> RawReply:
        """Return the answer that the run got to this request.

        A repeated request gets the following answer that the run got, and finally the last one again. Raises
        MissingAnswerError.
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

    @property
    def has_repeated_requests(self) -> bool:
        """Whether a request that was answered has further answers, because the run sent it again later."""
        return any(given < len(self.answers[key]) for key, given in self._given.items())

    def exchanges(self) -> Iterator[tuple[HttpRequest, RawReply]]:
        """Yield each answered request with its last answer, in the order of the first requests."""
        for kept in self.answers.values():
            answered = [one for one in kept if not one.failure]
            if answered:
                yield answered[-1].request, _read_reply(answered[-1].request.url, answered[-1])


def open_replay(last: Path) -> Replay:
    """Return the replay of the run whose last file is `last`, including the run's earlier files.

    Raises UsageError if the file does not exist, or does not name its run.
    """
    if not last.is_file():
        raise UsageError(
            f"{last}: the stored answers of the run were not found; they may have been moved or removed"
        )
    files = _files_of_run(last)
    facts = required(_facts(files[0]), "files without them do not belong to the run")
    replay = Replay(facts=facts)
    for path in files:
        # If a later process repeated a request, only its answers count: it continued from those.
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
        if (noted := _facts(path)) and (noted["harvest_id"], noted["run_started"]) == mine
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
    """Yield the file's records with their offsets, up to where a killed process stopped writing."""
    with path.open("rb") as file:
        for data, offset in _members(file):
            yield _record(data), offset


def _record(data: bytes) -> Any:  # noqa: ANN401 warcio publishes no types
    return next(iter(ArchiveIterator(BytesIO(data))))


def _members(file: BinaryIO) -> Iterator[tuple[bytes, int]]:
    """Yield the complete compressed members from here on, each of which is a record, with their offsets."""
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
                # Records after damaged data cannot be located; a request that needs one is reported as
                # missing.
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

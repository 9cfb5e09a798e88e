"""Where a run's answers come from: the network, kept or not, or the WARC files of an earlier run."""

import contextlib
from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass, replace
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING

from sqlalchemy.orm import Session

from harvester.client.circles import list_patience
from harvester.client.exchange import HttpRequest, Send
from harvester.client.protocol_client import ProtocolClient
from harvester.client.repository_client import ReadPage
from harvester.client.transport import HttpTransport, request_headers
from harvester.models import History
from harvester.protocols import http_client, open_protocol_client
from harvester.repositories import get_repository
from harvester.running.checkpoints import Checkpoint
from harvester.running.outcome import get_history
from harvester.running.parameters import HarvestRequest
from harvester.running.planning import Plan, Standing
from harvester.running.preparing import Batch
from harvester.store.records import known_records
from harvester.vocabulary import AccessProtocol, Method, Slice
from oai.datestamps import is_later, utc_now
from oai.errors import RemoteError, UsageError
from oai.settings import Settings

if TYPE_CHECKING:
    from harvester.running.raw_capture import RawCapture
    from harvester.running.replaying import Replay


class MissingAnswerError(RemoteError):
    """A request that the earlier run did not make, or got no answer to."""

    def __init__(self, request: HttpRequest, reason: str) -> None:
        form = f" with {request.body.decode('ascii', errors='replace')!r}" if request.body else ""
        super().__init__(
            f"{request.method} {request.url}{form}: {reason}, so the replay ends here; records "
            "before it are stored. For the rest, harvest again with --keep-raw"
        )


def as_it_is(send: Send) -> Send:
    """`send` with nothing around it."""
    return send


@dataclass(kw_only=True)
class Source:
    """Gives a run its client, and knows what is kept of it."""

    settings: Settings
    protocol: str = AccessProtocol.OAI_PMH
    capture: "RawCapture | None" = None
    replay: "Replay | None" = None
    around: Callable[[Send], Send] = as_it_is
    """What is nearest to the network: what is kept goes through it, too."""

    @property
    def now(self) -> datetime:
        """The moment to plan with: the present, or that of the run that is replayed."""
        return datetime.fromisoformat(self.replay.facts["planned"]) if self.replay else utc_now()

    @property
    def raw_path(self) -> str | None:
        """The file that was written, as its path below the data folder; None where there is none."""
        if self.capture is None or not self.capture.begun:
            return None
        return self.capture.path.relative_to(self.settings.data).as_posix()

    @contextlib.asynccontextmanager
    async def client(
        self, base_url: str, *, on_wait: Callable[[float, str], None], read_page: ReadPage | None
    ) -> AsyncIterator[ProtocolClient]:
        """The run's client; at the end of the block what is kept is on the disk."""
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
                lists=list_patience(chosen),
                retries=chosen.retries,
                max_wait=chosen.max_wait,
                max_wait_total=chosen.max_wait_total,
                sleep=_at_once,
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
            )
            async with opened as client:
                yield client
        finally:
            if self.capture is not None:
                self.capture.close()

    def note_run(self, request: HarvestRequest, plan: Plan, point: Checkpoint) -> None:
        """Write beside the answers which run they belong to, and what was asked for."""
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
) -> Source:
    """The source of a run that starts now. Raises UsageError where what is to be replayed is not there."""
    protocol = get_repository(session, request.repository_id).protocol
    # warcio is imported by those runs alone that need it, for a harvest is a process of its own.
    if request.replay is not None:
        from harvester.running.replaying import open_replay  # noqa: PLC0415

        kept = _kept(settings, _replayed(session, request.replay))
        return Source(settings=settings, protocol=protocol, replay=open_replay(kept))
    if settings.harvester.keep_raw and protocol != AccessProtocol.Z3950:
        from harvester.running.raw_capture import RawCapture, raw_file  # noqa: PLC0415

        path = raw_file(settings, request.repository_id, started)
        return Source(settings=settings, protocol=protocol, capture=RawCapture(path))
    return Source(settings=settings, protocol=protocol)


def replay_request(
    session: Session, settings: Settings, request: HarvestRequest, history_id: int
) -> HarvestRequest:
    """The request that asks for what the earlier run asked for, with the rules of `request`.

    Raises UsageError where there is no such run, or nothing was kept of it.
    """
    from harvester.running.replaying import open_replay  # noqa: PLC0415 as above

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
    """What was kept of the run. Raises UsageError where there is no such run, or nothing was kept of it."""
    from harvester.running.replaying import open_replay  # noqa: PLC0415 as above

    return open_replay(_kept(settings, _replayed(session, history_id)))


def check_standing(request: HarvestRequest, standing: Standing) -> None:
    """Raise UsageError where a replay would take the place of a harvest that was cut off."""
    interrupted = standing.parameters.get("kind")
    if request.replay is not None and interrupted and interrupted != request.kind():
        raise UsageError(
            "an interrupted harvest of this format and set can be resumed; complete it first, then replay"
        )


def without_superseded(
    session: Session, batch: Batch, *, repository_id: int, metadata_prefix: str
) -> tuple[Batch, int]:
    """The batch without the records of which the store has a later datestamp, and how many those were."""
    keys = [record.key for record in batch.records]
    known = known_records(session, repository_id=repository_id, metadata_prefix=metadata_prefix, keys=keys)
    current = [
        record
        for record in batch.records
        if record.key not in known or not is_later(known[record.key].datestamp, record.header.datestamp)
    ]
    return replace(batch, records=current), len(batch.records) - len(current)


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
    """What the earlier run waited for is here already."""

"""Restore the contents of a Zatva provider: list, fetch, verify, store, and make a browsable copy.

The list determines the documents; each document is fetched, verified and durable before the manifest has its
line. So an interrupted restore continues from there, and a completed one fetches nothing twice.
"""

import json
import os
import time
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import closing
from dataclasses import asdict, dataclass, field, replace
from datetime import datetime
from pathlib import Path
from typing import Any, Final

from harvester.client import CannotDisseminateFormatError, Client, Politeness, Record
from harvester.client.loops import list_limits
from harvester.client.retries import Retrying, retry_options
from harvester.client.transport import HttpTransport, open_transport
from harvester.restoring.addresses import RestoreScope
from harvester.restoring.browsable import PackedError, start_page, target_of, treated
from harvester.restoring.captures import PREFIX, Capture, CaptureChoice, UnreadableRecordError, read_capture
from harvester.restoring.document_files import SITE, FileKeeper, Keeper
from harvester.restoring.documents import FetchedDocument, Fetcher, fetch_all
from harvester.restoring.links import SiteMap
from harvester.restoring.manifest import Entry, Manifest, Missing, Reason, Request, open_manifest, write_lines
from harvester.restoring.names import Names
from harvester.restoring.outcome import RestoreOutcome, RestorePlan
from harvester.restoring.warc_files import FOLDER as WARC_FOLDER
from harvester.restoring.warc_files import WarcKeeper
from harvester.store.files import FileStore
from oai.disk import DiskFloor
from oai.errors import RemoteError
from oai.reach import without_credentials
from oai.sections import HarvesterSettings

NAME: Final = "wanted.jsonl"
_GOOD_FOR: Final = 86_400
"""In seconds; an older list of an interrupted run is requested again."""
START: Final = "index.html"
_AT_ONCE: Final = 64


@dataclass(kw_only=True)
class Wanted:
    """What is to be restored, and what the list itself reports as unavailable."""

    captures: list[Capture]
    """One for each URL, ordered by URL."""
    missing: list[Missing] = field(default_factory=list)
    listed: int = 0
    """Captures within the scope that the provider listed."""


async def ask(
    client: Client, scope: RestoreScope, at: datetime | None, on_page: Callable[[int, int | None], None]
) -> Wanted:
    """Harvest the list; `on_page` is called with the records so far and, if known, the expected number.

    Raises ClientError, TryLaterError, and RemoteError if the scope is empty.
    """
    choice = CaptureChoice(at)
    found: list[Missing] = []
    listing = client.records(PREFIX, set_spec=scope.set_spec)
    try:
        async for page in listing.pages():
            for record in page.records:
                _take(record, scope, choice, found)
            on_page(listing.progress.received, listing.progress.complete_list_size)
    except CannotDisseminateFormatError as error:
        raise RemoteError(
            f"{client.base_url} does not offer the format {PREFIX!r} ({error.message}), so it is "
            "not the Zatva provider of an archive; give such a base URL with --from"
        ) from None
    wanted = Wanted(captures=choice.chosen(), missing=found, listed=choice.seen)
    if not wanted.captures and not found:
        raise RemoteError(
            f"{client.base_url} lists no documents for {scope.asked!r} (set {scope.set_spec!r}); to "
            "list its sets, use `zatva probe`; write a site as http://www.example.cz/"
        )
    return wanted


def _take(record: Record, scope: RestoreScope, choice: CaptureChoice, found: list[Missing]) -> None:
    identifier = record.header.identifier
    if record.header.deleted:
        detail = "the archive hides or withholds it, and does not give its address"
        if scope.beginnings:
            detail += "; it may be at another address on the same host"
        found.append(Missing(reason=Reason.WITHHELD, detail=detail, identifier=identifier))
        return
    try:
        capture = read_capture(record)
    except UnreadableRecordError as error:
        found.append(Missing(reason=Reason.REFUSED, detail=str(error), identifier=identifier))
        return
    if scope.holds(capture.url):
        choice.see(capture)


def save(folder: Path, wanted: Wanted) -> None:
    """Save the list for a run that continues with it."""
    captures = ({**asdict(one), "captured": one.captured.isoformat()} for one in wanted.captures)
    lines: list[dict[str, Any]] = [{"listed": wanted.listed}]
    lines += [{"capture": one} for one in captures]
    lines += [{"missing": asdict(one)} for one in wanted.missing]
    write_lines(folder / NAME, lines)


def load(folder: Path) -> Wanted | None:
    """Return the list of an interrupted run; None if there is no usable one."""
    path = folder / NAME
    try:
        if time.time() - path.stat().st_mtime > _GOOD_FOR:
            return None
        first, *lines = [json.loads(line) for line in path.read_bytes().splitlines()]
    except (FileNotFoundError, ValueError):
        return None
    wanted = Wanted(captures=[], listed=first["listed"])
    for line in lines:
        if "capture" in line:
            facts = line["capture"]
            moment = datetime.fromisoformat(facts.pop("captured"))
            wanted.captures.append(Capture(**facts, captured=moment))
        else:
            facts = line["missing"]
            wanted.missing.append(Missing(**{**facts, "reason": Reason(facts["reason"])}))
    return wanted


def drop(folder: Path) -> None:
    """Delete the list, because everything in it was requested."""
    (folder / NAME).unlink(missing_ok=True)


@dataclass(kw_only=True)
class _Files:
    """Files written in groups; files that are already right are left unchanged."""

    folder: Path
    store: FileStore
    waiting: list[tuple[str, bytes]] = field(default_factory=list)

    def add(self, path: str, body: bytes) -> None:
        if _is_new(self.folder / path, body):
            self.waiting.append((path, body))
        if len(self.waiting) >= _AT_ONCE:
            self.finish()

    def finish(self) -> None:
        self.store.write_all(self.waiting)
        self.waiting = []


def write_copy(
    folder: Path,
    store: FileStore,
    entries: Mapping[str, Entry],
    *,
    title: str,
    most: int,
    on_file: Callable[[int], None] = lambda _done: None,
) -> list[Missing]:
    """Write all converted files of the copy; files that are already right are left unchanged.

    Returns the documents for which no browsable file could be made; their files have the archived bytes.
    """
    targets = [target_of(entry, _in_site(entry)) for entry in entries.values()]
    site = SiteMap(targets)
    faults: list[Missing] = []
    files = _Files(folder=folder, store=store)
    for number, entry in enumerate(_treated(entries.values()), 1):
        body = (folder / entry.original).read_bytes()
        try:
            body = treated(entry, body, site, _in_site(entry), most=most)
        except PackedError as error:
            faults.append(_packed(entry, str(error)))
        files.add(entry.file, body)
        on_file(number)
    files.add(START, start_page(targets, title))
    files.finish()
    return faults


def is_written(folder: Path, entries: Iterable[Entry]) -> bool:
    """Return whether each converted file of a finished copy exists."""
    return os.path.exists(folder / START) and all(  # noqa: PTH110 called once for each document
        os.path.exists(folder / entry.file)  # noqa: PTH110
        for entry in _treated(entries)
    )


def _treated(entries: Iterable[Entry]) -> Iterable[Entry]:
    return (entry for entry in entries if entry.original)


def _in_site(entry: Entry) -> str:
    return entry.file.removeprefix(f"{SITE}/")


def _is_new(path: Path, body: bytes) -> bool:
    return not (path.is_file() and path.stat().st_size == len(body) and path.read_bytes() == body)


def _packed(entry: Entry, detail: str) -> Missing:
    return Missing(
        reason=Reason.PACKED,
        detail=detail,
        identifier=entry.identifier,
        url=entry.url,
        captured=entry.captured,
    )


MISSING: Final = "missing.jsonl"
FILES: Final = "files"
WARC: Final = "warc"

Report = Callable[[str, int, int | None, str], None]
"""Called with the progress: a step's name, how much of it is done, of how much, and a note."""


@dataclass(frozen=True, kw_only=True)
class Restore:
    """A restore as requested."""

    scope: RestoreScope
    folder: Path
    base_url: str
    form: str
    """`files` or `warc`."""
    settings: HarvesterSettings
    floor: DiskFloor
    at: datetime | None = None
    report: Report = lambda _step, _done, _total, _note: None
    on_wait: Callable[[float, str], None] = lambda _seconds, _reason: None

    @property
    def request(self) -> Request:
        """Return the request for the folder's manifest."""
        at = self.at.isoformat() if self.at else ""
        return Request(what=self.scope.asked, at=at, form=self.form)


async def restore(asked: Restore) -> RestoreOutcome:
    """Restore; raises UsageError, RemoteError or TryLaterError; the same command then continues."""
    began = time.monotonic()
    manifest = open_manifest(asked.folder, asked.request)
    try:
        politeness = Politeness(per_host=asked.settings.per_host, delay=asked.settings.delay)
        async with open_transport(asked.settings, politeness=politeness) as transport:
            return await _restored(asked, manifest, transport, began)
    finally:
        manifest.close()


async def plan(asked: Restore) -> RestorePlan:
    """Return what a restore would do; requests the list, and writes nothing."""
    async with open_transport(asked.settings) as transport:
        wanted = await _listed(asked, transport)
    here = 0
    to_fetch: Sequence[Capture] = wanted.captures
    if (asked.folder / "manifest.jsonl").exists():
        manifest = open_manifest(asked.folder, asked.request)
        try:
            to_fetch = [one for one in wanted.captures if not _is_noted(manifest, one)]
            here = len(wanted.captures) - len(to_fetch)
        finally:
            manifest.close()
    types = Counter(one.mime_type or "unknown" for one in wanted.captures)
    return RestorePlan(
        listed=wanted.listed,
        wanted=len(wanted.captures),
        here=here,
        bytes=sum(one.length or 0 for one in to_fetch),
        types=dict(types.most_common()),
        missing=wanted.missing,
    )


async def _restored(
    asked: Restore, manifest: Manifest, transport: HttpTransport, began: float
) -> RestoreOutcome:
    wanted = load(asked.folder)
    if wanted is None:
        wanted = await _listed(asked, transport)
        save(asked.folder, wanted)
    fetcher = Fetcher(
        base_url=asked.base_url,
        transport=transport,
        retrying=Retrying(**retry_options(asked.settings, on_wait=asked.on_wait)),
        most=asked.settings.max_answer_bytes,
    )
    with FileStore(asked.folder) as store, closing(_keeper(asked, manifest, wanted, store)) as keeper:
        to_fetch = [one for one in wanted.captures if not _is_here(manifest, keeper, one)]
        absent = await _fetched(asked, manifest, keeper, fetcher, to_fetch)
        keeper.finish()
        absent += _named(wanted.missing, manifest)
        if asked.form == FILES:
            absent += _copied(asked, manifest, store, fetched=bool(to_fetch))
    write_lines(asked.folder / MISSING, (one.as_json() for one in absent))
    manifest.finish(asked.request, source=without_credentials(asked.base_url))
    drop(asked.folder)
    return _outcome(asked, manifest, wanted, fetcher, absent, len(to_fetch), time.monotonic() - began)


async def _listed(asked: Restore, transport: HttpTransport) -> Wanted:
    client = Client(
        asked.base_url,
        transport,
        lists=list_limits(asked.settings),
        **retry_options(asked.settings, on_wait=asked.on_wait),
    )

    def on_page(done: int, total: int | None) -> None:
        asked.report("list", done, total, "")

    return await ask(client, asked.scope, asked.at, on_page)


def _keeper(asked: Restore, manifest: Manifest, wanted: Wanted, store: FileStore) -> Keeper:
    if asked.form == WARC:
        known = manifest.entries.values()
        return WarcKeeper(asked.folder, asked.scope.asked, without_credentials(asked.base_url), known)
    named = {url: entry.file.removeprefix(f"{SITE}/") for url, entry in manifest.entries.items()}
    return FileKeeper(asked.folder, store, Names(wanted.captures, named))


def _named(absent: Sequence[Missing], manifest: Manifest) -> list[Missing]:
    """Return what the list reports as missing, with the URLs of documents stored while still accessible."""
    urls = {entry.identifier: entry.url for entry in manifest.entries.values()}
    return [one if one.url else replace(one, url=urls.get(one.identifier, "")) for one in absent]


def _is_noted(manifest: Manifest, capture: Capture) -> bool:
    """Return whether the manifest has this very capture of the URL."""
    entry = manifest.entries.get(capture.url)
    return entry is not None and entry.identifier == capture.identifier


def _is_here(manifest: Manifest, keeper: Keeper, capture: Capture) -> bool:
    return _is_noted(manifest, capture) and keeper.holds(manifest.entries[capture.url])


async def _fetched(
    asked: Restore, manifest: Manifest, keeper: Keeper, fetcher: Fetcher, captures: Sequence[Capture]
) -> list[Missing]:
    def keep(documents: Sequence[FetchedDocument]) -> None:
        asked.floor.wrote(sum(len(one.body) for one in documents))
        manifest.add(keeper.keep(documents))

    def on_done(done: int, absent: int) -> None:
        note = f"{absent:,} missing" if absent else ""
        asked.report("documents", done, len(captures), note)

    return await fetch_all(captures, fetcher, keep, workers=asked.settings.per_host, on_done=on_done)


def _copied(asked: Restore, manifest: Manifest, store: FileStore, *, fetched: bool) -> list[Missing]:
    """Make the copy, unless it is already complete and unchanged."""
    entries = manifest.entries
    before = asked.folder / MISSING
    whole = manifest.finished and before.exists() and not before.stat().st_size
    if whole and not fetched and is_written(asked.folder, entries.values()):
        return []
    total = sum(bool(entry.original) for entry in entries.values())
    return write_copy(
        asked.folder,
        store,
        entries,
        title=f"{asked.scope.asked} as archived",
        most=asked.settings.max_answer_bytes,
        on_file=lambda done: asked.report("links", done, total, ""),
    )


def _outcome(
    asked: Restore,
    manifest: Manifest,
    wanted: Wanted,
    fetcher: Fetcher,
    absent: Sequence[Missing],
    to_fetch: int,
    seconds: float,
) -> RestoreOutcome:
    here = [manifest.entries[one.url] for one in wanted.captures if _is_noted(manifest, one)]
    return RestoreOutcome(
        folder=asked.folder,
        listed=wanted.listed,
        wanted=len(wanted.captures),
        restored=len(here),
        fetched=to_fetch - (len(wanted.captures) - len(here)),
        unverified=sum(not entry.verified for entry in here),
        others=len(manifest.entries) - len(here),
        bytes=fetcher.bytes,
        requests=fetcher.requests,
        seconds=seconds,
        missing=tuple(absent),
        start=asked.folder / (START if asked.form == FILES else WARC_FOLDER),
    )

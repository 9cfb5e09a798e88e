"""Restores what a Zatva provider has: list, fetch, check, keep, and make a copy that can be looked at.

The list says what there is; each document is fetched, checked and durable before the manifest has its line.
So an interrupted restore goes on where it was, and one that ended fetches nothing twice.
"""

import time
from collections import Counter
from collections.abc import Callable, Sequence
from contextlib import closing
from dataclasses import dataclass, replace
from datetime import datetime
from pathlib import Path
from typing import Final

from harvester.client import Client, Politeness
from harvester.client.circles import list_patience
from harvester.client.retrying import Retrying
from harvester.client.transport import HttpTransport, open_transport
from harvester.restoring import wanted as wanted_list
from harvester.restoring.captures import Capture
from harvester.restoring.copying import START, is_written, write_copy
from harvester.restoring.documents import Document, Fetcher
from harvester.restoring.fetching import fetch_all
from harvester.restoring.keeping import SITE, FileKeeper, Keeper
from harvester.restoring.manifest import Manifest, Request, open_manifest, write_lines
from harvester.restoring.missing import Missing
from harvester.restoring.names import Names
from harvester.restoring.outcome import Outcome, Plan
from harvester.restoring.scope import Scope
from harvester.restoring.wanted import Wanted
from harvester.restoring.warc_files import FOLDER as WARC_FOLDER
from harvester.restoring.warc_files import WarcKeeper
from harvester.store.files import FileStore
from oai.sections import HarvesterSettings

MISSING: Final = "missing.jsonl"
FILES: Final = "files"
WARC: Final = "warc"

Report = Callable[[str, int, int | None, str], None]
"""Told how far the work is: a step's name, how much of it is done, of how much, and a note."""


@dataclass(frozen=True, kw_only=True)
class Restore:
    """A restore as it was asked for."""

    scope: Scope
    folder: Path
    base_url: str
    form: str
    """`files` or `warc`."""
    settings: HarvesterSettings
    at: datetime | None = None
    report: Report = lambda _step, _done, _total, _note: None
    on_wait: Callable[[float, str], None] = lambda _seconds, _reason: None

    @property
    def request(self) -> Request:
        """What the folder's manifest says."""
        at = self.at.isoformat() if self.at else ""
        return Request(what=self.scope.asked, at=at, form=self.form)


async def restore(asked: Restore) -> Outcome:
    """Restore; raises UsageError, RemoteError, TryLaterError, after which the same command goes on."""
    began = time.monotonic()
    manifest = open_manifest(asked.folder, asked.request)
    try:
        politeness = Politeness(per_host=asked.settings.per_host, delay=asked.settings.delay)
        async with open_transport(asked.settings, politeness=politeness) as transport:
            return await _restored(asked, manifest, transport, began)
    finally:
        manifest.close()


async def plan(asked: Restore) -> Plan:
    """What a restore would do; asks for the list, and writes nothing."""
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
    return Plan(
        listed=wanted.listed,
        wanted=len(wanted.captures),
        here=here,
        bytes=sum(one.length or 0 for one in to_fetch),
        types=dict(types.most_common()),
        missing=wanted.missing,
    )


async def _restored(asked: Restore, manifest: Manifest, transport: HttpTransport, began: float) -> Outcome:
    wanted = wanted_list.load(asked.folder)
    if wanted is None:
        wanted = await _listed(asked, transport)
        wanted_list.save(asked.folder, wanted)
    fetcher = Fetcher(
        base_url=asked.base_url,
        transport=transport,
        retrying=_retrying(asked),
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
    manifest.finish(asked.request, source=asked.base_url)
    wanted_list.drop(asked.folder)
    return _outcome(asked, manifest, wanted, fetcher, absent, len(to_fetch), time.monotonic() - began)


async def _listed(asked: Restore, transport: HttpTransport) -> Wanted:
    settings = asked.settings
    client = Client(
        asked.base_url,
        transport,
        lists=list_patience(settings),
        retries=settings.retries,
        max_wait=settings.max_wait,
        max_wait_total=settings.max_wait_total,
        first_delay=settings.first_delay,
        on_wait=asked.on_wait,
    )

    def on_page(done: int, total: int | None) -> None:
        asked.report("list", done, total, "")

    return await wanted_list.ask(client, asked.scope, asked.at, on_page)


def _retrying(asked: Restore) -> Retrying:
    settings = asked.settings
    return Retrying(
        retries=settings.retries,
        max_wait=settings.max_wait,
        max_wait_total=settings.max_wait_total,
        first_delay=settings.first_delay,
        on_wait=asked.on_wait,
    )


def _keeper(asked: Restore, manifest: Manifest, wanted: Wanted, store: FileStore) -> Keeper:
    if asked.form == WARC:
        known = manifest.entries.values()
        return WarcKeeper(asked.folder, asked.scope.asked, asked.base_url, known)
    named = {url: entry.file.removeprefix(f"{SITE}/") for url, entry in manifest.entries.items()}
    return FileKeeper(asked.folder, store, Names(wanted.captures, named))


def _named(absent: Sequence[Missing], manifest: Manifest) -> list[Missing]:
    """What the list itself calls missing, with the URLs of documents that came when they were still open."""
    urls = {entry.identifier: entry.url for entry in manifest.entries.values()}
    return [one if one.url else replace(one, url=urls.get(one.identifier, "")) for one in absent]


def _is_noted(manifest: Manifest, capture: Capture) -> bool:
    """Whether the manifest has this very capture of the URL."""
    entry = manifest.entries.get(capture.url)
    return entry is not None and entry.identifier == capture.identifier


def _is_here(manifest: Manifest, keeper: Keeper, capture: Capture) -> bool:
    return _is_noted(manifest, capture) and keeper.holds(manifest.entries[capture.url])


async def _fetched(
    asked: Restore, manifest: Manifest, keeper: Keeper, fetcher: Fetcher, captures: Sequence[Capture]
) -> list[Missing]:
    def keep(documents: Sequence[Document]) -> None:
        manifest.add(keeper.keep(documents))

    def on_done(done: int, absent: int) -> None:
        note = f"{absent:,} missing" if absent else ""
        asked.report("documents", done, len(captures), note)

    return await fetch_all(captures, fetcher, keep, workers=asked.settings.per_host, on_done=on_done)


def _copied(asked: Restore, manifest: Manifest, store: FileStore, *, fetched: bool) -> list[Missing]:
    """Make the copy, unless it is there already and nothing of it has changed."""
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
) -> Outcome:
    here = [manifest.entries[one.url] for one in wanted.captures if _is_noted(manifest, one)]
    return Outcome(
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

"""`zatva demo`: a sample archive and its titles, harvested with two other repositories, and the dashboard."""

import asyncio
import contextlib
import os
import tempfile
import time
import webbrowser
from collections.abc import AsyncIterator, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any, Final
from urllib.parse import urljoin

from sqlalchemy import func, select
from sqlalchemy.orm import Session

import provider.app
import provider.http.title_pages
import provider.http.titles
from harvester.models import History
from harvester.recognition import identify_repository
from harvester.repositories import add_repository, note_facts
from harvester.vocabulary import RunStatus
from manager.schedules.service import add_schedule
from oai.cli import Invocation
from oai.console import Console
from oai.database import Database, open_database
from oai.datestamps import utc_now
from oai.errors import ExitCode, TryLaterError, ZatvaError
from oai.rights import Role
from oai.serving import address, open_listener, stop_signal
from oai.settings import Settings
from provider.holdings import collections, takedowns
from provider.holdings.takedowns import TakedownRequest
from provider.indexing.archive_search import find_archives
from provider.indexing.indexer import IndexOptions, index_file
from provider.models import Document
from provider.titles.access import settle_access
from provider.titles.imports import apply_import, plan_import
from provider.titles.models import Title
from provider.titles.ranges import range_rules
from web.auth.organisations import add_organisation, give_repository
from web.auth.sign_in import make_link
from web.auth.users import add_user
from web.repositories.report_card import make_card
from zatva.libraries import UNREADABLE, DemoRepository, broken_library, slow_library
from zatva.sample import TITLES, write_archive, write_past
from zatva.serve import everything

_COLLECTION: Final = "collection:serials:spring-2024"
_SET: Final = "domain:example:mesto"
_TAKEDOWN: Final = TakedownRequest(
    targets=("http://mesto.example/gazette/*",),
    reason="The gazette names private persons.",
    requester="Town office, mayor@mesto.example",
    reference="12/2024",
)
_LIBRARY: Final = "library"
"""Short name of the organisation whose librarian harvests the broken repository."""
_OWN: Final = "sample"
_TITLES: Final = "titles"
"""Name of the source of the sample titles, and folder of their harvested records."""
_AT_ONCE: Final = 4
"""Concurrent harvests from one host, because all the demo's repositories are on this one."""
_FIRST_RUNS_SECONDS: Final = 120.0


@dataclass(frozen=True, kw_only=True)
class Archive:
    """The content of the demo's archive."""

    files: int
    documents: int
    hidden: int
    titles: int
    """Titles that are listed; the others are not public."""
    due: datetime
    """When the last record becomes visible to harvesters."""


def demo(invocation: Invocation) -> ExitCode:
    """Run the demo until Ctrl-C, or with `--once` until everything is harvested."""
    if "data" in invocation.settings.model_fields_set:
        words = "the demo has its own temporary data folder; --data and ZATVA_DATA are not used"
        invocation.console.note(words)
    # Open for the whole demo: otherwise the database's server would end and start again after the indexing.
    with _own_settings(invocation.settings) as settings, open_database(settings) as database:
        archive = _make_archive(settings, database)
        try:
            return asyncio.run(_run(settings, archive, invocation.console, once=invocation.arguments.once))
        except* ZatvaError as errors:
            raise errors.exceptions[0] from None


@contextlib.contextmanager
def _own_settings(settings: Settings) -> Iterator[Settings]:
    """Yield the demo's settings: an embedded database and files in a folder that is removed afterwards.

    Addresses in the given settings belong to the installation, and are not used by the demo.
    """
    with tempfile.TemporaryDirectory(prefix="zatva-demo-", ignore_cleanup_errors=True) as folder:
        if os.geteuid() == 0:
            Path(folder).chmod(0o711)  # the database's own account must be able to enter it
        sample = {
            "repository_name": "Sample web archive",
            "namespace": "archive.example",
            "base_url": None,
            "publish_margin": 1,
        }
        # Harvesters are processes that read their settings themselves: without this, those of the librarian's
        # repository would refuse addresses of this machine.
        os.environ["ZATVA_WEB__PRIVATE_ADDRESSES"] = "true"
        yield settings.model_copy(
            update={
                "data": Path(folder),
                "database_url": None,
                "provider": settings.provider.model_copy(update=sample),
                "manager": settings.manager.model_copy(update={"tick_seconds": 0.5, "per_host": _AT_ONCE}),
                "web": settings.web.model_copy(update={"private_addresses": True, "base_url": None}),
            }
        )


def _make_archive(settings: Settings, database: Database) -> Archive:
    files = write_archive(settings.data / "archive")
    margin = settings.provider.publish_margin
    with database.session() as session:
        collections.add_collection(session, _COLLECTION, name="Serials, spring 2024")
        session.commit()
        family = collections.lineage(session, _COLLECTION)
    for number, path in enumerate(find_archives(files)):
        options = IndexOptions(margin=margin, collections=family if number == 0 else ())
        index_file(database, path, options)
    with database.session() as session:
        hidden = takedowns.settle_takedown(session, takedowns.enter(session, _TAKEDOWN), margin=margin)
        listed, titles_due = _import_titles(session, settings)
        documents, documents_due = session.execute(select(func.count(), func.max(Document.datestamp))).one()
    # Answers are up to a second behind the clock (`provider.holdings.mark`).
    due = max(documents_due, titles_due) + timedelta(seconds=1)
    return Archive(files=len(files), documents=documents, hidden=hidden, titles=listed, due=due)


def _import_titles(session: Session, settings: Settings) -> tuple[int, datetime]:
    """Import the sample titles; returns how many are listed, and when they become visible to harvesters."""
    rules, margin = range_rules(settings.provider), settings.provider.publish_margin
    apply_import(session, plan_import(session, _TITLES, TITLES, rules), rules, margin=margin)
    session.commit()
    settle_access(session, margin=margin)
    listed, due = session.execute(select(func.count(), func.max(Title.datestamp)).where(~Title.deleted)).one()
    return listed, due


async def _run(settings: Settings, archive: Archive, console: Console, *, once: bool) -> ExitCode:
    with open_listener("127.0.0.1", 0) as provider_listener, open_listener("127.0.0.1", 0) as web_listener:
        own = _own_repositories(address(provider_listener), archive.due)
        async with (
            # Entered before the manager and left after it, so that its harvests end while repositories still
            # answer.
            _added(settings, own, once=once) as repositories,
            everything(settings, provider_listener, web_listener) as database,
        ):
            dashboard = address(web_listener)
            _introduce(console, archive, repositories, dashboard)
            schedules = await _schedule(settings, database, repositories)
            runs = await _first_runs(database, schedules if once else schedules[:1])
            stored = sum(1 for _ in (settings.store / _OWN).rglob("*.xml"))
            console.note(f"harvested  {runs[0].record_count:,} records: {runs[0].status}")
            console.note(f"stored     {stored:,} files")
            if once:
                return _summary(console, archive, own, runs, stored)
            stop = stop_signal()  # set up first, because the user may end the demo right after the invitation
            broken = list(repositories)[1]
            await asyncio.to_thread(_invite, settings, database, dashboard, console, broken, _pages(own[0]))
            await stop.wait()
    return ExitCode.DONE


def _own_repositories(host: str, due: datetime) -> list[DemoRepository]:
    """Return the archive's repositories, of its documents and of its titles; `due` as in `Archive`."""
    schedules: list[dict[str, object]] = [
        {"frequency": "hourly", "start_date": due},
        {"frequency": "every minute", "start_date": due, "set_spec": _SET},
    ]
    return [
        DemoRepository(base_url=f"{host}{provider.app.PATH}", base_dir=_OWN, schedules=schedules),
        DemoRepository(
            base_url=f"{host}{provider.http.titles.PATH}", base_dir=_TITLES, schedules=schedules[:1]
        ),
    ]


@contextlib.asynccontextmanager
async def _added(
    settings: Settings, own: Sequence[DemoRepository], *, once: bool
) -> AsyncIterator[dict[int, DemoRepository]]:
    """Serve the other repositories during the block; yields all by id, the documents first, the titles last.

    The slow one is omitted if the demo is to end by itself.
    """
    others = [broken_library] if once else [broken_library, slow_library]
    with open_database(settings) as database:
        async with contextlib.AsyncExitStack() as stack:
            served = [await stack.enter_async_context(serve(database)) for serve in others]
            yield await asyncio.to_thread(_add, database, [own[0], *served, *own[1:]])


def _add(database: Database, repositories: Sequence[DemoRepository]) -> dict[int, DemoRepository]:
    """Add the repositories' rows, and the generated history of the first one."""
    with database.session() as session:
        numbered = {
            add_repository(session, base_url=each.base_url, base_dir=each.base_dir).repository_id: each
            for each in repositories
        }
        write_past(session, next(iter(numbered)), utc_now())
        session.commit()
    return numbered


def _introduce(
    console: Console, archive: Archive, repositories: Mapping[int, DemoRepository], dashboard: str
) -> None:
    console.note(f"indexed    {archive.documents:,} documents, {archive.hidden:,} of them hidden")
    own, *others, of_titles = repositories.values()
    console.note(f"provider   {own.base_url}?verb=Identify")
    console.note(
        f"titles     {of_titles.base_url}?verb=Identify; {archive.titles:,} for readers: {_pages(own)}"
    )
    for other in others:
        console.note(f"second     {other.base_url}?verb=Identify ({other.base_dir})")
    console.note(f"dashboard  {dashboard}")


def _pages(own: DemoRepository) -> str:
    """Return the address of the titles' pages for readers."""
    return urljoin(own.base_url, provider.http.title_pages.PATH)


async def _schedule(
    settings: Settings, database: Database, repositories: Mapping[int, DemoRepository]
) -> list[int]:
    """Request each repository's identity and plan its harvests; returns the schedules' ids in order."""
    facts = [await identify_repository(each.base_url, settings) for each in repositories.values()]

    def plan() -> list[int]:
        with database.session() as session:
            schedules = []
            for (repository_id, repository), identity in zip(repositories.items(), facts, strict=True):
                note_facts(session, repository_id, identity)
                schedules += [
                    add_schedule(session, repository_id=repository_id, **_ahead(columns)).id
                    for columns in repository.schedules
                ]
            session.commit()
        return schedules

    return await asyncio.to_thread(plan)


def _ahead(columns: Mapping[str, object]) -> Mapping[str, Any]:
    """Return a schedule's columns with a start that lies ahead: after a past one, a period goes by first."""
    start, ahead = columns.get("start_date"), utc_now() + timedelta(seconds=1)
    return {**columns, "start_date": max(start, ahead)} if isinstance(start, datetime) else columns


async def _first_runs(database: Database, schedules: Sequence[int]) -> list[History]:
    """Return the first run of each schedule once all are in the history."""

    def look() -> list[History]:
        first = select(func.min(History.history_id)).where(History.recurring_id.in_(schedules))
        with database.session() as session:
            runs = session.scalars(
                select(History).where(History.history_id.in_(first.group_by(History.recurring_id)))
            ).all()
        return sorted(runs, key=lambda run: schedules.index(run.recurring_id or 0))

    deadline = time.monotonic() + _FIRST_RUNS_SECONDS
    while len(found := await asyncio.to_thread(look)) < len(schedules):
        if time.monotonic() > deadline:
            raise TryLaterError(
                f"the demo's first harvests did not end within {_FIRST_RUNS_SECONDS:.0f} seconds; run it "
                "again when the machine is less busy"
            )
        await asyncio.sleep(0.2)
    return found


def _summary(
    console: Console, archive: Archive, own: Sequence[DemoRepository], runs: Sequence[History], stored: int
) -> ExitCode:
    documents, of_titles = own
    whole, _of_the_set, broken, checked, titles = runs
    live = archive.documents - archive.hidden
    well = whole.verdict == "complete" and stored == live
    result = {
        "indexed": archive.documents,
        "hidden": archive.hidden,
        "served": documents.base_url,
        "harvested": whole.record_count,
        "status": whole.status,
        "stored": stored,
        "broken": [_run_facts(broken), _run_facts(checked)],
        "titles": {
            "listed": archive.titles,
            "served": of_titles.base_url,
            "pages": _pages(documents),
            "harvested": titles.record_count,
            "status": titles.status,
        },
    }
    console.result(result, _in_words(result, well=well, live=live))
    titles_well = (titles.verdict, titles.record_count) == ("complete", archive.titles)
    return ExitCode.DONE if well and titles_well and _found_out(broken, checked) else ExitCode.FAULT


def _in_words(result: Mapping[str, Any], *, well: bool, live: int) -> str:
    """Return the summary for people; `live` is the number of files that should be stored."""
    (broken, checked), titles = result["broken"], result["titles"]
    text = "all records that the provider offers are stored" if well else f"{live:,} files were expected"
    return (
        f"{result['indexed']:,} documents indexed, {result['hidden']:,} of them hidden; served at "
        f"{result['served']}; {result['harvested']:,} records harvested ({result['status']}); "
        f"{result['stored']:,} files stored: {text}\n"
        f"broken library: {broken['records']:,} records, {broken['refused']} of them rejected "
        f"({broken['status']}); as {checked['format']}, strictly checked: {checked['status']}\n"
        f"{titles['listed']:,} titles listed; served at {titles['served']}, their pages at "
        f"{titles['pages']}; {titles['harvested']:,} records harvested ({titles['status']})"
    )


def _run_facts(run: History) -> dict[str, object]:
    """Return a run of the broken library, for programs."""
    return {
        "format": run.metadata_prefix,
        "status": run.status,
        "records": run.record_count,
        "refused": run.invalid_count,
        "reason": run.failure_reason,
    }


def _found_out(broken: History, checked: History) -> bool:
    """Return whether all faults were found, and no others."""
    refused = (broken.status, broken.invalid_count) == (RunStatus.COMPLETED_WITH_ERRORS, len(UNREADABLE))
    return refused and checked.status == RunStatus.FAILED


def _invite(
    settings: Settings, database: Database, dashboard: str, console: Console, broken: int, titles: str
) -> None:
    """Print links for an administrator, a librarian, the broken repository's administrator, and readers."""
    with database.session() as session:
        library = add_organisation(session, short_name=_LIBRARY, name="City Library")
        give_repository(session, broken, library.organisation_id)
        add_user(session, "librarian", Role.PARTNER, organisation_id=library.organisation_id)
        link = make_link(session, settings, "admin", dashboard, create_administrator=True)
        second = make_link(session, settings, "librarian", dashboard)
        card = f"{dashboard}/cards/{make_card(session, broken)}"
        session.commit()
    console.result(
        {"sign_in": link, "librarian": second, "report_card": card, "titles": titles},
        f"sign in    {link}\n"
        f"librarian  {second} (in another browser or a private window)\n"
        f"report     {card}\n"
        f"titles     {titles}\n"
        "Try: follow what needs attention to the letter; look up mesto.example in the archive and take\n"
        "pages down; search the archive's titles; repair the broken library's records on arrival.\n"
        "Press Ctrl-C to end the demo and remove its data.",
    )
    if console.out.isatty():
        webbrowser.open(link)

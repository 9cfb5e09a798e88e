"""`zatva demo`: a sample archive, indexed, served and harvested on schedules, with the dashboard over it."""

import asyncio
import contextlib
import os
import tempfile
import webbrowser
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Final

from sqlalchemy import func, select

import provider.app
from harvester.models import History
from harvester.repositories import add_repository, identify_repository
from manager.schedules import add_schedule
from oai.cli import Invocation
from oai.console import Console
from oai.database import Database, open_database
from oai.errors import ExitCode, ZatvaError
from oai.serving import address, open_listener, told_to_stop
from oai.settings import Settings
from provider.holdings import collections, hiding
from provider.holdings.selection import Selection
from provider.indexing.indexer import IndexOptions, find_archives, index_file
from provider.models import Document
from web.signing_in import make_link
from zatva.sample import write_archive
from zatva.serve import everything

_COLLECTION: Final = "collection:serials:spring-2024"
_SET: Final = "domain:example:mesto"
_HIDDEN: Final = "http://mesto.example/gazette/"
_PATIENCE: Final = 120.0


@dataclass(frozen=True, kw_only=True)
class Archive:
    """What the demo's archive holds."""

    files: int
    documents: int
    hidden: int
    due: datetime
    """When the last of it is due for harvesters."""


def demo(invocation: Invocation) -> ExitCode:
    """Run the demo until Ctrl-C, or with `--once` until everything was harvested."""
    with _own_settings(invocation.settings) as settings:
        archive = _make_archive(settings)
        try:
            return asyncio.run(_run(settings, archive, invocation.console, once=invocation.arguments.once))
        except* ZatvaError as errors:
            raise errors.exceptions[0] from None


@contextlib.contextmanager
def _own_settings(settings: Settings) -> Iterator[Settings]:
    """The demo's settings: an embedded database and files in a folder that goes with it."""
    with tempfile.TemporaryDirectory(prefix="zatva-demo-", ignore_cleanup_errors=True) as folder:
        if os.geteuid() == 0:
            Path(folder).chmod(0o711)  # the database's own account passes through
        sample = {
            "repository_name": "Sample web archive",
            "namespace": "archive.example",
            "publish_margin": 1,
        }
        yield settings.model_copy(
            update={
                "data": Path(folder),
                "database_url": None,
                "provider": settings.provider.model_copy(update=sample),
                "manager": settings.manager.model_copy(update={"tick_seconds": 0.5}),
                "web": settings.web.model_copy(update={"private_addresses": True}),
            }
        )


def _make_archive(settings: Settings) -> Archive:
    files = write_archive(settings.data / "archive")
    margin = settings.provider.publish_margin
    with open_database(settings) as database:
        with database.session() as session:
            collections.add_collection(session, _COLLECTION, name="Serials, spring 2024")
            session.commit()
            family = collections.lineage(session, _COLLECTION)
        for number, path in enumerate(find_archives(files)):
            options = IndexOptions(margin=margin, collections=family if number == 0 else ())
            index_file(database, path, options)
        with database.session() as session:
            hidden = hiding.hide(session, Selection(url_prefix=_HIDDEN), margin=margin)
            documents, due = session.execute(select(func.count(), func.max(Document.datestamp))).one()
    return Archive(files=len(files), documents=documents, hidden=hidden, due=due)


async def _run(settings: Settings, archive: Archive, console: Console, *, once: bool) -> ExitCode:
    with open_listener("127.0.0.1", 0) as provider_listener, open_listener("127.0.0.1", 0) as web_listener:
        async with everything(settings, provider_listener, web_listener) as database:
            base_url = f"{address(provider_listener)}{provider.app.PATH}"
            dashboard = address(web_listener)
            console.note(f"indexed    {archive.documents:,} documents, {archive.hidden:,} of them hidden")
            console.note(f"provider   {base_url}?verb=Identify")
            console.note(f"dashboard  {dashboard}")
            await _schedule(settings, database, base_url, archive.due)
            history = await _first_history(database)
            stored = sum(1 for _ in settings.store.rglob("*.xml"))
            console.note(
                f"harvested  {history.record_count:,} records: {history.status}\nstored     {stored:,} files"
            )
            if once:
                return _summary(console, archive, base_url, history, stored)
            await asyncio.to_thread(_invite, settings, database, dashboard, console)
            await told_to_stop().wait()
    return ExitCode.DONE


async def _schedule(settings: Settings, database: Database, base_url: str, due: datetime) -> None:
    facts = await identify_repository(base_url, settings)

    def add() -> None:
        with database.session() as session:
            repository = add_repository(session, base_url=base_url, base_dir="sample", facts=facts)
            everything_else = {"repository_id": repository.repository_id, "start_date": due}
            add_schedule(session, frequency="hourly", **everything_else)
            add_schedule(session, frequency="every minute", set_spec=_SET, **everything_else)
            session.commit()

    await asyncio.to_thread(add)


async def _first_history(database: Database) -> History:
    """The history row of the harvest of everything, when it is there."""

    def look() -> History | None:
        with database.session() as session:
            return session.scalars(select(History).where(func.coalesce(History.set_spec, "") == "")).first()

    async with asyncio.timeout(_PATIENCE):
        while True:
            found = await asyncio.to_thread(look)
            if found is not None:
                return found
            await asyncio.sleep(0.2)


def _summary(console: Console, archive: Archive, base_url: str, history: History, stored: int) -> ExitCode:
    live = archive.documents - archive.hidden
    well = history.verdict == "complete" and stored == live
    result = {
        "indexed": archive.documents,
        "hidden": archive.hidden,
        "served": base_url,
        "harvested": history.record_count,
        "status": history.status,
        "stored": stored,
    }
    text = "everything that the provider shows is here" if well else f"{live:,} files were expected"
    console.result(
        result,
        f"{archive.documents:,} documents indexed, {archive.hidden:,} of them hidden; served at {base_url}; "
        f"{history.record_count:,} records harvested ({history.status}); {stored:,} files stored: {text}",
    )
    return ExitCode.DONE if well else ExitCode.FAULT


def _invite(settings: Settings, database: Database, dashboard: str, console: Console) -> None:
    with database.session() as session:
        link = make_link(session, settings, "admin", dashboard, create_administrator=True)
        session.commit()
    console.result({"sign_in": link}, f"sign in    {link}\nCtrl-C ends the demo and removes what it made.")
    if console.out.isatty():
        webbrowser.open(link)

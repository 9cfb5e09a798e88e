"""`zatva provider serve`: the provider in one process, or in several that share a port."""

import asyncio
import contextlib
import os
import re
import socket
import threading
from typing import Final

from aiohttp import web

import oai.serving
from oai.cli import Invocation
from oai.connections import CONNECTIONS
from oai.database import open_database
from oai.errors import ExitCode, UsageError
from oai.serving import address, open_listener, own_address, serving, told_to_stop
from oai.settings import Settings
from provider.app import create_app
from provider.http.endpoint import PATH
from provider.indexing.first_load import refuse_unserved
from provider.processes import Announce, run_processes

_LONGEST_LINE: Final = 64 * 1024
_STOP_SECONDS: Final = 40.0
_MERCY_SECONDS: Final = 5.0
_WEB_ADDRESS: Final = re.compile(r"https?://\S+")


def serve(invocation: Invocation) -> ExitCode:
    """Serve until SIGTERM or SIGINT; open answers are finished first."""
    arguments, settings = invocation.arguments, invocation.settings
    # Alone at first, even for several processes: a shared port would be shared with a stranger, too.
    listener = open_listener(arguments.host, arguments.port)
    port = listener.getsockname()[1]
    at = f"{address(listener)}{PATH}"
    reached = f"{own_address(listener)}{PATH}"
    base_url = _base_url(arguments.base_url or settings.provider.base_url or reached)

    def tell() -> None:
        invocation.console.note(f"provider at {at}")

    if arguments.processes == 1:
        _serve(settings, listener, base_url, announce=tell)
        return ExitCode.DONE

    listener.close()
    reserved = open_listener(arguments.host, port, shared=True)

    def work(announce: Announce, parent: int, number: int) -> None:
        _serve(
            _numbered(settings, number),
            open_listener(arguments.host, port, shared=True),
            base_url,
            announce=announce,
            parent=parent,
        )

    with reserved:
        return run_processes(arguments.processes, work, announce=tell)


def create_runner(app: web.Application) -> web.AppRunner:
    """A runner for the provider's application.

    A client that goes away gives up its place, URLs may be as long as forms, and at the end open answers are
    finished.
    """
    return oai.serving.create_runner(
        app,
        log="provider.http",
        stop_seconds=_STOP_SECONDS,
        longest_line=_LONGEST_LINE,
        handler_cancellation=True,
    )


def _base_url(text: str) -> str:
    if not _WEB_ADDRESS.fullmatch(text):
        raise UsageError(f"base URL {text!r}: write it as http://host/path or https://host/path")
    return text


def _numbered(settings: Settings, number: int) -> Settings:
    """The settings of one of several processes: each has a port of its own for its figures."""
    port = settings.provider.metrics_port
    if not port:
        return settings
    own = settings.provider.model_copy(update={"metrics_port": port + number})
    return settings.model_copy(update={"provider": own})


def _serve(
    settings: Settings,
    listener: socket.socket,
    base_url: str,
    *,
    announce: Announce,
    parent: int | None = None,
) -> None:
    provider = settings.provider
    with (
        listener,
        open_database(
            settings, pool_size=provider.threads, statement_seconds=provider.statement_seconds
        ) as database,
    ):
        with database.session() as session:
            refuse_unserved(session)
        app = create_app(settings, database, base_url=base_url)
        asyncio.run(_until_stopped(app, listener, announce, parent))


async def _until_stopped(
    app: web.Application, listener: socket.socket, announce: Announce, parent: int | None
) -> None:
    async with serving(create_runner(app), listener):
        stop = told_to_stop(parent)
        announce()
        await stop.wait()
        _end_at_last()
        latest = asyncio.get_running_loop().time() + _STOP_SECONDS
    # What clients have still to take of finished answers is in memory, and would end with this process.
    with contextlib.suppress(TimeoutError):
        async with asyncio.timeout_at(latest):
            await app[CONNECTIONS].slowness.all_taken()


def _end_at_last() -> None:
    """See that the process ends even while a statement goes on; it keeps nothing that would be lost."""
    timer = threading.Timer(_STOP_SECONDS + _MERCY_SECONDS, os._exit, [ExitCode.FAULT])
    timer.daemon = True
    timer.start()

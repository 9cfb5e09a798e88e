"""`zatva web serve`: the dashboard as a separate process."""

import asyncio
import socket
from typing import Final

from aiohttp import web

import oai.serving
from oai.cli import Invocation
from oai.database import Database, open_database
from oai.errors import ExitCode
from oai.serving import address, open_listener, serving, stop_signal
from oai.settings import Settings
from provider.holdings.url_key_state import settle_rule
from provider.holdings.urlkeys import WwwRule
from web.app import create_app
from web.site.keys import THREADS

STATEMENT_SECONDS: Final = 30.0
_STOP_SECONDS: Final = 5.0
LONGEST_LINE: Final = 128 * 1024
"""Limit of a request line in bytes: queries contain archived URLs, with up to 12 bytes a character."""


def serve(invocation: Invocation) -> ExitCode:
    """Run the dashboard until interrupted."""
    settings, arguments = invocation.settings, invocation.arguments
    with (
        open_listener(arguments.host, arguments.port) as listener,
        open_database(settings, pool_size=THREADS + 1, statement_seconds=STATEMENT_SECONDS) as database,
    ):
        with database.session() as session:
            settle_rule(session, WwwRule(settings.provider.www_rule))
        asyncio.run(_serve(invocation, settings, database, listener))
    return ExitCode.DONE


def create_runner(app: web.Application) -> web.AppRunner:
    """Return a runner for the dashboard's application."""
    return oai.serving.create_runner(
        app, log="web.http", stop_seconds=_STOP_SECONDS, longest_line=LONGEST_LINE
    )


async def _serve(
    invocation: Invocation, settings: Settings, database: Database, listener: socket.socket
) -> None:
    async with serving(create_runner(create_app(settings, database)), listener):
        stop = stop_signal()
        invocation.console.note(f"dashboard at {address(listener)}")
        await stop.wait()

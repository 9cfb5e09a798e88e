"""`zatva serve`: provider, manager and dashboard together in one process."""

import asyncio
import contextlib
import socket
from collections.abc import AsyncIterator
from typing import Final

import manager.running
import provider.app
import web.app
from oai.cli import Invocation
from oai.database import Database, open_database
from oai.errors import ExitCode
from oai.serving import address, open_listener, serving, until_stopped
from oai.settings import Settings

_STOP_SECONDS: Final = 20.0


def serve(invocation: Invocation) -> ExitCode:
    """Run until SIGTERM or SIGINT; harvests under way are ended so that they can be resumed."""
    arguments = invocation.arguments
    with (
        open_listener(arguments.host, arguments.port) as provider_listener,
        open_listener(arguments.host, arguments.web_port, option="--web-port") as web_listener,
    ):
        asyncio.run(_serve(invocation, provider_listener, web_listener))
    return ExitCode.DONE


async def _serve(
    invocation: Invocation, provider_listener: socket.socket, web_listener: socket.socket
) -> None:
    async with everything(invocation.settings, provider_listener, web_listener):
        invocation.console.note(f"provider at {address(provider_listener)}{provider.app.PATH}")
        invocation.console.note(f"dashboard at {address(web_listener)}")
        await until_stopped()


@contextlib.asynccontextmanager
async def everything(
    settings: Settings, provider_listener: socket.socket, web_listener: socket.socket
) -> AsyncIterator[Database]:
    """Run all three parts during the block, each with database connections of its own; gives the dashboard's.

    A manager that ends of itself ends the block with its error.
    """
    own = settings.provider
    with (
        open_database(settings, pool_size=own.threads, statement_seconds=own.statement_seconds) as archive,
        open_database(settings) as managed,
        open_database(settings) as shown,
    ):
        base_url = own.base_url or f"{address(provider_listener)}{provider.app.PATH}"
        oai_pmh = provider.app.create_app(settings, archive, base_url=base_url)
        dashboard = web.app.create_app(settings, shown)
        async with (
            serving(oai_pmh, provider_listener, stop_seconds=_STOP_SECONDS, cancel_abandoned=True),
            serving(dashboard, web_listener, stop_seconds=_STOP_SECONDS),
            asyncio.TaskGroup() as tasks,
        ):
            managing = tasks.create_task(manager.running.run(settings, managed))
            yield shown
            managing.cancel()

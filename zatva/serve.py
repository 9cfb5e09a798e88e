"""`zatva serve`: provider, manager and dashboard together in one process."""

import asyncio
import contextlib
import socket
from collections.abc import AsyncIterator

import manager.commands
import provider.app
import provider.serving
import web.app
import web.serving
from oai.cli import Invocation
from oai.database import Database, open_database
from oai.serving import address, open_listener, own_address, serving, stop_signal
from oai.settings import Settings
from provider.holdings.url_key_state import settle_rule, warn_if_incomplete
from provider.holdings.urlkeys import WwwRule
from provider.indexing.first_load import refuse_unserved
from web.serving import STATEMENT_SECONDS
from web.site.keys import THREADS


def serve(invocation: Invocation) -> None:
    """Run until SIGTERM or SIGINT; running harvests are ended so that they can be resumed."""
    arguments = invocation.arguments
    with (
        open_listener(arguments.host, arguments.port) as provider_listener,
        open_listener(arguments.host, arguments.web_port, option="--web-port") as web_listener,
    ):
        asyncio.run(_serve(invocation, provider_listener, web_listener))


async def _serve(
    invocation: Invocation, provider_listener: socket.socket, web_listener: socket.socket
) -> None:
    async with everything(invocation.settings, provider_listener, web_listener):
        stop = stop_signal()
        invocation.console.note(f"provider at {address(provider_listener)}{provider.app.PATH}")
        invocation.console.note(f"dashboard at {address(web_listener)}")
        await stop.wait()


@contextlib.asynccontextmanager
async def everything(
    settings: Settings, provider_listener: socket.socket, web_listener: socket.socket
) -> AsyncIterator[Database]:
    """Run all three parts during the block, each with its own database connections; yields the dashboard's.

    If the manager ends by itself, the block ends with its error.
    """
    own = settings.provider
    with (
        open_database(settings, pool_size=own.threads, statement_seconds=own.statement_seconds) as archive,
        open_database(settings) as managed,
        open_database(settings, pool_size=THREADS, statement_seconds=STATEMENT_SECONDS) as shown,
    ):
        with archive.session() as session:
            refuse_unserved(session)
            settle_rule(session, WwwRule(own.www_rule))
            warn_if_incomplete(session)
        base_url = own.base_url or f"{own_address(provider_listener)}{provider.app.PATH}"
        oai_pmh = provider.app.create_app(settings, archive, base_url=base_url)
        # The dashboard shows and tests the provider of this process, whatever its port.
        served = own.model_copy(update={"base_url": base_url})
        dashboard = web.app.create_app(settings.model_copy(update={"provider": served}), shown)
        async with (
            serving(provider.serving.create_runner(oai_pmh), provider_listener, servers=2),
            serving(web.serving.create_runner(dashboard), web_listener, servers=2),
            asyncio.TaskGroup() as tasks,
        ):
            managing = tasks.create_task(manager.commands.run(settings, managed))
            yield shown
            managing.cancel()

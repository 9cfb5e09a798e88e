"""A provider that the tests of a module share: its start and end take longer than most of them."""

import asyncio
from collections.abc import Coroutine, Iterator
from contextlib import contextmanager
from threading import Thread

from aiohttp.test_utils import TestServer
from aiohttp.web import Application


class SharedServer(TestServer):
    """A server that outlives its clients. It is started and ended on a separate event loop."""

    async def close(self) -> None:
        """Do nothing at the end of a client: the next one needs the server as well."""

    async def end(self) -> None:
        """End the server."""
        await super().close()


@contextmanager
def shared_server(app: Application) -> Iterator[SharedServer]:
    """Serve the application in a thread for the block.

    The event loop of a test ends with the test, and so do the servers that run on it.
    """
    loop = asyncio.new_event_loop()
    thread = Thread(target=loop.run_forever)
    thread.start()

    def run(work: Coroutine[None, None, None]) -> None:
        asyncio.run_coroutine_threadsafe(work, loop).result()

    server = SharedServer(app)
    try:
        run(server.start_server())
        yield server
        run(server.end())
    finally:
        run(loop.shutdown_default_executor())
        loop.call_soon_threadsafe(loop.stop)
        thread.join()
        loop.close()

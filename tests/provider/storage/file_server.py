"""A server of files with byte ranges, ETags and conditions, as nginx and Apache are."""

import asyncio
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from aiohttp import web


@contextmanager
def file_server(folder: Path) -> Iterator[int]:
    """Serve a folder; yields the port."""
    ready: list[int] = []
    began = threading.Event()
    loop = asyncio.new_event_loop()

    async def begin() -> web.AppRunner:
        app = web.Application()
        app.router.add_static("/", folder)
        runner = web.AppRunner(app, access_log=None)
        await runner.setup()
        await web.TCPSite(runner, "127.0.0.1", 0).start()
        ready.append(int(runner.addresses[0][1]))
        began.set()
        return runner

    def run() -> None:
        runner = loop.run_until_complete(begin())
        loop.run_forever()
        loop.run_until_complete(runner.cleanup())
        loop.close()

    thread = threading.Thread(target=run)
    thread.start()
    began.wait(30)
    try:
        yield ready[0]
    finally:
        loop.call_soon_threadsafe(loop.stop)
        thread.join()

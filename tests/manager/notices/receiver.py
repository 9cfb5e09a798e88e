"""A receiver of webhooks on 127.0.0.1 that keeps what it is given and can be told to refuse."""

import contextlib
import hashlib
import hmac
import json
from collections.abc import AsyncIterator
from dataclasses import dataclass, field
from typing import Any

from aiohttp import web

SECRET = "a key for tests"


@dataclass(kw_only=True)
class Receiver:
    """Keeps each post; the next answers have these statuses, later ones 204."""

    url: str = ""
    statuses: list[int] = field(default_factory=list)
    posts: list[dict[str, Any]] = field(default_factory=list)
    headers: list[dict[str, str]] = field(default_factory=list)

    async def handle(self, request: web.Request) -> web.Response:
        body = await request.read()
        timestamp = request.headers["Zatva-Timestamp"]
        code = hmac.new(SECRET.encode(), timestamp.encode() + b"." + body, hashlib.sha256).hexdigest()
        if request.headers["Zatva-Signature"] != f"sha256={code}":
            return web.Response(status=401)
        self.posts.append(json.loads(body))
        self.headers.append(dict(request.headers))
        status = self.statuses.pop(0) if self.statuses else 204
        headers = {"Location": f"{self.url}/elsewhere"} if status in (301, 302) else {}
        return web.Response(status=status, headers=headers)


@contextlib.asynccontextmanager
async def receiver(*statuses: int) -> AsyncIterator[Receiver]:
    """A receiver for as long as the block lasts."""
    kept = Receiver(statuses=list(statuses))
    app = web.Application()
    app.router.add_post("/{path:.*}", kept.handle)
    runner = web.AppRunner(app)
    await runner.setup()
    site = web.TCPSite(runner, "127.0.0.1", 0)
    await site.start()
    assert runner.addresses
    kept.url = f"http://127.0.0.1:{runner.addresses[0][1]}/here"
    try:
        yield kept
    finally:
        await runner.cleanup()

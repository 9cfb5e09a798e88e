"""A receiver of webhooks on 127.0.0.1 that keeps the posts it receives and refuses them on request."""

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
    keys: list[str] = field(default_factory=lambda: [SECRET])
    """Those that it knows; a post must be signed with one of them."""
    signed: list[dict[str, str | None]] = field(default_factory=list)
    """The key of each signature of each post, by the header's name."""

    def next_keys(self) -> list[str | None]:
        """The keys of the signatures beside the usual one."""
        return [one["Zatva-Signature-Next"] for one in self.signed]

    async def handle(self, request: web.Request) -> web.Response:
        body = await request.read()
        timestamp = request.headers["Zatva-Timestamp"]
        keys = {_signature(key, timestamp, body): key for key in self.keys}
        names = ("Zatva-Signature", "Zatva-Signature-Next")
        signed = {name: keys.get(request.headers.get(name, "")) for name in names}
        if signed["Zatva-Signature"] is None:
            return web.Response(status=401)
        self.signed.append(signed)
        self.posts.append(json.loads(body))
        self.headers.append(dict(request.headers))
        status = self.statuses.pop(0) if self.statuses else 204
        headers = {"Location": f"{self.url}/elsewhere"} if status in (301, 302) else {}
        return web.Response(status=status, headers=headers)


def _signature(key: str, timestamp: str, body: bytes) -> str:
    code = hmac.new(key.encode(), timestamp.encode() + b"." + body, hashlib.sha256).hexdigest()
    return f"sha256={code}"


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

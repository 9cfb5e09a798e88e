"""A small OpenID provider on 127.0.0.1 that signs in the user that a test names, and misbehaves on request.

It has what `web.auth.openid` uses of OpenID Connect Core 1.0: discovery, authorization code flow with
PKCE, user information, keys.
"""

import asyncio
import base64
import contextlib
import hashlib
import secrets
import time
from collections.abc import AsyncIterator
from dataclasses import dataclass, field
from typing import Any

from aiohttp import web
from joserfc import jwt
from joserfc.jwk import OctKey, RSAKey
from yarl import URL

from oai.sections import OpenIdSettings
from tests.web.conftest import Server
from web.auth.openid import PROVIDER, RETURN, OpenIdProvider
from web.site.keys import SETTINGS

CLIENT, SECRET = "zatva", "a secret between the two"


def use_provider(server: Server, issuer: str, **given: Any) -> None:
    """Give a running dashboard a provider; settings are read once, and tests alone change them."""
    rest = {"client_secret": SECRET, "scopes": ("openid", "profile"), "private_networks": True, "timeout": 2}
    openid = OpenIdSettings(**{"issuer": issuer, "client_id": CLIENT, **rest, **given})
    old = server.app[SETTINGS]
    base = old.web.model_copy(update={"base_url": server.base_url})
    server.app._state[SETTINGS] = old.model_copy(update={"openid": openid, "web": base})  # noqa: SLF001
    server.app._state[PROVIDER] = OpenIdProvider(openid, return_address=server.base_url + RETURN)  # noqa: SLF001


@dataclass
class FakeProvider:
    """The provider's state, which tests change."""

    issuer: str = ""
    account: dict[str, Any] = field(default_factory=lambda: {"sub": "alena-1", "preferred_username": "Alena"})
    claims: dict[str, Any] = field(default_factory=dict)
    """Claims of the ID token that replace the right ones; None removes a claim."""
    algorithm: str = "RS256"
    key: RSAKey = field(default_factory=lambda: RSAKey.generate_key(2048, {"kid": "1"}))
    published: RSAKey | None = None
    """The key that it publishes, if not the one that it signs with."""
    others: list[Any] = field(default_factory=lambda: [{"kty": "unknown"}])
    """What it publishes as keys beside that one."""
    parameters: dict[str, str] = field(default_factory=dict)
    """Parameters of the return that replace the right ones."""
    metadata: dict[str, Any] = field(default_factory=dict)
    keys_away: bool = False
    signs_user_info: bool = False
    slow: float = 0
    padding: int = 0
    asked: list[dict[str, str]] = field(default_factory=list)
    """Parameters of each request to sign in, oldest first."""
    codes: dict[str, dict[str, str]] = field(default_factory=dict)

    async def discovery(self, _request: web.Request) -> web.Response:
        await asyncio.sleep(self.slow)
        return web.json_response(
            {
                "issuer": self.issuer,
                "authorization_endpoint": f"{self.issuer}/authorize",
                "token_endpoint": f"{self.issuer}/token",
                "userinfo_endpoint": f"{self.issuer}/me",
                "jwks_uri": f"{self.issuer}/keys",
                "end_session_endpoint": f"{self.issuer}/leave",
                "authorization_response_iss_parameter_supported": True,
                "padding": "x" * self.padding,
                **self.metadata,
            }
        )

    async def authorize(self, request: web.Request) -> web.Response:
        asked = dict(request.query)
        self.asked.append(asked)
        assert (asked["client_id"], asked["code_challenge_method"]) == (CLIENT, "S256")
        code = secrets.token_hex(8)
        self.codes[code] = asked
        back = {"code": code, "state": asked["state"], "iss": self.issuer, **self.parameters}
        raise web.HTTPFound(URL(asked["redirect_uri"]).with_query({k: v for k, v in back.items() if v}))

    async def token(self, request: web.Request) -> web.Response:
        form = await request.post()
        expected = base64.b64encode(f"{CLIENT}:{SECRET}".encode()).decode()
        asked = self.codes.pop(str(form["code"]), None)
        digest = hashlib.sha256(str(form["code_verifier"]).encode()).digest()
        challenge = base64.urlsafe_b64encode(digest).rstrip(b"=").decode()
        well = request.headers.get("Authorization") == f"Basic {expected}"
        if not well or asked is None or challenge != asked["code_challenge"]:
            return web.json_response({"error": "invalid_grant"}, status=400)
        now = int(time.time())
        claims = {
            "iss": self.issuer,
            "aud": CLIENT,
            "iat": now,
            "exp": now + 300,
            "nonce": asked["nonce"],
            "auth_time": now,
            "sub": self.account["sub"],
            **self.claims,
        }
        claims = {name: value for name, value in claims.items() if value is not None}
        return web.json_response(
            {"access_token": "opaque", "token_type": "Bearer", "id_token": self._signed(claims)}
        )

    def _signed(self, claims: dict[str, Any]) -> str:
        if self.algorithm == "none":
            parts = jwt.encode({"alg": "RS256"}, claims, self.key).split(".")
            header = base64.urlsafe_b64encode(b'{"alg":"none"}').rstrip(b"=").decode()
            return f"{header}.{parts[1]}."
        if self.algorithm == "HS256":  # signed with the client's secret, or the public key's text
            return jwt.encode({"alg": "HS256"}, claims, OctKey.import_key(SECRET), algorithms=["HS256"])
        return jwt.encode(
            {"alg": self.algorithm, "kid": self.key.kid}, claims, self.key, algorithms=[self.algorithm]
        )

    async def me(self, _request: web.Request) -> web.Response:
        if self.signs_user_info:
            return web.Response(text=self._signed(self.account), content_type="application/jwt")
        return web.json_response(self.account)

    async def keys(self, _request: web.Request) -> web.Response:
        if self.keys_away:
            raise web.HTTPServiceUnavailable
        key = self.published or self.key
        return web.json_response({"keys": [*self.others, key.as_dict(private=False)]})

    @contextlib.asynccontextmanager
    async def served(self) -> AsyncIterator["FakeProvider"]:
        """Serve it at a free port while the context is open."""
        app = web.Application()
        app.router.add_get("/.well-known/openid-configuration", self.discovery)
        app.router.add_get("/authorize", self.authorize)
        app.router.add_post("/token", self.token)
        app.router.add_get("/me", self.me)
        app.router.add_get("/keys", self.keys)
        runner = web.AppRunner(app, shutdown_timeout=1)
        await runner.setup()
        await web.TCPSite(runner, "127.0.0.1", 0).start()
        self.issuer = f"http://127.0.0.1:{runner.addresses[0][1]}"
        yield self
        await runner.cleanup()

"""A reverse proxy that signs users in by HTTP Basic and sends their names to the server behind it.

    python -m tests.end_to_end.reverse_proxy DESCRIPTOR UPSTREAM SOURCE

It serves at the listening socket of that descriptor, and requests UPSTREAM from the address SOURCE. It
removes the header with the name of the user from requests, as such a proxy must.
"""

import base64
import contextlib
import socket
import sys

import aiohttp
from aiohttp import web

USER_HEADER = "X-Remote-User"
_ITS_OWN = frozenset(name.lower() for name in (USER_HEADER, "Authorization", "Host", "Content-Length"))
_OF_ONE_HOP = frozenset({"transfer-encoding", "connection", "content-length", "keep-alive"})


def main() -> None:
    """Serve until the process is ended."""
    descriptor, upstream, source = sys.argv[1:]
    app = web.Application()

    async def pass_on(request: web.Request) -> web.StreamResponse:
        given = request.headers.get("Authorization")
        if given is None:
            return web.Response(status=401, headers={"WWW-Authenticate": 'Basic realm="library"'})
        headers = [(name, value) for name, value in request.headers.items() if name.lower() not in _ITS_OWN]
        name = base64.b64decode(given.removeprefix("Basic ")).decode().partition(":")[0]
        headers.append((USER_HEADER, name))
        headers.append(("X-Forwarded-For", request.remote or ""))
        body = await request.read()
        async with (
            aiohttp.ClientSession(
                connector=aiohttp.TCPConnector(local_addr=(source, 0)),
                auto_decompress=False,
                cookie_jar=aiohttp.DummyCookieJar(),
            ) as http,
            http.request(
                request.method, upstream + request.path_qs, headers=headers, data=body, allow_redirects=False
            ) as found,
        ):
            answer = web.StreamResponse(status=found.status)
            for name, value in found.headers.items():
                if name.lower() not in _OF_ONE_HOP:
                    answer.headers.add(name, value)
            await answer.prepare(request)
            # A browser that opens another page closes the event stream of the last one.
            with contextlib.suppress(ConnectionResetError):
                async for piece in found.content.iter_any():
                    await answer.write(piece)
            return answer

    app.router.add_route("*", "/{path:.*}", pass_on)
    web.run_app(
        app, sock=socket.socket(fileno=int(descriptor)), print=None, access_log=None, shutdown_timeout=0
    )


if __name__ == "__main__":
    main()

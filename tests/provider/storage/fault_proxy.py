"""A proxy on 127.0.0.1 that passes requests on to a server, with the faults that a test sets.

Moto's server accepts everything and never fails; this proxy adds the failures of real object stores.
"""

import http.client
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Final


@dataclass
class Faults:
    """The faults of the proxy; tests change them while requests arrive."""

    address: str = ""
    status: int = 0
    """Answer so instead of asking the server."""
    answers: int = 0
    """How many requests get that answer; afterwards all is well. 0: all of them."""
    seconds: float = 0
    """Wait before each answer."""
    held: threading.Event | None = None
    """Wait for this before each answer."""
    cut: int = 0
    """Send this many bytes of the content and close the connection."""
    cuts: int = 0
    """How many answers are cut; 0: all of them."""
    left_out: tuple[str, ...] = ()
    """Fields of answers that are not passed on, in lower case."""
    added: dict[str, str] = field(default_factory=dict)
    """Fields that are added to answers."""
    instead: Callable[[str], bytes | None] = lambda _path: None
    """Returns what answers a request of this path, with `status`, instead of the server, if anything."""
    asked: list[tuple[str, str, dict[str, str]]] = field(default_factory=list)
    """Method, path and fields (in lower case) of each request."""

    def failure(self) -> int:
        """Return the status of the next request if it fails, otherwise 0; counts it."""
        status = self.status
        if status and self.answers:
            self.answers -= 1
            self.status = status if self.answers else 0
        return status

    def length_of_cut(self) -> int | None:
        """Return how much of the next answer is sent; None: all. Counts it."""
        cut = self.cut
        if cut and self.cuts:
            self.cuts -= 1
            self.cut = cut if self.cuts else 0
        return cut or None


class _Proxy(ThreadingHTTPServer):
    daemon_threads = True

    def __init__(self, host: str, port: int) -> None:
        super().__init__(("127.0.0.1", 0), _Handler)
        self.target = (host, port)
        self.faults = Faults(address=f"http://127.0.0.1:{self.server_port}")


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    server: _Proxy

    def do_GET(self) -> None:
        self._pass_on()

    def do_HEAD(self) -> None:
        self._pass_on()

    def do_PUT(self) -> None:
        self._pass_on()

    def do_POST(self) -> None:
        self._pass_on()

    def do_DELETE(self) -> None:
        self._pass_on()

    def log_message(self, *_: object) -> None:
        pass

    def _pass_on(self) -> None:
        faults = self.server.faults
        fields = {name.lower(): value for name, value in self.headers.items()}
        faults.asked.append((self.command, self.path, fields))
        body = self.rfile.read(int(fields.get("content-length", 0)))
        time.sleep(faults.seconds)
        if faults.held is not None:
            faults.held.wait()
        if (content := faults.instead(self.path)) is not None:
            self._send(faults.status or 200, content)
            return
        if status := faults.failure():
            self._send(status, b"")
            return
        connection = http.client.HTTPConnection(*self.server.target, timeout=30)
        # The signature covers the host that the client asked.
        connection.putrequest(self.command, self.path, skip_host=True, skip_accept_encoding=True)
        for name, value in self.headers.items():
            connection.putheader(name, value)
        connection.endheaders(body or None)
        answer = connection.getresponse()
        self._answer(answer, answer.read())
        connection.close()

    def _send(self, status: int, content: bytes) -> None:
        self.send_response(status)
        for name, value in {"Content-Length": str(len(content)), **self.server.faults.added}.items():
            self.send_header(name, value)
        self.end_headers()
        self.wfile.write(content)

    def _answer(self, answer: http.client.HTTPResponse, content: bytes) -> None:
        faults = self.server.faults
        passed = {name: value for name, value in answer.getheaders() if name.lower() not in _OWN}
        passed |= {"Content-Length": answer.getheader("Content-Length") or str(len(content)), **faults.added}
        self.send_response(answer.status)
        for name, value in passed.items():
            if name.lower() not in faults.left_out or name in faults.added:
                self.send_header(name, value)
        self.end_headers()
        if self.command != "HEAD":
            cut = faults.length_of_cut()
            self.wfile.write(content if cut is None else content[:cut])
            self.close_connection |= cut is not None


_OWN: Final = frozenset({"connection", "transfer-encoding", "server", "date", "content-length"})


@contextmanager
def fault_proxy(host: str, port: int) -> Iterator[Faults]:
    """Run the proxy in front of a server."""
    server = _Proxy(host, port)
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.05})
    thread.start()
    try:
        yield server.faults
    finally:
        server.shutdown()
        thread.join()
        server.server_close()

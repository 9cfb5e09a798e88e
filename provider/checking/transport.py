"""Sends one HTTP request and returns its answer; the checker's only access to the provider."""

import http.client
import time
import urllib.error
import urllib.request
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import IO, Any, Final

from oai.errors import RemoteError
from oai.guarded_http import Trail, guarded_opener
from oai.reach import ZoneOf, tls_fault, zone_of

_CHUNK: Final = 1 << 16
LARGEST_BODY: Final = 32 << 20
"""Bytes; no page of a list needs more."""
_WHOLE_ANSWER_FACTOR: Final = 4


class UnreachableError(RemoteError):
    """The provider did not send an HTTP answer."""


@dataclass(frozen=True, kw_only=True)
class Sent:
    """A request to send."""

    method: str
    url: str
    encoding: str = "identity"
    """The value of Accept-Encoding."""
    form: bytes | None = None
    """The body of a POST, form-encoded."""

    def __str__(self) -> str:
        return f"{self.method} {self.url}" + (f" with {self.form.decode()}" if self.form is not None else "")


@dataclass(frozen=True, kw_only=True)
class Received:
    """An answer as received."""

    status: int
    headers: Mapping[str, str]
    """By lower-case name."""
    body: bytes
    """Compressed, if the provider compressed it."""


Transport = Callable[[Sent], Received]


def http_transport(*, timeout: float, zone_of: ZoneOf = zone_of) -> Transport:
    """Return a transport over HTTP and HTTPS; `timeout` is in seconds, for each wait.

    It follows redirects, but not from the public internet to private addresses, and raises UnreachableError
    if the answer is missing or incomplete. `zone_of` says which addresses are private.
    """

    def send(sent: Sent) -> Received:
        try:
            with _open(guarded_opener(Trail(zone_of)), _request(sent), timeout) as answer:
                body = _read(answer, sent, time.monotonic() + timeout * _WHOLE_ANSWER_FACTOR)
                headers = {name.lower(): value for name, value in answer.headers.items()}
                return Received(status=answer.status, headers=headers, body=body)
        except (OSError, ValueError, http.client.HTTPException) as error:
            reason = getattr(error, "reason", None) or error
            raise UnreachableError(
                f"{sent}: {tls_fault(reason) or reason}; check the address and that the server answers"
            ) from None

    return send


def _request(sent: Sent) -> urllib.request.Request:
    headers = {
        "User-Agent": "zatva-provider-check",
        "Accept": "text/xml, application/xml;q=0.9",
        "Accept-Encoding": sent.encoding,
    }
    if sent.form is not None:
        headers["Content-Type"] = "application/x-www-form-urlencoded"
    # Only http and https can be opened: the opener has no other handlers.
    return urllib.request.Request(sent.url, data=sent.form, headers=headers, method=sent.method)  # noqa: S310


def _open(opener: urllib.request.OpenerDirector, request: urllib.request.Request, timeout: float) -> Any:  # noqa: ANN401 the library's type depends on the scheme
    try:
        answer = opener.open(request, timeout=timeout)
    except urllib.error.HTTPError as error:
        # This is an answer, too; the checks judge it.
        return error
    if answer is None:
        raise ValueError("only http and https addresses can be checked")
    return answer


def _read(answer: IO[bytes], sent: Sent, deadline: float) -> bytes:
    parts = bytearray()
    while chunk := answer.read(_CHUNK):
        parts += chunk
        if len(parts) > LARGEST_BODY:
            raise UnreachableError(
                f"{sent}: the answer is longer than {LARGEST_BODY:,} bytes, more than any page needs"
            )
        if time.monotonic() > deadline:
            raise UnreachableError(f"{sent}: the answer is too slow; {len(parts):,} bytes received so far")
    return bytes(parts)

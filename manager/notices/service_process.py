"""The process that sends one notice to a service by Apprise: `python -m manager.notices.service_process`.

Apprise opens its connections itself, to an address that may have been typed wrongly, so the process lets its
sockets connect only where `oai.reach` allows. It is started for each notice, so it imports little else.
"""

import json
import logging
import socket
import sys
from typing import Any

from oai.reach import UnreachableZoneError, check_address


def main() -> None:
    """Send what stdin says, and print whether it was accepted; the process's whole work."""
    wanted = json.loads(sys.stdin.read())
    _guard(private=wanted["private"])
    try:
        import apprise  # noqa: PLC0415 after the guard, and only in this process: it takes long
    except ImportError:
        _reply(sent=False, reason="Apprise is not installed; pip install 'zatva[services]'")
        return
    complaints: list[str] = []
    logger = logging.getLogger("apprise")
    logger.addHandler(_Complaints(complaints))
    logger.propagate = False
    service = apprise.Apprise()
    if not service.add(wanted["url"]):
        _reply(sent=False, reason="the address is incomplete; see Apprise's documentation of the service")
        return
    sent = service.notify(title=wanted["title"], body=wanted["body"], body_format=apprise.NotifyFormat.TEXT)
    _reply(sent=bool(sent), reason="; ".join(complaints) or "the service did not accept the message")


class _Complaints(logging.Handler):
    """Collects what Apprise complains about."""

    def __init__(self, complaints: list[str]) -> None:
        super().__init__(logging.WARNING)
        self._complaints = complaints

    def emit(self, record: logging.LogRecord) -> None:
        self._complaints.append(record.getMessage())


def _guard(*, private: bool) -> None:
    """Let this process's sockets connect only where they may, by the address they really connect to."""

    class Guarded(socket.socket):
        def connect(self, address: Any) -> None:  # noqa: ANN401 as declared
            _check(self, address, private=private)
            super().connect(address)

        def connect_ex(self, address: Any) -> int:  # noqa: ANN401 as declared
            _check(self, address, private=private)
            return super().connect_ex(address)

    socket.socket = Guarded  # type: ignore[misc]


def _check(one: socket.socket, address: Any, *, private: bool) -> None:  # noqa: ANN401 a socket's
    if one.family in (socket.AF_INET, socket.AF_INET6):
        check_address(str(address[0]), private=private)
    else:
        raise UnreachableZoneError


def _reply(*, sent: bool, reason: str) -> None:
    sys.stdout.write(json.dumps({"sent": sent, "reason": reason}))


if __name__ == "__main__":
    main()

"""A limit for a whole exchange over blocking sockets, whose own timeout counts for each wait only."""

import contextlib
import socket
import threading
from typing import Self


class Deadline:
    """Shuts connections down if the block that it begins lasts longer than so many seconds."""

    def __init__(self, seconds: float) -> None:
        self.is_over = False
        self._seconds = seconds
        self._connections: list[socket.socket] = []
        self._lock = threading.Lock()
        self._timer = threading.Timer(seconds, self._cut)
        self._timer.daemon = True

    def add(self, connection: socket.socket) -> None:
        """Have a connection shut down at the deadline, or at once if that is over."""
        # A duplicate, because TLS takes the descriptor of the original.
        self._connections.append(connection.dup())
        if self.is_over:
            self._cut()

    @property
    def error(self) -> TimeoutError:
        """The error for an exchange that was cut off."""
        return TimeoutError(f"no complete answer in {self._seconds:.3g} seconds")

    def __enter__(self) -> Self:
        self._timer.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._timer.cancel()
        with self._lock:
            for connection in self._connections:
                connection.close()

    def _cut(self) -> None:
        self.is_over = True
        with self._lock:
            for connection in self._connections:
                with contextlib.suppress(OSError):  # it is closed
                    connection.shutdown(socket.SHUT_RDWR)

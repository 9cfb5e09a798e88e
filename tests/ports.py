"""Ports for servers that tests start."""

import socket


def free_port() -> int:
    """Return a free port of 127.0.0.1; another process may take it at any time."""
    with socket.create_server(("127.0.0.1", 0)) as listener:
        port: int = listener.getsockname()[1]
        return port

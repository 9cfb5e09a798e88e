"""Attacks on a real dashboard: its server and its users' browsers."""

from tests.web.conftest import (
    administrator,
    colleague,
    owner,
    page_sizes,
    poll_seconds,
    server,
    stranger,
    viewer,
)

__all__ = [
    "administrator",
    "colleague",
    "owner",
    "page_sizes",
    "poll_seconds",
    "server",
    "stranger",
    "viewer",
]

"""Attacks on a real dashboard: its server and its users' browsers."""

from tests.reused_database import backends, reused, settings
from tests.web.conftest import (
    administrator,
    colleague,
    forking,
    owner,
    page_sizes,
    poll_seconds,
    quick_hasher,
    server,
    stranger,
    viewer,
)

__all__ = [
    "administrator",
    "backends",
    "colleague",
    "forking",
    "owner",
    "page_sizes",
    "poll_seconds",
    "quick_hasher",
    "reused",
    "server",
    "settings",
    "stranger",
    "viewer",
]

"""The route tables of our applications, for tests of every route."""

from collections.abc import Callable
from typing import Any

from aiohttp import web
from sqlalchemy import create_engine

from oai.database import Database
from oai.settings import Settings


def routes_of(create_app: Callable[..., web.Application]) -> list[tuple[str, str]]:
    """Return method and path of every route, without HEAD where GET exists; no database is used."""
    database = Database(engine=create_engine("postgresql+psycopg://nobody@127.0.0.1:1/none"))
    extra: dict[str, Any] = {}
    if create_app.__module__.startswith("provider"):
        extra["base_url"] = "http://127.0.0.1/oai"
    app = create_app(Settings(), database, **extra)
    found = set()
    for route in app.router.routes():
        resource = route.resource
        if resource is not None and route.method != "HEAD":
            found.add((route.method, resource.canonical))
    return sorted(found, key=lambda pair: (pair[1], pair[0]))

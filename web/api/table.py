"""All operations of the API, and their routes."""

import importlib.metadata
from collections.abc import Sequence
from functools import cache
from typing import Any, Final

from aiohttp import web

from web.api import (
    activity,
    aggregate,
    alerts,
    archive,
    bibliographic_records,
    collections,
    diagnostics,
    documents,
    errors,
    exploring,
    filtering_sets,
    imports,
    jobs,
    owners,
    people,
    probing,
    records,
    repositories,
    rule_replays,
    rules,
    runs,
    schedules,
)
from web.api.dispatch import handler_of
from web.api.openapi import document
from web.api.operations import Operation

_DOCUMENT: Final = "/api/openapi.json"

OPERATIONS: Final[Sequence[Operation]] = (
    *repositories.OPERATIONS,
    *probing.OPERATIONS,
    *diagnostics.OPERATIONS,
    *schedules.OPERATIONS,
    *jobs.OPERATIONS,
    *runs.OPERATIONS,
    *rules.OPERATIONS,
    *rule_replays.OPERATIONS,
    *alerts.OPERATIONS,
    *errors.OPERATIONS,
    *exploring.OPERATIONS,
    *records.OPERATIONS,
    *bibliographic_records.OPERATIONS,
    *imports.OPERATIONS,
    *filtering_sets.OPERATIONS,
    *archive.OPERATIONS,
    *aggregate.OPERATIONS,
    *documents.OPERATIONS,
    *activity.OPERATIONS,
    *collections.OPERATIONS,
    *people.OPERATIONS,
    *owners.OPERATIONS,
)


@cache
def whole_document() -> dict[str, Any]:
    """The OpenAPI document of all operations."""
    return document(OPERATIONS, version=importlib.metadata.version("zatva"))


async def openapi(_: web.Request) -> web.Response:
    """The document, for whoever may look."""
    return web.json_response(whole_document())


ROUTES: Final = (
    web.get(_DOCUMENT, openapi, allow_head=False),
    *(web.route(one.method, one.pattern, handler_of(one)) for one in OPERATIONS),
)

"""All operations of the API, and their routes."""

import importlib.metadata
import re
from collections.abc import Iterable, Sequence
from functools import cache
from typing import Any, Final

from aiohttp import web
from pydantic import BaseModel
from pydantic.json_schema import GenerateJsonSchema, models_json_schema

from oai.rights import Right
from web.admin import api as people
from web.alerts import api as alerts
from web.alerts import api_mutes
from web.api.dispatch import handler_of
from web.api.faults import MEDIA_TYPE, TITLES, Problem
from web.api.operations import PLACES, PREFIX, Operation
from web.api.shapes import NoQuery
from web.archive import api as archive
from web.archive import api_activity, api_collections, api_exports, api_takedowns, api_titles
from web.auth.access import needs
from web.imports import api as imports
from web.imports import api_sets
from web.jobs import api as jobs
from web.overview import search
from web.repositories import api as repositories
from web.repositories import api_questions
from web.repositories import api_records as harvested_records
from web.rules import api as rules
from web.runs import api as runs
from web.schedules import api as schedules
from web.store import api as store

_PAGE: Final = re.compile(r"Page\[(\w+)\]")
_REF: Final = "#/components/schemas/{model}"
_VERSION: Final = "3.1.0"
_ABOUT: Final = (
    "The API offers all functions of the dashboard. Lists are paged: follow `next` until "
    "it is null. Errors are `application/problem+json` (RFC 9457). Authenticate with a "
    "bearer token; pages of the dashboard may use the session cookie, and must then send "
    "the form token as `X-CSRF-Token` with every request that changes data. Objects that can be "
    "changed have an `ETag`; a change that sends it as `If-Match` undoes no other change."
)


class _Names(GenerateJsonSchema):
    """Names a page after its items: `RunLinePage` instead of `Page_RunLine_`."""

    def normalize_name(self, name: str) -> str:
        """Return the name of a model in the document."""
        page = _PAGE.fullmatch(name)
        return f"{page[1].removesuffix('Out')}Page" if page else super().normalize_name(name)


def document(operations: Sequence[Operation], *, version: str) -> dict[str, Any]:
    """Return the OpenAPI document of these operations as a JSON-compatible value."""
    models = _models(operations)
    refs, definitions = models_json_schema(list(models), ref_template=_REF, schema_generator=_Names)
    named = {model: refs[model, mode] for model, mode in models}
    paths: dict[str, dict[str, Any]] = {}
    for operation in operations:
        paths.setdefault(operation.path, {})[operation.method.lower()] = _operation(operation, named)
    return {
        "openapi": _VERSION,
        "info": {"title": "Zatva", "version": version, "description": _ABOUT},
        "servers": [{"url": PREFIX}],
        "tags": [{"name": name} for name in dict.fromkeys(one.tag for one in operations)],
        "paths": paths,
        "components": {
            "schemas": definitions.get("$defs", {}),
            "securitySchemes": {
                "token": {"type": "http", "scheme": "bearer"},
                "session": {"type": "apiKey", "in": "cookie", "name": "zatva_session"},
            },
        },
    }


def _models(operations: Iterable[Operation]) -> list[tuple[type[BaseModel], Any]]:
    found: dict[tuple[type[BaseModel], str], None] = {(Problem, "serialization"): None}
    for operation in operations:
        if operation.body is not None:
            found[operation.body, "validation"] = None
        if operation.answer is not None:
            found[operation.answer, "serialization"] = None
    return list(found)


def _operation(operation: Operation, named: dict[type[BaseModel], Any]) -> dict[str, Any]:
    described: dict[str, Any] = {
        "operationId": operation.name,
        "tags": [operation.tag],
        "summary": operation.summary,
        "x-right": operation.right.value,
        "parameters": [*_places(operation), *_query(operation.query), *_conditions(operation)],
        "responses": {str(status): _response(operation, status, named) for status in operation.statuses},
        "security": _security(operation),
    }
    if operation.body is not None:
        described["requestBody"] = {
            "required": True,
            "content": {"application/json": {"schema": named[operation.body]}},
        }
    return described


def _security(operation: Operation) -> list[dict[str, Any]]:
    if operation.right is Right.ANYBODY:
        return []
    return [{"session": []}] if operation.session_only else [{"token": []}, {"session": []}]


def _places(operation: Operation) -> list[dict[str, Any]]:
    return [
        {
            "name": name,
            "in": "path",
            "required": True,
            "schema": dict(PLACES[name].schema),
            "description": PLACES[name].meaning,
            "example": PLACES[name].example,
        }
        for name in operation.places
    ]


def _query(model: type[BaseModel]) -> list[dict[str, Any]]:
    if model is NoQuery:
        return []
    schema = model.model_json_schema(ref_template=_REF)
    definitions = schema.get("$defs", {})
    needed = set(schema.get("required", ()))
    found = []
    for name, given in schema["properties"].items():
        value = _plain(given, definitions)
        meaning = value.pop("description", "")
        value.pop("title", None)
        found.append(
            {
                "name": name,
                "in": "query",
                "required": name in needed,
                "schema": value,
                "description": meaning,
            }
        )
    return found


def _conditions(operation: Operation) -> list[dict[str, Any]]:
    if not operation.is_conditional:
        return []
    meaning = "ETag of the object as it was read: 412, and no change, if it was changed since."
    return [
        {
            "name": "If-Match",
            "in": "header",
            "required": False,
            "schema": {"type": "string"},
            "description": meaning,
        }
    ]


def _plain(schema: dict[str, Any], definitions: dict[str, Any]) -> dict[str, Any]:
    """Drop `null`, which a query string cannot express, and inline the referenced definitions."""
    value = dict(schema)
    kinds = [kind for kind in value.pop("anyOf", ()) if kind.get("type") != "null"]
    if kinds:
        value = {**kinds[0], **value}
    reference = value.pop("$ref", None)
    if reference is not None:
        value = {**definitions[reference.rpartition("/")[2]], **value}
    if value.get("default", "") is None:
        del value["default"]
    return value


def _response(operation: Operation, status: int, named: dict[type[BaseModel], Any]) -> dict[str, Any]:
    if status != operation.status:
        return {"description": TITLES[status], "content": {MEDIA_TYPE: {"schema": named[Problem]}}}
    if operation.media is not None:
        return {"description": "The bytes.", "content": {operation.media: {}}}
    if operation.answer is None:
        return {"description": "Done; no content."}
    return {"description": "Done.", "content": {"application/json": {"schema": named[operation.answer]}}}


_DOCUMENT: Final = "/api/openapi.json"

OPERATIONS: Final[Sequence[Operation]] = (
    *repositories.OPERATIONS,
    *schedules.OPERATIONS,
    *jobs.OPERATIONS,
    *runs.OPERATIONS,
    *rules.OPERATIONS,
    *alerts.OPERATIONS,
    *api_mutes.OPERATIONS,
    *store.OPERATIONS,
    *api_questions.RUN_OPERATIONS,
    *api_questions.OPERATIONS,
    *harvested_records.OPERATIONS,
    *imports.RECORD_OPERATIONS,
    *imports.OPERATIONS,
    *api_sets.OPERATIONS,
    *archive.OPERATIONS,
    *api_activity.OPERATIONS,
    *api_collections.OPERATIONS,
    *api_takedowns.OPERATIONS,
    *api_exports.OPERATIONS,
    *api_titles.OPERATIONS,
    *people.OPERATIONS,
    *search.OPERATIONS,
)


@cache
def whole_document() -> dict[str, Any]:
    """Return the OpenAPI document of all operations."""
    return document(OPERATIONS, version=importlib.metadata.version("zatva"))


@needs(Right.ANYBODY)
async def openapi(_: web.Request) -> web.Response:
    """Serve the OpenAPI document, which contains no data of the installation."""
    return web.json_response(whole_document())


def _same_path(operation: Operation) -> list[Operation]:
    return [one for one in OPERATIONS if one.path == operation.path]


ROUTES: Final = (
    web.get(_DOCUMENT, openapi, allow_head=False),
    *(web.route(one.method, one.pattern, handler_of(one, _same_path(one))) for one in OPERATIONS),
)

"""`/api/docs`: the API reference made from the OpenAPI document, with examples and requests to try."""

import json
from collections.abc import Mapping
from typing import Any, Final
from urllib.parse import quote, urlencode

from aiohttp import web

from oai.rights import Right
from web.api.faults import TITLES
from web.api.operations import PLACES, PREFIX
from web.api.table import OPERATIONS, whole_document
from web.auth.access import needs
from web.site.i18n import _
from web.site.keys import SETTINGS
from web.site.render import render

_DEEPEST: Final = 4
"""Nesting of example bodies; deeper values are left out."""
_SAMPLES: Final = {"integer": 1, "number": 1.0, "boolean": True, "string": "text", "array": [], "object": {}}


@needs(Right.LOOK)
async def show(request: web.Request) -> web.Response:
    """Show every operation with its parameters, bodies, responses and an example."""
    document, host = whole_document(), _host(request)
    return render(
        request,
        "api_docs.html",
        document=document,
        host=host,
        tags=[(tag["name"], _operations(document, tag["name"], host)) for tag in document["tags"]],
        faults=sorted(TITLES.items()),
    )


@needs(Right.LOOK)
async def try_it(request: web.Request) -> web.StreamResponse:
    """Lead to a GET operation with the values of a form in its path and its query."""
    asked = dict(request.query)
    name = asked.pop("operation", None)
    operation = next((one for one in OPERATIONS if one.name == name), None)
    if operation is None or operation.method != "GET":
        raise web.HTTPNotFound(text=_("There is no such operation; see the API page."))
    path = PREFIX + operation.path
    for place in operation.places:
        path = path.replace(f"{{{place}}}", quote(asked.pop(place, ""), safe=":"))
    query = urlencode({name: value for name, value in asked.items() if value})
    raise web.HTTPSeeOther(f"{path}?{query}" if query else path)


async def to_docs(_request: web.Request) -> web.StreamResponse:
    """Lead from `/api` to the reference."""
    raise web.HTTPSeeOther("/api/docs")


def _host(request: web.Request) -> str:
    """Return the dashboard's address, as programs use it."""
    base_url = request.config_dict[SETTINGS].web.base_url
    return base_url.rstrip("/") if base_url else f"{request.scheme}://{request.host}"


def _operations(document: Mapping[str, Any], tag: str, host: str) -> list[dict[str, Any]]:
    return [
        _described(document, path, method.upper(), operation, host)
        for path, methods in document["paths"].items()
        for method, operation in methods.items()
        if tag in operation["tags"]
    ]


def _described(
    document: Mapping[str, Any], path: str, method: str, operation: Mapping[str, Any], host: str
) -> dict[str, Any]:
    shapes = document["components"]["schemas"]
    body, answers = _named(operation.get("requestBody", {})), operation["responses"]
    answer = next((_named(one) for status, one in answers.items() if status.startswith("2")), None)
    return {
        **operation,
        "method": method,
        "path": path,
        "body": body,
        "sent": _fields(shapes, body),
        "answer": answer,
        "received": _fields(shapes, answer),
        "statuses": list(answers),
        "curl": _curl(
            host,
            path,
            method,
            _example(shapes, shapes[body]) if body else None,
            token={"token": []} in operation["security"],
        ),
    }


def _named(carrier: Mapping[str, Any]) -> str | None:
    """Return the name of the schema of a body or a response."""
    for content in carrier.get("content", {}).values():
        reference: str = content.get("schema", {}).get("$ref", "")
        return reference.rpartition("/")[2] or None
    return None


def _curl(host: str, path: str, method: str, body: object, *, token: bool) -> str:
    """Return the command that sends an example request; its secrets are in variables of the shell."""
    secret = "Authorization: Bearer $TOKEN" if token else "Cookie: zatva_session=$SESSION"
    for name, place in PLACES.items():
        path = path.replace(f"{{{name}}}", str(place.example))
    parts = ["curl", *([] if method == "GET" else ["-X", method]), f'-H "{secret}"']
    if not token:
        parts.append('-H "X-CSRF-Token: $FORM_TOKEN"')
    if body is not None:
        parts += ["-H 'Content-Type: application/json'", f"-d '{json.dumps(body)}'"]
    return " ".join([*parts, f"'{host}{PREFIX}{path}'"])


def _example(shapes: Mapping[str, Any], schema: Mapping[str, Any], depth: int = 0) -> object:
    """Return a value of the schema: its example or default, otherwise its required fields."""
    if "$ref" in schema:
        return _example(shapes, shapes[str(schema["$ref"]).rpartition("/")[2]], depth)
    for given in ("const", "default"):
        if schema.get(given) is not None:
            return schema[given]
    for several in ("examples", "enum"):
        if schema.get(several):
            return schema[several][0]
    if "anyOf" in schema:
        return _example(shapes, schema["anyOf"][0], depth)
    if "properties" in schema and depth < _DEEPEST:
        required = schema.get("required", ())
        fields = {name: one for name, one in schema["properties"].items() if name in required}
        return {name: _example(shapes, one, depth + 1) for name, one in fields.items()}
    return _SAMPLES.get(str(schema.get("type")), "text")


def _fields(shapes: Mapping[str, Any], name: str | None) -> list[tuple[str, str, bool, str]]:
    """Return name, type, whether it is required, and description of each field; of a page, of its items."""
    shape = shapes.get(name, {}) if name else {}
    items = shape.get("properties", {}).get("items", {}).get("items", {})
    if "$ref" in items:
        fields = _fields(shapes, _kind(items))
        return [(f"items[].{field}", kind, needed, meaning) for field, kind, needed, meaning in fields]
    required = set(shape.get("required", ()))
    return [
        (field, _kind(schema), field in required, schema.get("description", ""))
        for field, schema in shape.get("properties", {}).items()
    ]


def _kind(schema: Mapping[str, Any]) -> str:
    if "$ref" in schema:
        return str(schema["$ref"]).rpartition("/")[2]
    if "anyOf" in schema:
        return " | ".join(_kind(one) for one in schema["anyOf"])
    if schema.get("type") == "array":
        return f"[{_kind(schema.get('items', {}))}]"
    if "enum" in schema:
        return " | ".join(map(str, schema["enum"]))
    return str(schema.get("format") or schema.get("type") or "any")


ROUTES: Final = (
    web.get("/api", needs(Right.LOOK)(to_docs)),
    web.get("/api/docs", show),
    web.get("/api/docs/try", try_it),
)

"""`/help` with the words explained, and `/api/docs`, the API's page made from its own document."""

from typing import Any, Final

from aiohttp import web

from oai.rights import Right
from web.access import needs
from web.api.faults import TITLES
from web.api.table import whole_document
from web.rendering import render
from web.words import _


@needs(Right.LOOK)
async def explain(request: web.Request) -> web.Response:
    """The words of the dashboard, and where to go for what."""
    return render(request, "help.html", words=_words(), states=_states())


@needs(Right.LOOK)
async def api(request: web.Request) -> web.Response:
    """Every operation with its parameters, bodies and answers."""
    document = whole_document()
    schemas = document["components"]["schemas"]
    return render(
        request,
        "api_docs.html",
        document=document,
        tags=[(tag["name"], _operations(document, tag["name"])) for tag in document["tags"]],
        shapes=[(name, shape, _fields(shape)) for name, shape in sorted(schemas.items())],
        faults=sorted(TITLES.items()),
    )


def _operations(document: dict[str, Any], tag: str) -> list[dict[str, Any]]:
    return [
        {
            **operation,
            "method": method.upper(),
            "path": path,
            "body": _named(operation.get("requestBody", {})),
            "answers": [(status, _named(answer)) for status, answer in operation["responses"].items()],
        }
        for path, methods in document["paths"].items()
        for method, operation in methods.items()
        if tag in operation["tags"]
    ]


def _named(carrier: dict[str, Any]) -> str | None:
    """The name of the shape that a body or an answer has."""
    for content in carrier.get("content", {}).values():
        reference: str = content.get("schema", {}).get("$ref", "")
        return reference.rpartition("/")[2] or None
    return None


def _fields(shape: dict[str, Any]) -> list[tuple[str, str, bool, str]]:
    """Name, kind, whether it has to be there, and meaning of each field."""
    needed = set(shape.get("required", ()))
    return [
        (name, _kind(field), name in needed, field.get("description", ""))
        for name, field in shape.get("properties", {}).items()
    ]


def _kind(schema: dict[str, Any]) -> str:
    if "$ref" in schema:
        return str(schema["$ref"]).rpartition("/")[2]
    if "anyOf" in schema:
        return " | ".join(_kind(one) for one in schema["anyOf"])
    if schema.get("type") == "array":
        return f"[{_kind(schema.get('items', {}))}]"
    if "enum" in schema:
        return " | ".join(map(str, schema["enum"]))
    return str(schema.get("format") or schema.get("type") or "any")


def _words() -> list[tuple[str, str]]:
    return [
        (_("Repository"), _("A server that gives its records to everybody who asks by OAI-PMH.")),
        (_("Base URL"), _("The one address at which a repository answers; everything else follows from it.")),
        (_("Harvest"), _("To fetch a repository's records, all of them or those that have changed.")),
        (_("Set"), _("A part of a repository that can be harvested by itself.")),
        (_("Metadata format"), _("How a record is written: Dublin Core (oai_dc), MARC 21, MODS, …")),
        (_("Record"), _("The description of one thing, with an identifier and the time of its last change.")),
        (_("Schedule"), _("What is harvested, and how often.")),
        (_("Job"), _("One harvest that is to start, or runs.")),
        (_("Run"), _("One harvest that has ended, as the history shows it.")),
        (_("Refused record"), _("One that could not be read or is not valid; its bytes are kept.")),
        (_("Collection"), _("A set of the archive's documents that its staff have made.")),
        (_("Access rule"), _("Who may see a collection's documents: everybody, the reading room, nobody.")),
    ]


def _states() -> list[tuple[str, str]]:
    return [
        ("queued", _("It is its turn soon; the reason stands beside it.")),
        ("running", _("Records are coming.")),
        ("waiting", _("The repository asked us to wait.")),
        ("paused", _("Somebody stopped it for a while; it goes on when it is resumed.")),
        ("completed", _("Everything that was asked for is here.")),
        ("completed with errors", _("It went through, but some records were refused.")),
        ("no changes", _("There was nothing new.")),
        ("incomplete", _("It was cut off; the next run goes on from there.")),
        ("held", _("It would delete or change so much that a person has to say yes.")),
        ("failed", _("What was asked for could not be harvested; the run says why.")),
        ("killed", _("Somebody ended it by force.")),
        ("lost", _("The machine that ran it has gone.")),
        ("missed", _("It was due while nothing ran.")),
        ("skipped", _("It was due while the last one still ran.")),
    ]


ROUTES: Final = (web.get("/help", explain), web.get("/api/docs", api))

"""Errors of the API as `application/problem+json` (RFC 9457)."""

from collections.abc import Mapping, Sequence
from typing import Any, Final

from aiohttp import web
from pydantic import BaseModel, Field

MEDIA_TYPE: Final = "application/problem+json"
DOCS: Final = "/api/docs"

TITLES: Final[Mapping[int, str]] = {
    400: "Invalid request",
    401: "Sign-in or token required",
    403: "Access denied",
    404: "Not found",
    405: "Method not allowed",
    408: "Request timed out",
    409: "Not possible in the current state",
    410: "No longer there",
    412: "Changed in the meantime",
    413: "Body too large",
    415: "Body is not JSON",
    422: "Invalid value",
    424: "No valid answer from the repository",
    429: "Too many requests",
    500: "Internal error",
    503: "Try again in a moment",
}
"""Each error status with its title; the `detail` member says more."""


class FieldFault(BaseModel):
    """What is wrong with one value."""

    pointer: str = Field(
        description="JSON Pointer into the body, or `?` and the name of the query parameter."
    )
    detail: str


class Problem(BaseModel):
    """An error (RFC 9457)."""

    type: str = Field(description="URL of the description of this type of error.")
    title: str
    status: int
    detail: str = Field(description="What happened, and what to do.")
    errors: list[FieldFault] = Field(default=[], description="The invalid values, if any.")


class ApiError(Exception):
    """An error response of an operation."""

    def __init__(
        self,
        status: int,
        detail: str,
        *,
        errors: Sequence[FieldFault] = (),
        headers: Mapping[str, str] | None = None,
    ) -> None:
        super().__init__(detail)
        self.status = status
        self.detail = detail
        self.errors = errors
        self.headers = dict(headers or {})


def problem(
    status: int, detail: str, *, errors: Sequence[FieldFault] = (), headers: Mapping[str, str] | None = None
) -> web.Response:
    """Return the error as a response."""
    body = Problem(
        type=f"{DOCS}#fault-{status}",
        title=TITLES.get(status, "An error"),
        status=status,
        detail=detail,
        errors=list(errors),
    )
    return web.Response(
        status=status,
        body=body.model_dump_json().encode(),
        content_type=MEDIA_TYPE,
        headers={**_challenge(status), **(headers or {})},
    )


def field_faults(errors: Sequence[Any], *, query: bool) -> list[FieldFault]:
    """Convert pydantic's errors to field errors, each with its location."""
    return [
        FieldFault(pointer=_pointer(fault["loc"], query=query), detail=_detail(fault)) for fault in errors
    ]


def _pointer(place: Sequence[int | str], *, query: bool) -> str:
    if query:
        return f"?{place[0]}" if place else "?"
    return "".join(f"/{str(step).replace('~', '~0').replace('/', '~1')}" for step in place)


def _detail(fault: Mapping[str, Any]) -> str:
    return str(fault["ctx"]["error"]) if fault["type"] == "value_error" else str(fault["msg"])


def _challenge(status: int) -> dict[str, str]:
    return {"WWW-Authenticate": 'Bearer realm="Zatva"'} if status == 401 else {}  # noqa: PLR2004 as it says

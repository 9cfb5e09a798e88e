"""What a request is about: the object that it asks for, by name, for the audit log."""

from typing import Any

from aiohttp import web

from oai.audit import Subject

_SUBJECT = web.RequestKey("subject", Subject)


def about(request: web.Request, kind: str, number: object, name: str | None = None, **details: Any) -> None:  # noqa: ANN401 whatever JSON holds
    """Note what the request is about, and what it did beside; a later note replaces an earlier one."""
    request[_SUBJECT] = Subject(kind=kind, number=str(number), name=name, details=details)


def subject_of(request: web.Request) -> Subject | None:
    """What the request is about, as far as it was noted."""
    return request.get(_SUBJECT)

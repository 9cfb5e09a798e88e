"""What a request is about: the object that it asks for, by name, for the audit log."""

from dataclasses import dataclass

from aiohttp import web


@dataclass(frozen=True, kw_only=True)
class Subject:
    """An object, such as kind `repository`, number `12`, and the name that people know it by."""

    kind: str
    number: str
    name: str | None = None


_SUBJECT = web.RequestKey("subject", Subject)


def about(request: web.Request, kind: str, number: object, name: str | None = None) -> None:
    """Note what the request is about; a later note replaces an earlier one."""
    request[_SUBJECT] = Subject(kind=kind, number=str(number), name=name)


def subject_of(request: web.Request) -> Subject | None:
    """What the request is about, as far as it was noted."""
    return request.get(_SUBJECT)

"""API operations as data: routes, checks and the OpenAPI document derive from each declaration."""

import inspect
from collections.abc import Awaitable, Callable, Collection, Mapping
from dataclasses import dataclass
from typing import Any, Final, TypeVar

from aiohttp import web
from pydantic import BaseModel

from harvester.models import Repository
from oai.errors import of_kind
from oai.executor import DatabaseExecutor
from oai.models import Base
from oai.rights import Right
from oai.settings import Settings
from web.api.faults import ApiError, FieldFault
from web.api.shapes import NoQuery
from web.auth.access import asked_for, signed_in
from web.auth.sessions import SignedIn
from web.site.keys import SETTINGS, database_of

PREFIX: Final = "/api/v1"
_Model = TypeVar("_Model", bound=BaseModel)
_Row = TypeVar("_Row", bound=Base)


@dataclass(frozen=True, kw_only=True)
class PathParameter:
    """A path variable: its pattern, its Python type and its description."""

    pattern: str
    schema: Mapping[str, Any]
    meaning: str
    example: int | str = 1
    read: Callable[[str], Any] = int


async def _no_context(_request: web.Request) -> dict[str, Any]:
    return {}


_SHORT: Final = r"[1-9][0-9]{0,8}"
_LONG: Final = r"[1-9][0-9]{0,17}"
_SPEC_PART: Final = r"[A-Za-z0-9\-_.]+"


def _number(meaning: str, *, long: bool = False) -> PathParameter:
    digits = 18 if long else 9
    return PathParameter(
        pattern=_LONG if long else _SHORT,
        schema={"type": "integer", "minimum": 1, "maximum": 10**digits - 1},
        meaning=meaning,
    )


PLACES: Final[Mapping[str, PathParameter]] = {
    "repository": _number("Number of the repository."),
    "schedule": _number("Number of the schedule."),
    "job": _number("Number of the job."),
    "run": _number("Number of the run in the history.", long=True),
    "error": _number("Number of the error.", long=True),
    "record": _number("Number of the record.", long=True),
    "bibliographic_record": _number("Number of the bibliographic record.", long=True),
    "filtering_set": _number("Number of the filtering set."),
    "index_run": _number("Number of the indexing run."),
    "check": _number("Number of the self-test."),
    "alert_rule": _number("Number of the notification rule."),
    "worker": _number("Number of the worker."),
    "mute": _number("Number of the mute."),
    "audit_schedule": _number("Number of the schedule of audits."),
    "export": _number("Number of the prepared file."),
    "takedown": _number("Number of the take-down."),
    "store_audit": _number("Number of the audit of a store.", long=True),
    "rule": _number("Number of the filter or normalise rule."),
    "user": _number("Number of the user."),
    "token": _number("Number of the API token."),
    "organisation": _number("Number of the organisation."),
    "client": PathParameter(
        pattern=r"[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}",
        schema={"type": "string", "format": "uuid"},
        meaning="Key of the harvester.",
        example="e3e70682-c209-4cac-a29f-6fbed82c07cd",
        read=str,
    ),
    "document": PathParameter(
        pattern=r"[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}",
        schema={"type": "string", "format": "uuid"},
        meaning="Key of the document: the last part of its OAI identifier, with hyphens.",
        example="f728b4fa-4248-4e3a-8a5d-2f346baa9455",
        read=str,
    ),
    "title": PathParameter(
        pattern=r"[0-9a-f]{32}",
        schema={"type": "string", "pattern": "^[0-9a-f]{32}$"},
        meaning="Key of the title: the last part of its OAI identifier.",
        example="f728b4fa42484e3a8a5d2f346baa9455",
        read=str,
    ),
    "collection": PathParameter(
        pattern=rf"collection(?::{_SPEC_PART})*",
        schema={"type": "string", "pattern": rf"^collection(:{_SPEC_PART})*$", "maxLength": 1000},
        meaning="The collection's setSpec.",
        example="collection:serials",
        read=str,
    ),
}
"""All path variables by name."""


@dataclass(frozen=True, kw_only=True)
class Call:
    """One validated call of an operation."""

    request: web.Request
    place: Mapping[str, Any]
    """Values of the path variables."""
    query: BaseModel
    body: BaseModel | None

    def asked(self, model: type[_Model]) -> _Model:
        """Return the query as the model that the operation declares."""
        return of_kind(self.query, model, "the operation declares it")

    def sent(self, model: type[_Model]) -> _Model:
        """Return the body as the model that the operation declares."""
        return of_kind(self.body, model, "the operation declares it")

    @property
    def database(self) -> DatabaseExecutor:
        """The threads in which database work runs."""
        return database_of(self.request)

    @property
    def settings(self) -> Settings:
        """The application's settings."""
        return self.request.config_dict[SETTINGS]

    @property
    def who(self) -> SignedIn:
        """The authenticated caller."""
        who = signed_in(self.request)
        if who is None:
            raise ApiError(401, "not signed in; send a session cookie or a bearer token")
        return who

    async def row(self, kind: type[_Row], name: str, *, being_removed: bool = False) -> _Row:
        """Return the row whose number is the path variable `name`; respond as `asked_for` does."""
        return await asked_for(self.request, kind, self.place[name], being_removed=being_removed)

    async def check_repository(self, number: int | None, purpose: str) -> None:
        """Check that the caller may see the chosen repository, or all of them if none is chosen.

        `purpose` completes the sentence "you cannot …", such as "mute all repositories".
        """
        if number is not None:
            await asked_for(self.request, Repository, number)
        elif not self.who.sees_everything:
            fault = FieldFault(pointer="/repository_id", detail="choose one of your repositories")
            raise ApiError(422, f"you cannot {purpose}; choose one of yours", errors=[fault])


Answer = BaseModel | web.StreamResponse | None
Work = Callable[[Call], Awaitable[Answer]]
_Context = Callable[[web.Request], Awaitable[dict[str, Any]]]
_Work = TypeVar("_Work", bound=Work)


@dataclass(frozen=True, kw_only=True)
class Operation:
    """An operation: its work function and everything that the document says about it."""

    name: str
    """The OpenAPI `operationId`."""
    method: str
    path: str
    """Path below `PREFIX`, with names of `PLACES` in braces."""
    tag: str
    summary: str
    right: Right
    work: Work
    query: type[BaseModel]
    body: type[BaseModel] | None
    answer: type[BaseModel] | None
    """Model of the response; None for an empty response (204), or for bytes if `media` is set."""
    media: str | None
    """Media type of a response that is not JSON."""
    status: int
    faults: frozenset[int]
    """Error statuses in addition to those that follow from the declaration."""
    session_only: bool
    """Whether it needs a browser's session with a recent sign-in; a stolen token must not make others."""
    context: _Context
    """Context for validating the body's model."""

    @property
    def places(self) -> list[str]:
        """Names of the path variables."""
        return [part[1:-1] for part in self.path.split("/") if part.startswith("{")]

    @property
    def statuses(self) -> list[int]:
        """Every status of the operation's responses, in ascending order."""
        found = {self.status, 401, 403, 422, 429, 500, 503} | self.faults
        if self.right is Right.ANYBODY:
            found -= {401, 403}
        if self.places:
            found.add(404)
        if self.body is not None:
            found |= {400, 413, 415}
        if self.method != "GET":
            found.add(409)
        if self.is_conditional:
            found.add(412)
        return sorted(found)

    @property
    def is_conditional(self) -> bool:
        """Return whether the operation evaluates `If-Match`."""
        return self.method in {"PUT", "PATCH", "DELETE"}

    @property
    def pattern(self) -> str:
        """The path as an aiohttp route pattern."""
        path = PREFIX + self.path
        for name in self.places:
            path = path.replace(f"{{{name}}}", f"{{{name}:{PLACES[name].pattern}}}")
        return path


class Operations(list[Operation]):
    """The operations of a module under one tag, which are added by decorating their work functions."""

    def __init__(self, tag: str) -> None:
        super().__init__()
        self._tag = tag

    def add(  # noqa: PLR0913 each is a part of the declaration
        self,
        route: str,
        name: str,
        right: Right,
        *,
        query: type[BaseModel] = NoQuery,
        body: type[BaseModel] | None = None,
        media: str | None = None,
        status: int | None = None,
        faults: Collection[int] = (),
        session_only: bool = False,
        context: _Context = _no_context,
    ) -> Callable[[_Work], _Work]:
        """Declare the decorated work as the operation `name` at `route`, such as `GET /runs/{run}`.

        Its docstring is the summary and its return type the answer; without an answer, the status is 204.
        """
        method, _, path = route.partition(" ")

        def declare(work: _Work) -> _Work:
            returned = inspect.get_annotations(work)["return"]
            operation = Operation(
                name=name, method=method, path=path, tag=self._tag, summary=inspect.getdoc(work) or "",
                right=right, work=work, query=query, body=body, answer=None if media else returned,
                media=media, status=status or (204 if returned is None else 200), faults=frozenset(faults),
                session_only=session_only, context=context,
            )  # fmt: skip
            self.append(operation)
            return work

        return declare

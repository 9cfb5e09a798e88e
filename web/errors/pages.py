"""Pages of a run's errors: grouped by kind, and one error with its raw bytes and the faulty line marked."""

import asyncio
import shlex
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, Final

from aiohttp import web
from sqlalchemy.orm import Session

from harvester.client.transport import request_url
from harvester.harvest.models import Quarantined
from harvester.harvest.refetch import Refetched
from harvester.listing import find_errors
from harvester.models import Repository
from harvester.reading.errors import RepositoryBusyError
from harvester.repositories import change_repository
from oai.audit import Subject
from oai.errors import TryLaterError, UsageError
from oai.failures import Failure, FailureCode
from web.auth.access import Right, asked_for, needs
from web.auth.audit import change_one
from web.errors.letter import Evidence, letter_about, letter_about_errors, letter_part
from web.errors.raw_bytes import RawView, view_of
from web.errors.refetch import refetch, sentence
from web.errors.repairs import proposal_for, repair_words
from web.runs.pages import run_page
from web.site.failures import in_words
from web.site.i18n import _, error_text
from web.site.keys import database_of
from web.site.params import BIG_NUMBER
from web.site.render import render

_MOST: Final = 500
_KINDS: Final = 10
"""Kinds of errors in a letter, the most frequent ones."""


@dataclass(frozen=True, kw_only=True)
class Group:
    """Errors of one kind, newest first."""

    code: FailureCode
    plain: str
    errors: Sequence[Quarantined]


def grouped(errors: Iterable[Quarantined]) -> list[Group]:
    """Group the errors by kind, largest group first."""
    found: dict[tuple[FailureCode, FailureCode | None], list[Quarantined]] = {}
    for error in errors:
        failure = error.failure
        # Date ranges that could not be listed are explained by the cause.
        cause = Failure.from_json(failure.facts.get("for"))
        found.setdefault((failure.code, cause.code if cause else None), []).append(error)
    groups = [
        Group(code=code, plain=in_words(those[0].failure).what, errors=those)
        for (code, _cause), those in found.items()
    ]
    return sorted(groups, key=lambda group: -len(group.errors))


async def listing(request: web.Request) -> web.Response:
    """List the errors of a run by kind."""
    run, shared = await run_page(request)
    found = await database_of(request).run(find_errors, limit=_MOST + 1, run=run.history_id, resolved=True)
    errors = found[:_MOST]
    groups = grouped(errors)
    complete = len(found) == len(errors) and len(groups) <= _KINDS
    shared |= await _letter_of_run(request, groups, shared["repository"], complete=complete)
    return render(request, "run_errors.html", **shared, groups=groups, count=len(errors), most=_MOST)


async def _letter_of_run(
    request: web.Request, groups: Sequence[Group], repository: Repository, *, complete: bool
) -> Mapping[str, Any]:
    """Return the letter about what is still unread, each kind with the bytes of one record only."""
    known = []
    for group in groups[:_KINDS]:
        unread = [error for error in group.errors if error.resolved is None]
        first = None
        if unread:
            first = await database_of(request).run(Session.get, Quarantined, unread[0].quarantine_id)
        if first is not None:
            known.append((unread, await asyncio.to_thread(_evidence, first, repository)))
    if not known:
        return {"letter": "", "mail": None}
    write = partial(letter_about_errors, known, repository, complete=complete)
    return await letter_part(request, repository.admin_email, write)


@dataclass(frozen=True, kw_only=True)
class Fetched:
    """Result of fetching a record again, as the page shows it, or the problem that prevented the request."""

    result: Refetched | None = None
    sentence: str = ""
    problem: str = ""
    view: RawView | None = None
    record: int | None = None
    """Id of the record in the store."""


async def show(request: web.Request) -> web.Response:
    """Show one error."""
    return await _page(request)


@needs(Right.HARVEST)
async def again(request: web.Request) -> web.Response:
    """Fetch the record again; if it is valid, store it by its schedule's rules and show the result."""
    error = await asked_for(request, Quarantined)
    repository = await asked_for(request, Repository, error.repository_id)
    if not error.identifier:
        raise web.HTTPConflict(
            text=_("The identifier of the record is unknown, so it cannot be fetched separately.")
        )
    subject = Subject(
        kind="error", number=str(error.quarantine_id), name=error.identifier, action="error.fetch"
    )
    try:
        result, record = await change_one(request, subject, partial(refetch, request, repository, error))
    except RepositoryBusyError:
        text = _("The repository is being harvested. Try again when the harvest has ended.")
        return await _page(request, Fetched(problem=text))
    except (TryLaterError, UsageError) as fault:
        return await _page(request, Fetched(problem=error_text(fault)))
    fetched = Fetched(
        result=result,
        sentence=sentence(result.fate),
        view=view_of(result.raw) if result.raw else None,
        record=record,
    )
    return await _page(request, fetched)


@needs(Right.HARVEST)
async def repair(request: web.Request) -> web.StreamResponse:
    """Repair such records of the repository from now on, and fetch this one again."""
    error = await asked_for(request, Quarantined)
    repository = await asked_for(request, Repository, error.repository_id)
    proposal = await asyncio.to_thread(proposal_for, error.raw, error.raw_size)
    if proposal is None:
        raise web.HTTPConflict(text=_("No repair makes this record readable."))
    chosen = [*repository.repairs, *proposal.repairs]
    subject = Subject(kind="repository", number=str(repository.repository_id), name=repository.display_name)

    def change(session: Session) -> None:
        change_repository(session, repository.repository_id, repairs=chosen)

    await change_one(request, subject, partial(database_of(request).run, change))
    if not error.identifier:
        raise web.HTTPSeeOther(f"/errors/{error.quarantine_id}?done=repair-chosen")
    return await again(request)


async def _page(request: web.Request, fetched: Fetched | None = None) -> web.Response:
    error = await asked_for(request, Quarantined)
    repository = await asked_for(request, Repository, error.repository_id)
    plain = in_words(error.failure).what
    known = await asyncio.to_thread(_evidence, error, repository)
    return render(
        request,
        "error.html",
        error=error,
        repository=repository,
        name=repository.display_name,
        plain=plain,
        view=known.view,
        **await letter_part(request, repository.admin_email, lambda: letter_about(error, repository, known)),
        again=known.address,
        fetched=fetched,
        repairs={value: label for value, label in repair_words() if value in repository.repairs},
        proposal=known.proposal,
        words=dict(repair_words()),
        curl=f"curl --compressed {shlex.quote(known.address or error.url)}",
    )


def _evidence(error: Quarantined, repository: Repository) -> Evidence:
    """Return what the bytes of the record show; looking for a repair takes a moment."""
    alone = None
    if error.identifier:
        arguments = [
            ("verb", "GetRecord"),
            ("identifier", error.identifier),
            ("metadataPrefix", error.metadata_prefix),
        ]
        alone = request_url(repository.base_url, arguments)
    view = view_of(error.raw, line=int(error.failure.facts.get("line", 0)))
    return Evidence(address=alone, view=view, proposal=proposal_for(error.raw, error.raw_size))


async def raw(request: web.Request) -> web.Response:
    """Download the bytes as received."""
    error = await asked_for(request, Quarantined)
    return web.Response(
        body=error.raw,
        content_type="application/octet-stream",
        headers={"Content-Disposition": f'attachment; filename="zatva-error-{error.quarantine_id}.bin"'},
    )


ROUTES = (
    web.get(f"/runs/{BIG_NUMBER}/errors", listing),
    web.get(f"/errors/{BIG_NUMBER}", show),
    web.post(f"/errors/{BIG_NUMBER}/again", again),
    web.post(f"/errors/{BIG_NUMBER}/repair", repair),
    web.get(f"/errors/{BIG_NUMBER}/raw", raw),
)

"""The explorer: each of the six verbs put to the live repository; the answer as it came and as it reads."""

import shlex
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from aiohttp import web

from harvester.access import Access, access_of
from harvester.exploring import Asked
from harvester.listing import find_records
from harvester.models import Repository
from harvester.reading.answers import Record
from harvester.reading.errors import NoRecordsMatchError
from harvester.sampling import indented
from oai.errors import SettingsError, TryLaterError, UsageError
from oai.vocabulary import Verb
from web.access import Right, asked_for, needs
from web.answer_oddities import oddities
from web.catalogue import Details
from web.csrf import from_here
from web.explorations import EXPLORATIONS
from web.forms import Problem
from web.lookups import NUMBER, repository_of
from web.problems import problem_of
from web.raw_bytes import RawView, view_of
from web.rendering import render
from web.threads import database_of
from web.words import _, told

_IDENTIFIERS: Final = 20
_MOST_HEADERS: Final = 500
_MOST_RECORDS: Final = 25
_MOST_CHARACTERS: Final = 200_000
_LONGEST: Final = 4000
_ARGUMENTS: Final = ("identifier", "metadataPrefix", "set", "from", "until", "resumptionToken")


@dataclass(frozen=True, kw_only=True)
class Shown:
    """A record for people."""

    record: Record
    title: str
    text: str


@dataclass(frozen=True, kw_only=True)
class Answer:
    """An answer as the page shows it."""

    asked: Asked
    curl: str
    problem: Problem | None
    odd: Sequence[str]
    records: Sequence[Shown]
    text: str
    """As it came; empty where it is broken, or there is none."""
    cut: bool
    """Whether that is not all of it."""
    broken: RawView | None
    """As it came, with the fault marked, where it is broken."""


@needs(Right.HARVEST)
async def show(request: web.Request) -> web.Response:
    """The form for a verb; with `verb` in the address, the question is put and the answer shown."""
    _who, repository = await asked_for(request, Repository)
    details, access = await repository_of(request, repository.repository_id), access_of(repository.protocol)
    known = await database_of(request).run(find_records, repository.repository_id, limit=_IDENTIFIERS)
    put = _verb(request.query.get("verb", ""), access)
    verb = put or _verb(request.query.get("form", ""), access) or Verb.IDENTIFY
    takes, given = access.questions[verb].takes, _given(request.query)
    answer, refused = None, ""
    # What another site links to is filled in, and asked when the reader says so.
    if put and from_here(request):
        arguments = [(name, given[name]) for name in takes if given.get(name)]
        answer, refused = await _asked(request, repository, verb, arguments)
    return render(
        request,
        "explorer.html",
        details=details,
        verb=verb,
        access=access,
        takes=takes,
        given=given,
        prefixes=_prefixes(details, access),
        identifiers=[record.identifier for record in known],
        answer=answer,
        refused=refused,
        most_headers=_MOST_HEADERS,
        **_meanings(access),
    )


async def _asked(
    request: web.Request, repository: Repository, verb: Verb, arguments: list[tuple[str, str]]
) -> tuple[Answer | None, str]:
    """The repository's answer, or why the question was not put."""
    try:
        asked = await request.config_dict[EXPLORATIONS].ask(repository, verb, arguments)
    except (TryLaterError, UsageError, SettingsError) as error:
        return None, told(error)
    return _answer(asked, repository), ""


def _verb(text: str, access: Access) -> Verb | None:
    """The verb of that name, if it is a question that the repository may be asked."""
    return Verb(text) if text in set(access.questions) else None


def _given(query: Mapping[str, str]) -> dict[str, str]:
    """The arguments in the address; they are sent as they are, wrong ones too."""
    texts = {name: query.get(name, "").strip()[:_LONGEST] for name in _ARGUMENTS}
    return {name: text for name, text in texts.items() if text and text.isprintable()}


def _prefixes(details: Details, access: Access) -> list[str]:
    usual = access.usual_format
    found = [one.metadata_prefix for one in details.formats] or [usual]
    return sorted(dict.fromkeys(found), key=lambda prefix: (prefix != usual, prefix))


def _answer(asked: Asked, repository: Repository) -> Answer:
    body = asked.reply.body if asked.reply else b""
    view = view_of(body) if body else None
    broken = view if view is not None and view.parser else None
    text = "" if broken else body.decode("utf-8", errors="replace")
    records = asked.page.records[:_MOST_RECORDS] if asked.page else ()
    error = asked.error
    # Nothing selected is an answer, not a failure.
    problem = None if error is None or isinstance(error, NoRecordsMatchError) else problem_of(error)
    return Answer(
        asked=asked,
        curl=f"curl --compressed {shlex.quote(asked.url)}" if access_of(repository.protocol).greeting else "",
        problem=problem,
        odd=oddities(asked, repository),
        records=[_shown(record) for record in records],
        text=text[:_MOST_CHARACTERS],
        cut=len(text) > _MOST_CHARACTERS,
        broken=broken,
    )


def _shown(record: Record) -> Shown:
    titles = record.fields().get("title", ())
    return Shown(record=record, title=next(iter(titles), ""), text=indented(record.element))


def _meanings(access: Access) -> dict[str, Any]:
    """What each verb asks, and what each argument is."""
    language = access.query
    return {
        "meanings": {
            Verb.IDENTIFY: _("Shows the description of the service and its record formats.")
            if language
            else _("Shows the repository's name, granularity and handling of deletions."),
            Verb.LIST_METADATA_FORMATS: _("Lists the metadata formats of the repository or of one record."),
            Verb.LIST_SETS: _("Lists the sets of the repository."),
            Verb.LIST_IDENTIFIERS: _("Lists one page of record headers, without metadata."),
            Verb.LIST_RECORDS: _("Lists one page of the records that a query finds.")
            if language
            else _("Lists one page of records with their metadata."),
            Verb.GET_RECORD: _("Shows a single record."),
        },
        "labels": {
            "identifier": _("Identifier"),
            "metadataPrefix": _("Metadata format"),
            "set": _("Query in %(language)s") % {"language": language.name} if language else _("Set"),
            "from": _("From"),
            "until": _("To"),
            "resumptionToken": _("Position") if language else _("Resumption token"),
        },
        "hints": {
            **({"set": _("For example, %(example)s.") % {"example": language.example}} if language else {}),
            "from": _("A day, or a time such as 2026-01-31T12:00:00Z."),
            "until": _("The same format; both bounds are inclusive."),
            "resumptionToken": _("The position of the first record to show; leave empty for 1.")
            if language
            else _("From the previous page; it is sent without the other arguments."),
        },
    }


ROUTES = (web.get(f"/repositories/{NUMBER}/explorer", show),)

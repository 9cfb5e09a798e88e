"""Explorer: sends each of the six verbs to the live repository; shows the response raw and parsed."""

import asyncio
import shlex
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

from aiohttp import web

from harvester.access import Access, access_of
from harvester.client.transport import Arguments
from harvester.listing import find_records
from harvester.models import Repository
from harvester.probing.question import Asked, ask
from harvester.reading.answers import Header, Record
from harvester.reading.errors import NoRecordsMatchError
from oai.datestamps import format_datestamp, parse_datestamp, utc_now
from oai.errors import SettingsError, TryLaterError, UsageError
from oai.limits import RateLimit
from oai.settings import Settings
from oai.vocabulary import PROTOCOL_VERSION, Granularity, Verb
from oai.xml import indented
from web.auth.access import Right, asked_for, needs
from web.auth.csrf import from_here
from web.errors.raw_bytes import RawView, view_of
from web.repositories.forms import Details
from web.site.failures import problem_of
from web.site.formats import decimal
from web.site.forms import Problem
from web.site.i18n import _, error_text, ngettext
from web.site.keys import database_of
from web.site.params import NUMBER, repository_of
from web.site.render import render
from web.site.timeouts import ask_apart

_SUCCESS: Final = 200
_NONE: Final = "\N{EN DASH}"
_SLOW_SECONDS: Final = 5.0
_WORTH_COMPRESSING: Final = 10_000
"""Size in bytes."""

Look = Callable[[Asked, Repository], Iterator[str]]


def oddities(asked: Asked, repository: Repository) -> Sequence[str]:
    """Return sentences about oddities of the response, most general first; empty if there are none."""
    by_query = access_of(repository.protocol).query is not None
    looks = _LOOKS_AT_ANY if by_query else (*_LOOKS_AT_OAI_PMH, *_LOOKS_AT_ANY)
    return [sentence for look in looks for sentence in look(asked, repository)]


def _transfer(asked: Asked, _repository: Repository) -> Iterator[str]:
    reply = asked.reply
    if reply is None:
        return
    if reply.status != _SUCCESS:
        yield _("The HTTP status is %(status)s, not 200.") % {"status": reply.status}
    if reply.cut is not None:
        yield _("The answer is incomplete, or its stated length is wrong.")
    if reply.hops:
        yield _("The address redirects to %(address)s.") % {"address": reply.hops[-1].partition("?")[0]}
    if reply.method == "POST":
        yield _(
            "The server refused the address as too long (HTTP 414); the request was sent by POST instead."
        )
    if not reply.content_type.lower().startswith("text/xml"):
        yield _("The Content-Type is %(kind)s, not text/xml.") % {"kind": reply.content_type or _NONE}
    if len(reply.body) > _WORTH_COMPRESSING and not reply.compression:
        yield _("The answer is not compressed, although gzip was requested.")


def _speed(asked: Asked, _repository: Repository) -> Iterator[str]:
    if asked.seconds > _SLOW_SECONDS:
        yield _("The answer took %(seconds)s seconds.") % {"seconds": decimal(asked.seconds)}


def _clock(asked: Asked, _repository: Repository) -> Iterator[str]:
    date = asked.response_date
    if date and _granularity_of(date) != Granularity.SECOND:
        yield _("responseDate is %(date)s, not UTC to the second.") % {"date": date}


def _identity(asked: Asked, repository: Repository) -> Iterator[str]:
    identity = asked.identity
    if identity is None:
        return
    if identity.base_url != repository.display_url:
        yield _("Identify gives another base URL: %(address)s.") % {"address": identity.base_url or _NONE}
    if identity.protocol_version != PROTOCOL_VERSION:
        yield _("The protocol version is %(version)s, not 2.0.") % {"version": identity.protocol_version}


def _notes(asked: Asked, _repository: Repository) -> Iterator[str]:
    if asked.identity is not None:
        yield from asked.identity.notes


def _parts(asked: Asked, _repository: Repository) -> Iterator[str]:
    page = asked.page
    if page is None:
        return
    count = len(page.faults)
    if count:
        sentence = ngettext(
            "%(count)s part cannot be read: %(reason)s",
            "%(count)s parts cannot be read; the first: %(reason)s",
            count,
        )
        yield sentence % {"count": count, "reason": page.faults[0].reason}
    yield from page.notes


def _records(asked: Asked, _repository: Repository) -> Iterator[str]:
    page = asked.page
    if page is None:
        return
    twice = [
        name for name, count in Counter(header.identifier for header in page.headers).items() if count > 1
    ]
    if twice:
        yield _("The identifier %(identifier)s occurs more than once.") % {"identifier": twice[0]}
    if not page.headers and page.next_token:
        yield _("The page is empty, but contains a resumption token.")
    wanted = dict(asked.arguments).get("identifier", "")
    if asked.verb is Verb.GET_RECORD and page.headers and page.headers[0].identifier != wanted:
        yield _("The answer contains a record other than the requested one.")


def _datestamps(asked: Asked, repository: Repository) -> Iterator[str]:
    headers = asked.page.headers if asked.page else ()
    undated = [header.identifier for header in headers if header.undated]
    if undated:
        yield _("%(identifier)s has no datestamp.") % {"identifier": undated[0]}
    granularity = repository.granularity
    dated = [header for header in headers if not header.undated]
    wrong = [header for header in dated if granularity and _granularity_of(header.datestamp) != granularity]
    if wrong:
        yield _("%(date)s is not a valid datestamp with granularity %(granularity)s.") % {
            "date": wrong[0].datestamp,
            "granularity": granularity,
        }


def _selection(asked: Asked, _repository: Repository) -> Iterator[str]:
    headers = asked.page.headers if asked.page else ()
    arguments = dict(asked.arguments)
    outside = [header for header in headers if not header.undated and not _within(header, arguments)]
    if outside:
        yield _("%(identifier)s has the datestamp %(date)s, which is outside the requested range.") % {
            "identifier": outside[0].identifier,
            "date": outside[0].datestamp,
        }
    wanted = arguments.get("set", "")
    elsewhere = [header for header in headers if wanted and not header.is_in(wanted)]
    if elsewhere:
        yield _("%(identifier)s does not list the set %(set)s in its header.") % {
            "identifier": elsewhere[0].identifier,
            "set": wanted,
        }


def _tokens(asked: Asked, _repository: Repository) -> Iterator[str]:
    token = asked.page.token if asked.page else None
    if token is not None and token.value and token.complete_list_size is None:
        yield _("completeListSize is missing, so the total number of records is unknown.")


def _granularity_of(text: str) -> Granularity | None:
    try:
        return parse_datestamp(text).granularity
    except ValueError:
        return None


def _within(header: Header, arguments: dict[str, str]) -> bool:
    """Return whether the datestamp is within the bounds, compared at the coarser of both granularities."""
    first, last = arguments.get("from", ""), arguments.get("until", "")
    stamp = header.datestamp
    after = not first or stamp[: len(first)] >= first[: len(stamp)]
    return after and (not last or stamp[: len(last)] <= last[: len(stamp)])


_LOOKS_AT_OAI_PMH: tuple[Look, ...] = (
    _transfer,
    _clock,
    _identity,
    _datestamps,
    _selection,
    _tokens,
)
_LOOKS_AT_ANY: tuple[Look, ...] = (
    _speed,
    _notes,
    _parts,
    _records,
)


_PER_MINUTE: Final = 30
_MOST_LOCKS: Final = 1000


@dataclass(kw_only=True)
class Explorations:
    """Sends the requests of this process; the rate limit is per repository, whoever asks."""

    settings: Settings
    limiter: RateLimit = field(default_factory=lambda: RateLimit(per_minute=_PER_MINUTE))
    _turns: dict[int, asyncio.Lock] = field(default_factory=dict)

    async def ask(self, repository: Repository, verb: Verb, arguments: Arguments) -> Asked:
        """Send a request when the repository's lock is free.

        Raises TryLaterError if the repository asked for a pause or received too many requests; UsageError and
        SettingsError like `harvester.probing.question.ask`.
        """
        self.check(repository)
        async with self._turn(repository.repository_id):
            return await ask_apart(
                ask,
                repository.base_url,
                self.settings,
                verb,
                arguments,
                protocol=repository.protocol,
            )

    def check(self, repository: Repository) -> None:
        """Count a request. Raises TryLaterError like `ask`."""
        if repository.not_before is not None and repository.not_before > utc_now():
            until = format_datestamp(repository.not_before)
            raise TryLaterError(_("The repository asked for no requests until %(time)s.") % {"time": until})
        seconds = self.limiter.wait(str(repository.repository_id))
        if seconds:
            raise TryLaterError(
                _("Too many requests to the repository; try again in %(seconds)s s.")
                % {"seconds": round(seconds) + 1}
            )

    def _turn(self, repository_id: int) -> asyncio.Lock:
        # Drops unlocked locks when there are many. One that was just released to a waiter may be among them;
        # two requests to a repository may then overlap, but `limiter` still limits their rate.
        if len(self._turns) > _MOST_LOCKS:
            self._turns = {number: lock for number, lock in self._turns.items() if lock.locked()}
        return self._turns.setdefault(repository_id, asyncio.Lock())


EXPLORATIONS: Final = web.AppKey("explorations", Explorations)


_IDENTIFIERS: Final = 20
_MOST_HEADERS: Final = 500
_MOST_RECORDS: Final = 25
_MOST_CHARACTERS: Final = 200_000
_LONGEST: Final = 4000
_ARGUMENTS: Final = ("identifier", "metadataPrefix", "set", "from", "until", "resumptionToken")


@dataclass(frozen=True, kw_only=True)
class Shown:
    """A record as the page shows it."""

    record: Record
    title: str
    text: str


@dataclass(frozen=True, kw_only=True)
class ShownAnswer:
    """A response as the page shows it."""

    asked: Asked
    curl: str
    problem: Problem | None
    odd: Sequence[str]
    records: Sequence[Shown]
    text: str
    """Response text as received; empty if it is broken or absent."""
    cut: bool
    """Whether the text is truncated."""
    broken: RawView | None
    """Response as received with the fault marked, if it is broken."""


@needs(Right.HARVEST)
async def show(request: web.Request) -> web.Response:
    """Show the form for a verb; with `verb` in the query string, send the request and show the response."""
    repository = await asked_for(request, Repository)
    details, access = await repository_of(request, repository.repository_id), access_of(repository.protocol)
    known = await database_of(request).run(find_records, repository.repository_id, limit=_IDENTIFIERS)
    put = _verb(request.query.get("verb", ""), access)
    verb = put or _verb(request.query.get("form", ""), access) or Verb.IDENTIFY
    takes, given = access.questions[verb].takes, _given(request.query)
    answer, refused = None, ""
    # A link from another site only fills in the form; the reader sends the request.
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
) -> tuple[ShownAnswer | None, str]:
    """Return the repository's response, or why no request was sent."""
    try:
        asked = await request.config_dict[EXPLORATIONS].ask(repository, verb, arguments)
    except (TryLaterError, UsageError, SettingsError) as error:
        return None, error_text(error)
    return _answer(asked, repository), ""


def _verb(text: str, access: Access) -> Verb | None:
    """Return the verb with that name if the repository supports it."""
    return Verb(text) if text in set(access.questions) else None


def _given(query: Mapping[str, str]) -> dict[str, str]:
    """Return the arguments in the query string; they are sent unchanged, invalid ones included."""
    texts = {name: query.get(name, "").strip()[:_LONGEST] for name in _ARGUMENTS}
    return {name: text for name, text in texts.items() if text and text.isprintable()}


def _prefixes(details: Details, access: Access) -> list[str]:
    usual = access.usual_format
    found = [one.metadata_prefix for one in details.formats] or [usual]
    return sorted(dict.fromkeys(found), key=lambda prefix: (prefix != usual, prefix))


def _answer(asked: Asked, repository: Repository) -> ShownAnswer:
    body = asked.reply.body if asked.reply else b""
    view = view_of(body) if body else None
    broken = view if view is not None and view.parser else None
    text = "" if broken else body.decode("utf-8", errors="replace")
    records = asked.page.records[:_MOST_RECORDS] if asked.page else ()
    error = asked.error
    # An empty selection is a response, not a failure.
    problem = None if error is None or isinstance(error, NoRecordsMatchError) else problem_of(error)
    return ShownAnswer(
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
    """Return the descriptions of the verbs and of their arguments."""
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

"""What is odd about one answer of a repository, in the reader's language; each kind is a function."""

from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from typing import Final

from harvester.access import access_of
from harvester.exploring import Asked
from harvester.models import Repository
from harvester.reading.answers import Header
from oai.datestamps import parse_datestamp
from oai.vocabulary import PROTOCOL_VERSION, Granularity, Verb
from web.words import _, ngettext

_SUCCESS: Final = 200
_NONE: Final = "\N{EN DASH}"
_SLOW_SECONDS: Final = 5.0
_WORTH_COMPRESSING: Final = 10_000
"""Bytes."""

Look = Callable[[Asked, Repository], Iterator[str]]


def oddities(asked: Asked, repository: Repository) -> Sequence[str]:
    """Sentences, the most general first; none where all is as it should be."""
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
        yield _("The answer took %(seconds)s seconds.") % {"seconds": f"{asked.seconds:.1f}"}


def _clock(asked: Asked, _repository: Repository) -> Iterator[str]:
    date = asked.response_date
    if date and _granularity_of(date) != Granularity.SECOND:
        yield _("responseDate is %(date)s, not UTC to the second.") % {"date": date}


def _identity(asked: Asked, repository: Repository) -> Iterator[str]:
    identity = asked.identity
    if identity is None:
        return
    if identity.base_url != repository.base_url:
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
    said = repository.granularity
    wrong = [header for header in headers if said and _granularity_of(header.datestamp) != said]
    if wrong:
        yield _("%(date)s is not a valid datestamp with granularity %(granularity)s.") % {
            "date": wrong[0].datestamp,
            "granularity": said,
        }


def _selection(asked: Asked, _repository: Repository) -> Iterator[str]:
    headers = asked.page.headers if asked.page else ()
    arguments = dict(asked.arguments)
    outside = [header for header in headers if not _within(header, arguments)]
    if outside:
        yield _("%(identifier)s has the datestamp %(date)s, which is outside the requested range.") % {
            "identifier": outside[0].identifier,
            "date": outside[0].datestamp,
        }
    wanted = arguments.get("set", "")
    elsewhere = [header for header in headers if wanted and not _is_in(header, wanted)]
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
    """Whether the datestamp lies in the bounds, as far as the coarser of the two tells."""
    first, last = arguments.get("from", ""), arguments.get("until", "")
    stamp = header.datestamp
    after = not first or stamp[: len(first)] >= first[: len(stamp)]
    return after and (not last or stamp[: len(last)] <= last[: len(stamp)])


def _is_in(header: Header, wanted: str) -> bool:
    return any(spec == wanted or spec.startswith(f"{wanted}:") for spec in header.set_specs)


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

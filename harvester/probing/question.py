"""A single request to a repository, chosen by the user: the complete answer and its content."""

import asyncio
import time
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, Final

from harvester.access import Access, access_of
from harvester.client.probe import ProbeExchange, Watching
from harvester.client.protocol_client import ProtocolClient
from harvester.client.selection import Selection
from harvester.client.transport import Arguments, HttpReply, open_transport, request_url
from harvester.protocols import open_protocol_client
from harvester.reading import facts, replies
from harvester.reading.answers import FormatPage, Identity, Page, SetPage
from harvester.reading.errors import ClientError, HttpStatusError
from harvester.vocabulary import AccessProtocol
from oai.limits import AnswerLimits
from oai.reach import without_credentials
from oai.settings import Settings
from oai.vocabulary import Verb

_SUCCESS: Final = 200
_LISTS: Final = frozenset({Verb.LIST_RECORDS, Verb.LIST_IDENTIFIERS, Verb.GET_RECORD})


@dataclass(frozen=True, kw_only=True)
class Asked:
    """A request and its answer; of the parsed content, only what belongs to the verb is set."""

    verb: Verb
    arguments: Arguments
    url: str
    """The URL of the GET request."""
    seconds: float
    reply: HttpReply | None = None
    """None if no answer was received."""
    identity: Identity | None = None
    formats: FormatPage | None = None
    sets: SetPage | None = None
    page: Page | None = None
    error: ClientError | None = None
    """Why there is no answer, or what is wrong with it as a whole."""

    @property
    def response_date(self) -> str:
        """Return it as the server wrote it; empty if the answer has none."""
        for found in (self.identity, self.formats, self.sets, self.page, self.error):
            date: str = getattr(found, "response_date", "")
            if date:
                return date
        return ""

    @property
    def next_token(self) -> str:
        """Return the token of the next page; empty if there is none."""
        token = self.sets.token if self.sets else self.page.token if self.page else None
        return token.value if token else ""


async def ask(
    base_url: str,
    settings: Settings,
    verb: Verb,
    arguments: Arguments,
    *,
    protocol: str = AccessProtocol.OAI_PMH,
    clock: Callable[[], float] = time.perf_counter,
) -> Asked:
    """Send the request once, without a retry; errors are part of the result.

    OAI-PMH requests are sent with the arguments unchanged; for another protocol, the arguments must be valid.
    Raises UsageError if they are not, and SettingsError if a program that the protocol needs is missing.
    """
    access = access_of(protocol)
    if access.query is not None:
        return await _ask_by_query(base_url, settings, access, verb, arguments, clock=clock)
    request = [("verb", verb.value), *arguments]
    asked = Asked(verb=verb, arguments=arguments, url=request_url(base_url, request), seconds=0.0)
    begun = clock()
    try:
        async with open_transport(settings.harvester) as transport:
            reply = await transport(base_url, request)
    except ClientError as error:
        return replace(asked, seconds=clock() - begun, error=error)
    asked = replace(asked, seconds=clock() - begun, reply=reply)
    try:
        return await asyncio.to_thread(_with_answer, asked, reply, settings.harvester.limits)
    except ClientError as error:
        return replace(asked, error=error)


async def _ask_by_query(
    base_url: str,
    settings: Settings,
    access: Access,
    verb: Verb,
    arguments: Arguments,
    *,
    clock: Callable[[], float],
) -> Asked:
    """Ask as a harvest does, with the protocol's client, which knows how to express the request."""
    given = dict(arguments)
    if verb is Verb.LIST_RECORDS:
        access.check(given.get("set"))
    exchanges: list[ProbeExchange] = []
    shown = without_credentials(base_url)
    watched = partial(Watching, exchanges=exchanges)
    asked = Asked(verb=verb, arguments=arguments, url=shown, seconds=0.0)
    begun = clock()
    try:
        opened = open_protocol_client(access.protocol, base_url, settings.harvester, retries=0, over=watched)
        async with opened as client:
            asked = await _ANSWERED_BY[verb](
                client, asked, given.get("metadataPrefix") or access.usual_format
            )
    except ClientError as error:
        asked = replace(asked, error=error)
    reply = exchanges[-1].reply if exchanges else None
    return replace(asked, seconds=clock() - begun, reply=reply, url=reply.url if reply else shown)


async def _explained(client: ProtocolClient, asked: Asked, _prefix: str) -> Asked:
    identity = await client.identify()
    formats = FormatPage(url=client.base_url, response_date="", formats=await client.list_metadata_formats())
    return replace(asked, identity=identity, formats=formats)


async def _found(client: ProtocolClient, asked: Asked, prefix: str) -> Asked:
    given = dict(asked.arguments)
    selection = Selection(metadata_prefix=prefix, set_spec=given.get("set"))
    pages = client.pages(asked.verb, selection, resumption_token=given.get("resumptionToken", ""), loose=True)
    return replace(asked, page=await anext(pages))


_ANSWERED_BY: Final[Mapping[Verb, Callable[[ProtocolClient, Asked, str], Awaitable[Asked]]]] = {
    Verb.IDENTIFY: _explained,
    Verb.LIST_RECORDS: _found,
}
"""How a protocol's client answers the verbs of `Access.questions`."""


def _with_answer(asked: Asked, reply: HttpReply, limits: AnswerLimits) -> Asked:
    """Add the content of the answer, read leniently. Raises ClientError if it cannot be read at all."""
    body, url, kind = reply.body, reply.url, reply.content_type
    if reply.status != _SUCCESS and not replies.looks_like_oai_pmh(body):
        raise HttpStatusError(url, reply.status, bot_check=reply.is_bot_check)
    if asked.verb in _LISTS:
        page = replies.read_page(body, asked.verb, url=url, content_type=kind, loose=True, limits=limits)
        return replace(asked, page=page)
    arguments: dict[str, Any] = {
        "body": body,
        "url": url,
        "content_type": kind,
        "loose": True,
        "limits": limits,
    }
    if asked.verb is Verb.IDENTIFY:
        return replace(asked, identity=facts.read_identity(**arguments))
    if asked.verb is Verb.LIST_SETS:
        return replace(asked, sets=facts.read_sets(**arguments))
    return replace(asked, formats=facts.read_formats(**arguments))

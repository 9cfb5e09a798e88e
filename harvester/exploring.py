"""One question to a repository, asked once, as a person chose it: the whole answer, and what it says."""

import asyncio
import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from types import MappingProxyType
from typing import Final

from harvester.client import replies
from harvester.client.answers import FormatPage, Identity, Page, SetPage
from harvester.client.errors import ClientError, HttpStatusError
from harvester.client.transport import Arguments, HttpReply, open_transport, request_url
from oai.settings import Settings
from oai.vocabulary import Verb

TAKEN: Final = MappingProxyType(
    {
        Verb.IDENTIFY: (),
        Verb.LIST_METADATA_FORMATS: ("identifier",),
        Verb.LIST_SETS: ("resumptionToken",),
        Verb.LIST_IDENTIFIERS: ("metadataPrefix", "set", "from", "until", "resumptionToken"),
        Verb.LIST_RECORDS: ("metadataPrefix", "set", "from", "until", "resumptionToken"),
        Verb.GET_RECORD: ("identifier", "metadataPrefix"),
    }
)
"""The arguments that each verb takes (specification, section 4)."""

_SUCCESS: Final = 200
_LISTS: Final = frozenset({Verb.LIST_RECORDS, Verb.LIST_IDENTIFIERS, Verb.GET_RECORD})


@dataclass(frozen=True, kw_only=True)
class Asked:
    """A question and what came; of what the answer says that which belongs to its verb."""

    verb: Verb
    arguments: Arguments
    url: str
    """As GET writes it."""
    seconds: float
    reply: HttpReply | None = None
    """None where no answer came."""
    identity: Identity | None = None
    formats: FormatPage | None = None
    sets: SetPage | None = None
    page: Page | None = None
    error: ClientError | None = None
    """Why there is no answer, or what is wrong with it as a whole."""

    @property
    def response_date(self) -> str:
        """As the server wrote it; empty where it did not."""
        for found in (self.identity, self.formats, self.sets, self.page, self.error):
            date: str = getattr(found, "response_date", "")
            if date:
                return date
        return ""

    @property
    def next_token(self) -> str:
        """What to ask for the next page with; empty where there is none."""
        token = self.sets.token if self.sets else self.page.token if self.page else None
        return token.value if token else ""


async def ask(
    base_url: str,
    settings: Settings,
    verb: Verb,
    arguments: Arguments,
    *,
    clock: Callable[[], float] = time.perf_counter,
) -> Asked:
    """Ask once, with no second try and the arguments as they are; what goes wrong is in the result."""
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
        return await asyncio.to_thread(_with_answer, asked, reply)
    except ClientError as error:
        return replace(asked, error=error)


def _with_answer(asked: Asked, reply: HttpReply) -> Asked:
    """With what the answer says, read loosely. Raises ClientError where it cannot be read at all."""
    body, url, kind = reply.body, reply.url, reply.content_type
    if reply.status != _SUCCESS and not replies.looks_like_oai_pmh(body):
        raise HttpStatusError(url, reply.status)
    if asked.verb in _LISTS:
        page = replies.read_page(body, asked.verb, url=url, content_type=kind, loose=True)
        return replace(asked, page=page)
    if asked.verb is Verb.IDENTIFY:
        return replace(asked, identity=replies.read_identity(body, url=url, content_type=kind, loose=True))
    if asked.verb is Verb.LIST_SETS:
        return replace(asked, sets=replies.read_sets(body, url=url, content_type=kind, loose=True))
    return replace(asked, formats=replies.read_formats(body, url=url, content_type=kind, loose=True))

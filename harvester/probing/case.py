"""What the checks of one diagnosis share: the client, the answers received, and the facts found."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, Final

from harvester.client.probe import Watching
from harvester.client.repository_client import Client
from harvester.client.selection import Selection
from harvester.client.transport import HttpReply, Transport
from harvester.probing.findings import Fact
from harvester.reading import replies
from harvester.reading.answers import FormatInfo, Identity, Page
from harvester.reading.errors import ClientError, OaiError
from oai.vocabulary import Verb

_SHOWN = 200
_SUCCESS = 200


@dataclass(kw_only=True)
class Case:
    """A repository being diagnosed."""

    client: Client
    send: Transport
    """Sends a request unchanged, after a polite pause."""
    watching: Watching
    now: datetime
    """When the diagnosis began (UTC)."""
    identity: Identity | None = None
    formats: Sequence[FormatInfo] = ()
    metadata_prefix: str = "oai_dc"
    page: Page | None = None
    """The first page of records, read leniently; None if it is not available."""
    facts: list[Fact] = field(default_factory=list)

    def note(self, subject: str, found: str, **values: Any) -> None:  # noqa: ANN401 values of the sentence's placeholders
        """Add a fact."""
        self.facts.append(Fact(subject=subject, found=found, values=values))

    def last_reply(self) -> HttpReply:
        """Return the last answer as received."""
        return self.watching.exchanges[-1].reply

    async def ask(self, *arguments: tuple[str, str]) -> HttpReply:
        """Send a request once and unchanged. Raises ClientError if there is no answer."""
        return await self.send(self.client.address, arguments)

    async def listed(self, selection: Selection, verb: Verb = Verb.LIST_IDENTIFIERS) -> Page:
        """Return the first page of a list, read leniently. Raises ClientError."""
        return await anext(self.client.pages(verb, selection, loose=True))

    async def continued(self, token: str) -> Page:
        """Return the page for a token of ListRecords, requested once. Raises ClientError."""
        verb = Verb.LIST_RECORDS
        reply = await self.ask(("verb", verb.value), ("resumptionToken", token))
        kind = reply.headers.get("Content-Type", "")
        return replies.read_page(reply.body, verb, url=reply.url, loose=True, content_type=kind)


def error_in(reply: HttpReply, verb: Verb) -> str:
    """Return the protocol's error code in an answer, or else a few words on what the answer is."""
    try:
        replies.read_page(reply.body, verb, url=reply.url, loose=True)
    except OaiError as error:
        return error.code
    except ClientError as error:
        return f"HTTP {reply.status}" if reply.status != _SUCCESS else short(error)
    return "a list" if reply.status == _SUCCESS else f"HTTP {reply.status}"


def short(error: Exception) -> str:
    """Return the error without the address, which reports state once."""
    text = str(error)
    url = getattr(error, "url", "")
    return text.removeprefix(f"{url}: ")[:_SHOWN]


SUBJECTS: Final[Mapping[str, str]] = {
    "identify": "Answer to Identify",
    "version": "Protocol version",
    "base url": "Base URL",
    "redirects": "Redirects",
    "content type": "Content type",
    "email": "Administrator's address",
    "earliest": "Earliest datestamp",
    "granularity": "Granularity",
    "datestamps": "Datestamps",
    "deletions": "Deleted records",
    "response date": "Response date",
    "clock": "Clock",
    "formats": "Metadata formats",
    "records": "List of records",
    "encoding": "Encoding",
    "schema": "Validity of a sample",
    "page size": "Page size",
    "size told": "List size",
    "token": "Resumption token",
    "token again": "Reused token",
    "token expiry": "Token expiry",
    "identifiers": "List of identifiers",
    "get record": "Single record",
    "from": "Bound `from`",
    "until": "Bound `until`",
    "before earliest": "Before the earliest datestamp",
    "sets": "Sets",
    "set": "Harvesting a set",
    "bad verb": "Unknown verb",
    "bad argument": "Missing argument",
    "bad token": "Invalid token",
    "bad format": "Unknown format",
    "bad identifier": "Unknown identifier",
    "post": "Requests by POST",
    "gzip": "Compression",
    "speed": "Speed",
}
"""The subjects of the checks, in the order of reports."""

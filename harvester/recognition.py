"""Asks a repository to describe itself, by the protocol of its address or by each that it may support.

Nothing here reads the database, so that the process that asks for the dashboard starts quickly.
"""

import contextlib
import re
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Final
from urllib.parse import parse_qsl, urlencode, urlsplit, urlunsplit

from harvester.access import access_of
from harvester.client.protocol_client import ProtocolClient
from harvester.client.repository_client import Client
from harvester.client.transport import check_http_url
from harvester.protocols import open_protocol_client, protocol_of, protocols_at
from harvester.reading.answers import FormatInfo, Identity, SetInfo
from harvester.reading.errors import ClientError, HttpStatusError, NotOaiPmhError, OaiError, TransportError
from harvester.vocabulary import AccessProtocol
from harvester.z3950.session import read_address
from oai.errors import UsageError, required
from oai.settings import Settings

_TRIES_WHEN_ASKED: Final = 1
_USUAL_PATHS: Final = (
    "oai", "oai/request", "server/oai/request", "oai2", "oai-pmh", "OAIHandler", "cgi/oai2",
    "index.php/index/oai",
)  # fmt: skip
"""Where DSpace, EPrints, OJS and others have their repositories."""
_COPIED_REQUEST: Final = re.compile(r"\?verb=\w+(&.*)?$")
_MISTYPED: Final = re.compile(r"https?[^\w.-]|(mailto:)?[^/:@]+@[^/:@]+$", re.IGNORECASE)
"""A scheme with typing errors, or an e-mail address; `https://` before it would make it a valid address."""
_ARGUMENTS: Final = frozenset(
    {"verb", "identifier", "metadataPrefix", "from", "until", "set", "resumptionToken"}
)
_NO_REPOSITORY: Final = (NotOaiPmhError, HttpStatusError)


@dataclass(frozen=True, kw_only=True)
class RepositoryFacts:
    """A repository's description of itself."""

    identity: Identity | None = None
    sets: Sequence[SetInfo] = ()
    formats: Sequence[FormatInfo] = ()
    protocol: AccessProtocol = AccessProtocol.OAI_PMH
    silence: str = ""
    """Why it does not identify itself; empty if it does."""
    sets_fault: str = ""
    """Why the list of sets cannot be read to its end; empty if it can. `sets` has those before the fault."""
    formats_fault: str = ""
    """Why the list of formats cannot be read; empty if it can."""

    def faults(self) -> Sequence[str]:
        """Return what cannot be read, for people: records can be harvested without these lists."""
        lists = (("list of sets", self.sets_fault), ("list of metadata formats", self.formats_fault))
        return [f"its {name} cannot be read: {fault}" for name, fault in lists if fault]


async def recognise_repository(
    base_url: str, settings: Settings, *, protocol: str | None = None
) -> RepositoryFacts:
    """Identify the repository at an address, by each protocol that it may support until one succeeds.

    If a protocol is given, only that one is tried. A service that answers queries need not identify itself
    then. Raises UsageError for an invalid address, ClientError or TryLaterError as the client of the most
    likely protocol does, and SettingsError if a required program is missing.
    """
    if protocol is not None:
        return await _asked_by(base_url, settings, protocol)
    first: ClientError | None = None
    for possible in protocols_at(base_url):
        try:
            return await identify_repository(base_url, settings, protocol=possible)
        except TransportError as error:
            # The host is unreachable by any protocol, unless it has answered another one.
            raise (first or error) from None
        except ClientError as error:
            first = first or error
    raise required(first, "there is at least one protocol")


async def find_repository(
    address: str, settings: Settings, *, protocol: str | None = None
) -> tuple[str, RepositoryFacts]:
    """Identify the repository at an address as people type it; return its base URL and its description.

    An address without a scheme is tried by https, then by http; if a site's root is no repository, the usual
    paths below it are tried. Raises the error of the first address that answered, or of the last one.
    """
    failure: ClientError | None = None
    for possible in _addresses(address):
        try:
            return possible, await recognise_repository(possible, settings, protocol=protocol)
        except TransportError as error:
            failure = failure or error
            continue
        except ClientError as error:
            if not isinstance(error, _NO_REPOSITORY) or urlsplit(possible).path not in {"", "/"}:
                raise
            failure = error
        for path in _USUAL_PATHS:
            usual = f"{possible.rstrip('/')}/{path}"
            with contextlib.suppress(ClientError):
                return usual, await identify_repository(usual, settings, protocol=AccessProtocol.OAI_PMH)
        break
    raise required(failure, "there is at least one address")


def lacks_scheme(address: str) -> bool:
    """Return whether a person typed an address that only lacks `https://` or `http://`."""
    return "://" not in address and not _MISTYPED.match(address)


def _addresses(address: str) -> Sequence[str]:
    """Return the complete addresses that a person may mean, without a request that was copied with them."""
    address = _COPIED_REQUEST.sub("", address)
    return [f"https://{address}", f"http://{address}"] if lacks_scheme(address) else [address]


async def identify_repository(
    repository: Client | str, settings: Settings, *, protocol: str | None = None
) -> RepositoryFacts:
    """Request the identity, the sets and the formats of a repository (its client, or its base URL).

    Faults of the two lists are noted in the result: records can be harvested without them.
    Without a protocol, the one that the address indicates is used.

    Raises ClientError or TryLaterError; the message names the kind of error.
    """
    if isinstance(repository, Client):
        return await _facts(repository)
    chosen = checked_protocol(repository, protocol)
    opened = open_protocol_client(chosen, repository, settings.harvester, retries=_TRIES_WHEN_ASKED)
    async with opened as client:
        return replace(await _facts(client), protocol=chosen)


def check_base_url(base_url: str, protocol: str = AccessProtocol.OAI_PMH) -> str:
    """Return the base URL unchanged. Raises UsageError if it is not an http or https address.

    For Z39.50, it must be a z3950 address.
    """
    if protocol == AccessProtocol.Z3950:
        read_address(base_url)
        return base_url
    return check_http_url(base_url)


def check_no_request(base_url: str) -> None:
    """Raise UsageError for the address of an OAI-PMH request: each harvest would repeat its arguments."""
    parts = urlsplit(base_url)
    given = parse_qsl(parts.query, keep_blank_values=True)
    if not {"verb", "metadataPrefix", "resumptionToken"}.isdisjoint(dict(given)):
        own = urlencode([one for one in given if one[0] not in _ARGUMENTS])
        raise UsageError(
            "%(request)s is the address of a request; give only the base URL: %(base_url)s",
            request=repr(base_url),
            base_url=urlunsplit(parts._replace(query=own)),
        )


def checked_protocol(base_url: str, protocol: str | None) -> AccessProtocol:
    """Return the protocol for the address, after checking that they match."""
    chosen = protocol_of(base_url, protocol)
    check_base_url(base_url, chosen)
    return chosen


async def _asked_by(base_url: str, settings: Settings, protocol: str) -> RepositoryFacts:
    try:
        return await identify_repository(base_url, settings, protocol=protocol)
    except TransportError:
        raise
    except ClientError as error:
        if access_of(protocol).query is None:
            raise
        return RepositoryFacts(protocol=AccessProtocol(protocol), silence=str(error))


async def _facts(client: ProtocolClient) -> RepositoryFacts:
    facts = RepositoryFacts(identity=await client.identify(loose=True))
    try:
        facts = replace(facts, formats=await client.list_metadata_formats(loose=True))
    except ClientError as error:
        facts = replace(facts, formats_fault=str(error))
    sets: list[SetInfo] = []
    try:
        async for found in client.list_sets(loose=True):
            sets.append(found)  # noqa: PERF401 those before a fault are kept
    except ClientError as error:
        # Some servers answer badVerb or badArgument if they have no sets.
        if sets or not isinstance(error, OaiError):
            facts = replace(facts, sets_fault=str(error))
    return replace(facts, sets=sets)

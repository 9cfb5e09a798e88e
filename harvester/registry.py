"""Base URLs to choose from: a public list, fetched and cached, and the friends that a repository names.

Both are XML with `baseURL` elements: the registry's `BaseURLs` (openarchives.org, "Register/ListFriends"),
and the `friends` container in the description of an Identify (OAI-PMH implementation guidelines, "Friends").
"""

import asyncio
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from harvester.client.transport import HttpReply, open_transport
from harvester.reading.errors import ClientError, HttpStatusError, NotOaiPmhError
from harvester.recognition import check_base_url
from oai.errors import MalformedXmlError, TryLaterError
from oai.limits import DEFAULT_LIMITS, AnswerLimits
from oai.settings import Settings
from oai.vocabulary import Verb
from oai.xml import parse

_FILE: Final = "registry.xml"
_DAY: Final = 86_400.0
_SUCCESS: Final = 200
_LONGEST_URL: Final = 2000


@dataclass(frozen=True, kw_only=True)
class Registry:
    """The known list: base URLs in alphabetical order, and the reason why it is not newer."""

    base_urls: Sequence[str] = ()
    trouble: str | None = None

    def search(self, words: str, limit: int) -> list[str]:
        """Return the first base URLs that contain all the words, regardless of case."""
        wanted = words.lower().split()
        found = (url for url in self.base_urls if all(word in url.lower() for word in wanted))
        return [url for url, _ in zip(found, range(limit), strict=False)]


async def load_registry(
    settings: Settings,
    *,
    clock: Callable[[], float] = time.time,
) -> Registry:
    """Return the list of `harvester.registry_url`, fetched if the cached one is older than `registry_days`.

    If it is not available, the cached one is returned, and `trouble` has the reason.
    """
    address, file = settings.harvester.registry_url, settings.data / _FILE
    if address is None:
        return Registry()
    kept, age = await asyncio.to_thread(_kept, file, clock)
    if kept is not None and age < settings.harvester.registry_days * _DAY:
        return Registry(base_urls=kept)
    try:
        reply = await _fetched(address, settings)
        found = base_urls_in(reply.body, url=address, limits=settings.harvester.limits)
    except (ClientError, TryLaterError) as error:
        return Registry(base_urls=kept or (), trouble=str(error))
    await asyncio.to_thread(_keep, file, reply.body)
    return Registry(base_urls=found)


async def friends_of(base_url: str, settings: Settings) -> Sequence[str]:
    """Return the repositories that this one names as its friends, by OAI-PMH.

    Raises UsageError for an address of another protocol, ClientError and TryLaterError.
    """
    check_base_url(base_url)
    reply = await _fetched(base_url, settings, ("verb", Verb.IDENTIFY.value))
    own = base_url.rstrip("/")
    limits = settings.harvester.limits
    found = base_urls_in(reply.body, url=base_url, below="friends", limits=limits)
    return [url for url in found if url.rstrip("/") != own]


def base_urls_in(
    data: bytes, *, url: str, below: str | None = None, limits: AnswerLimits = DEFAULT_LIMITS
) -> Sequence[str]:
    """Return the base URLs in a document, or in its elements named `below`.

    Raises NotOaiPmhError if not XML.
    """
    try:
        root = parse(data, source=url, limits=limits)
    except MalformedXmlError as error:
        raise NotOaiPmhError(url, f"the list of repositories is not available: {error}", data) from None
    places = [root] if below is None else list(root.iter("{*}" + below))
    texts = (
        (element.text or "").strip() for place in places for element in place.iter("{*}baseURL", "baseURL")
    )
    usable = {
        text for text in texts if text.startswith(("http://", "https://")) and len(text) <= _LONGEST_URL
    }
    return sorted(usable, key=lambda text: text.partition("://")[2].lower())


async def _fetched(address: str, settings: Settings, *arguments: tuple[str, str]) -> HttpReply:
    async with open_transport(settings.harvester) as transport:
        reply = await transport(address, arguments)
    if reply.status != _SUCCESS:
        raise HttpStatusError(address, reply.status)
    return reply


def _kept(file: Path, clock: Callable[[], float]) -> tuple[Sequence[str] | None, float]:
    try:
        data, age = file.read_bytes(), clock() - file.stat().st_mtime
        return base_urls_in(data, url=str(file)), age
    except (OSError, NotOaiPmhError):
        return None, 0.0


def _keep(file: Path, data: bytes) -> None:
    file.parent.mkdir(parents=True, exist_ok=True)
    new = file.with_suffix(".new")
    new.write_bytes(data)
    # Replaced in one step, so that a reader never gets half a list.
    new.replace(file)

"""A look at any repository by whatever protocol it speaks: what it answers, and what is odd about it."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial

from harvester.access import access_of
from harvester.client.oddities import faults, oddities
from harvester.client.probing import Exchange, Findings, Watching, probe
from harvester.protocols import open_protocol_client
from harvester.vocabulary import AccessProtocol
from oai.datestamps import utc_now
from oai.settings import Settings

_RETRIES = 1


@dataclass(frozen=True, kw_only=True)
class Looked:
    """What was found, and what is odd about it in words."""

    findings: Findings
    odd: Sequence[str]


async def look(
    base_url: str,
    settings: Settings,
    *,
    protocol: str = AccessProtocol.OAI_PMH,
    set_spec: str = "",
    on_wait: Callable[[float, str], None] = lambda _seconds, _reason: None,
) -> Looked:
    """Ask who it is, for its formats and sets, and for the first records of the set or query.

    Raises UsageError for no query, SettingsError where a program that the protocol needs is missing, and
    otherwise as `probe` does.
    """
    exchanges: list[Exchange] = []
    watched = partial(Watching, exchanges=exchanges)
    opened = open_protocol_client(
        protocol, base_url, settings.harvester, retries=_RETRIES, on_wait=on_wait, over=watched
    )
    async with opened as client:
        found = replace(await probe(client, None, set_spec=set_spec), exchanges=exchanges)
    by_query = access_of(protocol).query is not None
    return Looked(findings=found, odd=list(_odd(found) if by_query else oddities(found, now=utc_now())))


def _odd(found: Findings) -> Iterator[str]:
    """What could not be had, and what was odd about the records, where a query found them."""
    yield from dict.fromkeys(f"{error}" for error in found.failures.values())
    if found.page is not None:
        yield from found.page.notes
        yield from faults(found.page)

"""Diagnose a repository: about thirty requests, sent one after the other and politely."""

import asyncio
import time
from collections.abc import Awaitable, Callable, Mapping, Sequence
from datetime import UTC, datetime
from functools import partial
from typing import Any, Final

from lxml import etree

from harvester.client.probe import Watching
from harvester.client.repository_client import Client
from harvester.client.transport import Arguments, HttpReply, open_transport
from harvester.probing.case import SUBJECTS, Case, short
from harvester.probing.checks import (
    look_at_bounds,
    look_at_dates,
    look_at_formats,
    look_at_identifiers,
    look_at_identity,
    look_at_post,
    look_at_records,
    look_at_refusals,
    look_at_sets,
    look_at_tokens,
    look_before_earliest,
)
from harvester.probing.findings import Fact, Profile, Report
from harvester.reading.answers import Identity
from harvester.reading.errors import ClientError
from harvester.rules.validation import open_validator
from oai.errors import StrictCheckError, TryLaterError
from oai.sections import HarvesterSettings
from oai.settings import Settings

_GENTLE_SECONDS: Final = 1.0
_PATIENT: Final = 8

_RULES: Final[Sequence[tuple[frozenset[str], Mapping[str, Any]]]] = (
    (frozenset({"token.failed", "token.repeats"}), {"slice": "day"}),
    (frozenset({"token again.refused", "token again.other", "token expiry.short"}), {"slice": "month"}),
    (frozenset({"from.ignored", "from.failed", "response date.unreadable"}), {"incremental": False}),
    (frozenset({"speed.slow"}), {"delay": _GENTLE_SECONDS, "retries": _PATIENT}),
)
"""The profile's values by the facts that require them; of two rules for the same value, the first applies."""


def profile_of(facts: Sequence[Fact], *, metadata_prefix: str, failed_requests: int = 0) -> Profile:
    """Return how a repository with these facts should be harvested.

    `failed_requests` is how many requests of the diagnosis got no answer at the first attempt.
    """
    found = {fact.key for fact in facts}
    chosen: dict[str, Any] = {}
    why: list[str] = []
    for causes, values in [*_RULES, *_method_rules(found)]:
        if causes & found and not values.keys() & chosen.keys():
            chosen |= values
            why += sorted(causes & found)
    if failed_requests:
        chosen["retries"] = _PATIENT
    return Profile(metadata_prefix=metadata_prefix, why=tuple(dict.fromkeys(why)), **chosen)


def _method_rules(found: set[str]) -> list[tuple[frozenset[str], Mapping[str, Any]]]:
    """Return the rule for GetRecord harvesting, if lists of records fail and those of identifiers do not."""
    if {"identifiers.same", "get record.well"} <= found or (
        "records.failed" in found and "identifiers.failed" not in found and "get record.failed" not in found
    ):
        return [(frozenset({"records.failed"}), {"method": 1})]
    return []


_RETRIES = 1
_MAX_WAIT = 30.0
_POLITE_SECONDS = 0.5
_REQUEST_SECONDS = 60.0
_SAMPLE = 10

Sleep = Callable[[float], Awaitable[None]]


async def diagnose(
    base_url: str,
    settings: Settings,
    *,
    clock: Callable[[], float] = time.time,
    sleep: Sleep = asyncio.sleep,
    on_fact: Callable[[Fact], None] = lambda _fact: None,
) -> Report:
    """Diagnose the repository, one request at a time with at least half a second between two.

    `on_fact` is called with each fact when it is found. Raises ClientError or TryLaterError if the repository
    does not even answer Identify.
    """
    timeout = min(settings.harvester.timeout, _REQUEST_SECONDS)
    manners = settings.harvester.model_copy(update={"timeout": timeout})
    pause = max(manners.delay, _POLITE_SECONDS)
    begun = time.monotonic()
    client = partial(
        Client,
        base_url,
        limits=manners.limits,
        max_wait=_MAX_WAIT,
        max_wait_total=_MAX_WAIT,
        clock=clock,
        sleep=sleep,
    )
    async with open_transport(manners) as transport:
        watching = Watching(transport)

        async def paced(url: str, arguments: Arguments) -> HttpReply:
            # Outside of the measured time.
            if watching.exchanges:
                await sleep(pause)
            return await watching(url, arguments)

        now = datetime.fromtimestamp(clock(), UTC)
        case = Case(client=client(paced, retries=_RETRIES), send=paced, watching=watching, now=now)
        by_post = partial(_identity_by_post, client, manners, lambda: sleep(pause))
        await _look(case, settings, by_post, on_fact)
    return _report(case, requests=len(watching.exchanges) + 1, seconds=time.monotonic() - begun)


async def _identity_by_post(
    client: Callable[..., Client], manners: HarvesterSettings, pause: Callable[[], Awaitable[None]]
) -> Identity:
    await pause()
    async with open_transport(manners, method="POST") as posting:
        return await client(posting, retries=0).identify(loose=True)


async def _look(
    case: Case,
    settings: Settings,
    by_post: Callable[[], Awaitable[Identity]],
    on_fact: Callable[[Fact], None],
) -> None:
    reported = 0
    steps: tuple[Callable[[Case], Awaitable[None]], ...] = (
        look_at_identity,
        look_at_formats,
        look_at_records,
        look_at_tokens,
        look_at_dates,
        look_at_identifiers,
        look_at_bounds,
        look_before_earliest,
        look_at_sets,
        look_at_refusals,
        partial(look_at_post, identify_by_post=by_post),
        partial(_look_at_validity, settings=settings),
    )
    for step in steps:
        try:
            await step(case)
        except TryLaterError:
            # The repository asks not to be contacted for now; the report contains what is known so far.
            if case.identity is None:
                raise
            break
        for fact in case.facts[reported:]:
            on_fact(fact)
        reported = len(case.facts)


async def _look_at_validity(case: Case, settings: Settings) -> None:
    """Validate some of the records against their schema."""
    records = [
        record.element for record in (case.page.records if case.page else ()) if not record.header.deleted
    ]
    sample = records[:_SAMPLE]
    if not sample:
        return
    try:
        validator = await open_validator(case.client, settings, case.metadata_prefix)
        await validator.learn(sample)
        faults = [found for found in await asyncio.to_thread(_faults, validator.faults, sample) if found]
    except (StrictCheckError, ClientError) as error:
        case.note("schema", "unknown", text=short(error))
        return
    if faults:
        case.note("schema", "faulty", faulty=len(faults), count=len(sample), text=faults[0][0])
    else:
        case.note("schema", "well", count=len(sample))


def _faults(check: Callable[[etree._Element], list[str]], sample: list[etree._Element]) -> list[list[str]]:
    return [check(record) for record in sample]


def _report(case: Case, *, requests: int, seconds: float) -> Report:
    order = {subject: place for place, subject in enumerate(SUBJECTS)}
    facts = sorted(case.facts, key=lambda fact: order[fact.subject])
    identity = case.identity
    broken = sum(exchange.reply.status >= 500 for exchange in case.watching.exchanges)  # noqa: PLR2004 server's faults
    profile: Profile = profile_of(facts, metadata_prefix=case.metadata_prefix, failed_requests=broken)
    return Report(
        base_url=case.client.base_url,
        examined=case.now,
        requests=requests,
        seconds=seconds,
        repository_name=identity.repository_name if identity else "",
        admin_emails=identity.admin_emails if identity else (),
        facts=facts,
        profile=profile,
    )

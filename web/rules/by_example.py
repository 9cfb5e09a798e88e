"""A filter rule by example: records are ticked to be kept or dropped, and rules are proposed with counts."""

import asyncio
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from aiohttp import web
from lxml import etree

from harvester.harvest_plan import PREFIX
from harvester.models import Repository
from harvester.reading.answers import author_and_year_of, title_of
from harvester.rule_lab.by_example import RuleProposal, propose_rules
from harvester.rule_lab.explanation import RuleEffect
from harvester.rule_lab.fields import FoundField, found_fields, values_of_record
from harvester.rule_lab.samples import count_stored, read_files, stored_files
from harvester.vocabulary import RuleKind
from oai.errors import MalformedXmlError, UsageError, ZatvaError
from oai.xml import parse
from web.auth.access import Right, asked_for, needs
from web.repositories.forms import repository_choices
from web.rules.conditions import operators
from web.rules.forms import values_of
from web.rules.trials import STORED, TRIALS, SampleForm
from web.site.i18n import _
from web.site.keys import SETTINGS, database_of
from web.site.paging import as_number, number_in
from web.site.render import render

_SHOWN: Final = 30
_MOST_BYTES: Final = 5_000_000
"""Bytes of the records together: their elements take about twenty times as much memory."""
_TRIED: Final = 1000
_FIELDS: Final = 12
_DECISIONS: Final = ("keep", "drop")
_TICK: Final = re.compile(r"record-([0-9]{1,2})")


@dataclass(frozen=True, kw_only=True)
class Example:
    """A stored record to choose."""

    number: int
    identifier: str
    title: str
    author: str
    year: str
    element: etree._Element


@dataclass(frozen=True, kw_only=True)
class Counted:
    """A proposal with its effect on stored records, and the form values with which the editor opens it."""

    proposal: RuleProposal
    kept: int
    tried: int
    values: Mapping[str, object]
    ended: ZatvaError | None = None
    """Why not all of them were tried."""


@needs(Right.HARVEST)
async def show(request: web.Request) -> web.Response:
    """Show stored records to choose from, once a repository is chosen."""
    chosen = number_in(request, "repository")
    if chosen is None:
        found = await repository_choices(request)
        return render(request, "rule_by_example.html", repositories=found, repository=None, all=False)
    return await _page(request, chosen)


@needs(Right.HARVEST)
async def propose(request: web.Request) -> web.Response:
    """Show the rules that keep and drop what was ticked, with their counts over the stored records."""
    posted = await request.post()
    chosen = as_number(str(posted.get("repository", "")))
    if chosen is None:
        raise web.HTTPNotFound(text=_("Choose a repository first."))
    ticks = {
        int(found[1]): str(value)
        for name, value in posted.items()
        if (found := _TICK.fullmatch(name)) and value in _DECISIONS
    }
    return await _page(request, chosen, ticks)


async def _page(request: web.Request, number: int, ticks: Mapping[int, str] | None = None) -> web.Response:
    """Render the page; with ticks, also the proposals."""
    decisions = ticks or {}
    repository = await asked_for(request, Repository, number)
    prefix = await _prefix(request)
    name, fault = repository.display_name, ""
    examples: list[Example] = []
    try:
        examples = await _stored_examples(request, number, prefix)
    except UsageError:
        fault = _("%(name)s has no stored records to choose from. Harvest the repository first.") % {
            "name": name
        }
    kept, dropped = (
        [one.element for one in examples if decisions.get(one.number) == word] for word in _DECISIONS
    )
    if ticks is not None and not fault and not (kept and dropped):
        fault = _("Tick at least one record to keep and one to drop.")
    counted = []
    if ticks is not None and not fault:
        found = await asyncio.to_thread(propose_rules, kept, dropped)
        counted = [await _counted(request, one, repository, prefix) for one in found]
    return render(
        request,
        "rule_by_example.html",
        status=422 if fault and ticks is not None else 200,
        repository=repository,
        name=name,
        prefix=prefix,
        examples=examples,
        fields=await asyncio.to_thread(_fields, examples),
        ticks=decisions,
        fault=fault,
        proposals=counted,
        asked=ticks is not None and not fault,
        stored=await database_of(request).run(count_stored, number, prefix),
        operators=operators(),
    )


async def _stored_examples(request: web.Request, number: int, prefix: str) -> list[Example]:
    """Return some stored records of a repository. Raises UsageError if there are none."""
    files = await database_of(request).run(
        stored_files, request.config_dict[SETTINGS], number, metadata_prefix=prefix, most=_SHOWN
    )
    samples = await asyncio.to_thread(read_files, files, most_bytes=_MOST_BYTES)
    return await asyncio.to_thread(_examples, samples.records)


async def _prefix(request: web.Request) -> str:
    """Return the chosen format; empty for the commonest one."""
    prefix = str((await request.post()).get("prefix") or request.query.get("prefix", ""))
    return prefix if re.fullmatch(PREFIX, prefix) and len(prefix) <= 60 else ""  # noqa: PLR2004 as in SampleForm


async def _counted(
    request: web.Request, proposal: RuleProposal, repository: Repository, prefix: str
) -> Counted:
    asked = SampleForm(
        repository=repository.repository_id, source=STORED, metadata_prefix=prefix or None, samples=_TRIED
    )
    trial = await request.config_dict[TRIALS].run(proposal.content, RuleKind.FILTER, asked, repository)
    return Counted(
        proposal=proposal,
        kept=trial.counts.get(RuleEffect.ACCEPTED, 0),
        tried=trial.tried,
        values=values_of(proposal.rows),
        ended=trial.ended,
    )


def _fields(examples: Sequence[Example]) -> list[FoundField]:
    return found_fields([values_of_record(one.element) for one in examples])[:_FIELDS]


def _examples(records: Sequence[bytes]) -> list[Example]:
    found = []
    for number, data in enumerate(records):
        try:
            element = parse(data, source="record")
        except MalformedXmlError:
            continue  # its audit reports it; as an example it is of no use
        author, year = author_and_year_of(element)
        identifier = element.findtext("{*}header/{*}identifier") or ""
        found.append(
            Example(
                number=number,
                identifier=identifier,
                title=title_of(element) or identifier,
                author=author,
                year=year,
                element=element,
            )
        )
    return found


ROUTES: Final[Sequence[Any]] = (
    web.get("/rules/by-example", show),
    web.post("/rules/by-example", propose),
)

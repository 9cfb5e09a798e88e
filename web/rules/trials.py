"""Trials of rules and conditions on stored records or on a first page of a live list, a few at a time."""

import asyncio
import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Final

from aiohttp import web
from lxml import etree
from pydantic import Field

from harvester.bibliographic import condition_trial
from harvester.bibliographic.conditions import Conditions
from harvester.harvest_plan import LONGEST_SELECTION, PREFIX
from harvester.models import Repository
from harvester.rule_lab.fields import FoundField, found_fields, values_of_record
from harvester.rule_lab.samples import Samples, first_page, read_files, stored_files
from harvester.rule_lab.trial import Trial, try_rules
from harvester.vocabulary import RuleKind
from oai.errors import MalformedXmlError
from oai.executor import DatabaseExecutor
from oai.settings import Settings
from oai.xml import parse
from web.site.forms import FormModel, empty_is_none
from web.site.timeouts import ask_apart

SECONDS: Final = 20.0
"""Maximum duration of a trial, in seconds."""
_AT_ONCE: Final = 2
_LOOKED_AT: Final = 30
"""Records in which fields are looked for."""
_MOST_FIELDS: Final = 60
_KEPT: Final = 50
_KEPT_SECONDS: Final = 900
STORED: Final = "stored"
LIVE: Final = "live"


class SampleForm(FormModel):
    """The records on which rules are tried."""

    repository: int = Field(ge=1, le=999_999_999)
    source: str = Field(STORED, pattern=f"^({STORED}|{LIVE})$")
    metadata_prefix: str | None = Field(None, pattern=PREFIX, max_length=60)
    set_spec: str | None = Field(None, max_length=LONGEST_SELECTION)
    samples: int = Field(100, ge=1, le=1000)

    _empty_is_none = empty_is_none("metadata_prefix", "set_spec")


@dataclass(kw_only=True)
class Trials:
    """Runs trials, a limited number at a time; further ones wait."""

    settings: Settings
    database: DatabaseExecutor
    _turn: asyncio.Semaphore = field(default_factory=lambda: asyncio.Semaphore(_AT_ONCE))
    _live: dict[tuple[int, str | None, str | None], tuple[float, list[FoundField]]] = field(
        default_factory=dict
    )
    """Fields of live lists, and until when they are kept; each form of the editor needs them again."""

    async def run(self, content: bytes, kind: RuleKind, asked: SampleForm, repository: Repository) -> Trial:
        """Try the rules.

        Raises RuleFileError, UsageError if nothing is stored, and the errors of `first_page`.
        """
        async with self._turn:
            samples = await self._samples(asked, repository)
            return await asyncio.to_thread(
                try_rules,
                content,
                kind,
                samples.records,
                seconds=SECONDS,
                unreadable=samples.unreadable,
            )

    async def conditions(
        self, rules: Conditions, repository_id: int, *, samples: int
    ) -> condition_trial.Trial:
        """Try the conditions of a filtering set on stored records. Raises UsageError if it takes too long."""
        async with self._turn:
            return await self.database.run(
                condition_trial.try_conditions,
                self.settings,
                rules,
                [repository_id],
                most=samples,
                seconds=SECONDS,
            )

    async def fields(self, asked: SampleForm, repository: Repository) -> list[FoundField]:
        """Return the fields in some of these records, those of a live list for some minutes from memory.

        Raises UsageError if nothing is stored, and the errors of `first_page`.
        """
        key = (repository.repository_id, asked.metadata_prefix, asked.set_spec)
        if asked.source == LIVE and (kept := self._live.get(key)) and kept[0] > time.monotonic():
            return kept[1]
        async with self._turn:
            samples = await self._samples(asked.model_copy(update={"samples": _LOOKED_AT}), repository)
            found = await asyncio.to_thread(_fields, samples.records)
        if asked.source == LIVE:
            while len(self._live) >= _KEPT:
                del self._live[next(iter(self._live))]
            self._live[key] = (time.monotonic() + _KEPT_SECONDS, found)
        return found

    async def _samples(self, asked: SampleForm, repository: Repository) -> Samples:
        prefix = asked.metadata_prefix or ""
        if asked.source == LIVE:
            return await ask_apart(
                first_page,
                repository.base_url,
                self.settings,
                protocol=repository.protocol,
                metadata_prefix=prefix,
                set_spec=asked.set_spec or "",
                most=asked.samples,
            )
        files = await self.database.run(
            stored_files,
            self.settings,
            repository.repository_id,
            metadata_prefix=prefix,
            most=asked.samples,
        )
        return await asyncio.to_thread(read_files, files)


def _fields(records: Sequence[bytes]) -> list[FoundField]:
    elements = [one for one in map(_element, records) if one is not None]
    return found_fields([values_of_record(one) for one in elements])[:_MOST_FIELDS]


def _element(data: bytes) -> etree._Element | None:
    try:
        return parse(data, source="record")
    except MalformedXmlError:
        return None  # a store audit reports it


TRIALS = web.AppKey("rule_trials", Trials)

"""Trials of rules on stored records or on a first page of a live list, a few at a time."""

import asyncio
from dataclasses import dataclass, field
from typing import Final

from aiohttp import web
from pydantic import Field, field_validator

from harvester.harvest_plan import LONGEST_SELECTION, PREFIX
from harvester.models import Repository
from harvester.rule_lab.models import RuleKind
from harvester.rule_lab.samples import first_page, read_files, stored_files
from harvester.rule_lab.trial import Trial, try_rules
from oai.executor import DatabaseExecutor
from oai.settings import Settings
from web.site.forms import FormModel
from web.site.timeouts import ask_apart

SECONDS: Final = 20.0
"""Maximum duration of a trial, in seconds."""
_AT_ONCE: Final = 2
STORED: Final = "stored"
LIVE: Final = "live"


class SampleForm(FormModel):
    """The records on which rules are tried."""

    repository: int = Field(ge=1, le=999_999_999)
    source: str = Field(STORED, pattern=f"^({STORED}|{LIVE})$")
    metadata_prefix: str | None = Field(None, pattern=PREFIX, max_length=60)
    set_spec: str | None = Field(None, max_length=LONGEST_SELECTION)
    samples: int = Field(100, ge=1, le=1000)

    @field_validator("metadata_prefix", "set_spec", mode="before")
    @classmethod
    def _empty_is_none(cls, value: object) -> object:
        return None if isinstance(value, str) and not value.strip() else value


@dataclass(kw_only=True)
class Trials:
    """Runs trials, a limited number at a time; further ones wait."""

    settings: Settings
    database: DatabaseExecutor
    _turn: asyncio.Semaphore = field(default_factory=lambda: asyncio.Semaphore(_AT_ONCE))

    async def run(self, content: bytes, kind: RuleKind, asked: SampleForm, repository: Repository) -> Trial:
        """Try the rules.

        Raises RuleFileError, UsageError if nothing is stored, and the errors of `first_page`.
        """
        async with self._turn:
            prefix = asked.metadata_prefix or ""
            if asked.source == LIVE:
                samples = await ask_apart(
                    first_page,
                    repository.base_url,
                    self.settings,
                    protocol=repository.protocol,
                    metadata_prefix=prefix,
                    set_spec=asked.set_spec or "",
                    most=asked.samples,
                )
            else:
                files = await self.database.run(
                    stored_files,
                    self.settings,
                    repository.repository_id,
                    metadata_prefix=prefix,
                    most=asked.samples,
                )
                samples = await asyncio.to_thread(read_files, files)
            return await asyncio.to_thread(
                try_rules,
                content,
                kind,
                samples.records,
                seconds=SECONDS,
                unreadable=samples.unreadable,
            )


TRIALS = web.AppKey("rule_trials", Trials)

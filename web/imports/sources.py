"""Sources of the bibliographic import: settings, start and last results per repository."""

import asyncio
import logging
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Final

from aiohttp import web
from pydantic import Field, field_validator
from sqlalchemy import Select, select
from sqlalchemy.orm import Session

from harvester.bibliographic.imports import ImportFacts, last_imports
from harvester.bibliographic.models import FilteringSet, ImportSource
from harvester.bibliographic.sources import (
    SourceSettings,
    UnknownFormatError,
    check_template,
    save_source,
    source_settings,
)
from harvester.harvest_plan import PREFIX
from harvester.listing import find_repositories
from harvester.models import Repository
from manager.worker.process import run_to_end
from oai.child import module_command
from oai.errors import ExitCode, UsageError
from oai.executor import DatabaseExecutor
from oai.settings import Settings
from web.auth.sessions import SignedIn
from web.auth.set_owners import choices_for
from web.site.background import Background
from web.site.forms import FormModel, empty_is_none
from web.site.i18n import _, error_text, mark

_log = logging.getLogger("web.import_processes")
_COMMAND: Final = module_command("zatva", "import", "run")
_AT_ONCE: Final = 2
_NOTED: Final = frozenset({ExitCode.DONE, ExitCode.RECORDS_REFUSED})
_FOLLOWED: Final = _NOTED | {ExitCode.TRY_LATER}
"""A running import of the repository also imports what changes meanwhile."""


@dataclass(kw_only=True)
class ImportProcesses(Background):
    """Runs imports as child processes: one at a time per repository, two in all; the others wait.

    The records of an import that is cancelled are kept, and the next import resumes there.
    """

    settings: Settings
    database: DatabaseExecutor
    command: Sequence[str] = _COMMAND
    """The command; the repository's id, the user's name and options are appended."""
    _asked: dict[int, int] = field(default_factory=dict)
    """By repository whose import waits or runs: the id of its preceding import, 0 for none."""
    _failed: dict[int, tuple[int, str]] = field(default_factory=dict)
    _following: set[int] = field(default_factory=set)
    """Repositories with an import of changes that has not started."""
    _turn: asyncio.Semaphore = field(default_factory=lambda: asyncio.Semaphore(_AT_ONCE))

    @property
    def under_way(self) -> bool:
        """Return whether any import waits or runs."""
        return bool(self._tasks)

    def waits(self, repository_id: int, last_import: int) -> bool:
        """Return whether a requested import has not started; `last_import` is the repository's last one."""
        return self._asked.get(repository_id, -1) >= last_import

    def failure_of(self, repository_id: int, last_import: int) -> str | None:
        """Return the output of an import process that failed to start, until a later import starts."""
        before, reason = self._failed.get(repository_id, (-1, ""))
        return reason if before >= last_import else None

    async def begin(self, repository_ids: Sequence[int], *, by: str) -> list[int]:
        """Start imports of those repositories that have none requested yet, and return their ids."""
        wanted = [one for one in dict.fromkeys(repository_ids) if one not in self._asked]
        last = await self.database.run(_last_numbers, wanted)
        # Checked again after the await, during which another request may have started the same import. There
        # is no await from here to the entry in `_asked`.
        begun = [one for one in wanted if one not in self._asked]
        for repository_id in begun:
            self._failed.pop(repository_id, None)
            self._asked[repository_id] = last[repository_id]
            self._begin(self._run(repository_id, by))
        return begun

    def follow(self, repository_id: int, *, by: str) -> None:
        """Start an import of what a user's action changed in the store, as after a harvest."""
        if repository_id not in self._following:
            self._following.add(repository_id)
            self._begin(self._follow(repository_id, by))

    async def _follow(self, repository_id: int, by: str) -> None:
        async with self._turn:
            self._following.discard(repository_id)
            command = [*self._command(repository_id, by), "--after-harvest"]
            outcome = await run_to_end(command, self.settings)
        if outcome.exit_code not in _FOLLOWED:
            _log.error("the import of repository %d: %s", repository_id, outcome.last_line)

    async def _run(self, repository_id: int, by: str) -> None:
        try:
            async with self._turn:
                reason = await self._process(repository_id, by)
            if reason is not None:
                self._failed[repository_id] = (self._asked[repository_id], reason)
                _log.error("the import of repository %d: %s", repository_id, reason)
        finally:
            del self._asked[repository_id]

    async def _process(self, repository_id: int, by: str) -> str | None:
        """Run the process to its end; return its last output if it failed."""
        outcome = await run_to_end(self._command(repository_id, by), self.settings)
        return None if outcome.exit_code in _NOTED else outcome.last_line

    def _command(self, repository_id: int, by: str) -> list[str]:
        return [*self.command, f"--repository={repository_id}", f"--by={by}"]


def _last_numbers(session: Session, repository_ids: Sequence[int]) -> dict[int, int]:
    found = last_imports(session, repository_ids)
    return {one: found[one].import_id if one in found else 0 for one in repository_ids}


IMPORTS = web.AppKey("imports", ImportProcesses)


QUEUED: Final = "queued"
RUNNING: Final = "running"
NEVER: Final = mark("not imported yet")


@dataclass(frozen=True, kw_only=True)
class SourceView:
    """A repository as a source of the import."""

    repository_id: int
    name: str
    settings: SourceSettings
    set_name: str | None
    last: ImportFacts | None
    state: str = NEVER
    trouble: str | None = None
    """Why an import failed to start."""

    @property
    def under_way(self) -> bool:
        """Return whether an import waits or runs."""
        return self.state in {QUEUED, RUNNING}


class SourceForm(FormModel):
    """Import settings of a repository."""

    after_harvest: bool = Field(default=False, description="Import after each harvest of the repository.")
    set_id: int | None = Field(
        None,
        ge=1,
        le=999_999_999,
        description="Number of the filtering set to apply; null: import all records.",
    )
    metadata_prefix: str | None = Field(
        None,
        pattern=PREFIX,
        max_length=60,
        description="Metadata format to import; null: the most detailed one.",
    )
    record_url_template: str | None = Field(
        None,
        max_length=2000,
        description="URL of a record's page, with {identifier}, {local} or {control_number}.",
    )

    @field_validator("record_url_template")
    @classmethod
    def _leads_to_records(cls, value: str | None) -> str | None:
        try:
            return None if value is None else check_template(value)
        except UsageError as error:
            raise ValueError(error_text(error)) from None


class TypedSource(SourceForm):
    """The settings as a form submits them, including empty fields."""

    _empty_is_none = empty_is_none("set_id", "metadata_prefix", "record_url_template")


def list_sources(
    session: Session, *, among: Select[int] | None, limit: int, after: int = 0
) -> Sequence[SourceView]:
    """Return the repositories as sources, by id."""
    rows = find_repositories(session, limit=limit, after=after, among=among)
    return _views(session, rows)


def find_source(session: Session, repository_id: int) -> SourceView:
    """Return one repository as a source; the repository must exist."""
    return _views(session, [session.get_one(Repository, repository_id)])[0]


def change_source(session: Session, who: SignedIn, repository_id: int, wanted: SourceForm) -> None:
    """Store the settings.

    Raises UsageError for a set that does not exist or that the user may not see, and as `save_source` does.
    """
    present = source_settings(session, repository_id).set_id
    choices = {one.set_id for one in choices_for(session, who, present)}
    if wanted.set_id is not None and wanted.set_id not in choices:
        raise UsageError(_("The filtering set does not exist; it may have been removed."))
    save_source(session, SourceSettings(repository_id=repository_id, **wanted.model_dump()))


def field_of(error: Exception) -> str:
    """Return the field that an error of `change_source` is about."""
    return "metadata_prefix" if isinstance(error, UnknownFormatError) else "set_id"


def with_running_import(view: SourceView, processes: ImportProcesses) -> SourceView:
    """Return the view with the import's present state, including imports that only this process knows."""
    number = view.last.import_id if view.last else 0
    state = view.last.state if view.last else NEVER
    if state != RUNNING and processes.waits(view.repository_id, number):
        state = QUEUED
    trouble = processes.failure_of(view.repository_id, number)
    return replace(view, state=state, trouble=trouble)


def _views(session: Session, rows: Sequence[Repository]) -> list[SourceView]:
    numbers = [row.repository_id for row in rows]
    settings = {
        row.repository_id: row
        for row in session.scalars(select(ImportSource).where(ImportSource.repository_id.in_(numbers)))
    }
    names = {row.set_id: row.name for row in session.execute(select(FilteringSet.set_id, FilteringSet.name))}
    last = last_imports(session, numbers)
    return [_view(row, settings.get(row.repository_id), names, last.get(row.repository_id)) for row in rows]


def _view(
    row: Repository, found: ImportSource | None, names: Mapping[int, str], last: ImportFacts | None
) -> SourceView:
    columns = ("record_url_template", "after_harvest", "metadata_prefix", "set_id")
    given = {name: getattr(found, name) for name in columns} if found is not None else {}
    settings = SourceSettings(repository_id=row.repository_id, **given)
    return SourceView(
        repository_id=row.repository_id,
        name=row.display_name,
        settings=settings,
        set_name=None if settings.set_id is None else names.get(settings.set_id),
        last=last,
    )

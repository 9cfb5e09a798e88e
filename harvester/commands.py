"""What this part's commands do."""

import asyncio
import os
from dataclasses import replace
from typing import Any

from sqlalchemy import func, select
from sqlalchemy.orm import Session

from harvester import repositories
from harvester.cli import positional
from harvester.dry_run import rehearse
from harvester.models import MetadataFormat, OaiSet, PrefixMapping, Repository
from harvester.overrides import overridden
from harvester.running.outcome import Outcome
from harvester.running.parameters import HarvestRequest, Method
from harvester.running.preparing import Level
from harvester.running.process import end_with_parent, run_harvest
from harvester.running.sourcing import replay_request
from harvester.running.windows import Slice
from oai.cli import Invocation
from oai.database import Database, open_database
from oai.errors import ExitCode, UsageError

_LEVELS = {"strict": Level.STRICT, "very-strict": Level.VERY_STRICT, "loose": Level.LOOSE}
_METHODS = {"records": Method.RECORDS, "identifiers": Method.IDENTIFIERS}
_COLUMNS = {"repository_id": "ID", "repository_name": "Name", "base_url": "Base URL", "base_dir": "Folder"}


def harvest(invocation: Invocation) -> ExitCode:
    """`zatva harvest`."""
    arguments = invocation.arguments
    invocation = replace(invocation, settings=overridden(invocation.settings, arguments))
    request = HarvestRequest(
        repository_id=0,
        metadata_prefix=arguments.format,
        set_spec=arguments.set,
        harvest_from=arguments.from_,
        harvest_to=arguments.until,
        full=arguments.full,
        method=_METHODS[arguments.method],
        validation=_LEVELS[arguments.validation],
        filter_file=arguments.filter,
        normalize_file=arguments.normalise,
        parse_id=not arguments.no_parse_id,
        files_per_directory=_files_per_directory(invocation),
        max_records=arguments.max,
        slice=_slice(invocation),
        ignore_wait=arguments.ignore_wait,
    )
    request.check()
    request.preparer()
    if arguments.dry_run:
        return _rehearsed(invocation, request)
    with open_database(invocation.settings) as database:
        if arguments.replay is not None:
            request = _replay(invocation, database, request)
        else:
            request = request.of(_repository(database, arguments.repository, arguments.out))
        outcome = run_harvest(invocation, database, request)
    return _told(invocation, outcome)


def harvest_process(invocation: Invocation) -> ExitCode:
    """`python -m harvester`."""
    arguments = invocation.arguments
    if arguments.end_with_parent:
        end_with_parent()
    request = HarvestRequest(
        repository_id=arguments.repository_id,
        metadata_prefix=arguments.metadata_prefix,
        set_spec=arguments.set_spec,
        harvest_from=arguments.harvest_from,
        harvest_to=arguments.harvest_to,
        full=arguments.full,
        method=Method(arguments.method),
        validation=Level(arguments.validation),
        filter_file=arguments.filter_file,
        normalize_file=arguments.normalize_file,
        parse_id=arguments.parse_id,
        files_per_directory=_files_per_directory(invocation),
        job_id=arguments.job_id,
        recurring_id=arguments.recurring_id,
        slice=_slice(invocation),
        ignore_wait=arguments.ignore_wait,
    )
    with open_database(invocation.settings) as database:
        outcome = run_harvest(invocation, database, request)
    return _told(invocation, outcome)


def repository_add(invocation: Invocation) -> ExitCode:
    """`zatva repository add`."""
    arguments = invocation.arguments
    facts = asyncio.run(repositories.identify_repository(arguments.url, invocation.settings))
    with open_database(invocation.settings) as database, database.session() as session:
        added = repositories.add_repository(
            session, base_url=arguments.url, base_dir=arguments.dir, facts=facts
        )
        session.commit()
        shown = _facts(session, added)
    invocation.console.result(shown, f"repository {shown['repository_id']}: {shown['repository_name']}")
    return ExitCode.DONE


def repository_list(invocation: Invocation) -> ExitCode:
    """`zatva repository list`."""
    with open_database(invocation.settings) as database, database.session() as session:
        rows = [_columns(repository) for repository in repositories.list_repositories(session)]
    empty = "no repositories yet; add one with `zatva repository add URL`"
    invocation.console.table(rows, _COLUMNS, empty=empty)
    return ExitCode.DONE


def repository_show(invocation: Invocation) -> ExitCode:
    """`zatva repository show`."""
    with open_database(invocation.settings) as database, database.session() as session:
        shown = _facts(session, repositories.get_repository(session, invocation.arguments.id))
    invocation.console.result(shown, "\n".join(f"{name}: {_word(value)}" for name, value in shown.items()))
    return ExitCode.DONE


def repository_remove(invocation: Invocation) -> ExitCode:
    """`zatva repository remove`."""
    repository_id = invocation.arguments.id
    with open_database(invocation.settings) as database, database.session() as session:
        repositories.remove_repository(session, repository_id)
        session.commit()
    invocation.console.result(
        {"removed": repository_id}, f"repository {repository_id} removed; its files stay"
    )
    return ExitCode.DONE


def repository_refresh(invocation: Invocation) -> ExitCode:
    """`zatva repository refresh`."""
    with open_database(invocation.settings) as database, database.session() as session:
        repository = repositories.get_repository(session, invocation.arguments.id)
        facts = asyncio.run(repositories.identify_repository(repository.base_url, invocation.settings))
        repositories.note_facts(session, repository.repository_id, facts)
        session.commit()
        session.refresh(repository)
        shown = _facts(session, repository)
    invocation.console.result(shown, f"repository {shown['repository_id']}: {shown['repository_name']}")
    return ExitCode.DONE


def _rehearsed(invocation: Invocation, request: HarvestRequest) -> ExitCode:
    arguments = invocation.arguments
    number = positional(arguments.repository)
    folder = None if arguments.out is None else os.path.abspath(arguments.out)  # noqa: PTH100 as below
    with open_database(invocation.settings) as database, database.session() as session:
        planned = rehearse(
            session,
            invocation.settings,
            request.of(number or 0),
            url=arguments.repository if number is None else None,
            folder=folder,
        )
    invocation.console.result(planned.as_json(), planned.in_words())
    return ExitCode.DONE


def _slice(invocation: Invocation) -> Slice | None:
    given: str | None = invocation.arguments.slice
    return None if given is None else Slice(given)


def _replay(invocation: Invocation, database: Database, request: HarvestRequest) -> HarvestRequest:
    """What the run that the command names asked for, with the command's rules."""
    arguments = invocation.arguments
    if arguments.repository is not None or arguments.out is not None:
        raise UsageError("a replay is of a run's own repository; leave URL|ID and --out out")
    with database.session() as session:
        return replay_request(session, invocation.settings, request, arguments.replay)


def _repository(database: Database, named: str | None, out: str | None) -> int:
    """The number of the repository that the command names, made where it is new."""
    if named is None:
        raise UsageError("give the base URL of a repository, or its number")
    number = positional(named)
    if number is not None:
        if out is not None:
            raise UsageError(f"repository {number} has its folder already; leave --out out")
        return number
    repositories.check_base_url(named)
    folder = None if out is None else os.path.abspath(out)  # noqa: PTH100 Path.absolute keeps `..`
    with database.session() as session:
        repository = repositories.ensure_repository(session, base_url=named, base_dir=folder)
        session.commit()
        return repository.repository_id


def _files_per_directory(invocation: Invocation) -> int:
    given: int | None = invocation.arguments.files_per_dir
    return invocation.settings.harvester.files_per_directory if given is None else given


def _told(invocation: Invocation, outcome: Outcome) -> ExitCode:
    invocation.console.result(outcome.as_json(), outcome.in_words())
    if outcome.failure_reason:
        invocation.console.note(f"zatva: {outcome.failure_reason}")
    return outcome.exit_code


def _columns(repository: Repository) -> dict[str, Any]:
    return {column.key: getattr(repository, column.key) for column in Repository.__table__.columns}


def _facts(session: Session, repository: Repository) -> dict[str, Any]:
    repository_id = repository.repository_id
    prefixes = (
        select(MetadataFormat.metadata_prefix)
        .join(PrefixMapping, PrefixMapping.prefix_id == MetadataFormat.prefix_id)
        .where(PrefixMapping.repository_id == repository_id)
        .order_by(MetadataFormat.metadata_prefix)
    )
    sets = select(func.count()).select_from(OaiSet).where(OaiSet.repository_id == repository_id)
    return {
        **_columns(repository),
        "formats": list(session.scalars(prefixes)),
        "sets": session.scalars(sets).one(),
    }


def _word(value: object) -> str:
    if isinstance(value, list):
        return ", ".join(map(str, value))
    return "–" if value is None else str(value)  # noqa: RUF001 a dash on purpose

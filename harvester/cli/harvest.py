"""Handlers of `zatva harvest` and of the harvest process."""

import argparse
import asyncio
import os
import time
from argparse import Namespace
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from pydantic import ValidationError
from sqlalchemy import select
from sqlalchemy.orm import Session

from harvester import repositories
from harvester.access import access_of
from harvester.client.repository_client import open_client
from harvester.harvest import checkpoint
from harvester.harvest.plan import RunPlan, SavedState, Target, plan, was_cut_off
from harvester.harvest.preparation import missing_set_warning, starting_warnings, target
from harvester.harvest.process import run_harvest
from harvester.harvest.request import HarvestRequest
from harvester.harvest.result import RunOutcome
from harvester.harvest.source import replay_request
from harvester.harvest.verdict import End, Evidence, judge
from harvester.harvest_plan import PARAMETERS, Parameter, Surface, carried
from harvester.models import Repository
from harvester.probing.look import ask_first
from harvester.protocols import protocol_of
from harvester.reading.errors import TransportError
from harvester.recognition import check_base_url
from harvester.repositories import get_repository
from harvester.vocabulary import AccessProtocol, Level
from oai.child import end_with_input
from oai.cli import Invocation, write_error
from oai.database import Database, open_database
from oai.datestamps import format_datestamp, utc_now
from oai.errors import ExitCode, UsageError
from oai.sections import HarvesterSettings
from oai.settings import Settings
from oai.settings_view import expectation

_OPTIONS = ("timeout", "retries", "delay", "max_wait", "user_agent", "keep_raw")
_NOT_CUT_OFF = (
    "no interrupted harvest of this repository with these options; to harvest what has changed "
    "since the last complete one, run the command without --resume"
)


def dry_run(
    session: Session, settings: Settings, request: HarvestRequest, *, url: str | None, folder: str | None
) -> RunPlan:
    """Return the plan of the harvest, without writing anything.

    A repository that has been contacted before is not contacted again; a new one gets an Identify request. It
    is the repository with the base URL `url` (and the folder), which may have no row yet, or that with the
    request's number. Raises UsageError, ClientError and TryLaterError.
    """
    row = get_repository(session, request.repository_id) if url is None else _row(session, url, folder)
    if row is not None and access_of(row.protocol).query is not None:
        raise UsageError(f"repository {row.repository_id} uses {row.protocol}, but --dry-run needs OAI-PMH")
    saved_state, waits = SavedState(), None
    if row is not None:
        saved_state = checkpoint.saved_state(session, checkpoint.find(session, request.of(row.repository_id)))
        waits = row.not_before
    if row is not None and row.identified is not None:
        found = target(row)
    else:
        base_url = row.base_url if row is not None else check_base_url(url or "")
        found = asyncio.run(_asked(base_url, settings, loose=request.validation is Level.LOOSE))
    now = utc_now()
    remarks = []
    if waits is not None and waits > now:
        remarks.append(f"the repository asked to wait until {format_datestamp(waits)}")
    planned = plan(request, found, saved_state, now=now, overlap=settings.harvester.overlap)
    if row is not None:
        known = checkpoint.find(session, request.of(row.repository_id))
        notes = [
            *starting_warnings(session, request, planned, saved_state, known),
            missing_set_warning(session, row, request.set_spec),
        ]
        remarks += [note.text for note in notes if note is not None]
    limited = replace(planned, recovery_seconds=settings.harvester.max_recovery_seconds)
    return limited.with_remarks(remarks)


def _row(session: Session, url: str, folder: str | None) -> Repository | None:
    query = select(Repository).where(Repository.base_url == url).order_by(Repository.repository_id)
    if folder is not None:
        query = query.where(Repository.base_dir == folder)
    return session.scalars(query).first()


async def _asked(url: str, settings: Settings, *, loose: bool) -> Target:
    async with open_client(url, settings.harvester) as client:
        identity = await client.identify(loose=loose)
    return Target(
        base_url=url,
        granularity=identity.granularity,
        earliest_datestamp=identity.earliest_datestamp,
        deleted_record=identity.deleted_record,
    )


def overridden(settings: Settings, arguments: Namespace) -> Settings:
    """Return the settings, overridden by the given options. Raises UsageError for a value out of range."""
    given = {name: getattr(arguments, name, None) for name in _OPTIONS}
    changes = {name: value for name, value in given.items() if value is not None}
    if not changes:
        return settings
    try:
        harvester = HarvesterSettings.model_validate(settings.harvester.model_dump() | changes)
    except ValidationError as error:
        fault = error.errors(include_url=False)[0]
        option = "--" + str(fault["loc"][0]).replace("_", "-")
        raise UsageError(f"{option}: {expectation(fault)}, found {fault['input']!r}") from None
    return settings.model_copy(update={"harvester": harvester})


def harvest(invocation: Invocation) -> ExitCode:
    """Run `zatva harvest`."""
    arguments = invocation.arguments
    invocation = replace(invocation, settings=overridden(invocation.settings, arguments))
    request = _request(invocation)
    request.check()
    request.transformer()
    if arguments.dry_run:
        return _dry_run(invocation, request)
    with open_database(invocation.settings) as database:
        if arguments.replay is not None:
            return print_outcome(
                invocation, _run(invocation, database, _replay(invocation, database, request))
            )
        number = _known(database, arguments)
        if number is not None:
            return print_outcome(invocation, _run(invocation, database, request.of(number)))
        return _harvest_new(invocation, database, request)


def _run(invocation: Invocation, database: Database, request: HarvestRequest) -> RunOutcome:
    if invocation.arguments.resume:
        _check_cut_off(database, request)
    return run_harvest(invocation, database, request)


def _harvest_new(invocation: Invocation, database: Database, request: HarvestRequest) -> ExitCode:
    """Harvest a new address; it becomes a repository once it has answered."""
    arguments = invocation.arguments
    if arguments.resume:
        raise UsageError(_NOT_CUT_OFF)
    base_url = _given(arguments.repository)
    protocol = protocol_of(base_url, arguments.protocol)

    begun = time.monotonic()
    asking = ask_first(base_url, protocol, invocation.settings.harvester, on_wait=invocation.console.waiting)
    try:
        first = asyncio.run(asking)
    except TransportError as error:
        return _unanswered(invocation, error, seconds=time.monotonic() - begun)
    with database.session() as session:
        # Another process may have added it meanwhile.
        number = repositories.ensure_repository(
            session, base_url=base_url, base_dir=_folder(arguments), protocol=arguments.protocol
        ).repository_id
        session.commit()
    return print_outcome(
        invocation, run_harvest(invocation, database, request.of(number), around=first.around)
    )


def _unanswered(invocation: Invocation, error: TransportError, *, seconds: float) -> ExitCode:
    """Report the result of a failed harvest, without a repository and a run."""
    evidence = Evidence(end=End.ERROR, listed=0, changes=0)
    verdict, status = judge(evidence)
    outcome = RunOutcome(
        repository_id=0,
        status=status,
        verdict=verdict,
        exit_code=error.exit_code,
        counts={},
        evidence=evidence,
        seconds=seconds,
        failure_reason=str(error),
        failure=error.failure,
    )
    words = f"{status.capitalize()}: no answer in {seconds:,.1f} s. Nothing was stored, no repository added."
    invocation.console.result({**outcome.as_json(), "repository_id": None}, words)
    write_error(f"zatva: {error}")
    return outcome.exit_code


def harvest_process(invocation: Invocation) -> ExitCode:
    """Run the harvest process, `python -m harvester`."""
    arguments = invocation.arguments
    invocation = replace(invocation, settings=overridden(invocation.settings, arguments))
    if arguments.end_with_parent:
        end_with_input()
    given = vars(arguments)
    values = {one.name: one.value(given[one.process]) for one in carried(Surface.PROCESS)}
    request = _request_of(
        invocation,
        values,
        repository_id=arguments.repository_id,
        job_id=arguments.job_id,
        recurring_id=arguments.recurring_id,
    )
    with open_database(invocation.settings) as database:
        outcome = run_harvest(invocation, database, request)
    return print_outcome(invocation, outcome)


def _request(invocation: Invocation) -> HarvestRequest:
    """Return the request of `zatva harvest`, without its repository."""
    given = vars(invocation.arguments)
    values = {one.name: _chosen(one, given[one.command.target]) for one in PARAMETERS if one.command}
    return _request_of(invocation, values, repository_id=0)


def _chosen(one: Parameter, given: Any) -> Any:  # noqa: ANN401 an option's value
    """Return the value of an option of `zatva harvest`; a flag means the opposite of the default."""
    if one.kind is bool:
        return given is not one.default
    return one.words.get(given) if one.choices is not None else given


def _request_of(invocation: Invocation, values: Mapping[str, Any], **about: Any) -> HarvestRequest:  # noqa: ANN401 as above
    usual = invocation.settings.harvester.files_per_directory
    per_directory = invocation.arguments.files_per_dir
    return HarvestRequest(
        **{**values, "files_per_directory": usual if per_directory is None else per_directory}, **about
    )


def _dry_run(invocation: Invocation, request: HarvestRequest) -> ExitCode:
    arguments = invocation.arguments
    if arguments.replay is not None:
        raise UsageError("a replay does not query a repository; leave out --dry-run or --replay")
    named = _given(arguments.repository)
    number = _number(named)
    if number is None and protocol_of(named, arguments.protocol) is not AccessProtocol.OAI_PMH:
        raise UsageError("--dry-run needs OAI-PMH; `zatva probe` shows what a query finds")
    with invocation.session() as session:
        planned = dry_run(
            session,
            invocation.settings,
            request.of(number or 0),
            url=arguments.repository if number is None else None,
            folder=_folder(arguments),
        )
    invocation.console.result(planned.as_json(), planned.in_words())
    return ExitCode.DONE


def _check_cut_off(database: Database, request: HarvestRequest) -> None:
    with database.session() as session:
        if not was_cut_off(request, checkpoint.saved_state(session, checkpoint.find(session, request))):
            raise UsageError(_NOT_CUT_OFF)


def _replay(invocation: Invocation, database: Database, request: HarvestRequest) -> HarvestRequest:
    """Return the request of the run that the command names, with the rules of the command."""
    arguments = invocation.arguments
    if arguments.repository is not None or arguments.out is not None:
        raise UsageError("a replay belongs to the repository of its run; leave out URL|ID and --out")
    with database.session() as session:
        return replay_request(session, invocation.settings, request, arguments.replay)


def _known(database: Database, arguments: argparse.Namespace) -> int | None:
    """Return the number of the repository that the command names; None if it is new and can be added."""
    out: str | None = arguments.out
    named = _given(arguments.repository)
    number = _number(named)
    if number is not None:
        if out is not None or arguments.protocol is not None:
            raise UsageError(
                f"repository {number} already has a folder and a protocol; leave out --out and --protocol"
            )
        return number
    check_base_url(named, protocol_of(named, arguments.protocol))
    folder = _folder(arguments)
    with database.session() as session:
        found = repositories.find_repository(
            session, base_url=named, base_dir=folder, protocol=arguments.protocol
        )
        if found is None and folder is not None:
            repositories.free_folder(session, folder)
        return None if found is None else found.repository_id


def _folder(arguments: argparse.Namespace) -> str | None:
    """Return the absolute path of the folder that the command names."""
    return None if arguments.out is None else os.path.abspath(arguments.out)  # noqa: PTH100 Path.absolute keeps `..`


def _given(named: str | None) -> str:
    if named is None:
        raise UsageError("give the base URL of a repository, or its number")
    return named


def _number(named: str) -> int | None:
    """Return the repository's number, if the command names it by number."""
    return int(named) if named.isascii() and named.isdigit() else None


def print_outcome(invocation: Invocation, outcome: RunOutcome) -> ExitCode:
    """Print the result of a run; return its exit code."""
    invocation.console.result(outcome.as_json(), outcome.in_words())
    if outcome.failure_reason:
        # Not a note, which --quiet would suppress: without the reason the user could not act.
        write_error(f"zatva: {outcome.failure_reason}")
    return outcome.exit_code

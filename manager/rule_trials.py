"""What `zatva rule check`, `try` and `replay` do."""

import asyncio
import sys
from pathlib import Path

from sqlalchemy.orm import Session

from harvester.protocols import protocol_of
from harvester.repositories import check_base_url, get_repository
from harvester.rule_lab.checking import kind_of, read_rules
from harvester.rule_lab.files import file_of
from harvester.rule_lab.kinds import RuleKind
from harvester.rule_lab.queries import find_rule
from harvester.rule_lab.rehearsal import Outcome, Rehearsal
from harvester.rule_lab.rehearsing import rehearse_replay
from harvester.rule_lab.samples import Samples, first_page, read_files, stored_files
from harvester.rule_lab.trying import try_rules
from harvester.rule_lab.wording import trial_in_words
from harvester.rules.rule_files import read_bytes
from harvester.running.parameters import HarvestRequest
from harvester.running.process import run_harvest
from manager.replays import RuleFiles, wished_replay
from oai.cli import Invocation
from oai.database import Database, open_database
from oai.errors import ExitCode, UsageError
from oai.settings import Settings

_NONE = "none"


def check(invocation: Invocation) -> ExitCode:
    """Say whether a rule file can be used."""
    named = invocation.arguments.rule
    if _is_file(named):
        path = Path(named)
    else:
        with open_database(invocation.settings) as database, database.session() as session:
            path = file_of(invocation.settings, find_rule(session, named))
    content = read_bytes(path)
    kind = kind_of(content, source=str(path))
    read_rules(content, kind, source=str(path))
    invocation.console.result(
        {"file": str(path), "kind": kind.value, "usable": True},
        f"{path}: valid {kind.value} file",
    )
    return ExitCode.DONE


def attempt(invocation: Invocation) -> ExitCode:
    """Try a rule on samples."""
    arguments = invocation.arguments
    if (arguments.repository is None) == (arguments.live is None):
        raise UsageError("no samples given; give --repository ID for stored records, or --live URL|ID")
    with open_database(invocation.settings) as database, database.session() as session:
        path = _path(session, invocation.settings, arguments.rule)
        samples = _samples(session, invocation)
    content = read_bytes(path)
    kind = kind_of(content, source=str(path))
    trial = try_rules(
        content,
        kind,
        samples.records,
        seconds=arguments.seconds,
        source=str(path),
        unreadable=samples.unreadable,
    )
    invocation.console.result(trial.as_json(), trial_in_words(trial, most=arguments.shown))
    if kind is RuleKind.NORMALISE and arguments.repository is not None:
        invocation.console.note("stored records contain what earlier rules added; it is not added again")
    return ExitCode.RECORDS_REFUSED if trial.ended else ExitCode.DONE


def replay(invocation: Invocation) -> ExitCode:
    """Tell what a replay would do, and do it where asked to."""
    arguments, settings = invocation.arguments, invocation.settings
    with open_database(settings) as database:
        with database.session() as session:
            request = _request(session, settings, invocation)
            rehearsal = rehearse_replay(session, settings, request)
        invocation.console.result(rehearsal.as_json(), _in_words(rehearsal, request))
        if not arguments.apply:
            invocation.console.note("no records were changed; to apply the rules, use --apply")
            return ExitCode.DONE
        return _apply(invocation, database, request)


def _apply(invocation: Invocation, database: Database, request: HarvestRequest) -> ExitCode:
    outcome = run_harvest(invocation, database, request)
    invocation.console.result(outcome.as_json(), outcome.in_words())
    if outcome.failure_reason:
        sys.stderr.write(f"zatva: {outcome.failure_reason}\n")
    return outcome.exit_code


def _request(session: Session, settings: Settings, invocation: Invocation) -> HarvestRequest:
    arguments = invocation.arguments
    files = None
    if arguments.filter is not None or arguments.normalise is not None:
        files = RuleFiles(
            filter_file=_chosen(session, settings, arguments.filter),
            normalize_file=_chosen(session, settings, arguments.normalise),
        )
    return wished_replay(session, settings, arguments.run, files)


def _chosen(session: Session, settings: Settings, named: str | None) -> Path | None:
    return None if named is None or named == _NONE else _path(session, settings, named)


def _path(session: Session, settings: Settings, named: str) -> Path:
    """The file that a command names, by itself or as that of a rule."""
    return Path(named) if _is_file(named) else file_of(settings, find_rule(session, named))


def _is_file(named: str) -> bool:
    return Path(named).is_file() or named.endswith(".xml")


def _samples(session: Session, invocation: Invocation) -> Samples:
    arguments, settings = invocation.arguments, invocation.settings
    if arguments.repository is not None:
        files = stored_files(
            session,
            settings,
            arguments.repository,
            metadata_prefix=arguments.format,
            most=arguments.records,
        )
        return read_files(files)
    url: str = arguments.live
    if url.isascii() and url.isdigit():
        repository = get_repository(session, int(url))
        url, protocol = repository.base_url, repository.protocol
    else:
        protocol = protocol_of(url, arguments.protocol).value
    page = first_page(
        check_base_url(url, protocol),
        settings,
        protocol=protocol,
        metadata_prefix=arguments.format,
        set_spec=arguments.set,
        most=arguments.records,
    )
    return asyncio.run(page)


def _in_words(rehearsal: Rehearsal, request: HarvestRequest) -> str:
    rules = ", ".join(str(one) for one in (request.filter_file, request.normalize_file) if one) or "no rules"
    lines = [f"a replay of run {rehearsal.run} with {rules} would change {rehearsal.changes:,} records"]
    lines += [
        f"  {rehearsal.counts[one.value]:>8,}  {one.value}" for one in Outcome if rehearsal.counts[one.value]
    ]
    if rehearsal.counts[Outcome.LEFT_OUT_NOW.value]:
        lines.append("records that the rules now leave out stay in the store: a replay removes no records")
    for word, samples in rehearsal.samples.items():
        for sample in samples:
            lines.append(f"{word}: {sample.identifier}{f'  {sample.why}' if sample.why else ''}")
            lines += [f"  {line}" for line in sample.diff.splitlines()]
    lines += [f"could not be read: {fault}" for fault in rehearsal.faults]
    return "\n".join(lines)

"""Handlers of `zatva rule`: `list`, `show`, `versions`, `examples`, `add`, `edit`, `remove` and others."""

import asyncio
import sys
from pathlib import Path
from typing import Any

from sqlalchemy.orm import Session

from harvester.cli.harvest import print_outcome
from harvester.harvest.process import run_harvest
from harvester.harvest.request import HarvestRequest
from harvester.protocols import protocol_of
from harvester.recognition import check_base_url
from harvester.repositories import get_repository
from harvester.rule_lab import versions
from harvester.rule_lab.examples import EXAMPLES, example_of
from harvester.rule_lab.explanation import read_rules
from harvester.rule_lab.files import file_of, kind_of, read_file
from harvester.rule_lab.models import Rule, RuleVersion
from harvester.rule_lab.replay_preview import ReplayEffect, ReplayPreview, preview_replay, trial_in_words
from harvester.rule_lab.samples import Samples, first_page, read_files, stored_files
from harvester.rule_lab.trial import try_rules
from harvester.rule_lab.versions import (
    as_text,
    difference,
    find_rule,
    get_version,
    last_version,
    list_rules,
)
from harvester.rule_lab.versions import list_versions as read_versions
from harvester.rules.rule_files import read_bytes
from harvester.vocabulary import RuleKind
from manager.replays import RuleFiles, requested_replay
from manager.rule_usage import last_runs, uses_of
from oai.cli import Invocation, account_name
from oai.console import counted
from oai.database import open_database
from oai.errors import ExitCode, UsageError
from oai.settings import Settings

_COLUMNS = {
    "rule_id": "ID", "kind": "Kind", "name": "Name", "version": "Version", "saved": "Saved",
    "repository_name": "Repository", "path": "File",
}  # fmt: skip
_VERSION_COLUMNS = {
    "number": "Version", "saved": "Saved", "saved_by": "By", "last_run": "Last run", "note": "Note",
}  # fmt: skip
_EXAMPLE_COLUMNS = {"key": "Example", "kind": "Kind", "title": "Description"}
_NONE = "none"


def list_all(invocation: Invocation) -> None:
    """List the rules."""
    kind = RuleKind(invocation.arguments.kind) if invocation.arguments.kind else None
    with invocation.session() as session:
        rows = [
            {
                "rule_id": view.rule.rule_id,
                "kind": view.rule.kind,
                "name": view.rule.name,
                "version": view.version.number,
                "saved": view.version.saved,
                "repository_id": view.rule.repository_id,
                "repository_name": view.repository_name,
                "path": view.rule.path,
            }
            for view in list_rules(session, kind=kind)
        ]
    empty = "no rules yet; add one with `zatva rule add NAME FILE`, or see `zatva rule examples`"
    invocation.console.table(rows, _COLUMNS, empty=empty)


def show(invocation: Invocation) -> None:
    """Show a rule."""
    settings, wanted = invocation.settings, invocation.arguments.version
    with invocation.session() as session:
        rule = find_rule(session, invocation.arguments.rule)
        last = last_version(session, rule.rule_id)
        version = last if wanted is None else get_version(session, rule.rule_id, wanted)
        facts = _facts(settings, rule, version)
        facts["schedules"] = [one.schedule_id for one in uses_of(session, settings, rule)]
        facts["file"] = _state(settings, rule, last)
    text = [f"{name}: {_word(value)}" for name, value in facts.items() if name != "content"]
    invocation.console.result(facts, "\n".join([*text, "", str(facts["content"]).rstrip()]))


def list_versions(invocation: Invocation) -> None:
    """List a rule's versions."""
    arguments = invocation.arguments
    with invocation.session() as session:
        rule = find_rule(session, arguments.rule)
        found = read_versions(session, rule.rule_id)
        runs = last_runs(session, rule, found)
    rows = []
    for version, older in zip(found, [*found[1:], None], strict=True):
        diff = {"diff": difference(older, version)} if arguments.diff else {}
        rows.append({**_version(version), "last_run": runs.get(version.number), **diff})
    if arguments.diff and not invocation.console.as_json:
        for row in rows:
            head = f"version {row['number']}, {row['saved']:%Y-%m-%d %H:%M:%S}, {row['saved_by'] or '-'}"
            invocation.console.result(row, f"{head}: {row['note'] or '-'}\n{row['diff'].rstrip()}\n")
        return
    invocation.console.table(rows, _VERSION_COLUMNS, empty="no versions")


def show_examples(invocation: Invocation) -> None:
    """List the examples, or print one."""
    if invocation.arguments.key is not None:
        example = example_of(invocation.arguments.key)
        content = as_text(example.content)
        facts = {"key": example.key, "title": example.title, "about": example.about, "content": content}
        invocation.console.result(facts, content.rstrip())
        invocation.console.note(example.about)
        return
    rows = [
        {"key": one.key, "kind": one.kind.value, "title": one.title, "about": one.about} for one in EXAMPLES
    ]
    invocation.console.table(rows, _EXAMPLE_COLUMNS, empty="")


def add(invocation: Invocation) -> None:
    """Register a rule file, so that its versions are kept."""
    arguments, settings = invocation.arguments, invocation.settings
    file, example = arguments.file, arguments.example
    if (file is None) == (example is None):
        raise UsageError("give a file, or an example with --example")
    content = _content(file) if example is None else example_of(example).content
    draft = versions.RuleDraft(
        kind=kind_of(content, source=file or example),
        name=arguments.name,
        content=content,
        description=arguments.description,
        repository_id=arguments.repository,
    )
    path = _inside(settings, file)
    with invocation.session() as session:
        rule = versions.add_rule(session, settings, draft, by=account_name(), note=arguments.note, path=path)
        session.commit()
        _print_version(invocation, session, rule)


def edit(invocation: Invocation) -> None:
    """Save a new version."""
    arguments, settings = invocation.arguments, invocation.settings
    if arguments.file is not None and arguments.restore is not None:
        raise UsageError("give a file, or a version with --restore, not both")
    with invocation.session() as session:
        rule = find_rule(session, arguments.rule)
        if arguments.restore is not None:
            versions.restore(session, settings, rule.rule_id, arguments.restore, by=account_name())
        else:
            content = (
                read_bytes(file_of(settings, rule)) if arguments.file is None else _content(arguments.file)
            )
            versions.save_version(
                session, settings, rule.rule_id, content, by=account_name(), note=arguments.note
            )
        session.commit()
        _print_version(invocation, session, rule)


def remove(invocation: Invocation) -> None:
    """Unregister a rule."""
    settings = invocation.settings
    with invocation.transaction() as session:
        rule = find_rule(session, invocation.arguments.rule)
        users = [str(one.schedule_id) for one in uses_of(session, settings, rule)]
        versions.remove_rule(session, rule.rule_id)
    read_by = f"; the schedules {', '.join(users)} continue to use it" if users else ""
    facts = {"removed": rule.rule_id, "file": str(file_of(settings, rule))}
    invocation.console.result(
        facts, f"rule {rule.name!r} is no longer managed; its file {facts['file']} stays{read_by}"
    )


def _print_version(invocation: Invocation, session: Session, rule: Rule) -> None:
    version = last_version(session, rule.rule_id)
    invocation.about(rule.rule_id, rule.name, version=version.number)
    facts = _facts(invocation.settings, rule, version)
    words = f"rule {rule.rule_id} ({rule.name}), version {version.number}: {facts['path']}"
    invocation.console.result(facts, words)


def _facts(settings: Settings, rule: Rule, version: RuleVersion) -> dict[str, Any]:
    return {
        "rule_id": rule.rule_id,
        "kind": rule.kind,
        "name": rule.name,
        "description": rule.description,
        "repository_id": rule.repository_id,
        "path": str(file_of(settings, rule)),
        **_version(version),
        "content": as_text(version.content),
    }


def _version(version: RuleVersion) -> dict[str, Any]:
    return {
        "number": version.number,
        "saved": version.saved,
        "saved_by": version.saved_by,
        "note": version.note,
        "digest": version.digest,
    }


def _state(settings: Settings, rule: Rule, last: RuleVersion) -> str:
    """Return how the file compares with the last version."""
    found = read_file(settings, rule)
    if found is None:
        return "cannot be read; rewrite it with `zatva rule edit RULE --restore N`"
    if found == last.content:
        return "unchanged since the last version"
    fault = versions.usable(found, rule)
    if fault is not None:
        return f"changed by hand, with an error: {fault}"
    return "changed by hand; save it as a version with `zatva rule edit RULE`"


def _content(file: str) -> bytes:
    return sys.stdin.buffer.read() if file == "-" else read_bytes(Path(file))


def _inside(settings: Settings, file: str | None) -> str:
    """Return the file's path below the data folder if it is inside it, otherwise an empty string."""
    if file is None or file == "-":
        return ""
    path, root = Path(file).resolve(), settings.data.resolve()
    return path.relative_to(root).as_posix() if path.is_relative_to(root) else ""


def _word(value: object) -> str:
    if isinstance(value, list):
        return ", ".join(map(str, value)) or "none"
    return "-" if value in (None, "") else str(value)


def check(invocation: Invocation) -> None:
    """Report whether a rule file can be used."""
    named = invocation.arguments.rule
    if _is_file(named):
        path = Path(named)
    else:
        with invocation.session() as session:
            path = file_of(invocation.settings, find_rule(session, named))
    content = read_bytes(path)
    kind = kind_of(content, source=str(path))
    read_rules(content, kind, source=str(path))
    invocation.console.result(
        {"file": str(path), "kind": kind.value, "usable": True},
        f"{path}: valid {kind.value} file",
    )


def attempt(invocation: Invocation) -> ExitCode:
    """Try a rule on samples."""
    arguments = invocation.arguments
    if (arguments.repository is None) == (arguments.live is None):
        raise UsageError("no samples given; give --repository ID for stored records, or --live URL|ID")
    with invocation.session() as session:
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
    """Show what a replay would do, and apply it if requested."""
    arguments, settings = invocation.arguments, invocation.settings
    with open_database(settings) as database:
        with database.session() as session:
            request = _request(session, settings, invocation)
            preview = preview_replay(session, settings, request)
        invocation.console.result(preview.as_json(), _in_words(preview, request))
        if not arguments.apply:
            invocation.console.note("no records were changed; to apply the rules, use --apply")
            return ExitCode.DONE
        return print_outcome(invocation, run_harvest(invocation, database, request))


def _request(session: Session, settings: Settings, invocation: Invocation) -> HarvestRequest:
    arguments = invocation.arguments
    files = None
    if arguments.filter is not None or arguments.normalise is not None:
        files = RuleFiles(
            filter_file=_chosen(session, settings, arguments.filter),
            normalize_file=_chosen(session, settings, arguments.normalise),
        )
    return requested_replay(session, settings, arguments.run, files)


def _chosen(session: Session, settings: Settings, named: str | None) -> Path | None:
    return None if named is None or named == _NONE else _path(session, settings, named)


def _path(session: Session, settings: Settings, named: str) -> Path:
    """Return the file that a command names, either directly or by the rule it belongs to."""
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


def _in_words(preview: ReplayPreview, request: HarvestRequest) -> str:
    rules = ", ".join(str(one) for one in (request.filter_file, request.normalize_file) if one) or "no rules"
    lines = [f"a replay of run {preview.run} with {rules} would change {counted(preview.changes, 'record')}"]
    lines += [
        f"  {preview.counts[one.value]:>8,}  {one.value}" for one in ReplayEffect if preview.counts[one.value]
    ]
    if preview.counts[ReplayEffect.LEFT_OUT_NOW.value]:
        lines.append("records that the rules now leave out stay in the store: a replay removes no records")
    for word, samples in preview.samples.items():
        for sample in samples:
            lines.append(f"{word}: {sample.identifier}{f'  {sample.why}' if sample.why else ''}")
            lines += [f"  {line}" for line in sample.diff.splitlines()]
    lines += [f"could not be read: {fault}" for fault in preview.faults]
    return "\n".join(lines)

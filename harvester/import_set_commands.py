"""What `zatva import set` does."""

from dataclasses import asdict
from typing import Any

from harvester.bibliographic import filtering_sets
from harvester.bibliographic.conditions import Conditions, Match, parse_condition
from harvester.bibliographic.filtering_sets import NamedSet
from harvester.bibliographic.trying import Trial, Tried, never_true, try_conditions
from harvester.repositories import list_repositories
from oai.cli import Invocation
from oai.database import open_database
from oai.errors import ExitCode, UsageError

_COLUMNS = {
    "name": "Name", "match": "Match", "conditions": "Conditions", "revision": "Revision",
    "used_by": "Used by", "description": "Description",
}  # fmt: skip


def list_all(invocation: Invocation) -> ExitCode:
    """List the sets."""
    with open_database(invocation.settings) as database, database.session() as session:
        rows = [_facts(one) for one in filtering_sets.list_sets(session)]
    if not invocation.console.as_json:
        rows = [
            {
                **row,
                "conditions": len(row["conditions"]),
                "used_by": ", ".join(map(str, row["used_by"])) or "none",
            }
            for row in rows
        ]
    empty = "no filtering sets yet; add one with `zatva import set add NAME --where CONDITION`"
    invocation.console.table(rows, _COLUMNS, empty=empty)
    return ExitCode.DONE


def show(invocation: Invocation) -> ExitCode:
    """Show a set."""
    with open_database(invocation.settings) as database, database.session() as session:
        found = filtering_sets.get_set(session, invocation.arguments.name)
    invocation.console.result(_facts(found), _in_words(found))
    return ExitCode.DONE


def add(invocation: Invocation) -> ExitCode:
    """Make a set."""
    arguments = invocation.arguments
    conditions = [parse_condition(line) for line in arguments.where or ()]
    with open_database(invocation.settings) as database, database.session() as session:
        made = filtering_sets.add_set(
            session,
            name=arguments.name,
            match=Match(arguments.match or Match.ALL),
            conditions=conditions,
            description=arguments.description or "",
        )
        session.commit()
    invocation.console.result(_facts(made), _in_words(made))
    return ExitCode.DONE


def edit(invocation: Invocation) -> ExitCode:
    """Change a set; --where replaces all its conditions."""
    arguments = invocation.arguments
    with open_database(invocation.settings) as database, database.session() as session:
        changed = filtering_sets.edit_set(
            session,
            arguments.name,
            match=Match(arguments.match) if arguments.match else None,
            conditions=None if arguments.where is None else [parse_condition(one) for one in arguments.where],
            description=arguments.description,
        )
        session.commit()
    invocation.console.result(_facts(changed), _in_words(changed))
    return ExitCode.DONE


def remove(invocation: Invocation) -> ExitCode:
    """Remove a set."""
    name = invocation.arguments.name
    with open_database(invocation.settings) as database, database.session() as session:
        filtering_sets.remove_set(session, name)
        session.commit()
    invocation.console.result({"removed": name}, f"filtering set {name!r} removed")
    return ExitCode.DONE


def attempt(invocation: Invocation) -> ExitCode:
    """Try a set, or conditions, on stored records."""
    arguments = invocation.arguments
    with open_database(invocation.settings) as database, database.session() as session:
        if (arguments.name is None) == (arguments.where is None):
            raise UsageError("give the name of a set, or conditions with --where")
        if arguments.name is not None:
            rules = filtering_sets.get_set(session, arguments.name).rules
        else:
            match = Match(arguments.match or Match.ALL)
            rules = Conditions(match=match, conditions=[parse_condition(line) for line in arguments.where])
        repositories = arguments.repository or [one.repository_id for one in list_repositories(session)]
        trial = try_conditions(
            session, invocation.settings, rules, repositories, most=max(1, arguments.records)
        )
    facts = {**asdict(trial), "conditions": [str(one) for one in rules.conditions]}
    invocation.console.result(facts, _tried(trial, rules))
    return ExitCode.DONE


def _facts(found: NamedSet) -> dict[str, Any]:
    return {
        "set_id": found.set_id,
        "name": found.name,
        "description": found.description,
        "match": found.rules.match.value,
        "conditions": [str(one) for one in found.rules.conditions],
        "revision": found.revision,
        "used_by": list(found.used_by),
    }


def _in_words(found: NamedSet) -> str:
    head = f"{found.name}: {found.rules.match} of these conditions, revision {found.revision}"
    return "\n".join([head, *(f"  {one}" for one in found.rules.conditions)])


def _tried(trial: Trial, rules: Conditions) -> str:
    read = (
        f"{trial.chosen:,} selected, {trial.passed_over:,} excluded, {trial.unreadable:,} could not be read"
    )
    lines = [f"{trial.looked_at:,} records tested: {read}"]
    lines += [
        f"  {number:>8,}  {condition}"
        for condition, number in zip(rules.conditions, trial.true_of, strict=True)
    ]
    lines += [f"never matches: {line}" for line in never_true(trial, rules)]
    for words, sample in (("selected", trial.chosen_sample), ("excluded", trial.passed_over_sample)):
        lines += [f"{words}:", *map(_line, sample)] if sample else []
    return "\n".join(lines)


def _line(one: Tried) -> str:
    return f"  {one.identifier}  {one.title}"

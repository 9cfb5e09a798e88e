"""Pages, API and commands compared: each change is declared in `oai.actions`, or listed as an exception."""

import ast
import importlib
import inspect
from argparse import ArgumentParser
from collections import Counter
from collections.abc import Iterator

import web.app
from oai.actions import ACTIONS, action_of_command, action_of_route
from tests.parsers import commands_of
from tests.routes import routes_of
from web.api.table import OPERATIONS
from zatva.cli import build_parser

_SAFE = {"GET", "HEAD", "OPTIONS"}
_CONTROLS = ("run", "pause", "resume", "stop", "kill")
# Commands that read, by their last word.
_READING = {
    "changes", "check", "current", "doctor", "errors", "examples", "find", "harvesters", "history", "list",
    "refused", "search", "sent", "serve", "show", "statistics", "status", "try", "verify", "versions", "wait",
}  # fmt: skip
# Why a route or command is not in the audit log. Commands that list, show, check or serve are omitted.
_UNCHANGING = {
    # Routes that accept POST and change nothing that is stored.
    "POST /api/v1/probe": "asks a repository and shows its answer",
    "POST /api/v1/repositories/{repository}/questions": "asks a repository and shows its answer",
    "POST /rules/by-example": "proposes rules; the editor saves them",
    "notify mutes": "lists what is muted",
    "POST /api/v1/archive/collections/{collection}/preview": "shows what a change would do",
    "POST /api/v1/schedules/forecast": "shows what a schedule would mean",
    "POST /api/v1/archive/takedowns/preview": "counts what a take-down would cover",
    "POST /api/v1/rules/{rule}/trial": "tries a rule on samples",
    "POST /api/v1/rules/{rule}/rehearsal": "shows what a replay would change",
    "POST /api/v1/filtering-sets/try": "tries conditions on samples",
    "POST /preferences": "sets cookies of the browser that asks: theme, and language before sign-in",
    # Commands.
    "database backup": "writes a file of the administrator's own",
    "database restore": "replaces the audit log, too",
    "database upgrade": "makes the audit log's table; the versions are in the database",
    "demo": "has a database of its own",
    "import export": "writes a file into a folder of the administrator's own",
    "init": "makes the audit log's table",
    "manager run": "runs until it is ended; its work is in the history",
    "probe": "asks a repository and shows its answer",
    "provider export": "writes a file of the administrator's own",
    "restore": "writes files of the archive into a folder of the administrator's own",
    "rule try": "tries a rule on samples",
    "serve": "runs until it is ended",
    "settings": "shows the settings in effect",
    "store export": "writes files into a folder of the administrator's own",
    "store verify": "compares files with the database and keeps when",
    "worker": "runs until it is ended; its work is in the history",
}  # fmt: skip
# Why the audit log has no object for a command whose arguments name none.
_WITHOUT_OBJECT = {
    "keys.rotate": "replaces all signing keys",
    "repository.harvest": "the harvest is in the history; without a repository it harvests all",
    "rule.replay": "the run is in the history, with its repository and rules",
    "import.run": "each import is in the list of imports, with who started it",
    "archive.index": "what was indexed is in the list of indexed files",
    "archive.reindex-keys": "changes the whole archive",
    "archive.access-refresh": "changes the whole archive",
    "archive.aggregate-update": "changes the whole aggregate",
    "titles.update": "changes all titles",
    "store.rebuild": "without a repository it rebuilds a folder's, which may be in no table yet",
    "worker.drain": "without a number it drains all workers",
}
_ACTIONS = {action.verb: action for action in ACTIONS}


def _routes() -> set[str]:
    found = set()
    for method, path in routes_of(web.app.create_app):
        if method not in _SAFE:
            paths = [path.replace("{control}", one) for one in _CONTROLS] if "{control}" in path else [path]
            found |= {f"{method} {one}" for one in paths}
    return found


def _parsers() -> dict[str, ArgumentParser]:
    """The parser of each command by its name without `zatva`."""
    return {name.removeprefix("zatva "): parser for name, parser in commands_of("zatva", build_parser())}


def _arguments(parser: ArgumentParser) -> dict[str, bool]:
    """The arguments of a command, each with whether it must be given."""
    found = parser._actions  # noqa: SLF001 argparse has no other way
    return {action.dest: action.required and action.nargs != "*" for action in found}


def _commands() -> dict[str, set[str]]:
    """The arguments of each command by its name without `zatva`."""
    return {name: set(_arguments(parser)) for name, parser in _parsers().items()}


def _called_by(handler: str) -> Iterator[str]:
    """The names that a handler uses, and the functions of its module that it calls."""
    module, function = handler.split(":")
    tree = ast.parse(inspect.getsource(importlib.import_module(module)))
    functions = {node.name: node for node in tree.body if isinstance(node, ast.FunctionDef)}
    waiting, seen = [function], set[str]()
    while waiting:
        name = waiting.pop()
        if name in functions and name not in seen:
            seen.add(name)
            for node in ast.walk(functions[name]):
                if isinstance(node, ast.Name):
                    waiting.append(node.id)
                elif isinstance(node, ast.Attribute):
                    yield node.attr


def test_every_route_for_changes_belongs_to_an_action_or_is_a_listed_exception() -> None:
    routes = _routes()
    declared = {route for action in ACTIONS for route in action.routes}

    assert routes - declared - set(_UNCHANGING) == set(), "add it to oai.actions"
    assert declared - routes == set(), "there is no such route"


def test_every_changing_api_operation_is_an_action_or_a_listed_exception() -> None:
    changing = [one for one in OPERATIONS if one.method not in _SAFE]
    unknown = [
        one.name
        for one in changing
        if action_of_route(one.method, f"/api/v1{one.path}") is None
        and f"{one.method} /api/v1{one.path}" not in _UNCHANGING
    ]

    assert len(changing) > 50
    assert unknown == []


def test_every_changing_command_is_an_action_or_a_listed_exception() -> None:
    commands = _commands()
    declared = {action.command for action in ACTIONS if action.command}
    rest = set(commands) - declared - set(_UNCHANGING)

    assert declared - set(commands) == set(), "there is no such command"
    assert {name for name in rest if name.split()[-1] not in _READING} == set(), "add it to oai.actions"
    assert {name for name in _UNCHANGING if "/" not in name} <= set(commands)
    for action in ACTIONS:
        if action.command and action.target:
            assert action.target in commands[action.command], action.verb


def test_an_action_that_is_missing_from_pages_api_or_commands_gives_the_reason() -> None:
    for action in ACTIONS:
        whole = bool(action.pages and action.api and action.command)
        assert whole != bool(action.lacks), action.verb


def test_each_verb_route_and_command_is_declared_once() -> None:
    verbs = Counter(action.verb for action in ACTIONS)
    commands = Counter(action.command for action in ACTIONS if action.command)
    routes = Counter(route for action in ACTIONS for route in action.routes)

    # Documents are added to a collection and removed by one form, whose handler gives the entry its verb.
    assert {route for route, count in routes.items() if count > 1} <= {
        "POST /archive/collections/{spec}/documents"
    }
    assert max(verbs.values()) == max(commands.values()) == 1
    assert _ACTIONS["schedule.pause"] is action_of_command("schedule pause")


def test_previews_are_recognised_by_their_arguments() -> None:
    replay, harvest = _ACTIONS["rule.replay"], _ACTIONS["repository.harvest"]

    assert replay.previews({"apply": False})
    assert not replay.previews({"apply": True})
    assert harvest.previews({"dry_run": True})
    assert not harvest.previews({"dry_run": False})


def test_a_dry_run_of_any_command_is_a_preview() -> None:
    parsers = _parsers()
    rehearsed = {
        action.verb: action.previews({**dict.fromkeys(_arguments(parser)), "dry_run": True})
        for action in ACTIONS
        if action.command and "dry_run" in _arguments(parser := parsers[action.command])
    }

    assert len(rehearsed) > 5
    assert set(rehearsed.values()) == {True}, rehearsed


def test_every_command_names_the_object_of_its_audit_entry_or_is_an_exception() -> None:
    """By an argument that must be given, or by `Invocation.about`."""
    parsers = _parsers()
    nameless = {
        action.verb
        for action in ACTIONS
        if action.command
        and not _arguments(parsers[action.command]).get(action.target or "")
        and "about" not in _called_by(parsers[action.command].get_default("handler"))
    }

    assert nameless == set(_WITHOUT_OBJECT), "call `invocation.about`"


def test_all_commands_of_a_collection_write_its_set_spec_in_full() -> None:
    parsers = _parsers()
    positional = {
        action.verb: [one for one in parsers[action.command]._actions if one.dest == action.target]  # noqa: SLF001
        for action in ACTIONS
        if action.command and action.object_kind == "collection"
    }

    assert len(positional) > 5
    for verb, (spec,) in positional.items():
        assert callable(spec.type), verb
        assert spec.type("serials") == spec.type("collection:serials") == "collection:serials", verb

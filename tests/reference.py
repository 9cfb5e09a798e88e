"""Generates docs/reference/ from the program; `python -m tests.reference` updates the files."""

import argparse
import re
from pathlib import Path
from typing import Any

from sqlalchemy import Column, DefaultClause, String, Table

import harvester.bibliographic.models
import harvester.harvest.models
import harvester.models
import harvester.rule_lab.models
import harvester.store.models
import manager.models
import manager.notices.models
import oai.audit
import oai.owners
import provider.aggregate.models
import provider.app
import provider.clients.models
import provider.models
import web.app
import web.models
from oai.failures import Failure, FailureCode, explained
from oai.models import Base
from tests.parsers import commands_of
from tests.routes import routes_of
from zatva.cli import build_parser
from zatva.init import example

ROOT = Path(__file__).parent.parent
FOLDER = ROOT / "docs" / "reference"
MODELS = (
    provider.models,
    provider.clients.models,
    provider.aggregate.models,
    harvester.bibliographic.models,
    harvester.models,
    harvester.rule_lab.models,
    harvester.harvest.models,
    harvester.store.models,
    manager.models,
    manager.notices.models,
    oai.owners,
    web.models,
    oai.audit,
)
_SHARED = {"--help", "--json", "--config", "--data", "--quiet", "--verbose"}


def commands() -> str:
    """Return every command with its arguments and options."""
    lines = [
        "# Commands",
        "",
        "Results go to standard output, notes and progress to standard error.",
        "",
        "Every command takes `--json` (results as JSON, one object per line), `--config FILE` (settings",
        "file), `--data DIR` (data folder, overrides `ZATVA_DATA`), `-q`/`--quiet`,",
        "`-v`/`--verbose` and `--help`. All but `--help` may also precede the command.",
        "",
        "| exit status | meaning |",
        "| --- | --- |",
        "| 0 | done |",
        "| 1 | error |",
        "| 2 | invalid command line |",
        "| 3 | done, but some records were rejected |",
        "| 4 | the remote server failed |",
        "| 5 | stopped by strict checking |",
        "| 6 | the settings, the database or its tables are not ready |",
        "| 75 | try later |",
        "| 130 | interrupted; the command can be resumed |",
        "",
    ]
    for name, parser in commands_of("zatva", build_parser()):
        lines += [f"## `{name}`", "", parser.description or "", ""]
        lines += [f"- {_words(action)}" for action in parser._actions if _is_own(action)]  # noqa: SLF001
        lines += [""] if lines[-1] else []
        for group in parser._mutually_exclusive_groups:  # noqa: SLF001
            lines += [_exclusive(group), ""]
    return "\n".join(lines)


def settings() -> str:
    """Return every setting, as in the example file."""
    return "\n".join(
        [
            "# Settings",
            "",
            "Settings are read once, when a command starts. The file is the one given with `--config` or",
            "by the variable `ZATVA_CONFIG`, otherwise `zatva.toml` in the current folder. Environment",
            "variables take precedence. A variable's name is `ZATVA_`, the section, two underscores and",
            "the setting, in capitals: `ZATVA_PROVIDER__RECORDS_PER_ANSWER=100`. `zatva init` writes this",
            "file:",
            "",
            "```toml",
            example().strip(),
            "```",
            "",
        ]
    )


def tables() -> str:
    """Return every table and column, with the models' docstrings."""
    lines = ["# Tables", "", "All times are UTC. Only migrations create and change Zatva's tables.", ""]
    for table in Base.metadata.sorted_tables:
        lines += [f"## `{table.name}`", "", _table_words(table), ""]
        lines += ["| column | type | default | |", "| --- | --- | --- | --- |"]
        for column in table.columns:
            kind = str(column.type).lower().replace(' collate "c"', "")
            optional = "may be empty" if column.nullable else ""
            lines.append(f"| `{column.name}` | {kind} | {_default(column)} | {optional} |")
        lines.append("")
    return "\n".join(lines)


def routes() -> str:
    """Return every route of the servers."""
    lines = ["# Routes", "", "Provider, by default at `http://127.0.0.1:8080`:", ""]
    lines += [f"- `{method} {path}`" for method, path in routes_of(provider.app.create_app)]
    lines += ["", "Dashboard, by default at `http://127.0.0.1:8090`:", ""]
    lines += [f"- `{method} {path}`" for method, path in routes_of(web.app.create_app)]
    return "\n".join([*lines, ""])


def failures() -> str:
    """Return every failure code with its explanation."""
    lines = [
        "# Failure codes",
        "",
        "Database rows, `--json`, the API and letters identify a failure by its code and its facts.",
        "Pages and letters explain it in the reader's language. This table has the English text, with facts",
        "in braces.",
        "`failure_kind` in webhooks and hooks is coarser: several codes share one kind.",
        "",
        "| code | `failure_kind` | what happened | what to do | who |",
        "| --- | --- | --- | --- | --- |",
    ]
    for code in FailureCode:
        failure = Failure(code=code)
        words = explained(failure, "en", fact=lambda name: f"{{{name}}}")
        cells = [f"`{code}`", failure.kind, words.what, words.todo or "no action", words.who]
        lines.append(f"| {' | '.join(cells)} |")
    return "\n".join([*lines, ""])


FILES = {
    "commands.md": commands,
    "settings.md": settings,
    "tables.md": tables,
    "routes.md": routes,
    "failures.md": failures,
}


def _is_own(action: argparse.Action) -> bool:
    return not _SHARED & set(action.option_strings)


def _words(action: argparse.Action) -> str:
    value = action.metavar or (action.dest.upper() if action.nargs != 0 else "")
    shown = ", ".join(f"{option} {value}".strip() for option in action.option_strings) or f"{value}"
    text = (action.help or "") % {**vars(action), "prog": "zatva"}
    # The empty choice of an option resets it, as its command says.
    choices = f" ({' | '.join(map(str, filter(None, action.choices)))})" if action.choices else ""
    required = " (required)" if action.required and action.option_strings else ""
    return f"`{shown}`: {text}{choices}{required}"


def _exclusive(group: argparse._MutuallyExclusiveGroup) -> str:
    """Return which of a command's arguments exclude each other."""
    names = ", ".join(f"`{(*one.option_strings, one.metavar)[0]}`" for one in group._group_actions)  # noqa: SLF001
    return f"{'Exactly' if group.required else 'At most'} one of {names} can be given."


def _default(column: Column[Any]) -> str:
    """Return the value that the database gives a row without one."""
    if column.identity is not None:
        return "next number"
    if column.computed is not None:
        return "computed"
    default = column.server_default
    if not isinstance(default, DefaultClause):
        return ""
    value = default.arg if isinstance(default.arg, str) else str(default.arg)
    quoted = isinstance(default.arg, str) and isinstance(column.type, String)
    return f"`'{value}'`" if quoted else f"`{value}`"


def _table_words(table: Table) -> str:
    for mapper in Base.registry.mappers:
        if mapper.local_table is table:
            return re.sub(r"\s+", " ", (mapper.class_.__doc__ or "").strip())
    raise LookupError(table.name)


if __name__ == "__main__":
    for file_name, text in FILES.items():
        (FOLDER / file_name).write_text(text(), encoding="utf-8")
    (ROOT / "zatva.example.toml").write_text(example(), encoding="utf-8")

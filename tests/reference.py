"""Generates docs/reference/ from the program; `python -m tests.reference` updates the files."""

import argparse
import ast
import inspect
import itertools
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
from harvester.harvest_plan import Surface, carried
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
    """Return every table and column, with the docstrings of the models and their attributes."""
    lines = ["# Tables", "", "All times are UTC. Only migrations create and change Zatva's tables.", ""]
    for table in Base.metadata.sorted_tables:
        lines += [f"## `{table.name}`", "", _one_line(_model(table).__doc__), ""]
        lines += ["| column | type | default | |", "| --- | --- | --- | --- |"]
        model = _model(table)
        words = _parameter_words(table.name) | _attribute_words(model)
        for column in table.columns:
            kind = str(column.type).lower().replace(' collate "c"', "")
            meaning = [words.get(model.__mapper__.get_property_by_column(column).key, "")]
            meaning += [f"Row of `{key.column.table.name}`." for key in column.foreign_keys]
            meaning += ["May be empty."] if column.nullable else []
            text = " ".join(filter(None, meaning)).replace("|", "\\|")
            lines.append(f"| `{column.name}` | {kind} | {_default(column)} | {text} |")
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


def _model(table: Table) -> type[Base]:
    return next(mapper.class_ for mapper in Base.registry.mappers if mapper.local_table is table)


def _attribute_words(model: type[Base]) -> dict[str, str]:
    """Return what is written below the attributes of a model and of those that it inherits from."""
    found: dict[str, str] = {}
    for one in (each for each in reversed(model.__mro__) if issubclass(each, Base)):
        (written,) = ast.parse(inspect.getsource(one)).body
        assert isinstance(written, ast.ClassDef)
        for attribute, words in itertools.pairwise(written.body):
            match attribute, words:
                case (
                    ast.AnnAssign(target=ast.Name(id=name)),
                    ast.Expr(value=ast.Constant(value=str(text))),
                ):
                    found[name] = _one_line(text)
    return found


def _parameter_words(table: str) -> dict[str, str]:
    """Return the descriptions of a harvest's parameters, if the table carries them, by column."""
    if table not in {Surface.SCHEDULE, Surface.JOB}:
        return {}
    found = {}
    for one in carried(Surface(table)):
        option = one.schedule or one.command
        assert option is not None
        text = one.about or f"{option.help[:1].upper()}{option.help[1:]}."
        if one.kind is str and one.choices:
            text = f"{' or '.join(one.choices)}: {option.help}."
        found[one.job_column if table == Surface.JOB else one.column] = text
    return found


def _one_line(text: str | None) -> str:
    return re.sub(r"\s+", " ", (text or "").strip())


if __name__ == "__main__":
    for file_name, text in FILES.items():
        (FOLDER / file_name).write_text(text(), encoding="utf-8")
    (ROOT / "zatva.example.toml").write_text(example(), encoding="utf-8")

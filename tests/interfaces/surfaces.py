"""The public interfaces as JSON: names, types, defaults, choices and shapes, without prose.

The files in `frozen/` have the last frozen state; `pytest tests/interfaces --freeze` writes them.
"""

import argparse
from collections.abc import Callable, Mapping
from enum import Enum
from typing import Any

from sqlalchemy import Table

import provider.app
import web.app
from oai.errors import ExitCode
from oai.models import Base
from oai.settings import Settings
from tests.interfaces.words import stored_words
from tests.parsers import commands_of
from tests.reference import MODELS
from tests.routes import routes_of
from web.api.table import whole_document
from zatva.cli import build_parser

_PROSE = {"description", "summary", "title", "example", "examples", "x-help"}


def commands() -> dict[str, Any]:
    """Return each command with its arguments and options."""
    return {
        name: [_argument(action) for action in parser._actions if "--help" not in action.option_strings]  # noqa: SLF001
        for name, parser in commands_of("zatva", build_parser())
    }


def exit_codes() -> dict[str, int]:
    """Return the exit codes by name."""
    return {code.name: code.value for code in ExitCode}


def settings() -> Any:
    """Return type, limits and default of each setting."""
    return _without_prose(Settings.model_json_schema())


def tables() -> dict[str, Any]:
    """Return columns, keys and indexes of each table."""
    assert MODELS
    return {table.name: _table(table) for table in Base.metadata.sorted_tables}


def routes() -> dict[str, list[str]]:
    """Return methods with paths, by server."""
    apps: dict[str, Callable[..., Any]] = {
        "provider": provider.app.create_app,
        "dashboard": web.app.create_app,
    }
    return {
        name: [f"{method} {path}" for method, path in routes_of(create_app)]
        for name, create_app in apps.items()
    }


def openapi() -> Any:
    """Return the REST API's document."""
    return _without_prose(whole_document())


SURFACES: Mapping[str, Callable[[], Any]] = {
    "commands": commands,
    "exit_codes": exit_codes,
    "settings": settings,
    "tables": tables,
    "routes": routes,
    "openapi": openapi,
    "stored_words": stored_words,
}


def _argument(action: argparse.Action) -> dict[str, Any]:
    found = {
        "name": action.dest,
        "options": list(action.option_strings),
        "takes": action.nargs,
        "default": _plain(action.default),
        "choices": [_plain(choice) for choice in action.choices] if action.choices else None,
        # Python 3.14 no longer calls arguments that may be left out (`*`) required.
        "required": action.required or (not action.option_strings and action.nargs == "*"),
        "constant": _plain(action.const),
    }
    return {key: value for key, value in found.items() if value not in (None, [], False)}


def _plain(value: Any) -> Any:
    if isinstance(value, Enum):
        return value.value
    if isinstance(value, tuple | list | frozenset | set):
        return (
            sorted(map(str, value)) if isinstance(value, frozenset | set) else [_plain(one) for one in value]
        )
    return value if isinstance(value, str | int | float | bool | None) else str(value)


def _table(table: Table) -> dict[str, Any]:
    columns = {
        column.name: {
            "type": str(column.type),
            "null": column.nullable,
            "default": str(getattr(column.server_default, "arg", "")) or None,
        }
        for column in table.columns
    }
    keys = [
        f"{key.parent.name} -> {key.target_fullname} {key.ondelete or ''}".strip()
        for key in table.foreign_keys
    ]
    return {
        "columns": columns,
        "primary key": [column.name for column in table.primary_key],
        "foreign keys": sorted(keys),
        "indexes": sorted(str(index.name) for index in table.indexes),
    }


def _without_prose(part: Any) -> Any:
    if isinstance(part, list):
        return [_without_prose(one) for one in part]
    if not isinstance(part, dict):
        return part
    # A property may be named "description"; then its value is a schema.
    return {
        key: _without_prose(value)
        for key, value in part.items()
        if key not in _PROSE or (isinstance(value, dict) and key != "examples")
    }

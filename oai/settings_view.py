"""The settings in effect, each with the place that it comes from; secrets are not shown."""

import os
import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from pydantic import BaseModel, SecretStr

from oai.settings import Settings, read_table, read_text, section_name

HIDDEN: Final = "(set, not shown)"
_SECTION: Final = re.compile(r"\s*\[([\w.]+)\]")
_KEY: Final = re.compile(r"\s*([\w-]+)\s*=")


@dataclass(frozen=True, kw_only=True)
class SettingLine:
    """One setting."""

    name: str
    """As in the settings file, with its section: `web.session_hours`."""
    value: str
    """Empty if it is unset."""
    source: str
    """The environment variable, or the file with the line; empty: the default."""
    about: str


def settings_in_effect(settings: Settings) -> list[SettingLine]:
    """Return every setting, in the order of the reference."""
    lines = _lines_of(settings.toml_file) if settings.toml_file else {}
    return list(_walk(settings, "", lines, settings.toml_file))


def _walk(model: BaseModel, prefix: str, lines: dict[str, int], file: Path | None) -> Iterator[SettingLine]:
    for field, declared in type(model).model_fields.items():
        value, name = getattr(model, field), f"{prefix}{field}"
        if isinstance(value, BaseModel):
            yield from _walk(value, f"{name}.", lines, file)
            continue
        yield SettingLine(
            name=name, value=_text(value), source=_source(name, lines, file), about=declared.description or ""
        )


def _source(name: str, lines: dict[str, int], file: Path | None) -> str:
    wanted = f"zatva_{name.replace('.', '__')}"
    variable = next((one for one in os.environ if one.lower() == wanted), None)
    if variable is not None:
        return variable
    return f"{file}:{lines[name]}" if name in lines else ""


def _lines_of(file: Path) -> dict[str, int]:
    """Return the line of each setting in the file. A setting in another notation has that of its section."""
    text = read_text(file)
    found: dict[str, int] = {}
    section = ""
    for number, line in enumerate(text.splitlines(), start=1):
        if opened := _SECTION.match(line):
            first, dot, rest = opened[1].partition(".")
            section = f"{section_name(first)}{dot}{rest}."
            found[section] = number
        elif key := _KEY.match(line):
            found[f"{section}{key[1] if section else section_name(key[1])}"] = number
    return {
        name: found.get(name) or found.get(f"{name.rpartition('.')[0]}.", 1)
        for name in _names(read_table(file), "")
    }


def _names(table: dict[str, Any], prefix: str) -> Iterator[str]:
    for key, value in table.items():
        if isinstance(value, dict):
            yield from _names(value, f"{prefix}{key}.")
        else:
            yield f"{prefix}{key}"


def _text(value: object) -> str:
    if value is None:
        return ""
    if isinstance(value, SecretStr):
        return HIDDEN if value.get_secret_value() else ""
    if isinstance(value, list | tuple):
        return ", ".join(map(_text, value))
    return ("yes" if value else "no") if isinstance(value, bool) else str(value)

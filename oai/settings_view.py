"""The settings in effect and the wrong ones, each with its place; secrets are not shown."""

import os
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from difflib import get_close_matches
from pathlib import Path
from typing import Any, Final, get_args

from pydantic import BaseModel, SecretStr, ValidationError
from pydantic_core import ErrorDetails

from oai.settings import Settings, read_table, read_text, section_name

HIDDEN: Final = "(set, not shown)"
_SECTION: Final = re.compile(r"\s*\[\[?([\w.]+)\]")
_KEY: Final = re.compile(r"\s*([\w-]+)\s*=")
_SUBJECT: Final = re.compile(r"^(Value error, |(\w+ should )(?=be |have |match ))")
_EXPECTED: Final = {
    "bool": "must be true or false",
    "int": "must be a whole number",
    "float": "must be a number",
    "string": "must be a text in quotes",
    "path": "must be a text in quotes",
    "tuple": 'must be a list such as ["a", "b"]',
    "dict": 'must be a table such as {a = "b"}',
    "model": "must be a section",
}
"""By the first word of the type of pydantic's errors for a value of another type."""


@dataclass(frozen=True, kw_only=True)
class SettingLine:
    """One setting."""

    name: str
    """As in the settings file, with its section: `web.session_hours`."""
    value: str
    """Empty if it is unset."""
    source: str
    """The option, the environment variable, or the file with the line; empty: the default."""
    about: str


def settings_in_effect(settings: Settings) -> list[SettingLine]:
    """Return every setting, in the order of the reference."""
    lines = _lines_of(settings.toml_file) if settings.toml_file else {}
    return [
        replace(one, source=f"--{one.name}") if one.name in settings.options else one
        for one in _walk(settings, "", lines, settings.toml_file)
    ]


def in_words(error: ValidationError, file: Path | None) -> str:
    """Return a line for each wrong setting: its place, its name and what is allowed."""
    lines = _lines_of(file) if file else {}
    return "\n".join(_fault_line(fault, lines, file) for fault in error.errors(include_url=False))


def _fault_line(fault: ErrorDetails, lines: dict[str, int], file: Path | None) -> str:
    name = ".".join(map(str, fault["loc"]))
    source = next(filter(None, (_source(one, lines, file) for one in _and_outer(name))), "")
    place = f"{source}: " if source else ""
    if fault["type"] == "extra_forbidden":
        kind = "section" if isinstance(fault["input"], dict) else "setting"
        return f"{place}{kind} {name!r} does not exist{_nearest(name)}"
    words = expectation(fault)
    # A section may have secrets.
    hidden = isinstance(fault["input"], dict | BaseModel) or _is_secret(fault["loc"])
    found = "" if hidden else f", found {fault['input']!r}"
    return f"{place}setting {name!r}: {words}{found}" if name else f"{words}{found}"


def expectation(fault: ErrorDetails) -> str:
    """Return what the value of a setting must be, such as `must be greater than 0`."""
    first, _, rest = fault["type"].partition("_")
    words = _EXPECTED.get(first) if rest in {"type", "parsing", "from_float"} else None
    return words or _SUBJECT.sub(lambda found: "must " if found[2] else "", fault["msg"])


def _is_secret(path: Sequence[str | int]) -> bool:
    """Return whether the setting, or an entry of its list, is a secret."""
    kinds: list[Any] = [Settings]
    for name in path:
        if isinstance(name, str):
            models = [kind for kind in kinds if isinstance(kind, type) and issubclass(kind, BaseModel)]
            declared = [model.model_fields[name] for model in models if name in model.model_fields]
            kinds = [kind for one in declared for kind in _kinds_in(one.annotation)]
    return SecretStr in kinds


def _kinds_in(annotation: object) -> Iterator[object]:
    yield annotation
    for part in get_args(annotation):
        yield from _kinds_in(part)


def _and_outer(name: str) -> Iterator[str]:
    """Yield the name, and those of the list, table or section around it."""
    while name:
        yield name
        name = name.rpartition(".")[0]


def _nearest(name: str) -> str:
    """Return a question with the most similar name of a setting or section, if one is similar."""
    known = {one.name for one in _walk(Settings.model_construct(), "", {}, None)}
    sections = {one.rpartition(".")[0] for one in known}
    found = get_close_matches(name, sorted(known | sections), n=1)
    return f"; did you mean {found[0]!r}?" if found else ""


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
    """Return the line of each section and setting in the file; of its section for another notation."""
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
    sections = {name[:-1]: number for name, number in found.items() if name.endswith(".")}
    return sections | {
        name: found.get(name) or sections.get(name) or sections.get(name.rpartition(".")[0], 1)
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

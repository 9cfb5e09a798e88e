"""The options of `zatva schedule add` and `edit`, one for each parameter that a schedule carries."""

import argparse
from collections.abc import Callable
from typing import Any

from harvester.harvest_plan import Default, Option, Parameter, Surface, carried
from oai.command_parser import number


def add_plan_options(parser: argparse.ArgumentParser, *, with_defaults: bool) -> None:
    """Add an option for each parameter: with its default for a new schedule, without one for a change."""
    options = [(one.schedule, one) for one in carried(Surface.SCHEDULE_COMMAND) if one.schedule]
    for _, one in sorted(options, key=lambda pair: pair[0].place):
        shown = with_defaults and one.stored not in (None, Default.NOW)
        place = parser.add_mutually_exclusive_group() if one.schedule_no else parser
        for option, value in ((one.schedule, True), (one.schedule_no, False)):
            if option is None:
                continue
            text = option.help + (f" (default: {_default(one)})" if shown and one.kind is not bool else "")
            default = one.stored if shown else None
            how = {"action": "store_const", "const": value} if one.kind is bool else _value(one, option)
            place.add_argument(*option.flags.split(), dest=one.column, help=text, default=default, **how)


def _default(one: Parameter) -> object:
    """Return the default as the help shows it: by its name, if it has one."""
    return next((word for word, choice in one.words.items() if choice.value == one.stored), one.stored)


def _value(one: Parameter, option: Option) -> dict[str, Any]:
    kind: object = int if one.kind is int else str
    if one.kind is int and one.limits:
        kind = number(int, one.limits["ge"], one.limits["le"])
    how: dict[str, Any] = {"type": kind, "metavar": option.metavar}
    if one.choices is not None and one.kind is int:
        return {"type": _named(one), "metavar": f"{{{','.join(one.words)}}}"}
    choices = tuple(choice.value for choice in one.choices or ())
    if choices and one.stored is None:
        # An empty value removes the option's stored value.
        return {**how, "choices": (*choices, ""), "metavar": f"{{{','.join(map(str, choices))}}}"}
    return {**how, "choices": choices} if choices else how


def _named(one: Parameter) -> Callable[[str], int]:
    """Return the reader of a choice by its name, or by the number that the tables have."""

    def read(text: str) -> int:
        numbers = {str(choice.value): int(choice.value) for choice in one.words.values()}
        known = {**numbers, **{word: int(choice.value) for word, choice in one.words.items()}}
        if text not in known:
            raise argparse.ArgumentTypeError(f"{text!r}: choose from {', '.join(one.words)}")
        return known[text]

    return read

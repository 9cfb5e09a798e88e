"""The commands of schedules, described; their handlers are in `schedule_commands.py`."""

import argparse
from typing import TYPE_CHECKING, Any

from harvester.plan import Default, Option, Parameter, Surface, carried
from oai.cli import add_command

if TYPE_CHECKING:
    from oai.cli import Subcommands

_HANDLERS = "manager.schedule_commands:"


def add_schedule_commands(schedule: "Subcommands") -> None:
    """Add what can be done with schedules."""
    add = add_command(
        schedule, "add", help="plan harvests of a repository", handler=f"{_HANDLERS}add_schedule"
    )
    add.add_argument("repository_id", type=int, metavar="REPOSITORY_ID")
    _add_plan_options(add, with_defaults=True)
    listing = add_command(schedule, "list", help="list schedules", handler=f"{_HANDLERS}list_schedules")
    listing.add_argument("--repository", type=int, metavar="ID", help="only of this repository")
    for name, text in (
        ("show", "show a schedule and its next due time"),
        ("edit", "change the given options; an empty value resets an option, as in `--set ''`"),
        ("remove", "remove a schedule and its planned jobs"),
        ("run", "harvest now, in addition to the schedule"),
        ("sample", "harvest a few records now, in addition to the schedule"),
        ("pause", "pause a schedule: no jobs are created"),
        ("resume", "resume a schedule that was paused, rejected or suspended"),
    ):
        command = add_command(schedule, name, help=text, handler=f"{_HANDLERS}{name}_schedule")
        command.add_argument("recurring_id", type=int, metavar="ID")
        if name == "sample":
            command.add_argument(
                "--records", type=int, default=100, metavar="N", help="how many (default: %(default)s)"
            )
        if name == "edit":
            _add_plan_options(command, with_defaults=False)


def _add_plan_options(parser: argparse.ArgumentParser, *, with_defaults: bool) -> None:
    """Add an option for each parameter: with its default for a new schedule, without for a change."""
    options = [(one.schedule, one) for one in carried(Surface.SCHEDULE_COMMAND) if one.schedule]
    for _, one in sorted(options, key=lambda pair: pair[0].place):
        shown = with_defaults and one.stored not in (None, Default.NOW)
        for option, value in ((one.schedule, True), (one.schedule_no, False)):
            if option is None:
                continue
            text = option.help + (" (default: %(default)s)" if shown and one.kind is not bool else "")
            default = one.stored if shown else None
            how = {"action": "store_const", "const": value} if one.kind is bool else _value(one, option)
            parser.add_argument(option.flags, dest=one.column, help=text, default=default, **how)


def _value(one: Parameter, option: Option) -> dict[str, Any]:
    how: dict[str, Any] = {"type": int if one.kind is int else str, "metavar": option.metavar}
    choices = tuple(choice.value for choice in one.choices or ())
    if choices and one.stored is None:
        # An empty value takes the option back.
        return {**how, "choices": (*choices, ""), "metavar": f"{{{','.join(map(str, choices))}}}"}
    return {**how, "choices": choices} if choices else how

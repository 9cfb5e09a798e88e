"""The commands of schedules, described; their handlers are in `schedule_commands.py`."""

import argparse
from typing import TYPE_CHECKING, Any

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
    _add_plan_options(_Options(add, with_defaults=True))
    listing = add_command(schedule, "list", help="list schedules", handler=f"{_HANDLERS}list_schedules")
    listing.add_argument("--repository", type=int, metavar="ID", help="only of this repository")
    for name, text in (
        ("show", "show a schedule and its next due time"),
        ("edit", "change the given options; an empty value resets an option, as in `--set ''`"),
        ("remove", "remove a schedule and its planned jobs"),
        ("run", "harvest now, in addition to the schedule"),
        ("pause", "pause a schedule: no jobs are created"),
        ("resume", "resume a schedule that was paused, rejected or suspended"),
    ):
        command = add_command(schedule, name, help=text, handler=f"{_HANDLERS}{name}_schedule")
        command.add_argument("recurring_id", type=int, metavar="ID")
        if name == "edit":
            _add_plan_options(_Options(command, with_defaults=False))


class _Options:
    """Adds options named after a schedule's columns: with defaults for a new one, without for a change."""

    def __init__(self, parser: argparse.ArgumentParser, *, with_defaults: bool) -> None:
        self._parser = parser
        self._with_defaults = with_defaults

    def add(self, option: str, column: str, text: str, *, default: object = None, **how: Any) -> None:  # noqa: ANN401 argparse's own
        """Add an option; the default is told where it holds."""
        if self._with_defaults and default is not None:
            how["default"] = default
            text += "" if isinstance(default, bool) else " (default: %(default)s)"
        self._parser.add_argument(option, dest=column, help=text, **how)

    def add_flags(self, column: str, *, default: bool, yes: tuple[str, str], no: tuple[str, str]) -> None:
        """Add an option for yes and one for no, each with its text."""
        for value, (option, text) in ((True, yes), (False, no)):
            self.add(option, column, text, default=default, action="store_const", const=value)


def _add_plan_options(options: _Options) -> None:
    _add_times(options)
    _add_selection(options)
    _add_turns(options)
    _add_storing(options)
    options.add(
        "--slice", "slice", "split the list by month or day, for repositories whose tokens expire "
        "before the whole list is read",
        choices=("month", "day", ""), metavar="{month,day}",
    )  # fmt: skip


def _add_times(options: _Options) -> None:
    options.add(
        "--frequency",
        "frequency",
        "`every 6 hours`, `daily at 02:30`, a cron expression; without it, the harvest runs once",
        metavar="F",
    )
    options.add("--zone", "time_zone", "time zone of the frequency", default="UTC")
    options.add(
        "--start",
        "start_date",
        "earliest time to run, ISO 8601, UTC if it has no offset (default for a new schedule: now)",
        metavar="TIME",
    )
    options.add("--end", "end_date", "latest time to run", metavar="TIME")


def _add_selection(options: _Options) -> None:
    options.add("--format", "metadata_prefix", "metadataPrefix", default="oai_dc", metavar="PREFIX")
    options.add("--set", "set_spec", "setSpec (default: all records)", metavar="SPEC")
    options.add("--from", "harvest_from", "first harvest: earliest datestamp", metavar="DATE")
    options.add("--until", "harvest_to", "each harvest: latest datestamp", metavar="DATE")
    options.add_flags(
        "incremental",
        default=True,
        yes=("--incremental", "harvest only what changed since the last harvest (default)"),
        no=("--full", "harvest all records each time"),
    )
    options.add(
        "--method", "method", "0 ListRecords, 1 ListIdentifiers and GetRecord",
        type=int, choices=(0, 1), default=0,
    )  # fmt: skip
    options.add(
        "--validation", "validation", "0 strict, 1 very strict, 2 lenient",
        type=int, choices=(0, 1, 2), default=2,
    )  # fmt: skip


def _add_turns(options: _Options) -> None:
    options.add(
        "--overlap",
        "overlap",
        "what to do with a run that is due while the previous one is running",
        choices=("skip", "queue"),
        default="skip",
    )
    options.add(
        "--priority", "priority", "-1000 to 1000; higher priority runs first",
        type=int, default=0, metavar="N",
    )  # fmt: skip
    options.add("--owner", "owner", "owner of the schedule; owners take turns", metavar="NAME")


def _add_storing(options: _Options) -> None:
    options.add("--filter-file", "filter_file_path", "rules that select records", metavar="FILE")
    options.add(
        "--normalize-file", "normalize_file_path", "rules that add normalised elements", metavar="FILE"
    )
    options.add_flags(
        "parse_id",
        default=True,
        yes=("--parse-id", "arrange files by the parts of their identifier (default)"),
        no=("--no-parse-id", "put all files into one directory"),
    )
    options.add(
        "--files-per-dir", "files_per_dir", "files in one directory (default: the setting)",
        type=int, metavar="N",
    )  # fmt: skip

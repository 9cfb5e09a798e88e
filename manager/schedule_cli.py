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
    listing.add_argument("--repository", type=int, metavar="ID", help="of this repository only")
    for name, text in (
        ("show", "show all of a schedule, and when it is due next"),
        ("edit", "change what is given; an empty value takes an option back, as in `--set ''`"),
        ("remove", "remove a schedule and its planned jobs"),
        ("run", "harvest now, beside the plan"),
        ("sample", "harvest a few records now, beside the schedule"),
        ("pause", "let a schedule make no jobs for now"),
        ("resume", "let a schedule go on that was paused, set aside or suspended"),
    ):
        command = add_command(schedule, name, help=text, handler=f"{_HANDLERS}{name}_schedule")
        command.add_argument("recurring_id", type=int, metavar="ID")
        if name == "sample":
            command.add_argument(
                "--records", type=int, default=100, metavar="N", help="how many (default: %(default)s)"
            )
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
        "--slice", "slice", "a list for each month or day, where tokens expire before a whole list is read",
        choices=("month", "day", ""), metavar="{month,day}",
    )  # fmt: skip


def _add_times(options: _Options) -> None:
    options.add(
        "--frequency",
        "frequency",
        "`every 6 hours`, `daily at 02:30`, a cron expression; once if left out",
        metavar="F",
    )
    options.add("--zone", "time_zone", "time zone of the frequency", default="UTC")
    options.add(
        "--start",
        "start_date",
        "not before this time, ISO 8601, UTC if it has no offset; a new one: now",
        metavar="TIME",
    )
    options.add("--end", "end_date", "not after this time", metavar="TIME")


def _add_selection(options: _Options) -> None:
    options.add("--format", "metadata_prefix", "metadataPrefix", default="oai_dc", metavar="PREFIX")
    options.add("--set", "set_spec", "setSpec; all records if left out", metavar="SPEC")
    options.add("--from", "harvest_from", "the first harvest's from", metavar="DATE")
    options.add("--until", "harvest_to", "each harvest's until", metavar="DATE")
    options.add_flags(
        "incremental",
        default=True,
        yes=("--incremental", "harvest what changed since the last time; so it is unless told otherwise"),
        no=("--full", "harvest everything each time, not what changed"),
    )
    options.add(
        "--method", "method", "0 ListRecords, 1 ListIdentifiers and GetRecord",
        type=int, choices=(0, 1), default=0,
    )  # fmt: skip
    options.add(
        "--validation", "validation", "0 strict, 1 very strict, 2 loose",
        type=int, choices=(0, 1, 2), default=2,
    )  # fmt: skip


def _add_turns(options: _Options) -> None:
    options.add(
        "--overlap",
        "overlap",
        "what becomes of a run that is due while the last one is under way",
        choices=("skip", "queue"),
        default="skip",
    )
    options.add(
        "--priority", "priority", "-1000 to 1000; the higher one comes first",
        type=int, default=0, metavar="N",
    )  # fmt: skip
    options.add("--owner", "owner", "whose it is; owners take turns", metavar="NAME")


def _add_storing(options: _Options) -> None:
    options.add("--filter-file", "filter_file_path", "keep only records that match", metavar="FILE")
    options.add("--normalize-file", "normalize_file_path", "add normalised elements", metavar="FILE")
    options.add_flags(
        "parse_id",
        default=True,
        yes=("--parse-id", "files lie by the parts of their identifier; so it is unless told otherwise"),
        no=("--no-parse-id", "all files in one directory, not by identifier"),
    )
    options.add(
        "--files-per-dir", "files_per_dir", "files in one directory; as set where nothing is said",
        type=int, metavar="N",
    )  # fmt: skip

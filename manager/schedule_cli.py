"""The commands of schedules, described; their handlers are in `commands.py`."""

import argparse
from typing import TYPE_CHECKING

from oai.cli import add_command

if TYPE_CHECKING:
    from oai.cli import Subcommands

_HANDLERS = "manager.commands:"


def add_schedule_commands(schedule: "Subcommands") -> None:
    """Add what can be done with schedules."""
    _add_plan_options(
        add_command(schedule, "add", help="plan harvests of a repository", handler=f"{_HANDLERS}add_schedule")
    )
    listing = add_command(schedule, "list", help="list schedules", handler=f"{_HANDLERS}list_schedules")
    listing.add_argument("--repository", type=int, metavar="ID", help="of this repository only")
    for name, text in (
        ("remove", "remove a schedule and its planned jobs"),
        ("run", "harvest now, beside the plan"),
        ("pause", "let a schedule make no jobs for now"),
        ("resume", "let a schedule go on that was paused, set aside or suspended"),
    ):
        command = add_command(schedule, name, help=text, handler=f"{_HANDLERS}{name}_schedule")
        command.add_argument("recurring_id", type=int, metavar="ID")


def _add_plan_options(add: argparse.ArgumentParser) -> None:
    add.add_argument("repository_id", type=int, metavar="REPOSITORY_ID")
    _add_times(add)
    _add_selection(add)
    _add_turns(add)
    _add_storing(add)
    add.add_argument(
        "--slice", choices=("month", "day"),
        help="a list for each month or day, where tokens expire before a whole list is read",
    )  # fmt: skip


def _add_times(add: argparse.ArgumentParser) -> None:
    add.add_argument(
        "--frequency",
        metavar="F",
        help="`every 6 hours`, `daily at 02:30`, a cron expression; once if left out",
    )
    add.add_argument("--zone", default="UTC", help="time zone of the frequency (default: %(default)s)")
    add.add_argument(
        "--start",
        metavar="TIME",
        help="not before this time, ISO 8601, UTC if it has no offset (default: now)",
    )
    add.add_argument("--end", metavar="TIME", help="not after this time")


def _add_selection(add: argparse.ArgumentParser) -> None:
    add.add_argument(
        "--format", default="oai_dc", metavar="PREFIX", help="metadataPrefix (default: %(default)s)"
    )
    add.add_argument("--set", metavar="SPEC", help="setSpec; all records if left out")
    add.add_argument("--from", dest="harvest_from", metavar="DATE", help="the first harvest's from")
    add.add_argument("--until", dest="harvest_to", metavar="DATE", help="each harvest's until")
    add.add_argument("--full", action="store_true", help="harvest everything each time, not what changed")
    add.add_argument(
        "--method", type=int, choices=(0, 1), default=0, help="0 ListRecords, 1 ListIdentifiers and GetRecord"
    )
    add.add_argument(
        "--validation", type=int, choices=(0, 1, 2), default=2, help="0 strict, 1 very strict, 2 loose"
    )


def _add_turns(add: argparse.ArgumentParser) -> None:
    add.add_argument(
        "--overlap",
        choices=("skip", "queue"),
        default="skip",
        help="what becomes of a run that is due while the last one is under way (default: %(default)s)",
    )
    add.add_argument(
        "--priority", type=int, default=0, metavar="N", help="-1000 to 1000; the higher one comes first"
    )
    add.add_argument("--owner", metavar="NAME", help="whose it is; owners take turns")


def _add_storing(add: argparse.ArgumentParser) -> None:
    add.add_argument("--filter-file", metavar="FILE", help="keep only records that match")
    add.add_argument("--normalize-file", metavar="FILE", help="add normalised elements")
    add.add_argument(
        "--no-parse-id", action="store_true", help="all files in one directory, not by identifier"
    )
    add.add_argument(
        "--files-per-dir", type=int, metavar="N", help="files in one directory (default: as set)"
    )

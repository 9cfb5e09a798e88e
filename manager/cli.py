"""The manager's commands, described; their handlers are in `commands.py`."""

import argparse
from typing import TYPE_CHECKING

from oai.cli import add_command, add_group

if TYPE_CHECKING:
    from oai.cli import Subcommands

_HANDLERS = "manager.commands:"


def add_commands(commands: "Subcommands") -> None:
    """Add `manager`, `worker`, `schedule` and `job`."""
    manager = add_group(commands, "manager", help="the program that starts and watches scheduled harvests")
    run = _add(
        manager, "run", help="start scheduled harvests, and run them, until ended", handler="run_manager"
    )
    _add_concurrency(run)
    _add(manager, "status", help="show who leads, who works and how much waits", handler="show_status")
    worker = _add(commands, "worker", help="run harvests that a manager hands out", handler="run_worker")
    _add_concurrency(worker)
    _add_schedule_commands(add_group(commands, "schedule", help="what to harvest, from when on, how often"))
    _add_job_commands(
        add_group(commands, "job", help="harvests that are to start, that run, that have ended")
    )


def add_queue_option(index: argparse.ArgumentParser) -> None:
    """Let `provider index` put its files into the task queue; the handler is ours then."""
    index.add_argument(
        "--queue",
        dest="handler",
        action="store_const",
        const="manager.indexing:queue_index",
        help="let workers index the files, on any machine that sees them at the same paths",
    )


def _add(commands: "Subcommands", name: str, *, help: str, handler: str) -> argparse.ArgumentParser:  # noqa: A002 argparse's own word
    return add_command(commands, name, help=help, handler=_HANDLERS + handler)


def _add_concurrency(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--concurrency", type=int, metavar="N", help="harvests at a time (default: as set)")


def _add_schedule_commands(schedule: "Subcommands") -> None:
    _add_plan_options(_add(schedule, "add", help="plan harvests of a repository", handler="add_schedule"))
    listing = _add(schedule, "list", help="list schedules", handler="list_schedules")
    listing.add_argument("--repository", type=int, metavar="ID", help="of this repository only")
    for name, text in (
        ("remove", "remove a schedule and its planned jobs"),
        ("run", "harvest now, beside the plan"),
        ("pause", "let a schedule make no jobs for now"),
        ("resume", "let a paused schedule go on, or one that was set aside"),
    ):
        command = _add(schedule, name, help=text, handler=f"{name}_schedule")
        command.add_argument("recurring_id", type=int, metavar="ID")


def _add_plan_options(add: argparse.ArgumentParser) -> None:
    add.add_argument("repository_id", type=int, metavar="REPOSITORY_ID")
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
    add.add_argument("--filter-file", metavar="FILE", help="keep only records that match")
    add.add_argument("--normalize-file", metavar="FILE", help="add normalised elements")
    add.add_argument(
        "--no-parse-id", action="store_true", help="all files in one directory, not by identifier"
    )
    add.add_argument(
        "--files-per-dir", type=int, metavar="N", help="files in one directory (default: as set)"
    )


def _add_job_commands(job: "Subcommands") -> None:
    listing = _add(job, "list", help="list scheduled and running jobs", handler="list_jobs")
    history = _add(job, "history", help="list harvests that have ended", handler="list_history")
    for parser in (listing, history):
        parser.add_argument("--repository", type=int, metavar="ID", help="of this repository only")
    history.add_argument("--limit", type=int, default=50, metavar="N", help="how many (default: %(default)s)")
    history.add_argument("--before", type=int, metavar="ID", help="older than this one")
    remove = _add(job, "remove", help="remove a job; one that runs is ended first", handler="remove_job")
    remove.add_argument("job_id", type=int, metavar="ID")

"""The manager's commands, described; their handlers are in `commands.py`."""

import argparse
from typing import TYPE_CHECKING

from manager.notices.cli import add_commands as add_notify
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
    _add_drain(worker.add_subparsers(metavar="COMMAND"))
    _add_schedule_commands(add_group(commands, "schedule", help="what to harvest, from when on, how often"))
    _add_job_commands(
        add_group(commands, "job", help="harvests that are to start, that run, that have ended")
    )
    add_notify(commands)


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


def _add_drain(worker: "Subcommands") -> None:
    drain = _add(
        worker, "drain", help="let workers take nothing more, and end when done", handler="drain_worker"
    )
    drain.add_argument(
        "worker_id",
        type=int,
        nargs="*",
        metavar="WORKER",
        help="numbers, as `zatva manager status` tells them",
    )
    drain.add_argument("--all", action="store_true", help="all workers, those inside managers included")


def _add_schedule_commands(schedule: "Subcommands") -> None:
    _add_plan_options(_add(schedule, "add", help="plan harvests of a repository", handler="add_schedule"))
    listing = _add(schedule, "list", help="list schedules", handler="list_schedules")
    listing.add_argument("--repository", type=int, metavar="ID", help="of this repository only")
    for name, text in (
        ("remove", "remove a schedule and its planned jobs"),
        ("run", "harvest now, beside the plan"),
        ("pause", "let a schedule make no jobs for now"),
        ("resume", "let a schedule go on that was paused, set aside or suspended"),
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
    add.add_argument("--filter-file", metavar="FILE", help="keep only records that match")
    add.add_argument("--normalize-file", metavar="FILE", help="add normalised elements")
    add.add_argument(
        "--no-parse-id", action="store_true", help="all files in one directory, not by identifier"
    )
    add.add_argument(
        "--files-per-dir", type=int, metavar="N", help="files in one directory (default: as set)"
    )
    add.add_argument(
        "--slice", choices=("month", "day"),
        help="a list for each month or day, where tokens expire before a whole list is read",
    )  # fmt: skip


def _add_job_commands(job: "Subcommands") -> None:
    listing = _add(job, "list", help="list scheduled and running jobs", handler="list_jobs")
    history = _add(job, "history", help="list harvests that have ended", handler="list_history")
    for parser in (listing, history):
        parser.add_argument("--repository", type=int, metavar="ID", help="of this repository only")
    history.add_argument("--limit", type=int, default=50, metavar="N", help="how many (default: %(default)s)")
    history.add_argument("--before", type=int, metavar="ID", help="older than this one")
    errors = add_command(
        job,
        "errors",
        help="list the records that could not be read, and why",
        handler="harvester.quarantine_commands:list_errors",
    )
    errors.add_argument("history_id", type=int, nargs="?", metavar="HISTORY_ID", help="of this run only")
    errors.add_argument("--repository", type=int, metavar="ID", help="of this repository only")
    errors.add_argument("--all", action="store_true", help="also those that were read well later")
    errors.add_argument("--raw", type=int, metavar="N", help="write the bytes of number N, as they came")
    remove = _add(job, "remove", help="remove a job; one that runs is ended first", handler="remove_job")
    remove.add_argument("job_id", type=int, metavar="ID")
    for name, text in (
        ("pause", "keep a job from beginning; one that runs ends after its page and can be resumed"),
        ("resume", "let a paused job go on where it stopped, or look anew at one that was set aside"),
        ("stop", "end a harvest after its page; the next one goes on from there"),
        ("kill", "end a harvest at once; what was committed is kept"),
    ):
        command = _add(job, name, help=text, handler="change_job")
        command.set_defaults(change=name)
        command.add_argument("job_id", type=int, metavar="ID")
    changes = add_command(
        job,
        "changes",
        help="list what changed in the store, for programs that follow along",
        handler="harvester.change_commands:changes",
    )
    changes.add_argument("--repository", type=int, metavar="ID", help="of this repository only")
    changes.add_argument(
        "--since", type=int, default=0, metavar="ID", help="after this change; from the beginning if left out"
    )
    changes.add_argument("--run", type=int, metavar="HISTORY_ID", help="of this run only")
    release = add_command(
        job,
        "release",
        help="say yes to a run that was held, for it would delete or change very much",
        handler="harvester.change_commands:release",
    )
    release.add_argument("history_id", type=int, metavar="HISTORY_ID")
    wait = add_command(
        job,
        "wait",
        help="wait until a job has ended, or a repository is quiet, and give its exit code",
        handler="manager.waiting_commands:wait",
    )
    wait.add_argument("job_id", type=int, nargs="?", metavar="ID")
    wait.add_argument(
        "--repository", type=int, metavar="ID", help="until nothing of this repository runs or is due"
    )
    wait.add_argument(
        "--timeout", type=float, metavar="S", help="no longer than so many seconds; the exit code is 75 then"
    )

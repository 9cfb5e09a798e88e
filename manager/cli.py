"""The commands of manager and workers, described; their handlers are in `commands.py`."""

import argparse
from typing import TYPE_CHECKING

from manager.job_cli import add_job_commands
from manager.notices.cli import add_commands as add_notify
from manager.rule_cli import add_rule_commands
from manager.schedule_cli import add_schedule_commands
from oai.cli import add_command, add_group

if TYPE_CHECKING:
    from oai.cli import Subcommands

_HANDLERS = "manager.commands:"


def add_commands(commands: "Subcommands") -> None:
    """Add `manager`, `worker`, `schedule`, `job` and `rule`."""
    manager = add_group(commands, "manager", help="the program that starts and watches scheduled harvests")
    run = _add(
        manager, "run", help="start scheduled harvests, and run them, until ended", handler="run_manager"
    )
    _add_concurrency(run)
    _add(manager, "status", help="show who leads, who works and how much waits", handler="show_status")
    worker = _add(commands, "worker", help="run harvests that a manager hands out", handler="run_worker")
    _add_concurrency(worker)
    _add_drain(worker.add_subparsers(metavar="COMMAND"))
    add_schedule_commands(add_group(commands, "schedule", help="what to harvest, from when on, how often"))
    add_job_commands(add_group(commands, "job", help="harvests that are to start, that run, that have ended"))
    add_rule_commands(
        add_group(commands, "rule", help="rule files: kept in versions, tried before they count")
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

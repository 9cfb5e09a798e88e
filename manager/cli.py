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
    manager = add_group(commands, "manager", help="plan, start and supervise scheduled harvests")
    run = _add(manager, "run", help="plan and run scheduled harvests until stopped", handler="run_manager")
    _add_concurrency(run)
    _add(manager, "status", help="show the leader, the workers and the queues", handler="show_status")
    worker = _add(commands, "worker", help="run harvests that a manager dispatches", handler="run_worker")
    _add_concurrency(worker)
    _add_drain(worker.add_subparsers(metavar="COMMAND"))
    add_schedule_commands(
        add_group(commands, "schedule", help="manage schedules: what to harvest, from when, how often")
    )
    add_job_commands(add_group(commands, "job", help="manage harvest jobs and their history"))
    add_rule_commands(
        add_group(commands, "rule", help="manage rule files: save versions, test and preview rules")
    )
    add_notify(commands)


def add_queue_option(index: argparse.ArgumentParser) -> None:
    """Let `provider index` put its files into the task queue; the handler is ours then."""
    index.add_argument(
        "--queue",
        dest="handler",
        action="store_const",
        const="manager.indexing:queue_index",
        help="queue the files for workers, on any machine that sees them at the same paths",
    )


def _add(commands: "Subcommands", name: str, *, help: str, handler: str) -> argparse.ArgumentParser:  # noqa: A002 argparse's own word
    return add_command(commands, name, help=help, handler=_HANDLERS + handler)


def _add_concurrency(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--concurrency", type=int, metavar="N", help="maximum concurrent harvests (default: the setting)"
    )


def _add_drain(worker: "Subcommands") -> None:
    drain = _add(
        worker,
        "drain",
        help="stop workers from taking new jobs; they exit when their harvests are done",
        handler="drain_worker",
    )
    drain.add_argument(
        "worker_id",
        type=int,
        nargs="*",
        metavar="WORKER",
        help="worker numbers, as listed by `zatva manager status`",
    )
    drain.add_argument("--all", action="store_true", help="all workers, including those inside managers")

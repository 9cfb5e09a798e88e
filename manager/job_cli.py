"""The commands of jobs and of runs that have ended, described; handlers lie where the work is done."""

from typing import TYPE_CHECKING

from oai.cli import add_command

if TYPE_CHECKING:
    from oai.cli import Subcommands

_HANDLERS = "manager.job_commands:"


def add_job_commands(job: "Subcommands") -> None:
    """Add what can be done with jobs, and with the runs that they became."""
    _add_listings(job)
    _add_errors(job)
    _add_controls(job)
    _add_changes(job)
    _add_wait(job)


def _add_listings(job: "Subcommands") -> None:
    listing = add_command(job, "list", help="list waiting and running jobs", handler=f"{_HANDLERS}list_jobs")
    history = add_command(job, "history", help="list finished harvests", handler=f"{_HANDLERS}list_history")
    show = add_command(job, "show", help="show a job in detail", handler=f"{_HANDLERS}show_job")
    show.add_argument("job_id", type=int, metavar="ID")
    history.add_argument("history_id", type=int, nargs="?", metavar="RUN", help="everything about this run")
    for parser in (listing, history):
        parser.add_argument("--repository", type=int, metavar="ID", help="only of this repository")
    history.add_argument(
        "--limit", type=int, default=50, metavar="N", help="number of rows (default: %(default)s)"
    )
    history.add_argument("--before", type=int, metavar="ID", help="only rows older than this one")


def _add_errors(job: "Subcommands") -> None:
    errors = add_command(
        job,
        "errors",
        help="list rejected records with the reasons",
        handler="harvester.quarantine_commands:list_errors",
    )
    errors.add_argument("history_id", type=int, nargs="?", metavar="HISTORY_ID", help="only of this run")
    errors.add_argument("--repository", type=int, metavar="ID", help="only of this repository")
    errors.add_argument(
        "--all", action="store_true", help="include records that were stored successfully later"
    )
    errors.add_argument(
        "--raw", type=int, metavar="N", help="write the bytes of record N as they were received"
    )


def _add_controls(job: "Subcommands") -> None:
    remove = add_command(
        job, "remove", help="remove a job; a running harvest is ended first", handler=f"{_HANDLERS}remove_job"
    )
    remove.add_argument("job_id", type=int, metavar="ID")
    for name, text in (
        ("pause", "pause a job; a running harvest stops after its page and can be resumed"),
        ("resume", "resume a paused job where it stopped, or check a rejected one again"),
        ("stop", "stop a harvest after its page; the next one resumes there"),
        ("kill", "kill a harvest at once; committed records are kept"),
    ):
        command = add_command(job, name, help=text, handler=f"{_HANDLERS}change_job")
        command.set_defaults(change=name)
        command.add_argument("job_id", type=int, metavar="ID")


def _add_changes(job: "Subcommands") -> None:
    changes = add_command(
        job,
        "changes",
        help="list changes in the store, for programs that follow them",
        handler="harvester.change_commands:changes",
    )
    changes.add_argument("--repository", type=int, metavar="ID", help="only of this repository")
    changes.add_argument(
        "--since",
        type=int,
        default=0,
        metavar="ID",
        help="only after this change (default: from the beginning)",
    )
    changes.add_argument("--run", type=int, metavar="HISTORY_ID", help="only of this run")
    release = add_command(
        job,
        "release",
        help="approve a run that the mass-change guard held",
        handler="harvester.change_commands:release",
    )
    release.add_argument("history_id", type=int, metavar="HISTORY_ID")
    release.add_argument("--show", action="store_true", help="only show what the run would do")


def _add_wait(job: "Subcommands") -> None:
    wait = add_command(
        job,
        "wait",
        help="wait until a job has ended or a repository has no jobs, and return its exit code",
        handler="manager.waiting_commands:wait",
    )
    wait.add_argument("job_id", type=int, nargs="?", metavar="ID")
    wait.add_argument(
        "--repository", type=int, metavar="ID", help="wait until no job of this repository is running or due"
    )
    wait.add_argument(
        "--timeout", type=float, metavar="S", help="give up after this many seconds with exit code 75"
    )

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
    listing = add_command(
        job, "list", help="list scheduled and running jobs", handler=f"{_HANDLERS}list_jobs"
    )
    history = add_command(
        job, "history", help="list harvests that have ended", handler=f"{_HANDLERS}list_history"
    )
    show = add_command(job, "show", help="show all of a job", handler=f"{_HANDLERS}show_job")
    show.add_argument("job_id", type=int, metavar="ID")
    history.add_argument("history_id", type=int, nargs="?", metavar="RUN", help="all of this one")
    for parser in (listing, history):
        parser.add_argument("--repository", type=int, metavar="ID", help="of this repository only")
    history.add_argument("--limit", type=int, default=50, metavar="N", help="how many (default: %(default)s)")
    history.add_argument("--before", type=int, metavar="ID", help="older than this one")


def _add_errors(job: "Subcommands") -> None:
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


def _add_controls(job: "Subcommands") -> None:
    remove = add_command(
        job, "remove", help="remove a job; one that runs is ended first", handler=f"{_HANDLERS}remove_job"
    )
    remove.add_argument("job_id", type=int, metavar="ID")
    for name, text in (
        ("pause", "keep a job from beginning; one that runs ends after its page and can be resumed"),
        ("resume", "let a paused job go on where it stopped, or look anew at one that was set aside"),
        ("stop", "end a harvest after its page; the next one goes on from there"),
        ("kill", "end a harvest at once; what was committed is kept"),
    ):
        command = add_command(job, name, help=text, handler=f"{_HANDLERS}change_job")
        command.set_defaults(change=name)
        command.add_argument("job_id", type=int, metavar="ID")


def _add_changes(job: "Subcommands") -> None:
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
    release.add_argument("--show", action="store_true", help="only show what the run would do")


def _add_wait(job: "Subcommands") -> None:
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

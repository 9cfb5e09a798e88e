"""Describes the commands `manager`, `worker`, `job`, `schedule`, `rule` and `notify`."""

import argparse
from typing import TYPE_CHECKING

from harvester.cli.harvest_parser import add_protocol
from manager.schedule_options import add_plan_options
from oai.cli import add_command, add_group
from oai.command_parser import bigint, count, name_or_number, number
from provider.export.parser import add_exports

if TYPE_CHECKING:
    from oai.cli import Subcommands
    from oai.command_parser import CommandParser

_NOTICES = "manager.notices.commands:"
_OCCASIONS = ("error", "change", "always", "daily", "weekly")
_LANGUAGES = ("en", "cs", "sk")
_JOBS = "manager.job_commands:"
_RULES = "manager.rule_commands:"
_RULE_KINDS = ("filter", "normalise")
_RULE_HELP = "number or name of a rule"
_SCHEDULES = "manager.schedule_commands:"
_PROGRAMS = "manager.commands:"
_AUDITS = "manager.store_audit_commands:"


def _add_notify(commands: "Subcommands") -> None:
    """Add `notify`."""
    notify = add_group(
        commands,
        "notify",
        help="manage notification rules: who is notified when harvests fail, change something, or end",
    )
    _add_adding(_notify(notify, "add", help="add a notification rule", handler="add_rule"))
    _notify(notify, "list", help="list notification rules", handler="list_rules")
    for name, text, handler in (
        ("remove", "remove a notification rule", "remove_rule"),
        ("test", "send a test message to the recipients of a rule now", "try_rule"),
        ("replace-key", "replace the signing key of a webhook; for a while, both are used", "replace_key"),
        ("resend", "send new links to the addresses of a rule that are not confirmed", "resend_links"),
        ("confirm", "confirm the addresses of a rule that a partner has entered", "confirm_addresses"),
    ):
        command = _notify(notify, name, help=text, handler=handler)
        command.add_argument("rule_id", type=int, metavar="RULE_ID", help="number of the rule")
    sent = _notify(notify, "sent", help="list sent and waiting notifications", handler="list_sent")
    _add_limit(sent)
    sent.add_argument("--report", type=bigint, metavar="N", help="all of those in report N")
    _add_mutes(notify)


def _add_limit(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--limit", type=count, default=50, metavar="N", help="number of rows (default: %(default)s)"
    )


def _add_mutes(notify: "Subcommands") -> None:
    """Add `notify mute`, `mutes`, `unmute` and `acknowledge`."""
    add = _notify(notify, "mute", help="send nothing about a repository or all for a time", handler="mute")
    add.add_argument("--repository", type=int, metavar="ID", help="only this repository (default: all)")
    add.add_argument(
        "--hours", type=number(float, 0, 10**6), default=4, help="for this long (default: %(default)s)"
    )
    add.add_argument("--note", required=True, metavar="TEXT", help="why, for others who see it")
    add.add_argument("--maintenance", action="store_true", help="and begin no harvest meanwhile")
    shown = _notify(notify, "mutes", help="list what is acknowledged, muted or maintained", handler="mutes")
    shown.add_argument("--past", action="store_true", help="include those that are over")
    end = _notify(notify, "unmute", help="end a mute now", handler="unmute")
    end.add_argument("mute_id", type=int, metavar="MUTE_ID", help="number of the mute")
    known = _notify(
        notify,
        "acknowledge",
        help="fold a failed run away until its harvest succeeds or fails for another reason",
        handler="acknowledge",
    )
    known.add_argument("history_id", type=bigint, metavar="RUN_ID", help="number of the run")
    known.add_argument("--note", default="", metavar="TEXT", help="what is known of it")


def _notify(group: "Subcommands", name: str, *, help: str, handler: str) -> argparse.ArgumentParser:  # noqa: A002 argparse's own word
    return add_command(group, name, help=help, handler=_NOTICES + handler)


def _add_adding(add: argparse.ArgumentParser) -> None:
    add.add_argument(
        "--mail", action="append", metavar="ADDRESS", help="e-mail address to notify; may be repeated"
    )
    add.add_argument("--webhook", metavar="URL", help="web address for signed POST requests")
    add.add_argument("--service", metavar="NAME", help="chat or push service of `manager.services`")
    add.add_argument("--repository", type=int, metavar="ID", help="only for this repository (default: all)")
    add.add_argument("--schedule", type=int, metavar="ID", help="only for harvests of this schedule")
    add.add_argument(
        "--on",
        choices=_OCCASIONS,
        default="error",
        help="error: when a harvest starts failing and when it works again; change: also each harvest "
        "that changed something; always: each harvest; daily, weekly: one summary "
        "instead (default: %(default)s)",
    )
    add.add_argument(
        "--language", choices=_LANGUAGES, default="en", help="language of the messages (default: %(default)s)"
    )


def add_job_commands(job: "Subcommands") -> None:
    """Add the subcommands for jobs and for the runs that they produce."""
    _add_listings(job)
    _add_errors(job)
    _add_controls(job)
    _add_changes(job)
    _add_wait(job)


def _add_listings(job: "Subcommands") -> None:
    listing = add_command(job, "list", help="list waiting and running jobs", handler=f"{_JOBS}list_jobs")
    history = add_command(job, "history", help="list finished harvests", handler=f"{_JOBS}list_history")
    show = add_command(job, "show", help="show a job in detail", handler=f"{_JOBS}show_job")
    show.add_argument("job_id", type=int, metavar="ID", help="number of the job")
    history.add_argument(
        "history_id", type=bigint, nargs="?", metavar="RUN", help="everything about this run"
    )
    for parser in (listing, history):
        parser.add_argument("--repository", type=int, metavar="ID", help="only of this repository")
    _add_limit(history)
    history.add_argument("--before", type=bigint, metavar="ID", help="only rows older than this one")


def _add_errors(job: "Subcommands") -> None:
    errors = add_command(
        job, "errors", help="list rejected records with the reasons",
        handler="harvester.cli.store:list_errors",
    )  # fmt: skip
    errors.add_argument("history_id", type=bigint, nargs="?", metavar="HISTORY_ID", help="only of this run")
    errors.add_argument("--repository", type=int, metavar="ID", help="only of this repository")
    errors.add_argument(
        "--all", action="store_true", help="include records that were stored successfully later"
    )
    errors.add_argument(
        "--raw", type=bigint, metavar="N", help="write the bytes of record N as they were received"
    )


def _add_controls(job: "Subcommands") -> None:
    remove = add_command(
        job, "remove", help="remove a job; a running harvest is ended first", handler=f"{_JOBS}remove_job"
    )
    remove.add_argument("job_id", type=int, metavar="ID", help="number of the job")
    for name, text in (
        ("run", "run a lost harvest again now, without waiting for its next try"),
        ("pause", "pause a job; a running harvest stops after its page and can be resumed"),
        ("resume", "resume a paused job where it stopped, or check a rejected one again"),
        ("stop", "stop a harvest after its page; the next one resumes there"),
        ("kill", "kill a harvest at once; committed records are kept"),
    ):
        command = add_command(job, name, help=text, handler=f"{_JOBS}change_job")
        command.set_defaults(change=name)
        command.add_argument("job_id", type=int, metavar="ID", help="number of the job")


def _add_changes(job: "Subcommands") -> None:
    changes = add_command(
        job,
        "changes",
        help="list changes in the store, for programs that follow them",
        handler="harvester.cli.store:changes",
    )
    changes.add_argument("--repository", type=int, metavar="ID", help="only of this repository")
    changes.add_argument(
        "--since", type=bigint, default=0, metavar="ID",
        help="only after this change (default: from the beginning)",
    )  # fmt: skip
    changes.add_argument("--run", type=bigint, metavar="HISTORY_ID", help="only of this run")
    release = add_command(
        job, "release", help="approve a run that the mass-change guard held",
        handler="harvester.cli.store:release",
    )  # fmt: skip
    release.add_argument("history_id", type=bigint, metavar="HISTORY_ID", help="number of the run")
    release.add_argument("--show", action="store_true", help="only show what the run would do")


def _add_wait(job: "Subcommands") -> None:
    wait = add_command(
        job,
        "wait",
        help="wait until a job has ended or a repository has no jobs, and return its exit code",
        handler="manager.job_commands:wait",
    )
    wait.add_argument("job_id", type=int, nargs="?", metavar="ID", help="number of the job")
    wait.add_argument(
        "--repository",
        type=int,
        metavar="ID",
        help="wait until no job of this repository is running or due; the exit code is that of its last run",
    )
    wait.add_argument(
        "--timeout", type=float, metavar="S", help="give up after this many seconds with exit code 75"
    )


def add_rule_commands(rule: "Subcommands") -> None:
    """Add the subcommands for rule files."""
    _add_looks(rule)
    _add_rule_changes(rule)
    _add_checks(rule)
    _add_replay(rule)


def _add_looks(rule: "Subcommands") -> None:
    listing = add_command(
        rule, "list", help="list rules with their latest versions", handler=f"{_RULES}list_all"
    )
    listing.add_argument("--kind", choices=_RULE_KINDS, help="only of this kind")
    show = add_command(
        rule, "show", help="show a rule: where it is used, and its file", handler=f"{_RULES}show"
    )
    _add_rule(show)
    show.add_argument("--version", type=int, metavar="N", help="version to show")
    versions = add_command(
        rule,
        "versions",
        help="list the versions of a rule with their changes",
        handler=f"{_RULES}list_versions",
    )
    _add_rule(versions)
    versions.add_argument("--diff", action="store_true", help="show the differences between the versions")
    examples = add_command(
        rule, "examples", help="list example rules, or print one", handler=f"{_RULES}show_examples"
    )
    examples.add_argument("key", metavar="EXAMPLE", nargs="?", help="example to print")


def _add_rule_changes(rule: "Subcommands") -> None:
    add = add_command(rule, "add", help="add a rule file", handler=f"{_RULES}add")
    add.add_argument("name", metavar="NAME", help="name of the rule")
    add.add_argument("file", metavar="FILE", nargs="?", help="the rules as XML; `-` for standard input")
    add.add_argument("--example", metavar="EXAMPLE", help="start from an example instead of a file")
    add.add_argument(
        "--repository", type=int, metavar="ID",
        help="repository that the rule belongs to (default: none, for all repositories)",
    )  # fmt: skip
    add.add_argument("--description", default="", metavar="TEXT", help="description of the rule")
    add.add_argument("--note", default="", metavar="TEXT", help="comment on this version")
    edit = add_command(rule, "edit", help="save a new version of a rule", handler=f"{_RULES}edit")
    _add_rule(edit)
    edit.add_argument(
        "file", metavar="FILE", nargs="?",
        help="the rules as XML, `-` for standard input (default: the current contents of the rule's file)",
    )  # fmt: skip
    edit.add_argument("--restore", type=int, metavar="N", help="restore this version")
    edit.add_argument("--note", default="", metavar="TEXT", help="comment on this version")
    remove = add_command(
        rule, "remove", help="stop managing a rule; its file stays", handler=f"{_RULES}remove"
    )
    _add_rule(remove)


def _add_checks(rule: "Subcommands") -> None:
    check = add_command(
        rule, "check", help="check a rule file and report its errors",
        handler=f"{_RULES}check",
    )  # fmt: skip
    _add_rule(check, "RULE|FILE", f"{_RULE_HELP}, or a file")
    attempt = add_command(
        rule, "try", help="test a rule on stored records or on a repository's first page",
        handler=f"{_RULES}attempt",
    )  # fmt: skip
    _add_rule(attempt, "RULE|FILE", f"{_RULE_HELP}, or a file")
    attempt.add_argument("--repository", type=int, metavar="ID", help="stored records of this repository")
    attempt.add_argument(
        "--live", type=name_or_number, metavar="URL|ID", help="first page of this repository"
    )
    attempt.add_argument("--format", default="", metavar="PREFIX", help="metadataPrefix")
    attempt.add_argument(
        "--set", "--query", default="", metavar="SPEC",
        help="setSpec, with --live; for SRU a CQL query, for Z39.50 a PQF query",
    )  # fmt: skip
    add_protocol(attempt)
    attempt.add_argument(
        "--records", type=count, default=100, metavar="N", help="number of sample records (default: 100)"
    )
    attempt.add_argument(
        "--shown", type=int, default=3, metavar="N", help="samples shown for each result (default: 3)"
    )
    attempt.add_argument(
        "--seconds", type=float, default=60, metavar="S", help="maximum seconds (default: 60)"
    )


def _add_replay(rule: "Subcommands") -> None:
    replay = add_command(
        rule, "replay", help="preview or apply rules to a run's stored answers",
        handler=f"{_RULES}replay",
    )  # fmt: skip
    replay.add_argument("run", type=bigint, metavar="HISTORY_ID", help="run whose raw answers were stored")
    for name in ("filter", "normalise"):
        replay.add_argument(
            f"--{name}", metavar="RULE|FILE",
            help="rules to apply, or `none` (without --filter and --normalise: the current rules of "
            "the run's schedule)",
        )  # fmt: skip
    replay.add_argument("--apply", action="store_true", help="apply the rules after the preview")


def _add_rule(parser: argparse.ArgumentParser, metavar: str = "RULE", text: str = _RULE_HELP) -> None:
    parser.add_argument("rule", type=name_or_number, metavar=metavar, help=text)


def add_schedule_commands(schedule: "Subcommands") -> None:
    """Add the subcommands for schedules."""
    add = add_command(
        schedule, "add", help="plan harvests of a repository", handler=f"{_SCHEDULES}add_schedule"
    )
    add.add_argument("repository_id", type=int, metavar="REPOSITORY_ID", help="number of the repository")
    add.add_argument(
        "--dry-run",
        action="store_true",
        help="show when it would run, how long, and what else runs then, without adding it",
    )
    add_plan_options(add, with_defaults=True)
    listing = add_command(schedule, "list", help="list schedules", handler=f"{_SCHEDULES}list_schedules")
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
        command = add_command(schedule, name, help=text, handler=f"{_SCHEDULES}{name}_schedule")
        command.add_argument("recurring_id", type=int, metavar="ID", help="number of the schedule")
        if name == "sample":
            command.add_argument(
                "--records", type=count, default=100, metavar="N", help="how many (default: %(default)s)"
            )
        if name == "edit":
            add_plan_options(command, with_defaults=False)


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
    _add_notify(commands)


def add_store_audits(store: "Subcommands") -> None:
    """Add `store audit`: the audits that workers run."""
    audit = add_group(store, "audit", help="audit stores by workers, now or on a schedule")
    listing = _audit(audit, "list", help="list audits with what they found", handler="list_audits")
    listing.add_argument("--repository", type=int, metavar="ID", help="only of this repository")
    _add_limit(listing)
    show = _audit(audit, "show", help="show an audit and its first findings", handler="show_audit")
    show.add_argument("audit_id", type=bigint, metavar="AUDIT", help="number of the audit")
    run = _audit(audit, "run", help="queue an audit of a repository's store now", handler="queue_audit")
    run.add_argument("repository", type=int, metavar="REPOSITORY", help="number of the repository")
    _add_audit_schedules(add_group(audit, "schedule", help="manage the schedules of audits"))


def _add_audit_schedules(schedule: "Subcommands") -> None:
    _audit(schedule, "list", help="list the schedules of audits", handler="list_schedules")
    wanted = _audit(
        schedule,
        "set",
        help="set how often a store is audited; replaces its schedule",
        handler="set_schedule",
    )
    wanted.add_argument(
        "repository",
        type=int,
        nargs="?",
        metavar="REPOSITORY",
        help="number of the repository (default: all without a schedule of their own)",
    )
    wanted.add_argument(
        "--frequency",
        required=True,
        metavar="TEXT",
        help="such as `weekly on saturday at 02:00`, `every 6 hours`, or a cron expression",
    )
    wanted.add_argument(
        "--time-zone", default="UTC", metavar="ZONE", help="IANA time zone (default: %(default)s)"
    )
    remove = _audit(
        schedule, "remove", help="remove a schedule of audits; its audits stay", handler="remove_schedule"
    )
    remove.add_argument("schedule_id", type=int, metavar="SCHEDULE", help="number of the schedule")


def _audit(group: "Subcommands", name: str, *, help: str, handler: str) -> argparse.ArgumentParser:  # noqa: A002 as above
    return add_command(group, name, help=help, handler=_AUDITS + handler)


def add_prepared_exports(provider: "Subcommands") -> None:
    """Add `provider exports`: files that workers prepare for download."""
    exports = add_group(provider, "exports", help="manage WARC and WACZ files prepared for download")
    add_exports(exports, "manager.export_commands")


def add_queue_option(index: argparse.ArgumentParser) -> None:
    """Add `--queue` to `provider index`; with this option the command is handled by this package."""
    index.add_argument(
        "--queue",
        dest="handler",
        action="store_const",
        const="manager.index_queue:queue_index",
        help="queue the files for workers, on any machine that sees them at the same paths",
    )


def _add(commands: "Subcommands", name: str, *, help: str, handler: str) -> "CommandParser":  # noqa: A002 argparse's own word
    return add_command(commands, name, help=help, handler=_PROGRAMS + handler)


def _add_concurrency(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--concurrency", type=count, metavar="N", help="maximum concurrent harvests (default: the setting)"
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

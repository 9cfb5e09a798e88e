"""The commands of the rule lab, described; their handlers are in `rule_commands.py` and `rule_trials.py`."""

import argparse
from typing import TYPE_CHECKING

from harvester.cli_options import add_protocol
from oai.cli import add_command

if TYPE_CHECKING:
    from oai.cli import Subcommands

_CHANGES = "manager.rule_commands:"
_TRIALS = "manager.rule_trials:"
_KINDS = ("filter", "normalise")
_RULE_HELP = "number or name of a rule"


def add_rule_commands(rule: "Subcommands") -> None:
    """Add what can be done with rule files."""
    _add_looks(rule)
    _add_changes(rule)
    _add_checks(rule)
    _add_replay(rule)


def _add_looks(rule: "Subcommands") -> None:
    listing = add_command(
        rule, "list", help="list rules with their latest versions", handler=f"{_CHANGES}list_all"
    )
    listing.add_argument("--kind", choices=_KINDS, help="only of this kind")
    show = add_command(
        rule, "show", help="show a rule: where it is used, and its file", handler=f"{_CHANGES}show"
    )
    _add_rule(show)
    show.add_argument("--version", type=int, metavar="N", help="version to show")
    versions = add_command(
        rule,
        "versions",
        help="list the versions of a rule with their changes",
        handler=f"{_CHANGES}list_versions",
    )
    _add_rule(versions)
    versions.add_argument("--diff", action="store_true", help="show the differences between the versions")
    examples = add_command(
        rule, "examples", help="list example rules, or print one", handler=f"{_CHANGES}show_examples"
    )
    examples.add_argument("key", metavar="EXAMPLE", nargs="?", help="example to print")


def _add_changes(rule: "Subcommands") -> None:
    add = add_command(rule, "add", help="add a rule file", handler=f"{_CHANGES}add")
    add.add_argument("name", metavar="NAME")
    add.add_argument("file", metavar="FILE", nargs="?", help="the rules as XML; `-` for standard input")
    add.add_argument("--example", metavar="EXAMPLE", help="start from an example instead of a file")
    add.add_argument(
        "--repository",
        type=int,
        metavar="ID",
        help="repository that the rule belongs to (default: none, for all repositories)",
    )
    add.add_argument("--description", default="", metavar="TEXT", help="description of the rule")
    add.add_argument("--note", default="", metavar="TEXT", help="comment on this version")
    edit = add_command(rule, "edit", help="save a new version of a rule", handler=f"{_CHANGES}edit")
    _add_rule(edit)
    edit.add_argument(
        "file", metavar="FILE", nargs="?",
        help="the rules as XML, `-` for standard input (default: the current contents of the rule's file)",
    )  # fmt: skip
    edit.add_argument("--restore", type=int, metavar="N", help="restore this version")
    edit.add_argument("--note", default="", metavar="TEXT", help="comment on this version")
    remove = add_command(
        rule, "remove", help="stop managing a rule; its file stays", handler=f"{_CHANGES}remove"
    )
    _add_rule(remove)


def _add_checks(rule: "Subcommands") -> None:
    check = add_command(
        rule, "check", help="check a rule file and report its errors",
        handler=f"{_TRIALS}check",
    )  # fmt: skip
    check.add_argument("rule", metavar="RULE|FILE", help=f"{_RULE_HELP}, or a file")
    attempt = add_command(
        rule, "try", help="test a rule on stored records or on a repository's first page",
        handler=f"{_TRIALS}attempt",
    )  # fmt: skip
    attempt.add_argument("rule", metavar="RULE|FILE", help=f"{_RULE_HELP}, or a file")
    attempt.add_argument("--repository", type=int, metavar="ID", help="stored records of this repository")
    attempt.add_argument("--live", metavar="URL|ID", help="first page of this repository")
    attempt.add_argument("--format", default="", metavar="PREFIX", help="metadataPrefix")
    attempt.add_argument(
        "--set", "--query", default="", metavar="SPEC",
        help="setSpec, with --live; for SRU a CQL query, for Z39.50 a PQF query",
    )  # fmt: skip
    add_protocol(attempt)
    attempt.add_argument(
        "--records", type=int, default=100, metavar="N", help="number of sample records (default: 100)"
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
        handler=f"{_TRIALS}replay",
    )  # fmt: skip
    replay.add_argument("run", type=int, metavar="HISTORY_ID", help="run whose raw answers were stored")
    for name in ("filter", "normalise"):
        replay.add_argument(
            f"--{name}", metavar="RULE|FILE",
            help="rules to apply, or `none` (without --filter and --normalise: the current rules of "
            "the run's schedule)",
        )  # fmt: skip
    replay.add_argument("--apply", action="store_true", help="apply the rules after the preview")


def _add_rule(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("rule", metavar="RULE", help=_RULE_HELP)

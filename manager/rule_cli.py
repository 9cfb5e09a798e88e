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
        rule, "list", help="list rules with their last versions", handler=f"{_CHANGES}list_all"
    )
    listing.add_argument("--kind", choices=_KINDS, help="of this kind only")
    show = add_command(rule, "show", help="show a rule: who uses it, and its file", handler=f"{_CHANGES}show")
    _add_rule(show)
    show.add_argument("--version", type=int, metavar="N", help="as it was in this version")
    versions = add_command(
        rule,
        "versions",
        help="list a rule's versions, with what each changed",
        handler=f"{_CHANGES}list_versions",
    )
    _add_rule(versions)
    versions.add_argument("--diff", action="store_true", help="show what each changed")
    examples = add_command(
        rule, "examples", help="list ready examples, or print one", handler=f"{_CHANGES}show_examples"
    )
    examples.add_argument("key", metavar="EXAMPLE", nargs="?", help="print this one")


def _add_changes(rule: "Subcommands") -> None:
    add = add_command(rule, "add", help="look after a rule file", handler=f"{_CHANGES}add")
    add.add_argument("name", metavar="NAME")
    add.add_argument("file", metavar="FILE", nargs="?", help="the rules as XML; `-` for standard input")
    add.add_argument("--example", metavar="EXAMPLE", help="begin with a ready example instead of a file")
    add.add_argument("--repository", type=int, metavar="ID", help="whose it is (default: everybody's)")
    add.add_argument("--description", default="", metavar="TEXT", help="what it is for")
    add.add_argument("--note", default="", metavar="TEXT", help="what this version is")
    edit = add_command(rule, "edit", help="save a new version of a rule", handler=f"{_CHANGES}edit")
    _add_rule(edit)
    edit.add_argument(
        "file", metavar="FILE", nargs="?",
        help="the rules as XML, `-` for standard input (default: what the rule's own file holds by now)",
    )  # fmt: skip
    edit.add_argument("--restore", type=int, metavar="N", help="let this version be in force again")
    edit.add_argument("--note", default="", metavar="TEXT", help="what this version is")
    remove = add_command(
        rule, "remove", help="look after a rule no longer; its file stays", handler=f"{_CHANGES}remove"
    )
    _add_rule(remove)


def _add_checks(rule: "Subcommands") -> None:
    check = add_command(
        rule, "check", help="say whether a rule file can be used, or where it is at fault",
        handler=f"{_TRIALS}check",
    )  # fmt: skip
    check.add_argument("rule", metavar="RULE|FILE", help=f"{_RULE_HELP}, or a file")
    attempt = add_command(
        rule, "try", help="try a rule on stored records, or on a repository's first page",
        handler=f"{_TRIALS}attempt",
    )  # fmt: skip
    attempt.add_argument("rule", metavar="RULE|FILE", help=f"{_RULE_HELP}, or a file")
    attempt.add_argument("--repository", type=int, metavar="ID", help="on its stored records")
    attempt.add_argument("--live", metavar="URL|ID", help="on the first page of this repository")
    attempt.add_argument("--format", default="", metavar="PREFIX", help="metadataPrefix")
    attempt.add_argument(
        "--set", "--query", default="", metavar="SPEC",
        help="setSpec, with --live; of SRU a query in CQL, of Z39.50 one in PQF",
    )  # fmt: skip
    add_protocol(attempt)
    attempt.add_argument("--records", type=int, default=100, metavar="N", help="samples (default: 100)")
    attempt.add_argument("--shown", type=int, default=3, metavar="N", help="shown of each fate (default: 3)")
    attempt.add_argument("--seconds", type=float, default=60, metavar="S", help="longest time (default: 60)")


def _add_replay(rule: "Subcommands") -> None:
    replay = add_command(
        rule, "replay", help="tell what changed rules would do with a run's kept answers, or do it",
        handler=f"{_TRIALS}replay",
    )  # fmt: skip
    replay.add_argument("run", type=int, metavar="HISTORY_ID", help="a run whose raw answers were kept")
    for name in ("filter", "normalise"):
        replay.add_argument(
            f"--{name}", metavar="RULE|FILE",
            help="with this one, or `none` (without both options: as the run's schedule has them now)",
        )  # fmt: skip
    replay.add_argument("--apply", action="store_true", help="do it, after telling")


def _add_rule(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("rule", metavar="RULE", help=_RULE_HELP)

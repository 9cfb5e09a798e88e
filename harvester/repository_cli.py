"""`zatva probe` and `zatva repository`, described."""

from typing import TYPE_CHECKING

from harvester.cli_options import add_manners, add_protocol
from oai.cli import add_command, add_group

if TYPE_CHECKING:
    from argparse import ArgumentParser

    from oai.cli import Subcommands


def add_probe(commands: "Subcommands") -> None:
    """Add `zatva probe`."""
    probe = add_command(
        commands,
        "probe",
        help="look at any repository: who it is, what it offers, what is odd about it",
        handler="harvester.probe_commands:probe_repository",
    )
    probe.add_argument("url", metavar="URL", help="base URL")
    add_protocol(probe)
    probe.add_argument(
        "--set", "--query", default="", metavar="SPEC", help="setSpec, or query in CQL or PQF, of the records"
    )
    add_manners(probe)


def add_repository(commands: "Subcommands") -> None:
    """Add `zatva repository`."""
    group = add_group(commands, "repository", help="the repositories that are harvested")
    add = add_command(
        group,
        "add",
        help="ask a repository who it is, and add it",
        handler="harvester.repository_commands:repository_add",
    )
    add.add_argument("url", metavar="URL", help="base URL")
    add.add_argument(
        "dir", metavar="DIR", nargs="?", help="folder for its files (default: named after the host)"
    )
    add_protocol(add)
    add_command(
        group, "list", help="list the repositories", handler="harvester.repository_commands:repository_list"
    )
    for name, what in (
        ("show", "show one repository with its sets and formats"),
        ("remove", "remove a repository and its rows; its files stay"),
        ("refresh", "ask a repository again for its identity, sets and formats"),
    ):
        one = add_command(group, name, help=what, handler=f"harvester.repository_commands:repository_{name}")
        one.add_argument("id", metavar="ID", type=int, help="the repository's number")
    _add_edit(group)
    _add_doctor(group)
    _add_policy(group)


def _add_edit(group: "Subcommands") -> None:
    edit = add_command(
        group,
        "edit",
        help="change what is given; an empty value takes an option back, as in `--name ''`; its folder stays",
        handler="harvester.repository_commands:repository_edit",
    )
    edit.add_argument("id", metavar="ID", type=int, help="the repository's number")
    edit.add_argument(
        "--name", dest="repository_name", metavar="NAME", help="its name; empty: as it calls itself"
    )
    edit.add_argument("--url", dest="base_url", metavar="URL", help="base URL, where it has moved to")
    _add_policy_options(edit)


def _add_doctor(group: "Subcommands") -> None:
    doctor = add_command(
        group,
        "doctor",
        help="examine how a repository behaves, and how it is best harvested",
        handler="harvester.doctor_commands:examine_repository",
    )
    doctor.add_argument("which", metavar="ID|URL", help="the repository's number, or any base URL")
    doctor.add_argument(
        "--letter", action="store_true", help="print a letter to the repository's administrator instead"
    )
    doctor.add_argument(
        "--last", action="store_true", help="show the last examination of that number, without asking anew"
    )


def _add_policy(group: "Subcommands") -> None:
    policy = add_command(
        group,
        "policy",
        help="what becomes of deleted records, and how much one run may do without a yes",
        handler="harvester.repository_commands:repository_policy",
    )
    policy.add_argument("id", metavar="ID", type=int, help="the repository's number")
    _add_policy_options(policy)


def _add_policy_options(parser: "ArgumentParser") -> None:
    parser.add_argument(
        "--deletions",
        dest="deletion_policy",
        choices=("remove", "mark", "move"),
        help="what becomes of a deleted record's file",
    )
    parser.add_argument(
        "--brake-deletions",
        metavar="PERCENT",
        help="share of the records that a run may delete; `default`: as set",
    )
    parser.add_argument(
        "--brake-updates",
        metavar="PERCENT",
        help="share of the records that a run may change; `default`: as set",
    )

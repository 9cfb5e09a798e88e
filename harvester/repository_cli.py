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
        help="probe a repository: its identity, formats, sets and problems",
        handler="harvester.probe_commands:probe_repository",
    )
    probe.add_argument("url", metavar="URL", help="base URL")
    add_protocol(probe)
    probe.add_argument(
        "--set", "--query", default="", metavar="SPEC", help="setSpec, or CQL or PQF query, of the records"
    )
    add_manners(probe)


def add_repository(commands: "Subcommands") -> None:
    """Add `zatva repository`."""
    group = add_group(commands, "repository", help="manage the repositories to harvest")
    add = add_command(
        group,
        "add",
        help="identify a repository and add it",
        handler="harvester.repository_commands:repository_add",
    )
    add.add_argument("url", metavar="URL", help="base URL")
    add.add_argument(
        "dir", metavar="DIR", nargs="?", help="folder for its files (default: named after the host)"
    )
    add_protocol(add)
    add_command(
        group, "list", help="list repositories", handler="harvester.repository_commands:repository_list"
    )
    for name, what in (
        ("show", "show a repository with its sets and formats"),
        ("remove", "remove a repository and its database rows; its files stay"),
        ("refresh", "update the identity, sets and formats of a repository"),
    ):
        one = add_command(group, name, help=what, handler=f"harvester.repository_commands:repository_{name}")
        one.add_argument("id", metavar="ID", type=int, help="number of the repository")
    _add_edit(group)
    _add_doctor(group)
    _add_policy(group)


def _add_edit(group: "Subcommands") -> None:
    edit = add_command(
        group,
        "edit",
        help="change the given options; an empty value resets an option, as in `--name ''`; the folder stays",
        handler="harvester.repository_commands:repository_edit",
    )
    edit.add_argument("id", metavar="ID", type=int, help="number of the repository")
    edit.add_argument(
        "--name",
        dest="repository_name",
        metavar="NAME",
        help="display name; empty: the name that the repository declares",
    )
    edit.add_argument("--url", dest="base_url", metavar="URL", help="new base URL")
    _add_policy_options(edit)


def _add_doctor(group: "Subcommands") -> None:
    doctor = add_command(
        group,
        "doctor",
        help="diagnose a repository and recommend how to harvest it",
        handler="harvester.doctor_commands:examine_repository",
    )
    doctor.add_argument("which", metavar="ID|URL", help="number of a repository, or any base URL")
    doctor.add_argument(
        "--letter", action="store_true", help="print a letter to the repository's administrator instead"
    )
    doctor.add_argument(
        "--last", action="store_true", help="show the repository's last diagnostics without new requests"
    )


def _add_policy(group: "Subcommands") -> None:
    policy = add_command(
        group,
        "policy",
        help="set what happens to deleted records, and the limits of the mass-change guard",
        handler="harvester.repository_commands:repository_policy",
    )
    policy.add_argument("id", metavar="ID", type=int, help="number of the repository")
    _add_policy_options(policy)


def _add_policy_options(parser: "ArgumentParser") -> None:
    parser.add_argument(
        "--deletions",
        dest="deletion_policy",
        choices=("remove", "mark", "move"),
        help="what happens to a deleted record's file",
    )
    parser.add_argument(
        "--brake-deletions",
        metavar="PERCENT",
        help="mass-change guard: percentage of the records that a run may delete; `default`: the setting",
    )
    parser.add_argument(
        "--brake-updates",
        metavar="PERCENT",
        help="mass-change guard: percentage of the records that a run may change; `default`: the setting",
    )

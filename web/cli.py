"""Declarations of the dashboard's commands; their handlers are in `*commands.py` and `serving.py`."""

from typing import TYPE_CHECKING

from oai.cli import add_command, add_group

if TYPE_CHECKING:
    import argparse

    from oai.cli import Subcommands

_HANDLERS = "web.admin.commands:"
_ROLES = ("viewer", "partner", "curator", "administrator")
_SCOPES = ("read", "harvest", "archive", "admin")


def add_commands(commands: "Subcommands") -> None:
    """Add `web serve` and the commands for users, organisations and API tokens."""
    web = add_group(commands, "web", help="the dashboard")
    serve = add_command(web, "serve", help="start the dashboard", handler="web.serving:serve")
    serve.add_argument("--host", default="127.0.0.1", help="address to listen on (default: %(default)s)")
    serve.add_argument("--port", type=int, default=8090, help="port, 0 for any (default: %(default)s)")
    _add_user_commands(add_group(commands, "user", help="users of the dashboard"))
    _add_organisation_commands(
        add_group(commands, "organisation", help="organisations that own repositories")
    )
    _add_token_commands(add_group(commands, "token", help="API tokens"))


def _add_user_commands(user: "Subcommands") -> None:
    add = add_command(user, "add", help="add a user", handler=f"{_HANDLERS}user_add")
    _add_what_a_user_is(add)
    invite = add_command(
        user,
        "invite",
        help="add a user, unless the name exists, and print an invitation link that asks for a password",
        handler=f"{_HANDLERS}invite",
    )
    _add_what_a_user_is(invite)
    _add_base_url(invite)
    link = add_command(user, "link", help="print a one-time sign-in link", handler=f"{_HANDLERS}link")
    link.add_argument("name", metavar="NAME", help="name of the user")
    _add_base_url(link)
    role = add_command(user, "role", help="change a user's role", handler=f"{_HANDLERS}role")
    role.add_argument("name", metavar="NAME", help="name of the user")
    role.add_argument("role", choices=_ROLES, help="new role")
    role.add_argument(
        "--organisation", metavar="SHORT", help="short name of the organisation (default: none)"
    )
    for name, text, handler in (
        ("disable", "disable a user", "disable"),
        ("enable", "enable a user", "enable"),
        (
            "reset-second-factor",
            "let a user who has lost the second factor sign in without it",
            "reset_second_factor",
        ),
    ):
        command = add_command(user, name, help=text, handler=f"{_HANDLERS}{handler}")
        command.add_argument("name", metavar="NAME", help="name of the user")
    add_command(user, "list", help="list users", handler=f"{_HANDLERS}user_show")


def _add_what_a_user_is(parser: "argparse.ArgumentParser") -> None:
    parser.add_argument("name", metavar="NAME", help="name of the user")
    parser.add_argument(
        "--role",
        choices=_ROLES,
        default="viewer",
        help=(
            "viewer: read only; partner: harvests for its organisation; curator: manages the "
            "archive; administrator: everything (default: %(default)s)"
        ),
    )
    parser.add_argument(
        "--organisation", metavar="SHORT", help="short name of the organisation; required for partners"
    )


def _add_base_url(parser: "argparse.ArgumentParser") -> None:
    parser.add_argument(
        "--base-url",
        metavar="URL",
        help="address of the dashboard (default: web.base_url, otherwise port 8090 of this machine)",
    )


def _add_organisation_commands(organisation: "Subcommands") -> None:
    add = add_command(organisation, "add", help="add an organisation", handler=f"{_HANDLERS}organisation_add")
    add.add_argument("short_name", metavar="SHORT", help="letters, digits, dots and hyphens, such as mzk")
    add.add_argument("--name", default="", help="full name (default: the short name)")
    give = add_command(
        organisation,
        "give",
        help="assign a repository to an organisation; rules and report card of the former one end",
        handler=f"{_HANDLERS}give",
    )
    give.add_argument("short_name", metavar="SHORT", help="short name, or - for the administrators")
    give.add_argument("repository", type=int, metavar="ID", help="number of the repository")
    remove = add_command(
        organisation,
        "remove",
        help="remove an organisation that has no users; its repositories then belong to the administrators",
        handler=f"{_HANDLERS}remove",
    )
    remove.add_argument("short_name", metavar="SHORT", help="short name of the organisation")
    limit = add_command(
        organisation, "limit", help="limit what an organisation may store", handler=f"{_HANDLERS}limit"
    )
    limit.add_argument("short_name", metavar="SHORT", help="short name of the organisation")
    limit.add_argument(
        "--records", metavar="NUMBER", help="records; 0: no limit, default: harvester.organisation_records"
    )
    limit.add_argument(
        "--gigabytes", metavar="NUMBER", help="gigabytes; 0: no limit, default: harvester.organisation_bytes"
    )
    add_command(organisation, "list", help="list organisations", handler=f"{_HANDLERS}organisation_show")


def _add_token_commands(token: "Subcommands") -> None:
    add = add_command(
        token, "add", help="create an API token for a user and print it", handler=f"{_HANDLERS}token_add"
    )
    add.add_argument("user", metavar="USER", help="name of the user")
    add.add_argument("name", metavar="NAME", help="purpose of the token")
    add.add_argument(
        "--scope",
        choices=_SCOPES,
        action="append",
        help="scope of the token, repeatable (default: read)",
    )
    add.add_argument(
        "--days", type=float, metavar="N", help="validity in days (default and maximum: web.token_days)"
    )
    listed = add_command(token, "list", help="list API tokens", handler=f"{_HANDLERS}token_show")
    listed.add_argument("--user", metavar="USER", help="only tokens of this user")
    revoke = add_command(token, "revoke", help="revoke an API token", handler=f"{_HANDLERS}revoke")
    revoke.add_argument("token_id", type=int, metavar="ID", help="number of the token")

"""The dashboard's commands, described; their handlers are in `*commands.py` and `serving.py`."""

from typing import TYPE_CHECKING

from oai.cli import add_command, add_group

if TYPE_CHECKING:
    import argparse

    from oai.cli import Subcommands

_ROLES = ("viewer", "partner", "curator", "administrator")
_SCOPES = ("read", "harvest", "archive", "admin")


def add_commands(commands: "Subcommands") -> None:
    """Add `web serve` and the commands for users, organisations and API tokens."""
    web = add_group(commands, "web", help="the dashboard")
    serve = add_command(web, "serve", help="run the dashboard", handler="web.serving:serve")
    serve.add_argument("--host", default="127.0.0.1", help="address to listen on (default: %(default)s)")
    serve.add_argument("--port", type=int, default=8090, help="port, 0 for any (default: %(default)s)")
    _add_user_commands(add_group(commands, "user", help="the dashboard's users"))
    _add_organisation_commands(add_group(commands, "organisation", help="whose repositories they are"))
    _add_token_commands(add_group(commands, "token", help="API tokens"))


def _add_user_commands(user: "Subcommands") -> None:
    add = add_command(user, "add", help="add a user", handler="web.commands:add")
    _add_what_a_user_is(add)
    invite = add_command(
        user,
        "invite",
        help="add a user where there is none of that name, and print a link that asks for a password",
        handler="web.commands:invite",
    )
    _add_what_a_user_is(invite)
    _add_base_url(invite)
    link = add_command(
        user, "link", help="print a link that signs the user in once", handler="web.commands:link"
    )
    link.add_argument("name", metavar="NAME")
    _add_base_url(link)
    role = add_command(user, "role", help="give a user another role", handler="web.commands:role")
    role.add_argument("name", metavar="NAME")
    role.add_argument("role", choices=_ROLES)
    role.add_argument("--organisation", metavar="SHORT", help="short name (default: none)")
    disable = add_command(user, "disable", help="let a user sign in no more", handler="web.commands:disable")
    disable.add_argument("name", metavar="NAME")
    enable = add_command(user, "enable", help="let a user sign in again", handler="web.commands:enable")
    enable.add_argument("name", metavar="NAME")
    add_command(user, "list", help="list the users", handler="web.commands:show")


def _add_what_a_user_is(parser: "argparse.ArgumentParser") -> None:
    parser.add_argument("name", metavar="NAME")
    parser.add_argument(
        "--role",
        choices=_ROLES,
        default="viewer",
        help="viewers look; partners harvest for their organisation; curators keep the archive; "
        "administrators do everything (default: %(default)s)",
    )
    parser.add_argument("--organisation", metavar="SHORT", help="short name; partners need one")


def _add_base_url(parser: "argparse.ArgumentParser") -> None:
    parser.add_argument("--base-url", metavar="URL", help="the dashboard's address, instead of web.base_url")


def _add_organisation_commands(organisation: "Subcommands") -> None:
    add = add_command(
        organisation, "add", help="add an organisation", handler="web.organisation_commands:add"
    )
    add.add_argument("short_name", metavar="SHORT", help="letters, digits, dots, hyphens, such as mzk")
    add.add_argument("--name", default="", help="name in full (default: the short name)")
    give = add_command(
        organisation,
        "give",
        help="let a repository belong to an organisation",
        handler="web.organisation_commands:give",
    )
    give.add_argument("short_name", metavar="SHORT", help="short name; - for the administrators")
    give.add_argument("repository", type=int, metavar="ID")
    remove = add_command(
        organisation,
        "remove",
        help="remove an organisation that has no users; its repositories become the administrators'",
        handler="web.organisation_commands:remove",
    )
    remove.add_argument("short_name", metavar="SHORT")
    add_command(organisation, "list", help="list the organisations", handler="web.organisation_commands:show")


def _add_token_commands(token: "Subcommands") -> None:
    add = add_command(
        token, "add", help="make a user's API token and print it, this once", handler="web.token_commands:add"
    )
    add.add_argument("user", metavar="USER")
    add.add_argument("name", metavar="NAME", help="what it is for")
    add.add_argument(
        "--scope",
        choices=_SCOPES,
        action="append",
        help="what it may be used for; give it again for more (default: read)",
    )
    add.add_argument(
        "--days", type=float, metavar="N", help="how long it is good (default: until it is revoked)"
    )
    listed = add_command(token, "list", help="list API tokens", handler="web.token_commands:show")
    listed.add_argument("--user", metavar="USER", help="of this user only")
    revoke = add_command(token, "revoke", help="revoke an API token", handler="web.token_commands:revoke")
    revoke.add_argument("token_id", type=int, metavar="ID")

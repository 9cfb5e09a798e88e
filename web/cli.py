"""The dashboard's commands, described; their handlers are in `commands.py` and `serving.py`."""

from typing import TYPE_CHECKING

from oai.cli import add_command, add_group

if TYPE_CHECKING:
    from oai.cli import Subcommands


def add_commands(commands: "Subcommands") -> None:
    """Add `web serve` and the commands for the dashboard's users."""
    web = add_group(commands, "web", help="the dashboard")
    serve = add_command(web, "serve", help="run the dashboard", handler="web.serving:serve")
    serve.add_argument("--host", default="127.0.0.1", help="address to listen on (default: %(default)s)")
    serve.add_argument("--port", type=int, default=8090, help="port, 0 for any (default: %(default)s)")
    user = add_group(commands, "user", help="the dashboard's users")
    add = add_command(user, "add", help="add a user", handler="web.commands:add")
    add.add_argument("name", metavar="NAME")
    add.add_argument(
        "--role",
        choices=("administrator", "viewer"),
        default="viewer",
        help="viewers look, administrators change things, too (default: %(default)s)",
    )
    link = add_command(
        user, "link", help="print a link that signs the user in once", handler="web.commands:link"
    )
    link.add_argument("name", metavar="NAME")
    link.add_argument("--base-url", metavar="URL", help="the dashboard's address, instead of web.base_url")
    add_command(user, "list", help="list the users", handler="web.commands:show")

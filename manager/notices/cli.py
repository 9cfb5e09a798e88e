"""`zatva notify`, described; its handlers are in `commands.py`."""

import argparse
from typing import TYPE_CHECKING

from oai.cli import add_command, add_group

if TYPE_CHECKING:
    from oai.cli import Subcommands

_HANDLERS = "manager.notices.commands:"
_KINDS = ("error", "change", "always", "daily", "weekly")
_LANGUAGES = ("en", "cs", "sk")


def add_commands(commands: "Subcommands") -> None:
    """Add `notify`."""
    notify = add_group(commands, "notify", help="who is told when harvests fail, change something, or end")
    _add_adding(_add(notify, "add", help="add a rule of who is told", handler="add_rule"))
    _add(notify, "list", help="list the rules", handler="list_rules")
    for name, text, handler in (
        ("remove", "remove a rule", "remove_rule"),
        ("test", "send a trial to a rule's recipients, now", "try_rule"),
    ):
        command = _add(notify, name, help=text, handler=handler)
        command.add_argument("rule_id", type=int, metavar="RULE_ID")
    sent = _add(notify, "sent", help="list what was sent, or is to be", handler="list_sent")
    sent.add_argument("--limit", type=int, default=50, metavar="N", help="how many (default: %(default)s)")


def _add(commands: "Subcommands", name: str, *, help: str, handler: str) -> argparse.ArgumentParser:  # noqa: A002 argparse's own word
    return add_command(commands, name, help=help, handler=_HANDLERS + handler)


def _add_adding(add: argparse.ArgumentParser) -> None:
    add.add_argument(
        "--mail", action="append", metavar="ADDRESS", help="write to this address; may be repeated"
    )
    add.add_argument("--webhook", metavar="URL", help="post to this web address, signed")
    add.add_argument("--repository", type=int, metavar="ID", help="only about this repository (default: all)")
    add.add_argument("--schedule", type=int, metavar="ID", help="only about harvests of this schedule")
    add.add_argument(
        "--on",
        choices=_KINDS,
        default="error",
        help="error: when it begins to fail and when it works again; change: also each harvest that changed"
        " something; always: also each other; daily, weekly: one summary instead (default: %(default)s)",
    )
    add.add_argument(
        "--language", choices=_LANGUAGES, default="en", help="of the words (default: %(default)s)"
    )

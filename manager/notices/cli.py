"""Argument parsers of `zatva notify`; the handlers are in `commands.py`."""

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
    notify = add_group(
        commands,
        "notify",
        help="manage notification rules: who is notified when harvests fail, change something, or end",
    )
    _add_adding(_add(notify, "add", help="add a notification rule", handler="add_rule"))
    _add(notify, "list", help="list notification rules", handler="list_rules")
    for name, text, handler in (
        ("remove", "remove a notification rule", "remove_rule"),
        ("test", "send a test message to the recipients of a rule now", "try_rule"),
    ):
        command = _add(notify, name, help=text, handler=handler)
        command.add_argument("rule_id", type=int, metavar="RULE_ID")
    sent = _add(notify, "sent", help="list sent and waiting notifications", handler="list_sent")
    sent.add_argument(
        "--limit", type=int, default=50, metavar="N", help="number of rows (default: %(default)s)"
    )


def _add(commands: "Subcommands", name: str, *, help: str, handler: str) -> argparse.ArgumentParser:  # noqa: A002 argparse's own word
    return add_command(commands, name, help=help, handler=_HANDLERS + handler)


def _add_adding(add: argparse.ArgumentParser) -> None:
    add.add_argument(
        "--mail", action="append", metavar="ADDRESS", help="e-mail address to notify; may be repeated"
    )
    add.add_argument("--webhook", metavar="URL", help="web address for signed POST requests")
    add.add_argument("--repository", type=int, metavar="ID", help="only for this repository (default: all)")
    add.add_argument("--schedule", type=int, metavar="ID", help="only for harvests of this schedule")
    add.add_argument(
        "--on",
        choices=_KINDS,
        default="error",
        help="error: when a harvest starts failing and when it works again; change: also each harvest "
        "that changed something; always: also every other harvest; daily, weekly: one summary "
        "instead (default: %(default)s)",
    )
    add.add_argument(
        "--language", choices=_LANGUAGES, default="en", help="language of the messages (default: %(default)s)"
    )

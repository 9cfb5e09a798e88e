"""`zatva settings`: every setting with its value and where that comes from."""

from dataclasses import asdict

from oai.cli import Invocation
from oai.settings_view import settings_in_effect


def show(invocation: Invocation) -> None:
    """Print the settings; with `--changed` only those that are not the defaults."""
    changed = invocation.arguments.changed
    rows = [asdict(one) for one in settings_in_effect(invocation.settings) if one.source or not changed]
    columns = {"name": "Setting", "value": "Value", "source": "From"}
    invocation.console.table(rows, columns, empty="all settings have their defaults")

"""Addresses of repositories as people type them, checked against the protocol that is to be spoken there."""

from typing import Final

from harvester.protocols import protocol_of
from harvester.repositories import check_base_url
from oai.errors import RemoteError, SettingsError, TryLaterError, UsageError
from web.words import _, told

UNASKED: Final = (RemoteError, TryLaterError, SettingsError)
"""What asking a repository raises where it does not answer, or cannot be asked from here."""


def usable_address(value: str, protocol: str | None = None) -> str:
    """The base URL. Raises ValueError that says how to write one."""
    try:
        return check_base_url(value, protocol_of(value, protocol))
    except UsageError as error:
        if protocol is not None:
            raise ValueError(told(error)) from None
        raise ValueError(
            _(
                "Write the whole address, such as https://library.example/oai, or z3950://library.example:210/books"
                " of a Z39.50 server."
            )
        ) from None

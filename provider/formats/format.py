"""What a metadata format is to the provider."""

from collections.abc import Callable
from dataclasses import dataclass

from provider.items import Item


@dataclass(frozen=True, kw_only=True)
class Format:
    """A metadata format: how it is called, and how an item is written in it."""

    prefix: str
    schema: str
    """URL of its XML Schema."""
    namespace: str
    write: Callable[[Item], str]
    """Gives one XML element in the format's namespace, with its own declarations, text escaped."""

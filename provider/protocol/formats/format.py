"""A metadata format's interface to the provider, and the facts about the repository that it may use."""

from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime
from functools import cache, cached_property, partial
from pathlib import Path
from typing import Final
from urllib.parse import quote, urljoin

from oai.datestamps import format_timestamp
from oai.sections import ProviderSettings
from oai.xml import escape
from provider.holdings.rules import rights_of
from provider.models import Access
from provider.protocol.items import Item

_UNTOUCHED: Final = "!#$%&'()*+,/:;=?@[]~"
"""Characters that may occur in a URL; any other in an archived URL is percent-encoded for a link."""


@dataclass(frozen=True, kw_only=True)
class Site:
    """The repository's facts for formats."""

    base_url: str
    settings: ProviderSettings

    def rights(self, item: Item) -> str:
        """Return the statement of who may see the document."""
        return self._statement(item.access, item.embargo_until)

    def replay_url(self, item: Item) -> str | None:
        """Return the URL of the archived document; None unless everybody may see it."""
        if item.access != Access.OPEN:
            return None
        template = self.settings.replay_url
        if template is None:
            return f"{self._own_archive}{item.key.hex}"
        return (
            template.replace("{key}", item.key.hex)
            .replace("{timestamp}", format_timestamp(item.archived))
            .replace("{url}", quote(item.url, safe=_UNTOUCHED))
        )

    def escaped_replay_url(self, item: Item) -> str | None:
        """Return `replay_url` as XML text; our own is escaped once for all records."""
        if item.access == Access.OPEN and self.settings.replay_url is None:
            return f"{self._escaped_archive}{item.key.hex}"
        url = self.replay_url(item)
        return None if url is None else escape(url)

    @cached_property
    def _escaped_archive(self) -> str:
        return escape(self._own_archive)

    @cached_property
    def _statement(self) -> Callable[[str, datetime | None], str]:
        return cache(partial(rights_of, self.settings))

    @cached_property
    def _own_archive(self) -> str:
        return urljoin(self.base_url, "archive/")


@dataclass(frozen=True, kw_only=True)
class Format:
    """A metadata format: its name, and the function that writes an item in it."""

    prefix: str
    namespace: str
    schema: str
    """URL of its XML Schema; one that begins with `/` is served by the provider, below its base URL."""
    write: Callable[[Item, Site], str]
    """Returns one XML element in the format's namespace, with its own declarations and escaped text."""
    schema_file: Path | None = None
    """A plug-in's file that the provider serves at `schema`, which then is like `/schemas/name.xsd`."""

    def schema_url(self, base_url: str) -> str:
        """Return the schema's full URL in a repository with this base URL."""
        return schema_url(self.schema, base_url)


def escaped_title(item: Item) -> str:
    """Return the title as XML text; the URL if there is no title, or it has no character that XML allows."""
    return (escape(item.title) if item.title else "") or escape(item.url)


def schema_url(schema: str, base_url: str) -> str:
    """Return the full URL of a schema; see `Format.schema`."""
    return base_url.rstrip("/") + schema if schema.startswith("/") else schema

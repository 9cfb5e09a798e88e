"""What a metadata format is to the provider, and what a format may know of the repository."""

from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime
from functools import cache, cached_property, partial
from typing import Final
from urllib.parse import quote, urljoin

from oai.sections import ProviderSettings
from oai.xml import escape
from provider.holdings.rules import rights_of
from provider.models import Access
from provider.protocol.items import Item

_UNTOUCHED: Final = "!#$%&'()*+,/:;=?@[]~"
"""What may stand in a URL; anything else in an archived one is percent-encoded for a link."""


@dataclass(frozen=True, kw_only=True)
class Site:
    """The repository as formats name it."""

    base_url: str
    settings: ProviderSettings

    def rights(self, item: Item) -> str:
        """The statement on who may see the document."""
        return self._statement(item.access, item.embargo_until)

    def replay_url(self, item: Item) -> str | None:
        """Where the archived document itself can be had; None unless everybody may see it."""
        if item.access != Access.OPEN:
            return None
        template = self.settings.replay_url
        if template is None:
            return f"{self._own_archive}{item.key.hex}"
        return (
            template.replace("{key}", item.key.hex)
            .replace("{timestamp}", item.archived.strftime("%Y%m%d%H%M%S"))
            .replace("{url}", quote(item.url, safe=_UNTOUCHED))
        )

    @cached_property
    def _statement(self) -> Callable[[str, datetime | None], str]:
        return cache(partial(rights_of, self.settings))

    @cached_property
    def _own_archive(self) -> str:
        return urljoin(self.base_url, "archive/")


@dataclass(frozen=True, kw_only=True)
class Format:
    """A metadata format: how it is called, and how an item is written in it."""

    prefix: str
    namespace: str
    schema: str
    """URL of its XML Schema; one that begins with `/` is served by the provider, below its base URL."""
    write: Callable[[Item, Site], str]
    """Gives one XML element in the format's namespace, with its own declarations, text escaped."""

    def schema_url(self, base_url: str) -> str:
        """The schema's whole address in a repository with this base URL."""
        return schema_url(self.schema, base_url)


def escaped_title(item: Item) -> str:
    """The title as XML text: the URL where there is none, or nothing in it that XML allows."""
    return (escape(item.title) if item.title else "") or escape(item.url)


def schema_url(schema: str, base_url: str) -> str:
    """The whole address of a schema; see `Format.schema`."""
    return base_url.rstrip("/") + schema if schema.startswith("/") else schema

"""Unqualified Dublin Core, the format that every repository must offer (OAI-PMH 2.0, section 5)."""

from functools import lru_cache
from typing import Final

from oai.datestamps import format_datestamp
from oai.vocabulary import DC_NAMESPACE, OAI_DC_NAMESPACE, OAI_DC_SCHEMA, XSI_NAMESPACE
from oai.xml import escape
from provider.protocol.formats.format import Format, Site
from provider.protocol.formats.kinds import kind_of
from provider.protocol.items import Item

_OPENING: Final = (
    f'<oai_dc:dc xmlns:oai_dc="{OAI_DC_NAMESPACE}" xmlns:dc="{DC_NAMESPACE}" xmlns:xsi="{XSI_NAMESPACE}"'
    f' xsi:schemaLocation="{OAI_DC_NAMESPACE} {OAI_DC_SCHEMA}">'
)


def write(item: Item, site: Site) -> str:
    """Return the item as `oai_dc:dc`: with the archived URL as identifier, and the replay URL if any."""
    url = escape(item.url)
    replay = site.escaped_replay_url(item)
    return (
        f"{_OPENING}<dc:title>{(escape(item.title) if item.title else '') or url}</dc:title>"
        f"<dc:date>{format_datestamp(item.archived)}</dc:date>{_type_and_format(item.media_type)}"
        f"<dc:identifier>{url}</dc:identifier>{f'<dc:identifier>{replay}</dc:identifier>' if replay else ''}"
        f"{_shared_element('source', item.host) if item.host else ''}"
        f"{_shared_element('language', item.language) if item.language else ''}"
        f"{''.join([_shared_element('relation', name) for _, name in item.collections or ()])}"
        f"{_shared_element('rights', site.rights(item))}</oai_dc:dc>"
    )


def _element(name: str, text: str) -> str:
    return f"<dc:{name}>{escape(text)}</dc:{name}>"


# Many records have the same values.
_shared_element = lru_cache(maxsize=16_384)(_element)


@lru_cache(maxsize=4096)
def _type_and_format(media_type: str | None) -> str:
    kind = kind_of(media_type)
    return (_element("type", kind.dcmi) if kind else "") + (
        _element("format", media_type) if media_type else ""
    )


def description(text: str) -> str:
    """Return an `oai_dc:dc` element with this description, for example of a set."""
    return f"{_OPENING}<dc:description>{escape(text)}</dc:description></oai_dc:dc>"


FORMAT: Final = Format(prefix="oai_dc", namespace=OAI_DC_NAMESPACE, schema=OAI_DC_SCHEMA, write=write)

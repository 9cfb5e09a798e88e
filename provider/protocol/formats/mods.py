"""MODS, the Metadata Object Description Schema of the Library of Congress, version 3.8."""

from collections.abc import Iterator
from typing import Final

from oai.datestamps import format_datestamp
from oai.vocabulary import XSI_NAMESPACE
from oai.xml import escape
from provider.holdings.identifiers import oai_identifier
from provider.protocol.formats.format import Format, Site, escaped_title
from provider.protocol.formats.kinds import kind_of
from provider.protocol.items import Item

NAMESPACE: Final = "http://www.loc.gov/mods/v3"
SCHEMA: Final = "http://www.loc.gov/standards/mods/v3/mods-3-8.xsd"

_OPENING: Final = (
    f'<mods xmlns="{NAMESPACE}" xmlns:xsi="{XSI_NAMESPACE}" version="3.8"'
    f' xsi:schemaLocation="{NAMESPACE} {SCHEMA}">'
)


def write(item: Item, site: Site) -> str:
    """Return the item as a `mods` element."""
    return f"{_OPENING}{''.join(_elements(item, site))}</mods>"


def _elements(item: Item, site: Site) -> Iterator[str]:
    yield f"<titleInfo><title>{escaped_title(item)}</title></titleInfo>"
    kind = kind_of(item.media_type)
    if kind:
        yield f"<typeOfResource>{kind.mods}</typeOfResource>"
    captured = format_datestamp(item.archived)
    yield f'<originInfo><dateCaptured encoding="w3cdtf">{captured}</dateCaptured></originInfo>'
    yield from _physical_description(item)
    if item.http_status is not None:
        yield f'<note type="HTTP status">{item.http_status}</note>'
    yield from _related_items(item)
    yield f'<identifier type="uri">{escape(item.url)}</identifier>'
    if item.digest:
        yield f'<identifier type="digest">{escape(item.digest)}</identifier>'
    yield from _location(item, site)
    rights = escape(site.rights(item))
    yield f'<accessCondition type="restriction on access">{rights}</accessCondition>'
    identifier = oai_identifier(site.settings.namespace, item.key)
    yield (
        f"<recordInfo><recordIdentifier>{identifier}</recordIdentifier>"
        f'<recordChangeDate encoding="w3cdtf">{format_datestamp(item.datestamp)}</recordChangeDate>'
        "</recordInfo>"
    )


def _physical_description(item: Item) -> Iterator[str]:
    yield "<physicalDescription>"
    if item.media_type:
        yield f"<internetMediaType>{escape(item.media_type)}</internetMediaType>"
    if item.length is not None:
        yield f"<extent>{item.length} bytes</extent>"
    yield "<digitalOrigin>born digital</digitalOrigin></physicalDescription>"


def _related_items(item: Item) -> Iterator[str]:
    for set_spec, name in item.collections or ():
        yield (
            f'<relatedItem type="series"><titleInfo><title>{escape(name)}</title></titleInfo>'
            f'<identifier type="setSpec">{escape(set_spec)}</identifier></relatedItem>'
        )
    yield (
        f'<relatedItem type="host"><titleInfo><title>{escape(item.archive_file)}</title></titleInfo>'
        f'<part><detail type="offset"><number>{item.offset}</number></detail></part></relatedItem>'
    )


def _location(item: Item, site: Site) -> Iterator[str]:
    yield f'<location><url displayLabel="Original address">{escape(item.url)}</url>'
    replay = site.escaped_replay_url(item)
    if replay:
        yield f'<url displayLabel="Archived copy" usage="primary">{replay}</url>'
    yield "</location>"


FORMAT: Final = Format(prefix="mods", namespace=NAMESPACE, schema=SCHEMA, write=write)

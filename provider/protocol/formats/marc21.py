"""MARC 21 for bibliographic data, in MARCXML: a capture as an online computer file."""

from collections.abc import Iterator
from typing import Final

from oai.datestamps import format_datestamp, format_timestamp
from oai.vocabulary import XSI_NAMESPACE
from oai.xml import escape
from provider.models import Access
from provider.protocol.formats.format import Format, Site, escaped_title
from provider.protocol.formats.kinds import kind_of
from provider.protocol.items import Item

NAMESPACE: Final = "http://www.loc.gov/MARC21/slim"
SCHEMA: Final = "http://www.loc.gov/standards/marcxml/schema/MARC21slim.xsd"

_OPENING: Final = (
    f'<record xmlns="{NAMESPACE}" xmlns:xsi="{XSI_NAMESPACE}" type="Bibliographic"'
    f' xsi:schemaLocation="{NAMESPACE} {SCHEMA}">'
)
# New, computer file, single item, Unicode; encoding level and form of description unknown.
_LEADER: Final = "00000nmm a2200000uu 4500"
_REMOTE_FILE: Final = "cr |||||||||||"
_UNKNOWN_KIND: Final = "u"


def write(item: Item, site: Site) -> str:
    """Return the item as a `record` element."""
    controls = (
        ("001", item.key.hex),
        ("003", escape(site.settings.namespace)),
        ("005", f"{format_timestamp(item.datestamp)}.0"),
        ("007", _REMOTE_FILE),
        ("008", _fixed_data(item)),
    )
    return "".join(
        (
            f"{_OPENING}<leader>{_LEADER}</leader>",
            *(f'<controlfield tag="{tag}">{text}</controlfield>' for tag, text in controls),
            *_data_fields(item, site),
            "</record>",
        )
    )


def _fixed_data(item: Item) -> str:
    """Return field 008: dated to the day, place and language unknown, online."""
    kind = kind_of(item.media_type)
    entered, captured = format_timestamp(item.datestamp)[2:8], format_timestamp(item.archived)[:8]
    return f"{entered}e{captured}xx      o  {kind.marc if kind else _UNKNOWN_KIND}        und d"


def _data_fields(item: Item, site: Site) -> Iterator[str]:
    if item.digest:
        yield _field("024", "8 ", a=item.digest)
    title = f'<subfield code="a">{escaped_title(item)}</subfield>'
    yield f'<datafield tag="245" ind1="0" ind2="0">{title}</datafield>'
    yield _field("300", "  ", a="1 online resource")
    if item.media_type or item.length is not None:
        size = None if item.length is None else f"{item.length} bytes"
        yield _field("347", "  ", b=item.media_type, c=size)
    if item.http_status is not None:
        yield _field("500", "  ", a=f"HTTP status {item.http_status}")
    restricted = "0" if item.access == Access.OPEN else "1"
    yield _field("506", f"{restricted} ", a=site.rights(item))
    yield _field("518", "  ", o="Captured", d=format_datestamp(item.archived))
    yield _field("773", "0 ", t=item.archive_file, g=f"byte {item.offset}")
    for _, name in item.collections or ():
        yield _field("830", " 0", a=name)
    replay = site.replay_url(item)
    if replay:
        yield _field("856", "40", u=replay, y="Archived copy", q=item.media_type)
    yield _field("856", "41", u=item.url, y="Original address")


def _field(tag: str, indicators: str, **subfields: str | None) -> str:
    inside = "".join(
        f'<subfield code="{code}">{escape(text)}</subfield>' for code, text in subfields.items() if text
    )
    return f'<datafield tag="{tag}" ind1="{indicators[0]}" ind2="{indicators[1]}">{inside}</datafield>'


FORMAT: Final = Format(prefix="marc21", namespace=NAMESPACE, schema=SCHEMA, write=write)

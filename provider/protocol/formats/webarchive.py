"""All stored facts about a capture, in an XML format specific to this project; see `webarchive.xsd`."""

from typing import Final

from oai.vocabulary import XSI_NAMESPACE
from oai.xml import escape
from provider.protocol.formats.format import Format, Site, schema_url
from provider.protocol.items import Item

NAMESPACE: Final = "urn:zatva:webarchive:1"
SCHEMA: Final = "/schemas/webarchive.xsd"


def write(item: Item, site: Site) -> str:
    """Return the item as a `capture` element."""
    optional = (
        ("title", item.title),
        ("mimeType", item.media_type),
        ("httpStatus", item.http_status),
        ("digest", item.digest),
        ("length", item.length),
    )
    texts = ((name, "" if value is None else escape(str(value))) for name, value in optional)
    known = "".join(f"<{name}>{text}</{name}>" for name, text in texts if text)
    collections = "".join(
        f'<collection setSpec="{escape(set_spec)}">{escape(name)}</collection>'
        for set_spec, name in item.collections or ()
    )
    replay = site.escaped_replay_url(item)
    return (
        f'<capture xmlns="{NAMESPACE}" xmlns:xsi="{XSI_NAMESPACE}"'
        f' xsi:schemaLocation="{NAMESPACE} {escape(schema_url(SCHEMA, site.base_url))}">'
        f"<url>{escape(item.url)}</url><captured>{_moment(item)}</captured>{known}"
        f"<recordType>{escape(item.record_type)}</recordType>"
        f'<archiveFile offset="{item.offset}">{escape(item.archive_file)}</archiveFile>{collections}'
        f'<rights access="{escape(item.access)}">'
        f"{escape(site.rights(item))}</rights>"
        f"{f'<replay>{replay}</replay>' if replay else ''}</capture>"
    )


def _moment(item: Item) -> str:
    """Return the capture time with its fraction, if any, because the identifier depends on it."""
    return item.archived.replace(tzinfo=None).isoformat() + "Z"


FORMAT: Final = Format(prefix="webarchive", namespace=NAMESPACE, schema=SCHEMA, write=write)

"""The handlers of the six verbs: from a checked request to the answer's content (OAI-PMH 2.0, section 4)."""

from collections.abc import Callable, Iterator, Mapping
from datetime import UTC, datetime
from typing import Final

from oai.datestamps import format_datestamp, parse_datestamp
from oai.errors import ProtocolError
from oai.sections import ProviderSettings
from oai.vocabulary import (
    OAI_IDENTIFIER_NAMESPACE,
    OAI_IDENTIFIER_SCHEMA,
    PROTOCOL_VERSION,
    XSI_NAMESPACE,
    DeletedRecord,
    ErrorCode,
    Granularity,
    Verb,
)
from oai.xml import escape
from provider.protocol import answers
from provider.protocol.catalogue import CataloguedItem, Identity
from provider.protocol.exchange import Content, Exchange, just_changed
from provider.protocol.lists import list_identifiers, list_records, list_sets
from provider.protocol.requests import shown, unknown_format

_NO_RECORDS: Final = datetime(1970, 1, 1, tzinfo=UTC)

_OAI: Final = "http://www.openarchives.org/OAI"
_EPRINTS: Final = (f"{_OAI}/1.1/eprints", f"{_OAI}/1.1/eprints.xsd")
_FRIENDS: Final = (f"{_OAI}/2.0/friends/", f"{_OAI}/2.0/friends.xsd")
_RIGHTS: Final = (f"{_OAI}/2.0/rights/", f"{_OAI}/2.0/rightsManifest.xsd")
_ALL_METADATA: Final = f"{_OAI}/2.0/entity#metadata"


def identify(exchange: Exchange) -> Content:
    """Return the answer to Identify; its sample identifier is that of the earliest record."""
    settings = exchange.settings
    identity = exchange.catalogue.identity(exchange.session)
    datestamp = identity.earliest or _NO_RECORDS
    facts = [
        ("repositoryName", settings.repository_name),
        ("baseURL", exchange.site.base_url),
        ("protocolVersion", PROTOCOL_VERSION),
        *(("adminEmail", address) for address in settings.admin_emails),
        ("earliestDatestamp", format_datestamp(_earliest(settings, min(datestamp, exchange.mark)))),
        ("deletedRecord", DeletedRecord.PERSISTENT),
        ("granularity", Granularity.SECOND),
        ("compression", "gzip"),
    ]
    elements = [f"<{name}>{escape(value)}</{name}>" for name, value in facts]
    containers = _containers(settings, identity)
    elements += [f"<description>{container}</description>" for container in containers]
    return Content(xml=answers.verb_element(Verb.IDENTIFY, elements))


def _earliest(settings: ProviderSettings, found: datetime) -> datetime:
    """Return earliestDatestamp; whatever the settings say, no record may be older than it."""
    if settings.earliest_datestamp is None:
        return found
    return min(parse_datestamp(settings.earliest_datestamp).moment, found)


def _identifier_scheme(sample: str) -> str:
    """Return the description of the identifier scheme (guidelines for oai-identifier)."""
    return (
        f"{_opening('oai-identifier', (OAI_IDENTIFIER_NAMESPACE, OAI_IDENTIFIER_SCHEMA))}"
        f"<scheme>oai</scheme><repositoryIdentifier>{escape(sample.split(':')[1])}</repositoryIdentifier>"
        "<delimiter>:</delimiter>"
        f"<sampleIdentifier>{escape(sample)}</sampleIdentifier>"
        "</oai-identifier>"
    )


def _containers(settings: ProviderSettings, identity: Identity) -> Iterator[str]:
    """Yield the description containers from the settings, after the identifier scheme."""
    if identity.sample is not None:
        yield _identifier_scheme(identity.sample)
    policies = (settings.content_policy, settings.metadata_policy, settings.data_policy)
    if any(policies):
        content, metadata, data = map(_policy, ("content", "metadataPolicy", "dataPolicy"), policies)
        yield f"{_opening('eprints', _EPRINTS)}{content if policies[0] else ''}{metadata}{data}</eprints>"
    if identity.friends:
        addresses = "".join(f"<baseURL>{escape(address)}</baseURL>" for address in identity.friends)
        yield f"{_opening('friends', _FRIENDS)}{addresses}</friends>"
    if settings.metadata_licence:
        licence = f'<rightsReference ref="{escape(settings.metadata_licence)}"/>'
        begin = _opening("rightsManifest", _RIGHTS, f' appliesTo="{_ALL_METADATA}"')
        yield f"{begin}<rights>{licence}</rights></rightsManifest>"
    yield from settings.descriptions


def _policy(name: str, text: str | None) -> str:
    """Return an element of the eprints container; the two policies are required even if they are empty."""
    if not text:
        return f"<{name}/>"
    is_address = text.startswith(("http://", "https://")) and not any(map(str.isspace, text))
    kind = "URL" if is_address else "text"
    return f"<{name}><{kind}>{escape(text)}</{kind}></{name}>"


def _opening(name: str, vocabulary: tuple[str, str], attributes: str = "") -> str:
    namespace, schema = vocabulary
    return (
        f'<{name} xmlns="{namespace}" xmlns:xsi="{XSI_NAMESPACE}"'
        f' xsi:schemaLocation="{namespace} {schema}"{attributes}>'
    )


def get_record(exchange: Exchange) -> Content:
    """Return one item in one format (section 4.1)."""
    identifier, prefix = (exchange.request.arguments[name] for name in ("identifier", "metadataPrefix"))
    item = exchange.catalogue.item(exchange.session, identifier, exchange.mark)
    faults = []
    if not exchange.catalogue.has_format(exchange.session, prefix):
        faults.append(unknown_format(prefix))
    if item is None:
        faults.append(_unknown_item(identifier))
    record = None if item is None or faults else item.record(prefix)
    if record is None:
        coming = _coming(exchange, identifier)
        if coming is not None and coming.record(prefix) is not None:
            raise just_changed()
        raise exchange.request.refusal(*faults or [_not_in_format(identifier, prefix)])
    return Content(xml=answers.verb_element(Verb.GET_RECORD, [record]))


def list_metadata_formats(exchange: Exchange) -> Content:
    """Return the formats of the repository or of one item (section 4.4)."""
    identifier = exchange.request.arguments.get("identifier")
    if identifier is None:
        formats = exchange.catalogue.formats(exchange.session)
    else:
        item = exchange.catalogue.item(exchange.session, identifier, exchange.mark)
        if item is None:
            if _coming(exchange, identifier) is not None:
                raise just_changed()
            raise exchange.request.refusal(_unknown_item(identifier))
        formats = item.formats()
    elements = [answers.metadata_format(format_) for format_ in formats]
    return Content(xml=answers.verb_element(Verb.LIST_METADATA_FORMATS, elements))


def _coming(exchange: Exchange, identifier: str) -> CataloguedItem | None:
    """Return the item, also if it was changed some seconds ago and is not due yet."""
    return exchange.catalogue.item(exchange.session, identifier, exchange.soon)


def _unknown_item(identifier: str) -> ProtocolError:
    return ProtocolError(ErrorCode.ID_DOES_NOT_EXIST, f"no item has the identifier {shown(identifier)}")


def _not_in_format(identifier: str, prefix: str) -> ProtocolError:
    return ProtocolError(
        ErrorCode.CANNOT_DISSEMINATE_FORMAT,
        f"{shown(identifier)} is not available as {shown(prefix)}; see ListMetadataFormats with "
        "this identifier",
    )


HANDLERS: Mapping[Verb, Callable[[Exchange], Content]] = {
    Verb.GET_RECORD: get_record,
    Verb.IDENTIFY: identify,
    Verb.LIST_IDENTIFIERS: list_identifiers,
    Verb.LIST_METADATA_FORMATS: list_metadata_formats,
    Verb.LIST_RECORDS: list_records,
    Verb.LIST_SETS: list_sets,
}
"""Each raises RefusedRequestError for errors found in the data."""

"""The repository's self-description (OAI-PMH 2.0, section 4.2, and the guidelines for descriptions)."""

from collections.abc import Iterator
from datetime import UTC, datetime
from typing import Final

from oai.datestamps import format_datestamp, parse_datestamp
from oai.sections import ProviderSettings
from oai.vocabulary import (
    OAI_IDENTIFIER_NAMESPACE,
    OAI_IDENTIFIER_SCHEMA,
    PROTOCOL_VERSION,
    XSI_NAMESPACE,
    DeletedRecord,
    Granularity,
    Verb,
)
from oai.xml import escape
from provider.protocol import answers
from provider.protocol.catalogue import Identity
from provider.protocol.exchange import Content, Exchange

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
        ("earliestDatestamp", format_datestamp(_earliest(settings, min(datestamp, exchange.moment)))),
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


def _identifier_scheme(namespace: str, sample: str) -> str:
    """Return the description of the identifier scheme (guidelines for oai-identifier)."""
    return (
        f"{_opening('oai-identifier', (OAI_IDENTIFIER_NAMESPACE, OAI_IDENTIFIER_SCHEMA))}"
        f"<scheme>oai</scheme><repositoryIdentifier>{escape(namespace)}</repositoryIdentifier>"
        "<delimiter>:</delimiter>"
        f"<sampleIdentifier>{escape(sample)}</sampleIdentifier>"
        "</oai-identifier>"
    )


def _containers(settings: ProviderSettings, identity: Identity) -> Iterator[str]:
    """Yield the description containers from the settings, after the identifier scheme."""
    if identity.sample is not None:
        yield _identifier_scheme(settings.namespace, identity.sample)
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

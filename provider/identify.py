"""The repository about itself (OAI-PMH 2.0, section 4.2)."""

import uuid
from datetime import UTC, datetime
from typing import Final

from sqlalchemy import select

from oai.datestamps import format_datestamp
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
from provider import answers
from provider.exchange import Exchange
from provider.identifiers import oai_identifier
from provider.models import Document

_EMPTY_ARCHIVE: Final = datetime(1970, 1, 1, tzinfo=UTC)
_SAMPLE_KEY: Final = uuid.UUID("0123456789abcdef0123456789abcdef")


def identify(exchange: Exchange) -> str:
    """The answer to Identify; its earliestDatestamp and sample identifier are the earliest record's."""
    settings = exchange.settings
    earliest = exchange.session.execute(
        select(Document.datestamp, Document.key).order_by(Document.datestamp, Document.id).limit(1)
    ).one_or_none()
    datestamp, key = earliest or (_EMPTY_ARCHIVE, _SAMPLE_KEY)
    facts = [
        ("repositoryName", settings.repository_name),
        ("baseURL", exchange.base_url),
        ("protocolVersion", PROTOCOL_VERSION),
        *(("adminEmail", address) for address in settings.admin_emails),
        ("earliestDatestamp", format_datestamp(min(datestamp, exchange.moment))),
        ("deletedRecord", DeletedRecord.PERSISTENT),
        ("granularity", Granularity.SECOND),
        ("compression", "gzip"),
    ]
    elements = [f"<{name}>{escape(value)}</{name}>" for name, value in facts]
    return answers.verb_element(Verb.IDENTIFY, [*elements, _identifier_scheme(settings.namespace, key)])


def _identifier_scheme(namespace: str, sample: uuid.UUID) -> str:
    """The description by the guidelines for oai-identifier."""
    return (
        f'<description><oai-identifier xmlns="{OAI_IDENTIFIER_NAMESPACE}" xmlns:xsi="{XSI_NAMESPACE}"'
        f' xsi:schemaLocation="{OAI_IDENTIFIER_NAMESPACE} {OAI_IDENTIFIER_SCHEMA}">'
        f"<scheme>oai</scheme><repositoryIdentifier>{escape(namespace)}</repositoryIdentifier>"
        "<delimiter>:</delimiter>"
        f"<sampleIdentifier>{escape(oai_identifier(namespace, sample))}</sampleIdentifier>"
        "</oai-identifier></description>"
    )

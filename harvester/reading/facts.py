"""Parses a repository's description of itself into typed answers; no input or output.

Source: The Open Archives Initiative Protocol for Metadata Harvesting, version 2.0, sections 4.2, 4.4 and 4.6.
"""

from collections.abc import Iterator
from typing import Final

from lxml import etree

from harvester.reading.answers import FormatInfo, FormatPage, Identity, SetInfo, SetPage
from harvester.reading.envelope import OAI, Envelope, local_name, open_envelope, readable_body, text_at
from harvester.reading.errors import MalformedAnswerError, one_line
from harvester.reading.list_elements import TOKEN, read_token
from harvester.reading.prolog import trimmed
from oai.limits import DEFAULT_LIMITS, AnswerLimits
from oai.vocabulary import OAI_IDENTIFIER_NAMESPACE, Verb

_LONGEST_NAME: Final = 500


def read_identity(
    body: bytes,
    *,
    url: str,
    loose: bool = False,
    content_type: str = "",
    limits: AnswerLimits = DEFAULT_LIMITS,
) -> Identity:
    """Read an answer to Identify."""
    envelope = _opened(body, Verb.IDENTIFY, url, content_type, limits, loose=loose)
    container = envelope.container
    found = container.find(f".//{{{OAI_IDENTIFIER_NAMESPACE}}}repositoryIdentifier")
    return Identity(
        repository_name=_text(container, "repositoryName"),
        base_url=_text(container, "baseURL"),
        protocol_version=_text(container, "protocolVersion"),
        admin_emails=tuple(_texts(container, "adminEmail")),
        earliest_datestamp=_text(container, "earliestDatestamp"),
        deleted_record=_text(container, "deletedRecord"),
        granularity=_text(container, "granularity"),
        compression=tuple(_texts(container, "compression")),
        repository_identifier=text_at(found, ".") if found is not None else None,
        response_date=envelope.response_date,
        notes=tuple(envelope.notes),
        obsolete=envelope.obsolete,
    )


def read_sets(
    body: bytes,
    *,
    url: str,
    loose: bool = False,
    content_type: str = "",
    limits: AnswerLimits = DEFAULT_LIMITS,
) -> SetPage:
    """Read an answer to ListSets."""
    envelope = _opened(body, Verb.LIST_SETS, url, content_type, limits, loose=loose)
    sets = tuple(
        SetInfo(
            set_spec=_text(element, "setSpec"), set_name=one_line(_text(element, "setName"), _LONGEST_NAME)
        )
        for element in envelope.container.iterfind(OAI + "set")
    )
    token = next((child for child in envelope.children if child.tag == TOKEN), None)
    return SetPage(
        url=url,
        response_date=envelope.response_date,
        sets=sets,
        token=None if token is None else read_token(token),
    )


def read_formats(
    body: bytes,
    *,
    url: str,
    loose: bool = False,
    content_type: str = "",
    limits: AnswerLimits = DEFAULT_LIMITS,
) -> FormatPage:
    """Read an answer to ListMetadataFormats."""
    envelope = _opened(body, Verb.LIST_METADATA_FORMATS, url, content_type, limits, loose=loose)
    formats = tuple(
        FormatInfo(
            metadata_prefix=_text(element, "metadataPrefix"),
            schema=_text(element, "schema"),
            namespace=_text(element, "metadataNamespace"),
        )
        for element in envelope.container.iterfind(OAI + "metadataFormat")
    )
    return FormatPage(url=url, response_date=envelope.response_date, formats=formats)


def _opened(
    body: bytes, verb: Verb, url: str, content_type: str, limits: AnswerLimits, *, loose: bool
) -> Envelope:
    """Return the envelope of such an answer."""
    body, notes = readable_body(body, url, content_type, loose=loose)
    try:
        envelope = open_envelope(body, verb, url, loose=loose, limits=limits)
    except MalformedAnswerError:
        if not loose:
            raise
        around = trimmed(body)
        notes += around.notes
        envelope = open_envelope(around.body, verb, url, loose=True, limits=limits)
    envelope.notes[:0] = notes
    if envelope.notes:
        for child in envelope.container.iterchildren(etree.Element):
            listed = local_name(child) in {"set", "metadataFormat"}
            for part in (child, *(child.iterchildren(etree.Element) if listed else ())):
                part.tag = OAI + local_name(part)
    return envelope


def _text(element: etree._Element, name: str) -> str:
    return text_at(element, OAI + name)


def _texts(element: etree._Element, name: str) -> Iterator[str]:
    return (text_at(child, ".") for child in element.iterfind(OAI + name))

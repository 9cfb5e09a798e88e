"""The metadata formats of titles: oai_dc, MODS and MARC 21."""

from collections.abc import Callable, Iterator, Mapping
from datetime import datetime
from typing import Any, Final
from urllib.parse import urlencode, urljoin

from oai.datestamps import format_datestamp
from oai.vocabulary import DC_NAMESPACE, OAI_DC_NAMESPACE, OAI_DC_SCHEMA, XSI_NAMESPACE
from oai.xml import escape
from provider.protocol.catalogue import OfferedFormat
from provider.protocol.formats import marc21 as marc_of_documents
from provider.protocol.formats import mods as mods_of_documents
from provider.protocol.formats.format import Site
from provider.titles import marc21
from provider.titles.catalogue import TitleFormat, TitleItem, identifier
from provider.titles.document_sets import document_set_spec
from provider.titles.licences import licence_by_key

_DC: Final = (
    f'<oai_dc:dc xmlns:oai_dc="{OAI_DC_NAMESPACE}" xmlns:dc="{DC_NAMESPACE}" xmlns:xsi="{XSI_NAMESPACE}"'
    f' xsi:schemaLocation="{OAI_DC_NAMESPACE} {OAI_DC_SCHEMA}">'
)
_MODS: Final = (
    f'<mods xmlns="{mods_of_documents.NAMESPACE}" xmlns:xsi="{XSI_NAMESPACE}" version="3.8"'
    f' xsi:schemaLocation="{mods_of_documents.NAMESPACE} {mods_of_documents.SCHEMA}">'
)


def public_page(title: TitleItem, site: Site) -> str:
    """Return the URL of the title's page for people (`provider.http.title_pages`)."""
    return urljoin(site.base_url, f"../titles/{title.key.hex}")


def page_url(title: TitleItem, site: Site) -> str:
    """Return the URL of the archived site; where the settings have none, that of the title's page."""
    template = site.settings.titles_replay_url
    if template is None:
        return public_page(title, site)
    return template.replace("{key}", title.key.hex).replace("{url}", title.url or "")


def documents_url(title: TitleItem, site: Site) -> str | None:
    """Return the request for the records of the title's documents; None if they are not a set in `/oai`."""
    if not title.has_document_set:
        return None
    asked = {"verb": "ListRecords", "metadataPrefix": "oai_dc", "set": document_set_spec(title.key)}
    return f"{site.base_url.rpartition('/')[0]}?{urlencode(asked, safe=':')}"


def write_oai_dc(title: TitleItem, site: Site) -> str:
    """Return the title as `oai_dc:dc` (OAI-PMH 2.0, section 5)."""
    licence = licence_by_key(title.licence) if title.licence else None
    elements = (
        ("title", title.name),
        *(("title", name) for name in title.alternative_names),
        ("publisher", title.publisher),
        ("contributor", site.settings.archive_name),
        ("description", title.annotation),
        *(("language", language) for language in title.languages),
        *(("subject", name) for subject in title.subjects for name in _subject_names(subject)),
        *(("subject", keyword) for keyword in title.keywords),
        ("type", "InteractiveResource"),
        ("date", _period(title.first_capture, title.last_capture)),
        ("identifier", f"urn:ISSN:{title.issn}" if title.issn else None),
        ("identifier", page_url(title, site)),
        *(("source", url) for url in title.urls or ()),
        *(("relation", name) for name in title.collections),
        ("relation", documents_url(title, site)),
        ("rights", licence.url if licence else None),
    )
    return f"{_DC}{''.join(_elements(elements, 'dc:'))}</oai_dc:dc>"


def _subject_names(subject: Mapping[str, Any]) -> list[str]:
    """Return the name of a subject group, and that of its part if the title has one."""
    return [name for name in (subject["name"], subject.get("part")) if name]


def _elements(elements: tuple[tuple[str, str | None], ...], prefix: str) -> Iterator[str]:
    for name, value in elements:
        if value:
            yield f"<{prefix}{name}>{escape(value)}</{prefix}{name}>"


def _period(first: datetime | None, last: datetime | None) -> str | None:
    """Return the days of the first and the last capture as a period (ISO 8601-1)."""
    if first is None or last is None:
        return None
    begin, end = format_datestamp(first)[:10], format_datestamp(last)[:10]
    return begin if begin == end else f"{begin}/{end}"


def write_mods(title: TitleItem, site: Site) -> str:
    """Return the title as a `mods` element, as the Library of Congress describes archived sites."""
    return f"{_MODS}{''.join(_mods_elements(title, site))}</mods>"


def _mods_elements(title: TitleItem, site: Site) -> Iterator[str]:
    yield f"<titleInfo><title>{escape(title.name)}</title></titleInfo>"
    for name in title.alternative_names:
        yield f'<titleInfo type="alternative"><title>{escape(name)}</title></titleInfo>'
    yield "<typeOfResource>text</typeOfResource><genre>Web site</genre>"
    yield f"<originInfo>{''.join(_origin(title))}</originInfo>"
    for language in title.languages:
        yield (
            '<language><languageTerm type="code" authority="iso639-2b">'
            f"{escape(language)}</languageTerm></language>"
        )
    yield "<physicalDescription><digitalOrigin>born digital</digitalOrigin></physicalDescription>"
    if title.annotation:
        yield f"<abstract>{escape(title.annotation)}</abstract>"
    for subject in title.subjects:
        topics = "".join(f"<topic>{escape(name)}</topic>" for name in _subject_names(subject))
        yield f"<subject>{topics}</subject>"
    for keyword in title.keywords:
        yield f"<subject><topic>{escape(keyword)}</topic></subject>"
    for notation in title.classification:
        yield f'<classification authority="udc">{escape(notation)}</classification>'
    yield from _mods_related(title, site)
    if title.issn:
        yield f'<identifier type="issn">{escape(title.issn)}</identifier>'
    for url in title.urls or ():
        yield f'<identifier type="uri">{escape(url)}</identifier>'
    yield from _mods_location(title, site)
    named = identifier(site.settings.namespace, title.key)
    yield (
        f"<recordInfo><recordIdentifier>{named}</recordIdentifier>"
        f'<recordChangeDate encoding="w3cdtf">{format_datestamp(title.datestamp)}</recordChangeDate>'
        "</recordInfo>"
    )


def _mods_related(title: TitleItem, site: Site) -> Iterator[str]:
    for name in title.collections:
        yield f'<relatedItem type="series"><titleInfo><title>{escape(name)}</title></titleInfo></relatedItem>'
    documents = documents_url(title, site)
    if documents is not None:
        yield (
            f'<relatedItem type="constituent" displayLabel="{marc21.DOCUMENTS}">'
            f"<location><url>{escape(documents)}</url></location></relatedItem>"
        )


def _origin(title: TitleItem) -> Iterator[str]:
    if title.published_in:
        yield f'<place><placeTerm type="text">{escape(title.published_in)}</placeTerm></place>'
    if title.country:
        yield (
            '<place><placeTerm type="code" authority="marccountry">'
            f"{escape(title.country)}</placeTerm></place>"
        )
    if title.publisher:
        yield f"<publisher>{escape(title.publisher)}</publisher>"
    if title.first_published is not None:
        yield f'<dateIssued encoding="w3cdtf" point="start">{title.first_published:04}</dateIssued>'
    for point, moment in (("start", title.first_capture), ("end", title.last_capture)):
        if moment is not None:
            day = format_datestamp(moment)[:10]
            yield f'<dateCaptured encoding="w3cdtf" point="{point}">{day}</dateCaptured>'


def _mods_location(title: TitleItem, site: Site) -> Iterator[str]:
    yield f"<location><physicalLocation>{escape(site.settings.archive_name or '')}</physicalLocation>"
    yield f'<url displayLabel="Archived site" usage="primary">{escape(page_url(title, site))}</url>'
    if title.url:
        yield f'<url displayLabel="Live site">{escape(title.url)}</url>'
    yield "</location>"
    licence = licence_by_key(title.licence) if title.licence else None
    if licence:
        yield (
            f'<accessCondition type="use and reproduction">{licence.label}, {licence.url}</accessCondition>'
        )


def write_marc21(title: TitleItem, site: Site) -> str:
    """Return the title as a MARC 21 record in the profile of the settings."""
    return marc21.write(title, site.settings, page_url(title, site), documents_url(title, site))


def _format(prefix: str, namespace: str, schema: str, write: Callable[[TitleItem, Site], str]) -> TitleFormat:
    return TitleFormat(offered=OfferedFormat(prefix=prefix, schema=schema, namespace=namespace), write=write)


FORMATS: Final[Mapping[str, TitleFormat]] = {
    format_.offered.prefix: format_
    for format_ in (
        _format("oai_dc", OAI_DC_NAMESPACE, OAI_DC_SCHEMA, write_oai_dc),
        _format("marc21", marc_of_documents.NAMESPACE, marc_of_documents.SCHEMA, write_marc21),
        _format("mods", mods_of_documents.NAMESPACE, mods_of_documents.SCHEMA, write_mods),
    )
}
"""By metadataPrefix."""

"""How a title's page describes itself to programs: schema.org data (JSON-LD) and signposting links."""

import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Final
from urllib.parse import quote, urlencode, urljoin

from markupsafe import Markup

from oai.datestamps import format_datestamp
from provider.protocol.formats.format import Site
from provider.titles.catalogue import TitleItem, identifier
from provider.titles.formats import FORMATS, page_url, public_page
from provider.titles.licences import licence_by_key
from provider.titles.sets import set_part

_UNTOUCHED: Final = "!#$%&'()*+,/:;=?@[]~"
_MOST_LINKS: Final = 20
"""Links of one relation; proxies accept only a few thousand bytes of header fields in total."""


@dataclass(frozen=True, kw_only=True)
class RecordLink:
    """The address of a title's record in a format."""

    prefix: str
    namespace: str
    url: str


def records_of(title: TitleItem, site: Site) -> list[RecordLink]:
    """Return the requests for the title's records."""
    named = identifier(site.settings.namespace, title.key)
    return [
        RecordLink(
            prefix=prefix,
            namespace=format_.offered.namespace,
            url=f"{site.base_url}?"
            + urlencode({"verb": "GetRecord", "metadataPrefix": prefix, "identifier": named}, safe=":"),
        )
        for prefix, format_ in FORMATS.items()
    ]


def archived_url(title: TitleItem, site: Site) -> str | None:
    """Return the address of the archived site; None if the settings or the title's source give none."""
    template = site.settings.titles_replay_url
    if template is None or ("{url}" in template and not title.url):
        return None
    return quote(page_url(title, site), safe=_UNTOUCHED)


def collection_url(name: str, site: Site) -> str | None:
    """Return the address of the list of a collection's titles."""
    part = set_part(name)
    return urljoin(site.base_url, f"../titles?collection={part}") if part else None


def signposts(title: TitleItem, site: Site) -> str:
    """Return the value of the header `Link` (RFC 8288; signposting.org, FAIR profile, level 1)."""
    return ", ".join(_signposts(title, site))


def _signposts(title: TitleItem, site: Site) -> Iterator[str]:
    yield f'<{public_page(title, site)}>; rel="cite-as"'
    for kind in ("AboutPage", "WebSite"):
        yield f'<https://schema.org/{kind}>; rel="type"'
    for record in records_of(title, site):
        yield f'<{record.url}>; rel="describedby"; type="text/xml"; profile="{record.namespace}"'
    licence = licence_by_key(title.licence) if title.licence else None
    if licence is not None:
        yield f'<{licence.url}>; rel="license"'
    archived = archived_url(title, site)
    if archived is not None:
        yield f'<{archived}>; rel="item"'
    for url in filter(None, (collection_url(name, site) for name in title.collections[:_MOST_LINKS])):
        yield f'<{url}>; rel="collection"'


def json_ld(title: TitleItem, site: Site, conditions: Sequence[str], languages: Sequence[str]) -> Markup:
    """Return the title as JSON-LD with the vocabulary of schema.org, safe inside of a `script` element.

    It is a `WebSite`, which has publisher, ISSN and address, and at once an `ArchiveComponent`, which alone
    has the archive that holds it and the place there (schema.org, "Archives and their collections").
    `languages` are codes as in BCP 47.
    """
    found = {name: value for name, value in _properties(title, site, conditions, languages) if value}
    written = json.dumps(found, ensure_ascii=False)
    for letter in "<>&\u2028\u2029":
        written = written.replace(letter, f"\\u{ord(letter):04x}")
    return Markup(written)  # noqa: S704 what could end the element is escaped above


def _properties(
    title: TitleItem, site: Site, conditions: Sequence[str], languages: Sequence[str]
) -> Iterator[tuple[str, Any]]:
    page = public_page(title, site)
    licence = licence_by_key(title.licence) if title.licence else None
    yield "@context", "https://schema.org"
    yield "@type", ["WebSite", "ArchiveComponent"]
    yield "@id", page
    yield "mainEntityOfPage", page
    yield "identifier", identifier(site.settings.namespace, title.key)
    yield "name", title.name
    yield "alternateName", list(title.alternative_names)
    yield "url", title.url
    yield "publisher", title.publisher and {"@type": "Organization", "name": title.publisher}
    yield "publication", title.published_in and {"@type": "PublicationEvent", "location": title.published_in}
    yield "datePublished", title.first_published and f"{title.first_published:04}"
    yield "abstract", title.annotation
    yield "inLanguage", list(languages)
    yield "issn", title.issn
    yield "about", [{"@type": "DefinedTerm", **_term(subject)} for subject in title.subjects]
    yield "keywords", list(title.keywords)
    yield "isPartOf", [_collection(name, site) for name in title.collections]
    yield "license", licence and licence.url
    yield "conditionsOfAccess", " ".join(conditions)
    yield "temporalCoverage", _period(title)
    yield "holdingArchive", {"@type": "ArchiveOrganization", "name": site.settings.archive_name}
    yield "itemLocation", archived_url(title, site) or page


def _term(subject: Any) -> dict[str, str]:  # noqa: ANN401 a JSON object
    term = {"name": subject["name"]}
    return {**term, "termCode": subject["notation"]} if subject.get("notation") else term


def _collection(name: str, site: Site) -> dict[str, str]:
    found, url = {"@type": "Collection", "name": name}, collection_url(name, site)
    return found if url is None else {**found, "url": url}


def _period(title: TitleItem) -> str | None:
    """Return the days of the first and the last capture (ISO 8601-1)."""
    if title.first_capture is None or title.last_capture is None:
        return None
    return f"{format_datestamp(title.first_capture)[:10]}/{format_datestamp(title.last_capture)[:10]}"

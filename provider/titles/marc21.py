"""A title as a MARC 21 record: an updating website, described as an integrating resource (RDA).

Two profiles. `marc` has the archived site in field 857 (Electronic Archive Location and Access). `nkp`
follows the manual of the National Library of the Czech Republic for archived websites (2026): both addresses
in field 856, the archived one second, and its fields 072 and 655.
"""

from collections.abc import Iterator
from typing import Final

from oai.datestamps import format_datestamp
from oai.sections import ProviderSettings
from oai.vocabulary import XSI_NAMESPACE
from oai.xml import escape
from provider.protocol.formats.marc21 import NAMESPACE, SCHEMA
from provider.titles.catalogue import TitleItem
from provider.titles.licences import licence_by_key

_OPENING: Final = (
    f'<record xmlns="{NAMESPACE}" xmlns:xsi="{XSI_NAMESPACE}" type="Bibliographic"'
    f' xsi:schemaLocation="{NAMESPACE} {SCHEMA}">'
)
_LEADER: Final = "00000nai a2200000 i 4500"
"""New, language material, integrating resource, Unicode, full level, ISBD."""
_FORM: Final = "m     o  d        "
"""Field 006: an online computer file, a document."""
_REMOTE: Final = "cr cn ||||||||"
"""Field 007: a remote electronic resource."""
_NKP: Final = "nkp"
DOCUMENTS: Final = "Records of single captures (OAI-PMH)"
"""How records and pages name the set of the title's documents."""
_NO_SIGNS: Final = str.maketrans("", "", "-:TZ")
_CODE: Final = 3
"""Characters in a code of a language."""

Field = tuple[str, str, tuple[tuple[str, str | None], ...]]
"""Tag, indicators, and subfields; a subfield without a text is left out."""


def write(title: TitleItem, settings: ProviderSettings, archived: str, documents: str | None) -> str:
    """Return the title as a `record` element.

    `archived` is the URL of the archived site, `documents` that of the records of its captures.
    """
    controls = (
        ("001", title.key.hex),
        ("003", settings.namespace),
        ("005", f"{format_datestamp(title.datestamp).translate(_NO_SIGNS)}.0"),
        ("006", _FORM),
        ("007", _REMOTE),
        ("008", _fixed_data(title, settings)),
    )
    return "".join(
        (
            f"{_OPENING}<leader>{_LEADER}</leader>",
            *(f'<controlfield tag="{tag}">{escape(text)}</controlfield>' for tag, text in controls),
            *map(_written, _fields(title, settings, archived)),
            _written(_records(settings, documents)),
            "</record>",
        )
    )


def _fixed_data(title: TitleItem, settings: ProviderSettings) -> str:
    """Return field 008 of a continuing resource: an updating website that is still published.

    Without a date of first publication, its beginning is unknown; without a country, it is that of the
    profile.
    """
    entered = format_datestamp(title.entered or title.datestamp).translate(_NO_SIGNS)[2:8]
    begin = "uuuu" if title.first_published is None else f"{title.first_published:04}"
    place = f"{title.country or ('xr' if settings.titles_marc_profile == _NKP else 'xx'):3}"
    codes = [code for code in title.languages if len(code) == _CODE]
    language = codes[0] if codes else "und"
    return f"{entered}c{begin}9999{place} x w o     0   b2{language} d"


def _fields(title: TitleItem, settings: ProviderSettings, archived: str) -> Iterator[Field]:
    is_nkp = settings.titles_marc_profile == _NKP
    yield "022", "  ", (("a", title.issn),)
    yield "035", "  ", (("a", title.catalogue_number),)
    yield "040", "  ", (("b", "cze" if is_nkp else "eng"), ("e", "rda"))
    if len(title.languages) > 1:
        yield "041", "0 ", tuple(("a", code) for code in title.languages)
    yield from _subject_groups(title, is_nkp=is_nkp)
    for notation in title.classification:
        yield "080", "  ", (("a", notation), ("2", "MRF" if is_nkp else None))
    yield "245", "00", (("a", title.name),)
    for name in title.alternative_names:
        yield "246", "3 ", (("a", name),)
    yield "264", " 1", (("a", title.published_in), ("b", title.publisher), ("c", _published_since(title)))
    yield "300", "  ", (("a", "1 online zdroj" if is_nkp else "1 online resource"),)
    yield from _types(is_nkp=is_nkp)
    yield from _conditions(title, settings)
    yield "520", "  ", (("a", title.annotation),)
    yield "588", "  ", (("a", _described_from(title, is_nkp=is_nkp)),)
    for keyword in title.keywords:
        yield "653", "  ", (("a", keyword),)
    yield from _genres(is_nkp=is_nkp)
    yield "710", "2 ", (("a", settings.archive_name), ("4", "col"))
    for name in title.collections:
        yield "830", " 0", (("a", name),)
    yield from _addresses(title, settings, archived)


def _published_since(title: TitleItem) -> str | None:
    return None if title.first_published is None else f"{title.first_published}-"


def _subject_groups(title: TitleItem, *, is_nkp: bool) -> Iterator[Field]:
    for subject in title.subjects:
        number, notation = subject.get("number"), subject.get("notation")
        group = None if number is None else str(number)
        source = "Konspekt" if is_nkp else "Conspectus"
        # The notation is that of the part, if there is one, and so is the name; the number is the group's.
        kind = "part" if subject.get("part") else "name"
        yield "072", " 7", (("a", notation), ("x", subject[kind]), ("2", source), ("9", group))
        name_en = subject.get(f"{kind}_en")
        if is_nkp and name_en:
            yield "072", " 9", (("a", notation), ("x", name_en), ("2", "Conspectus"), ("9", group))


def _types(*, is_nkp: bool) -> Iterator[Field]:
    """Yield content, media and carrier type (RDA)."""
    words = ("text", "počítač", "online zdroj") if is_nkp else ("text", "computer", "online resource")
    terms = (("336", "txt", "rdacontent"), ("337", "c", "rdamedia"), ("338", "cr", "rdacarrier"))
    for (tag, code, source), word in zip(terms, words, strict=True):
        yield tag, "  ", (("a", word), ("b", code), ("2", source))


def _conditions(title: TitleItem, settings: ProviderSettings) -> Iterator[Field]:
    yield "506", "0 ", (("a", settings.rights_open), ("f", "Unrestricted online access"), ("2", "star"))
    licence = licence_by_key(title.licence) if title.licence else None
    if licence:
        yield "540", "  ", (("a", licence.label), ("f", licence.label), ("2", "cc"), ("u", licence.url))


def _described_from(title: TitleItem, *, is_nkp: bool) -> str | None:
    if title.last_capture is None:
        return None
    seen = title.last_capture
    if is_nkp:
        return f"Název z titulní obrazovky (náhled {seen.day}.{seen.month}.{seen.year})"
    return f"Title from title screen (viewed {format_datestamp(seen)[:10]})"


def _genres(*, is_nkp: bool) -> Iterator[Field]:
    if is_nkp:
        yield "655", " 7", (("a", "www dokumenty"), ("7", "fd186892"), ("2", "czenas"))
        yield "655", " 9", (("a", "www documents"), ("2", "eczenas"))
    else:
        yield "655", " 7", (("a", "Web sites"), ("2", "local"))


def _addresses(title: TitleItem, settings: ProviderSettings, archived: str) -> Iterator[Field]:
    urls = title.urls or ()
    if settings.titles_marc_profile == _NKP:
        for url in urls[:1]:
            yield "856", "40", (("u", url),)
        yield "856", "40", (("u", archived), ("z", "archivní verze stránek"), ("4", "N"))
        return
    for url in urls[:1]:
        yield "856", "40", (("u", url), ("y", "Live site"))
    period = "/".join(
        format_datestamp(moment)[:10].replace("-", "")
        for moment in (title.first_capture, title.last_capture)
        if moment is not None
    )
    yield "857", "40", (("b", settings.archive_name), ("d", period), ("u", archived), ("y", "Archived site"))


def _records(settings: ProviderSettings, documents: str | None) -> Field:
    """Return the field of a related resource: the records of single captures."""
    is_nkp = settings.titles_marc_profile == _NKP
    words = "záznamy jednotlivých archivních verzí (OAI-PMH)" if is_nkp else DOCUMENTS
    return "856", "42", (("3", words), ("u", documents)) if documents else ()


def _written(field: Field) -> str:
    tag, indicators, subfields = field
    inside = "".join(f'<subfield code="{code}">{escape(text)}</subfield>' for code, text in subfields if text)
    if not inside:
        return ""
    return f'<datafield tag="{tag}" ind1="{indicators[0]}" ind2="{indicators[1]}">{inside}</datafield>'

"""Conversion of Dublin Core records, simple and qualified, into bibliographic records.

Sources: DCMI Metadata Terms; Expressing Qualified Dublin Core in XML (encoding schemes as `xsi:type`); DCMI
DCSV and the encoding schemes Period, Point and Box. Containers are those of DSpace, CONTENTdm and EPubs.
"""

import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from typing import Final

from lxml import etree

from harvester.bibliographic.codes import identify_all, is_address, is_identifier, language_codes
from harvester.bibliographic.dates import find_years
from harvester.bibliographic.dublin_core_values import kind_of_type, listed_subjects
from harvester.bibliographic.marc21.code_lists import RELATORS
from harvester.bibliographic.marc21.relators import relator
from harvester.bibliographic.punctuation import clean
from harvester.bibliographic.record import (
    BibliographicRecord,
    Contributor,
    Identifier,
    Link,
    Note,
    NoteKind,
    Publication,
    RawField,
    RecordKind,
    Related,
    Subject,
    TitleVariant,
    Years,
)
from harvester.bibliographic.text import fold, has_controls, sort_key, tidy

DC: Final = "http://purl.org/dc/elements/1.1/"
TERMS: Final = "http://purl.org/dc/terms/"
QUALIFIED: Final = frozenset({
    TERMS, "http://dspace.org/qualifieddc/", "http://epubs.cclrc.ac.uk/xmlns/qdc/",
    "http://worldcat.org/xmlschemas/qdc-1.0/",
})  # fmt: skip
"""Namespaces of containers whose elements may be refined."""
_RELATORS: Final = frozenset({
    "http://id.loc.gov/vocabulary/relators/", "http://www.loc.gov/loc.terms/relators/",
})  # fmt: skip
"""Namespaces whose elements are contributors with their roles, such as `marcrel:ill`."""
_RESOURCE: Final = "{http://www.w3.org/1999/02/22-rdf-syntax-ns#}resource"
_XSI: Final = "{http://www.w3.org/2001/XMLSchema-instance}"
_XSI_TYPE: Final = f"{_XSI}type"
_XML_LANG: Final = "{http://www.w3.org/XML/1998/namespace}lang"
_REFINED: Final = {
    "created": "date", "issued": "date", "available": "date", "modified": "date", "valid": "date",
    "dateCopyrighted": "date", "dateSubmitted": "date", "dateAccepted": "date",
    "abstract": "description", "tableOfContents": "description", "alternative": "title",
    "isPartOf": "relation", "hasPart": "relation", "isVersionOf": "relation", "hasVersion": "relation",
    "isReplacedBy": "relation", "replaces": "relation", "requires": "relation", "isRequiredBy": "relation",
    "isReferencedBy": "relation", "references": "relation", "isFormatOf": "relation",
    "hasFormat": "relation", "conformsTo": "relation", "extent": "format", "medium": "format",
    "spatial": "coverage", "temporal": "coverage", "accessRights": "rights", "license": "rights",
    "rightsHolder": "rights", "bibliographicCitation": "description",
}  # fmt: skip
"""Terms that refine an element."""
_NOT_PUBLISHED: Final = frozenset({"modified", "available", "valid", "dateSubmitted", "dateAccepted"})
_DATING: Final = {"issued": 0, "date": 1, "dateCopyrighted": 2, "created": 3}
"""Of the dates of publication, the one with the lowest number is preferred."""
_EMBARGO: Final = "info:eu-repo/date/"
"""Begins a date of OpenAIRE's guidelines, such as the end of an embargo."""
_MOST_ATTRIBUTES: Final = 100
"""Of an element, kept as notes: lxml looks up each among all, which takes minutes for 100,000."""
_TIME_OF_DAY: Final = re.compile(r"\dT\d\d:\d\d")
_BEGINNING: Final = 60
"""How many characters of a text identify it in a note about it."""


@dataclass(frozen=True, kw_only=True)
class Element:
    """One element of the record."""

    name: str
    """One of the fifteen elements; for any other element, its own name."""
    term: str
    """As written: the element, or the term that refines it."""
    text: str
    written: str
    """The text as harvested."""
    scheme: str
    """The value of `xsi:type` without its prefix."""
    language: str
    attributes: tuple[str, ...] = ()
    """All others, as `name=value`."""


def open_element(child: etree._Element) -> Element:
    """Parse an element of the record; a term that refines an element is treated as that element."""
    written = etree.QName(child)
    term = written.localname
    text = "".join(str(piece) for piece in child.itertext())
    tidied = tidy(text)
    resource = child.get(_RESOURCE, "").strip()
    return Element(
        name="contributor" if written.namespace in _RELATORS else _REFINED.get(term, term),
        term=term,
        text=tidied or resource,
        written=text,
        scheme=child.get(_XSI_TYPE, "").rpartition(":")[2].strip()
        or ("URI" if resource and not tidied else ""),
        language=child.get(_XML_LANG, "").strip(),
        attributes=tuple(
            f"{etree.QName(name).localname}={tidy(child.get(name, ''))}"
            for name in child.keys()[:_MOST_ATTRIBUTES]
            if name not in {_RESOURCE, _XML_LANG} and not str(name).startswith(_XSI)
        ),
    )


@dataclass(kw_only=True)
class DublinCoreDraft:
    """The values collected from the elements so far."""

    titles: list[Element] = field(default_factory=list)
    contributors: list[Contributor] = field(default_factory=list)
    publishers: list[str] = field(default_factory=list)
    dates: list[Element] = field(default_factory=list)
    kinds: dict[bool, RecordKind] = field(default_factory=dict)
    """The first kind of a general type, such as `Text`, as True, and that of the other types as False."""
    languages: dict[str, None] = field(default_factory=dict)
    formats: list[Element] = field(default_factory=list)
    subjects: list[Subject] = field(default_factory=list)
    genres: list[Subject] = field(default_factory=list)
    identifiers: list[Identifier] = field(default_factory=list)
    related: list[Related] = field(default_factory=list)
    links: list[Link] = field(default_factory=list)
    notes: list[Note] = field(default_factory=list)

    def note(self, found: Element, kind: NoteKind = NoteKind.NOTE, fault: str = "") -> None:
        """Add the element to the notes."""
        self.notes.append(Note(kind=kind, field=f"dc:{found.term}", text=found.text, fault=fault))

    def keep(self, qualifier: str, found: Element) -> None:
        """Keep what qualifies an element and has no column, with the beginning of the element."""
        text = found.text if len(found.text) <= _BEGINNING else f"{found.text[:_BEGINNING]}…"
        self.notes.append(Note(kind=NoteKind.KEPT, field=f"dc:{found.term}", text=f"{qualifier}: {text}"))

    def finish(self) -> BibliographicRecord:
        """Return the record, combining the values of all elements."""
        title = self._title()
        date = self._date()
        first, *others = list(dict.fromkeys(self.publishers)) or [""]
        publications = [Publication(publisher=first, date=date)] if first or date else []
        publications += [Publication(publisher=publisher) for publisher in others]
        return BibliographicRecord(
            title=title,
            sort_title=sort_key(title),
            kind=self.kinds.get(False) or self.kinds.get(True, RecordKind.OTHER),
            years=find_years(date) if date else Years(),
            date_text=date,
            languages=tuple(self.languages),
            extent=self._extent(),
            variants=tuple(
                TitleVariant(kind="alternative", text=one.text, label=one.language)
                for one in self.titles
                if one.text != title
            ),
            contributors=tuple(self.contributors),
            publications=tuple(publications),
            subjects=tuple(self.subjects),
            genres=tuple(self.genres),
            identifiers=tuple(self.identifiers),
            related=tuple(self.related),
            links=tuple(self.links),
            notes=tuple(self.notes),
        )

    def _title(self) -> str:
        """Return the first title that is not an alternative one."""
        if not self.titles:
            fault = "no title (dc:title)"
            self.notes.append(Note(kind=NoteKind.BROKEN, field="dc:title", text="", fault=fault))
            return ""
        title = next((one.text for one in self.titles if one.term == "title"), self.titles[0].text)
        for one in self.titles:
            if one.text == title and one.language:
                self.keep(one.language, one)
        return title

    def _extent(self) -> str:
        """Return the extents; without any, all formats. Formats beside an extent become notes."""
        extents = [one for one in self.formats if one.term == "extent"]
        for one in self.formats if extents else ():
            if one.term != "extent":
                self.note(one, NoteKind.KEPT)
        return " ; ".join(one.text for one in extents or self.formats)

    def _date(self) -> str:
        """Set the date of publication to the first that names a year; the others become notes."""
        dated = [one for one in self.dates if find_years(one.text) != Years()]
        published = [one for one in dated if one.term not in _NOT_PUBLISHED]
        chosen = next(iter(sorted(published, key=_preference) or dated or self.dates), None)
        for one in self.dates:
            if one is not chosen:
                self.note(one, NoteKind.KEPT)
            elif one not in dated:
                self.note(one, NoteKind.BROKEN, "no year recognized in this date")
        return chosen.text if chosen is not None else ""


def _preference(one: Element) -> tuple[bool, bool, int]:
    """Return the sort key of a date: the end of an embargo comes last, times of day before it.

    DSpace sends the times at which it received a record and made it available as further dates.
    """
    return one.text.startswith(_EMBARGO), _TIME_OF_DAY.search(one.text) is not None, _DATING.get(one.term, 9)


_OPENAIRE: Final = "http://namespace.openaire.eu/"
_CONTAINERS: Final = frozenset({"dc", "qualifieddc"})
_CLASSES: Final = frozenset({"DDC", "LCC", "UDC"})
_CLEANED: Final = frozenset({"title", "subject", "publisher"})
_STRUCTURED: Final = frozenset({"Point", "Box", "Period"})
"""Encoding schemes whose values are labelled components: `name=Praha; east=14.4; north=50.1`."""
_NAME: Final = re.compile(r"(?:^|;)\s*name\s*=\s*([^;]+)")
_BORN: Final = r"(?:\(|asi |ca\.? |approximately |\*|narozen\w* )?\d{3,4}\??\s*"
_DIED: Final = r"-\s*(?:asi |ca\.? |approximately )?\d{0,4}\??"
_LIVED: Final = rf"{_BORN}(?:{_DIED})?\)?"
_LIFE: Final = re.compile(rf"(?:,\s*({_LIVED}(?:,\s*{_LIVED})?)|\s*(\({_BORN}{_DIED}\)))$")
_FORMATTING: Final = re.compile(r"<(/?)(?:i|b|em|strong|sub|sup)>", re.IGNORECASE)
"""Markup of journals in titles. Marks that are not closed are words of a title about markup."""
_RAISED: Final = re.compile(r"<(sup|sub)>([0-9+-]{1,9})</\1>", re.IGNORECASE)
"""Numbers in markup: "10<sup>5</sup>" is not 105."""
_SIGNS: Final = {
    "sup": str.maketrans("0123456789+-", "⁰¹²³⁴⁵⁶⁷⁸⁹⁺⁻"),
    "sub": str.maketrans("0123456789+-", "₀₁₂₃₄₅₆₇₈₉₊₋"),
}
_ROLE_WORDS: Final = r"([^()\[\]\d]{3,40})"
_ROLE: Final = re.compile(rf"\s*[(\[]{_ROLE_WORDS}[)\]]$|(?<=\d\))\.\s+{_ROLE_WORDS}$")
"""In brackets after a name, or after those of its years: "Hugo, Victor (1802-1885). Auteur du texte"."""
_RELATIONS: Final = {
    "isPartOf": "host", "hasPart": "part", "replaces": "preceding", "isReplacedBy": "succeeding",
    "isVersionOf": "other edition", "hasVersion": "other edition", "isFormatOf": "other form",
    "hasFormat": "other form",
}  # fmt: skip


class DublinCoreConverter:
    """Dublin Core in any container, such as `oai_dc`."""

    name = "dublin_core"
    version = 12
    namespaces = frozenset({"http://www.openarchives.org/OAI/2.0/oai_dc/", DC})
    rank = 1

    def reads(self, element: etree._Element) -> bool:
        """Return whether it is a container of Dublin Core: by its name, or by an element in it."""
        name = etree.QName(element)
        return (
            name.namespace in self.namespaces or name.localname in _CONTAINERS or _borrows(element, DC, TERMS)
        )

    def declined(self, element: etree._Element) -> str:  # noqa: ARG002 as the protocol defines it
        """Return an empty text: every record of Dublin Core describes a publication."""
        return ""

    def convert(self, element: etree._Element) -> BibliographicRecord:
        """Convert the record; raises nothing and loses nothing, whatever the record contains."""
        draft = DublinCoreDraft()
        for child in element.iter(etree.Element):
            _read(child, element, draft)
        return draft.finish()

    def fields(self, element: etree._Element) -> Iterator[RawField]:
        """Yield the elements as filtering sets see them: a refined one by its own name, too."""
        for child in element.iterchildren(etree.Element):
            found = open_element(child)
            for name in dict.fromkeys((found.name, found.term)):
                yield RawField(name=name, values=(("", found.text),))


class QualifiedDublinCoreConverter(DublinCoreConverter):
    """Qualified Dublin Core: it says more than `oai_dc`, and is imported where a repository has both."""

    namespaces = QUALIFIED
    rank = 2

    def reads(self, element: etree._Element) -> bool:
        """Return whether it is a container of qualified Dublin Core, or an element in it is a DCMI term."""
        name = etree.QName(element)
        return name.namespace in QUALIFIED or name.localname == "qualifieddc" or _borrows(element, TERMS)


def _borrows(element: etree._Element, *namespaces: str) -> bool:
    """Return whether an element in it is of these namespaces.

    Records of OpenAIRE have such elements, but names, titles and dates of DataCite.
    """
    children = element.iterchildren(etree.Element)
    is_openaire = (etree.QName(element).namespace or "").startswith(_OPENAIRE)
    return not is_openaire and any(etree.QName(child).namespace in namespaces for child in children)


def _read(child: etree._Element, root: etree._Element, draft: DublinCoreDraft) -> None:
    """Read one element at any depth; text between elements is recorded as a note."""
    if child is root or (len(child) > 0 and next(child.iterchildren(etree.Element), None) is not None):
        stray = tidy(" ".join((child.text or "", *(one.tail or "" for one in child))))
        if stray:
            name = etree.QName(child).localname
            fault = "text between the elements"
            draft.notes.append(Note(kind=NoteKind.BROKEN, field=f"dc:{name}", text=stray, fault=fault))
        return
    found = open_element(child)
    if has_controls(found.written):
        fault = "control characters, which are removed"
        text = ascii(found.written)
        draft.notes.append(Note(kind=NoteKind.BROKEN, field=f"dc:{found.term}", text=text, fault=fault))
    if found.name in _CLEANED and found.text and not clean(found.text):
        draft.note(found, NoteKind.BROKEN, "nothing but punctuation")
    elif found.text:
        _TAKERS.get(found.name, _take_unknown)(found, draft)
    _keep_qualifiers(found, draft)


def _keep_qualifiers(found: Element, draft: DublinCoreDraft) -> None:
    """Keep what says more of an element and has no column: scheme, language, and unknown attributes."""
    for attribute in found.attributes:
        draft.keep(attribute, found)
    if found.scheme and found.name not in {"subject", "language", "identifier"}:
        text = f"{found.scheme}: {found.text}"
        draft.notes.append(Note(kind=NoteKind.KEPT, field=f"dc:{found.term}", text=text))
    if found.language and found.text and found.name != "title":
        draft.keep(found.language, found)


def _take_title(found: Element, draft: DublinCoreDraft) -> None:
    text = _RAISED.sub(lambda one: one[2].translate(_SIGNS[one[1].lower()]), found.text)
    slashes = _FORMATTING.findall(text)
    closed = slashes.count("/") * 2 == len(slashes)
    text = _FORMATTING.sub("", text) if closed else text
    draft.titles.append(replace(found, text=clean(text) or found.text))


def _take_name(found: Element, draft: DublinCoreDraft) -> None:
    text, code = clean(found.text), {"creator": "cre", "contributor": "ctb"}.get(found.term)
    role = _ROLE.search(text)
    word = (role[1] or role[2]) if role else ""
    if role and not word.isupper() and relator(word) in RELATORS:  # (AUT) is a country
        text, code = text[: role.start()], relator(word)
    life = _LIFE.search(text)
    dates = (life[1] or life[2]).strip("()") if life else ""
    name = clean(text[: life.start()] if life else text)
    if name or dates:
        roles, main = (code or relator(found.term),), found.name == "creator"
        draft.contributors.append(
            Contributor(name=name or dates, kind="unknown", dates=dates, roles=roles, main=main)
        )
    else:
        draft.note(found, NoteKind.BROKEN, "a name without letters")


def _take_subject(found: Element, draft: DublinCoreDraft) -> None:
    if found.scheme in _CLASSES:
        draft.subjects.append(Subject(text=found.text, kind="class", source=found.scheme.lower()))
    elif found.scheme:
        draft.subjects.append(Subject(text=clean(found.text), source=found.scheme))
    else:
        draft.subjects.extend(listed_subjects(found.text))


def _take_type(found: Element, draft: DublinCoreDraft) -> None:
    kind, general = kind_of_type(found.text)
    if kind is not None:
        draft.kinds.setdefault(general, kind)
    draft.genres.append(Subject(text=found.text, kind="genre", source=found.scheme))


def _take_language(found: Element, draft: DublinCoreDraft) -> None:
    codes, are_known = language_codes(found.text)
    if not are_known:
        draft.note(found, NoteKind.BROKEN, "unknown language")
    elif codes != [fold(found.text)]:
        draft.note(found, NoteKind.KEPT)
    draft.languages.update(dict.fromkeys(codes))


def _take_identifier(found: Element, draft: DublinCoreDraft) -> None:
    for text, scheme, value, good in identify_all(found.text, found.scheme.lower()):
        state = "valid" if good else "invalid"
        draft.identifiers.append(Identifier(scheme=scheme, value=value, found=text, state=state))
        if not good:
            draft.note(found, NoteKind.BROKEN, f"the check digit of this {scheme.upper()} is wrong")
    if is_address(found.text):
        draft.links.append(Link(url=found.text))


def _take_relation(found: Element, draft: DublinCoreDraft) -> None:
    relation = "source" if found.name == "source" else _RELATIONS.get(found.term, "related")
    label = found.term if found.term not in {"relation", "source"} else ""
    if found.scheme == "URI" or is_identifier(found.text):
        draft.related.append(Related(relation=relation, label=label, identifiers=(found.text,)))
    else:
        draft.related.append(Related(relation=relation, title=found.text, label=label))
    if is_address(found.text):
        draft.links.append(Link(url=found.text, label=label, relation="related"))


def _take_coverage(found: Element, draft: DublinCoreDraft) -> None:
    """Read a place or a time. Of a Point, Box or Period, the name is the subject; the rest is a note."""
    temporal = found.term == "temporal" or found.scheme == "Period"
    spatial = found.term == "spatial" or found.scheme in {"Point", "Box"}
    if not spatial and find_years(found.text) != Years():
        temporal = True
    text = found.text
    if found.scheme in _STRUCTURED:
        name = _NAME.search(text)
        text = tidy(name[1]) if name else text
    kind = "chronology" if temporal else "place"
    source = "" if found.scheme in _STRUCTURED else found.scheme
    draft.subjects.append(Subject(text=text, kind=kind, source=source))


def _take_note(found: Element, draft: DublinCoreDraft) -> None:
    draft.note(found)


def _take_unknown(found: Element, draft: DublinCoreDraft) -> None:
    draft.note(found, NoteKind.KEPT)


_TAKERS: Final[dict[str, Callable[[Element, DublinCoreDraft], None]]] = {
    "title": _take_title,
    "creator": _take_name,
    "contributor": _take_name,
    "subject": _take_subject,
    "description": _take_note,
    "publisher": lambda found, draft: draft.publishers.append(clean(found.text)),
    "date": lambda found, draft: draft.dates.append(found),
    "type": _take_type,
    "format": lambda found, draft: draft.formats.append(found),
    "identifier": _take_identifier,
    "source": _take_relation,
    "language": _take_language,
    "relation": _take_relation,
    "coverage": _take_coverage,
    "rights": _take_note,
}

"""The converter for MARC 21: which function reads each field, and what happens to the rest."""

import re
from collections.abc import Callable, Iterator
from typing import Final

from lxml import etree

from harvester.bibliographic.marc21 import control_fields, description, names
from harvester.bibliographic.marc21.control_fields import read_control, read_leader
from harvester.bibliographic.marc21.draft import MarcDraft
from harvester.bibliographic.marc21.fields import FieldReading, OpenField, read_marc
from harvester.bibliographic.marc21.kinds import NAMESPACES, declined, is_marc
from harvester.bibliographic.marc21.names import FAMILY, NUMERATION, authority_ids, is_numeration
from harvester.bibliographic.punctuation import clean, sentences, separator, unclosed
from harvester.bibliographic.record import BibliographicRecord, Link, Note, RawField, Related, Subject

_RELATIONS: Final = {
    "760": "series", "762": "subseries", "765": "original", "767": "translation", "770": "supplement",
    "772": "main work", "773": "host", "774": "part", "775": "other edition", "776": "other form",
    "777": "issued with", "780": "preceding", "785": "succeeding", "786": "data source", "787": "related",
}  # fmt: skip
_LABELS: Final = {
    "780": {
        "1": "continues in part", "2": "supersedes", "3": "supersedes in part", "4": "formed by the union of",
        "5": "absorbed", "6": "absorbed in part", "7": "separated from",
    },
    "785": {
        "1": "continued in part by", "2": "superseded by", "3": "superseded in part by", "4": "absorbed by",
        "5": "absorbed in part by", "6": "split into", "7": "merged with", "8": "changed back to",
    },
}  # fmt: skip
"""What the second indicator says of the relation of a preceding or succeeding entry."""
_LINKS: Final = {"0": "resource", "1": "version", "2": "related"}
_LINK: Final = "856"
_ADDRESS: Final = re.compile(r"(?i)^(?:https?|ftp)://[^\s/]")
_KINDS: Final = {
    "600": "person", "610": "corporate", "611": "meeting", "630": "title", "647": "event",
    "648": "chronology", "650": "topic", "651": "place", "653": "keyword", "654": "topic", "655": "genre",
    "656": "occupation", "657": "function", "658": "curriculum", "659": "category", "662": "place",
}  # fmt: skip
_SOURCES: Final = {"0": "lcsh", "1": "lcshac", "2": "mesh", "3": "nal", "5": "cash", "6": "rvm"}
_SUBDIVISIONS: Final = "vxyz"
_NO_WORDS: Final = "0123456789w"
_CLASSES: Final = {"050": "lcc", "072": "", "080": "udc", "082": "ddc", "084": ""}
_KEYWORDS: Final = {"653", "659"}
_PERSON: Final = "600"
_SENTENCES: Final = "bnpt"
"""Subfields that begin a sentence: subordinate units, titles and their parts."""
_AFTER_COMMAS: Final = "np"
"""Those of them that a comma can precede, as in uniform titles of music."""


def take_related(found: OpenField, draft: MarcDraft) -> None:
    """Read a linking entry."""
    standard = _LABELS.get(found.tag, {}).get(found.indicators[1], "")
    introduction = " ".join(clean(value).rstrip(":") for value in found.take("i"))
    related = Related(
        relation=_RELATIONS[found.tag],
        title=sentences(clean(value) for value in found.take("stp")),
        author=", ".join(clean(value) for value in found.take("a")),
        part=", ".join(clean(value) for value in found.take("g") or found.take("q")),
        publication=" ; ".join(clean(value) for value in found.take("bdh")),
        identifiers=tuple(found.take("oruwxyz")),
        label=introduction or standard,
    )
    if introduction or related != Related(relation=related.relation, label=standard):
        draft.related.append(related)


def take_link(found: OpenField, draft: MarcDraft) -> None:
    """Read field 856; a value that is not a web address is reported as broken."""
    relation = _LINKS.get(found.indicators[1], "other" if found.indicators[1] != " " else "resource")
    label = " ".join(found.take("3yz"))
    urls = found.take("u")
    for url in urls:
        draft.links.append(Link(url=url, label=label, relation=relation))
        if not _ADDRESS.match(url):
            draft.broken("856", url, "this is not an http or ftp address")
    if not urls and label:
        draft.keep("856", label)


def take_holdings(reading: FieldReading, draft: MarcDraft) -> None:
    """Read a holdings record: its links; everything else is kept, for call numbers have no column."""
    draft.notes.extend(reading.broken)
    for tag, data in (("LDR", reading.leader), *reading.control()):
        draft.keep(tag, f"holdings record: {data}")
    for found in reading.fields():
        if found.tag == _LINK:
            take_link(found, draft)
        draft.keep_rest(found)


def take_subject(found: OpenField, draft: MarcDraft) -> None:
    """Read a subject, or a genre (655); names and titles in it are joined to one text."""
    source = found.first("2").rstrip(".")
    if not source and found.tag not in _KEYWORDS:
        source = _SOURCES.get(found.indicators[1], "")
    family = found.tag == _PERSON and found.indicators[0] == FAMILY
    kind = "family" if family else _KINDS.get(found.tag, "local")
    ids = authority_ids(found)
    texts = [clean(value) for value in found.take("a")] if found.tag in _KEYWORDS else [_text(found)]
    subjects = [Subject(text=text, kind=kind, source=source, authority_ids=ids) for text in texts if text]
    (draft.genres if kind == "genre" else draft.subjects).extend(subjects)
    if not subjects:
        rest = " ".join((found.take_rest(), source, *ids)).strip()
        draft.broken(found.written, rest, "a subject without a heading")


def take_class(found: OpenField, draft: MarcDraft) -> None:
    """Read a class of a classification; the words of field 072 are included."""
    given = "" if _CLASSES[found.tag] else found.first("2")  # in 080 and 082, $2 is the edition
    words = [clean(value) for value in found.take("x")] if found.tag == "072" else []
    items = [clean(value) for value in found.take("a")]
    kind = "category" if found.tag == "072" else "class"
    for place, item in enumerate(items):
        text = " -- ".join([item, *words] if place == 0 else [item])
        draft.subjects.append(Subject(text=text, kind=kind, source=_CLASSES[found.tag] or given))
    if not items:
        rest = " ".join(filter(None, (*words, given, found.take_rest())))
        draft.broken(found.written, rest, "a class without a number")


def _text(found: OpenField) -> str:
    """Return the heading, followed by its subdivisions after ` -- `."""
    codes = "".join(dict.fromkeys(one.code for one in found.left if one.code not in _NO_WORDS))
    name = before = ""
    divisions: list[str] = []
    for code, value in found.pairs(codes):
        if code in _SUBDIVISIONS:
            divisions.append(clean(value))
        else:
            belongs = code == NUMERATION and found.tag == _PERSON
            sign = ", "
            if belongs and is_numeration(found, code, value):
                sign = " "
            elif code in _SENTENCES and not belongs:
                sign = separator(name, before if code in _AFTER_COMMAS else "")
            name = f"{name}{sign if name else ''}{unclosed(clean(value, stop=not belongs))}"
            before = value
    return " -- ".join(part for part in (name, *divisions) if part)


Take = Callable[[OpenField, MarcDraft], None]

_NAMES: Final = ("100", "110", "111", "700", "710", "711", "720")
_VARIANTS: Final = ("130", "210", "222", "240", "242", "243", "246", "247", "730", "740")
_SUBJECTS: Final = ("600", "610", "611", "630", "647", "648", "650", "651", "653", "654", "655", "656", "657",
                    "658", "659", "662", *(f"69{digit}" for digit in range(10)))  # fmt: skip
_RELATED: Final = ("760", "762", "765", "767", "770", "772", "773", "774", "775", "776", "777", "780", "785",
                   "786", "787")  # fmt: skip


def _take_note(found: OpenField, draft: MarcDraft) -> None:
    """Read a note (5XX) as one text."""
    codes = "".join(dict.fromkeys(one.code for one in found.left if one.code not in "69"))
    text = " ".join(found.take(codes))
    if text:
        draft.notes.append(Note(field=found.written if not found.linked else found.tag, text=text))


_TAKERS: Final[dict[str, Take]] = {
    "020": control_fields.take_isbn,
    "022": control_fields.take_issn,
    "024": control_fields.take_other,
    **dict.fromkeys(("010", "015", "016", "028", "035"), control_fields.take_number),
    "041": control_fields.take_languages,
    **dict.fromkeys(("050", "072", "080", "082", "084"), take_class),
    **dict.fromkeys(_NAMES, names.take_name),
    "245": description.take_title,
    **dict.fromkeys(_VARIANTS, description.take_variant),
    "250": description.take_edition,
    **dict.fromkeys(("260", "264"), description.take_publication),
    "300": description.take_extent,
    **dict.fromkeys(("440", "490", "830"), description.take_series),
    **dict.fromkeys(("800", "810", "811"), description.take_series_name),
    **dict.fromkeys((f"5{number:02}" for number in range(100)), _take_note),
    **dict.fromkeys(_SUBJECTS, take_subject),
    **dict.fromkeys(_RELATED, take_related),
    _LINK: take_link,
}


class Marc21Converter:
    """MARC 21 in MARCXML, MarcXchange or `oai_marc`."""

    name = "marc21"
    version = 12
    namespaces = NAMESPACES
    rank = 10

    def reads(self, element: etree._Element) -> bool:
        """Return whether it is a MARC record or a collection; some repositories omit the namespace."""
        return is_marc(element)

    def declined(self, element: etree._Element) -> str:
        """Return why it is no bibliographic record, or an empty text."""
        return declined(element)

    def convert(self, element: etree._Element) -> BibliographicRecord:
        """Convert the record; raises nothing and loses no subfield, whatever the record contains."""
        reading = read_marc(element)
        draft = MarcDraft(notes=list(reading.broken))
        read_leader(reading.leader, draft)
        for tag, data in reading.control():
            read_control(tag, data, draft)
        for found in reading.fields():
            take = _TAKERS.get(found.tag)
            if take is not None:
                take(found, draft)
            draft.keep_rest(found)
        for holdings in reading.holdings:
            take_holdings(holdings, draft)
        return draft.finish()

    def fields(self, element: etree._Element) -> Iterator[RawField]:
        """Yield the fields as filtering sets see them."""
        return read_marc(element).raw_fields()

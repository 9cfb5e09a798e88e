"""Values of `dc:type`, in the vocabularies and languages of repositories, and of `dc:subject`.

Sources: DCMI Type Vocabulary; default types of DSpace and EPrints; publication types of `info:eu-repo`;
models of Kramerius; types of record in the Library of Congress's crosswalk from MARC to Dublin Core;
resource types of COAR (https://vocabularies.coar-repositories.org/resource_types/).
"""

import re
from typing import Final

from harvester.bibliographic.punctuation import clean
from harvester.bibliographic.record import RecordKind, Subject
from harvester.bibliographic.text import fold

_WORDS: Final = {
    RecordKind.BOOK: "book kniha monograph monografie monografia monographunit text buch bookpart "
    "booksection bookchapter chapter kapitola report technicalreport workingpaper convolute proceedings "
    "conferenceproceedings sbornik zbornik",
    RecordKind.ARTICLE: "article clanek clanok articles journalarticle articlejournal peerreviewedarticle "
    "preprint contributiontoperiodical conferenceobject conferencepaper conferencecontribution "
    "conferenceorworkshopitem review bookreview",
    RecordKind.SERIAL: "journal periodical serial casopis periodikum noviny newspaper periodicalvolume "
    "periodicalitem",
    RecordKind.COLLECTION: "collection sbirka zbierka mixedmaterial",
    RecordKind.MANUSCRIPT: "manuscript rukopis thesis theses dissertation thesisordissertation studentthesis "
    "masterthesis mastersthesis doctoralthesis doctoraldissertation phdthesis bachelorthesis bachelorsthesis "
    "bakalarskaprace bakalarskeprace diplomovaprace diplomoveprace magisterskaprace disertacniprace "
    "dizertacniprace rigorozniprace habilitacniprace zaverecnaprace kvalifikacniprace absolventskaprace "
    "bakalarskapraca diplomovapraca dizertacnapraca rigoroznapraca habilitacnapraca zaverecnapraca",
    RecordKind.SCORE: "score musicalscore notatedmusic sheetmusic hudebnina hudobnina noty partitura",
    RecordKind.MAP: "map mapa cartographic",
    RecordKind.PICTURE: "image stillimage image3d photograph fotografie fotografia picture obraz grafika "
    "graphic",
    RecordKind.FILM: "movingimage video film animation",
    RecordKind.MUSIC: "music hudba recordingmusical",
    RecordKind.SOUND: "sound audio zvuk soundrecording recordingacoustical recordingoral",
    RecordKind.ELECTRONIC: "software softwaremultimedia dataset interactiveresource webpage website service",
    RecordKind.OBJECT: "physicalobject object predmet threedimensionalobject",
}
"""Folded values without blanks."""
_COAR: Final = {
    RecordKind.BOOK: "18cf 18gh 18op 18wq 18ws 18wz 18hj 2f33 3248 8042 86bc 93fc ba1f baaf f744",
    RecordKind.ARTICLE: "2df8fbb1 3e5a 545b 5794 6501 6670 816b b239 ba08 beb9 c94f dcae04bc efa0 998f",
    RecordKind.SERIAL: "0640 2fe3",
    RecordKind.MANUSCRIPT: "0040 46ec 7a1f bdcc db06",
    RecordKind.SCORE: "18cw",
    RecordKind.MAP: "12cc 12cd",
    RecordKind.PICTURE: "c513 ecc8",
    RecordKind.FILM: "12ce 8a7e",
    RecordKind.MUSIC: "18cd",
    RecordKind.SOUND: "18cc",
    RecordKind.ELECTRONIC: "5ce6 7ad9 ddb1 e9a0",
}
"""The ends of addresses such as `http://purl.org/coar/resource_type/c_6501`, after `c_`."""
_KIND_OF: Final = {word: kind for kind, words in _WORDS.items() for word in words.split()} | {
    f"c{end}": kind for kind, ends in _COAR.items() for end in ends.split()
}
_GENERAL: Final = frozenset({"text", "c18cf", "collection", "service"})
_BEFORE: Final = re.compile("^.*[/:]")
"""What precedes the type in an address, in `info:eu-repo/semantics/article` and in `model:monograph`."""
_CLASS: Final = re.compile(
    r"(?:info:eu-repo/classification/)?(udc|ddc|lcc)[:/]\s*((?:[\d(\"=]|[A-Z]{1,3}\d).*)", re.IGNORECASE
)
"""A class with its classification, such as `udc:793` and `info:eu-repo/classification/ddc/020`."""
_LISTED: Final = re.compile(r"(?:&#?\w+;|;(?! )|[^;])+")
"""A subject in a list: up to a semicolon before a blank that does not end an entity such as `&amp;`."""


def kind_of_type(text: str) -> tuple[RecordKind | None, bool]:
    """Return the kind of a type, None if it is not known, and whether the type is a general one.

    >>> kind_of_type("Diplomová práce"), kind_of_type("Text")
    ((<RecordKind.MANUSCRIPT: 'manuscript'>, False), (<RecordKind.BOOK: 'book'>, True))
    """
    word = fold(_BEFORE.sub("", text)).replace(" ", "")
    return _KIND_OF.get(word), word in _GENERAL


def listed_subjects(text: str) -> list[Subject]:
    """Return the topics and classes of a list; a text with a semicolon within brackets is not divided.

    >>> [(one.text, one.source) for one in listed_subjects("ekologie; urbanismus; udc:711")]
    [('ekologie', ''), ('urbanismus', ''), ('711', 'udc')]
    """
    parts = [part.strip() for part in _LISTED.findall(text)]
    if any(part.count("(") != part.count(")") for part in parts):
        parts = [text]
    return [_subject(part) for part in parts if clean(part)]


def _subject(text: str) -> Subject:
    found = _CLASS.fullmatch(text)
    if found:
        return Subject(text=found[2], kind="class", source=found[1].lower())
    return Subject(text=clean(text))

"""The converter for MARC 21: which field is taken by what, and what becomes of the rest."""

from collections.abc import Callable, Iterator
from typing import Final

from lxml import etree

from harvester.bibliographic.marc21 import linking, names, numbers, publication, subjects, titles
from harvester.bibliographic.marc21.control import read_control, read_leader
from harvester.bibliographic.marc21.draft import Draft
from harvester.bibliographic.marc21.reading import OpenField, read_marc
from harvester.bibliographic.record import BibliographicRecord, Note, RawField

Take = Callable[[OpenField, Draft], None]

_NAMES: Final = ("100", "110", "111", "700", "710", "711", "720")
_VARIANTS: Final = ("130", "210", "222", "240", "242", "243", "246", "247", "730", "740")
_SUBJECTS: Final = ("600", "610", "611", "630", "647", "648", "650", "651", "653", "654", "655", "656", "657",
                    "658", "659", "662", *(f"69{digit}" for digit in range(10)))  # fmt: skip
_RELATED: Final = ("760", "762", "765", "767", "770", "772", "773", "774", "775", "776", "777", "780", "785",
                   "786", "787")  # fmt: skip


def _take_note(found: OpenField, draft: Draft) -> None:
    """Take a note (5XX), all of it as one text."""
    codes = "".join(dict.fromkeys(one.code for one in found.left if one.code != "6"))
    text = " ".join(found.take(codes))
    if text:
        draft.notes.append(Note(field=found.written if not found.linked else found.tag, text=text))


_TAKERS: Final[dict[str, Take]] = {
    "020": numbers.take_isbn,
    "022": numbers.take_issn,
    "024": numbers.take_other,
    **dict.fromkeys(("010", "015", "016", "028", "035"), numbers.take_number),
    "041": numbers.take_languages,
    **dict.fromkeys(("050", "072", "080", "082", "084"), subjects.take_class),
    **dict.fromkeys(_NAMES, names.take_name),
    "245": titles.take_title,
    **dict.fromkeys(_VARIANTS, titles.take_variant),
    "250": publication.take_edition,
    **dict.fromkeys(("260", "264"), publication.take_publication),
    "300": publication.take_extent,
    **dict.fromkeys(("440", "490", "830"), publication.take_series),
    **dict.fromkeys(("800", "810", "811"), publication.take_series_name),
    **dict.fromkeys((f"5{number:02}" for number in range(100)), _take_note),
    **dict.fromkeys(_SUBJECTS, subjects.take_subject),
    **dict.fromkeys(_RELATED, linking.take_related),
    "856": linking.take_link,
}


class Marc21Converter:
    """MARC 21 in MARCXML."""

    name = "marc21"
    version = 1
    namespaces = frozenset({"http://www.loc.gov/MARC21/slim"})
    rank = 10

    def reads(self, element: etree._Element) -> bool:
        """Whether it is a record or a collection of MARCXML; some repositories forget the namespace."""
        name = etree.QName(element)
        return name.localname in {"record", "collection"} and (name.namespace or "") in {"", *self.namespaces}

    def convert(self, element: etree._Element) -> BibliographicRecord:
        """The record; whatever is in it, nothing is raised and nothing is lost."""
        reading = read_marc(element)
        draft = Draft(notes=list(reading.broken))
        read_leader(reading.leader, draft)
        for tag, data in reading.control():
            read_control(tag, data, draft)
        for found in reading.fields():
            take = _TAKERS.get(found.tag)
            if take is not None:
                take(found, draft)
            draft.keep_rest(found)
        return draft.finish()

    def fields(self, element: etree._Element) -> Iterator[RawField]:
        """The fields as filtering sets see them."""
        return read_marc(element).raw_fields()

"""MARCXML as pymarc's record, with what is broken told apart; fields whose subfields are taken one by one.

pymarc's own reader of MARCXML wants a file and a parser of its own. Ours is given an element that the safe
parser made, and keeps what breaks MARC's rules instead of raising or dropping it.
"""

import functools
import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Final

from lxml import etree
from pymarc import Field, Indicators, Record, Subfield

from harvester.bibliographic.punctuation import has_controls, tidy
from harvester.bibliographic.record import Note, NoteKind, RawField

LINK: Final = "880"
_SUBFIELD: Final = "{http://www.loc.gov/MARC21/slim}subfield"
_TAG: Final = re.compile(r"[0-9A-Za-z]{3}", re.ASCII)
_CONTROL_TAG: Final = re.compile(r"00[1-9A-Za-z]", re.ASCII)
_LINKAGE: Final = re.compile(r"^(\d{3})-(\d{2})(?!\d)")
_NON_SORTING: Final = str.maketrans("", "", "\x98\x9c")


@dataclass(kw_only=True)
class OpenField:
    """A data field; whoever makes something of a subfield takes it, and what nobody took is kept."""

    tag: str
    """What the field is; of a field 880, the tag that it is linked to."""
    written: str
    """The tag that it has."""
    indicators: tuple[str, str]
    left: list[Subfield]
    link: str = ""
    """Occurrence number that this field and its other script share; empty where there is none."""

    @property
    def linked(self) -> bool:
        """Whether it is the other script of another field."""
        return self.written == LINK

    def take(self, codes: str) -> list[str]:
        """The values of these subfields in the field's order, tidy, without empty ones."""
        return [value for _, value in self.pairs(codes)]

    def pairs(self, codes: str) -> list[tuple[str, str]]:
        """As `take`, each value with its code."""
        found = [one for one in self.left if one.code in codes]
        if not found:
            return []
        if len(found) == len(self.left):
            self.left = []
        else:
            self.left = [one for one in self.left if one.code not in codes]
        return [(one.code, value) for one in found if (value := tidy(one.value))]

    def has(self, codes: str) -> bool:
        """Whether one of these subfields says something."""
        return any(one.code in codes and tidy(one.value) for one in self.left)

    def first(self, code: str) -> str:
        """The first value of the subfield, or nothing; others stay, and are kept as such."""
        for place, one in enumerate(self.left):
            if one.code == code and (value := tidy(one.value)):
                del self.left[place]
                return value
        return ""

    def raw(self, code: str) -> str:
        """The first value of the subfield as it came, not taken."""
        return next((one.value for one in self.left if one.code == code), "")

    def rest(self) -> str:
        """What nobody took, each as `$a value`."""
        return " ".join(f"${one.code} {value}" for one in self.left if (value := tidy(one.value)))


@dataclass(kw_only=True)
class Reading:
    """A record as it was read: pymarc's record, and what pymarc has no place for."""

    record: Record
    leader: str = ""
    broken: list[Note] = field(default_factory=list)

    def control(self) -> Iterator[tuple[str, str]]:
        """Tags and data of the control fields."""
        return ((one.tag, one.data or "") for one in self.record.fields if one.control_field)

    def fields(self) -> Iterator[OpenField]:
        """The data fields, those in another script last."""
        data = [one for one in self.record.fields if not one.control_field]
        yield from (_opened(one) for one in data if one.tag != LINK)
        yield from (_opened(one) for one in data if one.tag == LINK)

    def raw_fields(self) -> Iterator[RawField]:
        """All fields as conditions see them."""
        if self.leader:
            yield RawField(name="LDR", values=(("", self.leader),))
        for one in self.record.fields:
            if one.control_field:
                yield RawField(name=one.tag, values=(("", one.data or ""),))
            else:
                yield RawField(
                    name=one.tag,
                    indicators="".join(one.indicators or "  "),
                    values=tuple((sub.code, tidy(sub.value)) for sub in one.subfields),
                )


def read_marc(element: etree._Element) -> Reading:
    """Read a `<record>`, or the first one of a `<collection>`; never raises for what it contains."""
    records = [element] if _name(element) == "record" else list(_children(element, "record"))
    reading = Reading(record=Record())
    if not records:
        reading.broken.append(_broken("record", _text(element), "there is no <record> in it"))
        return reading
    for another in records[1:]:
        reading.broken.append(_broken("record", _text(another), "a second record in the same collection"))
    _stray(reading, records[0], "record")
    for child in records[0].iterchildren(etree.Element):
        read = _READERS.get(_name(child), _read_unknown)
        read(reading, child)
    return reading


def _read_leader(reading: Reading, element: etree._Element) -> None:
    text = _text(element)
    if reading.leader:
        reading.broken.append(_broken("LDR", text, "a second leader"))
    else:
        reading.leader = text


def _read_control(reading: Reading, element: etree._Element) -> None:
    tag, text = element.get("tag", "").strip(), _text(element)
    if _CONTROL_TAG.fullmatch(tag) and tag.isdigit():
        if has_controls(text):
            reading.broken.append(_broken(tag, ascii(text), "control characters, which are left out"))
        reading.record.fields.append(Field(tag, data=text))
    else:
        reading.broken.append(_broken(tag or "controlfield", text, "a control field with a tag that is none"))


def _read_data(reading: Reading, element: etree._Element) -> None:
    tag = element.get("tag", "").strip()
    subfields = [_subfield(reading, tag, child) for child in element.iterchildren(etree.Element)]
    _stray(reading, element, tag or "datafield")
    if not _TAG.fullmatch(tag) or _CONTROL_TAG.fullmatch(tag):
        text = " ".join(f"${one.code} {one.value}" for one in subfields)
        reading.broken.append(_broken(tag or "datafield", text, "a data field with a tag that is none"))
        return
    indicators = Indicators(_indicator(reading, element, 1), _indicator(reading, element, 2))
    kept = [one for one in subfields if one.value.strip()]
    reading.record.fields.append(Field(tag, indicators, kept))


def _read_unknown(reading: Reading, element: etree._Element) -> None:
    reading.broken.append(_broken(_name(element), _text(element), "an element that MARCXML does not have"))


_READERS: Final = {"leader": _read_leader, "controlfield": _read_control, "datafield": _read_data}


def _subfield(reading: Reading, tag: str, element: etree._Element) -> Subfield:
    text = _text(element)
    code = element.get("code", "")
    if element.tag == _SUBFIELD and len(code) == 1 and text.isprintable():
        return Subfield(code, text)
    if _name(element) != "subfield":
        reading.broken.append(_broken(tag, text, f"<{_name(element)}> where a subfield should be"))
        return Subfield("?", "")
    if has_controls(text.translate(_NON_SORTING)):
        reading.broken.append(_broken(tag, ascii(text), "control characters, which are left out"))
    if len(code) != 1:
        reading.broken.append(_broken(tag, text, f"a subfield with the code {code!r}"))
        return Subfield("?", "")
    return Subfield(code, text)


def _indicator(reading: Reading, element: etree._Element, number: int) -> str:
    given = element.get(f"ind{number}")
    if given in {"#", "\\", "-", "_", "|", "", None}:  # other ways to write a blank
        return " "
    if len(given) == 1:
        return given
    found = f"indicator {number} is {given!r}, not one character"
    reading.broken.append(_broken(element.get("tag", ""), given, found))
    return given.strip()[:1] or " "


def _opened(found: Field) -> OpenField:
    indicators = found.indicators or Indicators(" ", " ")
    opened = OpenField(
        tag=found.tag,
        written=found.tag,
        indicators=(indicators[0], indicators[1]),
        left=list(found.subfields),
    )
    link = _LINKAGE.match(tidy(opened.raw("6")))
    if link:
        opened.link = link[2] if link[2] != "00" else ""
        if found.tag == LINK:
            opened.tag = link[1]
    return opened


def _stray(reading: Reading, element: etree._Element, where: str) -> None:
    """Note text that stands between elements."""
    pieces = [piece for piece in (element.text, *(child.tail for child in element)) if piece]
    if not pieces:
        return
    text = tidy(" ".join(pieces))
    if text:
        reading.broken.append(_broken(where, text, "text between the elements"))


def _broken(where: str, text: str, fault: str) -> Note:
    return Note(kind=NoteKind.BROKEN, field=where, text=tidy(text), fault=fault)


def _children(element: etree._Element, name: str) -> Iterator[etree._Element]:
    return (child for child in element.iterchildren(etree.Element) if _name(child) == name)


def _name(element: etree._Element) -> str:
    return _local(str(element.tag))


@functools.lru_cache(maxsize=256)
def _local(tag: str) -> str:
    return tag.rpartition("}")[2]


def _text(element: etree._Element) -> str:
    if len(element) == 0:
        return element.text or ""
    return "".join(str(piece) for piece in element.itertext())

"""MARCXML as fields whose subfields are taken one by one; violations of the format are recorded separately.

pymarc's reader of MARCXML requires a file and its own parser, and drops what it does not expect. This module
receives an element from the safe parser, and keeps what violates MARC's rules. It is most of an import's
work: typical fields are read in few steps, unusual ones in many.
"""

import functools
import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Final, NamedTuple

from lxml import etree

from harvester.bibliographic.marc21.kinds import BIBLIOGRAPHIC, HOLDINGS, is_deleted, local_name, marc_records
from harvester.bibliographic.punctuation import unmarked
from harvester.bibliographic.record import Note, NoteKind, RawField
from harvester.bibliographic.text import has_controls, tidy

LINK: Final = "880"
_NAMESPACE: Final = "{http://www.loc.gov/MARC21/slim}"
_DATAFIELD: Final = f"{_NAMESPACE}datafield"
_SUBFIELD: Final = f"{_NAMESPACE}subfield"
_TAG: Final = re.compile(r"[0-9A-Za-z]{3}", re.ASCII)
_CONTROL_TAG: Final = re.compile(r"00[1-9A-Za-z]", re.ASCII)
_LINKAGE: Final = re.compile(r"^(\d{3})-(\d{2})(?!\d)")
_BLANKS: Final = frozenset({"#", "\\", "-", "_", "|", ""})
"""Other spellings of a blank indicator."""


class Control(NamedTuple):
    """A control field."""

    tag: str
    data: str


class Subfield(NamedTuple):
    """A subfield of a data field."""

    code: str
    value: str
    """The value with normalised blanks."""
    raw: str
    """The value as harvested."""


@dataclass(kw_only=True, slots=True)
class OpenField:
    """A data field; the code that uses a subfield takes it, and what is left in the end is kept as a note."""

    tag: str
    """The field's meaning; for a field 880, the tag to which it is linked."""
    written: str
    """The field's own tag."""
    indicators: str
    """Two characters."""
    left: list[Subfield]
    codes: set[str]
    """A superset of the codes that are left: most queries are for subfields that a field does not have."""
    link: str = ""
    """The occurrence number shared by this field and its other script; empty if there is none."""

    @property
    def linked(self) -> bool:
        """Return whether it is the other script of another field."""
        return self.written == LINK

    def take(self, codes: str) -> list[str]:
        """Take the values of these subfields, tidied, in the field's order, without empty ones."""
        if self.codes.isdisjoint(codes):
            return []
        return [value for _, value in self.pairs(codes)]

    def pairs(self, codes: str) -> list[tuple[str, str]]:
        """Take as `take` does; return each value with its code."""
        if self.codes.isdisjoint(codes):
            return []
        found = [one for one in self.left if one[0] in codes]
        if len(found) == len(self.left):
            self.left = []
            self.codes = set()
        else:
            self.left = [one for one in self.left if one[0] not in codes]
            self.codes.difference_update(codes)
        return [(code, value) for code, value, _ in found if value]

    def has(self, codes: str) -> bool:
        """Return whether one of these subfields is not empty."""
        return not self.codes.isdisjoint(codes) and any(
            code in codes and value for code, value, _ in self.left
        )

    def first(self, code: str) -> str:
        """Take the first value of the subfield, or an empty string; further ones are left for the notes."""
        if code in self.codes:
            for place, one in enumerate(self.left):
                if one.code == code and one.value:
                    del self.left[place]
                    return one.value
        return ""

    def raw(self, code: str) -> str:
        """Return the first value of the subfield as harvested, without taking it."""
        if code not in self.codes:
            return ""
        return next((one.raw for one in self.left if one.code == code), "")

    def take_rest(self) -> str:
        """Take the subfields that were not taken before, each as `$a value`."""
        if not self.left:
            return ""
        rest, self.left = self.left, []
        return " ".join([f"${code} {value}" for code, value, _ in rest if value])


@dataclass(kw_only=True)
class FieldReading:
    """A record as read; each of its fields can be taken once."""

    leader: str = ""
    found: list[Control | OpenField] = field(default_factory=list)
    """The fields in the record's order."""
    broken: list[Note] = field(default_factory=list)
    holdings: "list[FieldReading]" = field(default_factory=list)
    """The holdings records beside it."""

    def control(self) -> list[Control]:
        """Return the control fields."""
        return [one for one in self.found if isinstance(one, Control)]

    def fields(self) -> list[OpenField]:
        """Return the data fields, those in another script last."""
        data = [one for one in self.found if isinstance(one, OpenField)]
        linked = [one for one in data if one.linked]
        return [*(one for one in data if not one.linked), *linked] if linked else data

    def raw_fields(self) -> Iterator[RawField]:
        """Yield all fields as conditions see them."""
        if self.leader:
            yield RawField(name="LDR", values=(("", self.leader),))
        for one in self.found:
            if isinstance(one, Control):
                yield RawField(name=one.tag, values=(("", one.data),))
            else:
                values = tuple((code, value) for code, value, _ in one.left)
                yield RawField(name=one.written, indicators=one.indicators, values=values)
        for holding in self.holdings:
            yield from (one for one in holding.raw_fields() if one.indicators)


def read_marc(element: etree._Element) -> FieldReading:
    """Read a record, or the first bibliographic one of a collection; never raises because of its content.

    The collection's holdings are read, too; its other records are noted.
    """
    found = marc_records(element)
    records = sorted(found.of_kind(BIBLIOGRAPHIC), key=is_deleted)
    if not records:
        reading = FieldReading()
        reading.broken.append(_broken("record", _text(element), "no bibliographic record found"))
        return reading
    reading = _read_record(records[0])
    reading.holdings = [_read_record(one) for one in found.of_kind(HOLDINGS)]
    for another in records[1:]:
        fault = "another bibliographic record in the same collection; only the first one has a row"
        reading.broken.append(_broken("record", " ".join(map(str, another.itertext())), fault))
    for kind, another in found.others():
        text = tidy(f"{kind} record: {' '.join(map(str, another.itertext()))}")
        reading.broken.append(Note(kind=NoteKind.KEPT, field="record", text=text))
    return reading


def _read_record(record: etree._Element) -> FieldReading:
    reading = FieldReading()
    _stray(reading, record, "record")
    for child in record.iterchildren(etree.Element):
        if child.tag == _DATAFIELD:
            _read_data(reading, child)
        else:
            _READERS.get(local_name(child), _read_unknown)(reading, child)
    return reading


def _read_leader(reading: FieldReading, element: etree._Element) -> None:
    text = _text(element)
    if reading.leader:
        reading.broken.append(_broken("LDR", text, "a second leader"))
    else:
        reading.leader = text


def _read_control(reading: FieldReading, element: etree._Element) -> None:
    tag, text = element.get("tag", "").strip(), _text(element)
    if _CONTROL_TAG.fullmatch(tag) and tag.isdigit():
        if has_controls(text):
            reading.broken.append(_broken(tag, ascii(text), "control characters, which are removed"))
        reading.found.append(Control(tag, text))
    else:
        reading.broken.append(_broken(tag or "controlfield", text, "a control field with an invalid tag"))


def _read_data(reading: FieldReading, element: etree._Element) -> None:
    tag = (element.get("tag") or "").strip()
    subfields: list[Subfield] = []
    stray = not _is_blank(element.text)
    for child in element:
        text, code = child.text or "", child.get("code") if child.tag == _SUBFIELD else None
        if code is not None and len(code) == 1 and len(child) == 0 and text.isprintable():
            value = " ".join((unmarked(text) if "<<" in text or "\u00ac" in text else text).split())
            subfields.append(Subfield(code, value, text))
        elif isinstance(child.tag, str):
            subfields.append(_subfield(reading, tag, child))
        stray = stray or not _is_blank(child.tail)
    if stray:
        _stray(reading, element, tag or "datafield")
    if not _is_data_tag(tag):
        text = " ".join(f"${one.code} {one.raw}" for one in subfields)
        reading.broken.append(_broken(tag or "datafield", text, "a data field with an invalid tag"))
        return
    indicators = _indicator(reading, element, "ind1") + _indicator(reading, element, "ind2")
    reading.found.append(_opened(tag, indicators, [one for one in subfields if one.raw.strip()]))


@functools.lru_cache(maxsize=1024)
def _is_data_tag(tag: str) -> bool:
    return _TAG.fullmatch(tag) is not None and _CONTROL_TAG.fullmatch(tag) is None


def _is_blank(text: str | None) -> bool:
    return text is None or text.isspace() or not text


def _read_unknown(reading: FieldReading, element: etree._Element) -> None:
    reading.broken.append(
        _broken(local_name(element), _text(element), "an element that is not part of MARCXML")
    )


_READERS: Final = {"leader": _read_leader, "controlfield": _read_control, "datafield": _read_data}


def _subfield(reading: FieldReading, tag: str, element: etree._Element) -> Subfield:
    """Return a subfield that may be broken; an element that is not a subfield gives an empty one."""
    text = _text(element)
    code = element.get("code", "")
    if local_name(element) != "subfield":
        reading.broken.append(_broken(tag, text, f"<{local_name(element)}> instead of a subfield"))
        return Subfield("?", "", "")
    plain = unmarked(text)
    if has_controls(plain):
        reading.broken.append(_broken(tag, ascii(text), "control characters, which are removed"))
    if len(code) != 1:
        reading.broken.append(_broken(tag, text, f"a subfield with the invalid code {code!r}"))
        return Subfield("?", "", "")
    return Subfield(code, tidy(plain), text)


def _indicator(reading: FieldReading, element: etree._Element, name: str) -> str:
    given = element.get(name)
    if given is None or given in _BLANKS:
        return " "
    if len(given) == 1:
        return given
    found = f"indicator {name[-1]} is {given!r}, not one character"
    reading.broken.append(_broken(element.get("tag", ""), given, found))
    return given.strip()[:1] or " "


def _opened(tag: str, indicators: str, subfields: list[Subfield]) -> OpenField:
    opened = OpenField(
        tag=tag, written=tag, indicators=indicators, left=subfields, codes={one[0] for one in subfields}
    )
    link = _LINKAGE.match(tidy(opened.raw("6"))) if "6" in opened.codes else None
    if link:
        opened.link = link[2] if link[2] != "00" else ""
        if tag == LINK:
            opened.tag = link[1]
    return opened


def _stray(reading: FieldReading, element: etree._Element, where: str) -> None:
    """Note text between elements."""
    pieces = [element.text, *[child.tail for child in element]]
    text = tidy(" ".join([piece for piece in pieces if piece]))
    if text:
        reading.broken.append(_broken(where, text, "text between the elements"))


def _broken(where: str, text: str, fault: str) -> Note:
    return Note(kind=NoteKind.BROKEN, field=where, text=tidy(text), fault=fault)


def _text(element: etree._Element) -> str:
    if len(element) == 0:
        return element.text or ""
    return "".join(str(piece) for piece in element.itertext())

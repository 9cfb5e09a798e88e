"""A MARC record exactly as written, and the first level of validation: what MARC21slim.xsd requires.

The converter reads leniently (`fields`): it corrects indicators and drops empty subfields. Validation, the
line view and the export to ISO 2709 need the record unchanged. The checks are made here and not with the
schema itself: they need no file of somebody else, cover `oai_marc` and MarcXchange as well, and give codes
instead of sentences.
"""

import re
from dataclasses import dataclass, field
from enum import IntEnum
from typing import Final, NamedTuple

from lxml import etree

from harvester.bibliographic.marc21.kinds import local_name

LEADER: Final = "LDR"
_LEADER: Final = re.compile(
    r"[\d ]{5}[\dA-Za-z ][\dA-Za-z][\dA-Za-z ]{3}[2 ]{2}[\d ]{5}[\dA-Za-z ]{3}(?:4500| {4})", re.ASCII
)
_CONTROL_TAG: Final = re.compile(r"00[1-9A-Za-z]", re.ASCII)
_DATA_TAG: Final = re.compile(r"0[1-9A-Z][0-9A-Z]|0[1-9a-z][0-9a-z]|[1-9A-Z][0-9A-Z]{2}|[1-9a-z][0-9a-z]{2}")
_INDICATOR: Final = re.compile(r"[0-9a-z ]")
_SUBFIELD_CODE: Final = re.compile(r"[0-9A-Za-z!\"#$%&'()*+,\-./:;<=>?{}_^`~\[\]\\]")
_ORDER: Final = ("leader", "controlfield", "datafield")
_MOST_SHOWN: Final = 80


class Level(IntEnum):
    """How deep a validation goes; each level includes those before it."""

    STRUCTURE = 1
    """Leader, tags, indicators and subfield codes are written as MARC21slim.xsd requires."""
    DESIGNATIONS = 2
    """MARC 21 defines the fields, indicators and subfields, and allows the repetitions."""
    CODED_VALUES = 3
    """Coded values and dates are defined, and agree with each other."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Finding:
    """One violation of MARC 21 in a record."""

    level: Level
    code: str
    """What is wrong, in one word for programs: `undefined_subfield`."""
    tag: str
    """The field's tag, or LDR."""
    occurrence: int = 1
    """Which of the fields with this tag it is, counted from 1."""
    place: str = ""
    """A subfield (`$a`), an indicator (`ind1`) or positions (`/35-37`); empty if it is the field."""
    found: str = ""
    """The offending text, at most 80 characters."""
    expected: str
    """What would be right, in words."""


class WrittenSubfield(NamedTuple):
    """A subfield with its unchanged text."""

    code: str
    value: str


@dataclass(frozen=True, kw_only=True, slots=True)
class WrittenField:
    """A field as written: a control field has `data`, a data field has indicators and subfields."""

    tag: str
    occurrence: int = 1
    """Which of the fields with this tag it is, counted from 1."""
    data: str | None = None
    indicators: tuple[str, str] = (" ", " ")
    subfields: tuple[WrittenSubfield, ...] = ()

    def values(self, code: str) -> list[str]:
        """Return the values of a subfield."""
        return [one.value for one in self.subfields if one.code == code]

    def finding(self, level: Level, code: str, *, place: str = "", found: str = "", expected: str) -> Finding:
        """Return a finding about this field."""
        return Finding(
            level=level,
            code=code,
            tag=self.tag,
            occurrence=self.occurrence,
            place=place,
            found=shortened(found),
            expected=expected,
        )


@dataclass(frozen=True, kw_only=True, slots=True)
class WrittenRecord:
    """A record as written, with the findings of the first level."""

    leader: str
    fields: tuple[WrittenField, ...]
    findings: tuple[Finding, ...]

    def control(self, tag: str) -> str | None:
        """Return the data of the first control field with this tag; None if there is none."""
        return next((one.data for one in self.fields if one.tag == tag and one.data is not None), None)

    def named(self, *tags: str) -> list[WrittenField]:
        """Return the data fields with these tags, in the record's order."""
        return [one for one in self.fields if one.tag in tags and one.data is None]


def read_written(record: etree._Element) -> WrittenRecord:
    """Return one MARC record of `marc_records` as written; never raises because of its content."""
    reading = _Reading()
    for child in record.iterchildren(etree.Element):
        reading.read(child)
    reading.stray("record", record)
    if not reading.leaders:
        reading.find("leader_missing", LEADER, expected="a leader of 24 characters before the fields")
    return WrittenRecord(
        leader=reading.leaders[0] if reading.leaders else "",
        fields=tuple(reading.fields),
        findings=tuple(reading.findings),
    )


def shortened(text: str) -> str:
    """Return the text on one line, cut to 80 characters."""
    line = text.replace("\n", " ")
    return line if len(line) <= _MOST_SHOWN else f"{line[: _MOST_SHOWN - 1]}…"


@dataclass(kw_only=True, slots=True)
class _Reading:
    leaders: list[str] = field(default_factory=list)
    fields: list[WrittenField] = field(default_factory=list)
    findings: list[Finding] = field(default_factory=list)
    seen: dict[str, int] = field(default_factory=dict)
    """The number of fields so far, by tag."""
    stage: int = 0
    """The place in `_ORDER` of the last element."""

    def find(
        self, code: str, tag: str, *, expected: str, occurrence: int = 1, place: str = "", found: str = ""
    ) -> None:
        self.findings.append(
            Finding(
                level=Level.STRUCTURE,
                code=code,
                tag=tag,
                occurrence=occurrence,
                place=place,
                found=shortened(found),
                expected=expected,
            )
        )

    def read(self, element: etree._Element) -> None:
        name = local_name(element)
        if name not in _ORDER:
            self.find("unknown_element", "record", found=name, expected="leader, controlfield or datafield")
            return
        stage = _ORDER.index(name)
        if stage < self.stage:
            tag = element.get("tag") or LEADER
            expected = "the leader first, then control fields, then data fields"
            self.find("element_order", tag, found=name, expected=expected)
        self.stage = max(stage, self.stage)
        (self._leader, self._control, self._data)[stage](element)

    def _leader(self, element: etree._Element) -> None:
        text, inner = _all_text(element), _inner(element)
        if inner:
            expected = "text without other elements"
            self.find("control_field_content", LEADER, found=inner, expected=expected)
        if self.leaders:
            self.find("leader_repeated", LEADER, found=text, occurrence=2, expected="one leader")
        elif len(text) != 24:  # noqa: PLR2004 characters of a leader
            expected = f"24 characters; this leader has {len(text)}"
            self.find("leader_length", LEADER, found=text, expected=expected)
        elif not _LEADER.fullmatch(text):
            expected = "lengths as digits or blanks, letters and digits as codes, 4500 or blanks at the end"
            self.find("leader_form", LEADER, found=text, expected=expected)
        self.leaders.append(text)

    def _control(self, element: etree._Element) -> None:
        tag = element.get("tag", "")
        occurrence = self._counted(tag)
        if not _CONTROL_TAG.fullmatch(tag):
            expected = "a tag from 001 to 009"
            self.find("control_field_tag", tag, found=tag, occurrence=occurrence, expected=expected)
        inner = _inner(element)
        if inner:
            expected = "text without subfields or other elements"
            self.find("control_field_content", tag, found=inner, occurrence=occurrence, expected=expected)
        self.fields.append(WrittenField(tag=tag, occurrence=occurrence, data=_all_text(element)))

    def _data(self, element: etree._Element) -> None:
        tag = element.get("tag", "")
        occurrence = self._counted(tag)
        if not _DATA_TAG.fullmatch(tag):
            expected = "a tag from 010 to 999"
            self.find("data_field_tag", tag, found=tag, occurrence=occurrence, expected=expected)
        indicators = tuple(element.get(name, "") for name in ("ind1", "ind2"))
        for name, given in zip(("ind1", "ind2"), indicators, strict=True):
            if not _INDICATOR.fullmatch(given):
                self.find(
                    "indicator_form", tag, found=given, occurrence=occurrence, place=name,
                    expected="one digit, lower-case letter or blank",
                )  # fmt: skip
        self.fields.append(
            WrittenField(
                tag=tag,
                occurrence=occurrence,
                indicators=(indicators[0], indicators[1]),
                subfields=self._subfields(element, tag, occurrence),
            )
        )
        self.stray(tag, element, occurrence=occurrence)

    def _subfields(self, element: etree._Element, tag: str, occurrence: int) -> tuple[WrittenSubfield, ...]:
        made = []
        for child in element.iterchildren(etree.Element):
            name, code = local_name(child), child.get("code", "")
            unknown = name if name != "subfield" else _inner(child)
            if unknown:
                expected = "subfields that contain only text"
                self.find("unknown_element", tag, found=unknown, occurrence=occurrence, expected=expected)
            if name == "subfield":
                if not _SUBFIELD_CODE.fullmatch(code):
                    expected = "a code of one letter, digit or sign"
                    self.find("subfield_code", tag, found=code, occurrence=occurrence, expected=expected)
                made.append(WrittenSubfield(code, _all_text(child)))
        if not made:
            self.find("no_subfields", tag, occurrence=occurrence, expected="at least one subfield")
        return tuple(made)

    def stray(self, tag: str, element: etree._Element, *, occurrence: int = 1) -> None:
        """Report text between the elements."""
        pieces = (element.text, *(child.tail for child in element))
        text = " ".join(piece.strip() for piece in pieces if piece and piece.strip())
        if text:
            expected = "no text between the elements"
            self.find("stray_text", tag, found=text, occurrence=occurrence, expected=expected)

    def _counted(self, tag: str) -> int:
        self.seen[tag] = self.seen.get(tag, 0) + 1
        return self.seen[tag]


def _inner(element: etree._Element) -> str:
    """Return the name of the first element in an element that may only contain text, or an empty string."""
    if len(element) == 0:
        return ""
    return next((local_name(one) for one in element.iterchildren(etree.Element)), "")


def _all_text(element: etree._Element) -> str:
    if len(element) == 0:
        return element.text or ""
    return "".join(str(piece) for piece in element.itertext(etree.Element))


def marc_lines(record: WrittenRecord) -> list[str]:
    """Return the leader and the fields, one line each as cataloguers write them: `245 10 $a Title : $b rest`.

    Blank indicators become `#`. A line break in a value becomes a blank; otherwise values are unchanged.

    >>> from lxml import etree
    >>> subfield = '<subfield code="a">Slovník</subfield>'
    >>> field = f'<datafield tag="245" ind1="1" ind2=" ">{subfield}</datafield>'
    >>> marc_lines(read_written(etree.fromstring(f"<record>{field}</record>")))
    ['245 1# $a Slovník']
    """
    leader = [f"{LEADER}    {record.leader}"] if record.leader else []
    return [*leader, *map(_line, record.fields)]


def _line(one: WrittenField) -> str:
    if one.data is not None:
        text = f"   {one.data}"
    else:
        marks = "".join((given or " ").replace(" ", "#") for given in one.indicators)
        text = " ".join([marks, *(f"${code} {value}" for code, value in one.subfields)])
    return " ".join(f"{one.tag} {text}".splitlines())

"""MARC records in ISO 2709, the exchange format of library systems, in UTF-8.

Sources: ISO 2709; MARC 21 Specifications for Record Structure. A field has at most 9,999 bytes and a record
99,999, because the directory and the leader give lengths in four and five digits.
"""

import re
from dataclasses import replace
from typing import Final

from pymarc import Field, Indicators, Leader, Record, Subfield

from harvester.bibliographic.marc21.structure import WrittenField, WrittenRecord
from oai.errors import ZatvaError

_LENGTH_OF_LEADER: Final = 24
_INDICATORS: Final = 2
_MOST_IN_FIELD: Final = 9_999
_MOST_IN_RECORD: Final = 99_999
_CONTROL_TAG: Final = re.compile(r"00[1-9]", re.ASCII)
_DATA_TAG: Final = re.compile(r"(?!00)[0-9A-Za-z]{3}", re.ASCII)
_ONE_BYTE: Final = re.compile(r"[!-~ ]", re.ASCII)
_LOSSES: Final = frozenset({"leader_repeated", "control_field_content", "unknown_element", "stray_text"})
"""Findings of the first level about content that is in no field."""


class UnwritableRecordError(ZatvaError):
    """A record that ISO 2709 cannot hold: too long, or not a MARC record by its structure."""


def to_iso2709(record: WrittenRecord) -> bytes:
    """Return the record in ISO 2709, encoded as UTF-8 (leader position 9: a).

    The lengths in the leader, and its positions 10, 11 and 20 to 23, are set as MARC 21 prescribes. A missing
    indicator is written as a blank. Raises UnwritableRecordError rather than lose or change anything else.
    """
    for finding in record.findings:
        if finding.code in _LOSSES:
            raise UnwritableRecordError(
                f"{finding.code} in {finding.tag}: {finding.found!r}; expected: {finding.expected}"
            )
    made = Record(force_utf8=True)
    made.leader = _leader(record.leader)
    made.fields = [_field(one) for one in record.fields]
    data: bytes = made.as_marc()
    if len(data) > _MOST_IN_RECORD:
        raise UnwritableRecordError(
            f"the record has {len(data):,} bytes; a record in ISO 2709 has at most {_MOST_IN_RECORD:,}"
        )
    return data


def _leader(written: str) -> Leader:
    if len(written) != _LENGTH_OF_LEADER or not written.isascii():
        raise UnwritableRecordError(f"the leader {written!r} has not 24 ASCII characters")
    return Leader(f"00000{written[5:9]}a2200000{written[17:20]}4500")


def _field(one: WrittenField) -> Field:
    if one.data is not None and len(one.data) == _INDICATORS and not one.tag.isdigit():
        # Aleph's FMT: systems that read it as a data field keep both characters, as indicators.
        one = replace(one, data=None, indicators=(one.data[0], one.data[1]))
    control = one.data is not None
    if not (_CONTROL_TAG if control else _DATA_TAG).fullmatch(one.tag):
        raise UnwritableRecordError(f"a {'control' if control else 'data'} field has the tag {one.tag!r}")
    made = Field(tag=one.tag, data=one.data) if control else _data_field(one)
    size = len(made.as_marc(encoding="utf-8"))
    if size > _MOST_IN_FIELD:
        raise UnwritableRecordError(
            f"field {one.tag} has {size:,} bytes; a field in ISO 2709 has at most {_MOST_IN_FIELD:,}"
        )
    return made


def _data_field(one: WrittenField) -> Field:
    marks = [given or " " for given in one.indicators]
    for text in (*marks, *(part.code for part in one.subfields)):
        if not _ONE_BYTE.fullmatch(text):
            raise UnwritableRecordError(
                f"field {one.tag} has an indicator or subfield code that is not one ASCII character: {text!r}"
            )
    return Field(
        tag=one.tag,
        indicators=Indicators(*marks),
        subfields=[Subfield(code=part.code, value=part.value) for part in one.subfields],
    )

"""MARC 21 records for tests, written line by line as in MARC's documentation: `245 10 $aTitle :$bRest`."""

from lxml import etree

from harvester.bibliographic.marc21.converter import Marc21Converter
from harvester.bibliographic.record import BibliographicRecord
from oai.xml import escape

LEADER = "00000nam a2200000 i 4500"
_CONTROL = {"LDR", "005", "006", "007", "008"}
FIXED = "240115s2015    xr a||||||||||001 0 cze d"


def marcxml(*lines: str, leader: str = LEADER, fixed: str | None = FIXED) -> str:
    """Return the record's metadata. `#` is a blank indicator, `$` starts a subfield."""
    control = [] if fixed is None else [f"008 {fixed}"]
    return (
        '<record xmlns="http://www.loc.gov/MARC21/slim">'
        f"<leader>{leader}</leader>{''.join(map(_field, [*control, *lines]))}</record>"
    )


def converted(*lines: str, leader: str = LEADER, fixed: str | None = FIXED) -> BibliographicRecord:
    """Return the converted record."""
    return Marc21Converter().convert(etree.fromstring(marcxml(*lines, leader=leader, fixed=fixed)))


def faults(record: BibliographicRecord) -> dict[str, str]:
    """Return the faults that the notes name, by field."""
    return {note.field: note.fault for note in record.notes if note.fault}


def kept(record: BibliographicRecord) -> dict[str, str]:
    """Return the text that the notes keep because it has no column, by field; no leader or control fields."""
    return {
        note.field: note.text for note in record.notes if note.kind == "kept" and note.field not in _CONTROL
    }


def _field(line: str) -> str:
    tag, _, rest = line.partition(" ")
    if tag < "010":
        return f'<controlfield tag="{tag}">{escape(rest)}</controlfield>'
    marks = rest[:2].replace("#", " ")
    subfields = "".join(
        f'<subfield code="{part[0]}">{escape(part[1:])}</subfield>'
        for part in rest[3:].split("$")[1:]
        if part
    )
    return f'<datafield tag="{tag}" ind1="{marks[0]}" ind2="{marks[1]}">{subfields}</datafield>'

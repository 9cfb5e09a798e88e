"""A MARC record as lines of text, as cataloguers write it: `245 10 $a Title : $b rest`."""

from harvester.bibliographic.marc21.structure import LEADER, WrittenField, WrittenRecord


def marc_lines(record: WrittenRecord) -> list[str]:
    """Return the leader and the fields, one line each, with blank indicators as `#`.

    A line break in a value becomes a blank; otherwise values are unchanged.

    >>> from lxml import etree
    >>> from harvester.bibliographic.marc21.structure import read_written
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

"""`python -m tests.bench.marc_quality FOLDER`: convert the MARC records of a folder; report their quality.

It judges final full stops by a rule of its own, not by the converter's: a stop is taken for an abbreviation's
after at most two letters, after letters with another stop before them, and after `_ABBREVIATIONS`.
"""

import argparse
import re
import sys
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

import pymarc
from lxml import etree

from harvester.bibliographic.converters import converter_for
from harvester.bibliographic.marc21.kinds import local_name
from harvester.bibliographic.record import BibliographicRecord, NoteKind, Years

_SUFFIXES: Final = {".xml": "xml", ".marcxml": "xml", ".mrc": "2709", ".marc": "2709", ".iso2709": "2709"}
_RECORDS: Final = frozenset({"record", "oai_marc"})
_FIELDS: Final = frozenset({"leader", "controlfield", "datafield", "fixfield", "varfield"})
_STOP: Final = re.compile(r"(?:[^\W\d_]{3,}|[\d)\]?!-])\.$")
_WORD: Final = re.compile(r"([^\W\d_]+)\.$")
_INNER: Final = re.compile(r"\.[^\W\d_]{1,4}\.$|\.\.\.$")
_ABBREVIATIONS: Final = re.compile(
    r"(?i)aufl|assn|bros|calif|cent|chas|chr|comp|conn|corp|csc|dept|dopl|eds|etc|hrsg|inc|incl|ing|ltd|mass|"
    r"mgr|mich|minn|nakl|phdr|prof|rozš|spol|stol|univ|upr|verl|vols|vyd|wis|zost"
)
_SHOWN: Final = 5


@dataclass(kw_only=True)
class Quality:
    """What was found in the records."""

    records: int = 0
    refused: Counter[str] = field(default_factory=Counter)
    values: Counter[str] = field(default_factory=Counter)
    stopped: Counter[str] = field(default_factory=Counter)
    examples: dict[str, list[str]] = field(default_factory=dict)
    undated: int = 0

    def note(self, record: BibliographicRecord) -> None:
        """Count the values of a converted record."""
        for one in record.contributors:
            self._value("persons" if one.kind == "person" else "other names", one.name)
            self._value("dates of names", one.dates)
        for statement in record.publications:
            self._value("dates of publication", statement.date)
        self._value("titles", record.title)
        self.undated += record.years == Years() and not _dateless(record)

    def _value(self, name: str, text: str) -> None:
        self.values[name] += bool(text)
        if faulty_stop(text):
            self.stopped[name] += 1
            self.examples.setdefault(name, []).append(text)


def faulty_stop(text: str) -> bool:
    """Return whether the text ends with a full stop that does not look like an abbreviation's."""
    if not _STOP.search(text) or _INNER.search(text):
        return False
    word = _WORD.search(text)
    return word is None or _ABBREVIATIONS.fullmatch(word[1]) is None


def _dateless(record: BibliographicRecord) -> bool:
    """Return whether the record contains no year: neither in a date of publication nor in field 008."""
    fixed = next(
        (note.text for note in record.notes if note.field == "008" and note.kind is NoteKind.KEPT), ""
    )
    all_dates = " ".join((fixed[7:15], *(one.date for one in record.publications)))
    return not re.search(r"\d\d", all_dates)


def records_of(path: Path) -> Iterator[etree._Element | str]:
    """Yield the MARC records of a file, or why one is unreadable."""
    if _SUFFIXES[path.suffix.lower()] == "xml":
        yield from _in_xml(path)
        return
    with path.open("rb") as file:
        for record in pymarc.MARCReader(file, to_unicode=True, utf8_handling="replace"):
            if record is None:
                yield "unreadable by pymarc"
                continue
            try:
                yield etree.fromstring(pymarc.record_to_xml(record, namespace=True))  # type: ignore[no-untyped-call]
            except ValueError as error:  # etree.XMLSyntaxError is a SyntaxError
                yield f"not representable in XML: {type(error).__name__}"
            except SyntaxError:
                yield "not representable in XML: control characters"


def _in_xml(path: Path) -> Iterator[etree._Element | str]:
    try:
        root = etree.parse(path, etree.XMLParser(huge_tree=True, resolve_entities=False)).getroot()
    except etree.XMLSyntaxError:
        yield "a file that is not well-formed"
        return
    for element in root.iter(etree.Element):
        if local_name(element) in _RECORDS and any(local_name(child) in _FIELDS for child in element):
            yield element


def measure(folder: Path) -> Quality:
    """Convert every MARC record of the folder and its subfolders."""
    quality = Quality()
    for path in sorted(path for path in folder.rglob("*") if path.suffix.lower() in _SUFFIXES):
        for found in records_of(path):
            quality.records += 1
            if isinstance(found, str):
                quality.refused[found] += 1
                continue
            converter = converter_for(found)
            reason = "no converter" if converter is None else converter.declined(found)
            if converter is None or reason:
                quality.refused[reason] += 1
            else:
                quality.note(converter.convert(found))
    return quality


def report(quality: Quality) -> Iterator[str]:
    """Yield the lines of the report."""
    yield f"records: {quality.records:,}; refused: {quality.refused.total():,}"
    yield from (f"  {number:6,}  {reason}" for reason, number in quality.refused.most_common())
    for name, number in quality.values.items():
        faulty = quality.stopped[name]
        yield f"{name}: {faulty:,} of {number:,} end in a stop ({faulty / max(number, 1):.1%})"
        yield from (f"          {text}" for text in quality.examples.get(name, [])[:_SHOWN])
    yield f"years missing although digits of a date are there: {quality.undated:,}"


def main() -> int:
    """Measure the folder that the command line names."""
    parser = argparse.ArgumentParser(prog="script/marc-quality", description=__doc__)
    parser.add_argument("folder", type=Path, help="a folder of MARC records (.xml, .mrc)")
    sys.stdout.writelines(f"{line}\n" for line in report(measure(parser.parse_args().folder)))
    return 0


if __name__ == "__main__":
    sys.exit(main())

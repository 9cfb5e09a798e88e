"""Ready-made rule files to begin with, each with its purpose and an explanation."""

from dataclasses import dataclass
from typing import Final

from harvester.rule_lab.rows import (
    ElementRow,
    FilterRow,
    MappingRow,
    Namespace,
    RuleRows,
    xml_of,
)
from harvester.rules.filters import FilterMatch
from harvester.vocabulary import RuleKind
from oai.errors import UsageError
from oai.vocabulary import DC_NAMESPACE

_DC: Final = (Namespace(prefix="dc", uri=DC_NAMESPACE),)
_MARC: Final = (Namespace(prefix="marc", uri="http://www.loc.gov/MARC21/slim"),)


def translate(message: str) -> str:
    """Mark a message for translation and return it unchanged; pages translate it when they show it."""
    return message


@dataclass(frozen=True, kw_only=True)
class Example:
    """A ready-made rule file."""

    key: str
    title: str
    about: str
    rows: RuleRows

    @property
    def kind(self) -> RuleKind:
        """Return the kind: filter or normalise."""
        return self.rows.kind

    @property
    def content(self) -> bytes:
        """Return the content of the rule file."""
        return xml_of(self.rows)


def _filters(
    key: str,
    title: str,
    about: str,
    *filters: FilterRow,
    match: FilterMatch = FilterMatch.ANY,
    namespaces: tuple[Namespace, ...] = _DC,
) -> Example:
    rows = RuleRows(kind=RuleKind.FILTER, match=match, namespaces=namespaces, filters=filters)
    return Example(key=key, title=title, about=about, rows=rows)


def _mappings(
    key: str, title: str, about: str, *mappings: MappingRow, namespaces: tuple[Namespace, ...] = _DC
) -> Example:
    rows = RuleRows(kind=RuleKind.NORMALISE, namespaces=namespaces, mappings=mappings)
    return Example(key=key, title=title, about=about, rows=rows)


def _adds(xpath: str, name: str, *pairs: tuple[str, str]) -> MappingRow:
    elements = tuple(
        ElementRow(name=name, regexp=regexp, values=(value,), ignore_case=True) for regexp, value in pairs
    )
    return MappingRow(xpath=xpath, elements=elements)


EXAMPLES: Final = (
    _filters(
        "by-subject",
        translate("Records about some subjects"),
        translate(
            "Keeps records in which any subject has one of the words. Write the beginning of a "
            "word, so that its ending does not matter."
        ),
        FilterRow(xpath="//dc:subject", regexp="cultur|kultur", ignore_case=True),
        FilterRow(xpath="//dc:subject", regexp="heritage|dědictv|dedičstv", ignore_case=True),
    ),
    _filters(
        "by-language",
        translate("Records in some languages"),
        translate("Keeps Czech and Slovak records, regardless of which usual code the source uses."),
        FilterRow(
            xpath="//dc:language", regexp="^(cs|cze|ces|czech|sk|slo|slk|slovak)([-_ ].*)?$", ignore_case=True
        ),
    ),
    _filters(
        "with-title-and-date",
        translate("Only records with a title and a year"),
        translate(
            "A filter that finds no values never matches; therefore count() is used: with “all”, "
            "every filter has to match for each value that it finds."
        ),
        FilterRow(xpath="count(//dc:title)", regexp="^[1-9]"),
        FilterRow(xpath="count(//dc:date)", regexp="^[1-9]"),
        match=FilterMatch.ALL,
    ),
    _filters(
        "without-articles",
        translate("All records except articles"),
        translate(
            "Inverted: with “all”, no type may be an article. Records without a type are excluded."
        ),
        FilterRow(xpath="//dc:type", regexp="article", ignore_case=True, invert=True),
        match=FilterMatch.ALL,
    ),
    _filters(
        "marc-books",
        translate("Books of a MARC 21 catalogue"),
        translate("Positions 6 and 7 of the leader identify language material (a, t) that is a "
            "monograph (m)."),
        FilterRow(xpath="//marc:leader", regexp="^.{6}[at]m"),
        namespaces=_MARC,
    ),
    _mappings(
        "image-types",
        translate("JPEG and TIFF are images"),
        translate("Adds the type “image” in addition to the source's own term, so that all images can "
            "be searched alike."),
        _adds("//dc:type | //dc:format", "dc:type", ("jpe?g|tiff?", "image")),
    ),
    _mappings(
        "language-codes",
        translate("Languages by their codes"),
        translate("Adds the three-letter code to each name or two-letter code of a language."),
        _adds(
            "//dc:language",
            "dc:language",
            ("^(cs|czech|česky|čeština)$", "cze"),
            ("^(sk|slovak|slovensky|slovenčina)$", "slo"),
            ("^(en|english)$", "eng"),
            ("^(de|german|deutsch)$", "ger"),
        ),
    ),
    _mappings(
        "open-licences",
        translate("Which licences are open"),
        translate("Adds “open access” if a Creative Commons licence or the public domain is named."),
        _adds("//dc:rights", "dc:rights", ("creativecommons|cc[ -](by|0)|public domain", "open access")),
    ),
    _mappings(
        "centuries",
        translate("Centuries from years"),
        translate("Adds the century as a coverage if a date contains a year, at any position."),
        _adds(
            "//dc:date",
            "dc:coverage",
            (r"\b18\d\d\b", "19th century"),
            (r"\b19\d\d\b", "20th century"),
            (r"\b20\d\d\b", "21st century"),
        ),
    ),
    _mappings(
        "one-subject-for-two",
        translate("One subject for several spellings"),
        translate(
            "Adds the preferred subject for each of its spellings. Mappings can build on each "
            "other: they are applied until no more values are added."
        ),
        _adds("//dc:subject", "dc:subject", ("world war (2|ii)|second world war", "World War, 1939-1945")),
    ),
)  # fmt: skip


def example_of(key: str) -> Example:
    """Return the example with that key. Raises UsageError if there is none."""
    for example in EXAMPLES:
        if example.key == key:
            return example
    raise UsageError("no example %(key)s; list examples with `zatva rule examples`", key=repr(key))

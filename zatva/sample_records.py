"""Generated records of old Czech and Slovak books, in Dublin Core and MARC 21."""

import random
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from types import MappingProxyType
from typing import Final

from oai.vocabulary import DC_NAMESPACE, OAI_DC_NAMESPACE, OAI_DC_SCHEMA, XSI_NAMESPACE
from oai.xml import escape
from provider.protocol.formats.marc21 import NAMESPACE as MARC_NAMESPACE
from zatva.sample_catalogue import SampleRecord

SET_NAMES: Final[Mapping[str, str]] = MappingProxyType(
    {"books": "Knihy", "journals": "Časopisy", "maps": "Mapy"}
)

_WORKS: Final = (
    ("Kronika", "cze"), ("Pověsti", "cze"), ("Zpěvník", "cze"), ("Památky", "cze"), ("Sborník", "cze"),
    ("Dejiny", "slo"), ("Povesti", "slo"), ("Spevník", "slo"), ("Pamiatky", "slo"), ("Zborník", "slo"),
)  # fmt: skip
_SUBJECTS: Final = ("obce", "hradu", "farnosti", "školy", "spolku")
_PLACES: Final = (
    "Lipovany", "Javorná", "Hrušovec", "Dubová Lhota", "Kamenica", "Olšany", "Vrbové Pole", "Zlatník",
    "Horní Žďár", "Čierny Brod", "Říčany", "Jasenica",
)  # fmt: skip
_NAMES: Final = ("Horáková, Anna", "Šťastný, Jiří", "Kováč, Ľudovít", "Žilková, Mária", "Beneš, Václav")
_FIRST: Final = datetime(2024, 1, 1, 6, 0, tzinfo=UTC)
_APART: Final = timedelta(minutes=11)
_LEADER: Final = "00000nam a2200000 i 4500"
_DC_OPENING: Final = (
    f'<oai_dc:dc xmlns:oai_dc="{OAI_DC_NAMESPACE}" xmlns:dc="{DC_NAMESPACE}" xmlns:xsi="{XSI_NAMESPACE}"'
    f' xsi:schemaLocation="{OAI_DC_NAMESPACE} {OAI_DC_SCHEMA}">'
)


@dataclass(frozen=True, kw_only=True)
class Book:
    """What is told of a book."""

    number: int
    title: str
    author: str
    year: int
    language: str


Writer = Callable[[Book], str]
"""Gives a book's metadata as XML."""


def write_records(
    count: int, namespace: str, writers: Mapping[str, Writer], *, seed: int
) -> list[SampleRecord]:
    """So many records, in the order of their datestamps; the same seed gives the same ones."""
    chance = random.Random(seed)  # noqa: S311 a sample, not a secret
    return [
        SampleRecord(
            id=book.number,
            identifier=f"oai:{namespace}:{book.number:05}",
            datestamp=_FIRST + _APART * book.number,
            set_spec=chance.choice(list(SET_NAMES)),
            metadata={prefix: write(book) for prefix, write in writers.items()},
        )
        for book in _books(count, chance)
    ]


def as_dublin_core(book: Book) -> str:
    """The book as `oai_dc:dc`."""
    elements = (
        ("title", book.title),
        ("creator", book.author),
        ("date", str(book.year)),
        ("type", "Text"),
        ("language", book.language),
    )
    lines = "\n".join(f"  <dc:{name}>{escape(text)}</dc:{name}>" for name, text in elements)
    return f"\n{_DC_OPENING}\n{lines}\n</oai_dc:dc>\n"


def as_marc(book: Book) -> str:
    """The book as `record` of MARCXML."""
    fixed = f"240101s{book.year}    xr {book.language:>20} d"
    lines = (
        f'<record xmlns="{MARC_NAMESPACE}">',
        f"  <leader>{_LEADER}</leader>",
        f'  <controlfield tag="001">{book.number:05}</controlfield>',
        f'  <controlfield tag="008">{fixed}</controlfield>',
        _field("100", "1 ", "a", book.author),
        _field("245", "10", "a", book.title),
        _field("264", " 1", "c", str(book.year)),
        "</record>",
    )
    return "\n".join(("", *lines, ""))


def _books(count: int, chance: random.Random) -> Iterator[Book]:
    for number in range(1, count + 1):
        work, language = chance.choice(_WORKS)
        year = chance.randrange(1790, 1940)
        yield Book(
            number=number,
            title=f"{work} {chance.choice(_SUBJECTS)} {chance.choice(_PLACES)}, {year}",
            author=chance.choice(_NAMES),
            year=year,
            language=language,
        )


def _field(tag: str, indicators: str, code: str, text: str) -> str:
    return (
        f'  <datafield tag="{tag}" ind1="{indicators[0]}" ind2="{indicators[1]}">'
        f'<subfield code="{code}">{escape(text)}</subfield></datafield>'
    )

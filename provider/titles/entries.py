"""Titles as a source gives them: JSON lines, CSV, and the seeds that Archive-It exports.

Reading does not stop at a faulty line: it yields what was found there, and the import reports it. A file with
very many of them is refused, because it is probably of another kind.
"""

import csv
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import date
from functools import partial, wraps
from itertools import chain
from pathlib import Path
from typing import Any, Final, Literal, Protocol
from urllib.parse import urlsplit

from pydantic import BaseModel, ConfigDict, Field, ValidationError, field_validator

from oai.errors import Phrase, UsageError
from provider.titles.cells import NOT_UTF_8, is_unicode, is_utf_8, of_json, values_of_row
from provider.titles.entry_errors import SHOWN, EntryError, reason_of
from provider.titles.models import SeedKind

_MOST_NAMED: Final = 5
_MOST_UNREAD: Final = 10_000
"""Entries that cannot be read, of a file that is imported all the same."""
_LONGEST: Final = 20_000
_MOST_SEEDS: Final = 10_000
MOST_COLLECTION_SEEDS: Final = 100_000
"""URLs of a collection; an import divides the keys of the archive among all of them."""
ISSN: Final = re.compile(r"(?:ISSN:?\s*)?([0-9]{4})[-\s\u2010-\u2015]?([0-9]{3}[0-9X])", re.IGNORECASE)
_COLLECTION_COLUMNS: Final = ("collection", "picture", "position")
_LARGEST_CELL: Final = 2**31 - 1
"""Characters; a title may have ten thousand seeds, and a collection more."""


class _Strict(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True, str_strip_whitespace=True)

    @field_validator("*")
    @classmethod
    def _has_no_nul(cls, value: object) -> object:
        texts = value if isinstance(value, tuple) else (value,)
        if any(isinstance(one, str) and "\0" in one for one in texts):
            raise EntryError("contains a NUL character, which PostgreSQL cannot store")
        return value


class Seed(_Strict):
    """A URL of a title."""

    url: str = Field(min_length=1, max_length=2000)
    kind: SeedKind = SeedKind.INCLUDE
    main: bool = False
    harvested_from: date | None = None
    harvested_to: date | None = None


class SubjectGroup(_Strict):
    """A subject group."""

    name: str = Field(min_length=1, max_length=500)
    name_en: str | None = None
    number: int | None = None
    """The group's number in the Conspectus."""
    notation: str | None = None
    """Notation in the Universal Decimal Classification, of the group or of the part that `part` names."""
    part: str | None = None
    """Name of the part of the group that the title belongs to."""
    part_en: str | None = None


class TitleEntry(_Strict):
    """A title; the fields are those of `provider.titles.models.Title`."""

    key: str = Field(min_length=1, max_length=500)
    """Its identifier in the source."""
    name: str = Field(min_length=1, max_length=2000)
    alternative_names: tuple[str, ...] = ()
    publisher: str | None = Field(None, max_length=2000)
    annotation: str | None = Field(None, max_length=_LONGEST)
    languages: tuple[str, ...] = ()
    issn: str | None = Field(None, max_length=100)
    """As `1234-567X`; a text that is none stays as it is."""
    catalogue_number: str | None = Field(None, max_length=200)
    classification: tuple[str, ...] = ()
    subjects: tuple[SubjectGroup, ...] = ()
    keywords: tuple[str, ...] = ()
    collections: tuple[str, ...] = ()
    state: str | None = Field(None, max_length=100)
    public: bool = True
    access: Literal["open", "reading room", "withheld"] | None = None
    licence: str | None = Field(None, max_length=2000)
    """Its text in the source; `provider.titles.licences` recognises it."""
    contract_from: date | None = None
    contract_to: date | None = None
    seeds: tuple[Seed, ...] = Field((), max_length=_MOST_SEEDS)

    @field_validator("issn")
    @classmethod
    def _has_one_spelling(cls, value: str | None) -> str | None:
        found = ISSN.fullmatch(value or "")
        return f"{found[1]}-{found[2]}".upper() if found else value


class CollectionEntry(_Strict):
    """A curated collection as a source describes it; titles name it in `collections`."""

    collection: str = Field(min_length=1, max_length=2000)
    """Its name."""
    annotation: str | None = Field(None, max_length=_LONGEST)
    """Plain text."""
    picture: str | None = Field(None, max_length=2000)
    """`http` or `https` URL of a picture."""
    position: int | None = Field(None, ge=-(2**31), lt=2**31)
    """Place in lists."""
    seeds: tuple[str, ...] | None = Field((), max_length=MOST_COLLECTION_SEEDS)
    """URLs whose captures are in it, beside those of its titles; None leaves the stored ones as they are."""

    @field_validator("picture")
    @classmethod
    def _is_web_address(cls, value: str | None) -> str | None:
        if value is None:
            return None
        parts = urlsplit(value)
        if parts.scheme not in {"http", "https"} or not parts.hostname or (parts.port or 1) < 1:
            raise EntryError("not an http or https address")
        return value


@dataclass(frozen=True, kw_only=True)
class Refused:
    """Something in the source that is not taken, and why; both may be a `Phrase`, which pages translate."""

    place: str
    """Where it is: `line 7`, `row 7 (key a)`, or the title's key in a database."""
    reason: str
    is_decision: bool = False
    """Whether a rule leaves it out, as for a state that is not archived; otherwise it could not be read."""


@dataclass(frozen=True, kw_only=True)
class Remark:
    """Something in the source that a person should look at; the title is taken nevertheless."""

    place: str
    """The title's key, or another place as in `Refused`."""
    words: str
    """A `Phrase` if it is about a title."""


@dataclass(frozen=True, kw_only=True)
class AddressList:
    """A list of addresses; `provider.seeder_lists` says what it means."""

    key: str
    """Its identifier in the source."""
    title: str
    kind: str
    """What it is for, in the source's words."""
    text: str
    """Addresses, separated by blanks and line breaks (`provider.titles.address_lists`)."""


@dataclass(frozen=True, kw_only=True)
class NotDescribed:
    """The source may describe collections, but this could not be read; what is stored stays."""

    place: str
    words: str
    """Why."""


Read = TitleEntry | CollectionEntry | AddressList | Refused | Remark | NotDescribed


class Reader(Protocol):
    """A function that reads a file; its errors name the file as `name` does, if given."""

    def __call__(self, path: Path, name: str | None = None) -> Iterator[Read]:
        """Yield the titles of the file. Raises UsageError if too much of it cannot be read."""


def _bounded(read: Reader) -> Reader:
    """Return the reader with a limit to entries that cannot be read: each report takes time and memory."""

    @wraps(read)
    def reading(path: Path, name: str | None = None) -> Iterator[Read]:
        unread: list[Refused] = []
        for one in read(path, name):
            if isinstance(one, Refused):
                unread.append(one)
            if len(unread) > _MOST_UNREAD:
                raise UsageError(
                    "%(file)s: more than %(number)s entries cannot be read; the first: %(place)s: %(reason)s",
                    file=name or path,
                    number=f"{_MOST_UNREAD:,}",
                    place=unread[0].place,
                    reason=unread[0].reason,
                )
            yield one

    return reading


@_bounded
def read_json_lines(path: Path, name: str | None = None) -> Iterator[Read]:
    """Yield the titles of a file with one JSON object per line, in UTF-8.

    An object with `collection` describes a collection.
    """
    _check_encoding(path, name)
    with path.open("rb") as file:
        for number, line in enumerate(file, start=1):
            if not line.strip():
                continue
            yield read_entry(Phrase("line %(number)s", number=number), partial(of_json, line))


@_bounded
def read_csv(path: Path, name: str | None = None) -> Iterator[Read]:
    """Yield the titles of a CSV file in UTF-8, with the fields of `TitleEntry` as column names.

    Columns are separated by commas, or by semicolons if the header has these and no comma. Several values of
    a field are separated by `;`, the URLs in `seeds` and `carve_outs` only by blanks, or they are a JSON
    list. A subject may begin with its number: `9: Hudba`. A row with a `collection` describes it. An
    apostrophe before a sign that begins a formula is no part of the value. Rows without any value and a first
    line `sep=;` are skipped. Places are the rows that a spreadsheet shows, where a cell may have line breaks.
    Raises UsageError for a column that does not exist, is missing, or is there twice.
    """
    csv.field_size_limit(_LARGEST_CELL)
    number = 1
    # Bytes that are not in UTF-8 become surrogates, which `values_of_row` refuses: only their row is lost.
    with path.open(encoding="utf-8-sig", errors="surrogateescape", newline="") as file:
        header = file.readline()
        if header.lower().startswith("sep="):  # a hint to Excel, which does not show it as a row
            header = file.readline()
        delimiter = "," if "," in header or ";" not in header else ";"
        rows = csv.reader(chain([header], file), delimiter=delimiter, strict=True)
        try:
            columns = next(rows, [])
            _check_columns(name or str(path), columns)
            _check_encoding(path, name)
            for number, row in enumerate(rows, start=2):
                # Spreadsheets save the empty rows below their table, too.
                if any(map(str.strip, row)):
                    yield read_entry(_place_of(number, columns, row), partial(values_of_row, columns, row))
        except csv.Error as error:
            place = Phrase("row %(row)s and all after it", row=number + 1)
            yield Refused(place=place, reason=Phrase("cannot be read: %(error)s", error=error))


def _place_of(number: int, columns: Sequence[str], row: Sequence[str]) -> Phrase:
    """Return the place of a row, with the title's key if it can be read."""
    key = dict(zip(columns, row, strict=False)).get("key", "").strip()[:SHOWN]
    if not key or not is_unicode(key):
        return Phrase("row %(row)s", row=number)
    return Phrase("row %(row)s (key %(key)s)", row=number, key=key)


@_bounded
def read_archive_it(path: Path, name: str | None = None) -> Iterator[Read]:
    """Yield a title for each seed in Archive-It's JSON (`partner.archive-it.org/api/seed`).

    Its metadata are Dublin Core fields with any number of values each. Raises UsageError if the file is not
    such a list.
    """
    try:
        seeds = of_json(path.read_bytes())
    except ValueError as error:
        raise UsageError("%(file)s: cannot be read: %(error)s", file=name or path, error=error) from None
    if not isinstance(seeds, list):
        raise UsageError("%(file)s: not a list of seeds, as Archive-It's API gives it", file=name or path)
    for number, seed in enumerate(seeds, start=1):
        yield read_entry(Phrase("seed %(number)s", number=number), partial(_of_seed, seed))


READERS: Final[Mapping[str, Reader]] = {
    "jsonl": read_json_lines,
    "csv": read_csv,
    "archive-it": read_archive_it,
}
"""By the name of the format."""


def read_entry(place: str, make: Callable[[], Any]) -> TitleEntry | CollectionEntry | Refused:
    """Return the title with the fields that `make` returns, or why they are none; `place` as in `Refused`.

    With a field `collection` they describe a collection.
    """
    try:
        values = make()
        if isinstance(values, dict) and "collection" in values:
            return CollectionEntry.model_validate(values)
        return TitleEntry.model_validate(values)
    except ValidationError as error:
        found = error.errors(include_url=False)[0]
        where = ".".join(map(str, found["loc"]))
        said = reason_of(found)
        reason = Phrase("%(field)s: %(said)s", field=where, said=said) if where else said
        return Refused(place=place, reason=reason if isinstance(reason, str) else str(reason))
    except (ValueError, LookupError, TypeError, AttributeError, RecursionError) as error:
        return Refused(place=place, reason=Phrase("cannot be read: %(error)s", error=error))


def _check_encoding(path: Path, name: str | None) -> None:
    """Raise UsageError if the whole file is in another encoding, which would be a report for each entry."""
    with path.open("rb") as file:
        others = [is_utf_8(line) for line in file if b"\0" in line or not line.isascii()]
    if len(others) > 1 and not any(others):
        raise UsageError("%(file)s: cannot be read: %(error)s", file=name or path, error=NOT_UTF_8)


def _check_columns(file: str, names: Sequence[str]) -> None:
    if "\0" in "".join(names) or not is_unicode("".join(names)):
        raise UsageError("%(file)s: not CSV in UTF-8; save the file as CSV in UTF-8", file=file)
    known = {*TitleEntry.model_fields, "carve_outs", *_COLLECTION_COLUMNS}
    unknown = [name for name in names if name not in known]
    missing = [name for name in ("key", "name", "seeds") if name not in names]
    twice = [name for name in known if names.count(name) > 1]
    if twice:
        raise UsageError(
            "%(file)s: several columns are called %(twice)s",
            file=file,
            twice=", ".join(map(repr, sorted(twice))),
        )
    if unknown:
        raise UsageError(
            "%(file)s: no column may be called %(unknown)s; the columns are %(known)s",
            file=file,
            unknown=", ".join(repr(name[:SHOWN]) for name in unknown[:_MOST_NAMED]),
            known=", ".join(sorted(known)),
        )
    if missing:
        raise UsageError("%(file)s: columns are missing: %(missing)s", file=file, missing=", ".join(missing))


def _of_seed(seed: Any) -> dict[str, Any]:  # noqa: ANN401 any JSON
    if not isinstance(seed, dict) or "id" not in seed or "url" not in seed:
        raise EntryError("not an object with id and url")
    metadata = seed.get("metadata") or {}

    def values(name: str) -> list[str]:
        try:
            return [str(one["value"]) for one in metadata.get(name, ()) if one.get("value")]
        except (AttributeError, TypeError):
            raise EntryError("its metadata are not lists of objects with a value") from None

    def joined(*names: str) -> str | None:
        found = [value for name in names for value in values(name)]
        return "; ".join(found) or None

    names = values("Title")
    return {
        "key": str(seed["id"]),
        "name": names[0] if names else seed["url"],
        "alternative_names": names[1:],
        "publisher": joined("Publisher") or joined("Creator"),
        "annotation": joined("Description"),
        "languages": values("Language"),
        "subjects": [{"name": name} for name in values("Subject")],
        "licence": joined("Rights"),
        "public": bool(seed.get("publicly_visible", True)),
        "seeds": [{"url": seed["url"], "main": True}],
    }

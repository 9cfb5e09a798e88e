"""Exports of a source's titles that imports read back without a change: JSON lines, and CSV.

A cell of CSV has a JSON list where separators would be ambiguous or lose something, such as the dates of a
seed.
"""

import csv
import io
import json
from collections.abc import Callable, Iterable, Iterator, Mapping
from datetime import date
from functools import partial
from itertools import groupby
from operator import attrgetter
from typing import Any, Final

from sqlalchemy import Select, select
from sqlalchemy.orm import Session

from provider.titles.cells import FORMULA, LISTS, subjects_in, urls_in, values_in
from provider.titles.entries import CollectionEntry, TitleEntry
from provider.titles.entry_errors import EntryError
from provider.titles.licences import licence_by_key
from provider.titles.models import SeedKind, Title, TitleSeed, TitleSet

_AT_ONCE: Final = 500
_SEEDS_AT_ONCE: Final = 1000
_SEEDS: Final = select(
    TitleSeed.title_id, TitleSeed.url, TitleSeed.kind, TitleSeed.main, TitleSeed.harvested_from,
    TitleSeed.harvested_to,
).order_by(TitleSeed.title_id, TitleSeed.position)  # fmt: skip
_NONE: Final[tuple[int, Iterable[Any]]] = (0, ())
_BOM: Final = "\ufeff"
"""First character of CSV, without which Excel decodes it in the legacy code page of the reader's language."""
_SEVERAL: Final = frozenset({*LISTS, "subjects", "seeds"})
_STORED: Final = tuple(name for name in TitleEntry.model_fields if name not in {"key", "licence", "seeds"})
"""Fields that are columns of `Title`, unchanged."""
_TITLE_COLUMNS: Final = (*TitleEntry.model_fields, "carve_outs")
_COLLECTION_COLUMNS: Final = tuple(
    name for name in CollectionEntry.model_fields if name not in _TITLE_COLUMNS
)


def export_json_lines(session: Session, source: str) -> Iterator[str]:
    """Yield a line for each title of the source that is not gone, and each collection that it describes."""
    for one in _entries(session, source):
        yield json.dumps(one, ensure_ascii=False) + "\n"


def export_csv(session: Session, source: str) -> Iterator[str]:
    """Yield the header, and a row for each title and collection, as in `export_json_lines`."""
    is_described = session.scalar(_described(source).limit(1)) is not None
    columns = (*_TITLE_COLUMNS, *(_COLLECTION_COLUMNS if is_described else ()))
    yield _BOM + _row(columns)
    for one in _entries(session, source):
        cells = _cells(one)
        yield _row(cells.get(name, "") for name in columns)


EXPORTS: Final[Mapping[str, Callable[[Session, str], Iterator[str]]]] = {
    "csv": export_csv,
    "jsonl": export_json_lines,
}
"""By the name of the format in `READERS`."""


def _entries(session: Session, source: str) -> Iterator[dict[str, Any]]:
    """Yield titles, then collections, with the fields that have a value."""
    after = 0
    while titles := session.scalars(
        select(Title)
        .where(Title.source == source, ~Title.gone, Title.title_id > after)
        .order_by(Title.title_id)
        .limit(_AT_ONCE)
    ).all():
        after = titles[-1].title_id
        # The seeds of one title at a time: 500 titles may have millions.
        inside = _SEEDS.where(TitleSeed.title_id.in_([title.title_id for title in titles]))
        rows = session.execute(inside, execution_options={"yield_per": _SEEDS_AT_ONCE})
        seeds = groupby(rows, key=attrgetter("title_id"))
        number, own = next(seeds, _NONE)
        for title in titles:
            mine: list[dict[str, Any]] = []
            if number == title.title_id:
                mine = [_seed(seed) for seed in own]
                number, own = next(seeds, _NONE)
            yield _title(title, mine)
    for row in session.scalars(_described(source).order_by(TitleSet.set_spec)):
        values = {"collection": row.name, "annotation": row.description, "picture": row.picture}
        yield _filled({**values, "position": row.position, "seeds": row.seeds})


def _described(source: str) -> Select[TitleSet]:
    return select(TitleSet).where(TitleSet.described_by == source)


def _title(title: Title, seeds: list[dict[str, Any]]) -> dict[str, Any]:
    licence = licence_by_key(title.licence) if title.licence else None
    stored = {name: getattr(title, name) for name in _STORED}
    return _filled({"key": title.source_key, **stored, "licence": licence and licence.label, "seeds": seeds})


def _seed(seed: Any) -> dict[str, Any]:  # noqa: ANN401 a row of `_SEEDS`
    kind = None if seed.kind == SeedKind.INCLUDE else seed.kind
    dates = {"harvested_from": seed.harvested_from, "harvested_to": seed.harvested_to}
    return _filled({"url": seed.url, "kind": kind, "main": seed.main or None, **dates})


def _filled(values: Mapping[str, Any]) -> dict[str, Any]:
    return {
        name: value.isoformat() if isinstance(value, date) else value
        for name, value in values.items()
        if value not in (None, "", [])
    }


def _cells(entry: Mapping[str, Any]) -> dict[str, str]:
    """Return the cells, by column."""
    cells = {name: str(value) for name, value in entry.items() if name not in _SEVERAL}
    for name in LISTS:
        values = entry.get(name, [])
        cells[name] = _cell(values, "; ".join(values), values_in)
    subjects, seeds = entry.get("subjects", []), entry.get("seeds", [])
    cells["subjects"] = _cell(subjects, "; ".join(map(_subject, subjects)), _subjects_in)
    read_seeds = partial(urls_in, "seeds")
    if "collection" in entry:
        return {**cells, "seeds": _cell(seeds, " ".join(seeds), read_seeds)}
    # Spreadsheets translate `true` when they save the file.
    cells["public"] = "yes" if entry["public"] else "no"
    carved = [one["url"] for one in seeds if one == {"url": one["url"], "kind": SeedKind.CARVE_OUT}]
    others = seeds[: len(seeds) - len(carved)]
    is_last = seeds[len(others) :] == [{"url": url, "kind": SeedKind.CARVE_OUT} for url in carved]
    if is_last and _is_read_as(carved, " ".join(carved), partial(urls_in, "carve_outs")):
        cells["carve_outs"], seeds = " ".join(carved), others
    plain = " ".join(one["url"] for one in others)
    return {**cells, "seeds": _cell(seeds, plain, lambda cell: [{"url": url} for url in read_seeds(cell)])}


def _cell(values: list[Any], plain: str, read: Callable[[str], list[Any]]) -> str:
    """Return the plain cell if it is read as these values, or else a JSON list."""
    return plain if _is_read_as(values, plain, read) else json.dumps(values, ensure_ascii=False)


def _is_read_as(values: list[Any], plain: str, read: Callable[[str], list[Any]]) -> bool:
    try:
        return not plain.startswith("[") and read(plain) == values
    except EntryError:
        return False


def _subject(subject: Mapping[str, Any]) -> str:
    return f"{subject['number']}: {subject['name']}" if "number" in subject else subject["name"]


def _subjects_in(cell: str) -> list[dict[str, Any]]:
    return [{**one, "number": int(one["number"])} if "number" in one else one for one in subjects_in(cell)]


def _row(cells: Iterable[str]) -> str:
    out = io.StringIO()
    csv.writer(out, lineterminator="\r\n").writerow(
        [f"'{cell}" if FORMULA.match(cell) else cell for cell in cells]
    )
    return out.getvalue()

"""Benchmark of titles: their captures counted, again after changes, and put into sets that are harvested."""

import tempfile
import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from datetime import timedelta
from pathlib import Path
from typing import Final

from sqlalchemy import select, text
from sqlalchemy.orm import Session

from oai.database import Database, open_database
from oai.settings import load_settings
from provider.models import UNLISTED
from provider.protocol.pages import item_page
from provider.protocol.scopes import find_scope
from provider.protocol.tokens import Position
from provider.titles.access import settle_access
from provider.titles.entries import TitleEntry
from provider.titles.imports import apply_import, plan_import
from provider.titles.models import TitleDocuments
from provider.titles.publication import count_new
from provider.titles.ranges import RangeRules
from provider.titles.segments import follow_setting
from tests.bench import rows
from tests.bench.measuring import say

_HOSTS: Final = 300
_TOP: Final = ("cz", "sk", "eu")
_SECTIONS: Final = 97
_RULES: Final = RangeRules()
_PAGES: Final = 100
_PAGE: Final = 10
_LATER: Final = UNLISTED - timedelta(seconds=1)
_SPREAD: Final = "WHERE id % (SELECT greatest(max(id) / 1000, 1) FROM document) = 0"


def _again(years: int, condition: str = "") -> str:
    """Return the statement that adds captures again, so many years later."""
    return f"""
    INSERT INTO document (
        key, arc_id, "offset", length, url, archived, datestamp, tld_id, domain_id, host_id, mime_major_id,
        mime_id, http_status, digest, record_type, title, url_key
    )
    SELECT md5('again {years}' || id)::uuid, arc_id, "offset", length, url,
        archived + interval '{years} years', date_trunc('second', now()) + interval '1 second', tld_id,
        domain_id, host_id, mime_major_id, mime_id, http_status, digest, record_type, title, url_key
    FROM document {condition}
    """  # noqa: S608 constant text


FEW: Final = _again(10, _SPREAD)
"""A thousand captures of all sites, as an archive file of a crawl has them."""
MORE: Final = _again(20)
"""Every capture."""
_HIDE: Final = f"""
UPDATE document SET deleted = true, hidden = true,
    datestamp = date_trunc('second', now()) + interval '1 second' {_SPREAD}
"""  # noqa: S608 constant text


_CHANGES: Final = {
    "1,000 further captures, of all sites": FEW,
    "1,000 captures hidden": _HIDE,
    "as many further captures": MORE,
}


def measure(*, documents: int, titles: int, sets: bool) -> None:
    """Print a Markdown table with a quarter of the documents and with all."""
    say(f"{titles:,} titles, documents:", f"{documents // 4:,}", f"{documents:,}", "ratio")
    say("---", "---:", "---:", "---:")
    small, large = (_steps(number, titles, sets=sets) for number in (documents // 4, documents))
    for name, seconds in small.items():
        say(name, f"{seconds:.2f} s", f"{large[name]:.2f} s", f"{large[name] / seconds:.1f}")


def _steps(documents: int, titles: int, *, sets: bool) -> dict[str, float]:
    with tempfile.TemporaryDirectory(prefix="zatva-bench-") as folder:
        root = Path(folder)
        root.chmod(0o755)
        with open_database(load_settings(data=root / "data", database_url=None)) as database:
            rows.fill(database, documents, lambda _: None)
            entries = list(_entries(titles))
            taken = {"import, and all captures counted": _import(database, entries)}
            taken["the same import again"] = _import(database, entries)
            entries[-1] = _entry(titles - 1, f"http://www.site1.cz/section/{_SECTIONS + 1}/")
            taken["import with one changed seed"] = _import(database, entries)
            taken["count, nothing new"] = max(_count(database), _count(database))
            for name, change in _CHANGES.items():
                with database.session() as session:
                    session.execute(text(change))
                    session.commit()
                taken[f"count after {name}"] = _count(database)
            if sets:
                taken["all of them put into sets"] = _timed(database, _put_into_sets)
                taken["100 pages of the largest set"] = _timed(database, _read_set)
    return taken


def _put_into_sets(session: Session) -> None:
    follow_setting(session, replace(_RULES, document_sets=True), margin=0)
    session.commit()
    settle_access(session, margin=1)


def _read_set(session: Session) -> None:
    largest = select(TitleDocuments.set_spec).order_by(TitleDocuments.documents.desc()).limit(1)
    scope = find_scope(session, session.scalars(largest).one())
    assert scope is not None
    after: Position | None = None
    for _ in range(_PAGES):
        page = item_page(session, scope, from_=None, until=_LATER, after=after, limit=_PAGE)
        after = Position(datestamp=page[-1].datestamp, id=page[-1].key) if page else None


def _entries(titles: int) -> Iterator[TitleEntry]:
    """Yield a title for each site, and further ones for sections of them."""
    for number in range(titles):
        section, site = divmod(number, _HOSTS)
        host = f"www.site{site // len(_TOP) + 1}.{_TOP[site % len(_TOP)]}"
        yield _entry(number, f"http://{host}/" if section == 0 else f"http://{host}/section/{section}/")


def _entry(number: int, url: str) -> TitleEntry:
    return TitleEntry.model_validate(
        {
            "key": str(number),
            "name": f"Title {number}",
            "publisher": f"Publisher {number % 1000}",
            "subjects": [{"name": f"Subject {number % 26}", "number": number % 26}],
            "seeds": [{"url": url}],
        }
    )


def _import(database: Database, entries: list[TitleEntry]) -> float:
    def work(session: Session) -> None:
        apply_import(session, plan_import(session, "bench", entries, _RULES), _RULES, margin=0)

    return _timed(database, work)


def _count(database: Database) -> float:
    return _timed(database, lambda session: count_new(session, margin=0))


def _timed(database: Database, work: Callable[[Session], object]) -> float:
    begun = time.monotonic()
    with database.session() as session:
        work(session)
        session.commit()
    return time.monotonic() - begun

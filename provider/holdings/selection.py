"""Selection of documents for a change: by archive file, URL, capture time, host or identifier."""

import re
import uuid
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Final

from sqlalchemy import ColumnElement, Select, and_, exists, func, or_, select, text
from sqlalchemy.orm import Session

from oai.datestamps import format_datestamp
from oai.errors import UsageError
from provider.holdings.arcs import is_file
from provider.holdings.publication import publish_chosen
from provider.holdings.sets import domain_set_specs, host_of
from provider.holdings.url_key_state import keys_complete, www_rule
from provider.holdings.urlkeys import KEY_CHARACTERS, spellings, stored_key, url_key, with_scheme
from provider.models import Arc, Document, Domain
from provider.protocol.scopes import find_scope
from provider.storage.places import WACZ_SUFFIX, is_stored_place

_MOST_PLACES: Final = 3
INDEXED_CHARACTERS = 512
"""Number of characters of a URL in `ix_document_url`, an index of archives whose documents lack keys."""
_IN_THE_HOST: Final = re.compile(
    r"[A-Za-z][A-Za-z0-9+.-]*://(?:[^/?#]*@)?(\[[^\]/?#]*|[^/?#:@\[\]]*)(?::[0-9]*)?", re.ASCII
)
"""A prefix that ends in the host or port of a URL."""
COVERED: Final = """coalesce((
    SELECT held.high >= document.url_key FROM takedown_range AS held
    WHERE held.outermost AND held.low <= document.url_key ORDER BY held.low DESC LIMIT 1
), false)"""
"""SQL: whether an active take-down covers the row of `document`.

One probe of an index, because outermost ranges are disjoint.
"""
_MARK = f"""
WITH before AS (
    SELECT id, deleted FROM document WHERE id = ANY(ARRAY(SELECT id FROM chosen)) OFFSET 0
),
changed AS (
    UPDATE document SET hidden = :hidden, deleted = :hidden OR {COVERED}
    WHERE id = ANY(ARRAY(SELECT id FROM chosen)) AND hidden <> :hidden RETURNING id, deleted
)
INSERT INTO altered
SELECT id FROM changed JOIN before USING (id) WHERE changed.deleted <> before.deleted
"""  # noqa: S608 constant text

# Deleted records show nothing that settings or locations change.
_REDATE: Final = """
INSERT INTO altered
SELECT id FROM document WHERE id = ANY(ARRAY(SELECT id FROM chosen)) AND NOT deleted AND access <> 'withheld'
"""


@dataclass(frozen=True, kw_only=True)
class Selection:
    """Criteria that the documents have in common; all given ones must match."""

    arc: str | None = None
    """Name of an archive file (with or without `.gz`), if no other one has it, or its absolute path."""
    key: uuid.UUID | None = None
    """Key of one document."""
    url: str | None = None
    """All captures that a look-up of this URL finds: those with its URL key, however they are spelt."""
    url_prefix: str | None = None
    """Beginning of the URL as archived: here, `http` and `https` differ."""
    since: datetime | None = None
    """First capture time that matches."""
    until: datetime | None = None
    """Last capture time that matches."""
    domain: str | None = None
    """Host or domain, including everything below it."""

    def as_json(self) -> dict[str, str]:
        """Return the given criteria, under the names of the API; times as UTC datestamps."""
        given = {
            "archive_file": self.arc,
            "document": None if self.key is None else str(self.key),
            "url": self.url,
            "url_prefix": self.url_prefix,
            "domain": self.domain,
            "since": None if self.since is None else format_datestamp(self.since),
            "until": None if self.until is None else format_datestamp(self.until),
        }
        return {name: value for name, value in given.items() if value is not None}


def conditions(session: Session, selection: Selection) -> list[ColumnElement[bool]]:
    """Return the selection as conditions on `document`.

    Raises UsageError if it names an unknown archive file or domain, several archive files, or is empty.
    """
    found: list[ColumnElement[bool]] = []
    if selection.arc is not None:
        found.append(Document.arc_id.in_(_arcs(session, selection.arc)))
    if selection.key is not None:
        found.append(Document.key == selection.key)
    if selection.url is not None:
        found.append(_is_url(session, selection.url))
    if selection.url_prefix is not None:
        found.append(url_begins(selection.url_prefix))
    if selection.domain is not None:
        found += _domain(session, selection.domain)
    if not found:
        raise UsageError("no documents selected; give an archive file, a URL, a URL prefix or a domain")
    if selection.since is not None:
        found.append(Document.archived >= selection.since)
    if selection.until is not None:
        found.append(Document.archived <= selection.until)
    return found


def _arcs(session: Session, name: str) -> list[int]:
    """Return the ids of the archive file that a user names; files without documents do not count.

    All WARC files in one WACZ file belong to its name.
    """
    found = session.scalars(select(Arc).where(is_file(name))).all()
    if not found:
        raise UsageError("archive file %(name)s is not indexed; see `zatva provider status`", name=repr(name))
    if not is_stored_place(name):
        end = f"/{name}"
        in_wacz = name.lower().endswith(WACZ_SUFFIX)
        filled = [arc.place for arc in found if arc.documents]
        places = sorted({place.partition(f"{end}#")[0] + end if in_wacz else place for place in filled})
        if len(places) > 1:
            raise UsageError(
                "%(count)s archive files are named %(name)s; give the path of one: %(paths)s",
                count=len(places),
                name=repr(name),
                paths=", ".join([*places[:_MOST_PLACES], *["…"] * (len(places) > _MOST_PLACES)]),
            )
    return [arc.id for arc in found]


def matches_any(session: Session, selection: Selection) -> bool:
    """Return whether there are documents that match. Raises UsageError as `conditions` does."""
    return session.scalars(select(exists().where(*conditions(session, selection)))).one()


def same_url(session: Session, url: str) -> ColumnElement[bool]:
    """Return the condition for captures of a URL, which may be spelt in another way.

    It compares the characters of keys that are stored, or spellings as long as documents lack their keys.
    """
    rule = www_rule(session)
    if keys_complete(session):
        return Document.url_key == stored_key(url, rule)
    return _one_of_urls(spellings(url, rule))


def _one_of_urls(urls: Sequence[str]) -> ColumnElement[bool]:
    """Return a condition for exactly these URLs: the indexed characters, and the full comparison."""
    indexed = func.left(Document.url, INDEXED_CHARACTERS)
    return and_(indexed.in_([url[:INDEXED_CHARACTERS] for url in urls]), Document.url.in_(urls))


def _is_url(session: Session, url: str) -> ColumnElement[bool]:
    """Return the condition for the captures of a URL that a user gave, also by keys that are stored cut."""
    given = with_scheme(url)
    found, rule = same_url(session, given), www_rule(session)
    key = url_key(given, rule)
    if len(key) < KEY_CHARACTERS:
        return found
    urls = session.scalars(select(Document.url).distinct().where(found))
    return and_(found, Document.url.in_([one for one in urls if url_key(one, rule) == key]))


def url_begins(prefix: str) -> ColumnElement[bool]:
    """Return a condition for a URL prefix; it reads all documents of the hosts that the prefix can match.

    The index of URL keys cannot be used: `/a/b/../../c` begins with `/a/` as archived, but its key does not.
    A user name that looks like the beginning of a host is not found. Raises UsageError for an empty prefix.
    """
    if not prefix:
        raise UsageError("an empty URL prefix would select every document; give at least 'http'")
    begins = func.starts_with(Document.url, prefix)
    unfinished, host = _IN_THE_HOST.fullmatch(prefix), host_of(prefix)
    if unfinished is not None:
        named = or_(*_hosts_that_begin(unfinished[1].removeprefix("[")))
    elif host is not None:
        named = Domain.set_spec == domain_set_specs(host)[-1][0]
    else:
        return begins
    return and_(Document.host_id.in_(select(Domain.id).where(named)), begins)


def _hosts_that_begin(text: str) -> list[ColumnElement[bool]]:
    """Return conditions for the hosts that may begin so in a URL: as they are, or converted by IDNA."""
    beginning = re.split(r"[^\x00-\x7f]", text.lower())[0]
    labels = beginning[: beginning.rfind(".") + 1]  # those that IDNA cannot change
    names = [beginning.rstrip("."), f"{labels}xn--"] if beginning == text.lower() else [labels]
    return [Domain.name.startswith(name, autoescape=True) for name in names]


def _domain(session: Session, domain: str) -> tuple[ColumnElement[bool], ...]:
    set_spec = domain_set_specs(host_of(f"http://{domain}/") or domain)[-1][0]
    scope = find_scope(session, set_spec, withheld=True)
    if scope is None:
        raise UsageError(
            "no documents from the domain %(domain)s (set %(set_spec)s)",
            domain=repr(domain),
            set_spec=set_spec,
        )
    return scope.conditions


def hide(session: Session, selection: Selection, *, margin: float) -> int:
    """Mark documents as deleted; return how many were not deleted before. Commits."""
    return _mark(session, selection, hidden=True, margin=margin)


def unhide(session: Session, selection: Selection, *, margin: float) -> int:
    """Show hidden documents again; return how many were hidden. Commits.

    Documents withheld by an access rule remain deleted for harvesters, and documents held by a take-down
    remain hidden.
    """
    return _mark(session, selection, hidden=False, margin=margin)


def in_file_or_set(session: Session, *, arc: str | None, set_spec: str | None) -> Select[int]:
    """Select the ids of the documents of an archive file or of a set, or without both, of all documents.

    Raises UsageError if it names an unknown set or archive file, or several archive files.
    """
    if arc is not None:
        return select(Document.id).where(*conditions(session, Selection(arc=arc)))
    scope = find_scope(session, set_spec)
    if scope is None:
        raise UsageError("no set %(set)s", set=repr(set_spec))
    return select(scope.id).where(*scope.conditions)


def redate(session: Session, chosen: Select[int], *, margin: float) -> int:
    """Give documents that are not deleted a new datestamp, although they have not changed; return how many.

    Their records have changed, because settings or locations have. Commits several times; after an
    interruption, the next call begins again.
    """

    def change(session: Session, _datestamp: datetime) -> None:
        session.execute(text(_REDATE))

    return publish_chosen(session, chosen, change, margin=margin)


def taken_down(session: Session, selection: Selection, *, hidden: bool) -> int:
    """Return how many documents `hide` or `unhide` marks although a take-down hides them in any case."""
    held = (Document.hidden.is_not(hidden), Document.deleted, text(COVERED))
    found = select(func.count()).select_from(Document).where(*conditions(session, selection), *held)
    return session.scalars(found).one()


def _mark(session: Session, selection: Selection, *, hidden: bool, margin: float) -> int:
    def change(session: Session, _datestamp: datetime) -> None:
        session.execute(text(_MARK), {"hidden": hidden})

    chosen = select(Document.id).where(*conditions(session, selection), Document.hidden.is_not(hidden))
    return publish_chosen(session, chosen, change, margin=margin)

"""The take-down register: documents that are not shown, with reason, requester and end.

A take-down names URLs, prefixes or hosts, which become ranges of URL keys, so that scheme, `www.`, capitals
and the order of arguments make no difference, and captures that are indexed later are covered, too. A
document is shown unless it is hidden by itself or an active range covers it; `settle_takedown` compares, in
publishing transactions of a limited size. Harvesters that have a document get it as deleted; one that was
never listed stays unknown.
"""

import logging
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import datetime
from itertools import islice
from typing import Any, Final

from sqlalchemy import ColumnElement, Select, func, select, text, true, update
from sqlalchemy.orm import Session

from oai.errors import ConflictError, UsageError
from oai.folding import contains_folded
from provider.holdings.lookup import MatchType, read_wildcard
from provider.holdings.previews import count_harvesters
from provider.holdings.publication import BEGIN_CHUNK, CHUNK, Check, no_check, publish_chosen
from provider.holdings.selection import COVERED
from provider.holdings.unlisted import count_changes, unlisted_numbers
from provider.holdings.url_key_state import FILL_KEYS, hold_rule, keys_complete, www_rule
from provider.holdings.urlkeys import (
    KEY_CHARACTERS,
    WwwRule,
    has_key_prefix,
    host_key,
    key_prefix,
    keys_from,
    parts_of,
    prefix_ranges,
    readings,
    stored_key,
    with_scheme,
)
from provider.models import UNLISTED, Document, Takedown, TakedownRange

_log = logging.getLogger(__name__)
MOST_TARGETS: Final = 10_000
_COUNTED: Final = 1_000_000
"""Documents that a preview counts; above it, there are more."""
_EXAMPLES: Final = 10
_LONGEST: Final = 2000
BLANKS: Final = " \t\r\n"
"""Removed around targets; other white space may belong to a URL."""
_LONGEST_TARGET: Final = 4000
_LOCK: Final = 0x7A_61_74_74_64
"""Held shared by transactions that add documents; held exclusively when a take-down is entered.

Without it, a document that is added while a take-down begins could miss both: its own transaction does not
see the ranges yet, and `settle_takedown` does not see the document.
"""
# Without a join of `document` with itself, whose plan compared each pair of documents of a chunk.
_APPLY: Final = f"""
WITH changed AS (
    UPDATE document SET deleted = hidden OR {COVERED}
    WHERE id = ANY(ARRAY(SELECT id FROM chosen)) AND deleted <> (hidden OR {COVERED})
    RETURNING id
)
INSERT INTO altered SELECT id FROM changed
"""  # noqa: S608 constant text
_FIND_OUTERMOST: Final = """
WITH ordered AS (
    SELECT range_id, active AND coalesce(max(high) FILTER (WHERE active) OVER (
        ORDER BY low, high DESC, range_id ROWS BETWEEN UNBOUNDED PRECEDING AND 1 PRECEDING
    ) < high, active) AS outermost
    FROM takedown_range WHERE active OR outermost
)
UPDATE takedown_range AS kept SET outermost = ordered.outermost
FROM ordered
WHERE kept.range_id = ordered.range_id AND kept.outermost <> ordered.outermost
"""
_COVER_NEW: Final = f"""
INSERT INTO chosen
SELECT id FROM document WHERE id = ANY(ARRAY(SELECT id FROM fresh)) AND {COVERED} ORDER BY id
"""  # noqa: S608 constant text
_HIDE_NEW: Final = """
UPDATE document SET deleted = true, datestamp = :unlisted WHERE id = ANY(ARRAY(SELECT id FROM chosen))
"""
_HIDE_NEW_MEMBERS: Final = """
UPDATE document_collection SET datestamp = :unlisted WHERE document_id = ANY(ARRAY(SELECT id FROM chosen))
"""
_FOUND: Final = """
FROM unnest(CAST(:lows AS text[]), CAST(:highs AS text[])) AS wanted (low, high)
CROSS JOIN LATERAL (
    SELECT id, url, archived, datestamp, deleted, access FROM document
    WHERE url_key >= wanted.low COLLATE "C" AND url_key <= wanted.high COLLATE "C"
    ORDER BY url_key, archived LIMIT :most
) AS found
"""
_COUNT: Final = f"""
SELECT count(*) AS documents, count(*) FILTER (WHERE deleted) AS hidden,
    min(datestamp) FILTER (WHERE datestamp < :unlisted) AS first
FROM (SELECT DISTINCT found.id, deleted, datestamp {_FOUND} LIMIT :most) AS counted
"""  # noqa: S608 constant text
_SHOW: Final = f"SELECT DISTINCT ON (url, archived) url, archived {_FOUND} ORDER BY url, archived LIMIT :most"


@dataclass(frozen=True, kw_only=True)
class TakedownRequest:
    """What is entered into the register."""

    targets: tuple[str, ...]
    """URLs, `prefix*`, `*.host`."""
    reason: str
    requester: str
    reference: str = ""
    expires: datetime | None = None


@dataclass(frozen=True, kw_only=True)
class Preview:
    """What a take-down would do."""

    documents: int
    more: bool
    """Whether there are more than were counted."""
    hidden: int
    """Those among them that are not shown already."""
    harvesters: int
    """Harvesters that may have them: they read lists after the first of these documents was published."""
    examples: tuple[tuple[str, datetime], ...]
    """URLs and times of capture of some."""

    def as_json(self) -> dict[str, Any]:
        """Return it as a JSON-compatible value, with the URLs of the examples."""
        return {**vars(self), "examples": [url for url, _archived in self.examples]}


def ranges_of(targets: Sequence[str], rule: WwwRule) -> list[tuple[str, str]]:
    """Return the ranges of URL keys that the targets mean, both ends included.

    Raises UsageError, which lists the lines without a host, those that are longer than the keys in the index,
    which would cover other URLs, too, prefixes with arguments, which would not cover all their URLs, and
    those that `has_key_prefix` refuses.
    """
    if not targets:
        raise UsageError("no addresses; give a URL, a prefix with * at the end, or *.host")
    if len(targets) > MOST_TARGETS:
        raise UsageError(
            "%(count)d addresses; enter at most %(most)d at once", count=len(targets), most=MOST_TARGETS
        )
    if lines := numbered_lines(targets, lambda one: not _ranges(one, rule)):
        raise UsageError(
            "these lines are not addresses with a host such as example.cz: %(lines)s", lines=lines
        )
    if lines := numbered_lines(targets, lambda one: _is_long(one, rule)):
        raise UsageError(
            "the index cannot distinguish these long addresses from others; give a shorter prefix with * at "
            "the end instead: %(lines)s",
            lines=lines,
        )
    if lines := numbered_lines(targets, lambda one: not _has_prefix(one)):
        raise UsageError(
            "these prefixes end in a fragment, in dots or within an escape, which the index does not have; "
            "end them before the # (…/page*), with the slash before the dots (…/dir/*) or after a whole "
            "escape: %(lines)s",
            lines=lines,
        )
    if lines := numbered_lines(targets, lambda one: _has_arguments(one, rule)):
        raise UsageError(
            "the index sorts the arguments of URLs, so these prefixes could miss some that begin with them; "
            "give whole URLs instead, or a prefix that ends in the question mark (…/page?*): %(lines)s",
            lines=lines,
        )
    return list(dict.fromkeys(one for target in targets for one in _ranges(target, rule)))


def numbered_lines(targets: Sequence[str], is_wrong: Callable[[str], bool]) -> str:
    """Return the first of the targets that are wrong, with their numbers, for a message."""
    numbered = enumerate(targets, start=1)
    found = (f"{number}: {target[:100]!r}" for number, target in numbered if is_wrong(target))
    return ", ".join(islice(found, 20))


def _has_prefix(target: str) -> bool:
    url, match = _url_and_match(target)
    return match is not MatchType.PREFIX or has_key_prefix(url)


def _has_arguments(target: str, rule: WwwRule) -> bool:
    """Return whether a target is a prefix that reaches into the arguments of URLs."""
    url, match = _url_and_match(target)
    # Only the key shows an escaped question mark, and only the URL a session id.
    return match is MatchType.PREFIX and ("?" in key_prefix(url, rule)[:-1] or len(parts_of(url).query) > 1)


def _is_long(target: str, rule: WwwRule) -> bool:
    """Return whether a target's key is cut in the index, or that of another URL could be cut to it."""
    url, match = _url_and_match(target)
    if len(target) > _LONGEST_TARGET:
        return True
    if match is MatchType.PREFIX:
        return any(len(key_prefix(one, rule)) > KEY_CHARACTERS for one in readings(url))
    return any(len(stored_key(one, rule)) == KEY_CHARACTERS for one in readings(url))


def _url_and_match(target: str) -> tuple[str, MatchType]:
    url, match = read_wildcard(target.strip())
    return with_scheme(url), match


def _ranges(target: str, rule: WwwRule) -> list[tuple[str, str]]:
    """Return the ranges of one target; none if it has no host, or means all hosts of a top-level domain.

    A host of one label counts only with a path: by itself, a word is probably no address.
    """
    url, match = _url_and_match(target)
    host, named = host_key(url, rule), parts_of(url)
    is_word = not named.path and "." not in named.host.strip(".") and ":" not in named.host
    if is_word or not named.host or "*" in named.host:
        return []
    if match is MatchType.DOMAIN:
        # After a host's key comes `)`, the port, or the next label.
        return [keys_from(f"{host}{sign}") for sign in "),:"] if "," in host else []
    if match is MatchType.PREFIX:
        return [found for one in readings(url) for found in prefix_ranges(one, rule)]
    # A no-break space at the end may be archived with the URL, or copied by accident: both are covered.
    spellings = dict.fromkeys((url, with_scheme(target.lstrip().rstrip(BLANKS))))
    return [(key, key) for one in spellings for key in (stored_key(read, rule) for read in readings(one))]


def preview(session: Session, targets: Sequence[str]) -> Preview:
    """Count what the targets cover; changes nothing. Raises UsageError like `ranges_of`."""
    ranges = ranges_of(targets, www_rule(session))
    _check_keys(session)
    lows, highs = [low for low, _ in ranges], [high for _, high in ranges]
    values = {"lows": lows, "highs": highs, "unlisted": UNLISTED}
    row = session.execute(text(_COUNT), {**values, "most": _COUNTED + 1}).one()
    shown = session.execute(text(_SHOW), {"lows": lows, "highs": highs, "most": _EXAMPLES}).all()
    return Preview(
        documents=min(row.documents, _COUNTED),
        more=row.documents > _COUNTED,
        hidden=row.hidden,
        harvesters=count_harvesters(session, row.first),
        examples=tuple((one.url, one.archived) for one in shown),
    )


def enter(session: Session, request: TakedownRequest) -> int:
    """Enter a take-down into the register; return its number. `settle_takedown` applies it.

    Commits. From now on, documents that are added are covered. Raises UsageError for bad values.
    """
    targets = tuple(dict.fromkeys(target.strip(BLANKS) for target in request.targets))
    ranges = ranges_of(targets, hold_rule(session))
    _check_keys(session)
    if not request.reason.strip() or not request.requester.strip():
        raise UsageError("the register needs a reason and a requester; give both")
    if max(map(len, (request.reason, request.requester, request.reference))) > _LONGEST:
        raise UsageError("reason, requester and reference may have %(most)d characters each", most=_LONGEST)
    if request.expires is not None and request.expires <= session.scalars(select(func.now())).one():
        raise UsageError("the take-down would have expired already; give a later end, or none")
    _change_register(session)
    row = Takedown(
        targets=list(targets),
        reason=request.reason.strip(),
        requester=request.requester.strip(),
        reference=request.reference.strip(),
        expires=request.expires,
        # By the database's clock, as in `_end`.
        unsettled=func.clock_timestamp(),
    )
    session.add(row)
    session.flush()
    session.add_all(TakedownRange(takedown_id=row.takedown_id, low=low, high=high) for low, high in ranges)
    session.flush()
    session.execute(text(_FIND_OUTERMOST))
    number = row.takedown_id
    session.commit()
    return number


def lift(session: Session, number: int, because: str) -> None:
    """End a take-down; `settle_takedown` shows its documents again. Commits.

    Raises UsageError if there is none with this number or the reason is missing, and ConflictError if it has
    ended.
    """
    find_takedown(session, number)
    if not because.strip() or len(because) > _LONGEST:
        raise UsageError("give a reason for the end, of at most %(most)d characters", most=_LONGEST)
    if not _end(session, Takedown.takedown_id == number, because.strip()):
        raise ConflictError("take-down %(number)d has already ended", number=number)
    session.commit()


def state_of(row: Takedown) -> str:
    """Return the state of a take-down: active, ended, or being applied."""
    if row.unsettled is not None:
        return "being applied"
    return "active" if row.lifted is None else "ended"


def find_takedown(session: Session, number: int) -> Takedown:
    """Return the take-down with this number. Raises UsageError if there is none."""
    row = session.get(Takedown, number)
    if row is None:
        raise UsageError("take-down %(number)d does not exist", number=number)
    return row


def list_takedowns(
    session: Session, *, limit: int, before: int | None = None, words: str = "", ended: bool | None = None
) -> list[Takedown]:
    """Return take-downs, newest first, before a number; `words` occur in a text, accents or not."""
    wanted = select(Takedown).order_by(Takedown.takedown_id.desc()).limit(limit)
    if before is not None:
        wanted = wanted.where(Takedown.takedown_id < before)
    if ended is not None:
        wanted = wanted.where(Takedown.lifted.is_not(None) if ended else Takedown.lifted.is_(None))
    if words:
        targets = func.array_to_string(Takedown.targets, " ")
        texts = func.concat_ws(" ", targets, Takedown.reason, Takedown.requester, Takedown.reference)
        wanted = wanted.where(contains_folded(texts, words))
    return list(session.scalars(wanted))


def count_active(session: Session) -> int:
    """Return the number of take-downs in force."""
    return session.scalars(select(func.count()).where(Takedown.lifted.is_(None))).one()


def holding(session: Session, document_id: int) -> list[int]:
    """Return the numbers of the active take-downs that cover a document."""
    wanted = (
        select(TakedownRange.takedown_id)
        .distinct()
        .join(Document, Document.url_key.between(TakedownRange.low, TakedownRange.high))
        .where(Document.id == document_id, TakedownRange.active)
        .order_by(TakedownRange.takedown_id)
    )
    return list(session.scalars(wanted))


def settle_takedown(
    session: Session, number: int, *, margin: float, check: Check = no_check, chunk: int = CHUNK
) -> int:
    """Bring the documents of one take-down in line with the register; return how many changed.

    Commits several times; after an interruption, `settle_takedowns` continues.
    """
    row = find_takedown(session, number)
    since = row.unsettled
    if since is None:
        return 0

    def change(session: Session, _datestamp: datetime) -> None:
        session.execute(text(_APPLY))

    changed = publish_chosen(session, _covered_by(number), change, margin=margin, check=check, chunk=chunk)
    documents = session.scalars(select(func.count()).select_from(_covered_by(number).subquery())).one()
    # Compare-and-swap: lifted in the meantime, it stays unsettled.
    session.execute(
        update(Takedown)
        .where(Takedown.takedown_id == number, Takedown.unsettled == since)
        .values(unsettled=None, documents=documents)
    )
    session.commit()
    return changed


def settle_if_small(session: Session, number: int, documents: int, *, margin: float) -> None:
    """Apply a take-down of at most one chunk of documents; a larger one is left to the manager."""
    if documents <= CHUNK:
        settle_takedown(session, number, margin=margin)


def settle_takedowns(session: Session, *, margin: float, check: Check = no_check) -> int:
    """End take-downs in time, finish interrupted ones; return how many documents changed. Commits."""
    expired = Takedown.expires <= func.now()
    if session.scalars(select(Takedown.takedown_id).where(Takedown.lifted.is_(None), expired)).first():
        numbers = _end(session, expired, None)
        _log.info("take-downs have expired: %s", ", ".join(map(str, numbers)))
    session.commit()
    waiting = (
        select(Takedown.takedown_id).where(Takedown.unsettled.is_not(None)).order_by(Takedown.takedown_id)
    )
    found = session.scalars(waiting).all()
    return sum(settle_takedown(session, number, margin=margin, check=check) for number in found)


def hold_register(session: Session) -> None:
    """Let no take-down begin until this transaction, which adds documents, ends."""
    session.execute(select(func.pg_advisory_xact_lock_shared(_LOCK)))


def hide_new(session: Session) -> None:
    """Hide the documents in `fresh` that a take-down covers; as they were never listed, they stay unknown.

    Their sets have been counted. The caller holds the register.
    """
    if not session.scalar(text("SELECT EXISTS (SELECT FROM takedown_range WHERE active)")):
        return
    for statement in BEGIN_CHUNK:
        session.execute(text(statement))
    session.execute(text(_COVER_NEW))
    unlisted = unlisted_numbers(session)
    for statement in (_HIDE_NEW, _HIDE_NEW_MEMBERS):
        session.execute(text(statement), {"unlisted": UNLISTED})
    count_changes(session, unlisted)


def _covered_by(number: int) -> Select[int]:
    # OFFSET forces one index scan per range: as a join, it could read the whole archive.
    found = (
        select(Document.id)
        .where(Document.url_key >= TakedownRange.low, Document.url_key <= TakedownRange.high)
        .offset(0)
        .correlate(TakedownRange)
        .lateral()
    )
    ranges = select(found.c.id).distinct().select_from(TakedownRange).join(found, true())
    return ranges.where(TakedownRange.takedown_id == number)


def _end(session: Session, chosen: ColumnElement[bool], because: str | None) -> Sequence[int]:
    """End the chosen take-downs that are in force; return their numbers."""
    _change_register(session)
    # Chosen after the wait for the register, in which somebody else may have ended them.
    ended = (
        update(Takedown)
        .where(chosen, Takedown.lifted.is_(None))
        .values(lifted=func.now(), lifted_because=because, unsettled=func.clock_timestamp())
        .returning(Takedown.takedown_id)
    )
    numbers = session.scalars(ended).all()
    session.execute(update(TakedownRange).where(TakedownRange.takedown_id.in_(numbers)).values(active=False))
    session.execute(text(_FIND_OUTERMOST))
    return numbers


def _change_register(session: Session) -> None:
    """Wait for transactions that add documents, and block new ones until this transaction ends."""
    session.execute(select(func.pg_advisory_xact_lock(_LOCK)))


def _check_keys(session: Session) -> None:
    if not keys_complete(session):
        raise UsageError(
            "some documents have no URL key yet, so they could be missed: %(advice)s", advice=FILL_KEYS
        )

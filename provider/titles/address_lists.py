"""Lists of addresses as access rules, such as Seeder's blacklists.

What a list means is said by hand (`provider.seeder_lists`), because a table of "blacklists" has whitelists,
too; one without a meaning is ignored and reported. A list only closes captures: of all rules that concern a
capture, the strictest one counts (`provider.titles.access`). So *open* changes nothing; the import reports
which addresses of such a list something else closes.

Nothing is opened because a list could not be read: a stored list that is missing, empty or without a meaning
keeps its addresses, and one with lines that are not addresses loses none. Only a meaning, *open* or *ignore*,
or the removal of an address from a list that is read whole opens what a list has closed.
"""

import ipaddress
import re
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from sqlalchemy import delete, func, select, text
from sqlalchemy.dialects.postgresql import insert
from sqlalchemy.orm import Session

from oai.errors import Phrase, UsageError
from oai.sections.provider import ListMeaning
from provider.holdings.url_key_state import www_rule
from provider.holdings.urlkeys import WwwRule, host_key
from provider.models import Access
from provider.titles.entries import AddressList, Refused
from provider.titles.entry_errors import EntryError
from provider.titles.models import AccessList
from provider.titles.ranges import (
    MOST_KEY,
    KeyRange,
    ListedRange,
    meets,
    ranges_of_address,
    widest_range,
)

_LINE_END: Final = re.compile(r"\r\n|\r|\n")
_WORD: Final = re.compile(r"(?:\\[ \t]|\S)+")
"""Up to a blank; one after a backslash is part of the address, as in rules of web servers."""
_ESCAPED_BLANK: Final = re.compile(r"\\[ \t]")
_SCHEME: Final = re.compile(r"(?:https?|ftp)://", re.IGNORECASE)
_AUTHORITY: Final = re.compile(r"(\[[^\]/?]*\]|[^:@/?\[\]]*)(?::[0-9]{1,5})?(?=[/?]|\Z)")
_LABEL: Final = re.compile(r"[a-z0-9_](?:[a-z0-9_-]{0,61}[a-z0-9_])?", re.ASCII)
_SIGNS: Final = {"\\": "%5C", "*": "%2A", "#": "%23"}
"""Signs of patterns, comments and fragments, which addresses of captures do not have unescaped."""
_QUOTED: Final = 100
"""Characters of a faulty address that a message quotes."""
# Segments do not overlap: of those that begin before the range, only the last one may reach into it.
_CLOSED: Final = """
SELECT DISTINCT asked.address
FROM unnest(CAST(:addresses AS text[]), CAST(:lows AS text[]), CAST(:highs AS text[]))
    AS asked (address, low, high)
WHERE EXISTS (
    SELECT FROM title_segment AS inside
    WHERE inside.low >= asked.low COLLATE "C" AND inside.low < asked.high COLLATE "C"
        AND inside.access IN ('reading room', 'withheld')
) OR EXISTS (
    SELECT FROM (
        SELECT access, high FROM title_segment WHERE low <= asked.low COLLATE "C" ORDER BY low DESC LIMIT 1
    ) AS around
    WHERE around.high > asked.low COLLATE "C" AND around.access IN ('reading room', 'withheld')
)
ORDER BY asked.address
"""


@dataclass(frozen=True, kw_only=True)
class ListPlan:
    """What an import does with a list."""

    key: str
    title: str
    meaning: ListMeaning | None
    """None if it is said nowhere."""
    addresses: tuple[str, ...]
    """Hosts and URLs, without a scheme, that it closes or, if it means *open*, names."""
    access: Access | None
    """The rule that its addresses then have; None if it closes nothing."""
    added: int
    """Addresses that get this rule from it."""
    removed: int
    """Addresses that had a rule from it, and then have none or another one."""
    stored: int
    """Addresses that had a rule from it."""
    refused: tuple[Refused, ...] = ()
    warning: str | None = None
    """Why it is ignored, or keeps what it has closed."""


def plan_lists(
    session: Session, source: str, found: Iterable[AddressList], meanings: Mapping[str, ListMeaning]
) -> tuple[list[ListPlan], list[str]]:
    """Compare the lists of a source with those that are stored; nothing is changed.

    `meanings` are by the key or the title of a list. Also returns warnings about names in it without a list.

    Raises UsageError if a list has two meanings.
    """
    rows = session.scalars(select(AccessList).where(AccessList.source == source))
    stored = {row.source_key: row for row in rows}
    given = {one.key: one for one in found}
    plans = []
    unknown = dict.fromkeys(name.strip() for name in meanings)
    for key in dict.fromkeys((*given, *stored)):
        title = (given[key] if key in given else stored[key]).title.strip()
        names = {key} if title.isdecimal() else {key, title}  # a number is always an id
        meaning = _meaning(f"{key} {title!r}", names, meanings)
        plans.append(_plan(key, title, meaning, given.get(key), stored.get(key)))
        for name in names:
            unknown.pop(name, None)
    return plans, [
        f"provider.seeder_lists gives {name!r} a meaning, but no list has this id or title"
        for name in unknown
    ]


def _meaning(
    known_as: str, names: Collection[str], meanings: Mapping[str, ListMeaning]
) -> ListMeaning | None:
    found = {meaning for name, meaning in meanings.items() if name.strip() in names}
    if len(found) > 1:
        raise UsageError(
            f"provider.seeder_lists gives the list {known_as} several meanings: {', '.join(sorted(found))}; "
            "keep one, under its id or its title"
        )
    return next(iter(found), None)


def _plan(
    key: str,
    title: str,
    meaning: ListMeaning | None,
    found: AddressList | None,
    stored: AccessList | None,
) -> ListPlan:
    is_read = meaning not in {None, "ignore"}
    addresses, refused = read_addresses(found) if found is not None and is_read else ((), ())
    access = Access(meaning) if meaning in {Access.READING_ROOM, Access.WITHHELD} else None
    if meaning is None and stored is not None:
        access = Access(stored.access)
    old = stored.addresses if stored is not None else []
    missing = sorted(set(old).difference(addresses)) if access else []
    reason = _why_kept(meaning, found, addresses, refused) if missing else None
    if reason:
        addresses = (*addresses, *missing)
    before = {(one, stored.access) for one in old} if stored is not None else set()
    after = {(one, str(access)) for one in addresses} if access else set()
    return ListPlan(
        key=key,
        title=title,
        meaning=meaning,
        addresses=addresses,
        access=access,
        added=len(after - before),
        removed=len(before - after),
        stored=len(before),
        refused=refused,
        warning=_warning(f"list {key} {title!r}", meaning, found, reason, access),
    )


def _why_kept(
    meaning: ListMeaning | None,
    found: AddressList | None,
    addresses: Collection[str],
    refused: Collection[Refused],
) -> str | None:
    if found is None:
        return "is no longer in the source"
    if meaning is None:
        return "has no meaning in provider.seeder_lists any more"
    if refused:
        return "has lines that are not addresses, and may be those that are missing"
    return None if addresses else "is empty"


def _warning(
    known_as: str,
    meaning: ListMeaning | None,
    found: AddressList | None,
    reason: str | None,
    access: Access | None,
) -> str | None:
    if reason:
        return (
            f"{known_as} {reason}; what it closed stays {access!s}, unless you give it the meaning 'ignore'"
        )
    if meaning is None and found is not None:
        about = f"{found.kind}, {counted_addresses(len(_WORD.findall(found.text)))}"
        return f"{known_as} ({about}) has no meaning in provider.seeder_lists and is ignored"
    return None


def counted_addresses(number: int) -> str:
    """Return the number with its noun."""
    return f"{number:,} address{'' if number == 1 else 'es'}"


def read_addresses(found: AddressList) -> tuple[tuple[str, ...], tuple[Refused, ...]]:
    """Return the addresses of a list, each once and in its order, and what is none with its line number."""
    addresses: dict[str, None] = {}
    refused = []
    for number, line in enumerate(_LINE_END.split(found.text), start=1):
        for word in [line] if line.lstrip().startswith("#") else _WORD.findall(line):
            try:
                addresses[checked_address(word)] = None
            except ValueError as error:
                title = repr(found.title.strip())
                place = Phrase(
                    "list %(key)s %(title)s, line %(number)s", key=found.key, title=title, number=number
                )
                said = repr(word.strip()[:_QUOTED])
                reason = Phrase("%(word)s is not an address: %(error)s", word=said, error=error)
                refused.append(Refused(place=place, reason=reason))
    return tuple(addresses), tuple(refused)


def checked_address(given: str) -> str:
    """Return an address of a list without its scheme. Raises ValueError, which says what is wrong with it."""
    address = _ESCAPED_BLANK.sub("%20", given)
    scheme = _SCHEME.match(address)
    address = address[scheme.end() :] if scheme else address
    for sign, escape in _SIGNS.items():
        if sign in address:
            raise EntryError(
                "it has %(sign)s; write %(escape)s if that is part of the URL", sign=sign, escape=escape
            )
    authority = _AUTHORITY.match(address)
    if authority is None:
        raise EntryError("it does not begin with a host, or with http://, https:// or ftp:// and a host")
    _check_host(authority[1])
    # No other rule gives longer keys.
    if not ranges_of_address(f"http://{address}", WwwRule.KEPT):
        raise EntryError("its URL key is longer than %(limit)s characters", limit=f"{MOST_KEY:,}")
    return address


def _check_host(host: str) -> None:
    if host.startswith("["):
        ipaddress.IPv6Address(host[1:-1])
        return
    if re.fullmatch(r"[0-9.]+", host):
        ipaddress.IPv4Address(host)
        return
    labels = host_key(f"http://{host}/", WwwRule.KEPT).split(",")
    if "." not in host.strip(".") or not all(map(_LABEL.fullmatch, labels)):
        raise EntryError("it has no host with at least two labels")


def store_lists(session: Session, source: str, plans: Iterable[ListPlan]) -> None:
    """Write the lists that change, and remove those that close nothing any more."""
    for plan in plans:
        if plan.added or plan.removed:
            values = {"title": plan.title, "access": plan.access, "addresses": list(plan.addresses)}
            key = {"source": source, "source_key": plan.key}
            if plan.access is None:
                session.execute(delete(AccessList).filter_by(**key))
            else:
                written = insert(AccessList).values(**key, **values)
                change = {**values, "imported": func.now()}
                session.execute(written.on_conflict_do_update(index_elements=list(key), set_=change))


def listed_ranges(session: Session, www: WwwRule, spans: Sequence[KeyRange]) -> list[ListedRange]:
    """Return the ranges of keys that the stored lists close, of those that meet the spans."""
    return [
        ListedRange(found, Access(row.access))
        for row in session.execute(select(AccessList.access, AccessList.addresses))
        for address in row.addresses
        if meets(widest_range(f"http://{address}", www), spans)
        for found in ranges_of_address(f"http://{address}", www)
        if meets(found, spans)
    ]


def closed_addresses(session: Session, addresses: Iterable[str]) -> Sequence[str]:
    """Return those of these addresses of which titles or lists close something."""
    www = www_rule(session)
    asked = [(one, found) for one in addresses for found in ranges_of_address(f"http://{one}", www)]
    values = {
        "addresses": [address for address, _ in asked],
        "lows": [found.low for _, found in asked],
        "highs": [found.high for _, found in asked],
    }
    return session.scalars(text(_CLOSED), values).all()

"""Spelling of set specs: hosts, MIME types and collections in the characters that OAI-PMH allows.

A setSpec consists of parts of `[A-Za-z0-9-_.!~*'()]` joined by colons (OAI-PMH.xsd, setSpecType). Any
other character of a name, and `!` itself, is written as `!` and two hexadecimal digits for each of its
UTF-8 bytes, so that each spelling maps to exactly one name. A part that begins with `~` is reserved and
never comes from a host.
"""

import ipaddress
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from functools import lru_cache
from typing import Final

from sqlalchemy import exists, select
from sqlalchemy.orm import Session, aliased

from oai.errors import UsageError
from provider.models import Collection, Domain, Mimetype

COLLECTION_ROOT = "collection"
DOMAIN_ROOT = "domain"
MIMETYPE_ROOT = "mimetype"
TITLE_ROOT = "title"
UNKNOWN_MIMETYPE = "unknown"

_ADDRESSES = "~ip"
_EMPTY_LABEL = "~"
_SPEC = re.compile(r"[A-Za-z0-9\-_.!~*'()]+(:[A-Za-z0-9\-_.!~*'()]+)*")
_COLLECTION_PART = re.compile(r"[A-Za-z0-9\-_.]+")
_NOT_IN_LABEL = re.compile(rb"[^A-Za-z0-9_-]")
_NOT_IN_ADDRESS = re.compile(rb"[^A-Za-z0-9.]")
_NOT_IN_MIMETYPE = re.compile(rb"[^A-Za-z0-9\-_.~*'()]")
# RFC 6838, section 4.2, limits a type's name to 127 characters.
_MIMETYPE = re.compile(r"([A-Za-z0-9!#$%&'*+.^_`|~-]{1,127})/([A-Za-z0-9!#$%&'*+.^_`|~-]{1,127})")
_AUTHORITY = re.compile(
    r"[A-Za-z][A-Za-z0-9+.-]*://(?:[^/?#]*@)?(\[[^\]/?#]*\]|[^/?#:]*)(?::[0-9]*)?(?=[/?#]|$)", re.ASCII
)
_LONGEST_SPEC = 1000
_MOST_CONVERTED = 4096
"""Characters of a host that may be a valid name; conversion of a longer one would take seconds."""


@lru_cache(maxsize=65_536)
def domain_set_specs(host: str) -> tuple[tuple[str, str, int], ...]:
    """Return the sets of a host from its top-level domain down, each as (set_spec, name, level from 1).

    `www.webarchiv.cz` is in `domain:cz`, `domain:cz:webarchiv` and `domain:cz:webarchiv:www` (thesis,
    3.1). IP addresses are in `domain:~ip` and one set for each; a host of one label is its own top-level
    domain. A port is not part of a host: see `host_of`.
    """
    if _is_address(host):
        part = _escape(host, _NOT_IN_ADDRESS)
        root = f"{DOMAIN_ROOT}:{_ADDRESSES}"
        return (root, "IP addresses", 1), (f"{root}:{part}", host, 2)
    labels = host.split(".")
    nodes = []
    spec = DOMAIN_ROOT
    for level in range(1, len(labels) + 1):
        label = labels[-level]
        spec += ":" + (_escape(label, _NOT_IN_LABEL) if label else _EMPTY_LABEL)
        nodes.append((spec, ".".join(labels[-level:]), level))
    return tuple(nodes)


def host_of(url: str) -> str | None:
    """Return the host of a URL as sets name it: lower case, ASCII if IDNA allows, no port, no final dot.

    None if the URL has no host. Brackets of an IPv6 address are omitted.
    """
    found = _AUTHORITY.match(url)
    if found is None:
        return None
    host = found[1].lower()
    if host.startswith("["):
        return host[1:-1] or None
    if not host.isascii():
        host = _ascii(host)
    return host.removesuffix(".") or None


@lru_cache(maxsize=4096)
def mimetype_set_specs(mimetype: str | None) -> tuple[tuple[str, str], ...]:
    """Return the sets of a MIME type, major type first, each as (set_spec, name).

    Takes the value of a Content-Type header; parameters and case do not matter. A value that is not a
    MIME type (empty, `text`, `no-type`) is in the single set `mimetype:unknown`.
    """
    found = _MIMETYPE.fullmatch((mimetype or "").partition(";")[0].strip().lower())
    if found is None:
        return ((f"{MIMETYPE_ROOT}:{UNKNOWN_MIMETYPE}", UNKNOWN_MIMETYPE),)
    major = f"{MIMETYPE_ROOT}:{_escape(found[1], _NOT_IN_MIMETYPE)}"
    return (major, found[1]), (f"{major}:{_escape(found[2], _NOT_IN_MIMETYPE)}", found[0])


def collection_set_spec(text: str) -> str:
    """Return the full set spec of a collection given as `serials:nov07` or `collection:serials:nov07`.

    Raises UsageError if a part is empty or has characters other than letters, digits, `-`, `_` and `.`.
    """
    parts = text.split(":")
    if parts[0] == COLLECTION_ROOT:
        del parts[0]
    if not all(_COLLECTION_PART.fullmatch(part) for part in parts) or len(text) > _LONGEST_SPEC:
        raise UsageError(
            "collection %(text)s: use parts of letters, digits, '-', '_' and '.', joined by "
            "colons, such as 'serials:nov07', at most %(most)s characters",
            text=repr(text),
            most=_LONGEST_SPEC,
        )
    return ":".join((COLLECTION_ROOT, *parts))


def ancestors(set_spec: str) -> tuple[str, ...]:
    """Return the set specs above this one, the root first, without this one."""
    parts = set_spec.split(":")
    return tuple(":".join(parts[:length]) for length in range(1, len(parts)))


def is_set_spec(text: str) -> bool:
    """Return whether the text is a valid setSpec by the schema."""
    return _SPEC.fullmatch(text) is not None


def _escape(name: str, forbidden: re.Pattern[bytes]) -> str:
    return forbidden.sub(lambda found: b"!%02X" % found[0][0], name.encode()).decode("ascii")


def _is_address(host: str) -> bool:
    if ":" not in host and not host[-1:].isdigit():
        return False
    try:
        ipaddress.ip_address(host)
    except ValueError:
        return False
    return True


def _ascii(host: str) -> str:
    if len(host) > _MOST_CONVERTED:
        return host
    try:
        return host.encode("idna").decode("ascii")
    except UnicodeError:
        return host


class Tree(StrEnum):
    """The three trees of sets."""

    COLLECTION = "collection"
    DOMAIN = DOMAIN_ROOT
    MIMETYPE = MIMETYPE_ROOT


@dataclass(frozen=True, kw_only=True)
class Node:
    """A set, and the number of its documents."""

    set_spec: str
    name: str
    documents: int
    """Documents in it and below, including hidden ones."""
    has_children: bool


_TABLES: Final[Mapping[Tree, type[Collection | Domain | Mimetype]]] = {
    Tree.COLLECTION: Collection,
    Tree.DOMAIN: Domain,
    Tree.MIMETYPE: Mimetype,
}


def tree_of(set_spec: str) -> Tree:
    """Return the tree of a set spec. Raises UsageError if there is no such tree."""
    try:
        return Tree(set_spec.partition(":")[0])
    except ValueError:
        raise UsageError(
            "unknown tree in %(set_spec)s; setSpecs begin with %(trees)s",
            set_spec=repr(set_spec),
            trees=", ".join(Tree),
        ) from None


def children(
    session: Session,
    tree: Tree,
    *,
    below: str | None = None,
    limit: int,
    after: str = "",
) -> Sequence[Node]:
    """Return the sets directly below one, or the top-level sets, by set spec, after the set spec `after`.

    Raises UsageError if the set `below` does not exist.
    """
    table = _TABLES[tree]
    child = aliased(table)
    query = select(table.set_spec, table.name, table.documents, exists().where(child.parent_id == table.id))
    if below is None:
        query = query.where(table.parent_id.is_(None))
    else:
        parent = session.scalar(select(table.id).where(table.set_spec == below))
        if parent is None:
            raise UsageError("no set %(below)s; it may have been removed", below=repr(below))
        query = query.where(table.parent_id == parent)
    rows = session.execute(query.where(table.set_spec > after).order_by(table.set_spec).limit(limit))
    return [
        Node(set_spec=spec, name=name, documents=documents, has_children=more)
        for spec, name, documents, more in rows
    ]

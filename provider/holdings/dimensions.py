"""The ids of the sets that captures are in, kept in the process so that no capture is joined with them.

Rows of domains and MIME types are never deleted, so what is known stays true as long as the process lives.
"""

from collections.abc import Iterable
from collections.abc import Set as AbstractSet
from typing import Final, NamedTuple, TypeVar

from sqlalchemy import text
from sqlalchemy.orm import Session

from provider.holdings.sets import domain_set_specs, mimetype_set_specs

_MOST_KEPT: Final = 100_000
_REGISTERED: Final = 2

_FIND: Final = {
    "domain": "SELECT set_spec, id FROM domain WHERE set_spec = ANY(:set_specs)",
    "mimetype": "SELECT set_spec, id FROM mimetype WHERE set_spec = ANY(:set_specs)",
}
# One statement for each level, so that parents are there; in order, so that loaders do not block each other.
_ADD: Final = {
    "domain": """
        INSERT INTO domain (parent_id, set_spec, name, level)
        SELECT parent.id, node.set_spec, node.name, :level
        FROM unnest(CAST(:parents AS text[]), CAST(:set_specs AS text[]), CAST(:names AS text[]))
            AS node (parent, set_spec, name)
        LEFT JOIN domain AS parent ON parent.set_spec = node.parent
        ORDER BY node.set_spec
        ON CONFLICT (set_spec) DO NOTHING
    """,
    "mimetype": """
        INSERT INTO mimetype (parent_id, set_spec, name)
        SELECT parent.id, node.set_spec, node.name
        FROM unnest(CAST(:parents AS text[]), CAST(:set_specs AS text[]), CAST(:names AS text[]))
            AS node (parent, set_spec, name)
        LEFT JOIN mimetype AS parent ON parent.set_spec = node.parent
        ORDER BY node.set_spec
        ON CONFLICT (set_spec) DO NOTHING
    """,
}


_Name = TypeVar("_Name", str, str | None)
_Ids = TypeVar("_Ids")


class HostIds(NamedTuple):
    """The ids of a host's sets."""

    tld: int
    domain: int | None
    """Of the registered domain; none for a host of one label."""
    host: int


class MimetypeIds(NamedTuple):
    """The ids of a MIME type's sets."""

    major: int
    full: int


class Dimensions:
    """Gives ids for hosts and MIME types, and makes rows for those that have none."""

    def __init__(self) -> None:
        self.hosts: dict[str, HostIds] = {}
        self.mimetypes: dict[str | None, MimetypeIds] = {}

    def learn(self, session: Session, hosts: AbstractSet[str], mimetypes: AbstractSet[str | None]) -> None:
        """See that `hosts` and `mimetypes` have all of these.

        Commits new rows by itself, and so before they are used: a row without documents does no harm, and
        another loader may need it at once.
        """
        new_hosts = _unknown(self.hosts, hosts)
        if new_hosts:
            specs = {host: domain_set_specs(host) for host in new_hosts}
            ids = _ids(session, "domain", [node[:2] for nodes in specs.values() for node in nodes])
            self.hosts.update((host, _host_ids(nodes, ids)) for host, nodes in specs.items())
        new_types = _unknown(self.mimetypes, mimetypes)
        if new_types:
            types = {mimetype: mimetype_set_specs(mimetype) for mimetype in new_types}
            ids = _ids(session, "mimetype", [node for nodes in types.values() for node in nodes])
            self.mimetypes.update(
                (mimetype, MimetypeIds(ids[nodes[0][0]], ids[nodes[-1][0]]))
                for mimetype, nodes in types.items()
            )


def _unknown(known: dict[_Name, _Ids], wanted: AbstractSet[_Name]) -> AbstractSet[_Name]:
    """What is to be learnt; all is forgotten when it grows too large, for it is soon learnt again."""
    missing = {name for name in wanted if name not in known}
    if len(known) + len(missing) > _MOST_KEPT:
        known.clear()
        return wanted
    return missing


def _host_ids(nodes: tuple[tuple[str, str, int], ...], ids: dict[str, int]) -> HostIds:
    registered = ids[nodes[_REGISTERED - 1][0]] if len(nodes) >= _REGISTERED else None
    return HostIds(ids[nodes[0][0]], registered, ids[nodes[-1][0]])


def _ids(session: Session, tree: str, nodes: Iterable[tuple[str, str]]) -> dict[str, int]:
    """The ids of these nodes (set spec and name), made where they are not there; commits."""
    names = dict(nodes)
    ids = _found(session, tree, names)
    missing = {set_spec: name for set_spec, name in names.items() if set_spec not in ids}
    if missing:
        levels: dict[int, dict[str, str]] = {}
        for set_spec, name in missing.items():
            levels.setdefault(set_spec.count(":"), {})[set_spec] = name
        for level, added in sorted(levels.items()):
            values = {
                "parents": [set_spec.rpartition(":")[0] for set_spec in added],
                "set_specs": list(added),
                "names": list(added.values()),
            }
            session.execute(text(_ADD[tree]), values | ({"level": level} if tree == "domain" else {}))
        session.commit()
        ids |= _found(session, tree, missing)
    session.commit()
    return ids


def _found(session: Session, tree: str, set_specs: Iterable[str]) -> dict[str, int]:
    rows = session.execute(text(_FIND[tree]), {"set_specs": list(set_specs)})
    return {row.set_spec: row.id for row in rows}

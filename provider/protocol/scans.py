"""Range scans that find a list's page: one of the scope's index, or one for each of its few hosts."""

from datetime import datetime

from sqlalchemy import ARRAY, ColumnElement, Integer, Select, Subquery, func, literal, select, true, tuple_

from provider.models import Document
from provider.protocol.scopes import Scope
from provider.protocol.tokens import Position


def page_scan(
    scope: Scope, *, from_: datetime | None, until: datetime, after: Position | None, limit: int
) -> Subquery:
    """Select at most `limit` ids of the scope by (datestamp, id), after `after` and up to `until`."""
    window = [scope.datestamp <= until]
    if after is not None:
        window.append(tuple_(scope.datestamp, scope.id) > tuple_(literal(after.datestamp), literal(after.id)))
    elif from_ is not None:
        window.append(scope.datestamp >= from_)
    if scope.hosts:
        return _merged_page(scope.hosts, window, until, limit)
    return (
        select(scope.id.label("id"))
        .where(*scope.conditions, *window)
        .order_by(scope.datestamp, scope.id)
        .limit(limit)
        .subquery()
    )


def ahead_scan(scope: Scope, now: datetime, limit: int) -> Subquery:
    """Select at most `limit` ids of the scope that are not due yet.

    They are read from the far end of the index: without that order, a database without statistics would
    read the whole table.
    """
    if scope.hosts:
        ahead = _of_each_host(scope.hosts, [Document.datestamp > now], limit, backwards=True)
        return ahead.limit(limit).subquery()
    return (
        select(scope.id.label("id"))
        .where(*scope.conditions, scope.datestamp > now)
        .order_by(scope.datestamp.desc(), scope.id.desc())
        .limit(limit)
        .subquery()
    )


def _merged_page(
    hosts: tuple[int, ...], window: list[ColumnElement[bool]], until: datetime, limit: int
) -> Subquery:
    """Select the page from one scan for each host.

    A few rows of each host bound the end of the page, so that no host is read much further, however many
    hosts there are and however different in size.
    """
    share = 2 * limit // len(hosts) + 2
    near = _of_each_host(hosts, window, share).subquery()
    furthest = select(near.c.datestamp).order_by(near.c.datestamp, near.c.id).offset(limit - 1).limit(1)
    reach = Document.datestamp <= func.coalesce(furthest.scalar_subquery(), until)
    found = _of_each_host(hosts, [*window, reach], limit).subquery()
    return select(found.c.id).order_by(found.c.datestamp, found.c.id).limit(limit).subquery()


def _of_each_host(
    hosts: tuple[int, ...], window: list[ColumnElement[bool]], limit: int, *, backwards: bool = False
) -> Select[tuple[datetime, int]]:
    """Select the first or last rows of every host in the range, unordered."""
    host = select(func.unnest(literal(list(hosts), ARRAY(Integer))).label("id")).subquery("host")
    keys = (Document.datestamp, Document.id)
    one = (
        select(*keys)
        .where(Document.host_id == host.c.id, *window)
        .order_by(*(key.desc() if backwards else key for key in keys))
        .limit(limit)
        .lateral("one")
    )
    return select(one.c.datestamp, one.c.id).select_from(host.join(one, true()))

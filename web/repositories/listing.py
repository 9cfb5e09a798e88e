"""The list of repositories: its filters and order in the query string, and its page."""

from dataclasses import dataclass
from typing import Final
from urllib.parse import urlencode

from aiohttp import web

from harvester.locks import being_removed
from manager.jobs.reasons import find_maintenance
from manager.repository_lists import (
    Listed,
    Order,
    Place,
    RepositoryChoice,
    RepositoryFilter,
    list_repositories,
)
from manager.repository_states import repository_states
from web.auth.access import visible_repositories, who_asks
from web.auth.organisations import name_organisations
from web.site.i18n import _
from web.site.keys import database_of
from web.site.paging import as_number, number_in, page_of, text_in
from web.site.params import choice_in, id_in
from web.site.plots import run_strip
from web.site.render import render

PAGE: Final = 100
"""Repositories on a page."""
_DOWN: Final = "-"
_BAR: Final = "|"
_LARGEST_VALUE: Final = 2**63 - 1


@dataclass(frozen=True, kw_only=True)
class Filters:
    """Filters and order of the list, as in the query string."""

    find: str
    state: str
    prefix: str
    organisation: int | None
    order: Order
    descending: bool

    @property
    def any(self) -> bool:
        """Return whether any filter is set."""
        return any((self.find, self.state, self.prefix, self.organisation))

    @property
    def sort(self) -> str:
        """The order as in the query string: `name`, or `-name` for the reverse; empty for the usual one."""
        usual = self.order is Order.NUMBER and not self.descending
        return "" if usual else f"{_DOWN if self.descending else ''}{self.order}"

    def query(self, **more: object) -> str:
        """Return the query string with these filters and additions, without `?`."""
        pairs = {
            "find": self.find,
            "state": self.state,
            "format": self.prefix,
            "organisation": self.organisation,
            "sort": self.sort,
            **more,
        }
        return urlencode({name: str(value) for name, value in pairs.items() if value})

    def sorted_by(self, order: str, *, down: bool = False) -> str:
        """Return the query string of the heading `order`: sorted by it, or reversed if it already is."""
        reverse = not self.descending if self.order == order else down
        return self.query(sort=f"{_DOWN if reverse else ''}{order}")

    def direction(self, order: str) -> str:
        """Return the value of `aria-sort` of the heading `order`."""
        if self.order != order:
            return ""
        return "descending" if self.descending else "ascending"


def filters_of(request: web.Request) -> Filters:
    """Return the filters and the order in the query string; respond 422 if one is invalid."""
    sort = choice_in(request, "sort", [f"{down}{order}" for order in Order for down in ("", _DOWN)])
    return Filters(
        find=text_in(request, "find").strip(),
        state=choice_in(request, "state", list(RepositoryFilter)),
        prefix=text_in(request, "format").strip(),
        # Partners see one organisation, and learn nothing of others.
        organisation=id_in(request, "organisation") if who_asks(request).sees_everything else None,
        order=Order(sort.removeprefix(_DOWN)) if sort else Order.NUMBER,
        descending=sort.startswith(_DOWN),
    )


def choice_of(request: web.Request) -> RepositoryChoice:
    """Return the choice in the query string, among the repositories that the user may see."""
    filters = filters_of(request)
    return RepositoryChoice(
        among=visible_repositories(who_asks(request)),
        search=filters.find or None,
        state=RepositoryFilter(filters.state) if filters.state else None,
        metadata_prefix=filters.prefix or None,
        organisation_id=filters.organisation,
        order=filters.order,
        descending=filters.descending,
    )


async def listing(request: web.Request) -> web.Response:
    """List the chosen repositories in pages."""
    return await list_page(request)


async def list_page(request: web.Request, fault: str = "") -> web.Response:
    """Render the list, with the reason why the selected repositories were not changed."""
    filters, after, database = filters_of(request), _after(request), database_of(request)
    found = await database.run(list_repositories, choice_of(request), limit=PAGE + 1, after=after)
    shown = page_of(found, _key, behind=after, size=PAGE)
    repositories = [one.repository for one in shown.rows]
    states = await database.run(repository_states, [one.repository_id for one in repositories])
    return render(
        request,
        "repositories.html",
        status=422 if fault else 200,
        here=f"/repositories?{filters.query()}" if fault else request.path_qs,
        fault=fault,
        repositories=repositories,
        states=states,
        removing=await database.run(being_removed, [one.repository_id for one in repositories]),
        maintenance=await database.run(find_maintenance),
        running=number_in(request, "running") or 0,
        strips={number: run_strip(state.runs) for number, state in states.items()},
        shown=shown,
        filters=filters,
        organisations=await database.run(name_organisations) if who_asks(request).sees_everything else [],
        orders=[
            ("", _("Order of adding")),
            (Order.NAME, _("Name")),
            (Order.STATE, _("Problems first")),
            (f"{_DOWN}{Order.RECORDS}", _("Most records first")),
            (f"{_DOWN}{Order.LAST}", _("Last run first")),
            (Order.NEXT, _("Next run first")),
            *_reversed(filters.sort),
        ],
        choices=[
            (RepositoryFilter.TROUBLE, _("any problem")),
            (RepositoryFilter.PAUSED, _("with a paused schedule")),
            (RepositoryFilter.NEVER, _("never harvested")),
        ],
    )


def _reversed(sort: str) -> list[tuple[str, str]]:
    """Return the chosen order for the selection, if only the heading of a column chooses it."""
    titles = {
        f"{_DOWN}{Order.NAME}": _("Name, from Z"),
        f"{_DOWN}{Order.STATE}": _("Problems last"),
        Order.RECORDS: _("Fewest records first"),
        Order.LAST: _("Last run last"),
        f"{_DOWN}{Order.NEXT}": _("Next run last"),
    }
    return [(sort, titles[sort])] if sort in titles else []


def _key(row: Listed) -> str:
    value, number = row.place
    return f"{value}{_BAR}{number}"


def _after(request: web.Request) -> Place | None:
    """Return the place in the query string, as written by `_key`; None if it is not one."""
    # Names may contain anything but NUL, which the database does not take.
    value, _bar, number = request.query.get("after", "").replace("\0", "").rpartition(_BAR)
    at = as_number(number)
    if at is None:
        return None
    order = filters_of(request).order
    if order in {Order.NAME, Order.NUMBER}:
        return value if order is Order.NAME else at, at
    try:
        whole = int(value)
    except ValueError:
        return None
    return (whole, at) if abs(whole) <= _LARGEST_VALUE else None


ROUTES = (web.get("/repositories", listing),)

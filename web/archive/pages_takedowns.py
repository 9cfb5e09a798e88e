"""The take-down register: list, entry with a preview, end."""

import re
from collections.abc import Callable, Mapping, Sequence
from datetime import datetime
from functools import partial
from typing import Any, Final
from urllib.parse import urlencode

from aiohttp import web
from multidict import MultiMapping
from pydantic import Field, field_validator
from sqlalchemy.orm import Session

from oai.datestamps import utc_now
from oai.errors import UsageError
from oai.rights import Right
from provider.holdings import takedowns
from provider.holdings.lookup import MatchType, read_wildcard
from provider.holdings.urlkeys import parts_of
from provider.models import Takedown
from web.auth.access import about, needs
from web.site.export import KINDS, columns_of, export_list
from web.site.forms import Form, FormModel, LocalTime, empty_is_none, read_form
from web.site.i18n import _, error_text
from web.site.keys import database_of, margin_of
from web.site.paging import PAGE, number_in, page_of, text_in
from web.site.params import NUMBER, choice_in, number_of
from web.site.render import render

_LONGEST: Final = 2000
_DAY: Final = re.compile(r"\d{4}-\d{2}-\d{2}")
_ENDED: Final = {"active": False, "ended": True}
"""What is selected by the filter `show`."""
_SECONDS: Final = 5
"""How often the page of a take-down that is being applied is loaded again."""
_COLUMNS: Final = columns_of(
    "takedown_id", "created", "targets", "reason", "requester", "reference", "expires", "lifted",
    "lifted_because", "documents",
)  # fmt: skip


class TakedownForm(FormModel):
    """A take-down, without its addresses; it expires at the start of a day in the reader's time zone."""

    kind: str = Field(pattern="^(prefix|exact|host)$")
    reason: str = Field(min_length=1, max_length=_LONGEST)
    requester: str = Field(min_length=1, max_length=_LONGEST)
    reference: str = Field("", max_length=_LONGEST)
    expires: LocalTime | None = None

    _empty_is_none = empty_is_none("expires")

    @field_validator("expires", mode="before")
    @classmethod
    def _begins_as_a_day(cls, value: object) -> object:
        if isinstance(value, str) and value.strip() and not _DAY.match(value):
            raise ValueError(_("Enter a date, such as 2026-01-31."))
        return value

    @field_validator("expires")
    @classmethod
    def _is_to_come(cls, value: datetime | None) -> datetime | None:
        if value is not None and value <= utc_now():
            raise ValueError(_("Enter a day that has not begun yet."))
        return value

    def request(self, lines: Sequence[str]) -> takedowns.TakedownRequest:
        """Return the request for these lines.

        Raises UsageError for lines whose asterisk means another scope than the chosen one.
        """
        if wrong := takedowns.numbered_lines(lines, lambda line: _has_other_scope(self.kind, line)):
            message = _(
                "the asterisk in these lines means another scope than the chosen one; choose “%(prefix)s” "
                "for …*, “%(host)s” for *.host, or remove the asterisk: %(lines)s"
            )
            raise UsageError(message % {**_kinds(), "lines": wrong})
        written = {"prefix": "{}*", "host": "*.{}", "exact": "{}"}[self.kind]
        return takedowns.TakedownRequest(
            targets=tuple(written.format(_address(self.kind, line)) for line in lines),
            reason=self.reason,
            requester=self.requester,
            reference=self.reference,
            expires=self.expires,
        )


@needs(Right.ARCHIVE)
async def listing(request: web.Request) -> web.Response:
    """Show the selected entries of the register, newest first."""
    given, before = _filters(request), number_in(request, "before")
    found = await database_of(request).run(_find(given), limit=PAGE + 1, before=before)
    page = page_of(found, lambda row: row.takedown_id, behind=before)
    return render(
        request, "archive_takedowns.html", page=page, given=given, query=urlencode(given), **_words()
    )


@needs(Right.ARCHIVE)
async def as_file(request: web.Request) -> web.StreamResponse:
    """Export the selected entries of the register."""
    find = _find(_filters(request))
    return await export_list(request, "take-downs", _COLUMNS, find, before=lambda row: row.takedown_id)


@needs(Right.ARCHIVE)
async def new(request: web.Request) -> web.Response:
    """Show the form; `target` and `kind` come from a look-up."""
    kind = {"exact": "exact", "host": "host", "domain": "host"}.get(request.query.get("kind", ""), "prefix")
    values = {"targets": text_in(request, "target")[:_LONGEST], "kind": kind}
    return _form(request, Form(values=values))


@needs(Right.ARCHIVE)
async def add(request: web.Request) -> web.Response:
    """Show what the take-down would cover, or, with the second button, enter it."""
    posted = await request.post()
    asked, form = _read(posted)
    if asked is None:
        return _form(request, form)
    try:
        found = await database_of(request).run(takedowns.preview, asked.targets)
        if posted.get("do") != "enter":
            return _form(request, form, found, ends=asked.expires)
        number = await database_of(request).run(_enter, asked, found, margin_of(request))
    except UsageError as error:
        return _form(request, form.with_error("targets", error_text(error)))
    about(request, "takedown", number, asked.targets[0])
    raise web.HTTPSeeOther(f"/archive/takedowns/{number}?done=taken-down")


@needs(Right.ARCHIVE)
async def show(request: web.Request) -> web.Response:
    """Show one entry."""
    return await _page(request, Form(values={}))


@needs(Right.ARCHIVE)
async def lift(request: web.Request) -> web.Response:
    """End the take-down for the given reason."""
    number, because = number_of(request), (await request.post()).get("because", "")
    row = await takedown_of(request, number_of(request))
    about(request, "takedown", number, row.targets[0])

    def work(session: Session) -> None:
        takedowns.lift(session, number, because if isinstance(because, str) else "")
        takedowns.settle_if_small(session, number, row.documents, margin=margin_of(request))

    try:
        await database_of(request).run(work)
    except UsageError as error:
        return await _page(
            request, Form(values={"because": because}).with_error("because", error_text(error))
        )
    raise web.HTTPSeeOther(f"/archive/takedowns/{number}?done=take-down-ended")


def _enter(
    session: Session, asked: takedowns.TakedownRequest, found: takedowns.Preview, margin: float
) -> int:
    number = takedowns.enter(session, asked)
    takedowns.settle_if_small(session, number, found.documents, margin=margin)
    return number


def _read(posted: MultiMapping[Any]) -> tuple[takedowns.TakedownRequest | None, Form]:
    """Return the request, or None if a field is wrong; and the form to show again."""
    text = posted.get("targets", "")
    typed = text.split("\n") if isinstance(text, str) else []
    lines = [line.strip(takedowns.BLANKS) for line in typed if line.strip()]
    asked, form = read_form(TakedownForm, posted)
    if not lines:
        form = form.with_error("targets", _("Enter at least one address."))
    if asked is None or not lines:
        return None, form
    try:
        return asked.request(lines), form
    except UsageError as error:
        return None, form.with_error("targets", error_text(error))


def _address(kind: str, line: str) -> str:
    """Return a line without an asterisk that means the chosen scope: `…*`; `*.host` or `host/*`."""
    if kind == "prefix":
        return line.removesuffix("*")
    if kind == "host":
        line = line.removeprefix("*.")
        host = line.removesuffix("/*")
        named = parts_of(host)
        return line if named.path or named.query else host
    return line


def _has_other_scope(kind: str, line: str) -> bool:
    """Return whether an asterisk means another scope; one within a URL is a character of it."""
    address = _address(kind, line)
    return "*" in address if kind == "host" else read_wildcard(address)[1] is not MatchType.EXACT


def _kinds() -> dict[str, str]:
    return {
        "prefix": _("everything that begins with these addresses"),
        "exact": _("exactly these pages, in all captures"),
        "host": _("whole hosts with their subdomains"),
    }


def _form(
    request: web.Request,
    form: Form,
    found: takedowns.Preview | None = None,
    *,
    ends: datetime | None = None,
) -> web.Response:
    status = 422 if form.errors else 200
    return render(
        request,
        "archive_takedown_new.html",
        status=status,
        form=form,
        found=found,
        kinds=list(_kinds().items()),
        ends=ends,
    )


async def _page(request: web.Request, form: Form) -> web.Response:
    row = await takedown_of(request, number_of(request))
    return render(
        request,
        "archive_takedown.html",
        status=422 if form.errors else 200,
        headers={"Refresh": str(_SECONDS)} if row.unsettled and not form.errors else None,
        row=row,
        form=form,
        **_words(),
    )


async def takedown_of(request: web.Request, number: int) -> Takedown:
    """Return the take-down with that number; respond 404 if there is none."""
    try:
        return await database_of(request).run(takedowns.find_takedown, number)
    except UsageError as error:
        raise web.HTTPNotFound(text=error_text(error)) from None


def _words() -> dict[str, Any]:
    return {
        "state_of": takedowns.state_of,
        "states": {"active": _("in force"), "ended": _("ended"), "being applied": _("being applied")},
    }


def _filters(request: web.Request) -> dict[str, str]:
    given = {"q": text_in(request, "q"), "show": choice_in(request, "show", list(_ENDED))}
    return {name: text for name, text in given.items() if text}


def _find(given: Mapping[str, str]) -> Callable[..., list[Takedown]]:
    ended = _ENDED.get(given.get("show", ""))
    return partial(takedowns.list_takedowns, words=given.get("q", ""), ended=ended)


ROUTES: Final = (
    web.get("/archive/takedowns", listing),
    web.get(f"/archive/takedowns.{KINDS}", as_file, allow_head=False),
    web.get("/archive/takedowns/new", new),
    web.post("/archive/takedowns/new", add),
    web.get(f"/archive/takedowns/{NUMBER}", show),
    web.post(f"/archive/takedowns/{NUMBER}/lift", lift),
)

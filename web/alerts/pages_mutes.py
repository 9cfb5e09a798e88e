"""Acknowledged failures, muted repositories and maintenance windows: list, form, end."""

from datetime import UTC, datetime, timedelta
from typing import Final

from aiohttp import web
from pydantic import Field, field_validator

from harvester.models import History, Repository
from manager.notices.models import Mute, MuteKind
from manager.notices.mutes import acknowledge, end_mute, list_mutes, mute
from oai.datestamps import utc_now
from oai.errors import UsageError
from web.auth.access import Right, about, asked_for, local_path, needs, visible_repositories, who_asks
from web.repositories.forms import repository_choices
from web.site.faults import conflicts
from web.site.formats import lasting
from web.site.forms import Form, FormModel, LocalTime, empty_is_none, read_form
from web.site.i18n import _, error_text
from web.site.keys import database_of
from web.site.paging import PAGE, number_in, page_of
from web.site.params import BIG_NUMBER, NUMBER, chosen_repository
from web.site.render import render

_LONGEST: Final = 2000
_HOURS: Final = (1, 4, 12, 24, 72, 168, 720, 2160)


class MuteForm(FormModel):
    """A mute or a maintenance window; `starts` is in the reader's time zone, empty for now."""

    repository: str = Field(pattern=r"^(all|[1-9]\d{0,8})$")
    kind: MuteKind = MuteKind.MUTED
    starts: LocalTime | None = None
    hours: int = Field(4, ge=1, le=2160)
    note: str = Field(min_length=1, max_length=_LONGEST)

    _empty_is_none = empty_is_none("starts")

    @field_validator("kind")
    @classmethod
    def _is_a_time(cls, value: MuteKind) -> MuteKind:
        if value is MuteKind.ACKNOWLEDGED:
            raise ValueError(_("Choose one of the options."))
        return value

    def times(self) -> tuple[datetime | None, datetime]:
        """Return start and end, with a time zone."""
        # Added in UTC: in another zone, Python adds to the clock on the wall, which may be changed meanwhile.
        begin = (self.starts or utc_now()).astimezone(UTC)
        return self.starts, begin + timedelta(hours=self.hours)


async def listing(request: web.Request) -> web.Response:
    """Show what is acknowledged, muted or maintained, newest first; with `past`, also what is over."""
    who, before, past = who_asks(request), number_in(request, "before"), request.query.get("past") == "yes"
    rows = await database_of(request).run(
        list_mutes, among=visible_repositories(who), limit=PAGE + 1, before=before, past=past
    )
    page = page_of(rows, lambda row: row[0].mute_id, behind=before)
    return render(
        request,
        "mutes.html",
        page=page,
        past=past,
        now=utc_now(),
        kinds=mute_kinds(),
        own_only=_own_only(request),
    )


@needs(Right.HARVEST)
async def new(request: web.Request) -> web.Response:
    """Show the form; `repository` and `kind` come from the page with the link."""
    number = chosen_repository(request)
    if number is not None:
        # Otherwise the form would offer the first choice, which is all of them.
        await asked_for(request, Repository, number)
    values = {"repository": str(number or ""), "kind": request.query.get("kind", ""), "hours": "4"}
    return await _form(request, Form(values=values))


@needs(Right.HARVEST)
async def add(request: web.Request) -> web.Response:
    """Mute the repository, or all, for the time."""
    asked, form = read_form(MuteForm, await request.post())
    if asked is None:
        return await _form(request, form)
    number = None
    if asked.repository != "all":
        number = (await asked_for(request, Repository, int(asked.repository))).repository_id
    elif _own_only(request):
        return await _form(request, form.with_error("repository", _("Choose one of the options.")))
    starts, ends = asked.times()
    by = who_asks(request).name
    try:
        row = await database_of(request).run(
            mute, number, asked.kind, note=asked.note, starts=starts, ends=ends, by=by
        )
    except UsageError as error:
        return await _form(request, form.with_error("starts", error_text(error)))
    about(request, "mute", row.mute_id)
    raise web.HTTPSeeOther("/alerts/mutes?done=muted")


@needs(Right.HARVEST)
async def acknowledge_run(request: web.Request) -> web.Response:
    """Note that the user knows of a run's failure, and return to the page with the button."""
    who, run = who_asks(request), await asked_for(request, History)
    posted = await request.post()
    note = str(posted.get("note", ""))[:_LONGEST]

    with conflicts():
        await database_of(request).run(acknowledge, run.history_id, note=note, by=who.name)
    raise web.HTTPSeeOther(f"{local_path(posted).partition('?')[0]}?done=acknowledged")


@needs(Right.HARVEST)
async def end(request: web.Request) -> web.Response:
    """End it now, and return to the page with the button."""
    row = await asked_for(request, Mute)
    await database_of(request).run(end_mute, row.mute_id)
    path = local_path({"next": "/alerts/mutes", **await request.post()})
    raise web.HTTPSeeOther(f"{path.partition('?')[0]}?done=unmuted")


def mute_kinds() -> dict[str, str]:
    """Return the label of each kind of mute."""
    return {
        MuteKind.ACKNOWLEDGED: _("acknowledged"),
        MuteKind.MUTED: _("muted"),
        MuteKind.MAINTENANCE: _("maintenance"),
    }


def _own_only(request: web.Request) -> bool:
    return not who_asks(request).sees_everything


async def _form(request: web.Request, form: Form) -> web.Response:
    names = await repository_choices(request)
    return render(
        request,
        "mute_new.html",
        status=422 if form.errors else 200,
        form=form,
        repositories=names if _own_only(request) else [("all", _("all repositories")), *names],
        kinds=[
            (MuteKind.MUTED.value, _("Send no messages")),
            (MuteKind.MAINTENANCE.value, _("Maintenance: begin no harvest")),
        ],
        hours=[(count, lasting(timedelta(hours=count))) for count in _HOURS],
    )


ROUTES: Final = (
    web.get("/alerts/mutes", listing),
    web.get("/alerts/mutes/new", new),
    web.post("/alerts/mutes/new", add),
    web.post(f"/alerts/mutes/{NUMBER}/end", end),
    web.post(f"/runs/{BIG_NUMBER}/acknowledge", acknowledge_run),
)

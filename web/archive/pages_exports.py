"""WARC and WACZ files prepared for download: asked for, followed, downloaded and removed."""

import re
from datetime import datetime
from pathlib import Path
from typing import Any, Final, Self

from aiohttp import web
from pydantic import Field, model_validator
from sqlalchemy.orm import Session

from manager.exports import clear, queue_export, remove_export
from oai.errors import UsageError
from oai.rights import Right
from provider.export.captures import Reason
from provider.export.models import ExportForm, ExportState, PreparedExport
from provider.export.prepared_files import (
    TITLE_CHARACTERS,
    count_withdrawn,
    find_export,
    list_exports,
    withdraw,
)
from provider.export.selection import ChosenTitle, ExportChoice
from provider.holdings.lookup import MatchType
from provider.titles.models import Title
from web.archive.capture_days import CaptureDays
from web.archive.pages_documents import matches
from web.auth.access import about, needs, who_asks
from web.auth.audit import record_export
from web.site.forms import Form, FormModel, empty_is_none, read_form
from web.site.i18n import _, error_text
from web.site.keys import SETTINGS, database_of
from web.site.paging import PAGE, number_in, page_of
from web.site.params import NUMBER, number_of
from web.site.render import confirmation, render

_RELOADED_EVERY: Final = 5
"""Seconds after which the page of a file that is being prepared is loaded again."""
_MOST_URLS: Final = 10
"""URLs that the page of a file names; a command may have chosen thousands."""
_CHOSEN: Final = ("url", "match", "set_spec", "title_id", "name")
"""Hidden fields of the form."""
_MEDIA: Final = {ExportForm.WACZ: "application/wacz", ExportForm.WARC: "application/warc"}


class ExportRequest(FormModel):
    """What a file is to have: the captures of URLs, of a set or of a title."""

    form: ExportForm = ExportForm.WACZ
    url: str | None = Field(None, max_length=4000, description="Captures of this URL, or as `match` says.")
    match: MatchType = Field(MatchType.EXACT, description="How the URL is matched.")
    set_spec: str | None = Field(None, max_length=1000, description="Documents of this set.")
    title_id: int | None = Field(None, ge=1, le=999_999_999, description="Captures of the title.")
    name: str | None = Field(
        None, max_length=TITLE_CHARACTERS, description="Title of the file; null: what is chosen."
    )
    reading_room: bool = Field(
        default=False,
        description="Include documents that may be read in the reading room only; then only curators and "
        "administrators can download the file.",
    )

    _empty_is_none = empty_is_none("url", "set_spec", "title_id", "name")

    @model_validator(mode="after")
    def _one_is_chosen(self) -> Self:
        if [self.url, self.set_spec, self.title_id].count(None) != 2:  # noqa: PLR2004 all but one
            raise ValueError(_("Choose a URL, a set or a title."))
        return self

    def choice(
        self, session: Session, *, since: datetime | None = None, until: datetime | None = None
    ) -> ExportChoice:
        """Return what is chosen. Raises UsageError for an unknown title."""
        title = None if self.title_id is None else session.get(Title, self.title_id)
        if self.title_id is not None and title is None:
            raise UsageError(_("Title %(number)s does not exist.") % {"number": self.title_id})
        return ExportChoice(
            look_ups=[(self.url, self.match)] if self.url is not None else [],
            set_spec=self.set_spec,
            title=ChosenTitle(title.title_id, title.name) if title else None,
            since=since,
            until=until,
        )


class _PageForm(CaptureDays, ExportRequest):
    """What the form asks for."""


async def queued(
    request: web.Request,
    asked: ExportRequest,
    *,
    since: datetime | None = None,
    until: datetime | None = None,
) -> PreparedExport:
    """Queue a file for the signed-in user. Raises UsageError if it cannot be prepared."""
    settings, asked_by = request.config_dict[SETTINGS], who_asks(request).name

    def work(session: Session) -> PreparedExport:
        return queue_export(
            session,
            settings,
            asked.choice(session, since=since, until=until),
            form=asked.form,
            title=asked.name,
            reading_room=asked.reading_room,
            asked_by=asked_by,
        )

    made = await database_of(request).run(work)
    about(request, "export", made.export_id, made.title)
    return made


_REST: Final = re.compile(r"bytes=[1-9][0-9]+-[0-9]*")
"""A range that lacks at least the first ten bytes."""


async def sent(request: web.Request, export_id: int) -> web.StreamResponse:
    """Return the file as response, with its length, ETag and ranges, to those who may have all of it.

    Raises an HTTP error if the user may not, or if the file is not available.
    """
    export, file = await _available(request, export_id)
    # A reader that continues a download asks for the rest, which is not another download. Everything else is
    # one: ranges can be written in many ways.
    if request.method == "GET" and not _REST.fullmatch(request.headers.get("Range", "")):
        title = f"{export.export_id}: {export.title}"
        await record_export(request, "captures", export.form, title=title)
    # aiohttp reads only dates in If-Range, not ETags; this file never changes, so the condition always holds.
    return web.FileResponse(
        file,
        headers={
            "Content-Type": _MEDIA[ExportForm(export.form)],
            "Content-Disposition": f'attachment; filename="zatva-{export.file_name}"',
            # Not `no-store`, with which a browser could not continue a download.
            "Cache-Control": "private, no-cache",
        },
    )


async def _available(request: web.Request, export_id: int) -> tuple[PreparedExport, Path]:
    settings = request.config_dict[SETTINGS]
    export = await found_export(request, export_id)
    if export.reading_room and not who_asks(request).may(Right.ARCHIVE):
        raise web.HTTPForbidden(
            text=_(
                "Only the archive's staff can download this file: it contains documents for the reading room."
            )
        )
    if export.state in (ExportState.QUEUED, ExportState.RUNNING):
        raise web.HTTPConflict(text=_("The file is still being prepared."))
    if export.state != ExportState.READY:
        raise web.HTTPGone(text=_("The file is no longer available. Prepare it again."))
    withdrawn = await database_of(request).run(_withdrawn, export, settings.exports)
    if withdrawn:
        raise web.HTTPGone(
            text=_("Documents in the file that may no longer be read: %(count)s. Prepare it again.")
            % {"count": withdrawn}
        )
    file = settings.exports / export.file_name
    if not file.is_file():
        raise web.HTTPServiceUnavailable(
            text=_("The file is not in the folder of prepared files. Check %(setting)s.")
            % {"setting": "provider.export_folder"}
        )
    return export, file


def _withdrawn(session: Session, export: PreparedExport, folder: Path) -> int:
    """Return how many documents may no longer be read; if there are any, remove the file. Commits."""
    count = count_withdrawn(session, export)
    if count and withdraw(session, export.export_id, count):
        session.commit()
        clear(session, folder)
    return count


@needs(Right.LOOK_AROUND)
async def listing(request: web.Request) -> web.Response:
    """Show the files, newest first, also those that were removed."""
    return await _list(request)


@needs(Right.ARCHIVE)
async def prepare(request: web.Request) -> web.Response:
    """Queue a file."""
    asked, form = read_form(_PageForm, await request.post())
    if asked is None:
        return await _list(request, form, fault=next(iter(form.errors.values())))
    since, until = asked.moments()
    try:
        made = await queued(request, asked, since=since, until=until)
    except UsageError as error:
        return await _list(request, form, fault=error_text(error))
    raise web.HTTPSeeOther(f"/archive/exports/{made.export_id}?done=export-queued")


@needs(Right.LOOK_AROUND)
async def show(request: web.Request) -> web.Response:
    """Show a file: how far it is, what it has and lacks, and how long it is kept."""
    export = await found_export(request, number_of(request))
    under_way = export.state in (ExportState.QUEUED, ExportState.RUNNING)
    shown: dict[str, Any] = {} if under_way else {"notice": None}  # that the file is queued
    return render(
        request,
        "archive_export.html",
        headers={"Refresh": str(_RELOADED_EVERY)} if under_way else None,
        export=export,
        chosen=ExportChoice.stored(export.selection),
        most_urls=_MOST_URLS,
        matches=dict(matches()),
        reasons=_reasons(),
        may_download=not export.reading_room or who_asks(request).may(Right.ARCHIVE),
        **shown,
    )


@needs(Right.LOOK_AROUND)
async def download(request: web.Request) -> web.StreamResponse:
    """Send the file."""
    return await sent(request, number_of(request))


@needs(Right.ARCHIVE)
async def confirm_removal(request: web.Request) -> web.Response:
    """Ask for confirmation before a file is removed."""
    export = await found_export(request, number_of(request))
    return confirmation(
        request,
        _("Remove the file %(name)s?") % {"name": export.title},
        _("The archive is not changed. You can prepare the file again at any time."),
        steps=[(_("Archive"), "/archive"), (_("Prepared files"), "/archive/exports")],
        button=_("Remove file"),
        back=f"/archive/exports/{export.export_id}",
    )


@needs(Right.ARCHIVE)
async def remove(request: web.Request) -> web.Response:
    """Remove a file, or stop its preparation."""
    export = await found_export(request, number_of(request))
    settings, by = request.config_dict[SETTINGS], who_asks(request).name
    if not await database_of(request).run(remove_export, settings, export.export_id, by=by):
        raise web.HTTPConflict(text=_("The file is no longer available. Prepare it again."))
    raise web.HTTPSeeOther("/archive/exports?done=export-removed")


async def found_export(request: web.Request, export_id: int) -> PreparedExport:
    """Return the file with that number; respond 404 if there is none."""
    try:
        export = await database_of(request).run(find_export, export_id)
    except UsageError:
        raise web.HTTPNotFound(
            text=_("Prepared file %(number)s does not exist.") % {"number": export_id}
        ) from None
    about(request, "export", export_id, export.title)
    return export


async def _list(
    request: web.Request, refused: Form | None = None, *, fault: str | None = None
) -> web.Response:
    """Show the list, after the form of a refused request with what was entered."""
    given = refused.values if refused else {}
    before = number_in(request, "before")
    found = await database_of(request).run(list_exports, limit=PAGE + 1, before=before)
    return render(
        request,
        "archive_exports.html",
        status=422 if fault else 200,
        page=page_of(found, lambda export: export.export_id, behind=before),
        fault=fault,
        refused=given,
        chosen={name: given[name] for name in _CHOSEN if given.get(name)},
        days=request.config_dict[SETTINGS].provider.export_days,
    )


def _reasons() -> dict[str, str]:
    """Return what pages call the reasons for which captures are left out."""
    return {
        Reason.WITHHELD: _("withheld, hidden or taken down"),
        Reason.RESTRICTED: _("under embargo, or for the reading room"),
        Reason.ORIGINAL_RESTRICTED: _("revisits of a capture that is withheld or restricted"),
        Reason.ORIGINAL_MISSING: _("revisits of a capture that was not found"),
        Reason.UNAVAILABLE: _("archive file missing or not readable"),
        Reason.DAMAGED: _("damaged"),
    }


ROUTES: Final = (
    web.get("/archive/exports", listing),
    web.post("/archive/exports", prepare),
    web.get(f"/archive/exports/{NUMBER}", show),
    web.get(f"/archive/exports/{NUMBER}/file", download),
    web.get(f"/archive/exports/{NUMBER}/remove", confirm_removal),
    web.post(f"/archive/exports/{NUMBER}/remove", remove),
)

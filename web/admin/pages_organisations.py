"""Administration of organisations and of the repositories that they own."""

from collections.abc import Mapping
from decimal import Decimal
from functools import partial
from typing import Any, Final

from aiohttp import web
from pydantic import Field
from sqlalchemy.orm import Session

from harvester.listing import find_repositories, matching_repositories
from harvester.models import Repository
from oai.audit import Subject, last_change
from oai.errors import ConflictError, UsageError
from oai.owners import Organisation
from web.auth.access import about, administrators_only, asked_for, repositories_of
from web.auth.audit import change_one
from web.auth.organisations import (
    MOST_BYTES,
    MOST_RECORDS,
    StorageUse,
    add_organisation,
    change_organisation,
    find_candidates,
    find_leaving,
    give_repository,
    limit_organisation,
    list_organisations,
    remove_organisation,
    storage_use,
)
from web.site.export import KINDS, columns_of, export_list
from web.site.forms import (
    BASED_ON,
    Form,
    FormModel,
    StaleFormError,
    empty_is_none,
    filled_from,
    keeping_other_changes,
    locked_row,
    read_form,
    refuse_stale,
    texts_of,
)
from web.site.i18n import _, error_text, mark
from web.site.keys import SETTINGS, database_of
from web.site.paging import PAGE, Shown, number_in, numbers_in, page_of, text_in
from web.site.params import NUMBER, number_of
from web.site.render import confirmation, render

_GIGA: Final = 10**9
_MOST_TICKED: Final = PAGE
_REMOVED: Final = "/admin/organisations?done=organisation-removed"
"""Repositories that are offered, and assigned by one form."""
_OTHER_OWNER: Final = mark("The owner was changed in the meantime. Check which organisation loses what.")
_COLUMNS: Final = columns_of(
    "organisation_id", "short_name", "name", "created", "users", "repositories", "records", "max_records",
    "bytes", "max_bytes",
)  # fmt: skip


class OrganisationForm(FormModel):
    """Full and short name of an organisation."""

    name: str = Field("", max_length=200)
    short_name: str = Field(min_length=1, max_length=50)


class ChangeForm(OrganisationForm):
    """The names, and how much it may store."""

    max_records: int | None = Field(None, ge=0, le=MOST_RECORDS)

    max_gigabytes: Decimal | None = Field(None, ge=0, le=MOST_BYTES // _GIGA)

    _empty_is_none = empty_is_none("max_records", "max_gigabytes")


@administrators_only
async def listing(request: web.Request) -> web.Response:
    """List the organisations by short name, in pages."""
    after = text_in(request, "after")
    listed = await database_of(request).run(list_organisations, limit=PAGE + 1, after=after)
    page = page_of(listed, lambda organisation: organisation.short_name, behind=after)
    settings = request.config_dict[SETTINGS].harvester
    numbers = [organisation.organisation_id for organisation in page.rows]
    found = await database_of(request).run(storage_use, settings, numbers)
    full = {one.organisation_id: one for one in found}
    return render(request, "admin_organisations.html", page=page, full=full)


@administrators_only
async def as_file(request: web.Request) -> web.StreamResponse:
    """Export all organisations."""
    return await export_list(
        request, "organisations", _COLUMNS, list_organisations, after=lambda row: row.short_name
    )


@administrators_only
async def new(request: web.Request) -> web.Response:
    """Show the form for a new organisation."""
    return await _page(request, None, Form(values={}))


@administrators_only
async def add(request: web.Request) -> web.Response:
    """Add an organisation."""
    asked, form = read_form(OrganisationForm, await request.post())
    if asked is None:
        return await _page(request, None, form)
    try:
        made = await database_of(request).run(add_organisation, short_name=asked.short_name, name=asked.name)
    except UsageError as error:
        return await _page(request, None, form.with_error("short_name", error_text(error)))
    about(request, "organisation", made.organisation_id, made.short_name)
    raise web.HTTPSeeOther("/admin/organisations?done=organisation-added")


@administrators_only
async def show(request: web.Request) -> web.Response:
    """Show one organisation."""
    return await _page(request, await organisation_of(request), None)


@administrators_only
async def change(request: web.Request) -> web.Response:
    """Rename the organisation and limit what it may store."""
    organisation = await organisation_of(request)
    asked, form = read_form(ChangeForm, await request.post())
    if asked is None:
        return await _page(request, organisation, form)
    number = organisation.organisation_id

    def work(session: Session) -> None:
        size = None if asked.max_gigabytes is None else int(asked.max_gigabytes * _GIGA)
        last = partial(last_change, session, "organisation", number)
        with keeping_other_changes(form, lambda: _values(locked_row(session, Organisation, number)), last):
            change_organisation(session, number, short_name=asked.short_name, name=asked.name)
            limit_organisation(session, number, max_records=asked.max_records, max_bytes=size)

    try:
        await database_of(request).run(work)
    except (StaleFormError, UsageError) as error:
        return await _page(request, organisation, form.refused(error, "short_name"))
    raise web.HTTPSeeOther(f"/admin/organisations/{number}?done=organisation-changed")


@administrators_only
async def give(request: web.Request) -> web.Response:
    """Assign the ticked repositories to the organisation, or return them to the administrators.

    If an organisation loses some by that, the user confirms it first.
    """
    organisation, posted = await organisation_of(request), await request.post()
    back = "back" in posted
    numbers = sorted(set(numbers_in(posted, "repository")))
    if not numbers:
        return await _page(request, organisation, None, unticked="back" if back else "assign")
    ticked = [await asked_for(request, Repository, one) for one in numbers[:_MOST_TICKED]]
    names = {row.repository_id: row.display_name for row in ticked}
    target = None if back else organisation.organisation_id
    leaving = await database_of(request).run(find_leaving, list(names), target)
    sure = set(posted.getall("sure", []))
    if _moves(leaving) - sure:
        return _confirm_move(request, organisation, names, leaving, back=back, is_stale=bool(sure))

    def work(session: Session, number: int) -> Mapping[str, Any]:
        locked_row(session, Repository, number)
        if _moves(find_leaving(session, [number], target)) - sure:
            raise ConflictError(_OTHER_OWNER)
        return give_repository(session, number, target)

    for number, name in names.items():
        details = {"organisation": None if back else organisation.short_name}
        subject = Subject(kind="repository", number=str(number), name=name, details=details)
        await change_one(request, subject, partial(database_of(request).run, work, number))
    raise web.HTTPSeeOther(f"/admin/organisations/{organisation.organisation_id}?done=repositories-given")


def _confirm_move(
    request: web.Request,
    organisation: Organisation,
    names: Mapping[int, str],
    leaving: Mapping[int, Organisation],
    *,
    back: bool,
    is_stale: bool,
) -> web.Response:
    """Ask for confirmation before organisations lose repositories."""
    title = (
        _("Return the repositories to the administrators?")
        if back
        else _("Assign the repositories to %(name)s?") % {"name": organisation.name}
    )
    return confirmation(
        request,
        title,
        *([_(_OTHER_OWNER)] if is_stale else []),
        _("Schedules and jobs follow."),
        _what_ends(),
        _("These repositories leave their organisation:"),
        steps=[*_steps(), (organisation.name, f"/admin/organisations/{organisation.organisation_id}")],
        button=_("Return to the administrators") if back else _("Assign"),
        status=409 if is_stale else 200,
        names=[f"{names[number]} ({owner.name})" for number, owner in leaving.items()],
        kept=[
            *(("sure", move) for move in sorted(_moves(leaving))),
            *([("back", "yes")] if back else []),
            *(("repository", number) for number in names),
        ],
    )


def _moves(leaving: Mapping[int, Organisation]) -> set[str]:
    """Return what the user confirms: which repository leaves which organisation."""
    return {f"{number}:{owner.organisation_id}" for number, owner in leaving.items()}


@administrators_only
async def confirm_removal(request: web.Request) -> web.Response:
    """Ask for confirmation before an organisation is removed."""
    return await _confirm_removal(request, await organisation_of(request))


async def _confirm_removal(
    request: web.Request, organisation: Organisation, *, is_stale: bool = False
) -> web.Response:
    theirs = await database_of(request).run(_owned, organisation.organisation_id)
    changed = _("The organisation was changed in the meantime, and nothing was removed.")
    return confirmation(
        request,
        _("Remove the organisation %(name)s?") % {"name": organisation.name},
        *([changed] if is_stale else []),
        _("Its repositories and schedules are kept and become the administrators'."),
        _("Its filtering sets do, too: only they see them, and users whose repositories use them."),
        _what_ends(),
        _("It cannot be removed while users belong to it; move them to another organisation first."),
        steps=_steps(),
        button=_("Remove organisation"),
        back=f"/admin/organisations/{organisation.organisation_id}",
        status=409 if is_stale else 200,
        names=list(theirs.values()),
        kept=[(BASED_ON, filled_from(theirs)[BASED_ON])],
    )


def _owned(session: Session, organisation_id: int) -> dict[str, str]:
    query = matching_repositories(None, repositories_of(organisation_id)).order_by(Repository.repository_id)
    return {str(row.repository_id): row.display_name for row in session.scalars(query)}


@administrators_only
async def remove(request: web.Request) -> web.StreamResponse:
    """Remove the organisation."""
    try:
        organisation = await organisation_of(request)
    except web.HTTPNotFound:  # the form was sent twice
        raise web.HTTPSeeOther(_REMOVED) from None
    form = Form(values=texts_of(await request.post()))
    number = organisation.organisation_id

    def work(session: Session) -> Mapping[str, Any]:
        # Locked, so that no repository is assigned to it meanwhile.
        if session.get(Organisation, number, with_for_update=True) is None:
            return {}
        refuse_stale(form, _owned(session, number), {})
        return remove_organisation(session, number)

    try:
        ended = await database_of(request).run(work)
    except StaleFormError:
        return await _confirm_removal(request, organisation, is_stale=True)
    except UsageError as error:
        raise web.HTTPConflict(text=error_text(error)) from None
    about(request, "organisation", number, organisation.short_name, **ended)
    raise web.HTTPSeeOther(_REMOVED)


def _what_ends() -> str:
    return _(
        "Notification rules about these repositories are removed with their messages, also those that are "
        "not sent yet, and the links to their report cards are revoked. Rules about all repositories stay."
    )


def _steps() -> list[tuple[str, str]]:
    return [(_("Administration"), "/admin"), (_("Organisations"), "/admin/organisations")]


async def organisation_of(request: web.Request, number: int | None = None) -> Organisation:
    """Return the organisation with that number, or the one in the path; respond 404 if there is none."""
    number = number or number_of(request)
    found = await database_of(request).run(lambda session: session.get(Organisation, number))
    if found is None:
        raise web.HTTPNotFound(text=_("Organisation %(number)s does not exist.") % {"number": number})
    about(request, "organisation", number, found.short_name)
    return found


async def _page(
    request: web.Request, organisation: Organisation | None, form: Form | None, *, unticked: str = ""
) -> web.Response:
    """Render the page; `unticked` is the list in which no repository was selected."""
    repositories, candidates, search = None, None, text_in(request, "find").strip()
    if organisation is not None:
        repositories = await _repositories(request, organisation)
        candidates = await database_of(request).run(
            find_candidates, organisation.organisation_id, limit=_MOST_TICKED + 1, search=search
        )
        form = form or Form(values=filled_from(_values(organisation)))
    return render(
        request,
        "admin_organisation.html",
        status=422 if unticked else form.status if form is not None else 200,
        organisation=organisation,
        form=form,
        repositories=repositories,
        candidates=candidates,
        most=_MOST_TICKED,
        find=search,
        unticked=unticked,
        here=f"/admin/organisations/{organisation.organisation_id}"
        if unticked and organisation
        else request.path_qs,
        stored=await _stored(request, organisation),
    )


def _values(organisation: Organisation) -> dict[str, str]:
    records, size = organisation.max_records, organisation.max_bytes
    return {
        "name": organisation.name,
        "short_name": organisation.short_name,
        "max_records": "" if records is None else str(records),
        "max_gigabytes": "" if size is None else f"{size / _GIGA:g}",
    }


async def _stored(request: web.Request, organisation: Organisation | None) -> StorageUse | None:
    if organisation is None:
        return None
    settings, number = request.config_dict[SETTINGS].harvester, organisation.organisation_id
    return next(iter(await database_of(request).run(storage_use, settings, [number])), None)


async def _repositories(request: web.Request, organisation: Organisation) -> Shown[Repository]:
    after, theirs = number_in(request, "after") or 0, repositories_of(organisation.organisation_id)
    found = await database_of(request).run(find_repositories, limit=PAGE + 1, after=after, among=theirs)
    return page_of(found, lambda repository: repository.repository_id, behind=after)


ROUTES = (
    web.get("/admin/organisations", listing),
    web.get(f"/admin/organisations.{KINDS}", as_file, allow_head=False),
    web.get("/admin/organisations/new", new),
    web.post("/admin/organisations/new", add),
    web.get(f"/admin/organisations/{NUMBER}", show),
    web.post(f"/admin/organisations/{NUMBER}", change),
    web.post(f"/admin/organisations/{NUMBER}/repositories", give),
    web.get(f"/admin/organisations/{NUMBER}/remove", confirm_removal),
    web.post(f"/admin/organisations/{NUMBER}/remove", remove),
)

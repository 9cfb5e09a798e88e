"""The aggregate: which repositories it republishes, its address, its records and its delay."""

from collections.abc import Collection, Sequence

from aiohttp import web
from pydantic import Field
from sqlalchemy import select
from sqlalchemy.orm import Session

from harvester.models import Repository
from oai.errors import UsageError
from oai.rights import Right
from provider.aggregate.identifiers import Identifiers
from provider.aggregate.models import AggregateSource
from provider.aggregate.overview import read_overview
from provider.aggregate.sources import add_source, find_repository, withdraw_source
from web.archive.address import aggregate_address
from web.auth.access import about, asked_for, needs, who_asks
from web.repositories.forms import repository_choices
from web.site.faults import conflicts
from web.site.forms import Form, FormModel, empty_is_none, read_form
from web.site.i18n import _, error_text
from web.site.keys import SETTINGS, database_of
from web.site.paging import number_in
from web.site.params import NUMBER, number_of
from web.site.render import confirmation, render


class SourceForm(FormModel):
    """A repository to republish."""

    repository_id: int = Field(ge=1, le=999_999_999)
    name: str | None = Field(None, max_length=60)
    identifiers: Identifiers = Identifiers.ORIGINAL

    _empty_is_none = empty_is_none("name")


def identifier_choices() -> dict[str, str]:
    """Return the label of each choice of the identifiers of republished records."""
    return {Identifiers.ORIGINAL: _("original"), Identifiers.OWN: _("new (own)")}


@needs(Right.LOOK_AROUND)
async def show(request: web.Request) -> web.Response:
    """Show the aggregate, with the form that adds a repository."""
    return await _page(request, Form(values={"repository_id": number_in(request, "repository") or ""}))


@needs(Right.ARCHIVE)
async def add(request: web.Request) -> web.Response:
    """Republish a repository's records, or show the form again with its errors."""
    asked, form = read_form(SourceForm, await request.post())
    if asked is None:
        return await _page(request, form)
    await asked_to_publish(request, asked.repository_id)

    def work(session: Session) -> AggregateSource:
        found = find_repository(session, str(asked.repository_id))
        return add_source(session, found, name=asked.name, identifiers=asked.identifiers)

    try:
        source = await database_of(request).run(work)
    except UsageError as error:
        return await _page(request, form.with_error("name", error_text(error)))
    about(request, "aggregate source", source.repository_id, source.title)
    raise web.HTTPSeeOther("/archive/aggregate?done=aggregate-added")


@needs(Right.ARCHIVE)
async def confirm_removal(request: web.Request) -> web.Response:
    """Ask for confirmation before a repository is withdrawn."""
    source = await _source(request)
    return confirmation(
        request,
        _("Withdraw %(name)s from the aggregate?") % {"name": source.title},
        _("Harvesters of the aggregate will see all its records as deleted."),
        _("The harvested records themselves are kept, and it can be added again."),
        steps=[(_("Archive"), "/archive"), (_("Aggregate"), "/archive/aggregate")],
        button=_("Withdraw"),
    )


@needs(Right.ARCHIVE)
async def remove(request: web.Request) -> web.Response:
    """Withdraw the repository."""
    source = await _source(request)
    about(request, "aggregate source", source.repository_id, source.title)
    with conflicts():
        await database_of(request).run(withdraw_source, source.repository_id)
    raise web.HTTPSeeOther("/archive/aggregate?done=aggregate-withdrawn")


async def asked_to_publish(request: web.Request, number: int) -> None:
    """Respond 404 unless the user sees the repository, or it is a source that this page lists anyway."""
    if not await database_of(request).run(_still_harvested, [number]):
        await asked_for(request, Repository, number)


def _still_harvested(session: Session, numbers: Collection[int]) -> Sequence[int]:
    """Return those of the numbers whose repositories are, or were, in the aggregate and still exist."""
    both = select(Repository.repository_id).join(
        AggregateSource, AggregateSource.repository_id == Repository.repository_id
    )
    return session.scalars(both.where(Repository.repository_id.in_(numbers))).all()


async def _source(request: web.Request) -> AggregateSource:
    number = number_of(request)
    source = await database_of(request).run(lambda session: session.get(AggregateSource, number))
    if source is None:
        raise web.HTTPNotFound(text=_("The repository is not in the aggregate."))
    return source


async def _page(request: web.Request, form: Form) -> web.Response:
    found = await database_of(request).run(read_overview)
    present = {one.repository_id for one in found.sources if one.state in {"followed", "being read"}}
    known = dict(await repository_choices(request))
    others = {one.repository_id: one.title for one in found.sources if one.repository_id not in known}
    withdrawn = await database_of(request).run(_still_harvested, others.keys() - present)
    offered = known | {number: others[number] for number in withdrawn}
    choices = [(number, name) for number, name in offered.items() if number not in present]
    return render(
        request,
        "archive_aggregate.html",
        status=422 if form.errors else 200,
        form=form,
        found=found,
        present=present,
        # Without a blank choice, the first one would be published if the linked one is in the aggregate.
        choices=[("", "…"), *choices] if choices else [],
        unseen=set() if who_asks(request).sees_everything else others.keys(),
        base_url=aggregate_address(request.config_dict[SETTINGS]),
        prefixes=list(dict.fromkeys(prefix for source in found.sources for prefix in source.formats)),
        identifiers=identifier_choices(),
        states={
            "followed": _("up to date"),
            "being read": _("being read"),
            "being withdrawn": _("being withdrawn"),
            "withdrawn": _("withdrawn"),
        },
    )


ROUTES = (
    web.get("/archive/aggregate", show),
    web.post("/archive/aggregate", add),
    web.get(f"/archive/aggregate/{NUMBER}/remove", confirm_removal),
    web.post(f"/archive/aggregate/{NUMBER}/remove", remove),
)

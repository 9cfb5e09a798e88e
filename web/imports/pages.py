"""Pages of the bibliographic import: sources with their last imports, settings, and manual start."""

from collections.abc import Callable
from functools import partial
from typing import Final

from aiohttp import web
from sqlalchemy.orm import Session

from harvester.bibliographic.imports import ImportFacts, OmissionFacts, list_imports, list_omissions
from harvester.bibliographic.sources import SourceSettings, known_prefixes, source_settings
from harvester.models import Repository
from oai.audit import last_change
from oai.errors import UsageError
from web.auth.access import (
    Right,
    about,
    asked_for,
    needs,
    several_asked_for,
    visible_repositories,
    who_asks,
)
from web.auth.set_owners import choices_for
from web.imports.sources import (
    IMPORTS,
    SourceForm,
    SourceView,
    TypedSource,
    change_source,
    field_of,
    find_source,
    list_sources,
    with_running_import,
)
from web.site.export import AT_ONCE, KINDS, export
from web.site.forms import (
    Form,
    StaleFormError,
    filled_from,
    keeping_other_changes,
    locked_row,
    read_form,
)
from web.site.i18n import _
from web.site.keys import database_of
from web.site.paging import number_in, numbers_in, page_of
from web.site.params import NUMBER
from web.site.render import render

_PAGE: Final = 100
_HISTORY: Final = 20
_LEFT_OUT: Final = 50
_REFRESH_SECONDS: Final = 3
_COUNTS: Final = ("seen", "new", "updated", "unchanged", "deleted", "filtered", "refused", "total")


async def listing(request: web.Request) -> web.Response:
    """List the sources, in pages."""
    return await _page(request)


@needs(Right.HARVEST)
async def begin(request: web.Request) -> web.Response:
    """Start the imports of the selected sources; those that were removed in the meantime are left out."""
    posted = await request.post()
    if "repository" not in posted:
        return await _page(request, error=_("Choose at least one source."))
    found, _missing = await several_asked_for(request, Repository, numbers_in(posted, "repository"))
    numbers = list(found)
    await request.config_dict[IMPORTS].begin(numbers, by=who_asks(request).name)
    about(request, "import source", " ".join(map(str, numbers)))
    back = f"/imports/{numbers[0]}" if posted.get("back") and numbers else "/imports"
    raise web.HTTPSeeOther(f"{back}?done=import-begun")


async def show(request: web.Request) -> web.Response:
    """Show one source: its last imports, its settings, and the omitted records with reasons."""
    repository = await asked_for(request, Repository)
    return await _source(request, repository.repository_id)


@needs(Right.HARVEST)
async def change(request: web.Request) -> web.Response:
    """Change the import settings of a source."""
    repository = await asked_for(request, Repository)
    about(request, "import source", repository.repository_id, repository.display_name)
    wanted, form = read_form(TypedSource, await request.post())
    if wanted is None:
        return await _source(request, repository.repository_id, form)
    number, who = repository.repository_id, who_asks(request)

    def work(session: Session) -> None:
        # The repository is locked, because a source that was never changed has no row.
        locked_row(session, Repository, number)
        last = partial(last_change, session, "import source", number)
        with keeping_other_changes(form, lambda: _values(source_settings(session, number)), last):
            change_source(session, who, number, wanted)

    try:
        await database_of(request).run(work)
    except (StaleFormError, UsageError) as error:
        return await _source(request, number, form.refused(error, field_of(error)))
    raise web.HTTPSeeOther(f"/imports/{number}?done=import-changed")


async def as_file(request: web.Request) -> web.StreamResponse:
    """Export the sources with their last imports."""
    among = visible_repositories(who_asks(request))

    async def behind(last: SourceView | None) -> list[SourceView]:
        after = last.repository_id if last else 0
        found = await database_of(request).run(list_sources, among=among, limit=AT_ONCE, after=after)
        return [with_running_import(one, request.config_dict[IMPORTS]) for one in found]

    columns: dict[str, Callable[[SourceView], object]] = {
        "repository_id": lambda view: view.repository_id,
        "repository_name": lambda view: view.name,
        "state": lambda view: view.state,
        "after_harvest": lambda view: view.settings.after_harvest,
        "filtering_set": lambda view: view.set_name,
        **{name: _of_last(name) for name in ("started", "started_by", *_COUNTS)},
    }
    return await export(request, "imports", columns, behind)


async def _page(request: web.Request, error: str = "") -> web.Response:
    after = number_in(request, "after") or 0
    found = await database_of(request).run(
        list_sources, among=visible_repositories(who_asks(request)), limit=_PAGE + 1, after=after
    )
    sources = [with_running_import(one, request.config_dict[IMPORTS]) for one in found]
    return render(
        request,
        "imports.html",
        status=422 if error else 200,
        headers=_refresh(any(one.under_way for one in sources)),
        page=page_of(sources, lambda view: view.repository_id, behind=after, size=_PAGE),
        error=error,
    )


async def _source(request: web.Request, repository_id: int, form: Form | None = None) -> web.Response:
    database = database_of(request)
    view = with_running_import(await database.run(find_source, repository_id), request.config_dict[IMPORTS])
    runs, left_out, prefixes = await database.run(_facts, repository_id)
    sets = await database.run(choices_for, who_asks(request), view.settings.set_id)
    shown = form or Form(values=filled_from(_values(view.settings)))
    return render(
        request,
        "import_source.html",
        status=shown.status,
        headers=_refresh(view.under_way and form is None),
        source=view,
        form=shown,
        imports=runs,
        left_out=left_out,
        sets=[("", _("none: import all records")), *((one.set_id, one.name) for one in sets)],
        formats=[("", _("the most detailed one")), *((one, one) for one in prefixes)],
    )


def _values(settings: SourceSettings) -> dict[str, object]:
    return {name: getattr(settings, name) or "" for name in SourceForm.model_fields}


def _facts(session: Session, repository_id: int) -> tuple[list[ImportFacts], list[OmissionFacts], list[str]]:
    return (
        list_imports(session, repository_id=repository_id, limit=_HISTORY),
        list_omissions(session, repository_id=repository_id, limit=_LEFT_OUT),
        known_prefixes(session, repository_id),
    )


def _of_last(name: str) -> Callable[[SourceView], object]:
    return lambda view: getattr(view.last, name) if view.last else None


def _refresh(under_way: bool) -> dict[str, str] | None:  # noqa: FBT001 the only parameter
    return {"Refresh": str(_REFRESH_SECONDS)} if under_way else None


ROUTES = (
    web.get("/imports", listing),
    web.post("/imports", begin),
    web.get(f"/imports.{KINDS}", as_file, allow_head=False),
    web.get(f"/imports/{NUMBER}", show),
    web.post(f"/imports/{NUMBER}", change),
)

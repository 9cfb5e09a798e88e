"""Repositories (UIUC tab 1): what we harvest from, and what each of them offers."""

import asyncio

from aiohttp import web
from pydantic import Field, ValidationInfo, field_validator

from harvester.repositories import (
    add_repository,
    identify_repository,
    list_repositories,
    remove_repository,
)
from manager.jobs import list_history, list_jobs
from manager.schedules import add_schedule, list_schedules
from oai.errors import RemoteError, TryLaterError, UsageError
from oai.settings import Settings
from web.access import administrators_only
from web.forms import Form, FormModel, read_form, relative_folder
from web.keys import SETTINGS
from web.lookups import NUMBER, number_of, repository_of
from web.planning import PREFIX
from web.problems import problem_of
from web.rendering import render
from web.threads import database_of
from web.words import _

_LAST_RUNS = 5
_PATIENCE_SECONDS = 30.0
_LONGEST_RETRY_AFTER = 2.0


class RepositoryForm(FormModel):
    """Base URL and base directory are enough."""

    base_url: str = Field(min_length=1, max_length=2000)
    base_dir: str = Field(min_length=1)

    @field_validator("base_url")
    @classmethod
    def _is_an_address(cls, value: str) -> str:
        if not value.lower().startswith(("http://", "https://")) or any(map(str.isspace, value)):
            raise ValueError(_("Write the whole address, such as https://library.example/oai"))
        return value

    @field_validator("base_dir")
    @classmethod
    def _lies_in_the_store(cls, value: str, info: ValidationInfo) -> str:
        return relative_folder(value, (info.context or {})["store"])


class HarvestForm(FormModel):
    """What a harvest that is asked for at once is of."""

    metadata_prefix: str = Field(pattern=PREFIX, max_length=200)


async def listing(request: web.Request) -> web.Response:
    """All repositories."""
    repositories = await database_of(request).run(list_repositories)
    return render(request, "repositories.html", repositories=repositories)


@administrators_only
async def new(request: web.Request) -> web.Response:
    """The form for a new repository."""
    return _form(request, Form(values={}))


async def add(request: web.Request) -> web.Response:
    """Ask the repository what it is, and add it; or show the form again with what is wrong."""
    settings = request.config_dict[SETTINGS]
    posted = await request.post()
    asked, form = await asyncio.to_thread(read_form, RepositoryForm, posted, {"store": settings.store})
    if asked is None:
        return _form(request, form)
    try:
        facts = await identify_repository(asked.base_url, _impatient(settings))
    except (RemoteError, TryLaterError) as error:
        problem = problem_of(error)
        return _form(request, form.with_error("base_url", problem.title, problem))
    try:
        repository = await database_of(request).run(
            add_repository, base_url=asked.base_url, base_dir=asked.base_dir, facts=facts
        )
    except UsageError as error:
        return _form(request, form.with_error("base_dir", str(error)))
    raise web.HTTPSeeOther(f"/repositories/{repository.repository_id}?done=repository-added")


async def show(request: web.Request) -> web.Response:
    """One repository: its facts, what it offers, its schedules and last runs."""
    number = number_of(request)
    database = database_of(request)
    details = await repository_of(request, number)
    schedules = await database.run(list_schedules, number)
    runs = await database.run(list_history, number, _LAST_RUNS)
    return render(request, "repository.html", details=details, schedules=schedules, runs=runs)


async def harvest(request: web.Request) -> web.Response:
    """Plan a single harvest for now."""
    details = await repository_of(request, number_of(request))
    asked, _form_shown = read_form(HarvestForm, await request.post())
    if asked is None:
        raise web.HTTPBadRequest(text=_("Choose the metadata format to harvest."))
    columns = {
        "repository_id": details.repository.repository_id,
        "metadata_prefix": asked.metadata_prefix,
    }
    await database_of(request).run(lambda session: add_schedule(session, **columns))
    raise web.HTTPSeeOther("/jobs?done=harvest-asked")


@administrators_only
async def confirm_removal(request: web.Request) -> web.Response:
    """Ask before a repository goes."""
    details = await repository_of(request, number_of(request))
    return render(
        request,
        "confirm.html",
        title=_("Remove %(name)s?") % {"name": details.name},
        steps=[
            (_("Overview"), "/"),
            (_("Repositories"), "/repositories"),
            (details.name, f"/repositories/{details.repository.repository_id}"),
        ],
        lines=[
            _("Its schedules, jobs, history and the list of its records go with it, for good."),
            _("The harvested files stay in the folder %(folder)s.") % {"folder": details.repository.base_dir},
        ],
        button=_("Remove the repository"),
        back=f"/repositories/{details.repository.repository_id}",
    )


async def remove(request: web.Request) -> web.Response:
    """Remove the repository."""
    number = (await repository_of(request, number_of(request))).repository.repository_id
    if any(job.state != "queued" for job in await database_of(request).run(list_jobs, number)):
        raise web.HTTPConflict(text=_("It is being harvested. End the harvest under Current jobs first."))
    await database_of(request).run(remove_repository, number)
    raise web.HTTPSeeOther("/repositories?done=repository-removed")


def _form(request: web.Request, form: Form) -> web.Response:
    settings = request.config_dict[SETTINGS]
    return render(
        request, "repository_new.html", status=422 if form.errors else 200, form=form, store=settings.store
    )


def _impatient(settings: Settings) -> Settings:
    """The settings for a person who waits for the answer: short waits."""
    patient = settings.harvester
    short = {
        "timeout": min(patient.timeout, _PATIENCE_SECONDS),
        "max_wait": min(patient.max_wait, _LONGEST_RETRY_AFTER),
    }
    return settings.model_copy(update={"harvester": patient.model_copy(update=short)})


ROUTES = (
    web.get("/repositories", listing),
    web.get("/repositories/new", new),
    web.post("/repositories/new", add),
    web.get(f"/repositories/{NUMBER}", show),
    web.post(f"/repositories/{NUMBER}/harvest", harvest),
    web.get(f"/repositories/{NUMBER}/remove", confirm_removal),
    web.post(f"/repositories/{NUMBER}/remove", remove),
)

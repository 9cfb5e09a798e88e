"""Repositories (UIUC tab 1): the harvested repositories, their formats, sets and records."""

import uuid
from dataclasses import replace
from functools import partial
from typing import Any, Final

from aiohttp import web
from multidict import MultiDict, MultiMapping
from pydantic import Field, ValidationInfo, field_validator
from sqlalchemy.orm import Session

from harvester.access import SelectionError, access_of
from harvester.harvest_plan import LONGEST_SELECTION, PREFIX
from harvester.listing import find_records
from harvester.locks import clear_locks
from harvester.models import Record, Repository
from harvester.reading.repairs import Repair
from harvester.recognition import RepositoryFacts, find_repository, identify_repository
from harvester.repositories import (
    BaseUrl,
    DeletionsShare,
    RepositoryName,
    UpdatesShare,
    change_repository,
    note_facts,
)
from harvester.vocabulary import DeletionPolicy
from manager.jobs.reasons import find_maintenance, locked_by
from manager.jobs.runs import RunFilter, days_of, find_runs
from manager.jobs.views import list_jobs
from manager.repository_counts import MOST_COUNTED, count_records
from manager.schedules.service import add_schedule, count_schedules, find_schedules, sample_repository
from manager.store_audits import last_audits
from oai.audit import last_change
from oai.errors import UsageError
from oai.reach import is_same_place, without_credentials
from web.auth.access import Right, about, asked_for, needs
from web.auth.audit import renew_snapshot
from web.errors.repairs import repair_words
from web.jobs.pages import MOST_JOBS
from web.repositories.forms import UNASKED, policies, typed_address, usable_address
from web.repositories.record_downloads import find_downloads
from web.repositories.removals import PAGE_SECONDS, REMOVALS
from web.runs.words import PLOTTED_DAYS, day_link, first_day
from web.schedules.forms import partner_minutes
from web.site.failures import problem_of
from web.site.faults import conflicts
from web.site.formats import reason
from web.site.forms import (
    Form,
    FormModel,
    Problem,
    StaleFormError,
    empty_is_none,
    filled_from,
    keeping_other_changes,
    locked_row,
    read_form,
)
from web.site.i18n import _, error_text
from web.site.keys import SETTINGS, database_of
from web.site.paging import page_of, text_in
from web.site.params import NUMBER, number_of, repository_of
from web.site.plots import bars
from web.site.render import confirmation, refuse, render
from web.site.timeouts import ask_apart
from web.site.zones import here, local, today

_LAST_RUNS: Final = 5
_SCHEDULES: Final = 20
_FORMATS: Final = 100
_RECORDS_PAGE: Final = 50


class HarvestForm(FormModel):
    """Scope of a harvest that is due immediately; a number of records makes it a sample."""

    metadata_prefix: str = Field(pattern=PREFIX, max_length=60)
    set_spec: str | None = Field(None, max_length=LONGEST_SELECTION)
    records: int | None = Field(None, ge=1, le=100_000)

    _empty_is_none = empty_is_none("records", "set_spec")


class SettingsForm(FormModel):
    """Settings of a repository that users change."""

    repository_name: RepositoryName | None = None
    base_url: BaseUrl
    deletion_policy: DeletionPolicy
    brake_deletions: DeletionsShare | None = None
    brake_updates: UpdatesShare | None = None
    repairs: tuple[Repair, ...] = ()

    @field_validator("base_url")
    @classmethod
    def _is_an_address(cls, value: str, info: ValidationInfo) -> str:
        complete = (info.context or {}).get("complete", True)
        return usable_address(value) if complete else typed_address(value, None)

    _empty_is_none = empty_is_none("repository_name", "brake_deletions", "brake_updates")


async def show(request: web.Request) -> web.Response:
    """Show one repository: facts, formats, sets, schedules and last runs."""
    await asked_for(request, Repository)
    return await _page(request, Form(values={}))


async def _page(request: web.Request, form: Form, problem: Problem | None = None) -> web.Response:
    """Render the page; `form` harvests the repository now, `problem` is why it was not refreshed."""
    number = number_of(request)
    database = database_of(request)
    details = await repository_of(request, number)
    begin = first_day(today(), PLOTTED_DAYS)
    days = await database.run(days_of, RunFilter(repository_id=number).within(begin), zone=here().key)
    return render(
        request,
        "repository.html",
        status=web.HTTPBadRequest.status_code if problem else form.status,
        here=f"/repositories/{number}",
        form=form,
        problem=problem,
        details=details,
        locked=reason(locked_by(details.lock)) if details.lock else None,
        maintenance=await database.run(find_maintenance),
        access=access_of(details.repository.protocol),
        schedules=await database.run(find_schedules, repository_id=number, limit=_SCHEDULES),
        schedule_count=await database.run(count_schedules, number),
        most_formats=_FORMATS,
        runs=await database.run(find_runs, RunFilter(repository_id=number), limit=_LAST_RUNS),
        jobs=await database.run(list_jobs, number, most=MOST_JOBS),
        audits=await database.run(last_audits, repository_id=number),
        counts=await database.run(count_records, number),
        most_counted=MOST_COUNTED,
        days=days,
        plot=bars(
            days,
            local(begin).date(),
            today(),
            link=day_link(number),
            label=_("Records harvested per day"),
        ),
    )


@needs(Right.HARVEST)
async def harvest(request: web.Request) -> web.StreamResponse:
    """Create a one-off job that is due now, or a sample of the given number of records."""
    repository = await asked_for(request, Repository)
    asked, form = read_form(HarvestForm, await request.post())
    if asked is None:
        return await _page(request, form)

    def plan(session: Session) -> int | None:
        number = repository.repository_id
        what = {**asked.model_dump(exclude={"records"}), "partner_minutes": partner_minutes(request)}
        if asked.records is not None:
            return sample_repository(session, number, records=asked.records, **what).job_id
        add_schedule(session, repository_id=number, **what)
        return None  # the manager makes the job

    try:
        job_id = await database_of(request).run(plan)
    except SelectionError as error:
        return await _page(request, form.with_error("set_spec", error_text(error)))
    except UsageError as error:
        return await refuse(request, show, error_text(error))
    raise web.HTTPSeeOther(f"/jobs{f'/{job_id}' if job_id else ''}?done=harvest-asked")


@needs(Right.HARVEST)
async def settings(request: web.Request) -> web.Response:
    """Show the settings form of the repository."""
    repository = await asked_for(request, Repository)
    return _settings_page(request, repository, Form(values=filled_from(_settings_of(repository))))


@needs(Right.HARVEST)
async def change(request: web.Request) -> web.Response:
    """Change the settings, or show the form again with its errors; a new address must answer first."""
    repository = await asked_for(request, Repository)
    asked, form, anyway = _read_settings(await request.post())
    if asked is None:
        return _settings_page(request, repository, form)
    columns, facts = {**asked.model_dump(), "repairs": form.values["repairs"]}, None
    if asked.base_url != repository.base_url and not anyway:
        form, facts = await _ask_new_address(request, repository, form, asked.base_url)
        if form.errors:
            return _settings_page(request, repository, form)
        columns["base_url"] = form.values["base_url"]
        await renew_snapshot(request)
    number = repository.repository_id

    def work(session: Session) -> str:
        last = partial(last_change, session, "repository", number)
        with keeping_other_changes(form, lambda: _settings_of(locked_row(session, Repository, number)), last):
            address = change_repository(session, number, **columns).base_url
        if facts is not None:
            note_facts(session, number, facts)
        return address

    try:
        address = await database_of(request).run(work)
    except (StaleFormError, UsageError) as error:
        return _settings_page(request, repository, form.refused(error, "base_url"))
    done = "repository-changed" if is_same_place(address, repository.base_url) else "repository-moved"
    raise web.HTTPSeeOther(f"/repositories/{number}?done={done}")


def _read_settings(posted: MultiMapping[Any]) -> tuple[SettingsForm | None, Form, bool]:
    """Return the settings as `read_form` does, and whether an address that does not answer is saved, too."""
    anyway = posted.get("do") == "save-anyway"
    others = MultiDict((name, value) for name, value in posted.items() if name != "repairs")
    asked, form = read_form(SettingsForm, others, {"complete": anyway})
    chosen = [str(one) for one in posted.getall("repairs", [])]
    return asked, Form(values={**form.values, "repairs": chosen}, errors=form.errors), anyway


async def _ask_new_address(
    request: web.Request, repository: Repository, form: Form, address: str
) -> tuple[Form, RepositoryFacts | None]:
    """Ask the repository at its new address; return the form with its base URL, and its description.

    The form has an error if there is no repository, or only at another address of the site.
    """
    title = _("The new address does not answer as a repository. It has not been saved.")
    try:
        found, facts = await ask_apart(
            find_repository, address, request.config_dict[SETTINGS], protocol=repository.protocol
        )
    except UsageError as error:
        return form.with_error("base_url", error_text(error)), None
    except UNASKED as error:
        problem = problem_of(error)
        lines = (problem.title, *problem.lines)
        return form.with_error("base_url", problem.title, Problem(title=title, lines=lines)), None
    form = replace(form, values={**form.values, "base_url": found})
    if found.endswith(address):  # it may lack `https://`
        return form, facts
    offer = _("A repository answers at %(address)s. Check this address below, and save it.")
    lines = (offer % {"address": without_credentials(found)},)
    return form.with_error("base_url", _("Found at this address."), Problem(title=title, lines=lines)), None


@needs(Right.HARVEST)
async def refresh(request: web.Request) -> web.Response:
    """Refresh the repository's identity, sets and formats from the repository."""
    repository = await asked_for(request, Repository)
    try:
        facts = await ask_apart(
            identify_repository,
            repository.base_url,
            request.config_dict[SETTINGS],
            protocol=repository.protocol,
        )
    except UNASKED as error:
        return await _page(request, Form(values={}), problem_of(error))
    await renew_snapshot(request)
    await database_of(request).run(note_facts, repository.repository_id, facts)
    raise web.HTTPSeeOther(f"/repositories/{repository.repository_id}?done=repository-asked")


@needs(Right.ADMINISTER)
async def unlock(request: web.Request) -> web.Response:
    """Clear the locks that keep harvests off the repository."""
    repository = await asked_for(request, Repository)
    number = repository.repository_id
    with conflicts():
        holders = await database_of(request).run(clear_locks, number)
    about(request, "repository", number, cleared=holders)
    raise web.HTTPSeeOther(f"/repositories/{number}?done=repository-unlocked")


@needs(Right.HARVEST)
async def confirm_removal(request: web.Request) -> web.Response:
    """Ask for confirmation before a repository is removed."""
    repository = await asked_for(request, Repository, being_removed=True)
    name = repository.display_name
    address = f"/repositories/{repository.repository_id}"
    return confirmation(
        request,
        _("Remove the repository %(name)s?") % {"name": name},
        _("Its schedules, jobs, history and list of records are deleted permanently."),
        _("The harvested files stay in the folder %(folder)s.") % {"folder": repository.base_dir},
        steps=[(_("Repositories"), "/repositories"), (name, address)],
        button=_("Remove repository"),
    )


@needs(Right.HARVEST)
async def remove(request: web.Request) -> web.Response:
    """Remove the repository; a large one in the background."""
    repository = await asked_for(request, Repository, being_removed=True)
    removals = request.config_dict[REMOVALS]
    with conflicts():
        gone = await removals.remove(repository.repository_id, seconds=PAGE_SECONDS)
    raise web.HTTPSeeOther(f"/repositories?done=repository-{'removed' if gone else 'being-removed'}")


def _settings_of(repository: Repository) -> dict[str, object]:
    names = SettingsForm.model_fields
    return {name: "" if (value := getattr(repository, name)) is None else value for name in names}


def _settings_page(request: web.Request, repository: Repository, form: Form) -> web.Response:
    manners = request.config_dict[SETTINGS].harvester
    return render(
        request,
        "repository_settings.html",
        status=form.status,
        repository=repository,
        form=form,
        repairs=repair_words(),
        usual_deletions=manners.brake_deletions,
        usual_updates=manners.brake_updates,
        policies=policies(),
    )


async def list_records(request: web.Request) -> web.Response:
    """List the records in pages, or the one with the given identifier."""
    repository = await asked_for(request, Repository)
    identifier = request.query.get("identifier", "").strip()
    after = _records_after(request)
    found = await database_of(request).run(
        find_records,
        repository.repository_id,
        limit=_RECORDS_PAGE + 1,
        after=after,
        identifier=identifier or None,
    )
    return render(
        request,
        "records.html",
        repository=repository,
        page=page_of(found, _record_key, behind=after, size=_RECORDS_PAGE),
        identifier=identifier,
        downloads=await database_of(request).run(find_downloads, request.config_dict[SETTINGS], repository),
    )


def _record_key(record: Record) -> str:
    return f"{record.metadata_prefix}|{record.identifier_key}"


def _records_after(request: web.Request) -> tuple[str, uuid.UUID] | None:
    prefix, _bar, key = text_in(request, "after").rpartition("|")
    try:
        return (prefix, uuid.UUID(key)) if prefix else None
    except ValueError:
        raise web.HTTPNotFound(text=_("This page of the list does not exist.")) from None


ROUTES = (
    web.get(f"/repositories/{NUMBER}", show),
    web.post(f"/repositories/{NUMBER}/harvest", harvest),
    web.get(f"/repositories/{NUMBER}/settings", settings),
    web.post(f"/repositories/{NUMBER}/settings", change),
    web.post(f"/repositories/{NUMBER}/refresh", refresh),
    web.post(f"/repositories/{NUMBER}/unlock", unlock),
    web.get(f"/repositories/{NUMBER}/remove", confirm_removal),
    web.post(f"/repositories/{NUMBER}/remove", remove),
    web.get(f"/repositories/{NUMBER}/records", list_records),
)

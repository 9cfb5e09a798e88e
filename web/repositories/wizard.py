"""Wizard that adds a repository: address, selection, schedule. Works without scripts.

The form carries all values; the repository's responses are cached for half an hour in `Drafts`.
"""

import asyncio
import time
from collections import OrderedDict
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

from aiohttp import web
from multidict import MultiDict

from harvester.access import ACCESSES, SelectionError, access_of
from harvester.client.selection import Selection
from harvester.isolated import isolated
from harvester.listing import repositories_at
from harvester.probing.sample import RepositorySample, SetSize, count_records, fetch_sample
from harvester.reading.errors import AnswerTooLargeError
from harvester.recognition import RepositoryFacts, find_repository
from harvester.registry import Registry, friends_of, load_registry
from harvester.vocabulary import AccessProtocol
from manager.schedules.what_if import clashes_of_new
from oai.child import ProcessKilledError
from oai.errors import RemoteError, TryLaterError, UsageError
from oai.settings import Settings
from web.auth.access import Right, about, needs, visible_repositories, who_asks
from web.auth.organisations import own_folder
from web.repositories.forms import UNASKED, store_context, suggested_folder, typed_address
from web.repositories.wizard_saving import MOST_SETS, WizardForm, add_planned
from web.schedules.forms import field_of, levels, methods, run_spacing, slices
from web.schedules.rules import rule_choices, rule_context
from web.schedules.timing import at_night, timing_in, weekday_names
from web.site.failures import problem_of
from web.site.forms import Form, read_form, relative_folder, texts_of
from web.site.i18n import _, error_text
from web.site.keys import SETTINGS, database_of
from web.site.preferences import CHOICES
from web.site.render import render
from web.site.timeouts import ask_apart, with_short_timeouts
from web.site.zones import here

_MOST: Final = 64
_SECONDS: Final = 1800.0
_FOR_GOING_BACK: Final = {"Cache-Control": "private, no-cache"}
"""The browser's Back shows a step again; with the usual `no-store`, it would show an error of its own."""


def read_steps(values: Mapping[str, Any], context: Mapping[str, Any]) -> tuple[WizardForm | None, Form]:
    """Validate the steps; return them, or None if there are errors, and the form to show again."""
    known = {**values}
    known.setdefault("base_dir", "sample")
    asked, form = read_form(WizardForm, MultiDict(known), context)
    return asked, Form(values=values, errors=form.errors, problem=form.problem)


def fill_in(values: dict[str, str], facts: RepositoryFacts, folder: str) -> None:
    """Set defaults for values that were not chosen yet."""
    access = access_of(facts.protocol)
    prefixes = [found.metadata_prefix for found in facts.formats]
    usual = access.usual_format
    defaults = {
        "metadata_prefix": usual if usual in prefixes or not prefixes else prefixes[0],
        "repository_name": facts.identity.repository_name if facts.identity else "",
        "base_dir": folder,
        "frequency": at_night(values["base_url"]).frequency,
        "time_zone": here().key,
        "validation": "2",
        "method": "0",
    }
    if "step" not in values and access.query is None:
        defaults["incremental"] = "yes"
    values |= {**defaults, **values}


@dataclass(kw_only=True)
class Drafts:
    """Cache of the descriptions of recently queried repositories, for half an hour each."""

    settings: Settings
    clock: Callable[[], float] = time.monotonic
    _kept: OrderedDict[tuple[str, str | None], tuple[float, tuple[str, RepositoryFacts]]] = field(
        default_factory=OrderedDict
    )

    async def ask(
        self, address: str, protocol: str | None = None, *, again: bool = False
    ) -> tuple[str, RepositoryFacts]:
        """Return the repository's base URL and description; queries it if it is not cached, or with `again`.

        Without a protocol, it is detected. Raises ClientError, TryLaterError and SettingsError.
        """
        key = (address, protocol)
        known = self._kept.get(key)
        if known is not None and not again and self.clock() - known[0] < _SECONDS:
            return known[1]
        base_url, facts = await ask_apart(find_repository, address, self.settings, protocol=protocol)
        # Two requests for one address may both have waited above; the later description replaces the other.
        for name in (address, base_url):
            self._kept[name, protocol] = (self.clock(), (base_url, facts))
            self._kept.move_to_end((name, protocol))
        while len(self._kept) > _MOST:
            self._kept.popitem(last=False)
        return base_url, facts


DRAFTS = web.AppKey("drafts", Drafts)

_SETS_SHOWN: Final = 40
_COUNTED: Final = 10
"""Sets that are counted at a time: each is a request."""
_SAVING: Final = frozenset({"save", "save-and-run", "save-and-rule"})
_BEFORE_THE_CHOICE: Final = frozenset({"ask", "sets", "what", "count"})
"""Button actions that are possible while the set or query is not chosen yet."""
_SAME_STEP: Final = {"what": "what", "plan": "show-plan"}
_SUGGESTIONS: Final = 30
_OF_ADDRESS: Final = ("repository_name", "base_dir", "metadata_prefix", "set_spec", "more_sets")


@needs(Right.HARVEST)
async def new(request: web.Request) -> web.Response:
    """Show the first step: the address, typed or chosen from the registry or another repository's friends."""
    return await _address_step(request, Form(values={"base_url": request.query.get("base_url", "")}))


@needs(Right.HARVEST)
async def go_on(request: web.Request) -> web.Response:
    """Perform the button's action: query, search the sets, preview records, go back, or save."""
    posted = await request.post()
    values = texts_of(posted)
    if values.get("step") == "what":
        first, *more = [one for one in map(str, posted.getall("set_spec", [])) if one] or [""]
        values |= {"set_spec": first, "more_sets": " ".join(more)}
    action = values.pop("do", "") or ("save" if "base_dir" in values else "ask")
    if values.keys() & CHOICES:
        # The user chose one; the step is shown again (`redirect_to_page`).
        action = _SAME_STEP.get(values.get("step", ""), "back-to-address")
    form = Form(values=values)
    try:
        values["base_url"] = typed_address(values.get("base_url", "").strip(), _protocol(values))
    except ValueError as error:
        return await _address_step(request, form.with_error("base_url", str(error)))
    if values.pop("described", values["base_url"]) != values["base_url"]:
        for name in _OF_ADDRESS:
            values.pop(name, None)
    if action == "back-to-address":
        return await _address_step(request, form)
    if action == "friends":
        return await _friends(request, form)
    if action in _SAVING and (early := await _folder_fault(request, values)):
        return await _plan_step(request, form.with_error("base_dir", early))
    return await _asked(request, form, values, action)


async def _asked(request: web.Request, form: Form, values: dict[str, str], action: str) -> web.Response:
    """Show the step that needs the repository's description."""
    try:
        values["base_url"], facts = await request.config_dict[DRAFTS].ask(
            values["base_url"], _protocol(values), again=action == "ask"
        )
    except UNASKED as error:
        problem = problem_of(error)
        return await _address_step(request, form.with_error("base_url", problem.title, problem))
    if action not in _SAVING:
        who, base_url = who_asks(request), values["base_url"]
        fill_in(values, facts, await database_of(request).run(suggested_folder, who, base_url))
    if action not in _BEFORE_THE_CHOICE:
        fault = _fault_of_sets(facts, chosen_sets(values))
        if fault:
            return await _what_step(request, form.with_error("set_spec", fault), facts)
    if action in _SAVING:
        return await _save(request, form, facts, action)
    if action in {"plan", "show-plan"}:
        return await _plan_step(request, form, facts)
    return await _what_step(request, form, facts, sample=action == "sample", count=action == "count")


def _fault_of_sets(facts: RepositoryFacts, sets: list[str | None]) -> str:
    """Return what is wrong with the chosen sets; empty if nothing is."""
    if len(sets) > MOST_SETS:
        return _("At most %(most)s sets at a time; harvest the whole repository, or add others later.") % {
            "most": MOST_SETS
        }
    try:
        for spec in sets:
            access_of(facts.protocol).check(spec)
    except SelectionError as error:
        return error_text(error)
    return ""


async def _address_step(
    request: web.Request, form: Form, friends: tuple[str, ...] | None = None
) -> web.Response:
    settings = request.config_dict[SETTINGS]
    words = request.query.get("find", "").strip()
    registry = await _registry(settings) if words else None
    found = registry.search(words, _SUGGESTIONS) if registry else []
    return render(
        request,
        "wizard_address.html",
        status=422 if form.errors else 200,
        headers=_FOR_GOING_BACK,
        form=form,
        find=words,
        protocols=[
            ("", _("Detect automatically")),
            *((one.protocol, one.title) for one in ACCESSES.values()),
        ],
        has_registry=settings.harvester.registry_url is not None,
        registry=registry,
        found=found,
        friends=friends,
    )


async def _registry(settings: Settings) -> Registry:
    """Return the list of repositories, fetched by a child process."""
    asked = with_short_timeouts(settings)
    url = asked.harvester.registry_url or ""
    try:
        return await isolated(load_registry, asked, url=url, limits=asked.harvester.limits)
    except (AnswerTooLargeError, ProcessKilledError) as error:
        return Registry(trouble=str(error))


async def _friends(request: web.Request, form: Form) -> web.Response:
    settings = request.config_dict[SETTINGS]
    try:
        found = await ask_apart(friends_of, str(form.values["base_url"]), settings)
    except UsageError as error:
        return await _address_step(request, form.with_error("base_url", error_text(error)))
    except (RemoteError, TryLaterError) as error:
        problem = problem_of(error)
        return await _address_step(request, form.with_error("base_url", problem.title, problem))
    return await _address_step(request, form, tuple(found))


def chosen_sets(values: Mapping[str, object]) -> list[str | None]:
    """Return the chosen sets; None for the whole repository."""
    return [str(values.get("set_spec") or "") or None, *str(values.get("more_sets", "")).split()]


async def _what_step(
    request: web.Request, form: Form, facts: RepositoryFacts, *, sample: bool = False, count: bool = False
) -> web.Response:
    values = form.values
    sizes: dict[str, SetSize] = {}
    tried: RepositorySample | None = None
    if sample:
        form, tried = await _try(request, form, facts)
    words = str(values.get("set_words", "")).strip().lower()
    matching = [one for one in facts.sets if words in f"{one.set_spec} {one.set_name}".lower()]
    chosen = {one for one in chosen_sets(values) if one}
    shown = matching[:_SETS_SHOWN]
    if count:
        form, sizes = await _count(request, form, [one.set_spec for one in shown])
    base_url, among = str(values.get("base_url", "")), visible_repositories(who_asks(request))
    listed = {one.set_spec for one in shown}
    shown = [*(one for one in facts.sets if one.set_spec in chosen - listed), *shown]
    return render(
        request,
        "wizard_what.html",
        status=422 if form.errors else 200,
        headers=_FOR_GOING_BACK,
        form=form,
        facts=facts,
        access=access_of(facts.protocol),
        sets=shown,
        chosen=chosen,
        sizes=sizes,
        matching=len(matching),
        sample=tried,
        present=await database_of(request).run(repositories_at, base_url, among),
    )


async def _count(request: web.Request, form: Form, shown: list[str]) -> tuple[Form, dict[str, SetSize]]:
    """Count the records of the chosen sets, or of the first ones that are shown."""
    wanted = [one for one in chosen_sets(form.values) if one] or shown
    try:
        return form, await ask_apart(
            count_records,
            str(form.values["base_url"]),
            request.config_dict[SETTINGS],
            str(form.values.get("metadata_prefix", "")),
            wanted[:_COUNTED],
        )
    except UNASKED as error:
        problem = problem_of(error)
        return form.with_error("sample", problem.title, problem), {}


async def _try(
    request: web.Request, form: Form, facts: RepositoryFacts
) -> tuple[Form, RepositorySample | None]:
    """Fetch ten records of the selection and apply the rules."""
    settings = request.config_dict[SETTINGS]
    asked, checked = await asyncio.to_thread(read_steps, form.values, await _context(request))
    if asked is None:
        return checked, None
    selection = Selection(metadata_prefix=asked.metadata_prefix, set_spec=asked.set_spec)
    named = (asked.filter_file_path, asked.normalize_file_path)
    rules = [Path(name) if name else None for name in named]
    try:
        return form, await ask_apart(
            fetch_sample, asked.base_url, settings, selection, *rules, protocol=facts.protocol
        )
    except UNASKED as error:
        problem = problem_of(error)
        return form.with_error("sample", problem.title, problem), None


async def _plan_step(request: web.Request, form: Form, facts: RepositoryFacts | None = None) -> web.Response:
    settings, who, database = request.config_dict[SETTINGS], who_asks(request), database_of(request)
    context, spacing = await _context(request), run_spacing(request, None, owned=not who.sees_everything)
    asked, checked = await asyncio.to_thread(read_steps, form.values, context)
    errors = {**checked.errors, **form.errors}
    shown = Form(values=form.values, errors=errors, problem=form.problem)
    return render(
        request,
        "wizard_plan.html",
        status=422 if errors else 200,
        headers=_FOR_GOING_BACK,
        form=shown,
        access=access_of(facts.protocol if facts else _protocol(form.values) or AccessProtocol.OAI_PMH),
        plan=asked,
        sets=[one for one in chosen_sets(form.values) if one],
        runs=asked.next_runs(*spacing) if asked else [],
        clashes=asked
        and await database.run(
            clashes_of_new,
            asked.base_url,
            asked.times_within_week(*spacing) if asked.frequency else [],
            among=visible_repositories(who),
        ),
        store=own_folder(who).name if not who.sees_everything else settings.store,
        rule_files=rule_choices(context, form.values),
        chosen=timing_in(form.values),
        weekdays=weekday_names(),
        methods=methods(),
        levels=levels(),
        slices=slices(),
    )


async def _save(request: web.Request, form: Form, facts: RepositoryFacts, action: str) -> web.Response:
    asked, checked = await asyncio.to_thread(read_steps, form.values, await _context(request))
    if asked is None:
        return await _plan_step(request, checked, facts)
    name, run = str(form.values.get("repository_name", "")).strip(), action == "save-and-run"
    try:
        made = await database_of(request).run(add_planned, request, asked, facts, name=name, run=run)
    except UsageError as error:
        field = field_of(error, otherwise="base_dir")
        return await _plan_step(request, form.with_error(field, error_text(error)), facts)
    about(request, "repository", made.repository_id)
    raise web.HTTPSeeOther(made.page_after(action, asked))


async def _folder_fault(request: web.Request, values: Mapping[str, str]) -> str | None:
    """Return the error in the directory; checked before the repository is queried."""
    store = request.config_dict[SETTINGS].store / own_folder(who_asks(request))
    if not (folder := values.get("base_dir", "").strip()):
        return _("Fill in this field.")
    try:
        await asyncio.to_thread(relative_folder, folder, store)
    except ValueError as error:
        return str(error)
    return None


async def _context(request: web.Request) -> dict[str, Any]:
    """Return the context for validating the steps."""
    return {**await rule_context(request), **await store_context(request)}


def _protocol(values: Mapping[str, object]) -> str | None:
    """Return the chosen protocol; None if it is to be detected."""
    return str(values.get("protocol", "")) or None


ROUTES = (web.get("/repositories/new", new), web.post("/repositories/new", go_on))

"""Filtering sets: list, edit as rows, try on stored records before saving, remove."""

import re
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Final

from aiohttp import web
from multidict import MultiDict
from pydantic import Field
from sqlalchemy.orm import Session

from harvester.bibliographic import filtering_sets
from harvester.bibliographic.condition_trial import Trial
from harvester.bibliographic.conditions import Condition, Conditions, Match, Operator, parse_condition
from harvester.bibliographic.filtering_sets import NamedSet
from harvester.bibliographic.models import FilteringSet
from harvester.models import Repository
from oai.audit import last_change
from oai.errors import UsageError
from web.auth.access import Right, about, asked_for, needs, who_asks
from web.auth.set_owners import change_seen_set, may_change, name_for, remove_seen_set, set_seen, sets_seen
from web.repositories.forms import repository_choices
from web.rules.trials import TRIALS
from web.site.faults import conflicts
from web.site.forms import (
    Form,
    FormModel,
    StaleFormError,
    filled_from,
    keeping_other_changes,
    locked_row,
    read_form,
    texts_of,
)
from web.site.i18n import _, error_text
from web.site.keys import database_of
from web.site.params import NUMBER, number_of
from web.site.render import confirmation, render

_PARTS: Final = ("field", "places", "indicators", "subfield", "operator", "value", "inverted")
_NUMBERED: Final = re.compile(r"(field|places|indicators|subfield|value)-(\d{1,2})")
_LAST_ROW: Final = 99
BLANK_ROWS: Final = 3
_MORE: Final = 5
_SAMPLE: Final = "sample_"


class SetForm(FormModel):
    """Name of a filtering set."""

    name: str = Field(min_length=1, max_length=200)
    description: str = Field("", max_length=2000)
    match: Match = Match.ALL


class TrialForm(FormModel):
    """The stored records on which conditions are tried."""

    repository: int = Field(ge=1, le=999_999_999)
    samples: int = Field(100, ge=1, le=1000)


@dataclass(frozen=True, kw_only=True)
class SubmittedConditions:
    """The submitted conditions, parsed, or their errors by field name."""

    rules: Conditions
    errors: Mapping[str, str] = field(default_factory=dict)


def read_conditions(values: Mapping[str, str]) -> SubmittedConditions:
    """Parse the conditions in the form's rows; empty rows are skipped."""
    found, errors = [], {}
    for number in row_numbers(values, blank=0):
        try:
            found.append(parse_condition(_line(values, number)))
        except UsageError as error:
            errors[f"field-{number}"] = error_text(error)
    if not found and not errors:
        errors["conditions"] = _("Enter at least one condition.")
    match = Match(values["match"]) if values.get("match") in set(Match) else Match.ALL
    return SubmittedConditions(rules=Conditions(match=match, conditions=found), errors=errors)


def values_of(found: NamedSet) -> dict[str, str]:
    """Return the form values of a filtering set."""
    values = {"name": found.name, "description": found.description, "match": found.rules.match.value}
    for number, one in enumerate(found.rules.conditions):
        places = f"{one.first_character}-{one.last_character}" if one.first_character is not None else ""
        given = (one.field, places, one.indicators, one.subfield, one.operator.value, one.value)
        row = dict(zip(_PARTS, (*given, "yes" if one.inverted else ""), strict=True))
        values |= {f"{name}-{number}": text for name, text in row.items() if text}
    return values


def row_numbers(values: Mapping[str, object], *, blank: int = BLANK_ROWS) -> list[int]:
    """Return the numbers of the non-empty rows, followed by `blank` numbers of empty rows."""
    found = {_NUMBERED.fullmatch(name) for name, value in values.items() if str(value).strip()}
    used = sorted({int(one[2]) for one in found if one is not None})
    first = used[-1] + 1 if used else 0
    return [*used, *range(first, min(first + blank, _LAST_ROW + 1))]


def _line(values: Mapping[str, str], number: int) -> str:
    """Return a row as the line that `parse_condition` reads."""
    given = {name: values.get(f"{name}-{number}", "").strip() for name in _PARTS}
    operator = given["operator"] or Operator.CONTAINS.value
    place = given["field"]
    if given["places"]:
        place += f"/{given['places']}"
    if given["indicators"]:
        place += f"[{given['indicators']}]"
    if given["subfield"]:
        place += f"${given['subfield'].removeprefix('$')}"
    return f"{'not ' if given['inverted'] else ''}{place} {operator} {given['value']}".strip()


@dataclass(frozen=True, kw_only=True)
class _EditorState:
    """State of the editor."""

    values: Mapping[str, str]
    found: NamedSet | None = None
    """None for a new set."""
    errors: Mapping[str, str] = field(default_factory=dict)
    is_stale: bool = False
    blank: int = BLANK_ROWS
    trial: Trial | None = None
    conditions: tuple[Condition, ...] = ()
    """The records on which the conditions were tried."""


async def listing(request: web.Request) -> web.Response:
    """List the sets, each with the sources that use it and that the user may see."""
    who = who_asks(request)
    sets = await database_of(request).run(sets_seen, who)
    names = dict(await repository_choices(request))
    own = {one.set_id for one in sets if may_change(who, one)}
    return render(request, "filtering_sets.html", sets=sets, names=names, own=own, in_words=_in_words)


@needs(Right.HARVEST)
async def new(request: web.Request) -> web.Response:
    """Show the editor for a new set."""
    return await _page(request, _EditorState(values={"match": "all", "operator-0": "contains"}))


@needs(Right.HARVEST)
async def add(request: web.Request) -> web.Response:
    """Save a new set, try it, or show more rows."""
    return await _go_on(request, _EditorState(values=texts_of(await request.post())))


@needs(Right.HARVEST)
async def edit(request: web.Request) -> web.Response:
    """Show the editor for an existing set."""
    found = await set_of(request, number_of(request))
    return await _page(request, _EditorState(values=filled_from(values_of(found)), found=found))


@needs(Right.HARVEST)
async def change(request: web.Request) -> web.Response:
    """Save a changed set, try it, or show more rows; as a new set if it was removed."""
    values = texts_of(await request.post())
    try:
        found = await set_of(request, number_of(request))
    except web.HTTPNotFound as error:
        errors = {"name": _("It was removed in the meantime. Enter a name to save it as a new one.")}
        page = await _page(request, _EditorState(values=values, errors=errors))
        page.set_status(error.status)
        return page
    return await _go_on(request, _EditorState(values=values, found=found))


@needs(Right.HARVEST)
async def confirm_removal(request: web.Request) -> web.Response:
    """Ask for confirmation before a set is removed."""
    found = await set_of(request, number_of(request))
    return confirmation(
        request,
        _("Remove the filtering set %(name)s?") % {"name": found.name},
        _("Its conditions are deleted permanently. Imported records are kept."),
        steps=[(_("Imports"), "/imports"), (_("Filtering sets"), "/imports/sets")],
        button=_("Remove set"),
    )


@needs(Right.HARVEST)
async def remove(request: web.Request) -> web.Response:
    """Remove a set that no source uses."""
    found = await set_of(request, number_of(request))
    if found.used_by:
        raise web.HTTPConflict(text=_("This set is used by sources. Choose another set for them first."))
    with conflicts():
        await database_of(request).run(remove_seen_set, found)
    raise web.HTTPSeeOther("/imports/sets?done=set-removed")


async def _go_on(request: web.Request, state: _EditorState) -> web.Response:
    step = state.values.get("do", "save")
    if step == "more":
        return await _page(request, replace(state, blank=_MORE + BLANK_ROWS))
    typed = read_conditions(state.values)
    if typed.errors:
        return await _page(request, replace(state, errors=typed.errors))
    if step == "try":
        return await _try(request, state)
    return await _save(request, state)


async def _save(request: web.Request, state: _EditorState) -> web.Response:
    asked, form = read_form(SetForm, MultiDict(state.values) if state.found is None else _named(state))
    if asked is None:
        return await _page(request, replace(state, errors=form.errors))
    rules = read_conditions(state.values).rules
    database, found = database_of(request), state.found

    def edit(session: Session, found: NamedSet) -> NamedSet:
        locked_row(session, FilteringSet, found.set_id)
        number = found.set_id
        last = partial(last_change, session, "filtering set", number)
        with keeping_other_changes(form, lambda: values_of(filtering_sets.set_by_id(session, number)), last):
            return change_seen_set(session, found, rules, asked.description)

    try:
        if found is None:
            name = name_for(who_asks(request), asked.name)
            made = await database.run(
                filtering_sets.add_set,
                name=name,
                match=rules.match,
                conditions=rules.conditions,
                description=asked.description,
            )
        else:
            made = await database.run(edit, found)
    except StaleFormError as error:
        values = {name: str(value) for name, value in error.form.values.items()}
        return await _page(request, replace(state, values=values, errors=error.form.errors, is_stale=True))
    except UsageError as error:
        shown = "name" if found is None else "description"
        return await _page(request, replace(state, errors={shown: error_text(error)}))
    about(request, "filtering set", made.set_id, made.name)
    raise web.HTTPSeeOther("/imports/sets?done=set-saved")


def _named(state: _EditorState) -> MultiDict[str]:
    """Return the values with the set's existing name, which cannot be changed here."""
    return MultiDict({**state.values, "name": state.found.name if state.found else ""})


async def _try(request: web.Request, state: _EditorState) -> web.Response:
    given = {
        name.removeprefix(_SAMPLE): one for name, one in state.values.items() if name.startswith(_SAMPLE)
    }
    asked, form = read_form(TrialForm, MultiDict(given))
    if asked is None:
        errors = {_SAMPLE + name: text for name, text in form.errors.items()}
        return await _page(request, replace(state, errors=errors))
    repository = await asked_for(request, Repository, asked.repository)
    rules = read_conditions(state.values).rules
    try:
        trial = await request.config_dict[TRIALS].conditions(
            rules, repository.repository_id, samples=asked.samples
        )
    except UsageError as error:
        return await _page(request, replace(state, errors={"conditions": error_text(error)}))
    return await _page(request, replace(state, trial=trial, conditions=tuple(rules.conditions)))


async def _page(request: web.Request, state: _EditorState) -> web.Response:
    form = Form(
        values={"sample_samples": "100", **state.values}, errors=state.errors, is_stale=state.is_stale
    )
    return render(
        request,
        "filtering_set.html",
        status=form.status,
        form=form,
        found=state.found,
        owner="" if who_asks(request).sees_everything else who_asks(request).organisation,
        rows=row_numbers(state.values, blank=state.blank),
        operators=list(_operators().items()),
        in_words=_in_words,
        repositories=await repository_choices(request),
        trial=state.trial,
        conditions=state.conditions,
    )


def _operators() -> dict[str, str]:
    return {
        Operator.CONTAINS.value: _("contains"),
        Operator.EQUALS.value: _("equals"),
        Operator.MATCHES.value: _("matches the regular expression"),
        Operator.EXISTS.value: _("exists"),
    }


def _in_words(condition: Condition) -> str:
    """Return a condition as the editor shows it."""
    words = f"{condition.place} {_operators()[condition.operator.value]}"
    if condition.operator is not Operator.EXISTS:
        words += f" {condition.value}"
    return _("not: %(condition)s") % {"condition": words} if condition.inverted else words


async def set_of(request: web.Request, number: int, *, to_change: bool = True) -> NamedSet:
    """Return the set with that number; respond 404 if the user sees none, 403 if it cannot be changed."""
    who = who_asks(request)
    found = await database_of(request).run(set_seen, who, number)
    if found is None:
        raise web.HTTPNotFound(text=_("The filtering set does not exist; it may have been removed."))
    if to_change and not may_change(who, found):
        raise web.HTTPForbidden(text=_("This set is shared; only administrators can change it."))
    about(request, "filtering set", found.set_id, found.name)
    return found


ROUTES: Final = (
    web.get("/imports/sets", listing),
    web.get("/imports/sets/new", new),
    web.post("/imports/sets/new", add),
    web.get(f"/imports/sets/{NUMBER}/edit", edit),
    web.post(f"/imports/sets/{NUMBER}/edit", change),
    web.get(f"/imports/sets/{NUMBER}/remove", confirm_removal),
    web.post(f"/imports/sets/{NUMBER}/remove", remove),
)

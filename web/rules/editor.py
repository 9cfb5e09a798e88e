"""The rule editor: rows or XML over one file, tried on samples before it is saved as a version."""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Final

from aiohttp import web
from multidict import MultiDict
from sqlalchemy.orm import Session

from harvester.access import SelectionError
from harvester.models import Repository
from harvester.rule_lab import versions
from harvester.rule_lab.examples import EXAMPLES
from harvester.rule_lab.explanation import Explained, RuleEffect
from harvester.rule_lab.fields import FoundField
from harvester.rule_lab.models import Rule
from harvester.rule_lab.rows import lost_as_rows, rows_of
from harvester.rule_lab.trial import Trial
from harvester.rule_lab.versions import as_text, get_version, last_version
from harvester.rules.rule_files import RuleFileError
from harvester.vocabulary import RuleKind
from manager.rule_usage import uses_of
from oai.errors import UsageError
from oai.settings import Settings
from web.auth.access import Right, about, asked_for, needs, who_asks
from web.auth.sessions import SignedIn
from web.repositories.forms import UNASKED, repository_choices
from web.rules.conditions import (
    CONDITIONS,
    Fields,
    conditions_of,
    read_conditions,
    used,
)
from web.rules.conditions import (
    choices as choices_of_operators,
)
from web.rules.forms import (
    BLANK_NAMESPACES,
    BLANK_ROWS,
    ROWS,
    TEXTS_OF_ROWS,
    XML,
    Edited,
    RuleForm,
    fits_rows,
    numbers,
    placed,
    read_edited,
    values_of,
)
from web.rules.pages import kinds, rule_of
from web.rules.trials import STORED, TRIALS, SampleForm
from web.rules.unapplied import unapplied
from web.rules.wizard_rule import add_rule, page_before, values_given
from web.site.failures import problem_of
from web.site.forms import BASED_ON, Form, StaleFormError, read_form, texts_of
from web.site.i18n import _, error_text
from web.site.keys import SETTINGS, database_of
from web.site.paging import as_number
from web.site.params import NUMBER
from web.site.render import render

_MORE: Final = 5
_SHOWN: Final = 5
_SAMPLE: Final = "sample_"


@dataclass(frozen=True, kw_only=True)
class _EditorState:
    """State of the editor."""

    kind: RuleKind
    values: Mapping[str, object]
    rule: Rule | None = None
    before: bytes | None = None
    """Number of the version that the values come from; None for a new rule."""
    errors: Mapping[str, str] = field(default_factory=dict)
    is_stale: bool = False
    """A newer version was saved since the editor was opened."""
    line: int = 0
    trial: Trial | None = None


@needs(Right.HARVEST)
async def new(request: web.Request) -> web.Response:
    """Show the editor for a new rule, empty or with an example."""
    kind, content, name = RuleKind.FILTER, b"", ""
    if request.query.get("kind") in set(RuleKind):
        kind = RuleKind(request.query["kind"])
    for example in EXAMPLES:
        if example.key == request.query.get("example"):
            kind, content, name = example.kind, example.content, _(example.title)
    values: dict[str, object] = {
        "view": CONDITIONS if kind is RuleKind.FILTER else ROWS,
        "prefix-0": "dc",
        "uri-0": "http://purl.org/dc/elements/1.1/",
    }
    if content:
        values = values_of(rows_of(content, kind, source="example"))
    values |= {"name": name, **values_given(request.query)}
    return await _page(request, _EditorState(kind=kind, values=values))


@needs(Right.HARVEST)
async def add(request: web.Request) -> web.Response:
    """Save a new rule, try it, or show it in the other view."""
    values = texts_of(await request.post())
    state = _EditorState(kind=_kind_in(values), values=values)
    if values.get("do", "save") == "save":
        return await _save_new(request, state)
    return await _go_on(request, state)


@needs(Right.HARVEST)
async def edit(request: web.Request) -> web.Response:
    """Show the editor with the current version or an older one."""
    rule = await rule_of(request)
    kind, wanted = RuleKind(rule.kind), request.query.get("version", "")

    def read(session: Session) -> tuple[int, bytes]:
        last = last_version(session, rule.rule_id)
        # The first version is 1, so what is not a number is not found as 0.
        shown = get_version(session, rule.rule_id, as_number(wanted) or 0) if wanted else last
        return last.number, shown.content

    try:
        number, content = await database_of(request).run(read)
    except UsageError as error:
        raise web.HTTPNotFound(text=error_text(error)) from None
    view = request.query.get("view", CONDITIONS)
    values = _shown_as(view, content, kind) | {BASED_ON: str(number)}
    values["sample_repository"] = str(rule.repository_id or "")
    return await _page(request, _EditorState(kind=kind, values=values, rule=rule, before=content))


@needs(Right.HARVEST)
async def change(request: web.Request) -> web.Response:
    """Save a new version, try it, or show it in the other view; as a new rule if the rule was removed."""
    values = texts_of(await request.post())
    try:
        rule = await rule_of(request)
    except web.HTTPNotFound as error:
        errors = {"name": _("It was removed in the meantime. Enter a name to save it as a new one.")}
        state = _EditorState(kind=_kind_in(values), values=values, errors=errors)
        page = await _page(request, state)
        page.set_status(error.status)
        return page
    last = await database_of(request).run(last_version, rule.rule_id)
    state = _EditorState(kind=RuleKind(rule.kind), values=values, rule=rule, before=last.content)
    if values.get("do", "save") != "save":
        return await _go_on(request, state)
    edited = _read(values, state.kind, last.content)
    if edited.errors:
        return await _faulty(request, state, edited)
    settings = request.config_dict[SETTINGS]
    try:
        saved, applies = await database_of(request).run(
            _save, settings, rule.rule_id, edited.content, values, who=who_asks(request)
        )
    except StaleFormError as error:
        return await _page(request, replace(state, values=error.form.values, is_stale=True))
    except UsageError as error:
        return await _page(request, replace(state, errors={"note": error_text(error)}))
    about(request, "rule", rule.rule_id, rule.name, version=saved)
    raise web.HTTPSeeOther(f"/rules/{rule.rule_id}?done=rule-saved{'' if applies else '-unused'}")


def _kind_in(values: Mapping[str, str]) -> RuleKind:
    return RuleKind(values["kind"]) if values.get("kind") in set(RuleKind) else RuleKind.FILTER


def _save(
    session: Session,
    settings: Settings,
    rule_id: int,
    content: bytes,
    values: Mapping[str, str],
    *,
    who: SignedIn,
) -> tuple[int, bool]:
    """Save the content as a new version; return its number, and whether the next harvest applies it to all.

    Raises StaleFormError if that undoes a newer one.
    """
    rule = versions.get_rule(session, rule_id, lock=True)
    last, based_on = last_version(session, rule_id), as_number(values.get(BASED_ON, ""))
    if based_on not in {None, last.number} and content != last.content:
        raise StaleFormError(Form(values={**values, BASED_ON: str(last.number)}, is_stale=True))
    note = values.get("note", "")[:500]
    saved = versions.save_version(session, settings, rule_id, content, by=who.name, note=note)
    applies = uses_of(session, settings, rule) and not unapplied(session, settings, who, rule)
    return saved.number, bool(applies)


async def _save_new(request: web.Request, state: _EditorState) -> web.Response:
    values = {name: str(value) for name, value in state.values.items()}
    asked, form = read_form(RuleForm, await request.post())
    edited = _read(values, state.kind, None)
    if asked is None or edited.errors:
        return await _faulty(request, replace(state, errors=form.errors), edited)
    if asked.repository_id is not None:
        await asked_for(request, Repository, asked.repository_id)
    elif not who_asks(request).sees_everything:
        errors = {"repository_id": _("Choose one of your repositories.")}
        return await _page(request, replace(state, errors=errors))
    draft = versions.RuleDraft(
        kind=state.kind,
        name=asked.name,
        content=edited.content,
        description=asked.description,
        repository_id=asked.repository_id,
    )
    try:
        rule, users = await database_of(request).run(add_rule, request, draft, values)
    except UsageError as error:
        return await _page(request, replace(state, errors={"name": error_text(error)}))
    about(request, "rule", rule.rule_id, rule.name)
    done = "rule-made" if not users else f"rule-made-for-schedule{'s' if users > 1 else ''}"
    raise web.HTTPSeeOther(f"/rules/{rule.rule_id}?done={done}")


async def _go_on(request: web.Request, state: _EditorState) -> web.Response:
    """Perform an action other than saving: more rows, the other view, a trial."""
    values = {name: str(value) for name, value in state.values.items()}
    step = values["do"]
    if step == "more":
        values["blank"] = str(_blank(values) + _MORE)
        return await _page(request, replace(state, values=values))
    if step == "fields":
        return await _page(request, replace(state, values=values))
    if step in set(RuleKind):
        return await _page(request, _of_kind(state, RuleKind(step)))
    edited = _read(values, state.kind, state.before)
    if edited.errors:
        return await _faulty(request, state, edited)
    if step in {CONDITIONS, ROWS, XML}:
        kept = {name: value for name, value in values.items() if not _belongs_to_view(name)}
        return await _page(
            request, replace(state, values={**kept, **_shown_as(step, edited.content, state.kind)})
        )
    return await _try(request, state, edited)


def _of_kind(state: _EditorState, kind: RuleKind) -> _EditorState:
    """Return the state for another kind of rule with all that was entered."""
    view = state.values.get("view")
    if view != XML:
        has_rows = not used(state.values) and bool(numbers(state.values, ("xpath",), blank=0))
        view = ROWS if kind is RuleKind.NORMALISE or has_rows else CONDITIONS
    return replace(state, kind=kind, values={**state.values, "view": view})


async def _try(request: web.Request, state: _EditorState, edited: Edited) -> web.Response:
    asked, form = _sample(state.values)
    if asked is None:
        errors = {_SAMPLE + name: text for name, text in form.errors.items()}
        return await _page(request, replace(state, errors=errors))
    repository = await asked_for(request, Repository, asked.repository)
    try:
        trial = await request.config_dict[TRIALS].run(edited.content, state.kind, asked, repository)
    except SelectionError as error:
        return await _page(request, replace(state, errors={f"{_SAMPLE}set_spec": error_text(error)}))
    except UsageError as error:
        return await _page(request, replace(state, errors={f"{_SAMPLE}repository": error_text(error)}))
    except UNASKED as error:
        problem = problem_of(error)
        text = " ".join((problem.title, *problem.lines))
        return await _page(request, replace(state, errors={f"{_SAMPLE}repository": text}))
    return await _page(request, replace(state, trial=trial))


async def _faulty(request: web.Request, state: _EditorState, edited: Edited) -> web.Response:
    return await _page(request, replace(state, errors={**state.errors, **edited.errors}, line=edited.line))


async def _page(request: web.Request, state: _EditorState) -> web.Response:
    values, unrestricted = state.values, who_asks(request).sees_everything
    shared = [("", _("All users who see all repositories"))] if unrestricted else []
    choices = await repository_choices(request)
    text = str(values.get("content", "")).splitlines()
    samples = str(values.get("sample_repository") or (choices[0][0] if choices else ""))
    values = {"sample_samples": "100", "sample_source": STORED, **values, "sample_repository": samples}
    errors, fields = dict(state.errors), Fields()
    if values.get("view") == CONDITIONS:
        found, fault = await _fields(request, values)
        fields = Fields(found=found).beside(values)
        errors |= {f"{_SAMPLE}repository": fault} if fault else {}
    form = Form(
        values={"match": "all" if fields.options else "any", **values, **fields.spaces},
        errors=errors,
        is_stale=state.is_stale,
    )
    return render(
        request,
        "rule_editor.html",
        status=form.status,
        form=form,
        rule=state.rule,
        kind=state.kind.value,
        kinds=kinds(),
        back=f"/rules/{state.rule.rule_id}" if state.rule else page_before(values),
        view=_view(values, fields),
        fields=fields,
        operators=choices_of_operators(values),
        conditions=range(max(used(values), default=-1) + 1 + _blank(values)),
        owners=[*shared, *choices],
        repositories=choices,
        spaces=numbers(values, ("prefix", "uri"), blank=BLANK_NAMESPACES),
        rows=numbers(values, TEXTS_OF_ROWS[state.kind], blank=_blank(values)),
        entries_elsewhere=_entries_elsewhere(values, state.kind, _view(values, fields)),
        lost=_lost(state),
        faulty_line=text[state.line - 1] if 0 < state.line <= len(text) else "",
        trial=state.trial,
        shown=_shown(state.trial),
    )


async def _fields(request: web.Request, values: Mapping[str, object]) -> tuple[list[FoundField], str]:
    """Return the fields of the chosen sample records, and why there are none."""
    asked = _sample(values)[0]
    if asked is None:
        return [], ""
    try:
        repository = await asked_for(request, Repository, asked.repository)
        return await request.config_dict[TRIALS].fields(asked, repository), ""
    except (SelectionError, UsageError) as error:
        # Where nothing is stored yet, the editor offers XPaths.
        return [], "" if asked.source == STORED else error_text(error)
    except UNASKED as error:
        problem = problem_of(error)
        return [], " ".join((problem.title, *problem.lines))


def _sample(values: Mapping[str, object]) -> tuple[SampleForm | None, Form]:
    """Return which records the form chooses to try rules on."""
    names = {name.removeprefix(_SAMPLE): value for name, value in values.items() if name.startswith(_SAMPLE)}
    return read_form(SampleForm, MultiDict({name: str(value) for name, value in names.items()}))


def _view(values: Mapping[str, object], fields: Fields) -> str:
    """Return the view to show: rows where no field can be offered."""
    if values.get("view") == CONDITIONS and not fields.options:
        return ROWS
    return str(values["view"]) if values.get("view") in {CONDITIONS, XML} else ROWS


def _read(values: Mapping[str, str], kind: RuleKind, before: bytes | None) -> Edited:
    """Return the rule file made from the form, in whichever view it was edited."""
    if values.get("view") != CONDITIONS:
        return read_edited(values, kind, before)
    read = read_conditions(values)
    if read.errors:
        return Edited(errors=read.errors)
    edited = read_edited(read.values, kind, before)
    errors = {
        name.replace("xpath-", "field-").replace("regexp-", "value-"): text
        for name, text in edited.errors.items()
    }
    return replace(edited, errors=errors)


def _shown(trial: Trial | None) -> list[Explained]:
    """Return a few records of each outcome."""
    records = trial.records if trial else ()
    return [record for fate in RuleEffect for record in [one for one in records if one.fate is fate][:_SHOWN]]


def _shown_as(view: str, content: bytes, kind: RuleKind) -> dict[str, object]:
    """Return the form values of the content in that view; XML if rows cannot represent it."""
    try:
        rows = rows_of(content, kind, source="the file")
    except RuleFileError as error:
        return {"view": XML, "content": as_text(content), "odd": placed(error)}
    conditions = (
        conditions_of(rows) if view == CONDITIONS and kind is RuleKind.FILTER and rows.filters else None
    )
    if conditions is not None:
        return conditions
    if view != XML and fits_rows(rows):
        return values_of(rows)
    return {"view": XML, "content": as_text(content)}


def _lost(state: _EditorState) -> list[str]:
    """Return the comments that would be lost by saving rows."""
    if state.before is None or state.values.get("view") == XML:
        return []
    try:
        return list(lost_as_rows(state.before, state.kind, source="the file"))
    except RuleFileError:
        return []


def _belongs_to_view(name: str) -> bool:
    rows = (
        "field-",
        "operator-",
        "value-",
        "prefix-",
        "uri-",
        "xpath-",
        "name-",
        "regexp-",
        "values-",
        "ignore-",
        "invert-",
    )
    return name.startswith(rows) or name in {"view", "content", "match"}


def _entries_elsewhere(values: Mapping[str, object], kind: RuleKind, view: str) -> dict[str, object]:
    """Return what was entered for the other kind of rule, so that it is there if that is chosen again."""
    if view == XML:
        shown: tuple[str, ...] = ("content",)
    elif view == CONDITIONS:
        shown = ("field-", "operator-", "value-", "prefix-", "uri-", "match")
    else:
        ticks = ("ignore-", "invert-", "match") if kind is RuleKind.FILTER else ("ignore-",)
        shown = ("prefix-", "uri-", *ticks, *(f"{name}-" for name in TEXTS_OF_ROWS[kind]))
    return {
        name: value
        for name, value in values.items()
        if value and name != "view" and _belongs_to_view(name) and not name.startswith(shown)
    }


def _blank(values: Mapping[str, Any]) -> int:
    rows = as_number(str(values.get("blank", "")), largest=99)
    return BLANK_ROWS if rows is None else rows


ROUTES: Final = (
    web.get("/rules/new", new),
    web.post("/rules/new", add),
    web.get(f"/rules/{NUMBER}/edit", edit),
    web.post(f"/rules/{NUMBER}/edit", change),
)

"""REST API: filter and normalisation rules: versions, trials on samples, and replays."""

from collections.abc import Sequence
from datetime import datetime
from functools import partial
from typing import Any, Final

from pydantic import Field, ValidationInfo, field_validator

from harvester.harvest_plan import LONGEST_SELECTION
from harvester.models import Repository
from harvester.rule_lab import versions
from harvester.rule_lab.files import kind_of
from harvester.rule_lab.models import Rule, RuleVersion
from harvester.rule_lab.versions import RuleView, as_text, last_version, list_rules, list_versions
from harvester.rules.rule_files import RuleFileError
from harvester.vocabulary import RuleKind
from manager.replays import KeptRun, kept_runs
from oai.errors import TryLaterError, UsageError
from oai.rights import Right
from web.api.faults import ApiError, FieldFault
from web.api.operations import Call, Operations
from web.api.paging import list_page
from web.api.shapes import In, Out, Page, Paged
from web.auth.access import about, asked_for, visible_repositories
from web.rules.replay import REPLAYS, Replay, wanted_replay
from web.rules.trials import LIVE, STORED, TRIALS, SampleForm
from web.site.forms import check_plain_text

OPERATIONS: Final = Operations("rules")

_LONGEST: Final = 1024**2


class RuleQuery(Paged):
    """Filters for rules."""

    kind: RuleKind | None = Field(None, description="Limit to this kind of rule.")


class RuleOut(Out):
    """A rule with its latest version."""

    rule_id: int
    kind: str = Field(description="filter or normalise.")
    name: str
    description: str
    repository_id: int | None = Field(
        description="Repository that the rule belongs to; null: shared by all users who see all repositories."
    )
    path: str = Field(description="Path of its file below the data folder, as used in schedules.")
    number: int = Field(description="Number of the last version.")
    saved: datetime
    saved_by: str | None
    digest: str = Field(description="SHA-256 of the file, also recorded by the runs that use it.")


class VersionOut(Out):
    """A version of a rule."""

    number: int
    saved: datetime
    saved_by: str | None = Field(description="Null: taken from the file.")
    note: str
    digest: str
    content: str


class Versions(Out):
    """The versions, newest first; at most 200."""

    items: list[VersionOut]


class _WithContent(In):
    """The base of bodies with a rule file; forbidden characters are reported with their position."""

    @field_validator("*", mode="before")
    @classmethod
    def _is_plain_text(cls, value: object, info: ValidationInfo) -> object:  # type: ignore[override]
        if info.field_name != "content":
            check_plain_text(value)
        return value


class NewVersion(_WithContent):
    """The whole rule file as it is to be."""

    content: str = Field(min_length=1, max_length=_LONGEST, description="XML in the UIUC format.")
    note: str = Field("", max_length=500)
    based_on: int | None = Field(
        None,
        ge=1,
        le=999_999_999,
        description="The version that was edited; the request is refused if a newer version exists.",
    )


class NewRule(_WithContent):
    """A rule that is to be; its kind is that of the content."""

    name: str = Field(min_length=1, max_length=200)
    content: str = Field(min_length=1, max_length=_LONGEST, description="XML in the UIUC format.")
    description: str = Field("", max_length=2000)
    note: str = Field("", max_length=500)
    repository_id: int | None = Field(
        None, ge=1, le=999_999_999, description="Null for callers who see all repositories: shared by them."
    )


class TrialBody(_WithContent):
    """What is tried on what."""

    content: str | None = Field(None, min_length=1, max_length=_LONGEST, description="Null: the saved rule.")
    repository_id: int = Field(ge=1, le=999_999_999)
    source: str = Field(
        STORED,
        pattern=f"^({STORED}|{LIVE})$",
        description="stored: stored records; live: the first page of the repository.",
    )
    metadata_prefix: str | None = Field(None, min_length=1, max_length=60)
    set_spec: str | None = Field(
        None, min_length=1, max_length=LONGEST_SELECTION, description="Set or query for the live page."
    )
    samples: int = Field(100, ge=1, le=1000)


class RuleTrialOut(Out):
    """The effect of the rule on the samples."""

    samples: int
    tried: int
    counts: dict[str, int] = Field(
        description="Number of records by result: accepted, refused, changed, unchanged, limit met."
    )
    rules: list[dict[str, Any]] = Field(description="Results of each filter or new element.")
    never_matched: list[int] = Field(description="Rows that matched none of the samples.")
    unreadable: list[str]
    ended: str = Field(description="Reason why the test ended early; empty if all samples were tested.")
    records: list[dict[str, Any]] = Field(
        description="Each sample with its result, the reasons, and the record before and after."
    )


@OPERATIONS.add("GET /rules", "listRules", Right.LOOK, query=RuleQuery)
async def _list(call: Call) -> Page[RuleOut]:
    """List filter and normalise rules by number."""
    find = partial(list_rules, among=visible_repositories(call.who), kind=call.asked(RuleQuery).kind)
    return await list_page(call, find, _of_view, after=lambda view: view.rule.rule_id)


@OPERATIONS.add("POST /rules", "addRule", Right.HARVEST, body=NewRule, status=201, faults={404})
async def _add(call: Call) -> RuleOut:
    """Create a rule."""
    asked = call.sent(NewRule)
    await call.check_repository(asked.repository_id, "create a rule for all repositories")
    content = asked.content.encode()
    try:
        draft = versions.RuleDraft(
            kind=kind_of(content, source="content"),
            name=asked.name,
            content=content,
            description=asked.description,
            repository_id=asked.repository_id,
        )
        rule = await call.database.run(
            versions.add_rule, call.settings, draft, by=call.who.name, note=asked.note
        )
    except RuleFileError as error:
        raise _faulty(error) from None
    about(call.request, "rule", rule.rule_id, rule.name)
    return await _out(call, rule)


@OPERATIONS.add("GET /rules/{rule}", "getRule", Right.LOOK)
async def _show(call: Call) -> RuleOut:
    """Show a filter or normalise rule."""
    return await _out(call, await rule_asked(call))


@OPERATIONS.add("GET /rules/{rule}/versions", "listRuleVersions", Right.LOOK)
async def _versions(call: Call) -> Versions:
    """List the versions of a rule with their contents, newest first."""
    rule = await rule_asked(call)
    found = await call.database.run(list_versions, rule.rule_id)
    return Versions(items=[_version(one) for one in found])


@OPERATIONS.add("PUT /rules/{rule}", "saveRule", Right.HARVEST, body=NewVersion)
async def _save(call: Call) -> RuleOut:
    """Save a new version of a rule; unchanged content creates no version."""
    rule, asked = await rule_asked(call), call.sent(NewVersion)
    try:
        saved = await call.database.run(
            versions.save_version,
            call.settings,
            rule.rule_id,
            asked.content.encode(),
            by=call.who.name,
            note=asked.note,
            based_on=asked.based_on,
        )
    except RuleFileError as error:
        raise _faulty(error) from None
    about(call.request, "rule", rule.rule_id, rule.name, version=saved.number)
    return await _out(call, rule)


@OPERATIONS.add("DELETE /rules/{rule}", "removeRule", Right.HARVEST)
async def _remove(call: Call) -> None:
    """Remove a rule; its file is kept."""
    await call.database.run(versions.remove_rule, (await rule_asked(call)).rule_id)


@OPERATIONS.add("POST /rules/{rule}/trial", "tryRule", Right.HARVEST, body=TrialBody, faults={424})
async def _try(call: Call) -> RuleTrialOut:
    """Test a rule, or other content, on samples without saving."""
    rule, asked = await rule_asked(call), call.sent(TrialBody)
    repository = await asked_for(call.request, Repository, asked.repository_id)
    last = await call.database.run(last_version, rule.rule_id)
    content = last.content if asked.content is None else asked.content.encode()
    form = SampleForm(
        repository=asked.repository_id,
        source=asked.source,
        metadata_prefix=asked.metadata_prefix,
        set_spec=asked.set_spec,
        samples=asked.samples,
    )
    try:
        trial = await call.request.config_dict[TRIALS].run(content, RuleKind(rule.kind), form, repository)
    except RuleFileError as error:
        raise _faulty(error) from None
    facts = trial.as_json()
    return RuleTrialOut.model_validate({name: facts[name] for name in RuleTrialOut.model_fields})


async def rule_asked(call: Call) -> Rule:
    """Return the rule in the path; respond 404 if it does not exist or the caller may not see it."""
    rule = await call.row(Rule, "rule")
    about(call.request, "rule", rule.rule_id, rule.name)
    return rule


async def _out(call: Call, rule: Rule) -> RuleOut:
    version = await call.database.run(last_version, rule.rule_id)
    return _of_view(RuleView(rule=rule, version=version, repository_name=None))


def _of_view(view: RuleView) -> RuleOut:
    of_version = {name: getattr(view.version, name) for name in ("number", "saved", "saved_by", "digest")}
    return RuleOut.from_row(view.rule, **of_version)


def _version(version: RuleVersion) -> VersionOut:
    return VersionOut.from_row(version, content=as_text(version.content))


def _faulty(error: RuleFileError) -> ApiError:
    fault = FieldFault(pointer="/content", detail=f"line {error.line}, column {error.column}: {error.reason}")
    return ApiError(422, "the rules are not valid", errors=[fault])


class KeptRunOut(Out, KeptRun):
    """A run with stored answers."""


class KeptRuns(Out):
    """Runs that can be replayed with a rule, newest first; at most 50."""

    items: list[KeptRunOut]


class ReplayBody(In):
    """The run whose stored answers are replayed."""

    run: int = Field(ge=1, le=999_999_999_999_999_999, description="A run with stored answers.")


class SampleOut(Out):
    """An example record for an effect."""

    identifier: str
    why: str
    diff: str = Field(description="Difference between the stored record and the result.")


class RehearsalOut(Out):
    """The changes that a replay would make."""

    run: int
    repository_id: int
    counts: dict[str, int] = Field(
        description=(
            "Number of records by result: new, updated, unchanged, left out now, left out, "
            "deleted, superseded, limit met."
        )
    )
    samples: dict[str, Sequence[SampleOut]] = Field(description="Some records of each result.")
    faults: Sequence[str] = Field(description="Answers and parts of answers that could not be read.")


class ReplayState(Out):
    """A replay that was started."""

    run: int
    repository_id: int


@OPERATIONS.add("GET /rules/{rule}/runs", "listReplayableRuns", Right.LOOK)
async def _runs(call: Call) -> KeptRuns:
    """List runs that can be replayed with a rule."""
    rule = await rule_asked(call)
    among = visible_repositories(call.who)
    found = await call.database.run(kept_runs, among=among, repository_id=rule.repository_id)
    return KeptRuns(items=[KeptRunOut.model_validate(one) for one in found])


@OPERATIONS.add("POST /rules/{rule}/rehearsal", "rehearseRule", Right.HARVEST, body=ReplayBody, faults={409})
async def _rehearse(call: Call) -> RehearsalOut:
    """Preview the replay of a run with the current rule, without changing data."""
    wanted = await _wanted(call)
    try:
        return RehearsalOut.model_validate(await call.request.config_dict[REPLAYS].preview(wanted))
    except UsageError as error:
        raise ApiError(409, str(error)) from None
    except TryLaterError as error:
        raise ApiError(503, str(error)) from None


@OPERATIONS.add(
    "POST /rules/{rule}/replay", "replayRule", Right.HARVEST, body=ReplayBody, status=202, faults={409}
)
async def _apply(call: Call) -> ReplayState:
    """Replay a run with the current rule; the result appears in the history."""
    wanted = await _wanted(call)
    if not call.request.config_dict[REPLAYS].begin(wanted):
        raise ApiError(
            409, f"a replay of repository {wanted.repository_id} is in progress; wait until it ends"
        )
    return ReplayState(run=wanted.run, repository_id=wanted.repository_id)


async def _wanted(call: Call) -> Replay:
    return await wanted_replay(call.request, await rule_asked(call), call.sent(ReplayBody).run)

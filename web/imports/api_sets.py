"""REST API: filtering sets: list, add, change, try on stored records, remove."""

from collections.abc import Sequence
from typing import Annotated, Final

from pydantic import AfterValidator, Field

from harvester.bibliographic import filtering_sets
from harvester.bibliographic.conditions import Conditions, Match, parse_condition
from harvester.bibliographic.filtering_sets import NamedSet
from harvester.models import Repository
from oai.errors import UsageError
from oai.rights import Right
from web.api.faults import ApiError, FieldFault
from web.api.operations import Call, Operations
from web.api.shapes import In, Out
from web.auth.access import about, asked_for
from web.auth.set_owners import change_seen_set, name_for, remove_seen_set, sets_seen
from web.imports.pages_sets import set_of
from web.rules.trials import TRIALS

OPERATIONS: Final = Operations("imports")


def _readable(line: str) -> str:
    try:
        return str(parse_condition(line))
    except UsageError as error:
        raise ValueError(str(error)) from None


Line = Annotated[str, Field(min_length=1, max_length=2000), AfterValidator(_readable)]
"""A condition, for example `245$a contains slovník`."""


class RulesIn(In):
    """Conditions and how they are combined."""

    match: Match = Field(Match.ALL, description="Whether any or all conditions must be met.")
    conditions: list[Line] = Field(
        min_length=1, max_length=100, description="Conditions, for example `245$a contains slovník`."
    )

    @property
    def rules(self) -> Conditions:
        """Return the parsed conditions."""
        return Conditions(match=self.match, conditions=[parse_condition(line) for line in self.conditions])


class SetChange(RulesIn):
    """The whole set as it is to be; it keeps its name."""

    description: str = Field("", max_length=2000)


class NewSet(SetChange):
    """A set that is to be."""

    name: str = Field(
        min_length=1,
        max_length=200,
        description="A partner's set is prefixed with the organisation's short name, as in `mzk/maps`.",
    )


class SetTrial(RulesIn):
    """Conditions, and the stored records that they are tried on."""

    repository: int = Field(ge=1, le=999_999_999, description="Repository whose stored records are tested.")
    samples: int = Field(100, ge=1, le=1000, description="Number of records to test.")


class FilteringSetOut(Out):
    """A filtering set."""

    set_id: int
    name: str
    description: str
    revision: int = Field(description="Number of changes to its conditions.")
    match: str
    conditions: list[str]
    used_by: list[int] = Field(
        description="Repositories that use the set, limited to those that the caller sees."
    )


class Sets(Out):
    """All filtering sets, by name."""

    items: list[FilteringSetOut]


class TriedOut(Out):
    """A record on which conditions were tried."""

    identifier: str
    title: str


class FilteringSetTrialOut(Out):
    """The effect of the conditions."""

    looked_at: int
    chosen: int
    passed_over: int
    unreadable: int
    true_of: Sequence[int] = Field(description="For each condition, the number of records that meet it.")
    chosen_sample: Sequence[TriedOut]
    passed_over_sample: Sequence[TriedOut]


@OPERATIONS.add("GET /filtering-sets", "listFilteringSets", Right.LOOK)
async def _list(call: Call) -> Sets:
    """List filtering sets by name."""
    return Sets(items=[_shown(one) for one in await call.database.run(sets_seen, call.who)])


@OPERATIONS.add("POST /filtering-sets", "addFilteringSet", Right.HARVEST, body=NewSet, status=201)
async def _add(call: Call) -> FilteringSetOut:
    """Create a filtering set."""
    asked = call.sent(NewSet)
    rules = asked.rules
    try:
        made = await call.database.run(
            filtering_sets.add_set,
            name=name_for(call.who, asked.name),
            match=rules.match,
            conditions=rules.conditions,
            description=asked.description,
        )
    except UsageError as error:
        raise _at_fault("/name", error) from None
    about(call.request, "filtering set", made.set_id, made.name)
    return _shown(made)


@OPERATIONS.add("GET /filtering-sets/{filtering_set}", "getFilteringSet", Right.LOOK)
async def _show(call: Call) -> FilteringSetOut:
    """Show a filtering set."""
    return _shown(await _asked(call, to_change=False))


@OPERATIONS.add("PUT /filtering-sets/{filtering_set}", "changeFilteringSet", Right.HARVEST, body=SetChange)
async def _change(call: Call) -> FilteringSetOut:
    """Change a filtering set; the next import processes all records again."""
    found, asked = await _asked(call), call.sent(SetChange)
    try:
        await call.database.run(change_seen_set, found, asked.rules, asked.description)
    except UsageError as error:
        raise ApiError(409, str(error)) from None
    return _shown(await _asked(call))


@OPERATIONS.add("DELETE /filtering-sets/{filtering_set}", "removeFilteringSet", Right.HARVEST)
async def _remove(call: Call) -> None:
    """Remove a filtering set that is not used by a source."""
    await call.database.run(remove_seen_set, await _asked(call))


@OPERATIONS.add("POST /filtering-sets/try", "tryFilteringSet", Right.HARVEST, body=SetTrial, faults={404})
async def _try(call: Call) -> FilteringSetTrialOut:
    """Test conditions on stored records, without saving."""
    asked = call.sent(SetTrial)
    repository = await asked_for(call.request, Repository, asked.repository)
    trial = await call.request.config_dict[TRIALS].conditions(
        asked.rules, repository.repository_id, samples=asked.samples
    )
    return FilteringSetTrialOut.model_validate(trial)


async def _asked(call: Call, *, to_change: bool = True) -> NamedSet:
    return await set_of(call.request, call.place["filtering_set"], to_change=to_change)


def _shown(found: NamedSet) -> FilteringSetOut:
    rules = found.rules
    return FilteringSetOut.from_row(
        found, match=rules.match.value, conditions=[str(one) for one in rules.conditions]
    )


def _at_fault(pointer: str, error: UsageError) -> ApiError:
    return ApiError(422, str(error), errors=[FieldFault(pointer=pointer, detail=str(error))])

"""The aggregate over the API: its address, sources, counts, and how late it is."""

from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Final

from pydantic import Field

from oai.rights import Right
from provider.aggregate.overview import read_overview
from web.api.operations import Call, Operation
from web.api.shapes import Out
from web.archive_address import aggregate_address


class AggregateSourceOut(Out):
    """A harvested repository that is given out again."""

    repository_id: int
    set_spec: str
    title: str
    base_url: str
    identifiers: str = Field(description="original: as harvested; own: in the namespace of this archive.")
    added: datetime
    state: str = Field(description="followed (up to date), being read, being withdrawn or withdrawn.")
    formats: Mapping[str, int] = Field(
        description="Published records by metadataPrefix, including deleted records."
    )
    records: int
    unreadable: int = Field(description="Number of records withheld because their files cannot be read.")


class AggregateOut(Out):
    """The aggregate as a whole."""

    base_url: str
    records: int
    since: datetime | None = Field(description="Time when the first source was added.")
    followed: datetime | None = Field(description="Time up to which harvested records have been processed.")
    sources: Sequence[AggregateSourceOut]


async def _show(call: Call) -> AggregateOut:
    found = await call.database.run(read_overview)
    return AggregateOut(
        base_url=aggregate_address(call.settings),
        records=found.records,
        since=found.since,
        followed=found.followed,
        sources=[AggregateSourceOut.model_validate(one) for one in found.sources],
    )


OPERATIONS: Final = (
    Operation(
        name="getAggregate",
        method="GET",
        path="/archive/aggregate",
        tag="archive",
        summary="Show the aggregate of harvested records: sources, counts, last update.",
        right=Right.LOOK_AROUND,
        work=_show,
        answer=AggregateOut,
    ),
)

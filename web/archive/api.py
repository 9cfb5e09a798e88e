"""REST API: totals, growth and sets of the archive, and the aggregate."""

from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any, Final

from pydantic import Field

from oai.rights import Right
from provider.aggregate.overview import read_overview
from provider.holdings.sets import Tree, children, tree_of
from provider.holdings.status import archive_status, by_month
from web.api.operations import Call, Operation
from web.api.paging import after, page_of
from web.api.shapes import Out, Page, Paged
from web.archive.address import aggregate_address, provider_address

_TAG: Final = "archive"


class ArchiveOut(Out):
    """Totals of the archive."""

    base_url: str
    documents: int
    hidden: int
    files: int
    problems: int
    domains: int
    mimetypes: int
    collections: int
    unseen_files: int
    last_published: datetime | None
    last_indexed: datetime | None
    missing_indexes: list[str]


class MonthOut(Out):
    """The number of documents of a major type captured in a month."""

    month: str
    type: str
    documents: int


class Months(Out):
    """The growth of the archive, by month of capture."""

    items: list[MonthOut]


class NodeOut(Out):
    """A set and its number of documents."""

    set_spec: str
    name: str
    documents: int
    has_children: bool


class SetQuery(Paged):
    """Filters for sets."""

    tree: Tree = Field(Tree.COLLECTION, description="Top-level sets of this tree, if `below` is not given.")
    below: str | None = Field(
        None, min_length=1, max_length=1000, description="Sets directly below this set."
    )


async def _archive(call: Call) -> ArchiveOut:
    status = await call.database.run(archive_status)
    columns = {name: getattr(status, name) for name in ArchiveOut.model_fields if hasattr(status, name)}
    columns["missing_indexes"] = list(status.missing_indexes)
    return ArchiveOut(base_url=provider_address(call.settings), **columns)


async def _months(call: Call) -> Months:
    return Months(items=[MonthOut(**row) for row in await call.database.run(by_month)])


async def _sets(call: Call) -> Page[NodeOut]:
    query = call.asked(SetQuery)
    tree = tree_of(query.below) if query.below is not None else query.tree
    rows = await call.database.run(
        children, tree, below=query.below, limit=query.limit + 1, after=after(call, str) or ""
    )
    return page_of(call, rows, NodeOut.model_validate, lambda node: node.set_spec)


def _get(name: str, path: str, summary: str, work: Any, **more: Any) -> Operation:  # noqa: ANN401 as declared
    declared = {"method": "GET", "right": Right.LOOK_AROUND, **more}
    return Operation(name=name, path=f"/archive{path}", tag=_TAG, summary=summary, work=work, **declared)


_CHANGE: Final = {"method": "POST", "right": Right.ARCHIVE}


_FOUND_NO_SET: Final = frozenset({409})


OPERATIONS: Final = (
    _get(
        "getArchive",
        "",
        "Show the totals of the archive, and when it was last indexed and published.",
        _archive,
        answer=ArchiveOut,
    ),
    _get("getGrowth", "/growth", "Count documents by month of capture and type.", _months, answer=Months),
    _get(
        "listArchiveSets",
        "/sets",
        "List the sets directly below a set, or the top-level sets of a tree.",
        _sets,
        query=SetQuery,
        answer=Page[NodeOut],
        faults=_FOUND_NO_SET,
    ),
)


class AggregateSourceOut(Out):
    """A harvested repository that the aggregate republishes."""

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
    """Totals of the aggregate."""

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


AGGREGATE_OPERATIONS: Final = (
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

"""REST API: the archive's collections: tree, access rules and documents."""

from datetime import datetime
from typing import Any, Final, Self

from pydantic import Field, model_validator
from sqlalchemy import select
from sqlalchemy.orm import Session

from oai.database import one_at_a_time
from oai.errors import required
from oai.rights import Right
from provider.holdings import collections
from provider.holdings.access import set_rule
from provider.holdings.membership import settle_collection
from provider.holdings.previews import ChangePreview, preview_assignment, preview_rule
from provider.holdings.rules import Rule
from provider.holdings.selection import Selection
from provider.holdings.sets import collection_set_spec
from provider.models import Access, Collection
from web.api.faults import ApiError
from web.api.operations import Call, Operations
from web.api.paging import list_page
from web.api.shapes import Done, Flag, In, Moment, Out, Page, Paged, unchanged
from web.auth.access import about
from web.site.i18n import _

OPERATIONS: Final = Operations("collections")

_SPEC: Final = r"^[A-Za-z0-9\-_.]+(:[A-Za-z0-9\-_.]+)*$"


class CollectionOut(Out):
    """A collection; its number of documents includes the collections below it."""

    set_spec: str
    name: str
    description: str | None
    access: Access
    embargo_until: datetime | None
    documents: int


class NewCollection(In):
    """A new collection; missing collections above it are created."""

    set_spec: str = Field(
        pattern=_SPEC, max_length=900, description="With or without the prefix `collection:`."
    )
    name: str = Field(min_length=1, max_length=500)
    description: str | None = Field(None, max_length=10_000)


class CollectionChange(In):
    """The values to change; those that are left out stay as they are."""

    name: str = Field(default_factory=unchanged, min_length=1, max_length=500)
    description: str | None = Field(default_factory=unchanged, max_length=10_000)


class RuleBody(In):
    """Who may see the documents; only an embargo has an end."""

    access: Access
    embargo_until: Moment | None = None

    @model_validator(mode="after")
    def _an_embargo_has_an_end(self) -> Self:
        if (self.access is Access.EMBARGO) != (self.embargo_until is not None):
            raise ValueError("an embargo requires an end time; other rules have none")
        return self


class MoveBody(In):
    """The new place."""

    set_spec: str = Field(pattern=_SPEC, max_length=900)


class SelectionBody(In):
    """Selection of documents; all given criteria must match, and at least one is required."""

    archive_file: str | None = Field(None, min_length=1, max_length=4000)
    url: str | None = Field(
        None, min_length=1, max_length=4000, description="All captures of URLs with the key of this one."
    )
    url_prefix: str | None = Field(
        None, min_length=1, max_length=4000, description="Exactly as the URLs begin."
    )
    domain: str | None = Field(
        None, min_length=1, max_length=253, description="Including everything below it."
    )
    since: Moment | None = None
    until: Moment | None = None

    @model_validator(mode="after")
    def _something_is_chosen(self) -> Self:
        if not any((self.archive_file, self.url, self.url_prefix, self.domain)):
            raise ValueError("give an archive file, a URL, a URL prefix or a domain")
        return self

    def selection(self) -> Selection:
        """Return the selection as the archive's services expect it."""
        return Selection(
            arc=self.archive_file,
            url=self.url,
            url_prefix=self.url_prefix,
            domain=self.domain,
            since=self.since,
            until=self.until,
        )


class PreviewBody(In):
    """A change to preview: exactly one of the three."""

    rule: RuleBody | None = None
    assign: SelectionBody | None = None
    take_out: SelectionBody | None = None

    @model_validator(mode="after")
    def _one_of_three(self) -> Self:
        if sum(one is not None for one in (self.rule, self.assign, self.take_out)) != 1:
            raise ValueError("give one of rule, assign and take_out")
        return self


class AccessChange(Out):
    """Documents whose access changes in the same way."""

    before: Access
    after: Access = Field(description="The same as before: another end of the embargo.")
    documents: int


class ChangePreviewOut(Out):
    """What a change of a collection would do."""

    documents: int = Field(description="Documents that are added or removed, or are in the collection.")
    more: bool = Field(description="Whether there are more documents than were counted.")
    access: list[AccessChange]
    harvesters: int = Field(description="Harvesters that may have documents whose access changes.")
    examples: list[str] = Field(description="Some of their URLs.")


class RemovalQuery(In):
    """What may be removed."""

    force: Flag = Field(default=False, description="Even if it contains documents or collections.")


@OPERATIONS.add("GET /archive/collections", "listCollections", Right.LOOK_AROUND, query=Paged)
async def _list(call: Call) -> Page[CollectionOut]:
    """List the tree of collections with their access rules."""
    find, shown = collections.list_collections, CollectionOut.model_validate
    return await list_page(call, find, shown, kind=str, after=lambda row: row.set_spec)


@OPERATIONS.add("POST /archive/collections", "addCollection", Right.ARCHIVE, body=NewCollection, status=201)
async def _add(call: Call) -> CollectionOut:
    """Create a collection."""
    asked = call.sent(NewCollection)
    spec = collection_set_spec(asked.set_spec)

    def add(session: Session) -> Collection:
        one_at_a_time(session, "add collection")
        known = session.scalar(select(Collection.id).where(Collection.set_spec == spec))
        if known is not None:
            raise ApiError(409, f"collection {spec!r} already exists; change that one")
        return collections.add_collection(session, spec, name=asked.name, description=asked.description)

    about(call.request, "collection", spec, asked.name)
    return CollectionOut.model_validate(await call.database.run(add))


@OPERATIONS.add("GET /archive/collections/{collection}", "getCollection", Right.LOOK_AROUND)
async def _show(call: Call) -> CollectionOut:
    """Show a collection."""
    return CollectionOut.model_validate(await call.database.run(_asked, call.place["collection"]))


@OPERATIONS.add(
    "PATCH /archive/collections/{collection}", "changeCollection", Right.ARCHIVE, body=CollectionChange
)
async def _change(call: Call) -> CollectionOut:
    """Change a collection's name and description."""
    asked = call.sent(CollectionChange)

    def change(session: Session) -> Collection:
        row = _asked(session, call.place["collection"])
        values = asked.model_dump(exclude_unset=True)
        row.description = values.get("description", row.description)
        collections.rename(session, row, values.get("name", row.name))
        session.commit()
        settle_collection(session, row.id, margin=call.settings.provider.publish_margin)
        return _asked(session, row.set_spec)

    return CollectionOut.model_validate(await call.database.run(change))


@OPERATIONS.add(
    "PUT /archive/collections/{collection}/rule", "setCollectionRule", Right.ARCHIVE, body=RuleBody
)
async def _rule(call: Call) -> Done:
    """Set the access rule of a collection."""
    asked = call.sent(RuleBody)
    return await _on(call, set_rule, Rule(access=asked.access, embargo_until=asked.embargo_until))


@OPERATIONS.add(
    "POST /archive/collections/{collection}/preview",
    "previewCollectionChange",
    Right.ARCHIVE,
    body=PreviewBody,
)
async def _preview(call: Call) -> ChangePreviewOut:
    """Show what another rule, or adding or removing documents, would do; nothing is changed."""
    asked, spec = call.sent(PreviewBody), call.place["collection"]

    def work(session: Session) -> ChangePreview:
        _asked(session, spec)
        if asked.rule is not None:
            rule = Rule(access=asked.rule.access, embargo_until=asked.rule.embargo_until)
            return preview_rule(session, spec, rule)
        chosen = required(asked.assign or asked.take_out, "one of them is given")
        takes_out = asked.take_out is not None
        return preview_assignment(session, spec, chosen.selection(), takes_out=takes_out)

    found = await call.database.run(work)
    return ChangePreviewOut.model_validate(found.as_json())


@OPERATIONS.add("POST /archive/collections/{collection}/move", "moveCollection", Right.ARCHIVE, body=MoveBody)
async def _move(call: Call) -> Done:
    """Move or rename a collection."""
    new = collection_set_spec(call.sent(MoveBody).set_spec)
    done = await _on(call, collections.move, new)
    about(call.request, "collection", new)
    return done


@OPERATIONS.add(
    "POST /archive/collections/{collection}/assign", "assignDocuments", Right.ARCHIVE, body=SelectionBody
)
async def _assign(call: Call) -> Done:
    """Add documents to a collection."""
    return await _on_chosen(call, collections.assign)


@OPERATIONS.add(
    "POST /archive/collections/{collection}/take-out", "takeOutDocuments", Right.ARCHIVE, body=SelectionBody
)
async def _take_out(call: Call) -> Done:
    """Remove documents from a collection."""
    return await _on_chosen(call, collections.remove)


@OPERATIONS.add(
    "DELETE /archive/collections/{collection}", "removeCollection", Right.ARCHIVE, query=RemovalQuery
)
async def _drop(call: Call) -> Done:
    """Remove a collection; its documents stay in the archive."""
    return await _on(call, collections.drop, force=call.asked(RemovalQuery).force)


async def _on_chosen(call: Call, work: Any) -> Done:  # noqa: ANN401 one of the services
    chosen = call.sent(SelectionBody).selection()
    about(call.request, "collection", call.place["collection"], selection=chosen.as_json())
    return await _on(call, work, chosen)


async def _on(call: Call, work: Any, *values: Any, **named: Any) -> Done:  # noqa: ANN401 any of the services
    spec: str = call.place["collection"]
    await call.database.run(_asked, spec)
    margin = call.settings.provider.publish_margin
    return Done(changed=await call.database.run(work, spec, *values, margin=margin, **named))


def _asked(session: Session, spec: str) -> Collection:
    row = session.scalar(select(Collection).where(Collection.set_spec == spec))
    if row is None:
        raise ApiError(404, _("Collection %(spec)s does not exist.") % {"spec": spec})
    return row

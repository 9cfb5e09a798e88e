"""The archive's collections: the tree, and each one's name, access rule, position and documents."""

from functools import partial
from typing import Any, Final, Self
from urllib.parse import quote

from aiohttp import web
from pydantic import Field, model_validator
from sqlalchemy import Select, or_, select
from sqlalchemy.orm import Session

from oai.audit import last_change
from oai.database import one_at_a_time
from oai.errors import UsageError
from oai.rights import Right
from provider.holdings import collections
from provider.holdings.access import set_rule
from provider.holdings.membership import settle_collection
from provider.holdings.previews import ChangePreview, preview_assignment, preview_rule
from provider.holdings.rules import Rule, change_tree
from provider.holdings.selection import Selection
from provider.holdings.sets import COLLECTION_ROOT, collection_set_spec
from provider.models import Access, Collection
from web.archive.capture_days import CaptureDays
from web.auth.access import about, needs
from web.site.forms import (
    BASED_ON,
    Form,
    FormModel,
    LocalTime,
    StaleFormError,
    differs_from_preview,
    empty_is_none,
    filled_from,
    keeping_other_changes,
    locked_row,
    read_form,
    refuse_stale,
    texts_of,
    with_preview,
)
from web.site.i18n import _, error_text
from web.site.keys import database_of, margin_of
from web.site.paging import PAGE, page_of, text_in
from web.site.render import confirmation, render
from web.site.zones import local

_PART: Final = r"[A-Za-z0-9\-_.]+"
_SPEC: Final = rf"{{spec:collection(?::{_PART})*}}"
_PLACE: Final = rf"^{_PART}(:{_PART})*$"


class NewForm(FormModel):
    """A new collection."""

    set_spec: str = Field(pattern=_PLACE, max_length=900)
    name: str = Field(min_length=1, max_length=500)
    description: str = Field("", max_length=10_000)


class NameForm(FormModel):
    """Name and description."""

    name: str = Field(min_length=1, max_length=500)
    description: str = Field("", max_length=10_000)


class RuleForm(FormModel):
    """Access rule of the documents; an embargo ends at the start of a day in the reader's time zone."""

    access: Access
    embargo_until: LocalTime | None = None

    _empty_is_none = empty_is_none("embargo_until")

    @model_validator(mode="after")
    def _an_embargo_has_an_end(self) -> Self:
        if (self.access is Access.EMBARGO) != (self.embargo_until is not None):
            raise ValueError(_("An embargo requires an end date; other rules have none."))
        return self

    def rule(self) -> Rule:
        """Return the access rule as the archive's services expect it."""
        return Rule(access=self.access, embargo_until=self.embargo_until)


class DocumentsForm(CaptureDays):
    """Selection of documents to add or remove; all given criteria must match."""

    archive_file: str = Field("", max_length=4000)
    url_prefix: str = Field("", max_length=4000)
    domain: str = Field("", max_length=253)

    @model_validator(mode="after")
    def _something_is_chosen(self) -> Self:
        if not any((self.archive_file, self.url_prefix, self.domain)):
            raise ValueError(_("Enter an archive file, a URL prefix, or a domain."))
        return self

    def only_field(self) -> str:
        """Return the name of the field that is filled in besides the days; empty if there are several."""
        filled = [name for name in ("archive_file", "url_prefix", "domain") if getattr(self, name)]
        return filled[0] if len(filled) == 1 else ""

    def selection(self) -> Selection:
        """Return the selection as the archive's services expect it."""
        since, until = self.moments()
        return Selection(
            arc=self.archive_file or None,
            url_prefix=self.url_prefix or None,
            domain=self.domain or None,
            since=since,
            until=until,
        )


@needs(Right.LOOK_AROUND)
async def listing(request: web.Request) -> web.Response:
    """List the tree from the root, in pages."""
    after = text_in(request, "after")
    database = database_of(request)
    found = await database.run(collections.list_collections, limit=PAGE + 1, after=after)
    page = page_of(found, lambda collection: collection.set_spec, behind=after)
    decides = await database.run(collections.deciding, page.rows)
    return render(request, "archive_collections.html", page=page, deciding=decides)


@needs(Right.ARCHIVE)
async def new(request: web.Request) -> web.Response:
    """Show the form for a new collection."""
    below = request.query.get("below", "")[:900].removeprefix(f"{COLLECTION_ROOT}:")
    start = f"{below}:" if below and below != COLLECTION_ROOT else ""
    return _new_form(request, Form(values={"set_spec": start}))


@needs(Right.ARCHIVE)
async def add(request: web.Request) -> web.Response:
    """Create the collection, or show the form again with its errors."""
    asked, form = read_form(NewForm, await request.post())
    if asked is None:
        return _new_form(request, form)
    spec = collection_set_spec(asked.set_spec)
    about(request, "collection", spec, asked.name)

    def make(session: Session) -> None:
        one_at_a_time(session, "add collection")
        if session.scalar(_by_spec(spec)) is not None:
            raise UsageError(_("The collection already exists."))
        collections.add_collection(session, spec, name=asked.name, description=asked.description or None)

    try:
        await database_of(request).run(make)
    except UsageError as error:
        return _new_form(request, form.with_error("set_spec", error_text(error)))
    raise web.HTTPSeeOther(f"{_address(spec)}?done=collection-added")


@needs(Right.LOOK_AROUND)
async def show(request: web.Request) -> web.Response:
    """Show one collection with its forms."""
    return await _page(request, await _asked(request))


@needs(Right.ARCHIVE)
async def rename(request: web.Request) -> web.Response:
    """Change name and description."""
    row = await _asked(request)
    asked, form = read_form(NameForm, await request.post())
    if asked is None:
        return await _page(request, row, names=form)

    def change(session: Session) -> None:
        last = partial(last_change, session, "collection", row.set_spec)
        with keeping_other_changes(form, lambda: _names(locked_row(session, Collection, row.id)), last):
            kept = collections.find_staff_collection(session, row.set_spec)
            kept.description = asked.description or None
            collections.rename(session, kept, asked.name)
        session.commit()
        settle_collection(session, row.id, margin=margin_of(request))

    try:
        await database_of(request).run(change)
    except StaleFormError as error:
        return await _page(request, row, names=error.form)
    raise web.HTTPSeeOther(f"{_address(row.set_spec)}?done=collection-changed")


@needs(Right.ARCHIVE)
async def change_rule(request: web.Request) -> web.Response:
    """Change the access rule of the documents."""
    row = await _asked(request)
    asked, form = read_form(RuleForm, await request.post())
    if asked is None:
        return await _page(request, row, rule=form)
    previews = form.values.get("do") == "preview" or differs_from_preview(form, asked)
    rule, margin = asked.rule(), margin_of(request)

    def change(session: Session) -> None:
        change_tree(session)
        stored = collections.find_collection(session, row.set_spec)
        last = partial(last_change, session, "collection", row.set_spec)
        refuse_stale(form, _rule_of(stored), _rule_of(rule), last)
        set_rule(session, row.set_spec, rule, margin=margin)

    try:
        if previews:
            found = await database_of(request).run(preview_rule, row.set_spec, rule)
            return await _page(request, row, rule=with_preview(form, asked), preview=found)
        await database_of(request).run(change)
    except (StaleFormError, UsageError) as error:
        return await _page(request, row, rule=form.refused(error, "embargo_until"))
    raise web.HTTPSeeOther(f"{_address(row.set_spec)}?done=rule-changed")


@needs(Right.ARCHIVE)
async def file_documents(request: web.Request) -> web.Response:
    """Add documents to the collection or remove them, depending on the button."""
    row, posted = await _asked(request), await request.post()
    asked, form = read_form(DocumentsForm, posted)
    if asked is None:
        return await _page(request, row, documents=form)
    takes_out = str(posted.get("do")).endswith("take-out")
    if str(posted.get("do")).startswith("preview") or differs_from_preview(form, asked):
        return await _preview_documents(request, row, form, asked, takes_out=takes_out)
    work, chosen = collections.remove if takes_out else collections.assign, asked.selection()
    verb = "collection.take-out" if takes_out else "collection.assign"
    about(request, "collection", row.set_spec, row.name, action=verb, selection=chosen.as_json())
    try:
        await database_of(request).run(work, row.set_spec, chosen, margin=margin_of(request))
    except UsageError as error:
        return await _page(request, row, documents=form.with_error(asked.only_field(), error_text(error)))
    done = "documents-taken-out" if takes_out else "documents-assigned"
    raise web.HTTPSeeOther(f"{_address(row.set_spec)}?done={done}")


async def _preview_documents(
    request: web.Request, row: Collection, form: Form, asked: DocumentsForm, *, takes_out: bool
) -> web.Response:
    try:
        found = await database_of(request).run(
            preview_assignment, row.set_spec, asked.selection(), takes_out=takes_out
        )
    except UsageError as error:
        return await _page(request, row, documents=form.with_error(asked.only_field(), error_text(error)))
    shown = with_preview(form, asked)
    return await _page(request, row, documents=shown, preview=found, takes_out=takes_out)


@needs(Right.ARCHIVE)
async def confirm_removal(request: web.Request) -> web.Response:
    """Ask for confirmation before a collection is removed."""
    return await _confirmation(request, await _asked(request))


async def _confirmation(request: web.Request, row: Collection, *, is_stale: bool = False) -> web.Response:
    rules = await database_of(request).run(_rules_below, row.set_spec)
    changed = _("The collection was changed in the meantime, and nothing was removed.")
    return confirmation(
        request,
        _("Remove the collection %(name)s?") % {"name": row.name},
        *([changed] if is_stale else []),
        _("Its documents stay in the archive. Its subcollections are removed, too."),
        _("Its access rule no longer applies to them: check first whether it restricted any."),
        steps=[(_("Archive"), "/archive"), (_("Collections"), "/archive/collections")],
        button=_("Remove collection"),
        back=_address(row.set_spec),
        status=409 if is_stale else 200,
        kept=[(BASED_ON, filled_from(rules)[BASED_ON])],
    )


@needs(Right.ARCHIVE)
async def remove(request: web.Request) -> web.Response:
    """Remove the collection."""
    row = await _asked(request)
    if row.set_spec == COLLECTION_ROOT:
        raise web.HTTPConflict(text=_("The root collection cannot be removed."))
    form, margin = Form(values=texts_of(await request.post())), margin_of(request)

    def drop(session: Session) -> None:
        change_tree(session)
        refuse_stale(form, _rules_below(session, row.set_spec), {})
        collections.drop(session, row.set_spec, force=True, margin=margin)

    try:
        await database_of(request).run(drop)
    except StaleFormError:
        return await _confirmation(request, row, is_stale=True)
    raise web.HTTPSeeOther("/archive/collections?done=collection-removed")


async def _asked(request: web.Request) -> Collection:
    spec = request.match_info["spec"]

    def find(session: Session) -> Collection | None:
        return session.scalar(_by_spec(spec))

    row = await database_of(request).run(find)
    if row is None:
        raise web.HTTPNotFound(text=_("Collection %(spec)s does not exist.") % {"spec": spec})
    about(request, "collection", spec, row.name)
    return row


def _by_spec(set_spec: str) -> Select[Collection]:
    return select(Collection).where(Collection.set_spec == set_spec)


def _new_form(request: web.Request, form: Form) -> web.Response:
    return render(request, "archive_collection_new.html", status=422 if form.errors else 200, form=form)


async def _page(
    request: web.Request,
    row: Collection,
    *,
    preview: ChangePreview | None = None,
    takes_out: bool = False,
    **given: Form,
) -> web.Response:
    """Render the page with its three forms; those given show the submitted values and their errors.

    A preview is shown in the form that was given.
    """
    forms: dict[str, Any] = {
        "names": Form(values=filled_from(_names(row))),
        "rule": Form(values=filled_from(_rule_of(row))),
        "documents": Form(values={}),
        **given,
    }
    decides = await database_of(request).run(collections.deciding, [row])
    return render(
        request,
        "archive_collection.html",
        status=max((form.status for form in given.values()), default=200),
        collection=row,
        deciding=decides[row.set_spec],
        address=_address(row.set_spec),
        is_root=row.set_spec == COLLECTION_ROOT,
        rules=rule_words(),
        words={access: words.partition(":")[0] for access, words in rule_words()},
        preview=preview,
        previewed=next(iter(given), ""),
        takes_out=takes_out,
        **forms,
    )


def _names(row: Collection) -> dict[str, object]:
    return {"name": row.name, "description": row.description or ""}


def _rule_of(stored: Collection | Rule) -> dict[str, object]:
    until = stored.embargo_until
    return {"access": stored.access, "embargo_until": f"{local(until):%Y-%m-%d}" if until else ""}


def _rules_below(session: Session, set_spec: str) -> dict[str, object]:
    """Return the access rules that end with a collection: its own and those of its subcollections."""
    below = Collection.set_spec.startswith(f"{set_spec}:", autoescape=True)
    rows = session.scalars(select(Collection).where(or_(Collection.set_spec == set_spec, below)))
    return {row.set_spec: _rule_of(row) for row in rows}


def rule_words() -> list[tuple[str, str]]:
    """Return the access rules with labels, from the least to the most restrictive."""
    return [
        (Access.OPEN.value, _("Open: metadata and content for everyone")),
        (Access.READING_ROOM.value, _("Reading room: metadata for everyone, content only on site")),
        (Access.EMBARGO.value, _("Embargo: closed until a given day")),
        (Access.WITHHELD.value, _("Withheld: neither metadata nor content")),
    ]


def _address(set_spec: str) -> str:
    return f"/archive/collections/{quote(set_spec, safe=':')}"


ROUTES: Final = (
    web.get("/archive/collections", listing),
    web.get("/archive/collections/new", new),
    web.post("/archive/collections/new", add),
    web.get(f"/archive/collections/{_SPEC}", show),
    web.post(f"/archive/collections/{_SPEC}/name", rename),
    web.post(f"/archive/collections/{_SPEC}/rule", change_rule),
    web.post(f"/archive/collections/{_SPEC}/documents", file_documents),
    web.get(f"/archive/collections/{_SPEC}/remove", confirm_removal),
    web.post(f"/archive/collections/{_SPEC}/remove", remove),
)

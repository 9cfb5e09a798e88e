"""Import of titles from a file or from Seeder: the form, a page with what would change, and the import.

The page with the plan carries the file, compressed, so that nothing is kept on the server between the two
steps and any dashboard process can carry out the second one. Seeder's database is read in both steps; its
address is in the settings and is never sent by a browser.
"""

import base64
import binascii
import zlib
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final
from urllib.parse import urlencode

from aiohttp import web
from multidict import MultiMapping
from pydantic import Field, field_validator

from oai.audit import BEGUN, AuditEntry, Filter, list_entries
from oai.errors import Phrase, RemoteError, UsageError
from oai.rights import Right
from provider.titles.entries import READERS, Refused
from provider.titles.import_steps import (
    Incoming,
    NeedsApprovalError,
    PlanChangedError,
    Upload,
    accept_shown,
    propose,
    seeder_database,
)
from provider.titles.listing import sources
from web.archive.pages_titles import words
from web.archive.title_changes import shown_changes
from web.auth.access import about, needs
from web.auth.csrf import posted_of, takes_file
from web.site.export import export
from web.site.forms import Form, FormModel, Problem, read_form
from web.site.i18n import _, error_text
from web.site.keys import SETTINGS, database_of
from web.site.paging import text_in
from web.site.render import render

MOST_BYTES: Final = 8 * 1024 * 1024
"""Of the file: some 10,000 titles with descriptions."""
_MOST_POSTED: Final = 12 * 1024 * 1024
"""Of the form: a file of this size that cannot be compressed, in Base64, and the other fields."""
_SHOWN: Final = 100
"""Lines of each kind that the plan shows."""
_LONGEST: Final = 200
_LAST: Final = 10
"""Imports that are listed."""
_LOOKED_AT: Final = 50
"""Entries of the audit log in which they are sought; others are refusals."""
_OWN_FORMAT: Final = "by name"
_FIRST_REFUSAL: Final = 400
_FIRST_FAULT: Final = 500


class PlanForm(FormModel):
    """The second step: what a person agrees to."""

    do: str = ""
    """`import` in the second step, or `not-taken` to export what is not taken."""
    digest: str = ""
    """Of the plan that was shown."""
    approve: str = ""


class ImportForm(PlanForm):
    """The form without the file."""

    source: str = Field(min_length=1, max_length=_LONGEST)
    format: str = _OWN_FORMAT
    """A key of `READERS`, or what the file's name ends with."""
    name: str = Field("", max_length=_LONGEST)
    """The file's name, in the second step."""

    @field_validator("format")
    @classmethod
    def _is_known(cls, value: str) -> str:
        if value not in {*READERS, _OWN_FORMAT}:
            raise ValueError(_("Choose one of the options."))
        return value


@dataclass(frozen=True, kw_only=True)
class _Origin:
    """Where titles come from, as the page with the plan shows it and sends it again."""

    incoming: Incoming
    field: str
    """The field of the form at which its errors are shown."""
    path: str
    label: str
    name: str
    kept: Mapping[str, str]
    """Hidden fields."""


@needs(Right.ARCHIVE)
async def ask(request: web.Request) -> web.Response:
    """Show the form."""
    return await _form(request, Form(values={"source": text_in(request, "source")}))


@needs(Right.ARCHIVE)
@takes_file(_MOST_POSTED)
async def import_file(request: web.Request) -> web.StreamResponse:
    """Show what the file would change, or, in the second step, import it or export what is not taken."""
    posted = posted_of(request)
    asked, form = read_form(ImportForm, posted)
    if asked is None:
        return await _form(request, form)
    try:
        upload = _upload(asked, posted)
    except UsageError as error:
        return await _form(request, form.with_error("file", error_text(error)))
    kept = {"source": upload.source, "format": upload.kind, "name": upload.name}
    origin = _Origin(
        incoming=upload,
        field="file",
        path="/archive/titles/import",
        label=_("File"),
        name=upload.name,
        kept={**kept, "content": _packed(upload.content)},
    )
    return await _step(request, origin, asked, form)


@needs(Right.ARCHIVE)
async def import_from_seeder(request: web.Request) -> web.StreamResponse:
    """Do the same as `import_file` with Seeder's database."""
    seeder = seeder_database(request.config_dict[SETTINGS].provider)
    if seeder is None:
        raise web.HTTPNotFound(text=_("No address of Seeder's database is set."))
    asked, form = read_form(PlanForm, await request.post())
    if asked is None:
        return await _form(request, form)
    try:
        place = seeder.place
    except UsageError as error:
        return await _form(request, form.with_error("seeder", error_text(error)))
    origin = _Origin(
        incoming=seeder, field="seeder", path="/archive/titles/import/seeder", label=_("Database"),
        name=place, kept={},
    )  # fmt: skip
    return await _step(request, origin, asked, form)


async def _step(request: web.Request, origin: _Origin, asked: PlanForm, form: Form) -> web.StreamResponse:
    """Take the step that the form asks for; an error of reading is shown in the form of the beginning."""
    try:
        if asked.do == "import":
            return await _import(request, origin, asked, form)
        if asked.do == "not-taken":
            return await _export_not_taken(request, origin)
        return await _plan(request, origin, form)
    except (UsageError, RemoteError) as error:
        # What is wrong with a file is at its field; Seeder's form has none to correct.
        problem = Problem(title=_("Nothing was imported.")) if origin.field == "seeder" else None
        return await _form(request, form.with_error(origin.field, error_text(error), problem))


async def _import(request: web.Request, origin: _Origin, asked: PlanForm, form: Form) -> web.Response:
    settings, approved = request.config_dict[SETTINGS].provider, asked.approve == "yes"
    source = origin.incoming.source
    about(request, "titles", source, source)
    try:
        done = await database_of(request).run(
            accept_shown, origin.incoming, settings, asked.digest, approved=approved
        )
    except PlanChangedError as error:
        return await _plan(request, origin, form, fault=error_text(error))
    except NeedsApprovalError:
        message = _("Tick this box if you want these changes.")
        return await _plan(request, origin, form.with_error("approve", message))
    counts: dict[str, Any] = dict(done.plan.counts)
    about(request, "titles", source, source, **counts)
    raise web.HTTPSeeOther(f"/archive/titles?{urlencode({'source': source})}&done=titles-imported")


async def _export_not_taken(request: web.Request, origin: _Origin) -> web.StreamResponse:
    settings = request.config_dict[SETTINGS].provider
    found = await database_of(request).run(propose, origin.incoming, settings)

    async def behind(last: Refused | None) -> Sequence[Refused]:
        return found.plan.not_taken if last is None else ()

    columns = {
        "place": lambda one: _translated(one.place),
        "reason": lambda one: _translated(one.reason),
        "is_decision": lambda one: one.is_decision,
    }
    return await export(request, "titles-not-taken", columns, behind)


def _upload(asked: ImportForm, posted: MultiMapping[Any]) -> Upload:
    """Return the file that was sent now, or with the page of the plan. Raises UsageError if there is none."""
    file = posted.get("file")
    if isinstance(file, web.FileField):
        name, content = file.filename[:_LONGEST], file.file.read(MOST_BYTES + 1)
    elif asked.name and isinstance(posted.get("content"), str):
        name, content = asked.name, _unpacked(posted["content"])
    else:
        raise UsageError(_("Choose a file."))
    if len(content) > MOST_BYTES:
        raise UsageError(_("The file is larger than 8 MB. Import it with the command on the server."))
    kind = name.rpartition(".")[2].lower() if asked.format == _OWN_FORMAT else asked.format
    if kind not in READERS:
        raise UsageError(_("The file's name says nothing about its format; choose the format."))
    return Upload(source=asked.source, kind=kind, name=name, content=content)


def _packed(content: bytes) -> str:
    return base64.b64encode(zlib.compress(content)).decode()


def _unpacked(text: str) -> bytes:
    """Return the packed file, at most one byte more than allowed. Raises UsageError."""
    stream = zlib.decompressobj()
    try:
        content = stream.decompress(base64.b64decode(text, validate=True), MOST_BYTES + 1)
    except (binascii.Error, zlib.error):
        content = None
    if content is None or not (stream.eof or len(content) > MOST_BYTES):
        raise UsageError(_("Choose the file again."))
    return content


async def _form(request: web.Request, form: Form) -> web.Response:
    formats = [
        (_OWN_FORMAT, _("from the file name")),
        ("jsonl", _("JSON lines")),
        ("csv", _("CSV")),
        ("archive-it", _("Seeds from Archive-It (JSON)")),
    ]
    database, settings = database_of(request), request.config_dict[SETTINGS].provider
    entries = await database.run(list_entries, Filter(action="titles.import"), limit=_LOOKED_AT)
    return render(
        request,
        "archive_titles_import.html",
        status=422 if form.errors else 200,
        form=form,
        formats=formats,
        known=await database.run(sources),
        seeder_source=settings.seeder_source if settings.seeder_url else None,
        imports=[one for one in entries if _is_import(one)][:_LAST],
    )


def _is_import(entry: AuditEntry) -> bool:
    """Return whether an import ended or, if by a command, began; on pages, the present request has begun."""
    is_refusal = _FIRST_REFUSAL <= entry.status < _FIRST_FAULT
    return not is_refusal and (entry.status != BEGUN or entry.via == "command")


async def _plan(request: web.Request, origin: _Origin, form: Form, fault: str = "") -> web.Response:
    """Show what the titles would change now; `fault` is why they were not imported."""
    settings = request.config_dict[SETTINGS].provider
    found = await database_of(request).run(propose, origin.incoming, settings)
    return render(
        request,
        "archive_titles_plan.html",
        status=422 if form.errors else 409 if fault else 200,
        form=form,
        fault=fault,
        found=found,
        plan=found.plan,
        nothing=found.plan.changes_nothing,
        new=[(one.entry.name, one.entry.key) for one in found.plan.new],
        gone=[(name, key) for _id, key, name in found.plan.gone],
        origin=origin,
        unread=[one for one in found.plan.not_taken if not one.is_decision],
        left_out=Counter(one.reason for one in found.plan.not_taken if one.is_decision).most_common(),
        translated=_translated,
        shown_changes=shown_changes,
        percent=settings.title_change_percent,
        shown=_SHOWN,
        **words(),
    )


def _translated(text: str) -> str:
    """Return a place or a reason in the reader's language; other texts, such as keys, stay."""
    return text.in_words(_) if isinstance(text, Phrase) else text


ROUTES: Final = (
    web.get("/archive/titles/import", ask),
    web.post("/archive/titles/import", import_file),
    web.post("/archive/titles/import/seeder", import_from_seeder),
)

"""Import of titles from an uploaded file: the form, a page with what would change, and the import.

The page with the plan carries the file, compressed, so that nothing is kept on the server between the two
steps and any dashboard process can carry out the second one.
"""

import base64
import binascii
import zlib
from typing import Any, Final
from urllib.parse import urlencode

from aiohttp import web
from multidict import MultiMapping
from pydantic import Field, field_validator

from oai.errors import UsageError
from oai.rights import Right
from provider.titles.entries import READERS
from provider.titles.listing import sources
from provider.titles.uploads import (
    NeedsApprovalError,
    PlanChangedError,
    Proposal,
    Upload,
    accept,
    propose,
)
from web.archive.pages_titles import words
from web.auth.access import about, needs
from web.auth.csrf import posted_of, takes_file
from web.site.forms import Form, FormModel, read_form
from web.site.i18n import _, told
from web.site.keys import SETTINGS, database_of
from web.site.render import render

MOST_BYTES: Final = 8 * 1024 * 1024
"""Of the file: some 10,000 titles with descriptions."""
_MOST_POSTED: Final = 12 * 1024 * 1024
"""Of the form: a file of this size that cannot be compressed, in Base64, and the other fields."""
_SHOWN: Final = 100
"""Lines of each kind that the plan shows."""
_LONGEST: Final = 200
_OWN_FORMAT: Final = "by name"


class ImportForm(FormModel):
    """The form without the file."""

    source: str = Field(min_length=1, max_length=_LONGEST)
    format: str = _OWN_FORMAT
    """A key of `READERS`, or what the file's name ends with."""
    name: str = Field("", max_length=_LONGEST)
    """The file's name, in the second step."""
    digest: str = ""
    """Of the plan that was shown, in the second step."""
    approve: str = ""

    @field_validator("format")
    @classmethod
    def _is_known(cls, value: str) -> str:
        if value not in {*READERS, _OWN_FORMAT}:
            raise ValueError(_("Choose one of the options."))
        return value


@needs(Right.ARCHIVE)
async def ask(request: web.Request) -> web.Response:
    """Show the form."""
    return await _form(request, Form(values={}))


@needs(Right.ARCHIVE)
@takes_file(_MOST_POSTED)
async def bring(request: web.Request) -> web.Response:
    """Show what the file would change, or, in the second step, import it."""
    posted = posted_of(request)
    asked, form = read_form(ImportForm, posted)
    if asked is None:
        return await _form(request, form)
    try:
        upload = _upload(asked, posted)
    except UsageError as error:
        return await _form(request, form.with_error("file", told(error)))
    if posted.get("do") != "import":
        return await _plan(request, upload, form)
    return await _import(request, upload, asked, form)


async def _import(request: web.Request, upload: Upload, asked: ImportForm, form: Form) -> web.Response:
    settings, approved = request.config_dict[SETTINGS].provider, asked.approve == "yes"
    about(request, "titles", upload.source, upload.source)
    try:
        done = await database_of(request).run(accept, upload, settings, asked.digest, approved=approved)
    except PlanChangedError as error:
        return await _plan(request, upload, form, fault=told(error))
    except NeedsApprovalError:
        message = _("Tick this box if you want these changes.")
        return await _plan(request, upload, form.with_error("approve", message))
    except UsageError as error:
        return await _form(request, form.with_error("file", told(error)))
    about(request, "titles", upload.source, upload.source, **_counts(done))
    raise web.HTTPSeeOther(f"/archive/titles?{urlencode({'source': upload.source})}&done=titles-imported")


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
    return render(
        request,
        "archive_titles_import.html",
        status=422 if form.errors else 200,
        form=form,
        formats=formats,
        known=await database_of(request).run(sources),
    )


async def _plan(request: web.Request, upload: Upload, form: Form, fault: str = "") -> web.Response:
    """Show what the file would change now; `fault` is why it was not imported."""
    settings = request.config_dict[SETTINGS].provider
    try:
        found = await database_of(request).run(propose, upload, settings)
    except UsageError as error:
        return await _form(request, form.with_error("file", told(error)))
    return render(
        request,
        "archive_titles_plan.html",
        status=422 if form.errors else 409 if fault else 200,
        form=form,
        fault=fault,
        found=found,
        plan=found.plan,
        nothing=found.plan.changes_nothing,
        upload=upload,
        content=_packed(upload.content),
        percent=settings.title_change_percent,
        shown=_SHOWN,
        **words(),
    )


def _counts(done: Proposal) -> dict[str, int]:
    plan = done.plan
    return {
        "new": len(plan.new),
        "changed": len(plan.changed),
        "gone": len(plan.gone),
        "unchanged": plan.unchanged,
        "not_taken": len(plan.refused),
        "collections": len(plan.collections.names),
    }


ROUTES: Final = (
    web.get("/archive/titles/import", ask),
    web.post("/archive/titles/import", bring),
)

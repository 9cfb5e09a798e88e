"""A repository's examination: begun by a button, followed while it runs, read and printed when it is done."""

from dataclasses import dataclass

from aiohttp import web

from harvester.access import access_of
from harvester.doctor.findings import Fact, Report
from harvester.doctor.letters import letter, profile_lines, troubles
from harvester.doctor.sentences import advice_for, grade_of, in_words
from harvester.doctor.subjects import SUBJECTS
from harvester.models import Repository
from web import languages
from web.access import Right, asked_for, needs
from web.examinations import EXAMINATIONS
from web.lookups import NUMBER
from web.rendering import render
from web.words import _, language, mark

_REFRESH_SECONDS = 2
_SUBJECT = mark("Results of checking your OAI-PMH repository")


@dataclass(frozen=True, kw_only=True)
class Told:
    """A fact in the reader's words."""

    subject: str
    grade: str
    text: str
    advice: str


async def show(request: web.Request) -> web.Response:
    """The last report, or how far the examination is; the letter in the reader's language or another."""
    _who, repository = await asked_for(request, Repository)
    examinations = request.app[EXAMINATIONS]
    under_way = examinations.of(repository.repository_id)
    report = Report.from_json(repository.examination)
    chosen = request.query.get("letter", "")
    chosen = chosen if chosen in languages.LANGUAGES else language.get()
    words = languages.catalogue(chosen)
    headers = {"Refresh": str(_REFRESH_SECONDS)} if under_way else None
    return render(
        request,
        "doctor.html",
        headers=headers,
        repository=repository,
        access=access_of(repository.protocol),
        under_way=under_way,
        total=len(SUBJECTS),
        problem=examinations.failure_of(repository.repository_id),
        report=report,
        facts=[_told(fact) for fact in report.facts] if report else [],
        troubled=len(troubles(report)) if report else 0,
        profile=profile_lines(report.profile, _) if report else [],
        letter=letter(report, words.gettext) if report else "",
        subject=words.gettext(_SUBJECT),
        written_in=chosen,
        languages=languages.LANGUAGES,
    )


@needs(Right.HARVEST)
async def begin(request: web.Request) -> web.Response:
    """Begin an examination."""
    _who, repository = await asked_for(request, Repository)
    if access_of(repository.protocol).query is not None:
        raise web.HTTPConflict(text=_("Diagnostics are available for OAI-PMH repositories only."))
    request.app[EXAMINATIONS].begin(repository.repository_id, repository.base_url)
    raise web.HTTPSeeOther(f"/repositories/{repository.repository_id}/doctor")


async def as_json(request: web.Request) -> web.Response:
    """The last report for programs."""
    _who, repository = await asked_for(request, Repository)
    if repository.examination is None:
        raise web.HTTPNotFound(text=_("No diagnostics of this repository yet."))
    return web.json_response(repository.examination)


def _told(fact: Fact) -> Told:
    return Told(
        subject=_(SUBJECTS.get(fact.subject, fact.subject)),
        grade=grade_of(fact).value,
        text=in_words(fact, _),
        advice=advice_for(fact, _),
    )


ROUTES = (
    web.get(f"/repositories/{NUMBER}/doctor", show),
    web.post(f"/repositories/{NUMBER}/doctor", begin),
    web.get(f"/repositories/{NUMBER}/doctor.json", as_json),
)

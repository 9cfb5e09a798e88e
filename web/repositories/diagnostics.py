"""Diagnostics of a repository: start, follow the progress, show and print the report."""

import logging
from dataclasses import dataclass, field, replace
from typing import Any, Final

from aiohttp import web
from sqlalchemy import func, select
from sqlalchemy.orm import Session

from harvester.access import access_of
from harvester.models import Repository
from harvester.probing.case import SUBJECTS
from harvester.probing.diagnose import diagnose
from harvester.probing.findings import Fact, Grade, Report
from harvester.probing.report import (
    advice_for,
    grade_of,
    in_words,
    keep_report,
    profile_lines,
)
from oai.errors import ZatvaError
from oai.executor import DatabaseExecutor
from oai.settings import Settings
from web.auth.access import Right, asked_for, needs
from web.errors.letter import letter_about_report, letter_part
from web.models import ReportCard
from web.site.background import Background
from web.site.failures import problem_of
from web.site.formats import decimal
from web.site.forms import Problem
from web.site.i18n import _
from web.site.keys import database_of
from web.site.params import NUMBER
from web.site.render import render
from web.site.timeouts import ask_apart

_log = logging.getLogger("web.examinations")
_WORST_FIRST: Final = (Grade.BAD, Grade.ODD, Grade.UNKNOWN, Grade.GOOD)


@dataclass(kw_only=True)
class DiagnosticsRun:
    """Diagnostics in progress, or failed ones."""

    facts: list[Fact] = field(default_factory=list)
    problem: Problem | None = None


@dataclass(kw_only=True)
class DiagnosticsRuns(Background):
    """Runs diagnostics in tasks, one at a time per repository.

    Safe without locks: only the event loop changes the state, and `begin` has no await between its check and
    the new entry. The child's facts are appended on the event loop, too.
    """

    settings: Settings
    database: DatabaseExecutor
    _under_way: dict[int, DiagnosticsRun] = field(default_factory=dict)
    _failed: dict[int, DiagnosticsRun] = field(default_factory=dict)

    def of(self, repository_id: int) -> DiagnosticsRun | None:
        """Return the repository's diagnostics in progress, if any."""
        return self._under_way.get(repository_id)

    def failure_of(self, repository_id: int) -> Problem | None:
        """Return why the repository's last diagnostics failed, if they did."""
        failed = self._failed.get(repository_id)
        return failed.problem if failed else None

    def begin(self, repository_id: int, base_url: str) -> None:
        """Start diagnostics, unless some are in progress for the repository."""
        if repository_id in self._under_way:
            return
        self._failed.pop(repository_id, None)
        self._under_way[repository_id] = DiagnosticsRun()
        self._begin(self._examine(repository_id, base_url))

    async def _examine(self, repository_id: int, base_url: str) -> None:
        at_hand = self._under_way[repository_id]
        try:
            report = await ask_apart(
                diagnose, base_url, self.settings, notes={"on_fact": at_hand.facts.append}
            )
            await self.database.run(keep_report, repository_id, report)
        except ZatvaError as error:
            at_hand.problem = problem_of(error)
            self._failed[repository_id] = at_hand
        except Exception:
            _log.exception("the diagnostics of repository %d", repository_id)
            raise
        finally:
            del self._under_way[repository_id]


DIAGNOSTICS = web.AppKey("examinations", DiagnosticsRuns)


_REFRESH_SECONDS = 2


@dataclass(frozen=True, kw_only=True)
class FactText:
    """A fact in the reader's language."""

    subject: str
    grade: str
    text: str
    advice: str


async def show(request: web.Request) -> web.Response:
    """Show the last report or the progress; the letter in the reader's language or a chosen one."""
    repository = await asked_for(request, Repository)
    runs = request.app[DIAGNOSTICS]
    under_way = runs.of(repository.repository_id)
    report = Report.from_json(repository.examination)
    written: dict[str, Any] = {}
    if report:
        emails = ", ".join(report.admin_emails)
        written |= await letter_part(request, emails, lambda: letter_about_report(report))
    headers = {"Refresh": str(_REFRESH_SECONDS)} if under_way else None
    return render(
        request,
        "doctor.html",
        headers=headers,
        repository=repository,
        access=access_of(repository.protocol),
        under_way=under_way,
        total=len(SUBJECTS),
        problem=runs.failure_of(repository.repository_id),
        report=report,
        facts=facts_in_words(report),
        profile=profile_lines(report.profile, _) if report else [],
        **written,
        card=await database_of(request).run(find_card, repository.repository_id),
    )


@needs(Right.HARVEST)
async def begin(request: web.Request) -> web.Response:
    """Start diagnostics."""
    repository = await asked_for(request, Repository)
    if access_of(repository.protocol).query is not None:
        raise web.HTTPConflict(text=_("Diagnostics are available for OAI-PMH repositories only."))
    request.app[DIAGNOSTICS].begin(repository.repository_id, repository.base_url)
    raise web.HTTPSeeOther(f"/repositories/{repository.repository_id}/doctor")


async def as_json(request: web.Request) -> web.Response:
    """Return the last report as JSON."""
    repository = await asked_for(request, Repository)
    if repository.examination is None:
        raise web.HTTPNotFound(text=_("No diagnostics of this repository yet."))
    return web.json_response(repository.examination)


def find_card(session: Session, repository_id: int) -> ReportCard | None:
    """Return the repository's link if it is valid."""
    wanted = select(ReportCard).where(
        ReportCard.repository_id == repository_id, ReportCard.expires > func.now()
    )
    return session.scalars(wanted).one_or_none()


def facts_in_words(report: Report | None) -> list[FactText]:
    """Return a report's facts in the reader's language, the worst first; none without a report."""
    facts = report.facts if report else []
    return [_text_of(fact) for fact in sorted(facts, key=lambda fact: _WORST_FIRST.index(grade_of(fact)))]


def _text_of(fact: Fact) -> FactText:
    values = {name: decimal(one) if isinstance(one, float) else one for name, one in fact.values.items()}
    fact = replace(fact, values=values)
    return FactText(
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

"""The report card of a repository: a page for its own administrators, who have no account here.

Whoever has the link sees the diagnostics, the records that cannot be read, and the speed, and may have the
repository checked again, once an hour. Nothing on it is about partners: no names, no schedules, and medians
only of several repositories.
"""

import secrets
import time
from dataclasses import dataclass
from datetime import datetime, timedelta
from functools import partial
from typing import Any, Final

from aiohttp import web
from sqlalchemy import Numeric, cast, delete, func, or_, select, update
from sqlalchemy.orm import Session

from harvester.access import access_of
from harvester.harvest.quarantine import unread_parts
from harvester.models import History, Repository
from harvester.probing.findings import Report
from harvester.probing.report import letter
from manager.notices.digests import addresses_of, confirm_digest, find_digest, offer_digest, stop_digest
from manager.notices.models import Language
from oai.audit import Subject
from oai.datestamps import utc_now
from oai.errors import UsageError
from web.alerts.forms import language_choices
from web.auth.access import Right, about, asked_for, needs
from web.auth.audit import change_one
from web.auth.sessions import hashed
from web.models import ReportCard
from web.repositories.diagnostics import DIAGNOSTICS, facts_in_words
from web.site import i18n
from web.site.i18n import _, error_text, language
from web.site.keys import SETTINGS, database_of
from web.site.params import NUMBER
from web.site.render import render, with_form_token

_BYTES: Final = 16
"""128 random bits in a link."""
_DAYS: Final = 90
_BETWEEN_CHECKS: Final = timedelta(hours=1)
_MONTHS: Final = 12
_ERRORS: Final = 20
_LEAST_OTHERS: Final = 5
"""Medians need more repositories than this; of fewer, they would show the figures of single ones."""
_KEPT_SECONDS: Final = 3600.0
"""How long the medians are kept: they read the history of all repositories."""
_HEADERS: Final = {"X-Robots-Tag": "noindex, nofollow"}
_LINK: Final = r"{card:[A-Za-z0-9_-]{22}}"
_DIGEST: Final = r"{digest:[A-Za-z0-9_-]{22}}"


@dataclass(frozen=True, kw_only=True)
class Month:
    """A month of a repository's harvests."""

    month: datetime
    speed: float | None
    """Records per second while harvests ran; None without records."""
    runs: int
    complete: int


@dataclass(frozen=True, kw_only=True)
class Medians:
    """Medians over the repositories that were harvested in the last twelve months."""

    repositories: int
    speed: float | None = None
    complete: float | None = None
    """Share of complete harvests."""


@dataclass(kw_only=True)
class KeptMedians:
    """The medians of this process, which are computed again after an hour."""

    at: float = 0.0
    medians: Medians | None = None

    async def of(self, request: web.Request) -> Medians:
        """Return the medians; at worst, two requests compute them at once."""
        if self.medians is None or time.monotonic() - self.at > _KEPT_SECONDS:
            self.medians = await database_of(request).run(medians_of_all)
            self.at = time.monotonic()
        return self.medians


MEDIANS: Final = web.AppKey("report_card_medians", KeptMedians)


def make_card(session: Session, repository_id: int) -> str:
    """Make the repository's link and return its token; an earlier one is invalid. The caller commits."""
    session.execute(delete(ReportCard).where(ReportCard.repository_id == repository_id))
    token = secrets.token_urlsafe(_BYTES)
    expires = utc_now() + timedelta(days=_DAYS)
    session.add(ReportCard(repository_id=repository_id, token_hash=hashed(token), expires=expires))
    return token


def open_card(session: Session, token: str) -> Repository | None:
    """Return the repository of a valid link."""
    return session.scalars(
        select(Repository)
        .join(ReportCard, ReportCard.repository_id == Repository.repository_id)
        .where(ReportCard.token_hash == hashed(token), ReportCard.expires > func.now())
    ).one_or_none()


def claim_check(session: Session, token: str) -> bool:
    """Note a check by the link; return False if there was one within the last hour. The caller commits.

    The UPDATE compares, so that only one of two simultaneous requests succeeds.
    """
    due = or_(ReportCard.checked.is_(None), ReportCard.checked < func.now() - _BETWEEN_CHECKS)
    claimed = (
        update(ReportCard)
        .where(ReportCard.token_hash == hashed(token), due)
        .values(checked=func.now())
        .returning(ReportCard.repository_id)
    )
    return session.scalar(claimed) is not None


def months_of(session: Session, repository_id: int) -> list[Month]:
    """Return the last months of a repository with harvests, oldest first."""
    month = func.date_trunc("month", History.harvest_end_time, "UTC")
    rows = session.execute(
        select(month, _speed(), func.count(), func.count().filter(History.verdict == "complete"))
        .where(History.repository_id == repository_id, _is_recent())
        .group_by(month)
        .order_by(month)
    )
    return [Month(month=one, speed=speed, runs=runs, complete=well) for one, speed, runs, well in rows]


def medians_of_all(session: Session) -> Medians:
    """Return the medians, without figures if there are too few repositories."""
    each = (
        select(
            _speed().label("speed"),
            (func.count().filter(History.verdict == "complete") * 1.0 / func.count()).label("complete"),
        )
        .where(_is_recent())
        .group_by(History.repository_id)
        .subquery()
    )
    count, speed, complete = session.execute(
        select(
            func.count(),
            func.percentile_cont(0.5).within_group(each.c.speed),
            func.percentile_cont(0.5).within_group(each.c.complete),
        ).select_from(each)
    ).one()
    if count <= _LEAST_OTHERS:
        return Medians(repositories=count)
    return Medians(repositories=count, speed=speed, complete=complete)


def _speed() -> Any:  # noqa: ANN401 an SQL expression
    seconds = func.extract("epoch", History.harvest_end_time - History.harvest_start_time)
    with_records = History.record_count > 0
    ratio = func.sum(History.record_count).filter(with_records) / func.nullif(
        func.sum(seconds).filter(with_records), 0
    )
    return cast(ratio, Numeric(asdecimal=False))


def _is_recent() -> Any:  # noqa: ANN401 an SQL expression
    return History.harvest_end_time > func.now() - timedelta(days=_MONTHS * 31)


@needs(Right.HARVEST)
async def share(request: web.Request) -> web.Response:
    """Make the link and show it; it is not shown again."""
    repository = await asked_for(request, Repository)
    if access_of(repository.protocol).query is not None:
        raise web.HTTPConflict(text=_("Diagnostics are available for OAI-PMH repositories only."))
    token = await database_of(request).run(make_card, repository.repository_id)
    base = request.config_dict[SETTINGS].web.base_url or str(request.url.origin())
    link = f"{base.rstrip('/')}/cards/{token}"
    return render(request, "report_card_link.html", repository=repository, link=link, days=_DAYS)


@needs(Right.HARVEST)
async def revoke(request: web.Request) -> web.Response:
    """Make the link invalid."""
    repository = await asked_for(request, Repository)

    def work(session: Session) -> None:
        session.execute(delete(ReportCard).where(ReportCard.repository_id == repository.repository_id))

    await database_of(request).run(work)
    raise web.HTTPSeeOther(f"/repositories/{repository.repository_id}/doctor?done=card-revoked")


@needs(Right.ANYBODY)
async def show(request: web.Request) -> web.Response:
    """Show the report card to whoever has the link."""
    repository = await _of_link(request)
    report, database = Report.from_json(repository.examination), database_of(request)
    words = i18n.catalogue(language.get())
    unread = await database.run(unread_parts, repository.repository_id, most=_ERRORS)
    response = with_form_token(
        request,
        "report_card.html",
        repository=repository,
        report=report,
        facts=facts_in_words(report),
        letter=letter(report, words.gettext, language.get()) if report else "",
        unread=unread,
        months=await database.run(months_of, repository.repository_id),
        medians=await request.config_dict[MEDIANS].of(request),
        under_way=request.config_dict[DIAGNOSTICS].of(repository.repository_id),
        check=f"{request.path}/check",
        digest=f"{request.path}/digest",
        addresses=addresses_of(repository) if _can_mail(request) else [],
        language_choices=language_choices(),
    )
    response.headers.update(_HEADERS)
    return response


@needs(Right.ANYBODY)
async def check(request: web.Request) -> web.Response:
    """Check the repository again, at most once an hour by its link."""
    repository = await _of_link(request)
    about(request, "repository", repository.repository_id, repository.display_name)
    claimed = await database_of(request).run(claim_check, request.match_info["card"])
    if claimed:
        request.config_dict[DIAGNOSTICS].begin(repository.repository_id, repository.base_url)
    done = "card-checked" if claimed else "card-too-soon"
    raise web.HTTPSeeOther(f"{request.path.removesuffix('/check')}?done={done}")


@needs(Right.ANYBODY)
async def ask_for_digest(request: web.Request) -> web.Response:
    """Send the repository's administrator a mail that asks whether a weekly digest is welcome."""
    repository = await _of_link(request)
    posted = await request.post()
    language_of = str(posted.get("language", ""))
    if not _can_mail(request) or language_of not in set(Language):
        raise web.HTTPBadRequest(text=_("Choose one of the options."), headers=_HEADERS)
    about(request, "repository", repository.repository_id, repository.display_name)
    address, card = str(posted.get("address", "")), request.match_info["card"]
    try:
        await database_of(request).run(offer_digest, repository, address, Language(language_of), card)
    except UsageError as error:
        raise web.HTTPConflict(text=error_text(error), headers=_HEADERS) from None
    raise web.HTTPSeeOther(f"{request.path.removesuffix('/digest')}?done=digest-asked")


@needs(Right.ANYBODY)
async def show_digest(request: web.Request) -> web.Response:
    """Show the recipient of the digest what it is, with a button to confirm or stop it."""
    found = await database_of(request).run(find_digest, request.match_info["digest"])
    if found is None:
        raise web.HTTPNotFound(text=_("This link does not belong to a digest."), headers=_HEADERS)
    row, repository = found
    response = with_form_token(request, "digest.html", digest=row, repository=repository)
    response.headers.update(_HEADERS)
    return response


@needs(Right.ANYBODY)
async def change_digest(request: web.Request) -> web.Response:
    """Confirm or stop the digest."""
    token, stops = request.match_info["digest"], (await request.post()).get("do") == "stop"
    found = await database_of(request).run(find_digest, token)
    if found is not None:
        # Not by the path, whose token is a secret.
        number, name = str(found[1].repository_id), found[1].display_name
        subject = Subject(kind="repository", number=number, name=name)
        work = partial(database_of(request).run, stop_digest if stops else confirm_digest, token)
        await change_one(request, subject, work)
    if stops:
        return render(request, "digest_stopped.html", headers=_HEADERS)
    if found is None:
        raise web.HTTPNotFound(text=_("This link does not belong to a digest."), headers=_HEADERS)
    raise web.HTTPSeeOther(f"{request.path}?done=digest-confirmed")


def _can_mail(request: web.Request) -> bool:
    settings = request.config_dict[SETTINGS]
    return settings.web.base_url is not None and settings.mail.host is not None


async def _of_link(request: web.Request) -> Repository:
    repository = await database_of(request).run(open_card, request.match_info["card"])
    if repository is None:
        raise web.HTTPNotFound(
            text=_("This link is no longer valid. Ask the library that sent it to you for a new one."),
            headers=_HEADERS,
        )
    return repository


ROUTES: Final = (
    web.post(f"/repositories/{NUMBER}/card", share),
    web.post(f"/repositories/{NUMBER}/card/revoke", revoke),
    web.get(f"/cards/{_LINK}", show),
    web.post(f"/cards/{_LINK}/check", check),
    web.post(f"/cards/{_LINK}/digest", ask_for_digest),
    web.get(f"/digests/{_DIGEST}", show_digest),
    web.post(f"/digests/{_DIGEST}", change_digest),
)

"""The limits in effect, each with its setting and what is used of it."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from sqlalchemy.orm import Session

from manager.worker.registry import manager_status
from oai.disk import disks_of
from oai.settings import Settings
from web.auth.organisations import fullest_organisation
from web.site.formats import number, percent, size
from web.site.i18n import _

_PLACES: Final = "manager.concurrency"


@dataclass(frozen=True, kw_only=True)
class Limit:
    """A limit in words."""

    title: str
    value: str
    setting: str
    used: str = ""
    """What is used of it now; empty if that is not known."""


@dataclass(frozen=True, kw_only=True)
class LimitGroup:
    """Limits of one subject."""

    title: str
    limits: Sequence[Limit]


def limits_in_effect(session: Session, settings: Settings) -> list[LimitGroup]:
    """Return the limits that administrators ask for most, by subject; all are in the settings."""
    return [
        LimitGroup(title=_("Harvests"), limits=_harvests(session, settings)),
        LimitGroup(title=_("Partners"), limits=_partners(session, settings)),
        LimitGroup(title=_("Dashboard and API"), limits=_dashboard(settings)),
        LimitGroup(title=_("Provider"), limits=_provider(settings)),
    ]


def _harvests(session: Session, settings: Settings) -> list[Limit]:
    manager, harvester = settings.manager, settings.harvester
    workers = manager_status(session).workers
    running = number(sum(worker.harvests for worker in workers))
    places = number(sum(worker.concurrency for worker in workers))
    least = min(disk.free for disk in disks_of(settings))
    floor = f"{size(harvester.floor_bytes)} / {percent(harvester.floor_percent / 100)}"
    overall = _("no limit") if manager.overall is None else number(manager.overall)
    return [
        Limit(title=_("Harvests at a time"), value=overall, setting="manager.overall", used=running),
        Limit(title=_("Places of all workers"), value=places, setting=_PLACES, used=running),
        _plain(_("Harvests at a time from one host"), manager.per_host, "manager.per_host"),
        _plain(
            _("Failures in a row before a schedule is suspended"),
            manager.suspend_after,
            "manager.suspend_after",
        ),
        _plain(
            _("Minutes without progress until a harvest is stuck"),
            manager.stuck_minutes,
            "manager.stuck_minutes",
        ),
        Limit(
            title=_("Free disk space that stays"),
            value=floor,
            setting="harvester.floor_bytes, harvester.floor_percent",
            used=_("%(size)s free") % {"size": size(least)},
        ),
        Limit(
            title=_("Largest answer"),
            value=size(harvester.max_answer_bytes),
            setting="harvester.max_answer_bytes",
        ),
    ]


def _partners(session: Session, settings: Settings) -> list[Limit]:
    harvester = settings.harvester
    fullest = fullest_organisation(session, harvester)
    used = f"{fullest.name}: {percent(fullest.share)}" if fullest is not None and fullest.share else ""
    return [
        Limit(
            title=_("Records of one organisation"),
            value=_or_none(harvester.organisation_records),
            setting="harvester.organisation_records",
            used=used,
        ),
        Limit(
            title=_("Storage of one organisation"),
            value=size(harvester.organisation_bytes) if harvester.organisation_bytes else _("no limit"),
            setting="harvester.organisation_bytes",
            used=used,
        ),
        _plain(
            _("Minutes between two harvests"), settings.manager.partner_minutes, "manager.partner_minutes"
        ),
        Limit(
            title=_("Messages of one organisation in an hour"),
            value=_or_none(settings.mail.per_hour),
            setting="mail.per_hour",
        ),
    ]


def _dashboard(settings: Settings) -> list[Limit]:
    web = settings.web
    return [
        _plain(_("Failed sign-ins of an account"), web.sign_in_tries, "web.sign_in_tries"),
        _plain(
            _("Failed sign-ins from an address"),
            web.sign_in_tries_per_address,
            "web.sign_in_tries_per_address",
        ),
        Limit(
            title=_("Requests to the API in a minute"),
            value=_or_none(web.api_per_minute),
            setting="web.api_per_minute",
        ),
        _plain(_("Open connections"), web.connections, "web.connections"),
    ]


def _provider(settings: Settings) -> list[Limit]:
    provider = settings.provider
    return [
        Limit(
            title=_("Requests of a harvester at a time"),
            value=_or_none(provider.client_requests),
            setting="provider.client_requests",
        ),
        Limit(
            title=_("Requests of a harvester in a minute"),
            value=_or_none(provider.client_rate),
            setting="provider.client_rate",
        ),
        _plain(_("Records in an answer"), provider.records_per_answer, "provider.records_per_answer"),
        _plain(_("Open connections"), provider.connections, "provider.connections"),
    ]


def _plain(title: str, value: float, setting: str) -> Limit:
    return Limit(title=title, value=number(int(value)), setting=setting)


def _or_none(value: int) -> str:
    return number(value) if value else _("no limit")

"""The limits in effect, each with its setting and its current use."""

from collections.abc import Sequence
from dataclasses import dataclass
from operator import attrgetter
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
    """Its current use; empty if that is not known."""


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
        _plain(settings, _("Harvests at a time from one host"), "manager.per_host"),
        _plain(settings, _("Failures in a row before a schedule is suspended"), "manager.suspend_after"),
        _plain(settings, _("Minutes without progress until a harvest is stuck"), "manager.stuck_minutes"),
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
        _optional(settings, _("Records of one organisation"), "harvester.organisation_records", used),
        Limit(
            title=_("Storage of one organisation"),
            value=size(harvester.organisation_bytes) if harvester.organisation_bytes else _("no limit"),
            setting="harvester.organisation_bytes",
            used=used,
        ),
        _plain(settings, _("Minutes between two harvests"), "manager.partner_minutes"),
        _optional(settings, _("Messages of one organisation in an hour"), "mail.per_hour"),
    ]


def _dashboard(settings: Settings) -> list[Limit]:
    return [
        _plain(settings, _("Failed sign-ins of an account"), "web.sign_in_tries"),
        _plain(settings, _("Failed sign-ins from an address"), "web.sign_in_tries_per_address"),
        _optional(settings, _("Requests to the API in a minute"), "web.api_per_minute"),
        _plain(settings, _("Open connections"), "web.connections"),
    ]


def _provider(settings: Settings) -> list[Limit]:
    return [
        _optional(settings, _("Requests of a harvester at a time"), "provider.client_requests"),
        _optional(settings, _("Requests of a harvester in a minute"), "provider.client_rate"),
        _plain(settings, _("Records in an answer"), "provider.records_per_answer"),
        _plain(settings, _("Open connections"), "provider.connections"),
    ]


def _plain(settings: Settings, title: str, setting: str) -> Limit:
    return Limit(title=title, value=number(int(attrgetter(setting)(settings))), setting=setting)


def _optional(settings: Settings, title: str, setting: str, used: str = "") -> Limit:
    """Return a limit whose setting is 0 if there is none."""
    value: int = attrgetter(setting)(settings)
    return Limit(title=title, value=number(value) if value else _("no limit"), setting=setting, used=used)

"""The sections of the settings: each part's settings, with defaults and constraints."""

import ipaddress
import re
from typing import Final, Literal
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

from pydantic import Field, field_validator

from oai.sections.harvester import HarvesterSettings, InteractiveSettings
from oai.sections.manager import ManagerSettings
from oai.sections.openid import OpenIdSettings
from oai.sections.provider import ProviderSettings
from oai.sections.section import (
    BodySeconds,
    ConnectionsPerAddress,
    IdleSeconds,
    OpenConnections,
    Section,
    SlowRate,
    SlowSeconds,
)

__all__ = [
    "HarvesterSettings",
    "InteractiveSettings",
    "LogSettings",
    "ManagerSettings",
    "OpenIdSettings",
    "ProviderSettings",
    "WebSettings",
    "origin_of",
]


_ORIGIN: Final = re.compile(r"https?://(\[[0-9a-f:.]+\]|[^\s/?#@\\:\[\]]+)(:\d{1,5})?")


def origin_of(address: str) -> str:
    """Return the address without its last slash, in small letters, as browsers compare and send it.

    Raises ValueError if it is more than scheme, host and port.
    """
    origin = address.lower().removesuffix("/")
    if _ORIGIN.fullmatch(origin) is None:
        raise ValueError("write scheme, host and port only, such as https://zatva.library.example")
    return origin


class LogSettings(Section):
    """Logging to standard error."""

    level: Literal["debug", "info", "warning", "error"] = Field(
        "info", description="Lowest level that is logged."
    )
    format: Literal["console", "json"] = Field(
        "console", description="Log format: for people, or one JSON object per line."
    )


class WebSettings(Section):
    """The dashboard."""

    base_url: str | None = Field(
        None,
        pattern=r"^https?://\S+$",
        description="Public address of the dashboard: scheme, host and port, without a path.",
    )
    time_zone: str = Field(
        "UTC",
        description="Time zone of dates and times on pages for browsers that do not report theirs, and in "
        "messages that concern no schedule, such as Europe/Prague; each user can choose another.",
    )
    session_hours: float = Field(
        12, gt=0, description="How long a session lasts at most, in hours, however active the user is."
    )
    idle_minutes: float = Field(
        60, gt=0, description="Minutes without a request after which a session ends; live pages do not count."
    )
    fresh_minutes: float = Field(
        15,
        gt=0,
        description="Minutes after a sign-in during which steps such as changing a user or creating a token "
        "do not ask for the password again.",
    )
    second_factor: Literal["optional", "administrators", "all"] = Field(
        "optional",
        description="Who must sign in with a second factor (a code from an authenticator app): no user, "
        "administrators, or all users. A proxy that signs users in is responsible for its own.",
    )
    link_minutes: float = Field(
        30, gt=0, description="How long a one-time sign-in link is valid, in minutes."
    )
    invitation_hours: float = Field(
        72, gt=0, description="How long an invitation of a new user is valid, in hours."
    )
    password_length: int = Field(12, ge=8, le=100, description="Minimum number of characters in a password.")
    sign_in_tries: int = Field(
        10,
        ge=1,
        description="Failed sign-in attempts for one user from one address before more are delayed.",
    )
    sign_in_tries_per_address: int = Field(
        100,
        ge=1,
        description="Failed sign-in attempts from one address, whoever the user is, before more are delayed. "
        "A browser in which a user has signed in before is not delayed for that user.",
    )
    sign_in_minutes: float = Field(
        15, gt=0, description="Period over which failed sign-in attempts are counted, in minutes."
    )
    known_browser_days: float = Field(
        180, gt=0, description="Days that a browser in which a user has signed in is remembered."
    )
    trusted_proxies: tuple[str, ...] = Field(
        (),
        description="Addresses or networks of proxies in front of the dashboard whose headers are trusted. "
        "Empty: X-Forwarded-For is trusted from this machine only, and `proxy_user_header` is ignored.",
    )
    proxy_user_header: str | None = Field(
        None,
        pattern=r"^[A-Za-z0-9-]+$",
        description="Header in which a proxy listed in `trusted_proxies` names the signed-in user; unset: "
        "proxies cannot sign users in.",
    )
    audit_days: float = Field(365, ge=0, description="Days that the audit log is kept; 0: permanently.")
    token_days: float = Field(
        365, gt=0, le=3650, description="Greatest age of an API token, in days; then a new one is needed."
    )
    api_per_minute: int = Field(
        600, ge=0, description="API requests per minute allowed to one client; 0: no limit."
    )
    max_answer_bytes: int = Field(
        8 * 1024**2,
        ge=64 * 1024,
        description="Maximum bytes of an answer to a request of the dashboard or of `zatva probe`.",
    )
    max_part_elements: int = Field(
        100_000,
        ge=10_000,
        description="Maximum elements in one record, or in another part of such an answer (see "
        "`max_answer_bytes`).",
    )
    max_memory: int = Field(
        256 * 1024**2,
        ge=64 * 1024**2,
        description="Maximum bytes of memory for a process that sends such requests (see "
        "`max_answer_bytes`) and reads the answers.",
    )
    event_topics: int = Field(
        4,
        ge=1,
        le=100,
        description="Maximum lists that one live page may follow; the dashboard's pages follow one each.",
    )
    event_streams: int = Field(
        4, ge=1, le=1000, description="Maximum live pages in one session; further pages are not live."
    )
    hsts_days: int = Field(
        365,
        ge=0,
        le=3650,
        description="Days for which browsers refuse to visit the dashboard without encryption, if `base_url` "
        "begins with https (Strict-Transport-Security); 0: not sent.",
    )
    body_seconds: BodySeconds = 30
    idle_seconds: IdleSeconds = 75
    connections: OpenConnections = 4096
    connections_per_address: ConnectionsPerAddress = 512
    slow_seconds: SlowSeconds = 60
    slow_rate: SlowRate = 1024
    private_addresses: bool = Field(
        default=False,
        description="Whether addresses that users enter, and harvests of organisations' repositories, may "
        "use private and loopback networks.",
    )

    @field_validator("base_url", mode="before")
    @classmethod
    def _is_an_origin(cls, value: object) -> object:
        return origin_of(value) if isinstance(value, str) else value

    @field_validator("time_zone")
    @classmethod
    def _is_a_zone(cls, value: str) -> str:
        try:
            return ZoneInfo(value).key
        except (ZoneInfoNotFoundError, ValueError, OSError):
            raise ValueError("unknown time zone; write a name such as Europe/Prague or UTC") from None

    @field_validator("trusted_proxies")
    @classmethod
    def _are_networks(cls, value: tuple[str, ...]) -> tuple[str, ...]:
        for network in value:
            ipaddress.ip_network(network, strict=False)
        return value

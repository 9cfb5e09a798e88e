"""The sections of the settings: what each part can be told, with its default and what is allowed."""

import ipaddress
from typing import Literal
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

from pydantic import Field, field_validator

from oai.sections.connections import (
    BodySeconds,
    ConnectionsPerAddress,
    IdleSeconds,
    OpenConnections,
    SlowRate,
    SlowSeconds,
)
from oai.sections.harvester import HarvesterSettings, InteractiveSettings
from oai.sections.manager import ManagerSettings
from oai.sections.provider import ProviderSettings
from oai.sections.section import Section

__all__ = [
    "HarvesterSettings",
    "InteractiveSettings",
    "LogSettings",
    "ManagerSettings",
    "ProviderSettings",
    "WebSettings",
]


class LogSettings(Section):
    """What is logged, and how it is written to standard error."""

    level: Literal["debug", "info", "warning", "error"] = Field(
        "info", description="The least that is logged."
    )
    format: Literal["console", "json"] = Field(
        "console", description="For people, or one JSON object a line."
    )


class WebSettings(Section):
    """The dashboard."""

    base_url: str | None = Field(
        None, pattern=r"^https?://\S+$", description="The dashboard's address as its users see it."
    )
    time_zone: str = Field(
        "UTC",
        description="Whose clock and days pages show, such as Europe/Prague, unless a user chooses another.",
    )
    session_hours: float = Field(12, gt=0, description="How long a sign-in lasts, in hours.")
    link_minutes: float = Field(30, gt=0, description="How long a one-time sign-in link is good, in minutes.")
    invitation_hours: float = Field(
        72, gt=0, description="How long a new user's invitation is good, in hours."
    )
    password_length: int = Field(
        12, ge=8, le=100, description="The least number of characters of a password."
    )
    sign_in_tries: int = Field(
        10,
        ge=1,
        description="Wrong tries to sign in, from one address or for one user, before both have to wait.",
    )
    sign_in_minutes: float = Field(
        15, gt=0, description="For how long tries to sign in are counted, in minutes."
    )
    trusted_proxies: tuple[str, ...] = Field(
        (),
        description="Addresses or networks of proxies in front of the dashboard, whose headers are believed.",
    )
    proxy_user_header: str | None = Field(
        None,
        pattern=r"^[A-Za-z0-9-]+$",
        description="Header in which a trusted proxy names the user that it has signed in; unset: none is.",
    )
    audit_days: float = Field(365, ge=0, description="For how many days the audit log is kept; 0: for ever.")
    api_per_minute: int = Field(
        600, ge=0, description="How many requests a minute one caller of the API may make; 0: no limit."
    )
    max_answer_bytes: int = Field(
        8 * 1024**2,
        ge=64 * 1024,
        description="Bytes of the largest answer to what the dashboard, or `zatva probe`, asks a repository.",
    )
    max_part_elements: int = Field(
        100_000,
        ge=10_000,
        description="Elements of one record, or of another part of such an answer, at most.",
    )
    max_memory: int = Field(
        256 * 1024**2,
        ge=64 * 1024**2,
        description="Bytes of memory that a process which asks and reads such answers may take.",
    )
    event_topics: int = Field(
        4, ge=1, le=100, description="Lists that one live page may follow; the pages follow one each."
    )
    event_streams: int = Field(
        8, ge=1, le=1000, description="Live pages that one session may have open; others are not live."
    )
    body_seconds: BodySeconds = 30
    idle_seconds: IdleSeconds = 75
    connections: OpenConnections = 4096
    connections_per_address: ConnectionsPerAddress = 512
    slow_seconds: SlowSeconds = 60
    slow_rate: SlowRate = 1024
    private_addresses: bool = Field(
        default=False,
        description="Whether addresses that users type, and the harvests of organisations' repositories, may "
        "lead to private and loopback networks.",
    )

    @field_validator("time_zone")
    @classmethod
    def _is_a_zone(cls, value: str) -> str:
        try:
            return ZoneInfo(value).key
        except (ZoneInfoNotFoundError, ValueError, OSError):
            raise ValueError("no such time zone; write a name such as Europe/Prague or UTC") from None

    @field_validator("trusted_proxies")
    @classmethod
    def _are_networks(cls, value: tuple[str, ...]) -> tuple[str, ...]:
        for network in value:
            ipaddress.ip_network(network, strict=False)
        return value

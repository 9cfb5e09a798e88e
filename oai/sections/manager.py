"""The manager's settings, with defaults and constraints."""

from pydantic import Field

from oai.outgoing import HookSettings, ServiceSettings
from oai.sections.section import Section


class ManagerSettings(Section):
    """The manager and its workers."""

    tick_seconds: float = Field(2, gt=0, le=3600, description="Seconds between two checks of the tables.")
    concurrency: int = Field(4, ge=1, le=1000, description="Harvests that one worker runs at the same time.")
    prefork: bool = Field(
        default=True,
        description="Whether a worker forks harvests from a process that has already imported everything, "
        "which saves each about half a second of processor time; on Linux only.",
    )
    indexing_concurrency: int = Field(
        2, ge=1, le=1000, description="Archive files that one worker indexes at the same time."
    )
    retry_minutes: float = Field(
        5,
        gt=0,
        description="Minutes before a lost harvest runs again for the first time; it runs at once if its "
        "worker is lost.",
    )
    retries: int = Field(8, ge=0, le=50, description="Retries of a lost harvest.")
    stop_seconds: float = Field(
        20, gt=0, description="Seconds that a harvest may take to end after it is asked to."
    )
    lost_seconds: float = Field(
        30,
        gt=0,
        description="Seconds without a heartbeat after which a worker, or a leading manager, counts as lost; "
        "heartbeats are three times as frequent.",
    )
    page_seconds: float = Field(
        300, gt=0, description="Seconds that a harvest that is to pause or stop may take to finish its page."
    )
    per_host: int = Field(
        2, ge=1, le=1000, description="Maximum concurrent harvests from one host, on all machines."
    )
    overall: int | None = Field(
        None, ge=1, le=100_000, description="Maximum concurrent harvests on all machines; unset: no limit."
    )
    partner_minutes: float = Field(
        15,
        ge=0,
        le=1440,
        description="Minimum minutes between two runs of a schedule that has an owner. Partners may not plan "
        "more frequent runs; other frequent schedules run at this interval.",
    )
    suspend_after: int = Field(
        10, ge=0, le=1000, description="Consecutive failures after which a schedule is suspended; 0: never."
    )
    notices_at_once: int = Field(
        20,
        ge=0,
        le=100_000,
        description="Mails or chat messages about failures that a recipient of a notification rule gets one "
        "by one within an hour; further ones are collected for 15 minutes for one report. 0: no limit.",
    )
    stuck_minutes: float = Field(
        15, gt=0, description="Minutes without progress below which a harvest never counts as stuck."
    )
    stuck_pages: float = Field(
        20,
        gt=0,
        description="A harvest counts as stuck after this many times the usual time of one of its pages "
        "without progress.",
    )
    stuck_restart: bool = Field(
        default=False, description="Whether a stuck harvest is ended and resumed in another process."
    )
    result_days: float = Field(
        730,
        ge=0,
        le=36_500,
        description="Days that the results of imports and of audits of stores are kept; the last ones of "
        "each repository stay. 0: permanently.",
    )
    health_host: str = Field("127.0.0.1", min_length=1, description="Address that `health_port` listens on.")
    health_port: int = Field(
        0, ge=0, le=65_535, description="Port for `/healthz`, `/readyz` and `/metrics`; 0: none."
    )
    services: tuple[ServiceSettings, ...] = Field(
        (),
        description="Chat and push services that notification rules of administrators may use; see "
        "docs/how-to/notifications.md.",
    )
    hooks: tuple[HookSettings, ...] = Field(
        (), description="Hooks that run when a harvest has ended; see docs/how-to/hooks.md."
    )

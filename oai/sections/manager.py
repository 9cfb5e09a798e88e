"""What the manager can be told, with its defaults and what is allowed."""

from pydantic import Field

from oai.outgoing import HookSettings
from oai.sections.section import Section


class ManagerSettings(Section):
    """The manager and its workers."""

    tick_seconds: float = Field(2, gt=0, le=3600, description="How often the tables are polled.")
    concurrency: int = Field(4, ge=1, le=1000, description="Harvests that one worker runs at a time.")
    indexing_concurrency: int = Field(
        2, ge=1, le=1000, description="Archive files that one worker indexes at a time."
    )
    retry_minutes: float = Field(5, gt=0, description="First delay before a vanished harvest runs again.")
    retries: int = Field(8, ge=0, le=50, description="Further tries of a harvest that vanished.")
    stop_seconds: float = Field(20, gt=0, description="How long a harvest may take to end when asked to.")
    lost_seconds: float = Field(
        30,
        gt=0,
        description="Silence after which a worker counts as lost; it gives a sign three times as often.",
    )
    page_seconds: float = Field(
        300, gt=0, description="How long a harvest that is to pause or stop may take to finish its page."
    )
    per_host: int = Field(2, ge=1, le=1000, description="Harvests at a time from one host, on all machines.")
    overall: int | None = Field(
        None, ge=1, le=100_000, description="Harvests at a time in all, on all machines; none: no limit."
    )
    suspend_after: int = Field(
        10, ge=0, le=1000, description="Failures in a row after which a schedule is suspended; 0: never."
    )
    stuck_minutes: float = Field(
        15, gt=0, description="A harvest without progress for less than this is never called stuck."
    )
    stuck_pages: float = Field(
        20,
        gt=0,
        description="How many times as long as its pages take a harvest is without progress when stuck.",
    )
    stuck_restart: bool = Field(
        default=False, description="Whether a harvest that is stuck is ended, and goes on in another process."
    )
    health_host: str = Field("127.0.0.1", min_length=1, description="Where `health_port` listens.")
    health_port: int = Field(
        0, ge=0, le=65_535, description="Port for `/healthz`, `/readyz` and `/metrics`; 0: none."
    )
    hooks: tuple[HookSettings, ...] = Field(
        (), description="What happens when a harvest has ended; see docs/how-to/hooks.md."
    )

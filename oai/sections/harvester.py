"""What the harvester can be told, with its defaults and what is allowed."""

from typing import ClassVar

from pydantic import Field

from oai.limits import AnswerLimits
from oai.sections.section import Section


class HarvesterSettings(Section):
    """The harvester."""

    user_agent: str = Field(
        "Zatva/0.1 (OAI-PMH harvester)", min_length=1, description="Sent with each request."
    )
    private_addresses: bool = Field(
        default=True,
        description="Whether harvests may lead to private, loopback and link-local networks.",
    )
    contact: str | None = Field(None, description="E-mail address sent as `From` with each request.")
    timeout: float = Field(120, gt=0, le=3600, description="Seconds for one request.")
    slow_seconds: float = Field(
        60, gt=0, le=3600, description="How long an answer may come more slowly than `slow_rate`."
    )
    slow_rate: int = Field(
        16, ge=0, description="Bytes per second; an answer that comes more slowly is given up."
    )
    delay: float = Field(0, ge=0, le=3600, description="Seconds between two requests to one host.")
    per_host: int = Field(
        4, ge=1, le=100, description="Requests under way to one host at a time, in each process."
    )
    keep_raw: bool = Field(
        default=False, description="Whether every request and answer of a harvest is kept in a WARC file."
    )
    retries: int = Field(5, ge=0, le=100, description="Further tries of a request that failed.")
    first_delay: float = Field(
        0.5, ge=0, le=60, description="Seconds before the first further try; doubled before each other one."
    )
    max_wait: float = Field(3600, ge=0, description="Longest Retry-After to sit out, in seconds.")
    overlap: float = Field(60, ge=0, description="Seconds that an incremental harvest reaches back further.")
    files_per_directory: int = Field(5000, ge=1, description="Files in one directory of the store.")
    max_answer_bytes: int = Field(
        512 * 1024**2, ge=1024, description="Bytes of the largest answer that is accepted, unpacked."
    )
    max_answer_ratio: int = Field(
        200,
        ge=10,
        description="Bytes that a compressed answer of more than 64 MiB may unpack to for each byte sent.",
    )
    max_part_bytes: int = Field(
        64 * 1024**2,
        ge=1024**2,
        description="Bytes of the largest record, or other part of an answer, that is accepted.",
    )
    max_part_elements: int = Field(
        1_000_000, ge=10_000, description="Elements of one record, or of another part of an answer, at most."
    )
    max_part_depth: int = Field(
        256, ge=16, le=2000, description="How deeply elements of an answer may be nested."
    )
    max_memory: int = Field(
        640 * 1024**2,
        ge=64 * 1024**2,
        description="Bytes of memory that a process which reads answers may take.",
    )
    max_empty_pages: int = Field(
        100, ge=1, description="Pages without a record, in a row, after which a list ends."
    )
    max_repeated_pages: int = Field(
        20,
        ge=1,
        description="Pages in a row with only records that the list has had already, after which it ends.",
    )
    max_recovery_seconds: float = Field(
        1800, ge=0, description="Seconds that one run may spend on working around faults."
    )
    max_wait_total: float = Field(
        6 * 3600,
        ge=0,
        description="Seconds of waits in a row that a repository asks for without sending a page.",
    )
    rule_seconds: float = Field(
        10, gt=0, le=3600, description="Longest time that the rules of one file may take on one record."
    )
    keep_changes: float = Field(
        30, ge=0, le=36_500, description="Days that the change feed reaches back; 0: there is none."
    )
    brake_deletions: float = Field(
        20, ge=0, le=100, description="Per cent of the records that one run may delete without a yes."
    )
    brake_updates: float | None = Field(
        None, ge=0, description="Per cent of the records that one run may change without a yes."
    )
    brake_minimum: int = Field(
        10, ge=1, description="A run with fewer deletions or changes than this is never held."
    )
    isolation_requests: int = Field(
        1000, ge=0, description="Requests that one run may spend on finding the records that break an answer."
    )
    registry_url: str | None = Field(
        "https://www.openarchives.org/Register/ListFriends",
        pattern=r"^https?://\S+$",
        description="Address of a list of repositories, whose base URLs are suggested; unset: none are.",
    )
    registry_days: float = Field(
        7, gt=0, le=3650, description="Days after which the list of repositories is fetched anew."
    )

    limits_section: ClassVar[str] = "harvester"
    """The section in which an administrator raises the limits."""

    @property
    def limits(self) -> AnswerLimits:
        """What one answer may have at most."""
        return AnswerLimits(
            answer_bytes=self.max_answer_bytes,
            ratio=self.max_answer_ratio,
            part_bytes=self.max_part_bytes,
            part_elements=self.max_part_elements,
            part_depth=self.max_part_depth,
            memory=self.max_memory,
            section=self.limits_section,
        )


class InteractiveSettings(HarvesterSettings):
    """The harvester while a person waits; `Settings.interactive` makes them."""

    limits_section: ClassVar[str] = "web"

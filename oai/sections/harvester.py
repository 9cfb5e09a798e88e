"""The harvester's settings, with defaults and constraints."""

from typing import Annotated, ClassVar, Literal

from pydantic import AfterValidator, Field

from oai.limits import AnswerLimits
from oai.sections.section import Section


def _header_value(value: str) -> str:
    if not value.isprintable():
        raise ValueError("it is sent as an HTTP header; use printable characters only")
    return value


class HarvesterSettings(Section):
    """The harvester."""

    user_agent: Annotated[str, AfterValidator(_header_value)] = Field(
        "Zatva/0.1 (OAI-PMH harvester)", min_length=1, description="User-Agent sent with each request."
    )
    private_addresses: bool = Field(
        default=True,
        description="Whether harvests may begin at private and loopback addresses. Servers on the public "
        "internet never lead there, and link-local and metadata addresses are never requested.",
    )
    contact: Annotated[str, AfterValidator(_header_value)] | None = Field(
        None, description="E-mail address sent as `From` with each request."
    )
    timeout: float = Field(120, gt=0, le=3600, description="Seconds to wait for the answer to one request.")
    slow_seconds: float = Field(
        60, gt=0, le=3600, description="Seconds that an answer may come more slowly than `slow_rate`."
    )
    slow_rate: int = Field(16, ge=0, description="Bytes per second; slower answers are aborted.")
    delay: float = Field(0, ge=0, le=3600, description="Seconds between two requests to one host.")
    per_host: int = Field(
        4, ge=1, le=100, description="Maximum concurrent requests to one host, in each process."
    )
    keep_raw: bool = Field(
        default=False, description="Whether every request and answer of a harvest is stored in a WARC file."
    )
    retries: int = Field(5, ge=0, le=100, description="Retries of a failed request.")
    first_delay: float = Field(
        0.5, ge=0, le=60, description="Seconds before the first retry; doubled before each further one."
    )
    max_wait: float = Field(
        3600,
        ge=0,
        description="Longest Retry-After to wait for, in seconds. Jobs of the manager wait at most five "
        "minutes themselves, and are run again when a longer time has passed.",
    )
    overlap: float = Field(
        60,
        ge=0,
        description="Seconds by which an incremental harvest overlaps the previous one; at least a day if "
        "the repository's datestamps are days, which may be those of its own time zone.",
    )
    files_per_directory: int = Field(5000, ge=1, description="Maximum files in one directory of the store.")
    max_answer_bytes: int = Field(
        512 * 1024**2, ge=1024, description="Maximum bytes of an answer, uncompressed."
    )
    max_answer_ratio: int = Field(
        200,
        ge=10,
        description="Maximum compression ratio of an answer larger than 67 MB: uncompressed bytes for each "
        "byte sent.",
    )
    max_part_bytes: int = Field(
        64 * 1024**2,
        ge=1024**2,
        description="Maximum bytes of one record, or of another part of an answer.",
    )
    max_part_elements: int = Field(
        1_000_000, ge=10_000, description="Maximum elements in one record, or in another part of an answer."
    )
    max_part_depth: int = Field(
        256, ge=16, le=2000, description="Maximum nesting depth of elements in an answer."
    )
    max_memory: int = Field(
        640 * 1024**2,
        ge=64 * 1024**2,
        description="Maximum bytes of memory for a process that reads answers.",
    )
    max_empty_pages: int = Field(
        100, ge=1, description="Consecutive pages without a record after which a list is ended."
    )
    max_repeated_pages: int = Field(
        20,
        ge=1,
        description="Consecutive pages with only records that the list already had, after which it is ended.",
    )
    max_recovery_seconds: float = Field(
        1800,
        ge=0,
        description="Maximum seconds that one run spends on working around faults of the repository.",
    )
    max_wait_total: float = Field(
        6 * 3600,
        ge=0,
        description="Maximum seconds in total that a repository may ask to wait without sending a page.",
    )
    rule_seconds: float = Field(
        10, gt=0, le=3600, description="Maximum seconds that the rules of one file may take for one record."
    )
    schema_check: Literal["none", "sample", "full"] = Field(
        "sample",
        description="Records of a lenient harvest that are checked against their XML Schema, with warnings: "
        "`none`, the first 20 of each page (`sample`), or all (`full`).",
    )
    import_after_harvest: bool = Field(
        default=True,
        description="Import what a harvest changed, so that it can be searched, unless the repository's "
        "import settings forbid it. Off: records are imported only on request.",
    )
    keep_changes: float = Field(
        30, ge=0, le=36_500, description="Days that entries of the change feed are kept; 0: no change feed."
    )
    keep_versions: int = Field(
        10_000,
        ge=0,
        description="Maximum replaced versions of records that one run keeps, for `keep_changes` days; "
        "0: none.",
    )
    brake_deletions: float = Field(
        20,
        ge=0,
        le=100,
        description="Mass-change guard: percentage of the records that one run may delete without approval.",
    )
    brake_updates: float | None = Field(
        None,
        ge=0,
        description="Mass-change guard: percentage of the records that one run may change without approval.",
    )
    brake_minimum: int = Field(
        10,
        ge=1,
        description="Mass-change guard: a run with fewer deletions or changes than this is never held.",
    )
    isolation_requests: int = Field(
        1000,
        ge=0,
        description="Maximum requests that one run spends on finding the records that break an answer.",
    )
    floor_bytes: int = Field(
        5 * 10**9,
        ge=0,
        description="Free bytes that must stay on the disk: below, no harvest, import, restore, export or "
        "indexing starts, and running ones stop. The smaller of `floor_bytes` and `floor_percent` applies, "
        "and the same share of the inodes must stay free; 0: no floor.",
    )
    floor_percent: float = Field(
        5, ge=0, le=100, description="As `floor_bytes`, in percent of the disk; 0: no floor."
    )
    organisation_records: int = Field(
        1_000_000,
        ge=0,
        description="Records that an organisation may store in all of its repositories, unless an "
        "administrator sets another limit for it; 0: no limit.",
    )
    organisation_bytes: int = Field(
        20 * 10**9,
        ge=0,
        description="Bytes of record files and raw answers that an organisation may store in all of its "
        "repositories, unless an administrator sets another limit for it; 0: no limit.",
    )
    registry_url: str | None = Field(
        "https://www.openarchives.org/Register/ListFriends",
        pattern=r"^https?://\S+$",
        description="Address of a list of repositories whose base URLs are suggested; unset: no suggestions.",
    )
    registry_days: float = Field(
        7, gt=0, le=3650, description="Days after which the list of repositories is fetched again."
    )

    limits_section: ClassVar[str] = "harvester"
    """The section in which an administrator raises the limits."""

    @property
    def limits(self) -> AnswerLimits:
        """The limits of one answer."""
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

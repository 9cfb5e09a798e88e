"""The sections of the settings: what each part can be told, with its default and what is allowed."""

import ipaddress
import re
from typing import Annotated, Literal

from pydantic import AfterValidator, BaseModel, ConfigDict, Field

from oai.datestamps import parse_datestamp
from oai.errors import MalformedXmlError
from oai.outgoing import HookSettings
from oai.vocabulary import XSI_NAMESPACE, Granularity

# As the oai-identifier schema has it: at least two labels, the first of which begins with a letter.
_DOMAIN_NAME = re.compile(r"[A-Za-z][A-Za-z0-9\-]*(?:\.[A-Za-z0-9][A-Za-z0-9\-]*)+")

_WEB_ADDRESS = r"^https?://\S+$"
_PLACEHOLDER = re.compile(r"\{[^{}]*\}")
_REPLAY_PLACEHOLDERS = frozenset({"{key}", "{timestamp}", "{url}"})


def _host_name(value: str) -> str:
    if not _DOMAIN_NAME.fullmatch(value):
        raise ValueError(f"{value!r} is not a domain name that begins with a letter, as 'webarchiv.example'")
    return value


def _network(value: str) -> str:
    try:
        return str(ipaddress.ip_network(value))
    except ValueError:
        raise ValueError(f"{value!r} is not a network, as '192.0.2.0/24' or '2001:db8::1/128'") from None


def _datestamp(value: str) -> str:
    found = parse_datestamp(value)
    if found.granularity is not Granularity.SECOND:
        raise ValueError(f"{value!r} is not written to the second, as '2000-01-01T12:00:00Z'")
    return value


def _replay_template(value: str) -> str:
    unknown = set(_PLACEHOLDER.findall(value)) - _REPLAY_PLACEHOLDERS
    if unknown:
        allowed = ", ".join(sorted(_REPLAY_PLACEHOLDERS))
        raise ValueError(f"{value!r} has {min(unknown)!r}; the placeholders are {allowed}")
    if not _PLACEHOLDER.search(value):
        raise ValueError(f"{value!r} would be the same for all; write {{key}}, or {{timestamp}} and {{url}}")
    return value


def _xml_container(value: str) -> str:
    # Imported here, for the settings are read by commands that need no XML.
    from oai.xml import parse  # noqa: PLC0415

    try:
        root = parse(value.encode(), source="description")
    except MalformedXmlError as error:
        raise ValueError(str(error)) from None
    schema = root.get(f"{{{XSI_NAMESPACE}}}schemaLocation", "").split()
    if not (str(root.tag).startswith("{") and str(root.tag)[1:].partition("}")[0] in schema[::2]):
        raise ValueError(
            f"{value[:80]!r} has no namespace of its own whose schema its xsi:schemaLocation names, as the"
            " protocol asks of a description"
        )
    return value


class _Section(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid")


class LogSettings(_Section):
    """What is logged, and how it is written to standard error."""

    level: Literal["debug", "info", "warning", "error"] = Field(
        "info", description="The least that is logged."
    )
    format: Literal["console", "json"] = Field(
        "console", description="For people, or one JSON object a line."
    )


class ProviderSettings(_Section):
    """The OAI-PMH data provider."""

    repository_name: str = Field("Web archive", min_length=1, description="repositoryName in Identify.")
    admin_emails: tuple[Annotated[str, Field(pattern=r"^\S+@(\S+\.)+\S+$")], ...] = Field(
        ("webarchive@localhost.localdomain",),
        min_length=1,
        description="adminEmail in Identify; one or more.",
    )
    namespace: Annotated[str, AfterValidator(_host_name)] = Field(
        "webarchive.localdomain", description="Domain name in identifiers: `oai:<namespace>:<key>`."
    )
    base_url: Annotated[str, Field(pattern=r"^https?://[^\s?#]+$")] | None = Field(
        None,
        description="The base URL as the world sees it; without it, the address that is listened on.",
    )
    earliest_datestamp: Annotated[str, AfterValidator(_datestamp)] | None = Field(
        None,
        description="earliestDatestamp in Identify, `YYYY-MM-DDThh:mm:ssZ`; without it, or where a record is"
        " older, that of the oldest record.",
    )
    formats: tuple[str, ...] = Field(
        (), description="metadataPrefixes on offer; none named: all that there are. oai_dc always is."
    )
    replay_url: Annotated[str, Field(pattern=_WEB_ADDRESS), AfterValidator(_replay_template)] | None = Field(
        None,
        description="Address of an archived page, with {key}, or {timestamp} and {url}; without it, this"
        " provider's own.",
    )
    friends: tuple[Annotated[str, Field(pattern=_WEB_ADDRESS)], ...] = Field(
        (), description="Base URLs of other repositories, told in Identify for harvesters to find."
    )
    content_policy: str | None = Field(
        None,
        min_length=1,
        description="What the repository holds: a text or a web address, told in Identify.",
    )
    metadata_policy: str | None = Field(
        None, min_length=1, description="What may be done with the metadata: a text or a web address."
    )
    data_policy: str | None = Field(
        None, min_length=1, description="What may be done with the archived pages: a text or a web address."
    )
    metadata_licence: Annotated[str, Field(pattern=_WEB_ADDRESS)] | None = Field(
        None, description="Address of the licence of all metadata, told in Identify as a rights manifest."
    )
    descriptions: tuple[Annotated[str, AfterValidator(_xml_container)], ...] = Field(
        (), description="Further description containers of Identify: one XML element each, with its schema."
    )
    records_per_answer: int = Field(200, ge=1, le=10_000, description="Records in a ListRecords answer.")
    headers_per_answer: int = Field(500, ge=1, le=50_000, description="Headers in a ListIdentifiers answer.")
    sets_per_answer: int = Field(500, ge=1, le=50_000, description="Sets in a ListSets answer.")
    token_hours: float = Field(
        48, gt=0, le=8760, description="How long a resumption token is good, in hours."
    )
    publish_margin: float = Field(
        3, ge=1, le=600, description="Seconds by which new records are dated ahead of the clock."
    )
    threads: int = Field(4, ge=1, le=64, description="Database threads of one provider process.")
    waiting_room: int = Field(64, ge=0, le=10_000, description="Requests that may wait for a thread.")
    wait_seconds: float = Field(10, gt=0, le=300, description="How long a request may wait for a thread.")
    statement_seconds: float = Field(
        30, gt=0, le=3600, description="Longest time for one database statement."
    )
    body_seconds: float = Field(30, gt=0, le=3600, description="How long a client may take to send a form.")
    idle_seconds: float = Field(
        75,
        gt=0,
        le=3600,
        description="How long a connection may be without a whole request; longer than a proxy keeps it.",
    )
    connections: int = Field(
        4096,
        ge=16,
        le=1_000_000,
        description="Open connections of one process; when more come, those that are idle longest are closed.",
    )
    slow_seconds: float = Field(
        60, gt=0, le=3600, description="How long a client may read more slowly than `slow_rate`."
    )
    slow_rate: int = Field(
        1024, ge=0, description="Bytes per second; a client that reads more slowly is cut off."
    )
    client_requests: int = Field(
        8, ge=0, le=100_000, description="Requests under way for one client (in each process); 0: no limit."
    )
    client_rate: int = Field(
        0, ge=0, description="Requests of one client in a minute (in each process); 0: no limit."
    )
    trusted_proxies: tuple[Annotated[str, AfterValidator(_network)], ...] = Field(
        ("127.0.0.0/8", "::1/128"),
        description="Networks of our own proxies, whose X-Forwarded-For tells the client's address.",
    )
    client_addresses: Literal["whole", "truncated", "none"] = Field(
        "whole", description="How addresses of clients are kept: truncated to /24 (IPv6: /48), or not at all."
    )
    client_days: float = Field(
        90, gt=0, le=36_500, description="Days after its last request that a client is forgotten."
    )
    abandoned_hours: float = Field(
        48, gt=0, le=8760, description="Hours without a request after which a list counts as abandoned."
    )
    metrics_port: int = Field(
        0,
        ge=0,
        le=65_535,
        description="Port on 127.0.0.1 for Prometheus, with more processes the next ones, too; 0: none.",
    )
    reading_room: tuple[Annotated[str, AfterValidator(_network)], ...] = Field(
        (),
        description="Networks that may read documents of the rule 'reading room', as '192.0.2.0/24'.",
    )
    rights_open: str = Field(
        "Open access. The archived content may be under copyright.",
        min_length=1,
        description="What records say of open documents.",
    )
    rights_reading_room: str = Field(
        "Access to the archived content only in the archive's reading room.",
        min_length=1,
        description="What records say of documents for the reading room.",
    )
    rights_embargo: str = Field(
        "No access to the archived content before {until}.",
        min_length=1,
        description="What records say of documents under an embargo; `{until}` is its end.",
    )
    rights_withheld: str = Field(
        "The archive does not give access to this content.",
        min_length=1,
        description="What is said of withheld documents.",
    )
    checked_document_bytes: int = Field(
        8 * 1024**2,
        ge=0,
        description="Largest archived document whose digest is checked before its first byte is sent.",
    )
    cdx_lines: int = Field(
        10_000, ge=1, le=1_000_000, description="Most captures in one answer of the CDX look-up."
    )
    cdx_examined: int = Field(
        100_000,
        ge=1000,
        le=10_000_000,
        description="Captures that one CDX look-up examines before it has to be gone on with.",
    )


class HarvesterSettings(_Section):
    """The harvester."""

    user_agent: str = Field(
        "Zatva/0.1 (OAI-PMH harvester)", min_length=1, description="Sent with each request."
    )
    contact: str | None = Field(None, description="E-mail address sent as `From` with each request.")
    timeout: float = Field(120, gt=0, le=3600, description="Seconds for one request.")
    connections: int = Field(
        4096,
        ge=16,
        le=1_000_000,
        description="Open connections of one process; when more come, those that are idle longest are closed.",
    )
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
        False, description="Whether every request and answer of a harvest is kept in a WARC file."
    )
    retries: int = Field(5, ge=0, le=100, description="Further tries of a request that failed.")
    max_wait: float = Field(3600, ge=0, description="Longest Retry-After to sit out, in seconds.")
    overlap: float = Field(60, ge=0, description="Seconds that an incremental harvest reaches back further.")
    files_per_directory: int = Field(5000, ge=1, description="Files in one directory of the store.")
    max_answer_bytes: int = Field(512 * 1024**2, ge=1024, description="Largest answer that is accepted.")
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


class ManagerSettings(_Section):
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
        False, description="Whether a harvest that is stuck is ended, and goes on in another process."
    )
    health_host: str = Field("127.0.0.1", min_length=1, description="Where `health_port` listens.")
    health_port: int = Field(
        0, ge=0, le=65_535, description="Port for `/healthz`, `/readyz` and `/metrics`; 0: none."
    )
    hooks: tuple[HookSettings, ...] = Field(
        (), description="What happens when a harvest has ended; see docs/how-to/hooks.md."
    )


class WebSettings(_Section):
    """The dashboard."""

    base_url: str | None = Field(
        None, pattern=r"^https?://\S+$", description="The dashboard's address as its users see it."
    )
    session_hours: float = Field(12, gt=0, description="How long a sign-in lasts, in hours.")
    link_minutes: float = Field(30, gt=0, description="How long a one-time sign-in link is good, in minutes.")

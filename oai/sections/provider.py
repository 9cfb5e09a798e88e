"""The provider's settings, with defaults and constraints."""

import ipaddress
import re
from pathlib import Path
from typing import Annotated, Literal

from pydantic import AfterValidator, Field, SecretStr

from oai.datestamps import parse_datestamp
from oai.errors import MalformedXmlError, UsageError
from oai.object_addresses import S3, check_address
from oai.sections.section import (
    BodySeconds,
    ConnectionsPerAddress,
    IdleSeconds,
    OpenConnections,
    Section,
    SlowRate,
    SlowSeconds,
)
from oai.vocabulary import XSI_NAMESPACE, Granularity

# As in the oai-identifier schema: at least two labels, the first of which begins with a letter.
_DOMAIN_NAME = re.compile(r"[A-Za-z][A-Za-z0-9\-]*(?:\.[A-Za-z0-9][A-Za-z0-9\-]*)+")

_WEB_ADDRESS = r"^https?://\S+$"
_PLACEHOLDER = re.compile(r"\{[^{}]*\}")
_REPLAY_PLACEHOLDERS = frozenset({"{key}", "{timestamp}", "{url}"})
_TITLE_PLACEHOLDERS = frozenset({"{key}", "{url}"})


def _host_name(value: str) -> str:
    if not _DOMAIN_NAME.fullmatch(value):
        raise ValueError(
            f"{value!r} is not a domain name that begins with a letter, such as 'webarchiv.example'"
        )
    return value


def _network(value: str) -> str:
    try:
        return str(ipaddress.ip_network(value))
    except ValueError:
        raise ValueError(f"{value!r} is not a network, such as '192.0.2.0/24' or '2001:db8::1/128'") from None


def _datestamp(value: str) -> str:
    found = parse_datestamp(value)
    if found.granularity is not Granularity.SECOND:
        raise ValueError(f"{value!r} is not a UTC time to the second, such as '2000-01-01T12:00:00Z'")
    return value


def _placeholders(value: str, allowed: frozenset[str]) -> str:
    unknown = set(_PLACEHOLDER.findall(value)) - allowed
    if unknown:
        raise ValueError(
            f"{value!r} has the unknown placeholder {min(unknown)!r}; the placeholders are "
            f"{', '.join(sorted(allowed))}"
        )
    return value


def _replay_template(value: str) -> str:
    if not _PLACEHOLDER.search(_placeholders(value, _REPLAY_PLACEHOLDERS)):
        raise ValueError(
            f"{value!r} would be the same for all records; include {{key}}, or {{timestamp}} and {{url}}"
        )
    return value


def _title_template(value: str) -> str:
    if not _PLACEHOLDER.search(_placeholders(value, _TITLE_PLACEHOLDERS)):
        raise ValueError(f"{value!r} would be the same for all titles; include {{key}} or {{url}}")
    return value


ListMeaning = Literal["withheld", "reading room", "open", "ignore"]
_TitleTemplate = Annotated[str, Field(pattern=_WEB_ADDRESS), AfterValidator(_title_template)]


def _xml_container(value: str) -> str:
    # Imported here because commands that need no XML read the settings, too.
    from oai.xml import parse  # noqa: PLC0415

    try:
        root = parse(value.encode(), source="description")
    except MalformedXmlError as error:
        raise ValueError(str(error)) from None
    schema = root.get(f"{{{XSI_NAMESPACE}}}schemaLocation", "").split()
    if not (str(root.tag).startswith("{") and str(root.tag)[1:].partition("}")[0] in schema[::2]):
        raise ValueError(
            f"{value[:80]!r} is not in a namespace whose schema its xsi:schemaLocation names, which "
            "the protocol requires of a description"
        )
    return value


def _index_root(value: str) -> str:
    """Return a folder as it is, and a prefix with the slash at its end."""
    if "://" not in value:
        return value
    if not value.startswith(S3):
        raise ValueError(f"{value!r} cannot be listed; give a folder, or a prefix as s3://bucket/prefix/")
    try:
        check_address(value)
    except UsageError as error:
        raise ValueError(str(error)) from None
    return f"{value.rstrip('/')}/"


class ProviderSettings(Section):
    """The OAI-PMH data provider."""

    index_roots: tuple[Annotated[str, AfterValidator(_index_root)], ...] = Field(
        (),
        description="Folders, and prefixes such as s3://bucket/prefix/, below which the dashboard may index "
        "archive files; workers must see folders at the same paths. Empty: files are indexed by commands "
        "only.",
    )
    export_folder: Path | None = Field(
        None,
        description="Folder of the WARC and WACZ files that are prepared for download; the manager, workers "
        "and the dashboard must see it at the same path. Without it, `exports` in the data folder.",
    )
    export_bytes: int = Field(
        10 * 1024**3, ge=1, description="Maximum bytes of one file that is prepared for download."
    )
    export_total_bytes: int = Field(
        50 * 1024**3, ge=1, description="Maximum bytes of all files that are prepared for download together."
    )
    export_days: float = Field(
        7, gt=0, le=365, description="Days after which a file that was prepared for download is removed."
    )
    repository_name: str = Field("Web archive", min_length=1, description="repositoryName in Identify.")
    admin_emails: tuple[Annotated[str, Field(pattern=r"^\S+@(\S+\.)+\S+$")], ...] = Field(
        ("webarchive@localhost.localdomain",),
        min_length=1,
        description="adminEmail in Identify; at least one address.",
    )
    namespace: Annotated[str, AfterValidator(_host_name)] = Field(
        "webarchive.localdomain",
        description="Domain name in identifiers: `oai:<namespace>:<key>`. Set it before publishing and do "
        "not change it afterwards: harvesters would keep the archive's records under both identifiers. Own "
        "identifiers in the aggregate keep the namespace in which their source was first published.",
    )
    base_url: Annotated[str, Field(pattern=r"^https?://[^\s?#]+$")] | None = Field(
        None,
        description="Public base URL; without it, the address that the provider listens on. `zatva web "
        "serve` does not know that address and then shows and tests http://127.0.0.1:8080/oai. Without "
        "`replay_url`, records show addresses below it, and a change has the same consequence as there.",
    )
    earliest_datestamp: Annotated[str, AfterValidator(_datestamp)] | None = Field(
        None,
        description="earliestDatestamp in Identify, `YYYY-MM-DDThh:mm:ssZ`; without it, or if a record is "
        "older, the datestamp of the oldest record.",
    )
    formats: tuple[str, ...] = Field(
        (),
        description="metadataPrefixes that are offered, in this order; empty: the built-in ones. Formats of "
        "installed plug-ins are offered only if they are named. oai_dc is always offered.",
    )
    replay_url: Annotated[str, Field(pattern=_WEB_ADDRESS), AfterValidator(_replay_template)] | None = Field(
        None,
        description="Address of an archived page, with {key}, or {timestamp} and {url}; without it, this "
        "provider's own replay address. Records show it, and a change gives them no new datestamp: "
        "`zatva provider redate --all` does.",
    )
    friends: tuple[Annotated[str, Field(pattern=_WEB_ADDRESS)], ...] = Field(
        (),
        description="Base URLs of related repositories, listed in Identify so that harvesters can find them.",
    )
    content_policy: str | None = Field(
        None,
        min_length=1,
        description="What the repository contains, as a text or a web address; shown in Identify.",
    )
    metadata_policy: str | None = Field(
        None,
        min_length=1,
        description="How the metadata may be used, as a text or a web address; shown in Identify.",
    )
    data_policy: str | None = Field(
        None,
        min_length=1,
        description="How the archived pages may be used, as a text or a web address; shown in Identify.",
    )
    metadata_licence: Annotated[str, Field(pattern=_WEB_ADDRESS)] | None = Field(
        None,
        description="Address of the licence that covers all metadata; a rights manifest in Identify.",
    )
    descriptions: tuple[Annotated[str, AfterValidator(_xml_container)], ...] = Field(
        (),
        description="Additional description containers of Identify: one XML element each, with its schema.",
    )
    compression_level: int = Field(
        5,
        ge=1,
        le=9,
        description="Compression of answers, from 1 (fast) to 9 (small). With the extra `fast`, 5 takes "
        "three times as long as 2 and saves a sixth of the bytes.",
    )
    records_per_answer: int = Field(
        500, ge=1, le=10_000, description="Number of records in a ListRecords answer."
    )
    pages_ahead: bool = Field(
        default=True,
        description="Make a list's next page in advance when the provider is idle; it shows the holdings as "
        "of up to five seconds before its request.",
    )
    headers_per_answer: int = Field(
        500, ge=1, le=50_000, description="Number of headers in a ListIdentifiers answer."
    )
    sets_per_answer: int = Field(500, ge=1, le=50_000, description="Number of sets in a ListSets answer.")
    token_hours: float = Field(
        48, gt=0, le=8760, description="How long a resumption token is valid, in hours."
    )
    publish_margin: float = Field(
        3, ge=1, le=600, description="Seconds by which the datestamps of new records are ahead of the clock."
    )
    replica_urls: tuple[SecretStr, ...] = Field(
        (),
        description="Streaming replicas of the database, like `database_url`; lists are read from them in "
        "turn.",
    )
    replica_seconds: float = Field(
        5,
        gt=0,
        le=3600,
        description="Seconds by which a replica may be behind; withheld documents may be listed that much "
        "longer. Replicas that are further behind are not used, nor any while the primary has not answered "
        "for that long.",
    )
    threads: int = Field(4, ge=1, le=64, description="Database threads of one provider process.")
    waiting_room: int = Field(64, ge=0, le=10_000, description="Maximum requests that wait for a thread.")
    wait_seconds: float = Field(
        10, gt=0, le=300, description="Maximum seconds that a request waits for a thread."
    )
    statement_seconds: float = Field(
        30, gt=0, le=3600, description="Maximum seconds for one database statement."
    )
    body_seconds: BodySeconds = 30
    idle_seconds: IdleSeconds = 75
    connections: OpenConnections = 4096
    connections_per_address: ConnectionsPerAddress = 512
    slow_seconds: SlowSeconds = 60
    slow_rate: SlowRate = 1024
    client_requests: int = Field(
        8,
        ge=0,
        le=100_000,
        description="Maximum concurrent requests of one client, in each process; 0: no limit.",
    )
    client_rate: int = Field(
        0, ge=0, description="Maximum requests of one client per minute, in each process; 0: no limit."
    )
    trusted_proxies: tuple[Annotated[str, AfterValidator(_network)], ...] = Field(
        ("127.0.0.0/8", "::1/128"),
        description="Networks of trusted proxies, whose X-Forwarded-For header gives the client's address.",
    )
    client_addresses: Literal["whole", "truncated", "none"] = Field(
        "whole",
        description="How client addresses are stored: `whole`, `truncated` to /24 (IPv6: /48), or not at all "
        "(`none`).",
    )
    client_days: float = Field(
        90,
        gt=0,
        le=36_500,
        description="Days after a client's last request after which its statistics are deleted.",
    )
    abandoned_hours: float = Field(
        48, gt=0, le=8760, description="Hours without a request after which a list counts as abandoned."
    )
    metrics_port: int = Field(
        0,
        ge=0,
        le=65_535,
        description="Port on 127.0.0.1 for Prometheus; further processes use the following ports; 0: none.",
    )
    reading_room: tuple[Annotated[str, AfterValidator(_network)], ...] = Field(
        (),
        description="Networks that may read documents with the access rule `reading room`, such as "
        "`192.0.2.0/24`.",
    )
    rights_open: str = Field(
        "Open access. The archived content may be under copyright.",
        min_length=1,
        description="Rights statement in records of open documents, and of titles. After a change of this or "
        "the following two, `zatva provider redate` gives the records a new datestamp.",
    )
    rights_reading_room: str = Field(
        "Access to the archived content only in the archive's reading room.",
        min_length=1,
        description="Rights statement in records of documents that are restricted to the reading room.",
    )
    rights_embargo: str = Field(
        "No access to the archived content before {until}.",
        min_length=1,
        description="Rights statement in records of documents under an embargo; `{until}` is its end.",
    )
    rights_withheld: str = Field(
        "The archive does not give access to this content.",
        min_length=1,
        description="Rights statement for withheld documents.",
    )
    checked_document_bytes: int = Field(
        8 * 1024**2,
        ge=0,
        description="Largest archived document, in bytes, whose digest is checked before the first byte is "
        "sent.",
    )
    recognise_types: Literal["off", "stored", "used"] = Field(
        "off",
        description="Whether indexing recognises the types of documents by their content where the server "
        "declared none or a wrong one: not at all (`off`); `stored` beside the declared type; or also "
        "`used` for sets and formats of new documents.",
    )
    recognise_languages: bool = Field(
        default=False,
        description="Detect the language of pages and plain texts by their content while indexing, for "
        "dc:language in oai_dc. Needs the extra `languages`.",
    )
    aggregate_name: str | None = Field(
        None,
        min_length=1,
        description="repositoryName of the aggregate of harvested records; without it, it is made from "
        "`repository_name`.",
    )
    aggregate_seconds: float = Field(
        5, ge=0.1, le=86_400, description="Seconds between two checks for harvested records to publish."
    )
    archive_name: str | None = Field(
        None,
        min_length=1,
        description="Name of the archive in records of titles; without it, `repository_name`. After a "
        "change, `zatva provider redate --titles` gives them a new datestamp.",
    )
    titles_name: str | None = Field(
        None,
        min_length=1,
        description="repositoryName of the repository of titles; without it, it is made from "
        "`repository_name`.",
    )
    titles_seconds: float = Field(
        60, ge=0.1, le=86_400, description="Seconds between two counts of the captures of titles."
    )
    titles_replay_url: _TitleTemplate | None = Field(
        None,
        description="URL of an archived site, such as `https://wayback.example/wayback/*/{url}`; `{url}` is "
        "the title's main address, `{key}` its key. Without it, the page of the title. After a change, "
        "`zatva provider redate --titles` gives the records a new datestamp.",
    )
    title_front_pages: bool = Field(
        default=False,
        description="Let the search of titles also find words on the front page: the newest capture of a "
        "title's main address that everyone may see.",
    )
    titles_marc_profile: Literal["marc", "nkp"] = Field(
        "marc",
        description="How titles are described in MARC 21: the archived site in field 857, or as in the "
        "manual of the National Library of the Czech Republic. After a change, `zatva provider redate "
        "--titles` gives the records a new datestamp.",
    )
    title_seed_host: Literal["host", "domain"] = Field(
        "host",
        description="What a title's seed without a path means: that host, or also all hosts below it.",
    )
    title_seed_file: Literal["directory", "url"] = Field(
        "directory",
        description="What a title's seed with a file name or a query means: its directory, or that URL.",
    )
    title_carve_out_access: Literal["open", "reading room", "withheld"] = Field(
        "reading room", description="The access rule of documents that are carved out of a title."
    )
    title_document_sets: bool = Field(
        default=False,
        description="Whether the documents of each public title, and of each curated collection, are a set "
        "in the archive's own repository. After a change, `zatva provider titles update` gives all their "
        "documents a new datestamp.",
    )
    title_change_percent: float = Field(
        20,
        ge=0,
        le=100,
        description="Share of a source's titles, in percent, that an import may change or remove without "
        "`--approve`; 20 titles are always allowed.",
    )
    seeder_url: SecretStr | None = Field(
        None,
        description="Seeder's database, `postgresql://USER@HOST/DATABASE`, from which the dashboard and "
        "`zatva provider titles import` without a file import titles. The password is better in PGPASSWORD "
        "or ~/.pgpass.",
    )
    seeder_source: str = Field(
        "seeder",
        min_length=1,
        max_length=200,
        description="Name of the source to which the titles of `seeder_url` belong.",
    )
    seeder_public_states: tuple[Literal["success", "forced", "terminated", "expired"], ...] = Field(
        ("success",),
        description="States of sources in Seeder whose titles are public: any of `success`, "
        "`forced`, `terminated`, `expired`. Titles of sources in the other three states are not listed.",
    )
    seeder_media_url: str | None = Field(
        None,
        pattern=r"^https?://[^\s/]",
        description="The URL of Seeder's uploaded files, such as `https://seeder.example/media/`, for the "
        "pictures of collections on the pages of titles.",
    )
    seeder_ended_access: Literal["reading room", "withheld"] = Field(
        "reading room",
        description="The access rule of captures whose source in Seeder is terminated or expired.",
    )
    seeder_lists: dict[str, ListMeaning] = Field(
        {},
        description="What each of Seeder's blacklists means, by its id or title: `withheld` or `reading "
        "room` (access rules of the captures of its addresses), `open` (closes nothing), or `ignore`. Lists "
        "that are not named are ignored and reported.",
    )
    www_rule: Literal["numbered", "plain", "kept"] = Field(
        "numbered",
        description="Hosts that URL keys do not distinguish: with `numbered`, www.x, www2.x and x, as in "
        "pywb; with `plain`, www.x and x; with `kept`, none. It can be set only while the index is empty.",
    )
    cdx_lines: int = Field(
        10_000, ge=1, le=1_000_000, description="Maximum captures in one answer of the CDX look-up."
    )
    cdx_examined: int = Field(
        100_000,
        ge=1000,
        le=10_000_000,
        description="Maximum captures examined per CDX request (continue with resumeKey).",
    )
    cdx_filter_seconds: float = Field(
        5,
        gt=0,
        le=3600,
        description="Maximum seconds of processor time for the filters of a CDX request (continue with "
        "resumeKey).",
    )
    cdx_dialect: Literal["zatva", "pywb", "outbackcdx", "openwayback"] = Field(
        "zatva",
        description="Dialect of CDX look-ups without the argument `dialect`.",
    )

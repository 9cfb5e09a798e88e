"""What a repository's answers say, as values."""

from dataclasses import dataclass

from lxml import etree


@dataclass(frozen=True, kw_only=True, slots=True)
class Header:
    """A record's header (specification, section 2.5); the datestamp is as the repository wrote it."""

    identifier: str
    datestamp: str
    set_specs: tuple[str, ...] = ()
    deleted: bool = False


@dataclass(frozen=True, kw_only=True, slots=True)
class Record:
    """A record: its header, and the whole `<record>` element in the OAI namespace."""

    header: Header
    element: etree._Element


@dataclass(frozen=True, kw_only=True)
class ResumptionToken:
    """The token for the next page, with what the server says about the whole list (section 3.5)."""

    value: str
    cursor: int | None = None
    complete_list_size: int | None = None
    expiration_date: str | None = None


@dataclass(frozen=True, kw_only=True)
class Fault:
    """A part of an answer that could not be read: where it begins (byte offset), what is wrong, the bytes."""

    offset: int
    reason: str
    raw: bytes


@dataclass(frozen=True, kw_only=True)
class Page:
    """One answer to ListRecords or ListIdentifiers.

    `token` is None where the answer has no such element; its value is empty on the last page. `faults` are
    the parts left out. `cut_off` tells that the answer broke off before the list's end.
    """

    url: str
    response_date: str
    headers: tuple[Header, ...] = ()
    records: tuple[Record, ...] = ()
    token: ResumptionToken | None = None
    faults: tuple[Fault, ...] = ()
    cut_off: bool = False
    size: int = 0

    @property
    def next_token(self) -> str:
        """What to send for the next page; empty when there is none."""
        return self.token.value if self.token else ""

    @property
    def complete_list_size(self) -> int | None:
        """How many records the server says the whole list has."""
        return self.token.complete_list_size if self.token else None


@dataclass(frozen=True, kw_only=True)
class Identity:
    """What Identify says (section 4.2)."""

    repository_name: str
    base_url: str
    protocol_version: str
    admin_emails: tuple[str, ...]
    earliest_datestamp: str
    deleted_record: str
    granularity: str
    compression: tuple[str, ...] = ()
    repository_identifier: str | None = None
    response_date: str = ""


@dataclass(frozen=True, kw_only=True)
class SetInfo:
    """A set that the repository lists (section 4.6)."""

    set_spec: str
    set_name: str


@dataclass(frozen=True, kw_only=True)
class FormatInfo:
    """A metadata format that the repository offers (section 4.4)."""

    metadata_prefix: str
    schema: str
    namespace: str

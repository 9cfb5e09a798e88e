"""Expresses SRU and Z39.50 in terms of OAI-PMH: positions as resumption tokens, sets, and `<record>`."""

import copy
import hashlib
import re
from abc import ABC, abstractmethod
from collections.abc import AsyncIterator, Iterator
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any, ClassVar, Final, Self

from lxml import etree

from harvester.client.listing import Listing
from harvester.client.selection import Selection
from harvester.reading.answers import Fault, Header, Identity, Page, Record, ResumptionToken, SetInfo, SetPage
from harvester.reading.errors import ClientError, IdDoesNotExistError, NoRecordsMatchError
from oai.datestamps import format_datestamp, utc_now
from oai.errors import UsageError
from oai.failures import Failure, FailureCode
from oai.vocabulary import OAI_NAMESPACE, DeletedRecord, Granularity, Verb

_TOKEN: Final = re.compile(r"([1-9][0-9]{0,17})(?:/([0-9]{1,18}))?")
MARC21_NAMESPACE: Final = "http://www.loc.gov/MARC21/slim"
UNKNOWN_DATE: Final = "1970-01-01T00:00:00Z"
"""The datestamp of a record that does not state when it was changed.

It is constant, so that a record that is received again unchanged counts as unchanged.
"""
_SRU: Final = ("{http://www.loc.gov/zing/srw/}", "{http://docs.oasis-open.org/ns/search-ws/sruResponse}")
"""Namespaces that metadata without one of its own inherits from the answer."""
_IDENTIFIERS: Final = [f"{space}identifier" for space in ("{http://purl.org/dc/elements/1.1/}", *_SRU)]
_CONTROL_FIELDS: Final = [f"{space}controlfield" for space in (f"{{{MARC21_NAMESPACE}}}", "", *_SRU)]
"""Some servers send MARCXML without its namespace, or each record in a collection of one."""
_OAI: Final = f"{{{OAI_NAMESPACE}}}"
_CHANGED: Final = re.compile(r"([0-9]{14})(\.[0-9]*)?\s*")
_ENTERED: Final = re.compile(r"([0-9]{6})")
_UNPREFIXED: Final[dict[Any, str]] = {None: OAI_NAMESPACE}
_DIGEST_DIGITS: Final = 32
_OF_PUBLICATION: Final = re.compile(
    r"(?:urn:)?[ep]?-?is[bs]n[\W\d].*"
    r"|(?:\d{4}-\d{3}[\dX]|97[89][- ]?(?:\d[- ]?){9}\d"
    r"|(?=[\d -]{12}[\dX]\b)\d+(?:[- ]\d+){2}[- ][\dX])(?: ?\(.*)?",
    re.IGNORECASE,
)
"""An ISSN or ISBN, which several records have: articles that of their journal, volumes that of the whole."""


@dataclass(frozen=True, kw_only=True)
class QueryCursor:
    """A place in a result: the position to continue from, and the number of records so far."""

    position: int = 1
    size: int | None = None

    @property
    def is_past_end(self) -> bool:
        """Whether the place is behind the last record that is known."""
        return self.size is not None and self.position > self.size

    def token(self) -> str:
        """Return the value of the resumption token."""
        return f"{self.position}" if self.size is None else f"{self.position}/{self.size}"

    def token_after(self, start: Self, *, ended: bool) -> ResumptionToken:
        """Return the resumption token of the page from `start` to this place."""
        value = "" if ended else self.token()
        return ResumptionToken(value=value, cursor=start.position - 1, complete_list_size=self.size)

    def faults(self, size: int | None) -> Iterator[Fault]:
        """Yield a fault if an answer that begins here reports a changed size of the result.

        Records removed before this place have moved later records to positions that were already read.
        """
        if size is not None and self.size is not None and size < self.size:
            failure = Failure(code=FailureCode.RECORDS_MISSING, facts={"count": self.size - size})
            reason = (
                f"the number of records fell from {self.size:,} to {size:,} while the result was "
                "read, so records may be missing; harvest again"
            )
            yield Fault(offset=-1, reason=reason, raw=b"", failure=failure)

    def cut_off(self, error: ClientError, url: str) -> Page:
        """Return a last page without records, because the server returns none from this position on.

        A later attempt there would fail, too, so the list ends, with a fault.
        """
        count = {} if self.size is None else {"count": max(self.size - self.position + 1, 1)}
        failure = Failure(code=FailureCode.RECORDS_MISSING, facts=count)
        fault = Fault(offset=-1, reason=f"position {self.position:,}: {error}", raw=b"", failure=failure)
        return page_of((), url=url, token=self.token_after(self, ended=True), faults=(fault,))


def read_place(token: str) -> QueryCursor:
    """Return the place that a token names; the beginning if it is empty. Raises UsageError."""
    if not token:
        return QueryCursor()
    match = _TOKEN.fullmatch(token)
    if match is None:
        raise UsageError(f"{token!r} is not a valid position in a result; harvest with --full")
    return QueryCursor(position=int(match[1]), size=int(match[2]) if match[2] else None)


def no_records_match(url: str) -> NoRecordsMatchError:
    """Return the error of a query that finds no records, dated now because these answers have no date."""
    return NoRecordsMatchError(
        url, "noRecordsMatch", "the query finds no records", response_date=format_datestamp(utc_now())
    )


class QueryClient(ABC):
    """A client whose lists are the results of queries; a list's set is its query."""

    base_url: str
    _by_name: ClassVar[str]
    """The query for a record by the server's name for it, which follows in quotation marks."""

    @property
    @abstractmethod
    def _prefix(self) -> str:
        """Return the prefix of the records' identifiers."""

    @abstractmethod
    def pages(
        self, verb: Verb, selection: Selection, *, resumption_token: str = "", loose: bool = False
    ) -> AsyncIterator[Page]:
        """Yield the pages of a query's result."""

    def list_sets(self, *, loose: bool = False) -> Listing[SetPage, SetInfo]:  # noqa: ARG002 the interface
        """Return no sets: a query selects the records."""
        return Listing(_empty_page(), lambda page: page.sets)

    async def get_record(
        self, identifier: str, metadata_prefix: str = "oai_dc", *, loose: bool = False
    ) -> Record:
        """Return the record with the identifier from the result of a query for it.

        Raises IdDoesNotExistError if there is none, or more than one.
        """
        own = identifier.removeprefix(self._prefix + ":").replace("\\", "\\\\").replace('"', '\\"')
        selection = Selection(metadata_prefix=metadata_prefix, set_spec=f'{self._by_name}"{own}"')
        page = await anext(self.pages(Verb.GET_RECORD, selection, loose=loose))
        found = [record for record in page.records if record.header.identifier == identifier]
        if len(found) != 1:
            words = f"{len(found)} of the {len(page.records)} records found are {identifier!r}"
            raise IdDoesNotExistError(page.url, "idDoesNotExist", words)
        return found[0]

    def _identity(self, name: str, protocol: str, *admin_emails: str) -> Identity:
        """Return an identity; these protocols do not describe deletions or dates."""
        return Identity(
            repository_name=name,
            base_url=self.base_url,
            protocol_version=protocol,
            admin_emails=admin_emails,
            earliest_datestamp="",
            deleted_record=DeletedRecord.NO.value,
            granularity=Granularity.SECOND.value,
            response_date=format_datestamp(utc_now()),
        )


async def _empty_page() -> AsyncIterator[SetPage]:
    yield SetPage(url="", response_date=format_datestamp(utc_now()))


def page_of(
    records: tuple[Record, ...],
    *,
    url: str,
    token: ResumptionToken,
    faults: tuple[Fault, ...],
    notes: tuple[str, ...] = (),
) -> Page:
    """Return a page of these records, dated now because these answers have no date."""
    headers = tuple(record.header for record in records)
    if any(header.datestamp == UNKNOWN_DATE for header in headers):
        notes = (*notes, f"records without a date of change are dated {UNKNOWN_DATE}")
    return Page(
        url=url,
        response_date=format_datestamp(utc_now()),
        headers=headers,
        records=records,
        token=token,
        faults=faults,
        notes=notes,
    )


def wrapped(metadata: etree._Element, *, prefix: str, own: str = "") -> Record:
    """Return a record that contains the metadata; the element is moved, not copied.

    Its identifier is the prefix, a colon, and the first available of: `own`, the server's name for it; the
    control number; the first dc:identifier that is no ISSN or ISBN; and without all these, a digest of its
    content.
    """
    header = Header(identifier=f"{prefix}:{own or name_of(metadata)}", datestamp=datestamp_of(metadata))
    record = etree.Element(_OAI + "record", nsmap=_UNPREFIXED)
    head = etree.SubElement(record, _OAI + "header")
    etree.SubElement(head, _OAI + "identifier").text = header.identifier
    etree.SubElement(head, _OAI + "datestamp").text = header.datestamp
    metadata.tail = None
    etree.SubElement(record, _OAI + "metadata").append(metadata)
    return Record(header=header, element=record)


def name_of(metadata: etree._Element) -> str:
    """Return the name that a record has for itself, in one line; a digest of its content if it has none."""
    declared = (" ".join((element.text or "").split()) for element in metadata.iterchildren(*_IDENTIFIERS))
    names = (name for name in declared if not _OF_PUBLICATION.fullmatch(name))
    control_number = " ".join(_control_field(metadata, "001").split())
    if name := control_number or next(filter(None, names), ""):
        return name
    # Only a copy declares namespaces that ancestors in the answer declare.
    digest = hashlib.sha256(etree.tostring(copy.deepcopy(metadata), method="c14n2", with_tail=False))
    return f"sha256-{digest.hexdigest()[:_DIGEST_DIGITS]}"


def datestamp_of(metadata: etree._Element) -> str:
    """Return when a record says that it was changed, else entered on file; MARC 21 has no time zone."""
    changed = _CHANGED.fullmatch(_control_field(metadata, "005").strip())
    entered = _ENTERED.match(_control_field(metadata, "008"))
    for digits, form in ((changed, "%Y%m%d%H%M%S"), (entered, "%y%m%d")):
        if digits is None:
            continue
        try:
            moment = datetime.strptime(digits[1], form).replace(tzinfo=UTC)
        except ValueError:
            continue  # such as 00000000000000, which is not a date
        # With two-digit years, a date in the future belongs to the previous century.
        if moment <= datetime.now(UTC) + timedelta(days=1) or form == "%Y%m%d%H%M%S":
            return format_datestamp(moment)
        return format_datestamp(moment.replace(year=moment.year - 100))
    return UNKNOWN_DATE


def _control_field(metadata: etree._Element, tag: str) -> str:
    for element in metadata.iter(*_CONTROL_FIELDS):
        if element.get("tag") == tag:
            return element.text or ""
    return ""

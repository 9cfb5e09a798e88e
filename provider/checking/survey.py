"""Facts about a provider, requested only once and only when a check needs them."""

from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from functools import cached_property
from typing import Final
from urllib.parse import quote

from lxml import etree

from oai.datestamps import Datestamp, format_datestamp, parse_datestamp
from oai.errors import ZatvaError
from oai.vocabulary import ErrorCode, Granularity, Verb
from provider.checking.client import CheckClient
from provider.checking.replies import MOST_NODES, OAI, Header, Record, Reply

_MOST_PAGES: Final = 5
_MOST_SET_PAGES: Final = 20
_FAR: Final = datetime(2970, 1, 1, tzinfo=UTC)


class CannotBeDoneError(ZatvaError):
    """The provider did not supply what a check needs."""


class NotApplicableError(ZatvaError):
    """The provider has nothing that the check applies to, which is allowed."""


@dataclass(frozen=True, kw_only=True)
class Walk:
    """Some pages of a list, from its beginning."""

    pages: tuple[Reply, ...]
    ended: bool
    """Whether the last page is the end of the list."""

    @property
    def headers(self) -> list[Header]:
        """The headers on all pages."""
        return [header for page in self.pages for header in page.headers]

    @property
    def records(self) -> Iterator[Record]:
        """The records on all pages; each is a part of its page's tree, so not all are to be kept."""
        return (record for page in self.pages for record in page.records)

    @property
    def identifiers(self) -> list[str]:
        """The identifiers on all pages, including repetitions."""
        return [header.identifier for header in self.headers]

    def described(self) -> str:
        """Return how much of the list was read, as text."""
        return (
            f"{len(self.headers):,} items on {len(self.pages)} pages{'' if self.ended else ', more follow'}"
        )


@dataclass(frozen=True, kw_only=True, slots=True)
class OfferedFormat:
    """A format from ListMetadataFormats."""

    prefix: str
    schema: str
    namespace: str


@dataclass(frozen=True, kw_only=True, slots=True)
class OfferedSet:
    """A set from ListSets."""

    set_spec: str
    name: str


def offered_format(element: etree._Element) -> OfferedFormat:
    """Parse a `metadataFormat` element."""

    def child_text(name: str) -> str:
        return (element.findtext(f"{OAI}{name}") or "").strip()

    return OfferedFormat(
        prefix=child_text("metadataPrefix"),
        schema=child_text("schema"),
        namespace=child_text("metadataNamespace"),
    )


def offered_set(element: etree._Element) -> OfferedSet:
    """Parse a `set` element."""
    return OfferedSet(
        set_spec=(element.findtext(f"{OAI}setSpec") or "").strip(),
        name=(element.findtext(f"{OAI}setName") or "").strip(),
    )


class Survey:
    """Facts about the provider behind a client."""

    def __init__(self, client: CheckClient) -> None:
        self.client = client

    def begin(self) -> None:
        """Send Identify; raises UnreachableError if there is no answer."""
        self.client.get("verb=Identify")

    def query(self, template: str) -> str:
        """Return a query with the words in braces (properties of this class) filled in, percent-encoded."""
        return template.format_map(_Words(self))

    def ask(self, template: str) -> Reply:
        """Return the answer to such a query by GET."""
        return self.client.get(self.query(template))

    @cached_property
    def identify(self) -> Reply:
        """The answer to Identify; raises CannotBeDoneError if it is not an Identify answer."""
        reply = self.client.get("verb=Identify")
        if reply.container(Verb.IDENTIFY) is None:
            raise CannotBeDoneError("the answer to Identify is not OAI-PMH")
        return reply

    def identified(self, name: str) -> str:
        """Return the text of one element of Identify."""
        found = self.identify.texts(name)
        if not found:
            raise CannotBeDoneError(f"Identify has no {name}")
        return found[0]

    @cached_property
    def granularity(self) -> Granularity:
        """The granularity that Identify declares."""
        try:
            return Granularity(self.identified("granularity"))
        except ValueError:
            raise CannotBeDoneError("Identify declares a granularity that OAI-PMH does not define") from None

    @property
    def unit(self) -> timedelta:
        """The granularity as a duration."""
        return timedelta(days=1) if self.granularity is Granularity.DAY else timedelta(seconds=1)

    @cached_property
    def formats(self) -> list[OfferedFormat]:
        """The offered formats."""
        root = self.ask("verb=ListMetadataFormats").root
        return (
            [] if root is None else [offered_format(element) for element in root.iter(f"{OAI}metadataFormat")]
        )

    @cached_property
    def prefix(self) -> str:
        """The prefix for list requests: oai_dc if it is offered."""
        prefixes = [offered.prefix for offered in self.formats]
        return "oai_dc" if "oai_dc" in prefixes or not prefixes else prefixes[0]

    @cached_property
    def set_walk(self) -> Walk:
        """The list of sets; without pages if the provider has no sets."""
        if ErrorCode.NO_SET_HIERARCHY in self.ask("verb=ListSets").codes:
            return Walk(pages=(), ended=True)
        return self.walk("verb=ListSets", most=_MOST_SET_PAGES)

    @cached_property
    def sets(self) -> list[OfferedSet]:
        """The sets on the pages that were read."""
        roots = [page.root for page in self.set_walk.pages]
        return [
            offered_set(element) for root in roots if root is not None for element in root.iter(f"{OAI}set")
        ]

    @cached_property
    def records(self) -> Walk:
        """The first pages of all records."""
        return self._some("verb=ListRecords&metadataPrefix={prefix}")

    @cached_property
    def headers(self) -> Walk:
        """The first pages of all headers."""
        return self._some("verb=ListIdentifiers&metadataPrefix={prefix}")

    @cached_property
    def sample(self) -> Header:
        """A header from the middle of the first page, of a record that is not deleted if possible."""
        found = self.records.pages[0].headers
        living = [header for header in found if not header.deleted] or found
        if not living:
            raise CannotBeDoneError("ListRecords returned no record with a header")
        return living[len(living) // 2]

    @cached_property
    def moment(self) -> Datestamp:
        """The sample's datestamp."""
        try:
            return parse_datestamp(self.sample.datestamp)
        except ValueError as error:
            raise CannotBeDoneError(f"the datestamp of {self.sample.identifier}: {error}") from None

    @cached_property
    def chosen_set(self) -> str:
        """A set that contains records, as far as is known."""
        carried = Counter(spec for header in self.records.headers for spec in header.set_specs)
        # The rarest set first: with a set that contains every record, no answer shows whether it was
        # applied.
        known = sorted(self.sample.set_specs, key=carried.__getitem__)
        known += [offered.set_spec for offered in self.sets]
        if not known:
            raise NotApplicableError("the provider has no sets")
        return known[0]

    @cached_property
    def set_records(self) -> Walk:
        """The headers of the chosen set."""
        return self._some("verb=ListIdentifiers&metadataPrefix={prefix}&set={chosen_set}")

    @cached_property
    def moment_records(self) -> Walk:
        """All records with the sample's datestamp, which is both from and until."""
        return self._some("verb=ListRecords&metadataPrefix={prefix}&from={moment}&until={moment}")

    @cached_property
    def moment_headers(self) -> Walk:
        """All headers with the sample's datestamp."""
        return self._some("verb=ListIdentifiers&metadataPrefix={prefix}&from={moment}&until={moment}")

    @property
    def item_walks(self) -> Iterator[Walk]:
        """The walks over lists of items."""
        yield from (self.records, self.headers)

    @property
    def identifier(self) -> str:
        """The sample's identifier."""
        return self.sample.identifier

    @property
    def day(self) -> str:
        """The sample's datestamp, truncated to the day."""
        return format_datestamp(self.moment.moment, Granularity.DAY)

    @property
    def earlier(self) -> str:
        """One second or day before the sample."""
        return format_datestamp(self.moment.moment - self.unit, self.granularity)

    @property
    def later(self) -> str:
        """One second or day after the sample."""
        return format_datestamp(self.moment.moment + self.unit, self.granularity)

    @property
    def far(self) -> str:
        """A datestamp in the far future."""
        return format_datestamp(_FAR, self.granularity)

    @property
    def before(self) -> str:
        """One second or day before earliestDatestamp."""
        try:
            earliest = parse_datestamp(self.identified("earliestDatestamp")).moment
            return format_datestamp(earliest - self.unit, self.granularity)
        except (ValueError, OverflowError) as error:
            raise CannotBeDoneError(f"earliestDatestamp: {error}") from None

    @property
    def altered(self) -> str:
        """The ListRecords token with a character in its middle changed."""
        middle = len(self.token) // 2
        other = "A" if self.token[middle] != "A" else "B"
        return f"{self.token[:middle]}{other}{self.token[middle + 1 :]}"

    @cached_property
    def token(self) -> str:
        """A token issued by ListRecords."""
        return _token(self.records)

    @cached_property
    def headers_token(self) -> str:
        """A token issued by ListIdentifiers."""
        return _token(self.headers)

    def walk(self, query: str, *, most: int = _MOST_PAGES) -> Walk:
        """Return a list's pages from the first, at most `most`; fewer if they are large."""
        verb = query.partition("&")[0]
        pages = [self.client.get(query)]
        while (token := pages[-1].token) is not None and token.text and len(pages) < most:
            if sum(page.nodes for page in pages) > MOST_NODES:
                break
            following = self.client.get(f"{verb}&resumptionToken={quote(token.text, safe='')}")
            if following in pages:
                break
            pages.append(following)
        last = pages[-1].token
        return Walk(pages=tuple(pages), ended=last is None or not last.text)

    def _some(self, template: str) -> Walk:
        walk = self.walk(self.query(template))
        if not walk.pages[0].headers:
            raise CannotBeDoneError(f"{walk.pages[0].sent} returned no items: {walk.pages[0].excerpt}")
        return walk


def _token(walk: Walk) -> str:
    token = walk.pages[0].token
    if token is None or not token.text:
        raise NotApplicableError("the list of all records fits on one page, so no token was issued")
    return token.text


class _Words(Mapping[str, str]):
    """The words of query templates: properties of a survey, evaluated when used, percent-encoded."""

    def __init__(self, survey: Survey) -> None:
        self._survey = survey

    def __getitem__(self, word: str) -> str:
        return quote(str(getattr(self._survey, word)), safe="")

    def __iter__(self) -> Iterator[str]:
        return iter(vars(Survey))

    def __len__(self) -> int:
        return len(vars(Survey))

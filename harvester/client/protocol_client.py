"""What every protocol's client offers: the seam at which a new protocol is a new module (BIB-4)."""

from collections.abc import AsyncIterator
from typing import Protocol, Self

from harvester.client.listing import Listing
from harvester.client.repository_client import Traffic
from harvester.client.selection import Selection
from harvester.reading.answers import FormatInfo, Identity, Page, Record, SetInfo, SetPage
from oai.vocabulary import Verb


class ProtocolClient(Protocol):
    """A client of one repository, by whatever protocol that speaks.

    A record is a `<record>` of OAI-PMH with header and metadata, whatever it came in, so that rules, store
    and imports know one kind only. Each method raises ClientError or TryLaterError (`reading/errors.py`).
    """

    base_url: str
    traffic: Traffic

    def with_retries(self, retries: int) -> Self:
        """A client of the same repository with other patience; the traffic of both is counted together."""
        ...

    async def identify(self, *, loose: bool = False) -> Identity:
        """Who the repository is."""
        ...

    async def list_metadata_formats(self) -> tuple[FormatInfo, ...]:
        """The formats that it offers; none where it does not tell."""
        ...

    def list_sets(self) -> Listing[SetPage, SetInfo]:
        """Its sets; none where it has no such thing."""
        ...

    async def get_record(
        self, identifier: str, metadata_prefix: str = "oai_dc", *, loose: bool = False
    ) -> Record:
        """One record."""
        ...

    def pages(
        self, verb: Verb, selection: Selection, *, resumption_token: str = "", loose: bool = False
    ) -> AsyncIterator[Page]:
        """The pages of a list, from the token on where one is given.

        Each page's token says where to go on, its completeListSize how many records the list has. Strictly,
        what is broken raises MalformedAnswerError; with `loose`, it is in the page's faults. Raises
        NoRecordsMatchError where nothing is selected.
        """
        ...

"""The interface of every protocol's client: a new protocol is a new module behind it."""

from collections.abc import AsyncIterator
from typing import Protocol, Self

from harvester.client.listing import Listing
from harvester.client.repository_client import Traffic
from harvester.client.selection import Selection
from harvester.reading.answers import FormatInfo, Identity, Page, Record, SetInfo, SetPage
from oai.vocabulary import Verb


class ProtocolClient(Protocol):
    """A client of one repository, whatever its protocol.

    A record is a `<record>` of OAI-PMH with header and metadata, whatever its original form, so that rules,
    store and imports handle one kind only. Each method raises ClientError or TryLaterError
    (`reading/errors.py`).
    """

    base_url: str
    """Without credentials."""
    traffic: Traffic

    def with_retries(self, retries: int) -> Self:
        """Return a client of the same repository with other retries; both share their traffic counts."""
        ...

    async def identify(self, *, loose: bool = False) -> Identity:
        """Return the repository's identity."""
        ...

    async def list_metadata_formats(self, *, loose: bool = False) -> tuple[FormatInfo, ...]:
        """Return the formats that it offers; an empty tuple if it does not say."""
        ...

    def list_sets(self, *, loose: bool = False) -> Listing[SetPage, SetInfo]:
        """Return its sets; an empty list if it has none."""
        ...

    async def get_record(
        self, identifier: str, metadata_prefix: str = "oai_dc", *, loose: bool = False
    ) -> Record:
        """Return one record."""
        ...

    def pages(
        self, verb: Verb, selection: Selection, *, resumption_token: str = "", loose: bool = False
    ) -> AsyncIterator[Page]:
        """Yield the pages of a list, from the token on if one is given.

        Each page's token says where to continue, its completeListSize how many records the list has. In
        strict reading, broken parts raise MalformedAnswerError; with `loose`, they are in the page's faults.
        Raises NoRecordsMatchError if nothing is selected.
        """
        ...

"""What the protocols that answer queries lack, in OAI-PMH's words: sets, and a record by its identifier."""

from collections.abc import AsyncIterator

from harvester.client.listing import Listing
from harvester.reading.answers import Page, Record, SetInfo, SetPage
from harvester.reading.errors import IdDoesNotExistError
from oai.datestamps import format_datestamp, utc_now


def no_sets() -> Listing[SetPage, SetInfo]:
    """A list of sets with nothing in it: a query selects."""
    return Listing(_empty_page(), lambda page: page.sets)


def quoted(text: str) -> str:
    """The text as it stands in quotation marks in a query, which CQL and PQF write alike."""
    escaped = text.replace("\\", "\\\\").replace('"', '\\"')
    return f'"{escaped}"'


def only_record(page: Page, identifier: str) -> Record:
    """The record of the identifier among what a query for it found.

    Raises IdDoesNotExistError where there is none, or more than one.
    """
    found = [record for record in page.records if record.header.identifier == identifier]
    if len(found) != 1:
        words = f"{len(found)} of the {len(page.records)} records found are {identifier!r}"
        raise IdDoesNotExistError(page.url, "idDoesNotExist", words)
    return found[0]


async def _empty_page() -> AsyncIterator[SetPage]:
    yield SetPage(url="", response_date=format_datestamp(utc_now()))

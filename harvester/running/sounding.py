"""Asks whether anything is in a window at all, before it is asked for slice by slice."""

from dataclasses import dataclass

from harvester.client.protocol_client import ProtocolClient
from harvester.client.repository_client import Selection
from harvester.reading.errors import ClientError, NoRecordsMatchError
from harvester.running.sourcing import MissingAnswerError
from oai.vocabulary import Verb


@dataclass(frozen=True, kw_only=True)
class Sounding:
    """What the repository said of a window."""

    empty: bool = False
    """It said plainly that nothing is there."""
    failed: bool = False
    """No answer came that could be read."""
    response_date: str | None = None


async def sound(client: ProtocolClient, verb: Verb, selection: Selection) -> Sounding:
    """Ask for the window's first page, by the verb that its slices are asked for by.

    A window counts as empty by noRecordsMatch, or by a whole list of nothing. Whatever else comes does not:
    then each slice is asked for, with all the care that a list gets. Raises TryLaterError.
    """
    try:
        page = await anext(client.pages(verb, selection, loose=True))
    except NoRecordsMatchError as error:
        return Sounding(empty=True, response_date=error.response_date)
    except (ClientError, MissingAnswerError):  # an earlier run, which is replayed, may not have asked
        return Sounding(failed=True)
    something = page.headers or page.next_token or page.faults or page.cut_off or page.complete_list_size
    return Sounding(empty=not something, response_date=page.response_date)

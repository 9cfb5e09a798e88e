"""Requests records that a full list lacks, one by one, before they are deleted.

Where tokens count positions, a record that is removed while a list is read makes the list skip another one.
"""

from typing import Final

from harvester.client.protocol_client import ProtocolClient
from harvester.harvest.page_pipeline import RunThread
from harvester.harvest.request import HarvestRequest
from harvester.harvest.run import Run
from harvester.reading.answers import Header
from harvester.reading.errors import ClientError, MalformedAnswerError, OaiError, TransportError
from oai.console import counted
from oai.errors import TryLaterError, ZatvaError

_MOST: Final = 100
"""Missing records above which none is requested."""
_RETRIES: Final = 1
_ABSENT: Final = frozenset({"idDoesNotExist", "cannotDisseminateFormat", "noRecordsMatch"})
"""The errors for a record that the repository does not have in the format."""


async def confirm_disappeared(run: Run, client: ProtocolClient, steps: RunThread) -> None:
    """Keep the missing records that the repository has.

    More than 100 are not requested. After a failed request, the missing records that were not found are
    treated as if none had been requested.
    """
    database = run.checkpointer.database
    missing = await steps.in_thread(lambda: run.guard.find_disappeared(database, most=_MOST + 1))
    if not missing or len(missing) > _MOST:
        return
    client = client.with_retries(_RETRIES)
    found: list[int] = []
    failed: ZatvaError | None = None
    for number, identifier in missing:
        asking = client.get_record(identifier, run.request.metadata_prefix, loose=True)
        try:
            if _is_listed((await steps.or_stop(asking)).header, identifier, run.request, client.base_url):
                found.append(number)
        except OaiError as error:
            if error.code not in _ABSENT:
                failed = failed or error
        except (ClientError, TryLaterError) as error:
            failed = failed or error
            if isinstance(error, (TransportError, TryLaterError)):
                break  # the next requests would fail for the same reason
    _warn(run, len(found), failed)
    await steps.in_thread(lambda: run.guard.keep(database, found, all_requested=failed is None))


def _is_listed(header: Header, identifier: str, request: HarvestRequest, url: str) -> bool:
    """Return whether the header is of a record that the list should have.

    Raises MalformedAnswerError if the header does not show it.
    """
    if header.identifier != identifier:
        raise MalformedAnswerError(url, f"GetRecord answered with the record {header.identifier!r}")
    if header.deleted or not request.set_spec:
        return not header.deleted
    if not header.set_specs:
        raise MalformedAnswerError(url, "GetRecord answered without the sets of the record")
    return header.is_in(request.set_spec)


def _warn(run: Run, found: int, failed: ZatvaError | None) -> None:
    if failed is not None:
        run.prepared.warn(f"not all records missing from the list could be requested: {failed}")
    if found:
        was, them = ("was", "it") if found == 1 else ("were", "them")
        run.prepared.warn(
            f"{counted(found, 'record')} missing from the list {was} found by GetRecord and kept; the list"
            f" may have skipped {them}"
        )

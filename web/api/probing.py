"""Any repository looked at over the API; nothing is kept."""

from typing import Any, Final

from pydantic import Field

from harvester.client.oddities import oddities
from harvester.client.probing import Watching, probe
from harvester.client.repository_client import Client
from harvester.client.transport import open_transport
from oai.datestamps import utc_now
from web.api.operations import Call, Operation
from web.api.shapes import In, Out
from web.patience import impatient
from web.rights import Right

_TAG: Final = "repositories"


class ProbeBody(In):
    """What is to be looked at."""

    base_url: str = Field(min_length=1, max_length=2000, pattern=r"^https?://[^\s/?#@]+([/?]\S*)?$")


class ProbeOut(Out):
    """What a repository answers to a few questions."""

    base_url: str
    repository_name: str | None
    granularity: str | None
    deleted_record: str | None
    earliest_datestamp: str | None
    formats: list[str]
    sets: list[str] = Field(description="Of the first page.")
    identifiers: list[str] = Field(description="Of the first records.")
    failures: dict[str, str] = Field(description="What could not be had, by verb.")
    odd: list[str] = Field(description="What is not as it should be.")


async def _probe(call: Call) -> ProbeOut:
    settings = impatient(call.settings).harvester
    async with open_transport(settings) as transport:
        watching = Watching(transport)
        client = Client(call.sent(ProbeBody).base_url, watching, retries=1, max_wait=settings.max_wait)
        found = await probe(client, watching)
    facts: Any = found.identity
    return ProbeOut(
        base_url=found.base_url,
        repository_name=facts.repository_name if facts else None,
        granularity=facts.granularity if facts else None,
        deleted_record=facts.deleted_record if facts else None,
        earliest_datestamp=facts.earliest_datestamp if facts else None,
        formats=[one.metadata_prefix for one in found.formats],
        sets=[one.set_spec for one in found.sets.sets] if found.sets else [],
        identifiers=[one.header.identifier for one in found.page.records] if found.page else [],
        failures={verb: str(error) for verb, error in found.failures.items()},
        odd=list(oddities(found, now=utc_now())),
    )


OPERATIONS: Final = (
    Operation(
        name="probe",
        method="POST",
        path="/probe",
        tag=_TAG,
        summary="Look at any repository: Identify, formats, sets, first records. Nothing is kept.",
        right=Right.HARVEST,
        work=_probe,
        body=ProbeBody,
        answer=ProbeOut,
        faults=frozenset({424}),
    ),
)

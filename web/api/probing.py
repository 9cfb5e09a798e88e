"""Any repository looked at over the API; nothing is kept."""

from typing import Any, Final

from pydantic import Field

from harvester.access import access_of
from harvester.looking import look
from harvester.protocols import protocol_of
from harvester.repositories import check_base_url
from harvester.vocabulary import AccessProtocol
from oai.errors import SettingsError, UsageError
from oai.rights import Right
from web.api.faults import ApiError
from web.api.operations import Call, Operation
from web.api.shapes import In, Out
from web.patience import ask_apart

_TAG: Final = "repositories"


class ProbeBody(In):
    """What is to be looked at."""

    base_url: str = Field(min_length=1, max_length=2000, pattern=r"^(https?|z3950)://[^\s/?#@]+([/?]\S*)?$")
    protocol: AccessProtocol | None = Field(None, description="Null: detected from the URL.")
    query: str | None = Field(
        None, max_length=4096, description="Query for the first records: CQL for SRU, PQF for Z39.50."
    )


class ProbeOut(Out):
    """What a repository answers to a few questions."""

    base_url: str
    repository_name: str | None
    granularity: str | None
    deleted_record: str | None
    earliest_datestamp: str | None
    formats: list[str]
    sets: list[str] = Field(description="Of the first page.")
    identifiers: list[str] = Field(description="Metadata format of the first records.")
    failures: dict[str, str] = Field(description="Errors by verb.")
    odd: list[str] = Field(description="Irregularities in the answer.")


async def _probe(call: Call) -> ProbeOut:
    asked = call.sent(ProbeBody)
    try:
        protocol = protocol_of(asked.base_url, asked.protocol)
        access_of(protocol).check(asked.query)
        base_url = check_base_url(asked.base_url, protocol)
        looked = await ask_apart(look, base_url, call.settings, protocol=protocol, set_spec=asked.query or "")
    except (UsageError, SettingsError) as error:
        raise ApiError(422, str(error)) from None
    found = looked.findings
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
        odd=list(looked.odd),
    )


OPERATIONS: Final = (
    Operation(
        name="probe",
        method="POST",
        path="/probe",
        tag=_TAG,
        summary="Inspect any repository without storing data: Identify, formats, sets, first records.",
        right=Right.HARVEST,
        work=_probe,
        body=ProbeBody,
        answer=ProbeOut,
        faults=frozenset({424}),
    ),
)

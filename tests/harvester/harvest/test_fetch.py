"""Records that are fetched by GetRecord."""

from typing import Any

import pytest
from lxml import etree

from harvester.harvest.fetch import PageFetcher, RequestBudget
from harvester.harvest.transform import Refusal
from harvester.reading.answers import Header, Record
from oai.failures import FailureCode
from oai.vocabulary import Verb


class Client:
    """A client that always returns the same record."""

    base_url = "http://x/oai"

    async def get_record(self, identifier: str, metadata_prefix: str, *, loose: bool) -> Record:
        del identifier, metadata_prefix, loose
        return Record(header=Header(identifier="b", datestamp="2024-05-01"), element=etree.Element("record"))


@pytest.mark.parametrize("identifier", ["a", "b", "c"])
async def test_the_record_of_another_identifier_is_rejected(identifier: str) -> None:
    client: Any = Client()
    fetcher = PageFetcher(
        client=client, no_retry_client=client, metadata_prefix="oai_dc", verb=Verb.LIST_RECORDS,
        loose=True, budget=RequestBudget(left=1),
    )  # fmt: skip
    found = await fetcher._one(identifier, client, [])  # noqa: SLF001 the step that all ways share
    assert isinstance(found, Refusal) is (identifier != "b")
    if isinstance(found, Refusal):
        assert found.failure.code is FailureCode.RECORD_MISMATCH

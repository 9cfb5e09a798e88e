"""Records that are fetched by GetRecord."""

from collections.abc import AsyncIterator
from typing import Any

import pytest
from lxml import etree

from harvester.client.selection import Selection
from harvester.harvest.fetch import PageFetcher, RequestBudget
from harvester.harvest.transform import Refusal
from harvester.reading.answers import Fault, Header, Page, Record
from oai.failures import Failure, FailureCode
from oai.vocabulary import Verb


class Client:
    """A client that always returns the same record, and a list with one broken part."""

    base_url = "http://x/oai"

    def __init__(self, broken: bytes = b"") -> None:
        self._broken = broken

    async def pages(self, *_list: object, **_options: object) -> AsyncIterator[Page]:
        fault = Fault(
            offset=0, reason="broken", raw=self._broken, failure=Failure(code=FailureCode.RECORD_XML)
        )
        yield Page(url=self.base_url, response_date="", faults=(fault,))

    async def get_record(self, identifier: str, metadata_prefix: str, *, loose: bool) -> Record:
        del identifier, metadata_prefix, loose
        return Record(header=Header(identifier="b", datestamp="2024-05-01"), element=etree.Element("record"))


def _fetcher(client: Any) -> PageFetcher:
    return PageFetcher(
        client=client, no_retry_client=client, metadata_prefix="oai_dc", verb=Verb.LIST_RECORDS,
        loose=True, budget=RequestBudget(left=1),
    )  # fmt: skip


@pytest.mark.parametrize("identifier", ["a", "b", "c"])
async def test_the_record_of_another_identifier_is_rejected(identifier: str) -> None:
    client: Any = Client()
    fetcher = _fetcher(client)
    found = await fetcher._one(identifier, client, [])  # noqa: SLF001 the step that all ways share
    assert isinstance(found, Refusal) is (identifier != "b")
    if isinstance(found, Refusal):
        assert found.failure.code is FailureCode.RECORD_MISMATCH


@pytest.mark.parametrize(
    "before",
    [
        pytest.param(b"<header><identifier>" + b" " * 300_000 + b"<x/>", id="blanks"),
        pytest.param(b"<header " * 300_000 + b"><x/>", id="start tags that do not end"),
    ],
)
async def test_a_record_named_in_a_long_broken_part_is_fetched(before: bytes) -> None:
    fetcher = _fetcher(Client(before + b"<header><identifier> b </identifier></header>"))
    pages = fetcher.pages(Selection(metadata_prefix="oai_dc"), resumption_token="")
    assert [header.identifier async for page in pages for header in page.mended] == ["b"]

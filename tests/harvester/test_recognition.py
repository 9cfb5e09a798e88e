"""What is reported about an address that is tried by several protocols."""

from pathlib import Path

import pytest

from harvester.reading.errors import NotOaiPmhError, TransportError
from harvester.recognition import recognise_repository
from oai.settings import Settings
from tests.harvester.client.raw_server import RawServer, reply, serve_raw

_PAGE = reply(b"<html><title>A library</title></html>")


async def test_an_address_that_answered_one_protocol_is_not_reported_as_unreachable(tmp_path: Path) -> None:
    server = RawServer(answer=lambda line: _PAGE if "verb=Identify" in line else b"")
    async with serve_raw(server):
        with pytest.raises(NotOaiPmhError, match="A library"):
            await recognise_repository(server.url, Settings(data=tmp_path))
    assert any("operation=explain" in asked for asked in server.asked)


async def test_an_address_that_never_answers_is_tried_by_one_protocol_only(tmp_path: Path) -> None:
    server = RawServer(answer=lambda _: b"")
    async with serve_raw(server):
        with pytest.raises(TransportError):
            await recognise_repository(server.url, Settings(data=tmp_path))
    assert not any("operation=explain" in asked for asked in server.asked)

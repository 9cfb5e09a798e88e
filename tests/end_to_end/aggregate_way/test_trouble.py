"""The aggregate with conflicting sources, missing files or a pruned change feed; and over HTTP."""

import json
from dataclasses import replace
from pathlib import Path
from urllib.parse import urljoin

import pytest
from aiohttp import ClientSession
from lxml import etree, html

from provider.aggregate.catalogue import UnreadablePageError
from provider.aggregate.overview import read_status
from provider.aggregate.update import notice_unreadable
from provider.protocol.repository import make_repository
from tests.end_to_end.aggregate_way.hub import Hub, is_deleted, set_specs
from tests.harvester.fake_repository import FakeRepository, many, serve
from tests.harvester.library import Library

DC = 'xmlns:oai_dc="http://www.openarchives.org/OAI/2.0/oai_dc/" xmlns:dc="http://purl.org/dc/elements/1.1/"'
VALID = (
    f'<oai_dc:dc {DC} xmlns:xsi="http://www.w3.org/2001/XMLSchema-instance"'
    ' xsi:schemaLocation="http://www.openarchives.org/OAI/2.0/oai_dc/'
    ' http://www.openarchives.org/OAI/2.0/oai_dc.xsd"><dc:title>A title</dc:title></oai_dc:dc>'
)


async def test_of_two_sources_with_the_same_identifier_one_is_listed_at_a_time(
    hub: Hub, library: Library
) -> None:
    async with serve(FakeRepository(items=many(2))) as other:
        twin = hub.library(other, "twin")
        await twin.run()
    listed = {name: etree.tostring(record) for name, record in hub.listed().items()}
    hub.add(twin.repository_id, name="twin")
    assert hub.update() == 0
    assert {name: etree.tostring(record) for name, record in hub.listed().items()} == listed
    assert len(listed) == 8
    assert hub.listed(set="fake").keys() == hub.listed().keys()
    assert hub.ask(verb="ListRecords", metadataPrefix="oai_dc", set="twin").codes == ["noRecordsMatch"]
    with hub.database.session() as session:
        assert {one.set_spec: (one.listed, one.overshadowed) for one in read_status(session)} == {
            "fake": (8, 0),
            "twin": (0, 2),
        }
    hub.withdraw(library.repository_id)
    assert hub.update() == 8
    assert {name for name, record in hub.listed().items() if not is_deleted(record)} == {
        "oai:fake.example:0",
        "oai:fake.example:1",
    }
    assert set_specs(hub.listed()["oai:fake.example:0"]) == ["twin"]
    assert hub.ask(verb="ListRecords", metadataPrefix="oai_dc").size == "8"


async def test_a_record_with_a_missing_file_gets_503_and_is_not_listed_as_deleted(
    hub: Hub, library: Library
) -> None:
    lost = library.folder / library.records()["oai:fake.example:hard"].filename  # type: ignore[operator]
    kept = lost.read_bytes()
    lost.unlink()
    async with hub.served() as address, ClientSession() as session:
        query = {"verb": "GetRecord", "metadataPrefix": "oai_dc", "identifier": "oai:fake.example:hard"}
        async with session.get(address, params=query) as response:
            assert (response.status, response.headers["Retry-After"]) == (503, "15")
    hub.update()
    assert "oai:fake.example:hard" not in hub.listed()
    assert len(hub.listed()) == 7
    with hub.database.session() as database_session:
        (status,) = read_status(database_session)
    assert (status.listed, status.unreadable, status.overshadowed) == (7, 1, 0)
    assert "No such file" in (status.reason or "")
    lost.write_bytes(kept)
    hub.execute("UPDATE aggregate_unreadable SET looked_at = NULL")
    assert hub.update() == 1
    assert len(hub.listed()) == 8
    assert hub.rows("SELECT count(*) FROM aggregate_unreadable") == [(0,)]


async def test_records_of_a_missing_folder_are_not_changed(
    hub: Hub, library: Library, tmp_path: Path
) -> None:
    library.folder.rename(tmp_path / "away")
    with pytest.raises(UnreadablePageError):
        hub.listed()
    with hub.database.session() as session:
        notice_unreadable(session, {1: "gone"})
        session.commit()
    assert hub.update() == 0
    (tmp_path / "away").rename(library.folder)
    assert len(hub.listed()) == 8


async def test_changes_missing_from_a_pruned_change_feed_are_found(
    hub: Hub, library: Library, fake: FakeRepository
) -> None:
    fake.items[0] = replace(fake.items[0], title="Another", datestamp="2024-02-01T00:00:00Z")
    await library.run(full=True)
    hub.execute("TRUNCATE oai_change", "UPDATE aggregate_feed SET followed = now() - interval '40 days'")
    assert hub.update() == 1
    harvester = hub.settings.harvester.model_copy(update={"keep_changes": 0})
    hub.settings = hub.settings.model_copy(update={"harvester": harvester})
    hub.update()
    fake.items[1] = replace(fake.items[1], title="Another", datestamp="2024-02-01T00:00:00Z")
    await library.run(full=True)
    hub.execute("TRUNCATE oai_change")
    assert hub.update() == 1


async def test_the_provider_check_of_the_aggregate_finds_no_faults(hub: Hub, fake: FakeRepository) -> None:
    # Metadata that are not valid in the source stay so in the aggregate.
    fake.items = [replace(item, metadata=VALID, sets=item.sets or ("maps",)) for item in fake.items]
    library = hub.library(fake, "first")
    await library.run()
    hub.add(library.repository_id, name="fake")
    hub.update()
    async with hub.served() as address:
        code, out, err = await library.command("provider", "check", address, "--polite", "0", "--json")
    findings = [json.loads(line) for line in out.splitlines()]
    assert [(one["id"], one.get("came")) for one in findings if one.get("result") == "failed"] == []
    assert code == 0, err
    assert len(findings) > 100


async def test_without_sources_the_aggregate_is_answered_with_404(hub: Hub) -> None:
    async with hub.served() as address, ClientSession() as session:
        for headers in ({}, {"Accept": "text/html,application/xhtml+xml"}):
            async with session.get(address, headers=headers) as response:
                assert response.status == 404


async def test_the_landing_page_lists_sources_and_the_archive_refuses_aggregate_tokens(
    hub: Hub, library: Library
) -> None:
    async with hub.served() as address, ClientSession() as session:
        accept = {"Accept": "text/html,application/xhtml+xml"}
        async with session.get(address, headers=accept) as response:
            page = await response.text()
        assert library.fake.url in page
        assert ">8</td>" in page
        link = html.fromstring(page).find(".//link")
        assert link is not None
        async with session.get(urljoin(address, link.get("href", ""))) as response:
            assert response.status == 200
    token = hub.ask(verb="ListRecords", metadataPrefix="oai_dc").token
    assert token
    theirs = make_repository(hub.settings.provider, hub.database, "http://aggregate.example/oai")
    answer = theirs.answer([("verb", "ListRecords"), ("resumptionToken", token)])
    assert answer.errors == ("badResumptionToken",)

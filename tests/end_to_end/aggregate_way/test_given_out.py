"""Harvested records published again: metadata, sets, deletions, and provenance."""

from dataclasses import replace
from pathlib import Path

import pytest
from lxml import etree

from harvester.recognition import identify_repository
from harvester.repositories import note_facts
from oai.errors import UsageError
from oai.vocabulary import OAI_DC_NAMESPACE
from provider.aggregate.sources import walk_everything
from tests.end_to_end.aggregate_way.hub import OAI, PROVENANCE, Hub, is_deleted, metadata, set_specs
from tests.harvester.fake_repository import FakeRepository, Item, serve
from tests.harvester.library import Library

SCHEMA = Path(__file__).parents[4] / "shared" / "schemas" / "provenance.xsd"


async def test_records_harvested_from_the_aggregate_have_the_same_metadata(
    hub: Hub, library: Library, fake: FakeRepository
) -> None:
    async with hub.served() as address:
        again = hub.library(FakeRepository(url=address), "second")
        outcome = await again.run()
    assert outcome.verdict == "complete", outcome
    first, second = _stored(library), _stored(again)
    assert len(first) == len(fake.items)
    odd = "oai:webarchive.localdomain:fake:no%20uri%20at%20all"
    assert second.keys() == (first.keys() - {"no uri at all"}) | {odd}
    for identifier, record in first.items():
        copy = second[odd if identifier == "no uri at all" else identifier]
        assert metadata(copy) == metadata(record)
    assert set_specs(second["oai:fake.example:hard"]) == ["fake:serials:nov07"]
    assert set_specs(second["oai:fake.example:two"]) == ["fake:odd!2Fset!20!C3!A9", "fake:serials"]
    assert set_specs(second["oai:fake.example:0"]) == ["fake"]
    # A prefix in an attribute's value keeps its namespace.
    (date,) = second["oai:fake.example:hard"].iter("{http://purl.org/dc/elements/1.1/}date")
    assert date.nsmap["dcterms"] == "urn:terms"


async def test_the_sets_of_a_source_are_listed_below_its_own_set(hub: Hub, library: Library) -> None:
    with hub.database.session() as session:
        facts = await identify_repository(library.fake.url, hub.settings)
        note_facts(session, library.repository_id, facts)
        session.commit()
    hub.update()
    found = hub.ask(verb="ListSets")
    assert found.texts("setSpec") == [
        "fake",
        "fake:maps",
        "fake:odd!2Fset!20!C3!A9",
        "fake:serials",
        "fake:serials:nov07",
    ]
    assert found.texts("setName") == ["Fake", "Set maps", "odd/set é", "Set serials", "Set serials:nov07"]
    odd = "oai:webarchive.localdomain:fake:no%20uri%20at%20all"
    assert hub.listed(set="fake:serials").keys() == {"oai:fake.example:hard", "oai:fake.example:two", odd}
    assert hub.listed(set="fake:serials:nov07").keys() == {"oai:fake.example:hard", odd}
    assert hub.listed(set="fake").keys() == hub.listed().keys()
    assert hub.ask(verb="ListRecords", metadataPrefix="oai_dc", set="fake:x").codes == ["noRecordsMatch"]
    assert hub.ask(verb="ListRecords", metadataPrefix="oai_dc").size == "8"
    assert hub.ask(verb="ListRecords", metadataPrefix="oai_dc", set="fake").size == "8"


async def test_a_deletion_is_published_with_the_sets_of_the_record(
    hub: Hub, library: Library, fake: FakeRepository
) -> None:
    fake.items[5] = Item(identifier="oai:fake.example:hard", datestamp="2030-01-01T00:00:00Z", deleted=True)
    assert (await library.run()).counts["deleted"] == 1
    assert hub.update() == 1
    (gone,) = [record for record in hub.listed(set="fake:serials:nov07").values() if is_deleted(record)]
    assert set_specs(gone) == ["fake:serials:nov07"]
    assert len(gone) == 1
    async with hub.served() as address:
        again = hub.library(FakeRepository(url=address), "second")
        await again.run()
        fake.items[5] = Item(
            identifier="oai:fake.example:hard", datestamp="2030-01-02T00:00:00Z", sets=("maps",)
        )
        await library.run()
        assert hub.update() == 1
        back = hub.listed()["oai:fake.example:hard"]
        assert (is_deleted(back), set_specs(back)) == (False, ["fake:maps"])
        library.delete(0, 1, datestamp="2030-01-03T00:00:00Z")
        await library.run()
        assert hub.update() == 2
        assert (await again.run()).counts["deleted"] == 2


async def test_unchanged_records_are_not_published_again(
    hub: Hub, library: Library, fake: FakeRepository
) -> None:
    before = hub.rows("SELECT * FROM aggregate_record ORDER BY id")
    assert hub.update() == 0
    with hub.database.session() as session:
        walk_everything(session)
        session.commit()
    assert hub.update() == 0
    assert hub.rows("SELECT * FROM aggregate_record ORDER BY id") == before
    fake.items[0] = replace(fake.items[0], title="Another", datestamp="2024-02-01T00:00:00Z")
    await library.run(full=True)
    assert hub.update() == 1
    assert b">Another<" in metadata(hub.listed()["oai:fake.example:0"])


async def test_provenance_contains_both_repositories_after_two_harvests(hub: Hub, library: Library) -> None:
    del library
    async with hub.served() as address:
        again = hub.library(FakeRepository(url=address), "second")
        await again.run()
    hub.add(again.repository_id, name="again", identifiers="own", altered=True)
    hub.update()
    own = "oai:webarchive.localdomain:again:oai:fake.example:0"
    record = hub.listed(set="again")[own]
    (about,) = record.iterfind(f"{OAI}about")
    if SCHEMA.exists():
        etree.XMLSchema(etree.parse(SCHEMA)).assertValid(about[0])
    (outer,) = about[0].iterchildren()
    inner = outer.find(f"{PROVENANCE}originDescription")
    assert inner is not None
    assert (outer.get("altered"), inner.get("altered")) == ("true", "false")
    facts = [
        [element.findtext(f"{PROVENANCE}{name}") for name in ("baseURL", "identifier", "metadataNamespace")]
        for element in (outer, inner)
    ]
    assert facts[0][0] == address
    assert [fact[1:] for fact in facts] == [["oai:fake.example:0", OAI_DC_NAMESPACE]] * 2
    assert inner.findtext(f"{PROVENANCE}datestamp") == "2024-01-01T00:00:00Z"


async def test_rights_and_provenance_of_a_harvested_record_are_published(
    hub: Hub, fake: FakeRepository
) -> None:
    rights = '<about><rights xmlns="http://www.openarchives.org/OAI/2.0/rights/">yes</rights></about>'
    old = (
        '<about><p:provenance xmlns:p="http://www.openarchives.org/OAI/2.0/provenance"><p:originDescription'
        ' harvestDate="2001-01-01" altered="true"><p:baseURL>http://old.example/</p:baseURL>'
        "<p:identifier>oai:old:1</p:identifier><p:datestamp>2000-01-01</p:datestamp>"
        "<p:metadataNamespace>urn:x</p:metadataNamespace></p:originDescription></p:provenance></about>"
    )
    fake.fault = lambda _, good: good.replace(b"</metadata>", f"</metadata>{rights}{old}".encode())
    library = hub.library(fake, "first")
    await library.run()
    hub.add(library.repository_id, name="fake")
    hub.update()
    record = hub.listed()["oai:fake.example:0"]
    kinds = [about[0].tag.rpartition("}")[2] for about in record.iterfind(f"{OAI}about")]
    assert kinds == ["rights", "provenance"]
    assert [element.text for element in record.iter(f"{PROVENANCE}baseURL")] == [
        fake.url,
        "http://old.example/",
    ]


async def test_harvested_formats_are_listed_in_all_and_for_each_record(
    hub: Hub, library: Library, fake: FakeRepository
) -> None:
    fake.items = [replace(item, metadata='<r xmlns="urn:other"/>') for item in fake.items]
    await library.run(metadata_prefix="other")
    hub.update()
    assert hub.ask(verb="ListMetadataFormats").texts("metadataPrefix") == ["oai_dc", "other"]
    assert hub.ask(verb="ListMetadataFormats").texts("metadataNamespace")[1] == "urn:other"
    assert hub.listed(metadataPrefix="other").keys() == hub.listed().keys()
    one = {"identifier": "oai:fake.example:0"}
    assert hub.ask(verb="ListMetadataFormats", **one).texts("metadataPrefix") == ["oai_dc", "other"]
    hub.execute(
        "DELETE FROM oai_record WHERE metadata_prefix = 'other' AND right(identifier, 2) = chr(58) || '1'"
    )
    hub.execute("DELETE FROM aggregate_record WHERE format_id = 2 AND right(identifier, 2) = chr(58) || '1'")
    lacking = hub.ask(verb="GetRecord", metadataPrefix="other", identifier="oai:fake.example:1")
    assert lacking.codes == ["cannotDisseminateFormat"]
    unknown = hub.ask(verb="GetRecord", metadataPrefix="none", identifier="oai:fake.example:none")
    assert unknown.codes == ["cannotDisseminateFormat", "idDoesNotExist"]
    assert hub.ask(verb="GetRecord", metadataPrefix="other", **one).texts("identifier")


async def test_two_formats_with_the_same_prefix_are_distinguished(hub: Hub, library: Library) -> None:
    del library
    item = Item(identifier="oai:b.example:1", metadata='<r xmlns="urn:b"/>')
    async with serve(FakeRepository(items=[item])) as other:
        other.fault = lambda _, good: good.replace(b"http://www.openarchives.org/OAI/2.0/oai_dc/", b"urn:b")
        second = hub.library(other, "b")
        with hub.database.session() as session:
            note_facts(session, second.repository_id, await identify_repository(other.url, hub.settings))
            session.commit()
        await second.run()
    hub.add(second.repository_id, name="b")
    hub.update()
    assert hub.ask(verb="ListMetadataFormats").texts("metadataPrefix") == ["oai_dc", "oai_dc.2"]
    assert hub.listed(metadataPrefix="oai_dc.2").keys() == {"oai:b.example:1"}


async def test_records_of_a_removed_source_are_deleted_and_restored_with_it(
    hub: Hub, library: Library
) -> None:
    hub.withdraw(library.repository_id)
    assert hub.update(together=3) == 8
    assert all(map(is_deleted, hub.listed().values()))
    assert set_specs(hub.listed()["oai:fake.example:hard"]) == ["fake:serials:nov07"]
    hub.add(library.repository_id)
    assert hub.update(together=3) == 8
    assert not any(map(is_deleted, hub.listed().values()))
    hub.execute("DELETE FROM oai_repository")
    assert hub.update() == 8
    assert all(map(is_deleted, hub.listed().values()))
    assert hub.ask(verb="ListRecords", metadataPrefix="oai_dc").size == "8"


async def test_a_source_with_other_identifiers_has_new_records(hub: Hub, library: Library) -> None:
    with pytest.raises(UsageError, match="remove it first"):
        hub.add(library.repository_id, identifiers="own")
    hub.withdraw(library.repository_id)
    hub.update()
    hub.add(library.repository_id, identifiers="own")
    hub.update()
    found = hub.listed()
    assert is_deleted(found["oai:fake.example:0"])
    assert not is_deleted(found["oai:webarchive.localdomain:fake:oai:fake.example:0"])
    # The deleted records are still listed, and do not follow the scheme of the others.
    assert hub.ask(verb="Identify").root.find(".//{*}sampleIdentifier") is None


def _stored(library: Library) -> dict[str, etree._Element]:
    found = (etree.fromstring(data) for data in library.files().values())
    return {str(root.findtext(f"{OAI}header/{OAI}identifier")): root for root in found}

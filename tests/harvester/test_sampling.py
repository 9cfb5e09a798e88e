from pathlib import Path

from harvester.client.selection import Selection
from harvester.probing.sample import fetch_sample
from oai.settings import Settings
from tests.harvester.fake_repository import FakeRepository, many, serve

_FILTERS = """<filters match="any">
<selectionNamespaces>xmlns:dc='http://purl.org/dc/elements/1.1/'</selectionNamespaces>
<filter xpath="//dc:title" regexp="Title [12] "/></filters>"""
_MAPPINGS = """<normalize>
<selectionNamespaces>xmlns:dc='http://purl.org/dc/elements/1.1/'</selectionNamespaces>
<mapping xpath="//dc:title">
<newElement name="dc:type" regexp="Title"><newValue>text</newValue></newElement></mapping>
</normalize>"""


async def test_ten_records_are_shown_before_and_after_the_rules(tmp_path: Path) -> None:
    filters, mappings = tmp_path / "filters.xml", tmp_path / "normalise.xml"
    filters.write_text(_FILTERS)
    mappings.write_text(_MAPPINGS)

    async with serve(FakeRepository(items=many(25), page_size=20)) as served:
        sample = await fetch_sample(served.url, Settings(), Selection(), filters, mappings)

    assert len(sample.records) == 10
    assert sample.complete_list_size == 25
    assert [record.identifier for record in sample.records if record.kept] == [
        "oai:fake.example:1",
        "oai:fake.example:2",
    ]
    kept = sample.records[1]
    assert (kept.added, "<dc:type>text</dc:type>" in kept.after, "dc:type" in kept.before) == (1, True, False)


async def test_a_set_without_records_results_in_an_empty_sample() -> None:
    async with serve(FakeRepository(items=many(3))) as served:
        sample = await fetch_sample(served.url, Settings(), Selection(set_spec="none"), None, None)

    assert sample.records == ()

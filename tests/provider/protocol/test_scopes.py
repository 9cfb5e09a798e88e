"""Sets at all levels of the three trees: their documents, their listing, and the setSpecs of headers."""

import pytest

from oai.datestamps import utc_now
from provider.holdings.identifiers import oai_identifier
from provider.protocol.pages import item_page
from provider.protocol.scopes import find_scope
from provider.protocol.tokens import Position
from tests.provider.archive import Archive
from tests.provider.conftest import Kept, Provider

OTHER_SETS = [
    "domain:sk:webarchiv",
    "domain:sk:webarchiv:www",
    "domain:~ip",
    "domain:~ip:192.0.2.1",
    "mimetype:image:png",
]
TREES = {
    "domain": [0, 1, 2, 3, 4, 5, 6, 7],
    "domain:cz": [0, 1, 2, 3, 4, 5],
    "domain:sk": [6],
    "domain:cz:webarchiv": [0, 1, 2, 3, 4],
    "domain:cz:webarchiv:www": [1, 2, 3],
    "domain:cz:webarchiv:www:deep": [3],
    "domain:cz:webarchiv:www2": [4],
    "domain:cz:web": [5],
    "mimetype": [0, 1, 2, 3, 4, 5, 6, 7],
    "mimetype:text": [0, 1, 4, 5, 6, 7],
    "mimetype:text:html": [0, 4, 5, 6, 7],
    "mimetype:text:plain": [1],
    "mimetype:image": [2, 3],
    "mimetype:image:svg!2Bxml": [3],
    "collection": [0, 1, 2, 3],
    "collection:serials": [1, 2],
    "collection:serials:nov07": [2],
    "collection:elections": [0, 2, 3],
}

HOSTS = ["a", "x.a", "x.a", "x.a", "b", "ab", "y.a", "z.y.a", "b", "z.y.a", "x.a", "a", "y.a", "ab", "x.a"]


@pytest.fixture(scope="module")
def made(kept: Kept) -> list[str]:
    """Documents in all levels of all trees."""
    return fill(kept.archive())


def fill(archive: Archive) -> list[str]:
    return [
        archive.add("http://webarchiv.cz/", collections=["collection:elections"]),
        archive.add("http://www.webarchiv.cz/a", mime_type="text/plain", collections=["collection:serials"]),
        archive.add(
            "http://www.webarchiv.cz/b",
            mime_type="image/png",
            collections=["collection:elections", "collection:serials:nov07"],
        ),
        archive.add(
            "http://deep.www.webarchiv.cz/", mime_type="image/svg+xml", collections=["collection:elections"]
        ),
        archive.add("http://www2.webarchiv.cz/"),
        archive.add("http://web.cz/"),
        archive.add("http://www.webarchiv.sk/"),
        archive.add("http://192.0.2.1/"),
    ]


async def test_hosts_below_a_set_are_listed_together(provider: Provider, archive: Archive) -> None:
    """Few hosts are merged from their lists; many are filtered from the domain's list."""
    made = [(host, archive.add(f"http://{host}.example.cz/{number}")) for number, host in enumerate(HOSTS)]
    for host in sorted(set(HOSTS)):
        mine = [key for one, key in made if one == host or one.endswith(f".{host}")]
        set_spec = ":".join(["domain", "cz", "example", *reversed(host.split("."))])
        assert await provider.listed(set=set_spec) == mine
        assert not_merged(archive, set_spec) == mine
        (size, *_) = [
            page.token_facts.get("completeListSize")
            for page in await provider.pages(verb="ListRecords", metadataPrefix="oai_dc", set=set_spec)
            if page.token is not None
        ] or [None]
        assert size in {None, str(len(mine))}


def not_merged(archive: Archive, set_spec: str) -> list[str]:
    """Return the identifiers of a set, page by page, as if it had too many hosts for merging."""
    found: list[str] = []
    after: Position | None = None
    namespace = archive.settings.provider.namespace
    with archive.database.session() as session:
        scope = find_scope(session, set_spec, most_hosts=1)
        assert scope is not None
        while page := item_page(session, scope, from_=None, until=utc_now(), after=after, limit=3):
            found += [oai_identifier(namespace, item.key) for item in page]
            after = Position(datestamp=page[-1].datestamp, id=page[-1].id)
    return found


@pytest.mark.parametrize("set_spec", TREES)
async def test_a_set_contains_the_documents_of_the_sets_below_it(
    reading: Provider, made: list[str], set_spec: str
) -> None:
    assert await reading.listed(set=set_spec) == [made[index] for index in TREES[set_spec]]


async def test_a_set_is_restricted_by_a_window(reading: Provider, made: list[str]) -> None:
    found = await reading.listed(
        set="domain:cz", **{"from": "2020-01-01T00:00:01Z", "until": "2020-01-01T00:00:04Z"}
    )
    assert found == made[1:5]


@pytest.mark.parametrize(
    "set_spec",
    ["domain:de", "domain:cz:webarchiv:ww", "mimetype:tex", "collection:serials:dec07", "other", "Domain:cz"],
)
async def test_an_unknown_set_gets_no_records_match(
    reading: Provider, made: list[str], set_spec: str
) -> None:
    assert made
    found = await reading.ask(verb="ListIdentifiers", metadataPrefix="oai_dc", set=set_spec)
    assert found.codes == ["noRecordsMatch"]
    assert found.request["set"] == set_spec


async def test_the_tree_of_collections_is_a_set_before_the_first_collection(provider: Provider) -> None:
    found = await provider.ask(verb="ListIdentifiers", metadataPrefix="oai_dc", set="collection")
    assert found.codes == ["noRecordsMatch"]


async def test_a_header_lists_the_minimal_sets(reading: Provider, made: list[str]) -> None:
    found = await reading.ask(verb="GetRecord", metadataPrefix="oai_dc", identifier=made[2])
    assert found.set_specs == [
        "collection:elections",
        "collection:serials:nov07",
        "domain:cz:webarchiv:www",
        "mimetype:image:png",
    ]


async def test_a_deleted_record_is_listed_as_a_header_with_its_sets(
    provider: Provider, archive: Archive
) -> None:
    archive.add(collections=["collection:serials"])
    gone = archive.add(collections=["collection:serials"], deleted=True)
    for set_spec in ("collection:serials", "domain:cz", "mimetype:text:html"):
        found = await provider.ask(verb="ListRecords", metadataPrefix="oai_dc", set=set_spec)
        assert found.deleted == [gone]
        assert len(found.texts("//o:metadata")) == 1
    header = await provider.ask(verb="GetRecord", metadataPrefix="oai_dc", identifier=gone)
    assert header.set_specs == ["collection:serials", "domain:cz:example:www", "mimetype:text:html"]


async def test_all_sets_of_all_trees_are_listed_in_pages(reading: Provider, made: list[str]) -> None:
    assert made
    pages = await reading.pages(verb="ListSets")
    found = [set_spec for page in pages for set_spec in page.set_specs]
    assert found == sorted({*TREES, *OTHER_SETS})
    assert [len(page.set_specs) for page in pages[:-1]] == [5] * (len(pages) - 1)
    assert [page.token_facts["cursor"] for page in pages] == [str(5 * n) for n in range(len(pages))]


async def test_every_listed_set_can_be_harvested(reading: Provider, made: list[str]) -> None:
    assert made
    for page in await reading.pages(verb="ListSets"):
        for set_spec in page.set_specs:
            assert await reading.listed(set=set_spec)


async def test_an_empty_archive_lists_the_three_trees(provider: Provider) -> None:
    found = await provider.ask(verb="ListSets")
    assert found.set_specs == ["collection", "domain", "mimetype"]
    assert found.token is None


async def test_a_full_last_page_of_sets_is_the_last(provider: Provider, archive: Archive) -> None:
    archive.add("http://www.webarchiv.cz/")
    archive.add("http://web.cz/", collections=["collection:one"])
    pages = await provider.pages(verb="ListSets")
    assert [len(page.set_specs) for page in pages] == [5, 5]


async def test_a_collection_is_described(provider: Provider, archive: Archive) -> None:
    archive.add(collections=["collection:serials"])
    archive.describe("collection:serials", "Newspapers & <periodicals>")
    found = await provider.ask(verb="ListSets")
    assert found.texts("//dc:description") == ["Newspapers & <periodicals>"]


def test_the_root_of_collections_is_a_set_without_any_collection(archive: Archive) -> None:
    with archive.database.session() as session:
        assert find_scope(session, "collection") is not None
        assert find_scope(session, "collection:none") is None

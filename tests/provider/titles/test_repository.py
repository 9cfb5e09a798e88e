"""`/oai/titles`: the repository of titles, and their records in each format."""

import pytest
from aiohttp.pytest_plugin import AiohttpClient
from lxml import etree

from oai.database import Database
from oai.settings import Settings
from provider.app import create_app
from provider.titles.entries import CollectionEntry
from tests.provider.answer import Reply
from tests.provider.archive import Archive
from tests.provider.conftest import BASE_URL, Provider, reply, small_pages
from tests.provider.titles.conftest import Titles, entry
from tests.provider.titles.test_publication import LATER

FULL = entry(
    "1",
    "http://www.example.cz/",
    name="Příklad & spol.",
    alternative_names=["Example"],
    publisher="Nakladatelství",
    annotation="O <ničem>.",
    languages=["cze", "eng"],
    issn="1234-5679",
    catalogue_number="web20132499695",
    classification=["304"],
    subjects=[{"name": "Kulturní politika", "name_en": "Cultural policy", "number": 1, "notation": "304"}],
    keywords=["kultura"],
    collections=["Volby 2025"],
    licence="CC BY 4.0",
)


class Library:
    """The repository of titles over HTTP."""

    def __init__(self, provider: Provider) -> None:
        self._provider = provider

    async def ask(self, **arguments: str) -> Reply:
        parameters = {name.rstrip("_"): value for name, value in arguments.items()}
        return await reply(await self._provider.client.get("/oai/titles", params=parameters))

    async def listed(self, **arguments: str) -> list[str]:
        answer = await self.ask(verb="ListIdentifiers", metadataPrefix="oai_dc", **arguments)
        found = answer.identifiers
        while answer.token:
            answer = await self.ask(verb="ListIdentifiers", resumptionToken=answer.token)
            found += answer.identifiers
        return found


@pytest.fixture
async def library(database: Database, settings: Settings, aiohttp_client: AiohttpClient) -> Library:
    app = create_app(small_pages(settings), database, base_url=BASE_URL)
    return Library(Provider(client=await aiohttp_client(app)))


async def test_without_titles_the_repository_is_answered_with_404(library: Library) -> None:
    response = await library._provider.client.get("/oai/titles?verb=Identify")  # noqa: SLF001 the raw answer
    assert response.status == 404
    assert "no title is listed here" in await response.text()


async def test_all_titles_are_listed_in_pages_and_by_set(
    library: Library, titles: Titles, archive: Archive
) -> None:
    entries = []
    for number in range(11):
        archive.add(f"http://n{number}.cz/")
        collections = ["Even"] if number % 2 == 0 else []
        entries.append(entry(str(number), f"http://n{number}.cz/", collections=collections))
    titles.bring(*entries[:6])
    titles.bring(*entries)
    assert len(set(await library.listed())) == 11
    assert len(await library.listed(set="collection:even")) == 6
    assert len(await library.listed(set="collection")) == 6
    later = str(titles["10"].datestamp.isoformat().replace("+00:00", "Z"))
    assert len(await library.listed(from_=later)) == 5
    sets = await library.ask(verb="ListSets")
    assert sets.set_specs == ["collection", "collection:even", "publisher", "publisher:p"]


async def test_a_described_collection_has_its_text_in_list_sets(
    library: Library, titles: Titles, archive: Archive
) -> None:
    archive.add("http://a.cz/")
    described = CollectionEntry(collection="Volby", annotation="Weby stran & kandidátů")
    hidden = CollectionEntry(collection="Prázdná", annotation="secret")
    titles.bring(entry("1", "http://a.cz/", collections=["Volby"]), described, hidden)
    sets = await library.ask(verb="ListSets")
    assert sets.texts("//dc:description") == ["Weby stran & kandidátů"]
    assert "collection:prazdna" not in sets.set_specs


async def test_a_deleted_title_is_listed_as_deleted(
    library: Library, titles: Titles, archive: Archive
) -> None:
    archive.add("http://www.example.cz/")
    archive.add("http://b.cz/")
    titles.bring(FULL, entry("2", "http://b.cz/"))
    titles.bring(entry("2", "http://b.cz/"))
    answer = await library.ask(verb="ListRecords", metadataPrefix="oai_dc")
    assert len(answer.identifiers) == 2
    assert answer.deleted == [f"oai:webarchive.localdomain:title:{titles['1'].key.hex}"]
    found = await library.ask(verb="GetRecord", metadataPrefix="oai_dc", identifier=answer.deleted[0])
    assert found.deleted == answer.deleted


async def test_a_deleted_title_stays_in_the_sets_in_which_it_was_last_listed(
    library: Library, titles: Titles, archive: Archive
) -> None:
    archive.add("http://a.cz/")
    known = {"licence": "CC BY 4.0", "collections": ["C1"]}
    titles.bring(entry("1", "http://a.cz/", **known))
    titles.bring(entry("1", "http://a.cz/", public=False, collections=["C1"]))
    deleted = f"oai:webarchive.localdomain:title:{titles['1'].key.hex}"
    answer = await library.ask(verb="ListIdentifiers", metadataPrefix="oai_dc", set="licence:cc-by-4.0")
    assert answer.deleted == [deleted]
    dated = titles["1"].datestamp
    titles.bring(entry("1", "http://a.cz/", public=False, collections=["C2"], publisher=None))
    found = await library.ask(verb="GetRecord", metadataPrefix="oai_dc", identifier=deleted)
    assert found.set_specs == ["collection:c1", "licence:cc-by-4.0", "publisher:p"]
    assert titles["1"].datestamp == dated


async def test_a_title_that_is_listed_again_is_in_its_present_sets(
    library: Library, titles: Titles, archive: Archive
) -> None:
    document = archive.add("http://a.cz/")
    titles.bring(entry("1", "http://a.cz/", collections=["C1"]))
    archive.redate(document, LATER, deleted=True)
    titles.count()
    titles.bring(entry("1", "http://a.cz/", collections=["C2"]))
    assert await library.listed(set="collection:c1") == await library.listed()
    archive.redate(document, LATER)
    titles.count()
    answer = await library.ask(verb="ListIdentifiers", metadataPrefix="oai_dc", set="collection:c2")
    assert (answer.set_specs, answer.deleted) == (["collection:c2", "publisher:p"], [])


async def test_a_set_has_the_name_that_the_last_import_of_a_public_title_gave_it(
    library: Library, titles: Titles, archive: Archive
) -> None:
    archive.add("http://a.cz/")
    names = [("Hudba", "Volby 2026"), ("Hudba, divadlo", "VOLBY 2026"), ("Nic", "volby 2026")]
    first, second, third = (
        entry("1", "http://a.cz/", subjects=[{"name": subject, "number": 7}], collections=[collection],
              publisher=None, public=subject != "Nic")
        for subject, collection in names
    )  # fmt: skip
    titles.bring(first)
    titles.bring(second)
    titles.bring(third, source="other")
    sets = await library.ask(verb="ListSets")
    assert sets.texts("//o:setName") == ["Collections", "VOLBY 2026", "Subjects", "Hudba, divadlo"]


async def test_a_described_collection_keeps_the_name_of_its_description(
    library: Library, titles: Titles, archive: Archive
) -> None:
    archive.add("http://a.cz/")
    described = CollectionEntry(collection="Volby")
    titles.bring(entry("1", "http://a.cz/", collections=["VOLBY"], publisher=None), described)
    sets = await library.ask(verb="ListSets")
    assert sets.texts("//o:setName") == ["Collections", "Volby"]


async def test_a_title_that_was_never_listed_gets_id_does_not_exist(
    library: Library, titles: Titles, archive: Archive
) -> None:
    archive.add("http://b.cz/")
    titles.bring(FULL, entry("2", "http://b.cz/"))
    identifier = f"oai:webarchive.localdomain:title:{titles['1'].key.hex}"
    answer = await library.ask(verb="GetRecord", metadataPrefix="oai_dc", identifier=identifier)
    assert answer.codes == ["idDoesNotExist"]
    assert (await library.ask(verb="ListSets")).set_specs == ["publisher", "publisher:p"]


async def test_without_titles_in_sets_there_is_no_set_hierarchy(
    library: Library, titles: Titles, archive: Archive
) -> None:
    archive.add("http://b.cz/")
    titles.bring(entry("2", "http://b.cz/", publisher=None))
    assert (await library.ask(verb="ListSets")).codes == ["noSetHierarchy"]


KNOWN = {
    "oai_dc": ["Příklad & spol.", "Nakladatelství", "urn:ISSN:1234-5679", "Kulturní politika",
               "https://creativecommons.org/licenses/by/4.0/", "2020-01-02", "http://www.example.cz/"],
    "mods": ["Příklad & spol.", "O <ničem>.", "cze", "Web site", "2020-01-02", "304"],
    "marc21": ["Příklad & spol.", "1234-5679", "web20132499695", "Conspectus", "20200102/20200102"],
}  # fmt: skip


async def test_each_format_contains_the_fields_of_a_title(
    library: Library, titles: Titles, archive: Archive
) -> None:
    archive.add("http://www.example.cz/")
    titles.bring(FULL)
    for prefix, expected in KNOWN.items():
        answer = await library.ask(verb="ListRecords", metadataPrefix=prefix)
        found = [str(text) for text in answer.root.itertext()]
        assert set(expected) <= set(found), prefix


def fields(record: etree._Element, tag: str) -> list[str]:
    found = []
    for field in record.iter("{*}datafield"):
        if field.get("tag") == tag:
            inside = " ".join(f"${part.get('code')} {part.text}" for part in field)
            found.append(f"{field.get('ind1')}{field.get('ind2')} {inside}")
    return found


async def test_a_subject_has_the_name_that_belongs_to_its_notation(
    database: Database, settings: Settings, aiohttp_client: AiohttpClient, titles: Titles, archive: Archive
) -> None:
    archive.add("http://www.example.cz/")
    opera = {"name": "Hudba", "name_en": "Music", "number": 9, "part": "Opera", "notation": "782"}
    titles.bring(entry("1", "http://www.example.cz/", subjects=[{**opera, "part_en": "Operas"}]))
    app = create_app(small_pages(settings, titles_marc_profile="nkp"), database, base_url=BASE_URL)
    library = Library(Provider(client=await aiohttp_client(app)))
    assert fields((await library.ask(verb="ListRecords", metadataPrefix="marc21")).root, "072") == [
        " 7 $a 782 $x Opera $2 Konspekt $9 9",
        " 9 $a 782 $x Operas $2 Conspectus $9 9",
    ]
    for prefix in ("oai_dc", "mods"):
        record = (await library.ask(verb="ListRecords", metadataPrefix=prefix)).root
        assert {"Hudba", "Opera"} <= set(record.itertext())


async def test_marc_records_follow_the_profile_of_the_czech_national_library(
    database: Database, settings: Settings, aiohttp_client: AiohttpClient, titles: Titles, archive: Archive
) -> None:
    archive.add("http://www.example.cz/")
    titles.bring(FULL)
    app = create_app(
        small_pages(settings, titles_marc_profile="nkp", titles_replay_url="https://wayback.example/*/{url}"),
        database,
        base_url=BASE_URL,
    )
    library = Library(Provider(client=await aiohttp_client(app)))
    record = (await library.ask(verb="ListRecords", metadataPrefix="marc21")).root
    assert fields(record, "072") == [
        " 7 $a 304 $x Kulturní politika $2 Konspekt $9 1",
        " 9 $a 304 $x Cultural policy $2 Conspectus $9 1",
    ]
    assert fields(record, "856") == [
        "40 $u http://www.example.cz/",
        "40 $u https://wayback.example/*/http://www.example.cz/ $z archivní verze stránek $4 N",
    ]
    assert fields(record, "857") == []
    assert fields(record, "588") == ["   $a Název z titulní obrazovky (náhled 2.1.2020)"]
    controls = {field.get("tag"): str(field.text) for field in record.iter("{*}controlfield")}
    assert [len(controls["006"]), len(controls["008"])] == [18, 40]
    assert [controls["008"][place] for place in (6, 21, 23, 34)] == ["c", "w", "o", "2"]
    assert controls["008"][15:18] == "xr "

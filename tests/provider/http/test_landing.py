"""HTML pages: the landing page at the base URL, and responses as pages for browsers."""

from collections.abc import Mapping

import pytest
from lxml import etree, html
from pytest_aiohttp import AiohttpClient

from oai.database import Database
from oai.settings import Settings
from provider.app import create_app
from provider.http.landing import is_browser, wants_page
from tests.provider.aggregate.conftest import harvested  # noqa: F401 a fixture
from tests.provider.archive import Archive
from tests.provider.conftest import BASE_URL, Kept, Provider, reply, small_pages

CHROMIUM = "text/html,application/xhtml+xml,application/xml;q=0.9,image/avif,image/webp,*/*;q=0.8"
FIREFOX = "text/html,application/xhtml+xml,application/xml;q=0.9,*/*;q=0.8"
BROWSER = {"Accept": CHROMIUM, "Sec-Fetch-Mode": "navigate"}

REQUESTS = {
    "Identify": "verb=Identify",
    "ListSets": "verb=ListSets",
    "ListMetadataFormats": "verb=ListMetadataFormats",
    "ListIdentifiers": "verb=ListIdentifiers&metadataPrefix=oai_dc",
    "ListRecords": "verb=ListRecords&metadataPrefix=oai_dc",
    "ListRecords in marc21": "verb=ListRecords&metadataPrefix=marc21",
    "ListRecords in mods": "verb=ListRecords&metadataPrefix=mods",
    "ListRecords in webarchive": "verb=ListRecords&metadataPrefix=webarchive",
    "errors": "verb=ListRecords&from=x",
    "nothing found": "verb=ListRecords&metadataPrefix=oai_dc&from=2990-01-01",
}


def texts(page: etree._Element, path: str) -> list[str]:
    found = page.xpath(path)
    assert isinstance(found, list)
    return list(map(str, found))


@pytest.fixture(scope="module")
def filled(kept: Kept) -> list[str]:
    """Seven documents, for tests that only read them."""
    return fill(kept.archive())


def fill(archive: Archive) -> list[str]:
    hostile = archive.add("javascript:alert(1)//<x>", title="<script>alert(1)</script>")
    return [
        hostile,
        archive.add("http://www.example.cz/" + "x" * 300, collections=["collection:a"], title="Žluťoučký"),
        archive.add(deleted=True),
        *archive.add_many(4),
    ]


@pytest.mark.parametrize(
    ("headers", "browser", "page"),
    [
        ({"Accept": CHROMIUM, "Sec-Fetch-Mode": "navigate"}, True, True),
        ({"Accept": FIREFOX, "Sec-Fetch-Mode": "navigate"}, True, True),
        ({"Accept": FIREFOX}, True, False),
        ({"Accept": FIREFOX, "Sec-Fetch-Mode": "cors"}, True, False),
        ({}, False, False),
        ({"Accept": "*/*"}, False, False),
        ({"Accept": ""}, False, False),
        ({"Accept": "text/xml"}, False, False),
        ({"Accept": "application/xml,text/html;q=0.5,application/xhtml+xml;q=0.5"}, False, False),
        ({"Accept": "text/xml,application/xhtml+xml,text/html"}, False, False),
        ({"Accept": "text/html, image/gif, image/jpeg, *; q=.2, */*; q=.2"}, False, False),
        ({"Accept": "text/html;q=nonsense,application/xhtml+xml"}, False, False),
        ({"Accept": ";;,=,q", "Sec-Fetch-Mode": "navigate"}, False, False),
    ],
)
def test_pages_are_sent_to_navigating_browsers_only(
    headers: Mapping[str, str],
    browser: bool,  # noqa: FBT001 from the table above
    page: bool,  # noqa: FBT001
) -> None:
    assert (is_browser(headers), wants_page(headers)) == (browser, page)


async def test_a_harvester_without_arguments_gets_bad_verb(reading: Provider) -> None:
    assert (await reading.ask()).codes == ["badVerb"]


@pytest.mark.parametrize(
    ("accepted", "page"),
    [
        ("text/html", True),
        ("text/html;charset=utf-8, image/png", True),
        ("text/html, application/xml;q=0", True),
        ("text/html, */*;q=0.1", False),
        ("text/html, text/*;q=0.5", False),
        ("text/html, image/gif, image/jpeg, *; q=.2, */*; q=.2", False),
        ("text/html;q=0", False),
        ("image/png", False),
    ],
)
async def test_a_client_that_accepts_only_html_gets_the_landing_page(
    reading: Provider,
    accepted: str,
    page: bool,  # noqa: FBT001 from the table above
) -> None:
    landing = await reading.client.get("/oai", headers={"Accept": accepted})
    answer = await reading.client.get("/oai?verb=Identify", headers={"Accept": accepted})
    assert (landing.content_type, answer.content_type) == ("text/html" if page else "text/xml", "text/xml")


async def test_the_root_redirects_to_the_landing_page_which_shows_the_publishing_delay(
    reading: Provider,
) -> None:
    answer = await reading.client.get("/", headers={"Accept": CHROMIUM, "Sec-Fetch-Mode": "navigate"})

    assert (answer.url.path, answer.content_type) == ("/oai", "text/html")
    assert "seconds after they are indexed" in await answer.text()


async def test_a_delay_of_one_second_is_written_in_the_singular(
    database: Database, settings: Settings, aiohttp_client: AiohttpClient
) -> None:
    chosen = settings.provider.model_copy(update={"publish_margin": 1})
    app = create_app(settings.model_copy(update={"provider": chosen}), database, base_url=BASE_URL)
    answer = await (await aiohttp_client(app)).get("/oai", headers={"Accept": "text/html"})
    assert " 1 second after they are indexed." in await answer.text()


async def test_an_empty_post_of_a_browser_gets_bad_verb(reading: Provider) -> None:
    answer = await reading.client.post("/oai", headers={"Accept": CHROMIUM})
    assert (await reply(answer)).codes == ["badVerb"]


async def test_the_landing_page_shows_contents_and_request_examples(
    reading: Provider, filled: list[str]
) -> None:
    response = await reading.client.get("/oai", headers={"Accept": FIREFOX})
    assert response.headers["Content-Type"] == "text/html; charset=utf-8"
    assert "Accept" in response.headers["Vary"]
    text = "".join(map(str, html.fromstring(await response.text()).itertext()))
    for word in (
        "Web archive",
        f"{len(filled)} captures",
        "collection:a",
        "domain:cz",
        "mimetype:text",
        "webarchive",
        f"{BASE_URL}?verb=ListRecords&metadataPrefix=oai_dc&set=collection:a",
        "Retry-After",
    ):
        assert word in text


async def test_the_landing_page_of_an_empty_archive_has_no_sets(provider: Provider) -> None:
    response = await provider.client.get("/oai", headers={"Accept": FIREFOX})
    assert "0 captures" in await response.text()
    assert "<table" not in await response.text()


@pytest.mark.usefixtures("filled")
async def test_browsers_get_responses_as_pages_with_valid_links_and_without_scripts(
    reading: Provider,
) -> None:
    found: set[str] = set()
    for name, query in REQUESTS.items():
        response = await reading.client.get(f"/oai?{query}", headers=BROWSER)
        assert response.status == 200
        assert response.headers["Content-Type"] == "text/html; charset=utf-8"
        page = html.fromstring(await response.text())
        assert not page.xpath("//script | //@onclick | //a[starts-with(@href, 'javascript:')]"), name
        assert page.xpath("//h1"), name
        assert page.xpath("//link/@href") == ["oai/style.css"], name
        links = [link for link in texts(page, "//a/@href") if link.startswith("?verb=")]
        assert links, name
        found.update(sorted(set(links))[:12])
    for link in found:
        assert not (await reading.ask_raw(link[1:])).codes, link


async def test_next_links_of_pages_lead_through_the_complete_list(
    reading: Provider, filled: list[str]
) -> None:
    query, found = REQUESTS["ListIdentifiers"], []
    while query:
        response = await reading.client.get(f"/oai?{query}", headers=BROWSER)
        page = html.fromstring(await response.text())
        found += texts(page, "//article/h2/a/text()")
        query = "".join(texts(page, "//a[@rel='next']/@href")).removeprefix("?")
    assert found == filled


@pytest.mark.parametrize(
    ("base_url", "folder"),
    [
        ("http://archive.example/oai", "oai/"),
        ("https://archive.example/behind/a/proxy/repo", "repo/"),
        ("https://archive.example/oai/", ""),
        ("https://archive.example", ""),
    ],
)
async def test_the_stylesheet_is_linked_relative_to_the_base_url(
    kept_database: Database, kept: Kept, aiohttp_client: AiohttpClient, base_url: str, folder: str
) -> None:
    app = create_app(small_pages(kept.settings), kept_database, base_url=base_url)
    client = await aiohttp_client(app)
    link = (await reply(await client.get("/oai?verb=Identify"))).root.getprevious()
    assert link is not None
    assert (link.get("type"), link.get("href")) == ("text/xsl", f"{folder}style.xsl")


@pytest.mark.parametrize(
    ("path", "kind"),
    [("style.xsl", "text/xsl"), ("style.css", "text/css"), ("schemas/webarchive.xsd", "text/xml")],
)
async def test_the_files_that_answers_refer_to_are_served(reading: Provider, path: str, kind: str) -> None:
    response = await reading.client.get(f"/oai/{path}")
    assert response.status == 200
    assert response.content_type == kind
    assert (await reading.client.head(f"/oai/{path}")).status == 200


async def test_the_webarchive_schema_is_served_at_its_announced_address(reading: Provider) -> None:
    answer = await reading.ask(verb="ListMetadataFormats")
    assert f"{BASE_URL}/schemas/webarchive.xsd" in answer.texts("//o:schema")
    served = await reading.client.get("/oai/schemas/webarchive.xsd")
    etree.XMLSchema(etree.fromstring(await served.read()))

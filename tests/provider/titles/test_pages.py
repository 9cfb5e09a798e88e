"""The public pages of titles: each title, the search, three languages, and machine-readable data."""

import json
import re

import pytest
from aiohttp import ClientResponse
from aiohttp.pytest_plugin import AiohttpClient
from lxml import etree, html

from oai.database import Database
from oai.languages import LANGUAGES
from oai.settings import Settings
from provider.app import create_app
from provider.http import landing
from provider.http.texts import Texts, texts_in
from provider.http.title_sitemap import divided
from provider.titles import search
from provider.titles.entries import CollectionEntry, TitleEntry
from tests.provider.archive import Archive
from tests.provider.conftest import BASE_URL, Kept, Provider, small_pages
from tests.provider.titles.conftest import Titles, entry
from tests.provider.titles.test_repository import FULL

MAGAZINE = entry(
    "9", "http://rez.cz/", name="Řežavý časopis", publisher=None, annotation="O žlutých koních.", keywords=[]
)
FOREIGN = sorted(set(LANGUAGES) - {"en"})
_LETTERS = re.compile(r"[^\W\d_]{2,}")


class Pages:
    """Requests the public pages of an archive's titles."""

    def __init__(
        self, database: Database, settings: Settings, client: AiohttpClient, usual: Provider | None = None
    ) -> None:
        """`usual` is an existing provider without further settings."""
        self._database, self._settings, self._client = database, settings, client
        self._providers: dict[str, Provider] = {} if usual is None else {repr({}): usual}

    async def get(
        self, path: str, *, language: str = "", accept: str = "*/*", **settings: object
    ) -> ClientResponse:
        settings = {name: value for name, value in settings.items() if value is not None}
        if repr(settings) not in self._providers:
            app = create_app(small_pages(self._settings, **settings), self._database, base_url=BASE_URL)
            self._providers[repr(settings)] = Provider(client=await self._client(app))
        provider = self._providers[repr(settings)]
        return await provider.client.get(path, headers={"Accept-Language": language, "Accept": accept})

    async def page(
        self, path: str, *, language: str = "", titles_replay_url: str | None = None
    ) -> etree._Element:
        response = await self.get(path, language=language, titles_replay_url=titles_replay_url)
        assert response.status == 200, await response.text()
        return html.fromstring(await response.text())


@pytest.fixture
def pages(database: Database, settings: Settings, aiohttp_client: AiohttpClient) -> Pages:
    return Pages(database, settings, aiohttp_client)


@pytest.fixture
def listed(titles: Titles, archive: Archive) -> str:
    return fill(titles, archive)


@pytest.fixture
def kept_pages(
    kept_database: Database, kept: Kept, aiohttp_client: AiohttpClient, reading: Provider
) -> Pages:
    """The pages of the module's archive, for tests that only read it."""
    return Pages(kept_database, kept.settings, aiohttp_client, reading)


@pytest.fixture(scope="module")
def kept_listed(kept: Kept) -> str:
    archive = kept.archive()
    return fill(Titles(archive.database), archive)


def fill(titles: Titles, archive: Archive) -> str:
    """Add a title with all fields and another title; return the path of the first one's page."""
    archive.add("http://www.example.cz/")
    archive.add("http://www.example.cz/", access="reading room")
    archive.add("http://rez.cz/")
    titles.bring(FULL, MAGAZINE)
    return f"/titles/{titles['1'].key.hex}"


def words(page: etree._Element, path: str = "//main") -> str:
    """The text below a place, as one line."""
    return " ".join(values(page, f"{path}//text()[not(parent::script)]"))


def values(page: etree._Element, path: str) -> list[str]:
    found = page.xpath(path)
    assert isinstance(found, list)
    return list(map(str, found))


async def test_a_page_shows_the_fields_of_a_title(kept_pages: Pages, kept_listed: str) -> None:
    page = await kept_pages.page(kept_listed)
    expected = words(page)
    for wanted in (
        "Příklad & spol.", "Example", "Nakladatelství", "O <ničem>.", "Cultural policy", "Volby 2025",
        "kultura", "CC BY 4.0", "1234-5679", "Czech, English", "2 January 2020 to 3 January 2020, 2 captures",
        "Open access. The archived content may be under copyright.", "only in the archive's reading room",
    ):  # fmt: skip
        assert wanted in expected
    assert values(page, "//html/@lang") == ["en"]
    assert not values(page, "//script[not(@type='application/ld+json')]/text()")


async def test_a_page_links_to_the_site_its_captures_its_sets_and_its_records(
    kept_pages: Pages, kept_listed: str
) -> None:
    page = await kept_pages.page(kept_listed)
    links = values(page, "//main//a/@href")
    assert "http://www.example.cz/" in links
    assert [link for link in links if link.startswith("../titles?")] == [
        "../titles?publisher=nakladatelstvi", "../titles?subject=1", "../titles?collection=volby-2025",
    ]  # fmt: skip
    assert len([link for link in links if link.startswith("../archive/")]) == 1
    records = [link for link in links if "verb=GetRecord" in link]
    assert len(records) == 3
    answer = await kept_pages.get(records[0].removeprefix("http://archive.example"))
    assert "<dc:title>Příklad" in await answer.text()


async def test_a_page_lists_accessible_captures_newest_first(
    pages: Pages, titles: Titles, archive: Archive
) -> None:
    for access in ("open", "open", "reading room", "embargo", "withheld"):
        archive.add("http://rez.cz/", access=access)
    titles.bring(MAGAZINE)
    path = f"/titles/{titles['9'].key.hex}"
    outside = await pages.get(path)
    inside = await pages.get(path, reading_room=("127.0.0.0/8",), trusted_proxies=())
    dates = [values(html.fromstring(await answer.text()), "//time/@datetime") for answer in (outside, inside)]
    assert [[day[8:10] for day in one] for one in dates] == [["03", "02"], ["04", "03", "02"]]
    assert [answer.headers["Cache-Control"] for answer in (outside, inside)] == [
        "no-cache",
        "private, no-cache",
    ]


async def test_a_page_without_accessible_captures_says_so(
    pages: Pages, titles: Titles, archive: Archive
) -> None:
    archive.add("http://rez.cz/", access="reading room")
    titles.bring(MAGAZINE)
    assert "from your network" in words(await pages.page(f"/titles/{titles['9'].key.hex}"))


async def test_a_configured_replay_service_replaces_links_to_captures(
    kept_pages: Pages, kept_listed: str
) -> None:
    page = await kept_pages.page(kept_listed, titles_replay_url="https://wayback.example/*/{url}")
    links = values(page, "//main//a/@href")
    assert "https://wayback.example/*/http://www.example.cz/" in links
    assert not [link for link in links if "archive/" in link and "oai" not in link]


async def test_a_javascript_url_is_shown_without_a_link(
    pages: Pages, titles: Titles, archive: Archive
) -> None:
    archive.add("http://rez.cz/")
    seeds = [{"url": "javascript:alert(1)", "main": True}, {"url": "http://rez.cz/"}]
    titles.bring(TitleEntry.model_validate({"key": "1", "name": "<script>x</script>", "seeds": seeds}))
    page = await pages.page(f"/titles/{titles['1'].key.hex}")
    assert "javascript:alert(1)" in words(page)
    assert not [link for link in values(page, "//a/@href") if "javascript" in link]
    assert words(page, "//h1") == "<script>x</script>"
    [data] = values(page, "//script/text()")
    assert json.loads(data)["name"] == "<script>x</script>"
    assert "<" not in data


@pytest.mark.parametrize("host", ["archive.example:99999", "[::1", "a b", ""])
async def test_pages_do_not_depend_on_the_host_header(reading: Provider, kept_listed: str, host: str) -> None:
    for path in ("/titles", kept_listed):
        response = await reading.client.get(path, headers={"Host": host})
        assert response.status == 200


async def test_an_unknown_title_is_answered_with_404(kept_pages: Pages, kept_listed: str) -> None:
    assert kept_listed
    for key in ("0" * 32, "x", "A" * 32):
        response = await kept_pages.get(f"/titles/{key}", language="cs")
        assert response.status == 404, key
        assert "nenalezen" in await response.text()


async def test_a_title_that_is_not_public_has_no_page_and_is_not_found(
    pages: Pages, titles: Titles, archive: Archive
) -> None:
    archive.add("http://www.example.cz/")
    archive.add("http://rez.cz/")
    titles.bring(FULL.model_copy(update={"public": False}), MAGAZINE)
    key = titles["1"].key.hex
    assert (await pages.get(f"/titles/{key}")).status == 404
    assert "Příklad" not in words(await pages.page("/titles"))
    assert key not in await (await pages.get("/sitemap-titles-all.xml")).text()


async def test_the_page_of_a_deleted_title_is_answered_with_410_without_its_data(
    pages: Pages, listed: str, titles: Titles
) -> None:
    titles.bring(MAGAZINE)
    response = await pages.get(listed)
    assert response.status == 410
    assert "no longer in the catalogue" in await response.text()
    assert "spol" not in await response.text()
    assert "Příklad" not in words(await pages.page("/titles"))


async def test_without_titles_their_pages_are_answered_with_404(pages: Pages) -> None:
    for path in ("/titles", "/sitemap-titles.xml", "/sitemap-titles-all.xml"):
        assert (await pages.get(path)).status == 404, path


FOUND = {
    "": ["Příklad & spol.", "Řežavý časopis"],
    "q=priklad": ["Příklad & spol."],
    "q=REZAV": ["Řežavý časopis"],
    "q=žluté kone": [],
    "q=zlut kon": ["Řežavý časopis"],
    "q=nakladatel kult": ["Příklad & spol."],
    "q=example": ["Příklad & spol."],
    "q=%26%26 | !": [],
    "q=  ": ["Příklad & spol.", "Řežavý časopis"],
    "q='\\:*%00": [],
    "subject=1": ["Příklad & spol."],
    "collection=volby-2025&licence=cc-by-4.0&publisher=nakladatelstvi": ["Příklad & spol."],
    "q=rezav&subject=1": [],
    "subject=no-such": [],
    "fbclid=1&q=priklad": ["Příklad & spol."],
}


async def test_titles_are_found_by_words_and_sets(kept_pages: Pages, kept_listed: str) -> None:
    assert kept_listed
    for query, found in FOUND.items():
        page = await kept_pages.page(f"/titles?{query}")
        assert values(page, "//ul[@class='titles']/li/a/text()") == found, query
        assert ("No archived site matches" in words(page)) == (not found), query


async def test_a_collection_is_described_and_its_picture_may_be_loaded(
    pages: Pages, titles: Titles, archive: Archive
) -> None:
    archive.add("http://www.example.cz/")
    described = CollectionEntry(
        collection="Volby", annotation="First\nSecond", picture="https://x.example:8443/a.jpg", position=2
    )
    names = ["Volby", "Auta", "Zima"]
    early = CollectionEntry(collection="Zima", position=1)
    hidden = CollectionEntry(collection="Empty", annotation="secret")
    titles.bring(entry("1", "http://www.example.cz/", collections=names), described, early, hidden)

    response = await pages.get("/titles?collection=volby")

    page = html.fromstring(await response.text())
    assert values(page, "//h1/text()") == ["Volby"]
    assert values(page, "//p[@class='annotation']/text()") == ["First", "Second"]
    assert values(page, "//img/@src") == ["https://x.example:8443/a.jpg"]
    assert "; img-src https://x.example:8443" in response.headers["Content-Security-Policy"]
    assert values(page, "//select[@id='collection']/option/@value") == ["", "zima", "volby", "auta"]
    assert "secret" not in words(await pages.page("/titles?collection=empty"))
    assert "img-src" not in (await pages.get("/titles")).headers["Content-Security-Policy"]


REFUSED = {
    "lang=de": "'de' is not a language of these pages; choose one of en, cs, sk.",
    "q=a&q=b": "The parameter q is given more than once",
    "q=" + "x" * 201: "The words have 201 characters; at most 200 are possible.",
    "after=1": "'1' is not a place in the list",
    "after=" + "0" * 32: f"'{'0' * 32}' is not a place in the list",
    "subject=A%20B": "'A B' is not a possible value of subject",
}


async def test_an_invalid_parameter_is_refused_with_an_explanation(
    kept_pages: Pages, kept_listed: str
) -> None:
    assert kept_listed
    for query, expected in REFUSED.items():
        response = await kept_pages.get(f"/titles?{query}")
        assert response.status == 400, query
        assert expected in words(html.fromstring(await response.text()))


async def test_pages_of_a_search_list_every_title_once_in_order(
    pages: Pages, titles: Titles, archive: Archive, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(search, "PAGE", 2)
    names = ["Čaj", "Cesta", "„Dům“", "e", "Éra"]
    entries = []
    for number, name in enumerate(reversed(names)):
        archive.add(f"http://n{number}.cz/")
        entries.append(entry(str(number), f"http://n{number}.cz/", name=name))
    titles.bring(*entries)
    path, found = "/titles?lang=cs", []
    while path:
        page = await pages.page(path)
        assert "5 archivovaných webů" in words(page)
        found += values(page, "//ul[@class='titles']/li/a/text()")
        path = "".join(f"/{link}" for link in values(page, "//a[@rel='next']/@href"))
        assert not path or "lang=cs" in path
    assert found == names


# Languages


@pytest.mark.parametrize("name", ["public.html", "notice.html", "title.html", "title_search.html"])
def test_templates_contain_no_untranslated_text(name: str) -> None:
    loader = landing.templates().loader
    assert loader is not None
    source, _, _ = loader.get_source(landing.templates(), name)
    rest = re.sub(r"\{\{.*?\}\}|\{%.*?%\}", "", source, flags=re.DOTALL)
    assert not _LETTERS.findall(re.sub(r"<[^>]*>", "", rest))
    assert not re.findall(r'(?:aria-label|title|alt|placeholder)="[^"]*\w', rest)


def english(t: Texts) -> list[str]:
    """English texts that differ in that language and are long enough to be recognised."""
    found = []
    for key, text in texts_in("en").texts.items():
        for one, other in (
            [(text, t.texts[key])] if isinstance(text, str) else [(text["other"], t.texts[key]["other"])]  # type: ignore[index] # a table in both
        ):
            found += [part.strip(" .,;:") for part in re.split(r"\{\w+\}", one) if part not in str(other)]
    return [part for part in found if len(part) > 3]


@pytest.mark.parametrize("code", FOREIGN)
async def test_a_page_contains_no_english_text_in_another_language(
    kept_pages: Pages, kept_listed: str, code: str
) -> None:
    rights = {"rights_open": "Otevřeno.", "rights_reading_room": "Ve studovně."}
    for path in (kept_listed, "/titles", "/titles?q=none", "/titles/x", "/titles?after=x"):
        response = await kept_pages.get(path, language=code, **rights)
        text = await response.text()
        page = html.fromstring(text)
        assert values(page, "//html/@lang") == [code] == [response.headers["Content-Language"]]
        shown = " ".join(
            [words(page, "//body"), *values(page, "//@aria-label"), *values(page, "//title/text()")]
        )
        shown = shown.replace("oai_dc", "").replace("Web archive", "")
        assert not [part for part in english(texts_in(code)) if re.search(rf"\b{re.escape(part)}\b", shown)]


async def test_the_language_is_that_of_the_parameter_or_of_the_browser(
    kept_pages: Pages, kept_listed: str
) -> None:
    cases = (("", "", "en"), ("", "sk, cs;q=0.5", "sk"), ("?lang=cs", "sk", "cs"), ("?lang=", "sk", "sk"))
    for query, header, code in cases:
        response = await kept_pages.get(kept_listed + query, language=header)
        page = html.fromstring(await response.text())
        assert values(page, "//html/@lang") == [code]
        assert values(page, "//nav//a[@aria-current]/@lang") == [code]
        assert "Accept-Language" in response.headers["Vary"]
        inside = [link for link in values(page, "//main//a/@href") if link.startswith("../titles")]
        assert all(("lang=cs" in link) == ("cs" in query) for link in inside)


async def test_language_links_keep_the_search(kept_pages: Pages, kept_listed: str) -> None:
    assert kept_listed
    page = await kept_pages.page("/titles?q=priklad&subject=1&x=y")
    assert "?lang=" not in values(page, "//nav//a/@href")[0]
    assert values(page, "//nav//a/@href")[1] == "?q=priklad&subject=1&lang=cs"


# For programs


async def test_link_headers_lead_to_records_licence_and_collection(
    kept_pages: Pages, kept_listed: str
) -> None:
    response = await kept_pages.get(kept_listed, titles_replay_url="https://wayback.example/*/{url}")
    page_url = f"http://archive.example{kept_listed}"
    links = [(str(link["rel"]), str(link["url"])) for link in response.links.values()]
    header = response.headers["Link"]
    found = re.findall(r'<([^>]+)>; rel="([\w-]+)"', header)
    assert [target for target, relation in found if relation == "cite-as"] == [page_url]
    assert ("https://creativecommons.org/licenses/by/4.0/", "license") in found
    assert ("http://archive.example/titles?collection=volby-2025", "collection") in found
    assert ("https://wayback.example/*/http://www.example.cz/", "item") in found
    assert ("https://schema.org/AboutPage", "type") in found
    described = [target for target, relation in found if relation == "describedby"]
    assert len(described) == 3
    assert header.count('type="text/xml"; profile="http') == 3
    assert links


async def test_the_data_for_search_engines_describes_an_archived_site(
    kept_pages: Pages, kept_listed: str
) -> None:
    page = await kept_pages.page(kept_listed)
    [written] = values(page, "//script[@type='application/ld+json']/text()")
    data = json.loads(written)
    assert data["@type"] == ["WebSite", "ArchiveComponent"]
    assert data["@id"] == data["itemLocation"] == f"http://archive.example{kept_listed}"
    assert data["url"] == "http://www.example.cz/"
    assert data["publisher"] == {"@type": "Organization", "name": "Nakladatelství"}
    assert data["inLanguage"] == ["cs", "en"]
    assert data["temporalCoverage"] == "2020-01-02/2020-01-03"
    assert data["isPartOf"][0]["url"] == "http://archive.example/titles?collection=volby-2025"
    assert data["holdingArchive"] == {"@type": "ArchiveOrganization", "name": "Web archive"}
    assert data["about"] == [{"@type": "DefinedTerm", "name": "Kulturní politika", "termCode": "304"}]


async def test_the_sitemap_lists_every_page(pages: Pages, listed: str, titles: Titles) -> None:
    index = etree.fromstring(await (await pages.get("/sitemap-titles.xml")).read())
    [part] = map(str, index.xpath("//*[local-name()='loc']/text()"))  # type: ignore[arg-type]
    assert part == "http://archive.example/sitemap-titles-all.xml"
    answer = await pages.get(part.removeprefix("http://archive.example"))
    assert answer.content_type == "application/xml"
    assert answer.headers["Content-Encoding"] == "gzip"
    urls = etree.fromstring(await answer.read())
    assert urls.tag == "{http://www.sitemaps.org/schemas/sitemap/0.9}urlset"
    found = {url[0].text: url[1].text for url in urls}
    moment = titles["1"].datestamp.strftime("%Y-%m-%dT%H:%M:%SZ")
    assert found[f"http://archive.example{listed}"] == moment
    assert len(found) == 2
    digit = listed.rpartition("/")[2][0]
    one = await (await pages.get(f"/sitemap-titles-{digit}.xml")).text()
    assert f"http://archive.example{listed}<" in one
    assert (await pages.get(f"/sitemap-titles-{'0' if digit != '0' else '1'}00.xml")).status == 404


def test_parts_of_the_sitemap_have_a_maximum_number_of_titles(
    database: Database, titles: Titles, archive: Archive
) -> None:
    for number in range(40):
        archive.add(f"http://a{number % 30}.cz/")
    titles.bring(*(entry(str(number), f"http://a{number}.cz/") for number in range(40)))
    with database.session() as session:
        whole, parts = (divided(session, most) for most in (30, 29))
    assert [(row.part, row.titles) for row in whole] == [("", 30)]
    assert {len(row.part) for row in parts} == {1}
    assert sum(row.titles for row in parts) == 30
    assert parts[0].changed == titles["0"].datestamp


async def test_titles_are_indexable_in_each_language_and_searches_are_not(
    kept_pages: Pages, kept_listed: str
) -> None:
    url = f"http://archive.example{kept_listed}"
    for query in ("", "?lang=cs"):
        page = await kept_pages.page(kept_listed + query)
        assert values(page, "//link[@rel='canonical']/@href") == [url + query]
        assert values(page, "//link[@rel='alternate']/@href") == [
            url, *(f"{url}?lang={code}" for code in LANGUAGES),
        ]  # fmt: skip
    for query in ("", "?q=a", "?subject=1"):
        robots = values(await kept_pages.page(f"/titles{query}"), "//meta[@name='robots']/@content")
        assert robots == (["noindex, follow"] if query else [])


async def test_the_landing_page_of_the_titles_repository_links_to_their_pages(
    kept_pages: Pages, kept_listed: str
) -> None:
    assert kept_listed
    response = await kept_pages.get("/oai/titles", accept="text/html")
    page = html.fromstring(await response.text())
    assert "http://archive.example/titles" in values(page, "//main//a/@href")


async def test_the_content_security_policy_allows_only_style_sheet_and_form(
    kept_pages: Pages, kept_listed: str
) -> None:
    response = await kept_pages.get(kept_listed)
    assert response.headers["Content-Security-Policy"] == (
        "default-src 'none'; style-src 'self'; base-uri 'none'; form-action 'self'; frame-ancestors 'none'"
    )
    style = html.fromstring(await response.text()).xpath("//link[@rel='stylesheet']/@href")
    assert style == ["../titles/style.css"]
    assert (await kept_pages.get("/titles/style.css")).content_type == "text/css"

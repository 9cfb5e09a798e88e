"""New captures: a page, an Atom feed, and links that select the captures of a load."""

import re
from datetime import UTC, datetime, timedelta

import pytest
from lxml import etree, html
from sqlalchemy import select, update

from oai.database import Database
from provider.models import Collection, Domain, Load, LoadPart
from tests.provider.archive import BEGINNING, Archive
from tests.provider.conftest import Provider, reply

ATOM = {"a": "http://www.w3.org/2005/Atom"}
BROWSER = {"Accept": "text/html,application/xhtml+xml,application/xml;q=0.9,*/*;q=0.8"}
_DATE = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ")


def a_load(database: Database, *, since: int, until: int, new: int, changed: int = 0) -> int:
    """Insert a load of documents with datestamps given in seconds after the beginning."""
    with database.session() as session:
        collection = session.scalar(select(Collection.id).where(Collection.set_spec == "collection:x"))
        domain = session.scalar(select(Domain.id).where(Domain.set_spec == "domain:cz"))
        row = Load(begun=BEGINNING, collection_id=collection)
        session.add(row)
        session.flush()
        number = row.load_id
        session.add(
            LoadPart(
                load_id=number,
                since=BEGINNING + timedelta(seconds=since),
                until=BEGINNING + timedelta(seconds=until),
                new=new,
                changed=changed,
                domains={} if domain is None else {str(domain): new + changed},
            )
        )
        session.commit()
    return number


@pytest.fixture
def loaded(archive: Archive, database: Database) -> list[str]:
    """Five documents in a collection with an awkward name; the second to fourth of them are a load."""
    added = [archive.add(collections=["collection:x"]) for _ in range(5)]
    with database.session() as session:
        session.execute(update(Collection).values(name='A & B <"\x01>'))
        session.commit()
    a_load(database, since=1, until=3, new=2, changed=1)
    return added


def texts(page: str, path: str) -> list[str]:
    """Return what an XPath finds in a page."""
    values = html.fromstring(page).xpath(path)
    assert isinstance(values, list)
    return [
        " ".join((value.text_content() if isinstance(value, html.HtmlElement) else str(value)).split())
        for value in values
    ]


async def page_of(provider: Provider, path: str = "/loads") -> str:
    answer = await provider.client.get(path, headers=BROWSER)
    assert answer.status == 200
    return await answer.text()


async def feed_of(provider: Provider, path: str = "/loads.atom") -> etree._Element:
    answer = await provider.client.get(path)
    assert (answer.status, answer.headers["Content-Type"]) == (200, "application/atom+xml; charset=utf-8")
    return etree.fromstring(await answer.read())


def found(element: etree._Element, path: str) -> list[str]:
    values = element.xpath(path, namespaces=ATOM)
    assert isinstance(values, list)
    return [str(value) for value in values]


@pytest.mark.usefixtures("loaded")
async def test_the_feed_has_the_elements_that_rfc_4287_requires(
    provider: Provider, database: Database
) -> None:
    a_load(database, since=4, until=4, new=1)
    feed = await feed_of(provider)
    assert feed.tag == "{http://www.w3.org/2005/Atom}feed"
    for name in ("id", "title", "updated"):
        assert len(found(feed, f"/a:feed/a:{name}/text()")) == 1, name
        assert len(found(feed, f"/a:feed/a:entry/a:{name}/text()")) == 2, name
    assert found(feed, "a:author/a:name/text()")
    assert found(feed, "a:link[@rel='self']/@href") == ["http://archive.example/loads.atom"]
    identifiers = found(feed, "//a:id/text()")
    assert len(set(identifiers)) == 3
    assert all(re.fullmatch(r"tag:[a-z.]+,\d{4}(-\d\d-\d\d)?:[a-z0-9:]+", one) for one in identifiers)
    dates = found(feed, "//a:updated/text() | //a:published/text()")
    assert all(_DATE.fullmatch(date) for date in dates)
    assert found(feed, "a:updated/text()") == ["2020-01-01T00:00:04Z"]
    assert found(feed, "a:entry/a:title/text()") == [
        "1 new capture in collection:x",
        "2 new and 1 changed capture in collection:x",
    ]
    assert found(feed, "a:entry[2]/a:category[@term='collection:x']/@label") == ['A & B <">']


async def test_the_requests_of_the_feed_select_the_load(loaded: list[str], provider: Provider) -> None:
    addresses = found(await feed_of(provider), "a:entry/a:link[@rel='related']/@href")
    assert len(addresses) == 4
    for address in addresses:
        answer = await provider.client.get(address.removeprefix("http://archive.example"))
        assert (await reply(answer)).identifiers == loaded[1:4], address


async def test_the_links_of_the_page_select_the_load(loaded: list[str], provider: Provider) -> None:
    page = await page_of(provider)
    assert texts(page, "//li/strong") == ["2 new, 1 changed"]
    links = texts(page, "//li[@id]//a/@href")
    assert len(links) == 4
    for link in links:
        assert (await reply(await provider.client.get(f"/{link}"))).identifiers == loaded[1:4], link
    for path in ("//nav//a/@href", "//link[@rel='stylesheet']/@href"):
        assert (await provider.client.get(f"/{texts(page, path)[0]}")).status == 200


@pytest.mark.usefixtures("loaded")
async def test_the_landing_page_shows_the_last_three(provider: Provider, database: Database) -> None:
    for number in range(3):
        a_load(database, since=4, until=4, new=number + 5)
    page = await page_of(provider, "/oai")
    assert texts(page, "//li[@id]/strong") == ["7 new", "6 new", "5 new"]
    assert texts(page, "//li[@id]//a/@href")[0].startswith("?verb=ListRecords")
    assert texts(page, "//link[@type='application/atom+xml']/@href") == ["loads.atom"]


async def test_without_loads_page_and_feed_are_empty_and_the_landing_page_omits_them(
    provider: Provider,
) -> None:
    assert "There are no loads." in await page_of(provider)
    assert found(await feed_of(provider), "//a:updated/text()") == ["1970-01-01T00:00:00Z"]
    assert "What is new</h2>" not in await page_of(provider, "/oai")


async def test_a_load_with_future_datestamps_is_omitted_from_page_and_feed(
    provider: Provider, database: Database
) -> None:
    ahead = datetime.now(UTC) + timedelta(days=1) - BEGINNING
    a_load(database, since=0, until=int(ahead.total_seconds()), new=1)
    assert "There are no loads." in await page_of(provider)
    assert found(await feed_of(provider), "//a:entry") == []


async def test_an_unchanged_feed_is_not_sent_again(provider: Provider, database: Database) -> None:
    a_load(database, since=1, until=1, new=1)
    tag = (await provider.client.get("/loads.atom")).headers["ETag"]
    again = await provider.client.get("/loads.atom", headers={"If-None-Match": tag})
    assert (again.status, again.headers["ETag"], await again.read()) == (304, tag, b"")
    a_load(database, since=2, until=2, new=1)
    changed = await provider.client.get("/loads.atom", headers={"If-None-Match": tag})
    assert changed.status == 200
    assert (await provider.client.head("/loads")).status == (await provider.client.head("/loads.atom")).status


async def test_older_loads_are_on_further_pages(provider: Provider, database: Database) -> None:
    numbers = [a_load(database, since=1, until=1, new=1) for _ in range(52)]
    feed = await feed_of(provider)
    (following,) = found(feed, "a:link[@rel='next']/@href")
    assert following == f"http://archive.example/loads.atom?before={numbers[2]}"
    rest = await feed_of(provider, following.removeprefix("http://archive.example"))
    assert (len(found(feed, "a:entry/a:id")), len(found(rest, "a:entry/a:id"))) == (50, 2)
    assert found(rest, "a:link[@rel='next']/@href") == []
    assert found(rest, "a:link[@rel='self']/@href") == [following]
    assert texts(await page_of(provider), "//a[@rel='next']/@href") == [f"?before={numbers[2]}"]
    assert "There are no older loads." in await page_of(provider, f"/loads?before={numbers[0]}")


@pytest.mark.parametrize("path", ["/loads", "/loads.atom"])
@pytest.mark.parametrize("before", ["", "x", "-1", "1" * 10, "²"])
async def test_an_invalid_page_parameter_is_refused(reading: Provider, path: str, before: str) -> None:
    answer = await reading.client.get(path, params={"before": before})
    assert (answer.status, "is not the number of a load" in await answer.text()) == (400, True)

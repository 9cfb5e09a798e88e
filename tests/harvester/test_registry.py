from collections.abc import AsyncIterator
from pathlib import Path

import pytest
from aiohttp import web

from harvester.reading.errors import NotOaiPmhError
from harvester.registry import base_urls_in, friends_of, load_registry
from oai.settings import Settings

_LIST = b"""<BaseURLs><baseURL id="b">https://b.example/oai</baseURL><baseURL>http://a.example/oai</baseURL>
<baseURL>ftp://c.example</baseURL></BaseURLs>"""
_FRIENDS = b"""<OAI-PMH xmlns="http://www.openarchives.org/OAI/2.0/"><Identify><baseURL>http://own.example/oai</baseURL>
<description><friends xmlns="http://www.openarchives.org/OAI/2.0/friends/"><baseURL>http://friend.example/oai</baseURL>
</friends></description></Identify></OAI-PMH>"""


class _Site:
    def __init__(self) -> None:
        self.asked = 0
        self.status = 200
        self.url = ""

    async def answer(self, request: web.Request) -> web.Response:
        self.asked += 1
        body = _FRIENDS if request.query.get("verb") == "Identify" else _LIST
        return web.Response(status=self.status, body=body, content_type="text/xml")


@pytest.fixture
async def site() -> AsyncIterator[_Site]:
    found, app = _Site(), web.Application()
    app.router.add_get("/list", found.answer)
    runner = web.AppRunner(app)
    await runner.setup()
    await web.TCPSite(runner, "127.0.0.1", 0).start()
    found.url = f"http://127.0.0.1:{runner.addresses[0][1]}/list"
    yield found
    await runner.cleanup()


def _settings(url: str | None, data: Path) -> Settings:
    harvester = Settings().harvester.model_copy(update={"registry_url": url})
    return Settings().model_copy(update={"data": data, "harvester": harvester})


async def test_the_list_is_fetched_once_and_kept_for_days(site: _Site, tmp_path: Path) -> None:
    settings = _settings(site.url, tmp_path)

    first = await load_registry(settings)
    second = await load_registry(settings)

    assert list(first.base_urls) == ["http://a.example/oai", "https://b.example/oai"]
    assert (second.base_urls, site.asked) == (first.base_urls, 1)
    assert first.search("B example", 5) == ["https://b.example/oai"]


async def test_an_outdated_list_is_used_with_a_warning_if_no_new_one_is_available(
    site: _Site, tmp_path: Path
) -> None:
    settings = _settings(site.url, tmp_path)
    await load_registry(settings)
    site.status = 500

    later = await load_registry(settings, clock=lambda: 4e9)

    assert later.base_urls
    assert later.trouble is not None
    assert "500" in later.trouble


async def test_without_an_address_no_request_is_sent(tmp_path: Path) -> None:
    assert (await load_registry(_settings(None, tmp_path))).base_urls == ()


async def test_friends_are_those_in_the_friends_container(site: _Site, tmp_path: Path) -> None:
    assert await friends_of(site.url, _settings(None, tmp_path)) == ["http://friend.example/oai"]


def test_an_answer_that_is_not_xml_is_reported_with_its_first_bytes() -> None:
    with pytest.raises(NotOaiPmhError, match="hello"):
        base_urls_in(b"hello", url="http://x.example")

"""`zatva probe`, run as a real process."""

import gzip
from pathlib import Path

import pytest

from tests.harvester.client.raw_server import RawServer, reply, serve_raw
from tests.harvester.fake_repository import Answer, FakeRepository, many, serve
from tests.harvester.test_commands import run


@pytest.fixture
def nothing(tmp_path: Path) -> dict[str, str]:
    """An environment in which no database is available."""
    return {
        "PATH": "",
        "ZATVA_DATA": str(tmp_path / "data"),
        "ZATVA_DATABASE_URL": "postgresql://127.0.0.1:1/none",
    }


async def test_findings_of_a_probe_are_printed_for_people(nothing: dict[str, str], tmp_path: Path) -> None:
    async with serve(FakeRepository(items=many(25), sets=[f"s{n}" for n in range(12)])) as fake:
        done = await run(nothing, "probe", fake.url)
    assert done.code == 0, done.err
    for words in (
        f"Fake, {fake.url}",
        "granularity: YYYY-MM-DDThh:mm:ssZ",
        "Formats: 1",
        "Sets: 10; these are the first",
        "Records in oai_dc: 10 of 25 on the first page; the first 10",
        "Title 3",
        "ListRecords: HTTP 200,",
        "Answers are not compressed",
    ):
        assert words in done.out
    assert not (tmp_path / "data").exists()


async def test_findings_of_a_probe_are_printed_for_programs(nothing: dict[str, str]) -> None:
    def zipped(_asked: dict[str, str], good: bytes) -> Answer:
        return 200, {"Content-Type": "text/xml", "Content-Encoding": "gzip"}, gzip.compress(good)

    async with serve(FakeRepository(items=many(3), fault=zipped)) as fake:
        done = await run(nothing, "probe", fake.url, "--json")
    assert done.code == 0, done.err
    found = done.json
    wanted = {
        "repository_name": "Fake",
        "granularity": "YYYY-MM-DDThh:mm:ssZ",
        "deleted_record": "persistent",
        "sets": [],
        "more_sets": False,
        "metadata_prefix": "oai_dc",
        "records_per_page": 3,
        "odd": [],
    }
    assert wanted.items() <= found.items()
    assert [form["metadata_prefix"] for form in found["formats"]] == ["oai_dc"]
    assert found["records"][0]["identifier"] == "oai:fake.example:0"
    assert [request["verb"] for request in found["requests"]] == [
        "Identify",
        "ListMetadataFormats",
        "ListSets",
        "ListRecords",
    ]
    assert found["requests"][0]["compression"] == ["gzip"]


async def test_the_exit_code_shows_the_kind_of_result(nothing: dict[str, str]) -> None:
    async with serve(FakeRepository(fault=lambda _asked, _good: b"<html>Welcome</html>")) as fake:
        page = await run(nothing, "probe", fake.url)
        fake.fault = lambda _asked, _good: (503, {"Retry-After": "7200"}, b"")
        busy = await run(nothing, "probe", fake.url)
    assert (page.code, busy.code) == (4, 75)
    assert "check the base URL, unless it has worked before" in page.err
    assert (await run(nothing, "probe", "http://127.0.0.1:1/oai")).code == 4
    wrong = await run(nothing, "probe", "ftp://x/")
    assert (wrong.code, wrong.out) == (2, "")
    assert (await run(nothing, "probe", "http://127.0.0.1:1/", "--timeout", "0")).code == 2


async def test_the_options_of_the_client_are_obeyed(nothing: dict[str, str]) -> None:
    answer = FakeRepository().answer({"verb": "Identify"}).encode()
    server = RawServer(answer=lambda _: reply(answer))
    async with serve_raw(server):
        await run(nothing, "probe", server.url, "--user-agent", "Somebody/1", "--delay", "0.01")
    assert "User-Agent: Somebody/1\r\n" in server.asked[0]
    silent = RawServer(answer=lambda _: b"HTTP/1.1 200 OK\r\n", hold=True)
    async with serve_raw(silent):
        done = await run(nothing, "probe", silent.url, "--timeout", "0.2")
    assert done.code == 4
    assert "setting timeout" in done.err

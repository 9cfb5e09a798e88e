"""The take-down register on pages and in the API: a preview first, then the entry, then its end."""

import pytest
from sqlalchemy import select

from provider.holdings.publication import CHUNK
from provider.holdings.takedowns import Preview
from provider.models import Document, Takedown
from tests.provider.archive import Archive
from tests.web.conftest import Browser, Server

_FORM = {
    "expires": "",
    "targets": "www.example.cz/blog\r\n\r\nhttp://other.example/",
    "kind": "prefix",
    "reason": "court order",
    "requester": "Jan Novák, novak@example.cz",
}


@pytest.fixture
def archive(server: Server) -> Archive:
    """Four documents of two hosts."""
    archive = Archive(server.database, server.settings)
    for url in ("http://www.example.cz/blog/1", "http://www.example.cz/blog/2", "http://www.example.cz/3"):
        archive.add(url)
    archive.add("http://another.example/")
    return archive


def _hidden(server: Server) -> list[str]:
    with server.database.session() as session:
        return list(session.scalars(select(Document.url).where(Document.deleted).order_by(Document.url)))


@pytest.mark.usefixtures("archive")
async def test_a_preview_changes_nothing_and_an_entry_hides_documents(
    server: Server, curator: Browser
) -> None:
    status, text, _ = await curator.post("/archive/takedowns/new", _FORM)
    assert (status, "2 documents are covered. No harvester has them." in text) == (200, True)
    assert "For example:" not in text, "these are all"
    assert _hidden(server) == []

    _, _, target = await curator.post("/archive/takedowns/new", {**_FORM, "do": "enter"})
    assert target == "/archive/takedowns/1?done=taken-down"
    assert _hidden(server) == ["http://www.example.cz/blog/1", "http://www.example.cz/blog/2"]
    assert "Jan Novák" in (await curator.get("/archive/takedowns?q=novák&show=active"))[1]
    assert "court order" in (await curator.get("/archive/takedowns.csv"))[1]
    assert "court order" in (await curator.get("/archive/takedowns.csv?q=novák&show=active"))[1]
    assert "court order" not in (await curator.get("/archive/takedowns.csv?show=ended"))[1]
    assert "/archive/takedowns.csv?show=active" in (await curator.get("/archive/takedowns?q=&show=active"))[1]
    with server.database.session() as session:
        key = session.scalars(select(Document.key).where(Document.url.endswith("blog/1"))).one()
    _, text = await curator.get(f"/archive/documents/{key}")
    assert ("Take-down 1 hides this document." in text, "Show again" in text) == (True, False)

    status, _, _ = await curator.post("/archive/takedowns/1/lift", {"because": ""})
    assert status == 422
    await curator.post("/archive/takedowns/1/lift", {"because": "settled out of court"})
    assert _hidden(server) == []
    assert "settled out of court" in (await curator.get("/archive/takedowns/1"))[1]
    assert (await curator.get("/archive/takedowns/2"))[0] == 404


async def test_a_preview_says_that_some_of_many_addresses_are_examples(
    archive: Archive, curator: Browser
) -> None:
    for number in range(11):
        archive.add(f"http://other.example/{number}")
    _, text, _ = await curator.post("/archive/takedowns/new", _FORM)
    assert "For example:" in text


@pytest.mark.usefixtures("archive")
@pytest.mark.parametrize(
    ("kind", "line", "target"),
    [
        ("host", "example.cz/*", "*.example.cz"),
        ("host", "*.example.cz", "*.example.cz"),
        ("host", "http://example.cz:8080/*", "*.http://example.cz:8080"),
        ("prefix", "example.cz/*", "example.cz/*"),
        ("prefix", "example.cz/a*b", "example.cz/a*b*"),
        ("exact", "example.cz/a*b", "example.cz/a*b"),
    ],
)
async def test_the_chosen_scope_applies_to_lines_with_an_asterisk(
    server: Server, curator: Browser, kind: str, line: str, target: str
) -> None:
    await curator.post("/archive/takedowns/new", {**_FORM, "targets": line, "kind": kind, "do": "enter"})
    with server.database.session() as session:
        assert session.scalars(select(Takedown.targets)).one() == [target]


@pytest.mark.parametrize(
    ("kind", "line"),
    [
        ("host", "example.cz/blog/*"),
        ("host", "example.cz?a=/*"),
        ("host", "example.cz*"),
        ("exact", "example.cz/*"),
        ("exact", "*.example.cz"),
        ("prefix", "*.example.cz"),
    ],
)
async def test_an_asterisk_that_means_another_scope_is_refused(
    server: Server, curator: Browser, kind: str, line: str
) -> None:
    form = {**_FORM, "targets": f"a.cz\r\n{line}", "kind": kind, "do": "enter"}
    status, text, _ = await curator.post("/archive/takedowns/new", form)
    assert (status, f"or remove the asterisk: 2: &#39;{line}&#39;" in text) == (422, True)
    assert "choose “everything that begins with these addresses” for …*" in text
    with server.database.session() as session:
        assert session.scalars(select(Takedown)).all() == []


async def test_a_preview_of_no_documents_asks_to_check_the_addresses(curator: Browser) -> None:
    _, text, _ = await curator.post("/archive/takedowns/new", {**_FORM, "targets": "unknown.example"})
    assert "0 documents are covered. Nothing in the archive matches so far; check the addresses" in text
    assert "No harvester has them." not in text


@pytest.mark.usefixtures("archive")
@pytest.mark.parametrize(
    ("typed", "fault"),
    [
        ("31.12.2027", "Enter a date, such as 2026-01-31."),
        ("2020-01-01", "Enter a day that has not begun yet."),
    ],
)
async def test_the_preview_refuses_an_invalid_end(curator: Browser, typed: str, fault: str) -> None:
    status, text, _ = await curator.post("/archive/takedowns/new", {**_FORM, "expires": typed})
    assert (status, fault in text) == (422, True)


@pytest.mark.usefixtures("archive")
async def test_the_end_is_shown_in_the_preview_and_after_the_entry(curator: Browser) -> None:
    filled = {**_FORM, "expires": "2999-11-30"}
    assert (
        "From the beginning of this day, the documents are shown again."
        in (await curator.get("/archive/takedowns/new"))[1]
    )
    _, previewed, _ = await curator.post("/archive/takedowns/new", filled)
    await curator.post("/archive/takedowns/new", {**filled, "do": "enter"})
    pages = [(await curator.get(path))[1] for path in ("/archive/takedowns/1", "/archive/takedowns")]
    assert [">30 Nov 2999 " in text for text in [previewed, *pages]] == [True] * 3


@pytest.mark.usefixtures("archive")
async def test_an_invalid_line_is_reported_with_its_number(curator: Browser) -> None:
    targets = "a.cz/\x85\u2028x\r\nblog"  # a URL archived in Shift JIS may have both
    status, text, _ = await curator.post("/archive/takedowns/new", {**_FORM, "targets": targets})
    assert (status, "2: &#39;blog*&#39;" in text) == (422, True)


async def test_only_staff_of_the_archive_see_the_register(viewer: Browser, owner: Browser) -> None:
    for browser in (viewer, owner):
        assert (await browser.get("/archive/takedowns"))[0] == 403
        assert (await browser.post("/archive/takedowns/new", {**_FORM, "do": "enter"}))[0] == 403


@pytest.mark.usefixtures("archive")
async def test_a_large_take_down_is_applied_by_the_manager(
    server: Server, curator: Browser, monkeypatch: pytest.MonkeyPatch
) -> None:
    large = Preview(documents=CHUNK + 1, more=False, hidden=0, harvesters=0, examples=())
    monkeypatch.setattr("provider.holdings.takedowns.preview", lambda _session, _targets: large)
    await curator.post("/archive/takedowns/new", {**_FORM, "do": "enter"})
    assert "The manager applies it" in (await curator.get("/archive/takedowns/1"))[1]
    with server.database.session() as session:
        assert session.scalars(select(Takedown.unsettled)).one() is not None


@pytest.mark.usefixtures("archive")
async def test_the_api_previews_enters_and_lifts_take_downs(server: Server, administrator: Browser) -> None:
    headers = {"X-CSRF-Token": await administrator.token()}
    base = server.base_url + "/api/v1/archive/takedowns"
    body = {"targets": ["*.example.cz"], "reason": "r", "requester": "q"}
    async with administrator.http.post(
        base + "/preview", json={"targets": body["targets"]}, headers=headers
    ) as a:
        assert (await a.json())["documents"] == 3
    async with administrator.http.post(base, json=body, headers=headers) as answer:
        made = await answer.json()
    assert (answer.status, made["state"], made["documents"], len(_hidden(server))) == (201, "active", 3, 3)
    lift = f"{base}/{made['takedown_id']}/lift"
    async with administrator.http.post(lift, json={"reason": "over"}, headers=headers) as answer:
        assert (await answer.json())["state"] == "ended"
    async with administrator.http.get(base + "?ended=true&words=example") as answer:
        assert [one["takedown_id"] for one in (await answer.json())["items"]] == [made["takedown_id"]]
    assert _hidden(server) == []

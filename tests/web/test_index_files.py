"""Archive files are found, chosen and queued from the browser, and nothing outside the configured folders."""

from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from lxml import html
from sqlalchemy import select, update
from sqlalchemy import text as text_of_sql

from provider.indexing.indexer import IndexOptions, index_file
from provider.indexing.models import IndexFile, IndexFileState, IndexRun
from tests.provider.archives import Page, write_pages
from tests.web.conftest import Browser, Server
from web.site.keys import SETTINGS


@pytest.fixture
def root(server: Server, tmp_path: Path) -> Path:
    """A folder with an indexed, a changed and a new file, one below, one unfinished, and a way out."""
    root = tmp_path / "archive"
    (root / "2026").mkdir(parents=True)
    for name in ("done.warc.gz", "changed.warc.gz"):
        index_file(server.database, _write(root / name), IndexOptions(margin=1))
    _write(root / "changed.warc.gz", "more")
    _write(root / "new.warc.gz")
    _write(root / "2026" / "below.warc.gz")
    (root / "crawl.warc.gz.open").write_bytes(b"x")
    _write(tmp_path / "secret.warc.gz")
    (root / "2026" / "link.warc.gz").symlink_to(tmp_path / "secret.warc.gz")
    (root / "out").symlink_to(tmp_path, target_is_directory=True)
    _use(server, root)
    return root


def _write(path: Path, more: str = "") -> Path:
    return write_pages(path, [Page(url=f"http://a.example/{path.name}{more}")])


def _use(server: Server, *roots: Path) -> None:
    # Settings are read once; tests alone change them under a running application.
    old = server.app[SETTINGS]
    provider = old.provider.model_copy(update={"index_roots": tuple(map(str, roots))})
    server.app._state[SETTINGS] = old.model_copy(update={"provider": provider})  # noqa: SLF001


def _queued(server: Server) -> list[str]:
    with server.database.session() as session:
        return sorted(Path(path).name for path in session.scalars(select(IndexFile.path)))


async def test_without_configured_folders_the_page_names_the_setting(curator: Browser) -> None:
    assert "index_roots" in (await curator.get("/archive/indexing/files"))[1]


async def test_new_and_changed_files_of_a_folder_are_queued_once(
    server: Server, root: Path, curator: Browser
) -> None:
    _, text = await curator.get("/archive/indexing/files")
    for name, state in (("done", "indexed"), ("changed", "changed"), ("new", "new")):
        assert f">{state}<" in text.partition(f"{name}.warc.gz</span>")[2].partition("</tr>")[0]
    assert "still being written" in text

    form = {"folder": str(root), "do": "all", "collection": "serials"}
    _, _, target = await curator.post("/archive/indexing/files", form)
    assert target.startswith("/archive/indexing/1")
    assert _queued(server) == ["below.warc.gz", "changed.warc.gz", "new.warc.gz"]
    with server.database.session() as session:
        run = session.get_one(IndexRun, 1)
        assert (run.collection, run.again) == ("collection:serials", False)
    assert (await curator.post("/archive/indexing/files", form))[0] == 422, "they wait already"

    with server.database.session() as session:
        session.execute(text_of_sql("DELETE FROM procrastinate_jobs"))
        session.commit()
    assert (await curator.post("/archive/indexing/files", form))[2].startswith("/archive/indexing/2"), "lost"

    assert "3 files wait" in (await curator.get("/archive"))[1]
    with server.database.session() as session:
        session.execute(update(IndexRun).values(queued=IndexRun.queued - timedelta(days=1)))
        session.execute(update(IndexFile).values(ended=None))
        session.commit()
    assert "no worker takes them" in (await curator.get("/archive"))[1]
    with server.database.session() as session:
        latest = select(IndexFile).where(IndexFile.path.endswith("new.warc.gz"), IndexFile.run_id == 2)
        file = session.scalars(latest).one()
        file.state, file.reason = IndexFileState.FAILED, "not gzip"
        session.commit()
    assert "not gzip" in (await curator.get("/archive/indexing/files"))[1]


async def test_chosen_files_are_queued_again(server: Server, root: Path, curator: Browser) -> None:
    form = {"folder": str(root), "do": "chosen"}
    assert (await curator.post("/archive/indexing/files", form))[0] == 422
    await curator.post("/archive/indexing/files", {**form, "file": str(root / "done.warc.gz")})
    assert _queued(server) == ["done.warc.gz"]


async def test_the_form_keeps_its_entries_until_files_are_queued(
    server: Server, root: Path, curator: Browser
) -> None:
    file = str(root / "done.warc.gz")
    form = {"folder": str(root), "file": file, "collection": "serials"}
    _, opened = await curator.get("/archive/indexing/files")
    answers = [
        await curator.post("/archive/indexing/files", {**form, **more})
        for more in ({"do": "show"}, {"do": "all"}, {"do": "chosen", "collection": "no such: thing"})
    ]

    assert html.fromstring(opened).xpath("string(//main//form//button/@value)") == "show", "Enter presses it"
    assert [status for status, _text, _target in answers] == [200, 422, 422]
    pages: list[Any] = [html.fromstring(text) for _status, text, _target in answers]
    for page in pages:
        assert page.xpath("//input[@name='file'][@checked]/@value") == [file]
    entered = [page.get_element_by_id("collection") for page in pages]
    assert [one.get("value") for one in entered] == ["serials", "serials", "no such: thing"]
    assert [one.get("aria-invalid") for one in entered] == [None, None, "true"]
    assert [page.xpath("//*[@role='alert']/@tabindex") for page in pages] == [[], ["-1"], ["-1"]]
    assert _queued(server) == []


async def test_files_outside_the_configured_folders_are_neither_listed_nor_queued(
    server: Server, root: Path, curator: Browser, administrator: Browser
) -> None:
    headers = {"X-CSRF-Token": await administrator.token()}
    url, page = server.base_url + "/api/v1/archive/indexing", "/archive/indexing/files"
    for path in ("..", "../secret.warc.gz", "out", "2026/link.warc.gz", "/etc", "\0", "none"):
        outside = str(root / path)
        status, text, _ = await curator.post(page, {"folder": str(root), "file": outside})
        assert (status, "secret" in text.replace("secret.warc.gz&#39; is not", "")) == (422, False), path
        assert (await curator.post(page, {"folder": outside, "do": "all"}))[0] == 422, path
        async with administrator.http.post(url, json={"paths": [outside]}, headers=headers) as answer:
            assert answer.status in (409, 422), path
        assert _queued(server) == [], path


async def test_the_api_lists_and_queues_files(server: Server, root: Path, administrator: Browser) -> None:
    base = server.base_url + "/api/v1/archive/indexing"
    async with administrator.http.get(base + "/files", params={"folder": str(root)}) as answer:
        entries = (await answer.json())["entries"]
    assert {one["name"]: one["known"] for one in entries if not one["is_folder"]} == {
        "changed.warc.gz": "changed",
        "crawl.warc.gz.open": None,
        "done.warc.gz": "indexed",
        "new.warc.gz": "new",
    }
    headers = {"X-CSRF-Token": await administrator.token()}
    for expected in (1, None):
        async with administrator.http.post(base, json={"paths": [str(root)]}, headers=headers) as answer:
            assert (await answer.json())["run_id"] == expected


async def test_only_staff_of_the_archive_see_files(root: Path, viewer: Browser, owner: Browser) -> None:
    for browser in (viewer, owner):
        assert (await browser.get(f"/archive/indexing/files?folder={root}"))[0] == 403

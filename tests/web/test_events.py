import asyncio
import contextlib
import json
import re
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Any

import aiohttp
import pytest
from aiohttp import web
from sqlalchemy import Connection, delete, event, text

from oai.connections import CONNECTIONS
from tests.web.conftest import Browser, Server
from tests.web.rows import a_repository
from web.auth.organisations import find_organisation, give_repository
from web.models import UserSession
from web.site import live_rows
from web.site.sse import HUB

_SECONDS = 60
_JOB = "INSERT INTO oai_job (repository_id, metadata_prefix, status, process_id) VALUES (1, 'marc21', 1, 7)"
_MANY = """
INSERT INTO oai_job (repository_id, harvest_start_time)
SELECT 1, now() - interval '1 day' + n * interval '1 minute' FROM generate_series(1, 150) AS n
"""
_PROGRESS = """
INSERT INTO oai_harvest (repository_id, metadata_prefix, job_id, run_started, counts)
VALUES (1, 'marc21', 1, now(), '{"records"\\: 10}')
"""
_MORE_PROGRESS = """
UPDATE oai_harvest SET counts = jsonb_build_object('records', CAST(counts ->> 'records' AS int) + 1)
"""


@dataclass(frozen=True, kw_only=True)
class Event:
    """One event of a stream."""

    id: str
    name: str
    data: dict[str, Any]


class Stream:
    """Reads events one by one."""

    def __init__(self, answer: aiohttp.ClientResponse) -> None:
        self.answer = answer

    async def next(self) -> Event:
        """Return the next event, without heartbeats."""
        while True:
            lines = (await self.answer.content.readuntil(b"\n\n")).decode().strip().splitlines()
            fields = dict(line.split(": ", 1) for line in lines)
            if "id" in fields:
                return Event(id=fields["id"], name=fields["event"], data=json.loads(fields["data"]))

    async def until(self, wanted: Callable[[Event], bool]) -> Event:
        """Return the next event of that kind, without those that only the passing time causes."""
        while not wanted(found := await self.next()):
            pass
        return found


@asynccontextmanager
async def _follow(
    browser: Browser, last_event_id: str | None = None, *, topic: str = "jobs"
) -> AsyncIterator[Stream]:
    headers = {"Last-Event-ID": last_event_id} if last_event_id else {}
    url = f"{browser.base_url}/events?topics={topic}"
    async with browser.http.get(url, headers=headers) as answer:
        assert answer.status == 200
        assert answer.content_type == "text/event-stream"
        yield Stream(answer)


def _run(server: Server, *statements: str) -> None:
    with server.database.session() as session:
        for statement in statements:
            session.execute(text(statement))
        session.commit()


def _with_repository(server: Server) -> None:
    with server.database.session() as session:
        a_repository(session)
        session.commit()


async def test_added_changed_and_removed_rows_are_pushed(server: Server, viewer: Browser) -> None:
    _with_repository(server)
    async with _follow(viewer) as stream:
        assert (await stream.next()).data == {"rows": {}, "order": []}

        _run(server, _JOB)
        added = await stream.next()
        _run(server, _PROGRESS)
        changed = await stream.next()
        _run(server, "DELETE FROM oai_job")
        gone = await stream.until(lambda event: "order" in event.data)

    assert added.data["order"] == ["job-1"]
    assert added.data["rows"]["job-1"].startswith('<tr id="job-1">')
    assert "order" not in changed.data
    assert "10 / unknown" in changed.data["rows"]["job-1"]
    assert gone.data == {"rows": {}, "order": []}


async def test_a_pushed_row_equals_the_row_on_the_page(server: Server, viewer: Browser) -> None:
    _with_repository(server)
    _run(server, _JOB)
    _, page = await viewer.get("/jobs")

    async with _follow(viewer) as stream:
        pushed = (await stream.next()).data["rows"]["job-1"]

    assert pushed.strip() in page


async def test_a_reconnecting_client_gets_the_rows_that_changed_meanwhile(
    server: Server, viewer: Browser
) -> None:
    _with_repository(server)
    _run(server, _JOB)
    async with _follow(viewer) as stream:
        seen = (await stream.next()).id

    _run(server, "INSERT INTO oai_job (repository_id) VALUES (1)")
    async with _follow(viewer, seen) as stream:
        missed = await stream.next()

    assert missed.data["order"] == ["job-1", "job-2"]
    assert set(missed.data["rows"]) == {"job-2"}


async def test_a_client_that_reconnects_to_another_server_gets_all_rows(
    server: Server, viewer: Browser
) -> None:
    _with_repository(server)
    _run(server, _JOB)

    async with _follow(viewer, "of-another-server.99") as stream:
        assert set((await stream.next()).data["rows"]) == {"job-1"}


async def test_a_client_that_reconnects_with_a_very_long_event_id_gets_all_rows(
    server: Server, viewer: Browser
) -> None:
    _with_repository(server)
    _run(server, _JOB)
    async with _follow(viewer) as stream:
        epoch = (await stream.next()).id.partition(".")[0]

    async with _follow(viewer, f"{epoch}.{'9' * 5000}") as stream:
        assert set((await stream.next()).data["rows"]) == {"job-1"}


def _reads_of_jobs(server: Server) -> list[str]:
    """The statements that list jobs, from now on."""
    reads: list[str] = []

    def note(_c: Connection, _u: object, statement: str, *_: object) -> None:
        if "FROM oai_job" in statement and "ORDER BY" in statement:
            reads.append(statement)

    event.listen(server.database.engine, "before_cursor_execute", note)
    return reads


async def test_a_list_without_changes_gets_heartbeats_while_another_list_changes(
    server: Server, viewer: Browser, owner: Browser, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(live_rows, "HEARTBEAT_SECONDS", 0.2)
    _with_repository(server)
    _run(server, _JOB, _PROGRESS)

    async def change() -> None:
        while True:
            await busy.next()
            _run(server, _MORE_PROGRESS)

    async with _follow(viewer) as busy, _follow(owner) as quiet, asyncio.timeout(_SECONDS):
        await quiet.next()
        changing = asyncio.create_task(change())
        beat = await quiet.answer.content.readuntil(b"\n\n")
        changing.cancel()

    assert beat == b"event: alive\ndata: {}\n\n"


async def test_rows_are_read_only_while_followed_and_once_for_all_followers(
    server: Server, viewer: Browser
) -> None:
    _with_repository(server)
    reads = _reads_of_jobs(server)
    hub = server.app[HUB]
    assert reads == []
    async with _follow(viewer) as one, _follow(viewer) as two:
        assert (await one.next()).data == (await two.next()).data
        _run(server, _JOB)
        first, second = await one.next(), await two.next()

    assert first == second
    assert reads
    assert hub.knows("jobs")


@pytest.mark.parametrize("topic", ["jobs", "running"])
async def test_the_jobs_of_partners_without_current_ones_are_not_listed(
    server: Server, owner: Browser, topic: str
) -> None:
    with server.database.session() as session:
        organisation = find_organisation(session, "mzk")
        assert organisation is not None
        give_repository(session, a_repository(session).repository_id, organisation.organisation_id)
        session.commit()
    _run(server, "INSERT INTO oai_job (repository_id, harvest_start_time) VALUES (1, '2050-01-01Z')")
    reads = _reads_of_jobs(server)

    async with _follow(owner, topic=topic) as stream:
        first = await stream.next()
        before = len(reads)
        _run(server, _JOB)
        added = await stream.next()

    assert (first.data, before) == ({"rows": {}, "order": []}, 0)
    assert added.data["order"] == ["job-2"]
    assert reads


async def test_a_partners_jobs_are_live_behind_many_jobs_of_others(server: Server, owner: Browser) -> None:
    with server.database.session() as session:
        a_repository(session)
        own = a_repository(session, name="Library of the owner", folder="own").repository_id
        organisation = find_organisation(session, "mzk")
        assert organisation is not None
        give_repository(session, own, organisation.organisation_id)
        session.commit()
    _run(server, _MANY, "INSERT INTO oai_job (repository_id) VALUES (2)")

    async with _follow(owner) as stream:
        first = await stream.next()
        _run(server, "UPDATE oai_job SET status = 1, process_id = 8 WHERE repository_id = 2")
        begun = await stream.next()

    assert first.data["order"] == ["job-151"]
    assert "no records yet" in begun.data["rows"]["job-151"]


async def test_the_page_after_the_first_hundred_jobs_is_live(server: Server, viewer: Browser) -> None:
    _with_repository(server)
    _run(server, _MANY)
    _, first = await viewer.get("/jobs")
    [behind] = re.findall(r'href="/jobs\?after=([0-9.]+)"', first)
    _, second = await viewer.get(f"/jobs?after={behind}")
    [topic] = re.findall(r'data-live="([^"]+)"', second)

    async with _follow(viewer, topic=topic) as stream:
        shown = await stream.next()
        _run(server, "DELETE FROM oai_job WHERE job_id = 150")
        gone = await stream.next()

    assert re.findall(r'<tr id="job-(\d+)"', first) == [str(number) for number in range(1, 101)]
    assert shown.name == topic == f"jobs:{behind}"
    assert shown.data["order"] == [f"job-{number}" for number in range(101, 151)]
    assert all(row.strip() in second for row in shown.data["rows"].values())
    assert gone.data == {"rows": {}, "order": [f"job-{number}" for number in range(101, 150)]}


async def test_rows_are_pushed_in_the_followers_time_zone(
    server: Server, viewer: Browser, owner: Browser
) -> None:
    _with_repository(server)
    _run(server, "INSERT INTO oai_job (repository_id, harvest_start_time) VALUES (1, '2026-07-01 22:30:00Z')")
    await viewer.post("/account/time-zone", {"time_zone": "Europe/Prague"})

    async with _follow(viewer) as stream:
        row = (await stream.next()).data["rows"]["job-1"]
    async with _follow(owner) as stream:
        others = (await stream.next()).data

    assert ">2 Jul 2026</time>" in row
    assert others == {"rows": {}, "order": []}


async def test_unknown_topics_are_refused(viewer: Browser) -> None:
    for topics in (
        "",
        "?topics=",
        "?topics=secrets",
        "?topics=jobs,secrets",
        "?topics=jobs:x",
        "?topics=running:1.1.1",
    ):
        assert (await viewer.get("/events" + topics))[0] == 400


async def test_a_stream_follows_a_limited_number_of_topics(server: Server, viewer: Browser) -> None:
    most = server.settings.web.event_topics
    topics = [f"jobs:0.{number}.1" for number in range(3000)]
    assert all(map(server.app[HUB].knows, topics))

    answers = [await viewer.get(f"/events?topics={','.join(topics[:count])}") for count in (3000, most + 1)]

    assert answers == 2 * [(400, f"A stream can follow at most {most} topics.")]
    async with _follow(viewer, topic=",".join(topics[:most])) as stream:
        assert stream.answer.status == 200


async def test_a_session_has_a_limited_number_of_streams(
    server: Server, viewer: Browser, owner: Browser
) -> None:
    most = server.settings.web.event_streams
    async with contextlib.AsyncExitStack() as stack:
        streams = [await stack.enter_async_context(_follow(viewer)) for _ in range(most)]
        status, text = await viewer.get("/events?topics=jobs")
        assert (status, text.partition(";")[0]) == (429, f"This session has {most} live pages open")
        assert (await viewer.get("/jobs"))[0] == 200
        await stack.enter_async_context(_follow(owner))

        # A closed page frees its place at once, not at the stream's next heartbeat.
        streams[0].answer.close()
        async with asyncio.timeout(_SECONDS):
            while not await _may_follow(viewer):  # noqa: ASYNC110 it is the server's event
                await asyncio.sleep(0.01)


async def test_closed_pages_are_no_longer_followed(server: Server, viewer: Browser) -> None:
    most = server.settings.web.event_streams
    for number in range(3 * most):
        async with _follow(viewer, topic=f"jobs:0.{number}.1") as stream:
            await stream.next()

    # Each new stream ends earlier ones that the server knows to be closed.
    assert server.app[HUB].followed < most


async def _may_follow(browser: Browser) -> bool:
    async with browser.http.get(f"{browser.base_url}/events?topics=jobs") as answer:
        return answer.status == 200


async def test_all_streams_together_use_at_most_half_of_the_connections(
    server: Server, viewer: Browser, owner: Browser
) -> None:
    server.app[CONNECTIONS].most = 4
    async with _follow(viewer), _follow(owner):
        status, text = await viewer.get("/events?topics=jobs")

    assert (status, text) == (503, "Too many live pages are open. Try again in a moment.")


async def test_a_stream_without_a_session_is_answered_with_401_and_not_redirected(stranger: Browser) -> None:
    status, page = await stranger.get("/events?topics=jobs")

    assert (status, page) == (401, "Sign in first.")


async def test_streams_end_when_the_server_shuts_down(server: Server, viewer: Browser) -> None:
    async with _follow(viewer) as stream:
        await stream.next()

        await server.app.shutdown()

        assert await stream.answer.content.read() == b""


async def test_a_browser_that_disconnects_before_the_headers_logs_no_error(
    viewer: Browser, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    async def gone(_response: web.StreamResponse, _request: web.BaseRequest) -> None:
        raise ConnectionResetError("Cannot write to closing transport")

    monkeypatch.setattr(web.StreamResponse, "prepare", gone)
    with contextlib.suppress(aiohttp.ClientError):
        await viewer.get("/events?topics=jobs")

    assert [record.message for record in caplog.records if record.levelname == "ERROR"] == []


async def test_a_session_that_has_ended_opens_no_stream(server: Server, viewer: Browser) -> None:
    with server.database.session() as session:
        session.execute(delete(UserSession))
        session.commit()

    assert (await viewer.get("/events?topics=jobs"))[0] == 401

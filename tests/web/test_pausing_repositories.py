"""Pausing the schedules of several repositories, and what the list of repositories shows of it."""

import re

import pytest
from sqlalchemy import event, select, text

from manager.models import RecurringJob, RecurringState
from oai.audit import AuditEntry, last_change
from tests.web.conftest import Browser, Server
from tests.web.rows import a_repository, a_schedule

_LIST = "/repositories"


@pytest.fixture
def libraries(server: Server) -> Server:
    """Two repositories: the first is being harvested, the second has a schedule that is already paused."""
    with server.database.session() as session:
        first, second = a_repository(session, "First", "first"), a_repository(session, "Second", "second")
        for repository, prefix in ((first, "oai_dc"), (second, "oai_dc"), (second, "marc21")):
            a_schedule(session, repository, metadata_prefix=prefix)
        session.flush()
        session.get_one(RecurringJob, 3).state = RecurringState.PAUSED
        session.execute(text("INSERT INTO oai_job (repository_id, status, process_id) VALUES (1, 1, 7)"))
        session.commit()
    return server


def _paused(server: Server) -> list[int]:
    with server.database.session() as session:
        paused = select(RecurringJob.id).where(RecurringJob.state == RecurringState.PAUSED)
        return list(session.scalars(paused.order_by(RecurringJob.id)))


async def _pause(who: Browser, *numbers: int) -> str:
    """Pause the schedules of the repositories and return the page that follows."""
    form = {"repository": [str(number) for number in numbers]}
    _, page, target = await who.post("/repositories/selected/pause?sort=name", form)
    return (await who.get(target))[1] if target else page


def _undo(page: str) -> str:
    (found,) = re.findall(r'action="(/repositories/selected/resume\?since=[^"]+)"', page)
    return str(found)


def _row(page: str, number: int) -> str:
    row = page.partition(f'<tr id="repository-{number}">')[2].partition("</tr>")[0]
    return re.sub(r"<[^>]+>", " ", row)


async def test_pausing_repositories_says_how_many_of_their_harvests_continue(
    libraries: Server, administrator: Browser
) -> None:
    page = await _pause(administrator, 1, 2)

    assert _paused(libraries) == [1, 2, 3]
    assert "1 harvest of these repositories is already running and continues." in page
    assert '<a href="/jobs">Current jobs</a>' in page
    assert "already running" not in await _pause(administrator, 2)


async def test_undoing_the_pause_of_repositories_resumes_only_what_it_paused(
    libraries: Server, administrator: Browser
) -> None:
    undo = _undo(await _pause(administrator, 1, 2))

    for _twice in range(2):
        status, _, target = await administrator.post(undo)
        assert (status, target) == (303, "/repositories?done=repositories-pause-undone")

    assert _paused(libraries) == [3]
    assert "selected/resume?since" not in (await administrator.get(target or ""))[1]


async def test_a_pause_and_its_undo_leave_suspended_schedules_with_their_reason(
    libraries: Server, administrator: Browser
) -> None:
    with libraries.database.session() as session:
        suspended = session.get_one(RecurringJob, 2)
        suspended.state, suspended.state_reason = RecurringState.SUSPENDED, "failed 10 times in a row"
        session.commit()

    await administrator.post(_undo(await _pause(administrator, 1, 2)))

    with libraries.database.session() as session:
        suspended = session.get_one(RecurringJob, 2)
        assert (suspended.state, suspended.state_reason) == (5, "failed 10 times in a row")


async def test_undoing_the_pause_of_repositories_leaves_what_was_changed_since(
    libraries: Server, administrator: Browser
) -> None:
    undo = _undo(await _pause(administrator, 1, 2))
    for step in ("resume", "pause"):  # by somebody else
        await administrator.post(f"/schedules/2/{step}")

    status, page, _ = await administrator.post(undo)

    assert (status, _paused(libraries)) == (200, [2, 3])
    assert "1 repository was changed." in page
    assert "Second</a>: It was changed in the meantime, and nothing was undone." in page


@pytest.mark.usefixtures("libraries")
async def test_a_pause_that_changes_nothing_offers_no_undo(administrator: Browser) -> None:
    await _pause(administrator, 1, 2)

    assert "selected/resume?since" not in await _pause(administrator, 1, 2)


async def test_a_pause_of_some_of_the_repositories_can_be_undone(
    libraries: Server, administrator: Browser
) -> None:
    with libraries.database.session() as session:
        a_repository(session, "Without schedule", "without")
        session.commit()

    page = await _pause(administrator, 1, 3)

    assert "2 repositories were changed." not in page
    assert "1 harvest of these repositories is already running and continues." in page
    await administrator.post(_undo(page))
    assert _paused(libraries) == [3]


@pytest.mark.usefixtures("libraries")
@pytest.mark.parametrize("since", ["999", "0", "x", ""])
async def test_an_undo_without_a_pause_in_the_log_is_refused(administrator: Browser, since: str) -> None:
    status, page, _ = await administrator.post(f"/repositories/selected/resume?since={since}")

    assert (status, "nothing was undone" in page) == (409, True)


async def test_a_partner_cannot_undo_the_pause_of_a_strange_repository(
    libraries: Server, administrator: Browser, owner: Browser
) -> None:
    undo = _undo(await _pause(administrator, 1))

    assert (await owner.post(undo))[0] == 404
    assert _paused(libraries) == [1, 3]


async def test_the_log_names_the_schedules_that_a_pause_of_repositories_paused(
    libraries: Server, administrator: Browser
) -> None:
    await _pause(administrator, 2)

    with libraries.database.session() as session:
        entry = select(AuditEntry.after).where(AuditEntry.action == "repository.pause")
        assert session.scalars(entry).one() == {"paused": [2]}


async def test_a_pause_of_repositories_does_not_count_as_a_change_of_their_settings(
    libraries: Server, administrator: Browser
) -> None:
    form = {"base_url": "https://first.example/oai", "deletion_policy": "mark"}
    await administrator.post("/repositories/1/settings", form)
    await _pause(administrator, 1)

    with libraries.database.session() as session:
        entry = last_change(session, "repository", 1)
        assert entry is not None
        assert entry.action == "repository.edit"


@pytest.mark.usefixtures("libraries")
async def test_the_list_shows_running_harvests_and_paused_repositories(administrator: Browser) -> None:
    _, before = await administrator.get(_LIST)
    await _pause(administrator, 1, 2)
    _, after = await administrator.get(_LIST)

    assert [("running" in _row(page, 1), "running" in _row(page, 2)) for page in (before, after)] == [
        (True, False),
        (True, False),
    ]
    assert "paused" not in _row(before, 2), "one of its schedules is not"
    assert ("paused" in _row(after, 1), "paused" in _row(after, 2)) == (True, True)


async def test_the_list_sends_as_many_statements_for_many_repositories_as_for_two(
    libraries: Server, administrator: Browser
) -> None:
    sent: list[str] = []

    def note(_connection: object, _cursor: object, statement: str, *_: object) -> None:
        if re.search(r"oai_(repository|job|recurring_job|history)\b", statement):
            sent.append(statement)

    event.listen(libraries.database.engine, "before_cursor_execute", note)

    async def statements() -> int:
        sent.clear()
        await administrator.get(_LIST)
        return len(sent)

    of_two = await statements()
    with libraries.database.session() as session:
        for at in range(40):
            a_schedule(session, a_repository(session, f"Library {at}", f"r{at}"))
        session.commit()

    assert await statements() == of_two > 0

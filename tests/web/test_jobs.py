import json
import re
import uuid

import pytest
from sqlalchemy import func, select, text
from yarl import URL

from harvester.harvest.models import Quarantined
from harvester.models import Harvest, Repository
from manager.models import Job, JobStatus, RecurringJob
from oai.audit import AuditEntry
from oai.failures import Failure, FailureCode
from tests.web.conftest import Browser, Server
from tests.web.rows import a_repository, a_schedule

_RUNNING = """
INSERT INTO oai_job (repository_id, metadata_prefix, status, process_id, host, started)
VALUES (1, 'marc21', 1, 4711, 'worker-1', now())
"""
_PROGRESS = """
INSERT INTO oai_harvest (repository_id, metadata_prefix, job_id, run_started, counts, complete_list_size)
VALUES (1, 'marc21', 1, now() - interval '10 s', '{"records"\\: 1500, "invalid"\\: 2}', 3000)
"""


def _insert(server: Server, *statements: str) -> None:
    with server.database.session() as session:
        a_repository(session)
        for statement in statements:
            session.execute(text(statement))
        session.commit()


async def test_a_running_job_shows_its_progress(server: Server, viewer: Browser) -> None:
    _insert(server, _RUNNING, _PROGRESS)

    _, page = await viewer.get("/jobs")

    assert 'id="job-1"' in page
    assert '<progress max="3000" value="1500"' in page
    assert "1,500 / ~3,000" in page
    assert re.search(r">[0-9]+ records/s · ", page)
    assert "running" in page
    assert "worker-1" in page


async def test_the_page_after_a_harvest_was_requested_reloads_until_its_job_is_shown(
    administrator: Browser,
) -> None:
    _, page = await administrator.get("/jobs?done=harvest-asked")
    _, later = await administrator.get("/jobs")

    assert "The harvest was requested." in page
    assert "Jobs are here until they have ended; then they are in the history." in page
    assert "No current jobs" not in page
    assert '<noscript><meta http-equiv="refresh"' in page
    assert '<noscript><meta http-equiv="refresh"' not in later


async def test_a_waiting_job_is_removed_at_once(server: Server, administrator: Browser) -> None:
    _insert(server, "INSERT INTO oai_job (repository_id, set_spec) VALUES (1, 'maps')")

    _, jobs = await administrator.get("/jobs")
    assert 'aria-label="Remove: Library of Telč, oai_dc, maps"' in jobs
    assert "Job 1: Library of Telč · oai_dc · maps" in (await administrator.get("/jobs/1"))[1]
    _, page = await administrator.get("/jobs/1/remove")
    assert "Remove the job Library of Telč · oai_dc · maps?" in page
    assert 'name="waits" value="yes"' in page
    _, _, target = await administrator.post("/jobs/1/remove")

    assert target == "/jobs?done=job-removed"
    with server.database.session() as session:
        assert session.scalars(select(Job)).all() == []


async def test_a_job_that_starts_while_its_removal_is_confirmed_is_not_stopped(
    server: Server, administrator: Browser
) -> None:
    _insert(server, _RUNNING)
    status, page, _ = await administrator.post("/jobs/1/remove", {"waits": "yes"})
    assert (status, "Stop the harvest of Library of Telč · marc21?" in page) == (409, True)
    with server.database.session() as session:
        assert session.scalars(select(Job.status)).one() == JobStatus.IN_PROGRESS


async def test_removing_a_running_job_marks_it_as_stopping(server: Server, administrator: Browser) -> None:
    _insert(server, _RUNNING)

    _, page = await administrator.get("/jobs/1/remove")
    assert "Stop the harvest of Library of Telč · marc21?" in page
    assert "process 4711 on worker-1" in page
    _, _, target = await administrator.post("/jobs/1/remove")

    assert target == "/jobs?done=job-stopping"
    with server.database.session() as session:
        assert session.scalars(select(Job.status)).one() == JobStatus.STOPPING


async def test_undoing_the_pause_of_a_job_twice_is_accepted(server: Server, administrator: Browser) -> None:
    _insert(server, _RUNNING)
    _, _, target = await administrator.post("/jobs/1/pause")
    (undo,) = re.findall(r'action="(/jobs/1/resume[^"]+)"', (await administrator.get(target))[1])
    first, second = [await administrator.post(undo) for _ in range(2)]
    assert (first[0], second[0], second[2]) == (303, 303, "/jobs?done=job-resumed")
    assert (await administrator.post("/jobs/1/resume"))[0] == 409


async def test_removing_a_job_that_has_ended_meanwhile_is_explained(administrator: Browser) -> None:
    status, page, _ = await administrator.post("/jobs/7/remove")

    assert status == 404
    assert "it ended or was removed" in page


@pytest.mark.parametrize(
    ("control", "question", "status"),
    [
        ("pause", "Pause the harvest of Library of Telč · marc21?", JobStatus.PAUSING),
        ("stop", "Stop the harvest of Library of Telč · marc21?", JobStatus.STOPPING),
        ("kill", "Kill the harvest of Library of Telč · marc21?", JobStatus.KILLING),
    ],
)
async def test_a_job_is_paused_stopped_or_killed_after_a_page_that_names_it(
    server: Server, administrator: Browser, control: str, question: str, status: JobStatus
) -> None:
    _insert(server, _RUNNING)

    _, page = await administrator.get(f"/jobs/1/{control}")
    assert question in page
    answer, _, _ = await administrator.post(f"/jobs/1/{control}")

    assert answer == 303
    with server.database.session() as session:
        assert session.scalars(select(Job.status)).one() == status


@pytest.fixture
def repeating(server: Server) -> Server:
    """A running job of a daily schedule."""
    _insert(server, _RUNNING)
    with server.database.session() as session:
        a_schedule(session, session.get_one(Repository, 1), frequency="daily at 02:30")
        session.execute(text("UPDATE oai_recurring_job SET state = 1, last_due = '2126-01-01T02\\:30\\:00Z'"))
        session.execute(text("UPDATE oai_job SET recurring_id = 1"))
        session.commit()
    return server


_NEXT = "Its schedule starts the next harvest at 2 Jan 2126 02:30."


@pytest.mark.usefixtures("repeating")
async def test_the_question_before_a_stop_says_when_the_schedule_starts_the_next_harvest(
    administrator: Browser,
) -> None:
    _, question = await administrator.get("/jobs/1/stop")
    _, others = await administrator.get("/jobs/1/pause")

    assert (_NEXT in question, _NEXT in others) == (True, False)
    assert 'name="schedule" value="pause">Stop the harvest and pause its schedule</button>' in question
    assert "Stop and pause" not in others


async def test_the_question_before_a_stop_names_the_planned_job_of_the_schedule(
    repeating: Server, administrator: Browser
) -> None:
    with repeating.database.session() as session:
        session.execute(
            text(
                "INSERT INTO oai_job (repository_id, recurring_id, harvest_start_time)"
                " VALUES (1, 1, '2126-01-01T17\\:00\\:00Z')"
            )
        )
        session.commit()

    assert "starts the next harvest at 1 Jan 2126 17:00." in (await administrator.get("/jobs/1/stop"))[1]


async def test_a_stop_does_not_announce_a_harvest_of_a_schedule_that_starts_none(
    repeating: Server, administrator: Browser
) -> None:
    for change in ("state = 3", "state = 1, frequency = NULL", "frequency = 'never'"):
        with repeating.database.session() as session:
            session.execute(text(f"UPDATE oai_recurring_job SET {change}"))  # noqa: S608 constants above
            session.commit()
        _, question = await administrator.get("/jobs/1/stop")
        assert ("Stop harvest" in question, "pause the schedule" in question) == (True, False), change


@pytest.mark.parametrize(
    ("form", "state", "done"),
    [({}, 1, "job-stopping"), ({"schedule": "pause"}, 3, "job-stopping-and-paused")],
    ids=["stop", "stop-and-pause"],
)
async def test_a_stop_pauses_the_schedule_only_with_its_own_button(
    repeating: Server, administrator: Browser, form: dict[str, str], state: int, done: str
) -> None:
    _, _, target = await administrator.post("/jobs/1/stop", form)

    assert target == f"/jobs?done={done}"
    assert ("Its schedule is paused." in (await administrator.get(target))[1]) == bool(form)
    with repeating.database.session() as session:
        assert session.scalars(select(Job.status)).one() == JobStatus.STOPPING
        assert session.scalars(select(RecurringJob.state)).one() == state
        actions = session.scalars(select(AuditEntry.action).order_by(AuditEntry.audit_id))
        assert sorted(actions) == sorted(["job.stop", *(["schedule.pause"] if form else [])])
        pauses = session.scalars(select(AuditEntry).where(AuditEntry.action == "schedule.pause")).all()
        assert [(one.before, one.after) for one in pauses] == [({"state": 1}, {"state": 3})] * bool(form)


async def test_an_action_that_is_no_longer_possible_is_refused_with_the_reason(
    server: Server, administrator: Browser
) -> None:
    _insert(server, _RUNNING)

    status, page, _ = await administrator.post("/jobs/1/resume")

    assert status == 409
    assert "The state of the job has changed" in page


async def test_waiting_jobs_show_their_positions_in_the_queue(server: Server, viewer: Browser) -> None:
    worker = (
        "INSERT INTO oai_worker (host, process_id, concurrency, good_until)"
        " VALUES ('worker-1', 7, 1, now() + interval '1 h')"
    )
    _insert(server, "INSERT INTO oai_job (repository_id) VALUES (1), (1)", worker)

    _, page = await viewer.get("/jobs")

    assert "position 1 in the queue" in page
    assert "position 2 in the queue" in page
    assert "starts as soon as possible" in page


async def test_a_planned_job_shows_its_due_time_and_no_position(server: Server, viewer: Browser) -> None:
    later = "INSERT INTO oai_job (repository_id, harvest_start_time) VALUES (1, now() + interval '22 h')"
    _insert(server, later, later)

    for path in ("/jobs?view=planned", "/jobs/2", "/repositories/1"):
        row = (await viewer.get(path))[1].partition('<tr id="job-2">')[2].partition("</tr>")[0]
        assert "<span>planned</span>" in row, path
        assert "ahead" not in row, path
        assert "in the queue" not in row, path
        assert "due <time" in row, path
    assert "Current and planned jobs" in (await viewer.get("/repositories/1"))[1]


async def test_times_in_exported_reasons_are_in_utc(server: Server, viewer: Browser) -> None:
    viewer.http.cookie_jar.update_cookies({"zatva_zone": "Europe/Prague"}, URL(server.base_url))
    _insert(
        server,
        "INSERT INTO oai_job (repository_id, harvest_start_time) VALUES (1, '2126-11-28T19\\:42\\:00Z')",
    )

    (job,) = json.loads((await viewer.get("/jobs.json"))[1])

    assert (job["reason"], job["due"]) == ("due at 2126-11-28T19:42:00Z", "2126-11-28T19:42:00Z")


async def test_current_and_planned_jobs_are_listed_separately(server: Server, viewer: Browser) -> None:
    _insert(
        server,
        _RUNNING,
        "INSERT INTO oai_job (repository_id, metadata_prefix) VALUES (1, 'due')",
        "INSERT INTO oai_job (repository_id, metadata_prefix, harvest_start_time) "
        "VALUES (1, 'later', now() + interval '1 h')",
        "INSERT INTO oai_job (repository_id, metadata_prefix, harvest_start_time, attempt) "
        "VALUES (1, 'again', now() + interval '1 h', 1)",
        "INSERT INTO oai_history (repository_id, metadata_prefix, harvest_start_time, status) "
        "VALUES (1, 'ended', now(), 'completed')",
    )

    _, now = await viewer.get("/jobs")
    _, planned = await viewer.get("/jobs?view=planned")

    assert [prefix for prefix in ("marc21", "due", "again", "ended", "later") if f">{prefix}<" in now] == [
        "marc21", "due", "again", "ended",
    ]  # fmt: skip
    assert [
        prefix for prefix in ("marc21", "due", "again", "ended", "later") if f">{prefix}<" in planned
    ] == ["later"]
    assert 'data-live="planned"' in planned
    for page, prefixes in ((now, {"marc21", "due", "again"}), (planned, {"later"})):
        (address,) = re.findall(r'href="(/jobs\.json[^"]*)"', page)
        exported = json.loads((await viewer.get(address))[1])
        assert {job["metadata_prefix"] for job in exported} == prefixes, "as on the page"


async def test_a_retry_can_be_run_at_once_and_a_planned_job_cannot(
    server: Server, administrator: Browser
) -> None:
    _insert(
        server,
        "INSERT INTO oai_job (repository_id, harvest_start_time, attempt) "
        "VALUES (1, now() + interval '1 h', 1), (1, now() + interval '1 h', 0)",
    )

    _, page = await administrator.get("/jobs")
    run, _, target = await administrator.post("/jobs/1/run")
    planned, text_of_planned, _ = await administrator.post("/jobs/2/run")

    assert "/jobs/1/run" in page
    assert "/jobs/2/run" not in page
    assert page.count("1 earlier attempt") == 1
    assert (run, target, planned) == (303, "/jobs?done=harvest-asked", 409)
    assert "no longer possible" in text_of_planned
    with server.database.session() as session:
        due = select(Job.job_id).where(Job.harvest_start_time <= func.now())
        assert session.scalars(due).all() == [1]


async def test_the_page_of_a_running_job_has_numbers_plots_and_the_log(
    server: Server, viewer: Browser
) -> None:
    _insert(server, _RUNNING, _PROGRESS)
    key = uuid.uuid4()
    with server.database.session() as session:
        harvest = session.scalars(select(Harvest)).one()
        harvest.pace = [[0.5, 100, 1], [1.0, 200, 2], [1.5, 300, 3]]
        harvest.warnings = ["the list restarts", "record refused"]
        harvest.warning_failures = [
            None,
            Failure(code=FailureCode.RECORD_XML, facts={"fault_key": key.hex}).as_json(),
        ]
        session.add(
            Quarantined(
                repository_id=1, metadata_prefix="marc21", fault_key=key, reason="broken",
                failure_code="record_xml", url="https://telc.example/oai", raw=b"<", raw_size=1,
                last_run=harvest.updated,
            )
        )  # fmt: skip
        session.commit()

    _, page = await viewer.get("/jobs/1")

    assert re.search(r"Records received</dt><dd>1,502<", page)
    assert page.count("<polyline") == 2
    assert page.index("record refused") < page.index("the list restarts"), "the newest line comes first"
    assert 'href="/errors/1"' in page
    assert {'data-live="job:1"', 'data-live="job-course:1"', 'data-live="job-log:1"'} <= set(
        re.findall(r'data-live="[^"]+"', page)
    )

import pytest
from sqlalchemy import select, text

from manager.models import Job, JobStatus
from tests.web.conftest import Browser, Server
from tests.web.rows import a_repository

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


async def test_a_running_job_shows_how_far_it_is(server: Server, viewer: Browser) -> None:
    _insert(server, _RUNNING, _PROGRESS)

    _, page = await viewer.get("/jobs")

    assert 'id="job-1"' in page
    assert '<progress max="3000" value="1500"' in page
    assert "1,500 / ~3,000" in page
    assert "running" in page
    assert "worker-1" in page


async def test_a_job_that_waits_is_removed_at_once(server: Server, administrator: Browser) -> None:
    _insert(server, "INSERT INTO oai_job (repository_id) VALUES (1)")

    _, page = await administrator.get("/jobs/1/remove")
    assert "Remove Library of Telč · oai_dc?" in page
    _, _, target = await administrator.post("/jobs/1/remove")

    assert target == "/jobs?done=job-removed"
    with server.database.session() as session:
        assert session.scalars(select(Job)).all() == []


async def test_a_running_job_is_marked_for_the_manager_to_end(server: Server, administrator: Browser) -> None:
    _insert(server, _RUNNING)

    _, page = await administrator.get("/jobs/1/remove")
    assert "Stop the harvest of Library of Telč · marc21?" in page
    assert "process 4711 on worker-1" in page
    _, _, target = await administrator.post("/jobs/1/remove")

    assert target == "/jobs?done=job-stopping"
    with server.database.session() as session:
        assert session.scalars(select(Job.status)).one() == JobStatus.STOPPING


async def test_a_job_that_has_ended_meanwhile_is_no_fault(administrator: Browser) -> None:
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


async def test_what_cannot_be_done_any_more_is_told(server: Server, administrator: Browser) -> None:
    _insert(server, _RUNNING)

    status, page, _ = await administrator.post("/jobs/1/resume")

    assert status == 409
    assert "The state of the job has changed" in page


async def test_a_job_that_waits_says_how_many_are_before_it(server: Server, viewer: Browser) -> None:
    _insert(server, "INSERT INTO oai_job (repository_id) VALUES (1), (1)")

    _, page = await viewer.get("/jobs")

    assert "position 1 in the queue" in page
    assert "position 2 in the queue" in page

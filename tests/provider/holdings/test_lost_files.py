"""Files whose task is missing from the queue are reported and can be queued again."""

from pathlib import Path

import pytest
from sqlalchemy import text

from oai.database import Database
from tests.provider.archives import Page, warc_record, write_archive
from tests.provider.test_commands import objects, zatva


@pytest.fixture
def queued(environment: dict[str, str], tmp_path: Path) -> list[Path]:
    """Two files of one run."""
    paths = [
        write_archive(tmp_path / f"{name}.warc", [warc_record(Page(url=f"http://{name}.example/"))])
        for name in "ab"
    ]
    assert objects(environment, "index", "--queue", *paths) == [{"run_id": 1, "files": 2}]
    return paths


def lose(database: Database, path: Path) -> None:
    """Delete a file's task from the queue, as a person with a database client does."""
    task = text("""
        DELETE FROM procrastinate_jobs
        WHERE args ->> 'file_id' = (SELECT id FROM index_file WHERE path = :path)\\:\\:text
    """)
    with database.session() as session:
        session.execute(task, {"path": str(path)})
        session.commit()


def runs(environment: dict[str, str]) -> list[tuple[int, int, int]]:
    """Waiting, lost and failed files of each run, the latest first."""
    (status,) = objects(environment, "status")
    return [(run["waiting"], run["lost"], run["failed"]) for run in status["runs"]]


@pytest.mark.usefixtures("queued")
def test_files_with_a_task_are_not_lost(environment: dict[str, str]) -> None:
    assert runs(environment) == [(2, 0, 0)]
    assert "no longer in the queue" not in zatva(environment, "status").stderr


def test_a_file_without_a_task_is_reported_as_lost(
    environment: dict[str, str], database: Database, queued: list[Path]
) -> None:
    lose(database, queued[0])
    assert runs(environment) == [(2, 1, 0)]
    assert "lost files: 1; their tasks are no longer in the queue" in zatva(environment, "status").stderr
    files = objects(environment, "status", "--run", "1")
    assert {file["path"]: (bool(file["reason"]), file["failure_code"]) for file in files} == {
        str(queued[0]): (True, "archive_task_lost"),
        str(queued[1]): (False, None),
    }


def test_a_lost_file_can_be_queued_again(
    environment: dict[str, str], database: Database, queued: list[Path]
) -> None:
    lose(database, queued[0])
    done = zatva(environment, "index", "--queue", queued[0])
    assert done.returncode == 0
    assert "lost files: 1; their tasks are no longer in the queue" in done.stderr
    assert runs(environment) == [(1, 0, 0), (1, 0, 1)]
    (lost, _) = objects(environment, "status", "--run", "1")
    assert (lost["state"], lost["path"]) == ("failed", str(queued[0]))
    assert "queued again" in lost["reason"]
    assert (lost["failure_code"], lost["failure_facts"]) == ("archive_task_lost", {})
    with database.session() as session:
        assert session.scalar(text("SELECT count(*) FROM procrastinate_jobs")) == 2

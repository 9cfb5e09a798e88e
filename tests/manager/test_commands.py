"""The manager's commands, run as a user runs them."""

import json
from datetime import UTC, datetime
from pathlib import Path

from tests.commands import results, zatva
from tests.harvester.rule_lab.records import FILTERS
from tests.manager.conftest import Tables


def test_a_schedule_is_added_listed_run_paused_resumed_and_removed(
    environment: dict[str, str], tables: Tables, tmp_path: Path
) -> None:
    tables.repository()
    rules = tmp_path / "f.xml"
    rules.write_bytes(FILTERS)
    (added,) = results(
        environment, "schedule", "add", "1", "--frequency", "daily at 02:30", "--zone", "Europe/Prague",
        "--start", "2050-01-01T00:00", "--format", "mods", "--set", "a:b", "--full", "--filter-file", rules,
    )  # fmt: skip
    assert added["incremental"] is False
    (listed,) = results(environment, "schedule", "list")
    assert (listed["frequency"], listed["set_spec"], listed["state_word"]) == ("daily at 02:30", "a:b", "new")
    assert listed["filter_file_path"] == str(rules)
    (job,) = results(environment, "schedule", "run", "1")
    assert (listed["schedule_id"], job["metadata_prefix"], job["status"]) == (1, "mods", 0)
    (planned,) = results(environment, "job", "list")
    assert planned.keys() <= job.keys()
    assert (job["state"], job["due"]) == ("queued", planned["due"])
    paused = results(environment, "schedule", "pause", "1")
    assert paused == [{"id": 1, "paused": True, "jobs_removed": 1}]
    assert zatva(environment, "schedule", "pause", "1").stdout == "schedule 1: paused\n"
    assert tables.one("SELECT state FROM oai_recurring_job") == 3
    results(environment, "schedule", "resume", "1")
    assert tables.one("SELECT state FROM oai_recurring_job") == 0
    results(environment, "schedule", "run", "1")
    paused_again = zatva(environment, "schedule", "pause", "1")
    assert paused_again.stdout == "schedule 1: paused, 1 planned job removed\n"
    results(environment, "schedule", "remove", "1")
    assert results(environment, "schedule", "list") == []


def test_a_rule_file_is_found_in_the_working_or_data_folder_and_must_be_valid(
    environment: dict[str, str], tables: Tables, tmp_path: Path
) -> None:
    tables.repository()
    data = Path(environment["ZATVA_DATA"])
    data.mkdir()
    (data / "broken.xml").write_bytes(FILTERS[:-9])
    add, edit = ("schedule", "add", "1", "--frequency", "daily"), ("schedule", "edit", "1")
    for folder in (data, tmp_path):
        (folder / "rules").mkdir()
        (folder / "rules/a.xml").write_bytes(FILTERS)
        done = zatva(environment, *add, "--filter", "rules/a.xml", "--json", folder=tmp_path)
        assert json.loads(done.stdout)["filter_file_path"] == str((folder / "rules/a.xml").resolve())
    for words, option, file, named, why in (
        (add, "--filter", "A", tmp_path / "A", "No such file"),
        ((*add, "--dry-run"), "--normalise", "b.xml", tmp_path / "b.xml", "No such file"),
        (edit, "--filter", "/c.xml", "/c.xml", "No such file"),
        (edit, "--normalise", "rules/a.xml", tmp_path / "rules/a.xml", "root element"),
        (edit, "--filter", "broken.xml", data.resolve() / "broken.xml", "line"),
        (edit, "--filter", "n" * 300, tmp_path, "File name too long"),
    ):
        refused = zatva(environment, *words, option, file, folder=tmp_path)
        assert (refused.returncode, str(named) in refused.stderr, why in refused.stderr) == (2, True, True)
    assert [row["state"] for row in results(environment, "schedule", "list")] == [0, 0]
    (edited,) = results(environment, *edit, "--filter", "", "--start", "2050-01-01")
    assert (edited["filter_file_path"], edited["start_date"][:10]) == (None, "2050-01-01")


def test_jobs_are_listed_and_removed(environment: dict[str, str], tables: Tables) -> None:
    repository = tables.repository()
    tables.add("oai_job", repository_id=repository)
    tables.add("oai_job", repository_id=repository, status=1, process_id=5)
    rows = results(environment, "job", "list")
    assert [(row["job_id"], row["state"]) for row in rows] == [(2, "running"), (1, "queued")]
    assert results(environment, "job", "remove", "1") == [{"job_id": 1, "removed": True}]
    assert results(environment, "job", "remove", "2") == [{"job_id": 2, "removed": False}]
    (left,) = results(environment, "job", "list", "--repository", str(repository))
    assert left["state"] == "stopping"


def test_jobs_are_paused_resumed_stopped_and_killed(environment: dict[str, str], tables: Tables) -> None:
    repository = tables.repository()
    tables.add("oai_job", repository_id=repository)
    tables.add("oai_job", repository_id=repository, status=1, process_id=5)
    for words, state in (
        (("pause", "1"), "paused"),
        (("resume", "1"), "scheduled"),
        (("pause", "2"), "pausing"),
        (("stop", "2"), "stopping"),
        (("kill", "2"), "killing"),
    ):
        (answer,) = results(environment, "job", *words)
        assert answer["state"] == state
    refused = zatva(environment, "job", "resume", "2")
    assert refused.returncode == 2
    assert "job 2 is killing" in refused.stderr


def test_the_job_list_shows_wait_reason_position_and_start(
    environment: dict[str, str], tables: Tables
) -> None:
    waiting = '{"code": "host", "host": "a.example", "limit": 2}'
    tables.add("oai_job", repository_id=tables.repository(), waiting=waiting)
    (row,) = results(environment, "job", "list")
    assert row["reason"] == {"code": "host", "host": "a.example", "limit": 2}
    assert row["because"] == "at most 2 harvests at a time from host a.example"
    assert (row["position"], row["start"]) == (1, None)


def test_the_status_shows_workers_and_late_jobs_and_all_workers_are_drained(
    environment: dict[str, str], tables: Tables
) -> None:
    tables.add("oai_job", repository_id=tables.repository())
    tables("UPDATE oai_job SET harvest_start_time = now() - interval '2 minutes'")
    tables("INSERT INTO oai_worker (host, process_id, concurrency, draining, good_until)"
           " VALUES ('w1', 77, 4, true, now() + interval '1 hour')")  # fmt: skip
    (status,) = results(environment, "manager", "status")
    assert (status["late"], status["stand_bys"], status["queues"]) == (1, [], {"harvest": 0, "index": 0})
    assert (status["workers"][0]["host"], status["workers"][0]["process_id"]) == ("w1", 77)
    answer = zatva(environment, "manager", "status").stdout
    assert "worker 1 on w1, process 77: 0 of 4 harvests" in answer
    assert "draining" in answer
    tables("INSERT INTO oai_worker (host, process_id, concurrency, good_until) VALUES ('w2', 78, 4, now())")
    assert results(environment, "worker", "drain", "--all") == [{"drained": [1, 2]}]
    assert tables.one("SELECT bool_and(draining) FROM oai_worker")


def test_history_is_listed(environment: dict[str, str], tables: Tables) -> None:
    tables.add(
        "oai_history", repository_id=tables.repository(), status="failed", harvest_start_time="2026-01-01"
    )
    (row,) = results(environment, "job", "history")
    assert (row["status"], row["repository_name"]) == ("failed", "https://example.org/oai")
    assert "failed" in zatva(environment, "job", "history").stdout


def test_the_status_says_that_no_manager_is_running(environment: dict[str, str], tables: Tables) -> None:
    tables.add("oai_recurring_job", repository_id=tables.repository())
    (status,) = results(environment, "manager", "status")
    assert status["leader"] is None
    assert status["schedules"]["new"] == 1
    assert "no manager is running" in zatva(environment, "manager", "status").stdout


def test_text_output_says_rejected_where_json_output_says_set_aside(
    environment: dict[str, str], tables: Tables
) -> None:
    repository = tables.repository()
    tables.add("oai_recurring_job", repository_id=repository, state=4)
    tables.add("oai_job", repository_id=repository, status=8)
    for words in (("schedule", "list"), ("schedule", "show", "1"), ("job", "list"), ("job", "show", "1")):
        (row,) = results(environment, *words)
        shown = zatva(environment, *words).stdout
        assert row.get("state_word", row["state"]) == "set aside", words
        assert ("rejected" in shown, "set aside" in shown) == (True, False), words
    (status,) = results(environment, "manager", "status")
    assert status["schedules"]["set aside"] == 1
    assert "1 rejected" in zatva(environment, "manager", "status").stdout


REFUSED: list[tuple[tuple[str, ...], str]] = [
    (("schedule", "add", "1", "--frequency", "now and then"), "every 6 hours"),
    (("schedule", "add", "1", "--start", "tomorrow"), "'tomorrow'"),
    (("schedule", "add", "9"), "repository 9"),
    (("schedule", "add", "1", "--incremental", "--full"), "not allowed with argument --incremental"),
    (("schedule", "add", "1", "--from", "2025-13-01"), "zatva: --from: '2025-13-01' is not a valid date"),
    (("schedule", "add", "1", "--filter", "/none"), "zatva: --filter '/none': cannot be read"),
    (("schedule", "remove", "9"), "schedule 9"),
    (("notify", "acknowledge", "9"), "no run 9"),
    (("schedule", "list", "--repository", "9"), "no repository 9"),
    (("job", "list", "--repository", "9"), "no repository 9"),
    (("job", "history", "--repository", "9"), "no repository 9"),
    (("notify", "sent", "--report", "9"), "no report 9"),
    (("job", "remove", "9"), "job 9"),
    (("job", "pause", "9"), "job 9"),
    (("worker", "drain", "9"), "worker 9"),
    (("worker", "drain"), "--all"),
    (("manager", "run", "--concurrency", "0"), "--concurrency: '0' is not a whole number from 1"),
]


def test_impossible_commands_are_refused_with_exit_code_2(
    environment: dict[str, str], tables: Tables
) -> None:
    tables.repository()
    for words, answer in REFUSED:
        done = zatva(environment, *words)
        assert (done.returncode, answer in done.stderr) == (2, True), (words, done.stderr)
        assert "Traceback" not in done.stderr, words


def test_a_schedule_is_shown_and_edited(environment: dict[str, str], tables: Tables) -> None:
    tables.repository()
    results(environment, "schedule", "add", "1", "--frequency", "hourly", "--set", "a", "--owner", "eva")
    (edited,) = results(
        environment, "schedule", "edit", "1",
        "--frequency", "daily at 02:30", "--zone", "Europe/Prague", "--set", "", "--full", "--priority", "-5",
    )  # fmt: skip
    assert edited["priority"] == -5
    assert (edited["frequency"], edited["time_zone"], edited["set_spec"]) == (
        "daily at 02:30",
        "Europe/Prague",
        None,
    )
    assert (edited["incremental"], edited["owner"], edited["metadata_prefix"]) == (False, "eva", "oai_dc")
    tables.add(
        "oai_job", repository_id=1, recurring_id=1, harvest_start_time="2050-03-26T01:30:00Z"
    )  # the night in which the clocks change
    (shown,) = results(environment, "schedule", "show", "1")
    assert shown["runs"] == [
        "2050-03-26T01:30:00+00:00", "2050-03-27T01:00:00+00:00", "2050-03-28T00:30:00+00:00",
    ]  # fmt: skip
    assert "frequency: daily at 02:30" in zatva(environment, "schedule", "show", "1").stdout.splitlines()


def test_a_rejected_schedule_and_one_that_is_late_are_shown(
    environment: dict[str, str], tables: Tables
) -> None:
    number = tables.repository()
    tables.add("oai_recurring_job", repository_id=number, frequency="sometimes", state=4)
    tables.add("oai_recurring_job", repository_id=number, frequency="daily at 02:30", state=1)
    tables.add("oai_job", repository_id=number, recurring_id=2, harvest_start_time="2026-01-01T02:30:00Z")
    (rejected,) = results(environment, "schedule", "show", "1")
    assert (rejected["frequency"], rejected["runs"]) == ("sometimes", [])
    (late,) = results(environment, "schedule", "show", "2")
    first, *others = late["runs"]
    assert first == "2026-01-01T02:30:00+00:00"
    assert min(others) > datetime.now(UTC).isoformat()


WRONG: list[tuple[tuple[str, ...], str]] = [
    (("edit", "1"), "no changes given"),
    (("edit", "1", "--frequency", "now and then"), "now and then"),
    (("edit", "1", "--start", "tomorrow"), "'tomorrow' is not a valid time"),
    (("edit", "9", "--set", "a"), "9"),
    (("show", "9"), "no schedule 9"),
]


def test_an_invalid_edit_of_a_schedule_changes_nothing(environment: dict[str, str], tables: Tables) -> None:
    tables.repository()
    results(environment, "schedule", "add", "1", "--frequency", "hourly")
    before = tables("SELECT * FROM oai_recurring_job")
    for words, expected in WRONG:
        refused = zatva(environment, "schedule", *words)
        assert (refused.returncode, expected in refused.stderr) == (2, True), (words, refused.stderr)
        assert tables("SELECT * FROM oai_recurring_job") == before, words


def test_a_job_and_a_run_are_shown_in_full(environment: dict[str, str], tables: Tables) -> None:
    tables.add("oai_job", repository_id=tables.repository(), set_spec="a:b", harvest_start_time="2050-01-01")
    (job,) = results(environment, "job", "show", "1")
    assert (job["job_id"], job["set_spec"], job["state"]) == (1, "a:b", "queued")
    tables.add(
        "oai_history", repository_id=1, status="failed", failure_reason="HTTP status 500",
        harvest_start_time="2026-01-01", warnings='["one", "two"]',
    )  # fmt: skip
    (run,) = results(environment, "job", "history", "1")
    assert (run["history_id"], run["warnings"]) == (1, ["one", "two"])
    lines = zatva(environment, "job", "history", "1").stdout.splitlines()
    assert {"failure_reason: HTTP status 500", "warnings: one, two"} <= set(lines)
    for words in (("show", "9"), ("history", "9")):
        refused = zatva(environment, "job", *words)
        assert (refused.returncode, "zatva: no " in refused.stderr) == (2, True)

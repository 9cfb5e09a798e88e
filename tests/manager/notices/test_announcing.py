"""What is told of harvests that have ended, and what is not."""

import json
from datetime import timedelta

import pytest

from manager.notices import announcements
from manager.notices.announcements import notify
from manager.notices.models import Occasion
from oai.database import Database
from oai.outgoing import HookSettings
from tests.manager.conftest import Tables
from tests.manager.notices.conftest import Told


def test_a_streak_of_failures_is_told_at_its_beginning_and_at_its_end(told: Told) -> None:
    told.rule()
    statuses = ["completed", "failed", "failed", "lost", "no changes", "completed"]
    assert [told.after(status) for status in statuses] == [[], ["failing"], [], [], ["works again"], []]
    facts = told.tables.one("SELECT facts FROM notice WHERE occasion = 'works again'")
    assert facts["streak"]["failures"] == 3
    assert told.tables("SELECT FROM notice_streak") == []


def test_a_reminder_of_a_streak_comes_once_a_day_at_most(told: Told) -> None:
    told.rule()
    told.after("failed")
    told.tables("UPDATE notice_streak SET told = now() - interval '23 hours'")
    assert told.after("failed") == []
    told.tables("UPDATE notice_streak SET told = now() - interval '25 hours'")
    assert told.after("failed") == ["still failing"]
    assert told.after("failed") == []


def test_refused_records_are_told_once_and_again_when_the_harvest_fails_altogether(told: Told) -> None:
    told.rule()
    statuses = [
        "completed with errors",
        "completed with errors",
        "failed",
        "completed with errors",
        "completed",
    ]
    assert [told.after(status) for status in statuses] == [
        ["failing"], [], ["failing"], ["works again"], ["works again"],
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("kind", "expected"),
    [
        ("error", [[], [], ["failing"], ["works again"]]),
        ("change", [["ended"], [], ["failing"], ["works again"]]),
        ("always", [["ended"], ["ended"], ["failing"], ["works again"]]),
        ("daily", [[], [], [], []]),
    ],
)
def test_each_kind_of_rule_is_told_its_own(told: Told, kind: str, expected: list[list[str]]) -> None:
    told.rule(kind=kind)
    found = [told.after("completed", new_count=5), told.after("no changes")]
    assert [*found, told.after("failed"), told.after("no changes")] == expected


def test_a_harvest_that_goes_on_by_itself_is_not_told_as_failing(told: Told) -> None:
    told.rule()
    told.tables.add(
        "oai_job", repository_id=told.repository, attempt=1, harvest_start_time="2999-01-01T00:00Z"
    )
    assert told.after("incomplete") == []
    assert told.after("lost") == []
    told.tables("DELETE FROM oai_job")
    assert told.after("incomplete") == ["failing"]


def test_a_run_whose_job_is_not_settled_waits(told: Told) -> None:
    told.rule()
    told.tables.add("oai_job", repository_id=told.repository, status=1)
    job = told.tables.one("SELECT job_id FROM oai_job")
    assert told.after("failed", job_id=job) == []
    told.tables("DELETE FROM oai_job")
    assert told.announce() == ["failing"]


def test_a_run_is_told_of_once(told: Told) -> None:
    told.rule(kind="always")
    assert told.after("completed") == ["ended"]
    assert told.announce() == []


def test_a_killed_run_and_a_word_that_nobody_knows_say_nothing(told: Told) -> None:
    told.rule()
    assert told.after("killed") == []
    assert told.after("on holiday") == []


def test_a_rule_is_told_of_its_repository_and_schedule_alone(told: Told, tables: Tables) -> None:
    other = tables.repository("https://example.net/oai")
    tables.add("oai_recurring_job", repository_id=told.repository)
    told.rule(repository_id=told.repository)
    told.rule(recurring_id=1)
    assert told.after("failed", repository_id=other) == []
    assert told.after("failed") == ["failing"]
    assert told.after("failed", recurring_id=1) == ["failing"]


def test_streaks_of_two_sets_are_two(told: Told) -> None:
    told.rule()
    assert told.after("failed", set_spec="a") == ["failing"]
    assert told.after("failed", set_spec="b") == ["failing"]
    assert told.after("completed", set_spec="a") == ["works again"]
    assert told.after("failed", set_spec="b") == []


def test_what_ended_before_the_rule_or_very_long_ago_is_not_told(told: Told) -> None:
    told.run("failed", harvest_end_time="2020-01-01T00:00Z")
    told.rule()
    assert told.announce() == []
    told.tables("UPDATE notice_rule SET added = '2019-01-01T00:00Z'")
    assert told.after("failed", harvest_end_time="2020-01-01T00:00Z") == []
    assert told.tables("SELECT FROM oai_history WHERE announced IS NULL") == []


def test_each_address_of_a_rule_gets_a_notice_of_its_own(told: Told) -> None:
    told.rule(target="a@x.example, b@x.example")
    assert told.after("failed") == ["failing", "failing"]
    assert [row.target for row in told.tables("SELECT target FROM notice ORDER BY 1")] == [
        "a@x.example",
        "b@x.example",
    ]


def test_the_facts_have_the_numbers_the_failed_request_and_what_kind_of_failure_it_was(told: Told) -> None:
    told.rule()
    reason = "https://library.example/oai?verb=ListRecords&metadataPrefix=oai_dc: HTTP status 500 Oh"
    code = {
        "failure_code": "http_server_error",
        "failure_facts": json.dumps({"url": reason.split(": ", maxsplit=1)[0]}),
    }
    told.after("failed", failure_reason=reason, **code, record_count=1234, new_count=1000, warnings='["w1"]')
    facts = told.tables.one("SELECT facts FROM notice")
    assert facts["request"] == "https://library.example/oai?verb=ListRecords&metadataPrefix=oai_dc"
    assert (facts["records"], facts["new"], facts["failure_kind"]) == (1234, 1000, "server")
    assert (facts["repository_name"], facts["warnings"]) == ("City Library", ["w1"])


def test_hooks_are_called_after_runs_of_their_repository(told: Told) -> None:
    told.run("completed")
    everywhere = HookSettings(name="all", command=("true",))
    here = HookSettings(name="here", command=("true",), repository_id=told.repository)
    elsewhere = HookSettings(name="elsewhere", url="https://example.org/", repository_id=99)
    told.announce(everywhere, here, elsewhere)
    rows = told.tables("SELECT channel, target FROM notice ORDER BY notice_id")
    assert [tuple(row) for row in rows] == [("hook", "all"), ("hook", "here")]


@pytest.mark.parametrize("occasion", [Occasion.SUSPENDED, Occasion.STUCK, Occasion.SET_ASIDE])
def test_trouble_that_is_no_runs_end_is_told(told: Told, database: Database, occasion: Occasion) -> None:
    told.rule()
    told.rule(kind="weekly")
    with database.session() as session:
        assert notify(session, occasion, repository_id=told.repository, recurring_id=None, reason="so") == 1
        session.commit()
    assert told.tables.one("SELECT occasion FROM notice") == occasion.value


def test_many_runs_are_announced_in_their_order(told: Told, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(announcements, "REMINDER", timedelta(0))
    told.rule()
    for status in ("failed", "failed", "completed", "failed"):
        told.run(status)
    assert told.announce(most=2) == ["failing", "still failing"]
    assert told.announce(most=2) == ["works again", "failing"]


def test_a_job_of_the_source_that_is_due_later_does_not_continue_the_run(told: Told) -> None:
    told.rule()
    told.tables.add("oai_job", repository_id=told.repository, harvest_start_time="2999-01-01T00:00Z")
    assert told.after("incomplete") == ["failing"]


def test_the_next_harvest_is_that_of_the_same_repository_and_set(told: Told) -> None:
    told.rule()
    other = told.tables.repository("https://other.example/oai")
    for repository, set_spec, day in (
        (other, "b", "2999-01-01"),
        (told.repository, "a", "2999-01-02"),
        (told.repository, "b", "2999-01-04"),
        (told.repository, "c", "2999-01-03"),
    ):
        told.tables.add(
            "oai_job", repository_id=repository, set_spec=set_spec, harvest_start_time=f"{day}T00:00Z"
        )
    told.after("failed", set_spec="b")
    assert told.tables.one("SELECT facts ->> 'next' FROM notice") == "2999-01-04T00:00:00+00:00"


def test_a_run_with_as_many_new_as_deleted_records_has_changed_something(told: Told) -> None:
    told.rule(kind="change")
    assert told.after("completed", new_count=1, deleted_count=1) == ["ended"]


@pytest.mark.parametrize("other", ["before", "after"])
def test_a_retry_at_another_repository_does_not_continue_the_run(told: Told, other: str) -> None:
    told.rule()
    added = told.tables.repository(f"https://{other}.example/oai")
    if other == "before":
        told.repository, added = added, told.repository
    told.tables.add("oai_job", repository_id=added, attempt=1)
    assert told.after("incomplete") == ["failing"]

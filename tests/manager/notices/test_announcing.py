"""Which notices ended harvests create, and which they do not."""

import json
from datetime import timedelta

import pytest

from manager.notices import announcements
from manager.notices.announcements import notify
from manager.notices.models import Occasion
from oai.database import Database
from oai.failure_codes import NO_ROOM
from oai.outgoing import HookSettings
from tests.manager.conftest import Tables
from tests.manager.notices.conftest import Announcer


def test_a_streak_of_failures_is_notified_at_its_beginning_and_at_its_end(announcer: Announcer) -> None:
    announcer.rule()
    statuses = ["completed", "failed", "failed", "lost", "no changes", "completed"]
    assert [announcer.after(status) for status in statuses] == [[], ["failing"], [], [], ["works again"], []]
    facts = announcer.tables.one("SELECT facts FROM notice WHERE occasion = 'works again'")
    assert facts["streak"]["failures"] == 3
    assert announcer.tables("SELECT FROM notice_streak") == []


def test_a_reminder_of_a_streak_is_sent_at_most_once_a_day(announcer: Announcer) -> None:
    announcer.rule()
    announcer.after("failed")
    announcer.tables("UPDATE notice_streak SET told = now() - interval '19 hours'")
    assert announcer.after("failed") == []
    announcer.tables("UPDATE notice_streak SET told = now() - interval '21 hours'")
    assert announcer.after("failed") == ["still failing"]
    assert announcer.after("failed") == []
    announcer.tables("UPDATE notice_streak SET told = now() + interval '1 year'")  # by a clock that was ahead
    assert announcer.after("failed") == ["still failing"]
    assert announcer.after("failed") == []


def test_rejected_records_are_notified_once_and_again_when_the_harvest_fails(
    announcer: Announcer,
) -> None:
    announcer.rule()
    statuses = [
        "completed with errors",
        "completed with errors",
        "failed",
        "completed with errors",
        "completed",
    ]
    assert [announcer.after(status) for status in statuses] == [
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
def test_each_kind_of_rule_gets_notices_of_its_own_occasions(
    announcer: Announcer, kind: str, expected: list[list[str]]
) -> None:
    announcer.rule(kind=kind)
    found = [announcer.after("completed", new_count=5), announcer.after("no changes")]
    assert [*found, announcer.after("failed"), announcer.after("no changes")] == expected


def test_a_harvest_that_is_going_to_be_retried_is_not_notified_as_failing(announcer: Announcer) -> None:
    announcer.rule()
    announcer.tables.add(
        "oai_job", repository_id=announcer.repository, attempt=1, harvest_start_time="2999-01-01T00:00Z"
    )
    assert announcer.after("incomplete") == []
    assert announcer.after("lost") == []
    assert announcer.after("failed", failure_code="server_busy") == []
    announcer.tables("DELETE FROM oai_job")
    assert announcer.after("incomplete") == ["failing"]


@pytest.mark.parametrize("code", sorted(NO_ROOM))
def test_a_lasting_lack_of_room_is_notified_from_its_second_try_on_although_it_is_retried(
    announcer: Announcer, code: str
) -> None:
    announcer.rule()
    announcer.after("completed")
    announcer.tables.add(
        "oai_job", repository_id=announcer.repository, attempt=1, harvest_start_time="2999-01-01T00:00Z"
    )
    assert announcer.after("incomplete", failure_code=code) == []
    announcer.after("incomplete", failure_code="disk_floor", set_spec="another")
    announcer.after("failed", failure_code="repository_busy")
    announcer.after("missed")
    assert announcer.after("incomplete", failure_code=code) == ["failing"]
    assert announcer.after("incomplete", failure_code=code) == []
    announcer.tables("UPDATE notice_streak SET told = now() - interval '21 hours'")
    assert announcer.after("incomplete", failure_code=code) == ["still failing"]
    assert announcer.after("completed") == ["works again"]


def test_a_lack_of_room_that_the_next_try_does_not_find_sends_no_notice(announcer: Announcer) -> None:
    announcer.rule()
    announcer.tables.add(
        "oai_job", repository_id=announcer.repository, attempt=1, harvest_start_time="2999-01-01T00:00Z"
    )
    statuses = [("incomplete", "disk_floor"), ("completed", None), ("incomplete", "disk_floor")]
    assert [announcer.after(status, failure_code=code) for status, code in statuses] == [[], [], []]


@pytest.mark.parametrize(
    "job", [{"attempt": 1, "status": 4}, {"attempt": 1, "status": 8}, {"harvest_start_time": "2026-01-01"}]
)
def test_a_failed_harvest_is_reported_if_no_retry_is_going_to_run(
    announcer: Announcer, job: dict[str, object]
) -> None:
    announcer.rule()
    announcer.tables.add(
        "oai_job", repository_id=announcer.repository, **{"harvest_start_time": "2999-01-01T00:00Z", **job}
    )
    assert announcer.after("failed", failure_code="server_busy") == ["failing"]


def test_a_harvest_that_a_user_stopped_sends_no_notice(announcer: Announcer) -> None:
    announcer.rule()
    assert announcer.after("incomplete", failure_code="job_stopped") == []
    announcer.after("failed")
    assert announcer.after("incomplete", failure_code="job_stopped") == []
    assert announcer.after("completed") == ["works again"]


def test_notice_about_a_held_run_has_its_changes(announcer: Announcer) -> None:
    announcer.rule()
    announcer.hold()
    announcer.tables("""UPDATE oai_hold SET would_delete = 30, sample = '["a", "b", "c", "d", "e", "f"]'""")
    announcer.announce()
    held = announcer.tables.one("SELECT facts -> 'held' FROM notice")
    assert held == {
        "kind": "deletions", "would_delete": 30, "would_update": 0, "active": 40, "allowed": 20,
        "sample": ["a", "b", "c", "d", "e"],
    }  # fmt: skip


def test_a_streak_with_a_held_run_ends_only_once_the_run_is_decided(announcer: Announcer) -> None:
    announcer.rule()
    announcer.hold()
    assert announcer.announce() == ["failing"]
    assert announcer.after("no changes", harvest_id=1) == []
    announcer.tables("UPDATE oai_hold SET state = 'superseded'")
    assert announcer.after("completed", harvest_id=1) == ["works again"]


def test_a_run_is_not_announced_before_its_job_is_settled(announcer: Announcer) -> None:
    announcer.rule()
    announcer.tables.add("oai_job", repository_id=announcer.repository, status=1)
    job = announcer.tables.one("SELECT job_id FROM oai_job")
    assert announcer.after("failed", job_id=job) == []
    announcer.tables("DELETE FROM oai_job")
    assert announcer.announce() == ["failing"]


def test_a_run_is_announced_only_once(announcer: Announcer) -> None:
    announcer.rule(kind="always")
    assert announcer.after("completed") == ["ended"]
    assert announcer.announce() == []


def test_a_killed_run_and_an_unknown_status_send_no_notice(announcer: Announcer) -> None:
    announcer.rule()
    assert announcer.after("killed") == []
    assert announcer.after("on holiday") == []


@pytest.mark.parametrize("code", ["repository_locked", "repository_busy"])
def test_a_run_that_finds_its_repository_locked_or_busy_sends_no_notice(
    announcer: Announcer, code: str
) -> None:
    announcer.rule()
    assert announcer.after("failed", failure_code=code) == []
    assert announcer.after("failed") == ["failing"]
    assert announcer.after("failed", failure_code=code) == []
    assert announcer.after("completed") == ["works again"]


def test_a_rule_gets_notices_only_of_its_repository_and_schedule(
    announcer: Announcer, tables: Tables
) -> None:
    other = tables.repository("https://example.net/oai")
    tables.add("oai_recurring_job", repository_id=announcer.repository)
    announcer.rule(repository_id=announcer.repository)
    announcer.rule(recurring_id=1)
    assert announcer.after("failed", repository_id=other) == []
    assert announcer.after("failed") == ["failing"]
    assert announcer.after("failed", recurring_id=1) == ["failing"]


def test_streaks_of_two_sets_are_separate(announcer: Announcer) -> None:
    announcer.rule()
    assert announcer.after("failed", set_spec="a") == ["failing"]
    assert announcer.after("failed", set_spec="b") == ["failing"]
    assert announcer.after("completed", set_spec="a") == ["works again"]
    assert announcer.after("failed", set_spec="b") == []


def test_runs_that_ended_before_the_rule_or_long_ago_send_no_notice(announcer: Announcer) -> None:
    announcer.run("failed", harvest_end_time="2020-01-01T00:00Z")
    announcer.rule()
    assert announcer.announce() == []
    announcer.tables("UPDATE notice_rule SET added = '2019-01-01T00:00Z'")
    assert announcer.after("failed", harvest_end_time="2020-01-01T00:00Z") == []
    assert announcer.tables("SELECT FROM oai_history WHERE announced IS NULL") == []


def test_each_address_of_a_rule_gets_a_notice_of_its_own(announcer: Announcer) -> None:
    announcer.rule(target="a@x.example, b@x.example")
    assert announcer.after("failed") == ["failing", "failing"]
    assert [row.target for row in announcer.tables("SELECT target FROM notice ORDER BY 1")] == [
        "a@x.example",
        "b@x.example",
    ]


def test_the_facts_have_the_counts_the_failed_request_and_the_kind_of_failure(
    announcer: Announcer,
) -> None:
    announcer.rule()
    reason = "https://library.example/oai?verb=ListRecords&metadataPrefix=oai_dc: HTTP status 500 Oh"
    code = {
        "failure_code": "http_server_error",
        "failure_facts": json.dumps({"url": reason.split(": ", maxsplit=1)[0]}),
    }
    announcer.after(
        "failed", failure_reason=reason, **code, record_count=1234, new_count=1000, warnings='["w1"]'
    )
    facts = announcer.tables.one("SELECT facts FROM notice")
    assert facts["request"] == "https://library.example/oai?verb=ListRecords&metadataPrefix=oai_dc"
    assert (facts["records"], facts["new"], facts["failure_kind"]) == (1234, 1000, "server")
    assert (facts["repository_name"], facts["warnings"]) == ("City Library", ["w1"])


def test_the_facts_have_the_code_of_each_warning(announcer: Announcer) -> None:
    announcer.rule()
    announcer.after(
        "failed",
        warnings='["of an earlier version", "w1", "w2", "w3"]',
        warning_failures='[{"code": "answer_in_parts"}, null, null]',
    )

    facts = announcer.tables.one("SELECT facts FROM notice")

    assert facts["warnings"] == ["of an earlier version", "w1", "w2"]
    assert facts["warning_failures"] == [None, {"code": "answer_in_parts"}, None]


def test_the_facts_have_no_credentials_of_the_base_url(announcer: Announcer) -> None:
    announcer.tables(
        "UPDATE oai_repository SET base_url = 'http://me:s%40cret@a.example/oai', repository_name = NULL"
    )
    announcer.rule()
    announcer.run("failed")
    announcer.announce()

    facts = announcer.tables.one("SELECT facts FROM notice")
    assert (facts["base_url"], facts["repository_name"]) == ("http://a.example/oai",) * 2
    assert "cret" not in str(facts)


def test_hooks_are_called_after_runs_of_their_repository(announcer: Announcer) -> None:
    announcer.run("completed")
    everywhere = HookSettings(name="all", command=("true",))
    here = HookSettings(name="here", command=("true",), repository_id=announcer.repository)
    elsewhere = HookSettings(name="elsewhere", url="https://example.org/", repository_id=99)
    announcer.announce(everywhere, here, elsewhere)
    rows = announcer.tables("SELECT channel, target FROM notice ORDER BY notice_id")
    assert [tuple(row) for row in rows] == [("hook", "all"), ("hook", "here")]


@pytest.mark.parametrize("code", ["repository_locked", "repository_busy"])
def test_a_run_that_did_not_start_calls_no_hook_and_sends_no_notice(announcer: Announcer, code: str) -> None:
    announcer.rule(kind="always")
    announcer.run("failed", failure_code=code)
    assert announcer.announce(HookSettings(name="all", command=("true",))) == []


@pytest.mark.parametrize("occasion", [Occasion.SUSPENDED, Occasion.STUCK, Occasion.SET_ASIDE])
def test_suspended_schedules_and_stuck_or_rejected_jobs_are_notified(
    announcer: Announcer, database: Database, occasion: Occasion
) -> None:
    announcer.rule()
    announcer.rule(kind="weekly")
    with database.session() as session:
        assert (
            notify(session, occasion, repository_id=announcer.repository, recurring_id=None, reason="so") == 1
        )
        session.commit()
    assert announcer.tables.one("SELECT occasion FROM notice") == occasion.value


def test_many_runs_are_announced_in_their_order(
    announcer: Announcer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(announcements, "REMINDER", timedelta(0))
    announcer.rule()
    for status in ("failed", "failed", "completed", "failed"):
        announcer.run(status)
    assert announcer.announce(most=2) == ["failing", "still failing"]
    assert announcer.announce(most=2) == ["works again", "failing"]


def test_a_job_of_the_source_that_is_due_later_does_not_continue_the_run(announcer: Announcer) -> None:
    announcer.rule()
    announcer.tables.add(
        "oai_job", repository_id=announcer.repository, harvest_start_time="2999-01-01T00:00Z"
    )
    assert announcer.after("incomplete") == ["failing"]


def test_the_next_harvest_is_that_of_the_same_repository_and_set(announcer: Announcer) -> None:
    announcer.rule()
    other = announcer.tables.repository("https://other.example/oai")
    for repository, set_spec, day in (
        (other, "b", "2999-01-01"),
        (announcer.repository, "a", "2999-01-02"),
        (announcer.repository, "b", "2999-01-04"),
        (announcer.repository, "c", "2999-01-03"),
    ):
        announcer.tables.add(
            "oai_job", repository_id=repository, set_spec=set_spec, harvest_start_time=f"{day}T00:00Z"
        )
    announcer.after("failed", set_spec="b")
    assert announcer.tables.one("SELECT facts ->> 'next' FROM notice") == "2999-01-04T00:00:00+00:00"


def test_the_next_harvest_is_not_before_the_not_before_time_of_the_repository(
    announcer: Announcer,
) -> None:
    announcer.rule()
    announcer.tables.add(
        "oai_job", repository_id=announcer.repository, harvest_start_time="2999-01-01T00:00Z"
    )
    for asked, expected in (("2998-01-01", "2999-01-01"), ("2999-02-03", "2999-02-03")):
        announcer.tables("UPDATE oai_repository SET not_before = :asked", asked=f"{asked}T00:00Z")
        announcer.after("failed", set_spec=None)
        announcer.after("completed")
        facts = announcer.tables.one("SELECT facts FROM notice ORDER BY notice_id DESC LIMIT 1")
        assert facts["next"] == f"{expected}T00:00:00+00:00"


def test_a_run_with_as_many_new_as_deleted_records_counts_as_a_change(announcer: Announcer) -> None:
    announcer.rule(kind="change")
    assert announcer.after("completed", new_count=1, deleted_count=1) == ["ended"]


@pytest.mark.parametrize("other", ["before", "after"])
def test_a_retry_at_another_repository_does_not_continue_the_run(announcer: Announcer, other: str) -> None:
    announcer.rule()
    added = announcer.tables.repository(f"https://{other}.example/oai")
    if other == "before":
        announcer.repository, added = added, announcer.repository
    announcer.tables.add("oai_job", repository_id=added, attempt=1)
    assert announcer.after("incomplete") == ["failing"]

"""Daily and weekly summaries."""

import json
from datetime import UTC, datetime, timedelta
from typing import Any
from zoneinfo import ZoneInfo

import pytest

from manager.leader.planner import MOST
from manager.notices.letters import render
from manager.notices.models import Occasion
from manager.notices.summaries import summarise
from oai.database import Database
from tests.manager.notices.conftest import Announcer


def summaries(database: Database) -> int:
    with database.session() as session:
        written = summarise(session, ZoneInfo("Europe/Prague"))
        session.commit()
    return written


def test_a_summary_counts_runs_and_records_and_names_failing_sources(
    database: Database, announcer: Announcer
) -> None:
    announcer.rule(kind="daily")
    announcer.run("failed", set_spec="mended", failure_reason="why")
    announcer.run("completed", set_spec="mended", record_count=10, new_count=4)
    announcer.run("failed", failure_reason="the reason")
    announcer.run("completed", set_spec="locked")
    announcer.run("failed", set_spec="locked", failure_code="repository_locked")
    assert summaries(database) == 0
    announcer.tables("UPDATE notice_rule SET summarised = now() - interval '25 hours'")
    announcer.tables("UPDATE oai_history SET harvest_end_time = now() - interval '2 hours'")
    assert summaries(database) == 1
    facts = announcer.tables.one("SELECT facts FROM notice")
    assert (facts["runs"], facts["statuses"]) == (5, {"completed": 2, "failed": 3})
    assert (facts["record"], facts["new"]) == (10, 4)
    assert [one["failure_reason"] for one in facts["failing"]] == ["the reason"]
    assert summaries(database) == 0


def test_a_summary_names_sources_that_lack_room_but_not_those_that_were_interrupted(
    database: Database, announcer: Announcer
) -> None:
    announcer.rule(kind="daily")
    announcer.run("completed", set_spec="full")
    full = announcer.run("incomplete", set_spec="full", failure_code="disk_floor")
    announcer.run("incomplete", set_spec="emptied", failure_code="quota_records")
    announcer.run("completed", set_spec="emptied")
    announcer.run("incomplete", set_spec="interrupted", failure_code="manager_ended")
    announcer.tables("UPDATE notice_rule SET summarised = now() - interval '25 hours'")
    announcer.tables("UPDATE oai_history SET harvest_end_time = now() - interval '2 hours'")
    assert summaries(database) == 1
    facts = announcer.tables.one("SELECT facts FROM notice")
    assert [one["history_id"] for one in facts["failing"]] == [full]
    body = render(Occasion.SUMMARY, "en", facts, dashboard=None).body
    assert "incomplete; There is too little space on our disk" in body


def test_a_summary_counts_all_failing_sources_although_it_lists_the_first(
    database: Database, announcer: Announcer
) -> None:
    announcer.rule(kind="daily")
    for number in range(53):
        announcer.run("failed", set_spec=f"s{number}", harvest_end_time="now")
    announcer.tables("UPDATE notice_rule SET summarised = now() - interval '24 hours'")
    announcer.tables("UPDATE oai_history SET harvest_end_time = now() - interval '1 hour'")
    assert summaries(database) == 1
    facts = announcer.tables.one("SELECT facts FROM notice")
    assert (len(facts["failing"]), facts["failing_count"]) == (50, 53)
    for language, more in (("en", "… and 3 more"), ("cs", "… a další: 3"), ("sk", "… a ďalšie: 3")):
        letter = render(Occasion.SUMMARY, language, facts, dashboard=None)
        assert "53" in letter.subject
        assert f"\n{more}\n" in letter.body


def test_a_summary_names_schedules_that_stopped_and_runs_that_wait_for_approval(
    database: Database, announcer: Announcer
) -> None:
    announcer.rule(kind="weekly", repository_id=announcer.repository)
    other = announcer.tables.repository("https://example.net/oai")
    for repository, set_spec, state in (
        (announcer.repository, "a", 5),
        (announcer.repository, "b", 4),
        (announcer.repository, "c", 1),
        (other, "a", 5),
    ):
        announcer.tables.add(
            "oai_recurring_job",
            repository_id=repository, set_spec=set_spec, state=state, state_reason=f"why {set_spec}",
        )  # fmt: skip
    announcer.tables(
        "INSERT INTO oai_job (repository_id, set_spec, recurring_id, status, waiting)"
        """ SELECT repository_id, set_spec, id, 8, '{"code": "set aside", "text": "why c"}'"""
        " FROM oai_recurring_job WHERE state = 1"
    )
    held = announcer.hold()
    failed = announcer.run("failed", set_spec="a", recurring_id=1)
    announcer.tables("UPDATE oai_history SET harvest_end_time = now() - interval '20 days'")
    announcer.run("missed", set_spec="a", recurring_id=1)
    announcer.tables("UPDATE notice_rule SET summarised = now() - interval '7 days'")
    assert summaries(database) == 1
    facts = announcer.tables.one("SELECT facts FROM notice")
    assert (facts["runs"], facts["failing_count"]) == (0, 4)
    named = ("set_spec", "status", "failure_reason", "history_id", "recurring_id")
    assert [tuple(one[name] for name in named) for one in facts["failing"]] == [
        ("b", "set aside", "why b", None, 2),
        ("c", "set aside", "why c", None, 3),
        ("", "held", None, held, None),
        ("a", "suspended", "why a", failed, 1),
    ]
    body = render(Occasion.SUMMARY, "en", facts, dashboard=None).body
    assert ", oai_dc, set a: suspended; why a\n" in body
    assert ", oai_dc, set b: rejected; why b\n" in body

    announcer.tables("UPDATE notice_rule SET recurring_id = 2, summarised = now() - interval '7 days'")
    assert summaries(database) == 1
    facts = announcer.tables.one("SELECT facts FROM notice WHERE notice_id = 2")
    assert [one["status"] for one in facts["failing"]] == ["set aside"]


@pytest.mark.parametrize(
    ("language", "expected"),
    [
        ("en", ["The host name is not known.", "(no set a)", "The answer took too long."]),
        ("cs", ["Název serveru není znám.", "(no set a)", "Odpověď trvala příliš dlouho."]),
        ("sk", ["Názov servera nie je známy.", "(no set a)", "Odpoveď trvala príliš dlho."]),
    ],
)
def test_summary_explains_each_failure_in_the_language_of_its_reader(
    database: Database, announcer: Announcer, language: str, expected: list[str]
) -> None:
    announcer.rule(kind="daily")
    failed = {"failure_code": "host_unknown", "failure_reason": "[Errno -2] unknown"}
    announcer.run("failed", failure_facts='{"url": "https://library.example/oai"}', **failed)
    announcer.tables.add(
        "oai_recurring_job",
        repository_id=announcer.repository, set_spec="a", state=4,
        state_reason="no set a", state_failure='{"code": "request_invalid"}',
    )  # fmt: skip
    announcer.tables.add(
        "oai_recurring_job",
        repository_id=announcer.repository, set_spec="b", state=5, state_reason="raw reason",
        state_failure='{"code": "schedule_failing", "count": 3, "last": {"code": "timeout"}}',
    )  # fmt: skip
    announcer.tables("UPDATE notice_rule SET summarised = now() - interval '24 hours'")
    announcer.tables("UPDATE oai_history SET harvest_end_time = now() - interval '1 hour'")
    assert summaries(database) == 1
    facts = announcer.tables.one("SELECT facts FROM notice")
    body = render(Occasion.SUMMARY, language, facts, dashboard=None).body
    assert [words for words in expected if words not in body] == []
    assert "Errno" not in body
    assert "raw reason" not in body


def test_a_summary_does_not_name_a_held_run_that_was_approved(
    database: Database, announcer: Announcer
) -> None:
    announcer.rule(kind="daily")
    announcer.hold()
    announcer.tables("UPDATE oai_hold SET state = 'released'")
    announcer.tables("UPDATE notice_rule SET summarised = now() - interval '24 hours'")
    announcer.tables("UPDATE oai_history SET harvest_end_time = now() - interval '1 hour'")
    assert summaries(database) == 1
    facts = announcer.tables.one("SELECT facts FROM notice")
    assert (facts["runs"], facts["failing"]) == (1, [])


def test_the_last_failure_of_a_suspended_schedule_is_named_once(
    database: Database, announcer: Announcer
) -> None:
    announcer.rule(kind="daily")
    announcer.tables.add("oai_recurring_job", repository_id=announcer.repository, state=5)
    announcer.run("failed", recurring_id=1)
    announcer.tables("UPDATE notice_rule SET summarised = now() - interval '24 hours'")
    announcer.tables("UPDATE oai_history SET harvest_end_time = now() - interval '1 hour'")
    assert summaries(database) == 1
    facts = announcer.tables.one("SELECT facts FROM notice")
    assert [(one["status"], one["history_id"]) for one in facts["failing"]] == [("suspended", 1)]
    assert facts["failing_count"] == 1


@pytest.mark.parametrize(
    ("language", "nothing"),
    [
        ("en", "No harvest ran in this period."),
        ("cs", "V tomto období neproběhla žádná sklizeň."),
        ("sk", "V tomto období neprebehol žiadny zber."),
    ],
)
def test_a_summary_without_harvests_does_not_say_that_no_source_fails(
    database: Database, announcer: Announcer, language: str, nothing: str
) -> None:
    announcer.rule(kind="weekly", language=language)
    announcer.tables("UPDATE notice_rule SET summarised = now() - interval '7 days'")
    assert summaries(database) == 1
    facts = announcer.tables.one("SELECT facts FROM notice")
    assert nothing in render(Occasion.SUMMARY, language, facts, dashboard=None).body
    failing = {"en": "No source was failing", "cs": "neselhával", "sk": "nezlyhával"}[language]
    assert failing not in render(Occasion.SUMMARY, language, facts, dashboard=None).body
    assert failing in render(Occasion.SUMMARY, language, {**facts, "runs": 1}, dashboard=None).body


def test_one_late_summary_replaces_missed_ones_and_keeps_its_time_of_day(
    database: Database, announcer: Announcer
) -> None:
    announcer.rule(kind="weekly")
    announcer.rule(kind="error")
    announcer.tables("UPDATE notice_rule SET summarised = now() - interval '15 days'")
    assert summaries(database) == 1
    assert announcer.tables.one(
        "SELECT now() - summarised < interval '25 hours' FROM notice_rule WHERE rule_id = 1"
    )


def test_the_next_summary_keeps_its_time_of_day_if_the_clock_was_ahead(
    database: Database, announcer: Announcer
) -> None:
    announcer.rule(kind="daily")
    announcer.tables("UPDATE notice_rule SET summarised = now() + interval '365 days 1 hour'")
    assert summaries(database) == 0
    announcer.tables("UPDATE notice_rule SET summarised = summarised - interval '2 hours'")
    assert summaries(database) == 1


@pytest.mark.parametrize(
    ("now", "expected"),
    [
        ("2026-03-29T06:30+02:00", "2026-03-29T06:00+02:00"),  # the day has 23 hours
        ("2026-10-25T06:30+01:00", "2026-10-25T06:00+01:00"),
        ("2026-10-25T05:30+01:00", None),
    ],
)
def test_a_summary_keeps_its_time_of_day_when_clocks_are_changed(
    database: Database, announcer: Announcer, monkeypatch: pytest.MonkeyPatch, now: str, expected: str | None
) -> None:
    announcer.rule(kind="daily")
    moment = datetime.fromisoformat(now)
    last = datetime(moment.year, moment.month, moment.day - 1, 6, tzinfo=ZoneInfo("Europe/Prague"))
    announcer.tables("UPDATE notice_rule SET summarised = :last", last=last)
    monkeypatch.setattr("manager.notices.summaries.database_now", lambda _: moment)
    assert summaries(database) == (expected is not None)
    assert announcer.tables.one("SELECT summarised FROM notice_rule") == (
        datetime.fromisoformat(expected) if expected else last
    )


def test_a_summary_of_a_repository_counts_only_its_runs(database: Database, announcer: Announcer) -> None:
    other = announcer.tables.repository("https://example.net/oai")
    announcer.rule(kind="daily", repository_id=other)
    announcer.tables("UPDATE notice_rule SET summarised = now() - interval '24 hours'")
    announcer.run("failed", harvest_end_time="now")
    announcer.tables("UPDATE oai_history SET harvest_end_time = now() - interval '1 hour'")
    assert summaries(database) == 1
    assert announcer.tables.one("SELECT facts FROM notice")["runs"] == 0


def a_gap(announcer: Announcer, *, count: int, days: int, **columns: Any) -> None:
    """Add a row about due times at 01:00 UTC that were not run, as the manager writes it."""
    last = datetime(2026, 11, 30, 1, tzinfo=UTC)
    announcer.run(
        "missed",
        harvest_start_time=last - timedelta(days=days),
        harvest_end_time=last,
        failure_code="run_missed",
        failure_facts=json.dumps({"count": count, "more": count == MOST}),
        announced=datetime.now(UTC) - timedelta(hours=6),
        **columns,
    )


@pytest.mark.parametrize(
    ("language", "subject", "line"),
    [
        (
            "en",
            "Daily summary: 0 harvests, 0 failing sources, 68 missed due times",
            "Missed due times: 68 (1 Oct 2026 01:00 to 30 Nov 2026 01:00)",
        ),
        (
            "cs",
            "Denní souhrn: 0 sklizní, 0 selhávajících zdrojů, 68 zmeškaných termínů",
            "Zmeškané termíny: 68 (od 1. 10. 2026 1:00 do 30. 11. 2026 1:00)",
        ),
        (
            "sk",
            "Denný súhrn: 0 zberov, 0 zlyhávajúcich zdrojov, 68 zmeškaných termínov",
            "Zmeškané termíny: 68 (od 1. 10. 2026 1:00 do 30. 11. 2026 1:00)",
        ),
    ],
)
def test_a_summary_names_the_due_times_that_were_found_missed_in_its_period(
    database: Database, announcer: Announcer, language: str, subject: str, line: str
) -> None:
    announcer.rule(kind="daily", repository_id=announcer.repository)
    other = announcer.tables.repository("https://example.net/oai")
    announcer.tables("UPDATE notice_rule SET summarised = now() - interval '26 hours'")
    a_gap(announcer, count=60, days=60)
    a_gap(announcer, count=8, days=7)
    a_gap(announcer, count=500, days=600, repository_id=other)
    assert summaries(database) == 1
    facts = announcer.tables.one("SELECT facts FROM notice")
    letter = render(Occasion.SUMMARY, language, facts, dashboard=None)
    assert letter.subject.removesuffix(" (City Library)") == subject
    assert line in letter.body

    announcer.tables("UPDATE notice_rule SET summarised = now() - interval '26 hours'")
    announcer.tables("UPDATE oai_history SET announced = now() - interval '30 hours'")
    assert summaries(database) == 1
    assert announcer.tables.one("SELECT facts FROM notice WHERE notice_id = 2")["missed"] is None


@pytest.mark.parametrize(
    ("language", "number"),
    [("en", "at least 1,060 "), ("cs", "nejméně 1\u00a0060 "), ("sk", "najmenej 1\u00a0060 ")],
)
def test_a_summary_of_due_times_that_were_not_all_counted_says_so(
    database: Database, announcer: Announcer, language: str, number: str
) -> None:
    announcer.rule(kind="daily")
    announcer.tables("UPDATE notice_rule SET summarised = now() - interval '26 hours'")
    a_gap(announcer, count=MOST, days=60)
    a_gap(announcer, count=60, days=60)
    assert summaries(database) == 1
    facts = announcer.tables.one("SELECT facts FROM notice")
    assert f": {number}(" in render(Occasion.SUMMARY, language, facts, dashboard=None).body


@pytest.mark.parametrize(
    ("kind", "days", "language", "subject", "why"),
    [
        ("daily", 60, "en", "Summary of 60 days: 0 harvests", "was not running"),
        ("daily", 3, "cs", "Souhrn za 3 dny: 0 sklizní", "Zatva neběžela"),
        ("daily", 5, "sk", "Súhrn za 5 dní: 0 zberov", "Zatva nebežala"),
        ("weekly", 56, "en", "Summary of 8 weeks: 0 harvests", "was not running"),
        ("weekly", 14, "cs", "Souhrn za 2 týdny: 0 sklizní", "Zatva neběžela"),
        ("weekly", 56, "sk", "Súhrn za 8 týždňov: 0 zberov", "Zatva nebežala"),
    ],
)
def test_a_late_summary_says_how_many_periods_it_covers_and_why(
    database: Database, announcer: Announcer, kind: str, days: int, language: str, subject: str, why: str
) -> None:
    announcer.rule(kind=kind)
    announcer.tables(
        "UPDATE notice_rule SET summarised = now() - :days * interval '24 hours'", days=days + 0.1
    )
    assert summaries(database) == 1
    facts = announcer.tables.one("SELECT facts FROM notice")
    letter = render(Occasion.SUMMARY, language, facts, dashboard=None)
    assert letter.subject.startswith(f"{subject}, ")
    assert why in letter.body
    once = render(Occasion.SUMMARY, language, {**facts, "periods": 1}, dashboard=None)
    assert why not in once.body

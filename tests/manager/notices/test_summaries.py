"""Daily and weekly summaries."""

from datetime import datetime
from zoneinfo import ZoneInfo

import pytest

from manager.notices import delivery
from manager.notices.delivery import summarise
from manager.notices.letters import render
from manager.notices.models import Occasion
from oai.database import Database
from tests.manager.notices.conftest import Announcer


def summaries(database: Database) -> int:
    with database.session() as session:
        written = summarise(session, ZoneInfo("Europe/Prague"))
        session.commit()
    return written


def test_a_summary_counts_what_was_harvested_and_names_what_fails(
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
    for language, more in (("en", "… and 3 more"), ("cs", "… a dalších 3"), ("sk", "… a ďalších 3")):
        letter = render(Occasion.SUMMARY, language, facts, dashboard=None)
        assert "53" in letter.subject
        assert f"\n{more}\n" in letter.body


def test_a_late_summary_makes_up_for_those_that_were_missed_and_keeps_its_time_of_day(
    database: Database, announcer: Announcer
) -> None:
    announcer.rule(kind="weekly")
    announcer.rule(kind="error")
    announcer.tables("UPDATE notice_rule SET summarised = now() - interval '15 days'")
    assert summaries(database) == 1
    assert announcer.tables.one(
        "SELECT now() - summarised < interval '25 hours' FROM notice_rule WHERE rule_id = 1"
    )


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
    monkeypatch.setattr(delivery, "database_now", lambda _: moment)
    assert summaries(database) == (expected is not None)
    assert announcer.tables.one("SELECT summarised FROM notice_rule") == (
        datetime.fromisoformat(expected) if expected else last
    )


def test_a_summary_is_of_its_repository_alone(database: Database, announcer: Announcer) -> None:
    other = announcer.tables.repository("https://example.net/oai")
    announcer.rule(kind="daily", repository_id=other)
    announcer.tables("UPDATE notice_rule SET summarised = now() - interval '24 hours'")
    announcer.run("failed", harvest_end_time="now")
    announcer.tables("UPDATE oai_history SET harvest_end_time = now() - interval '1 hour'")
    assert summaries(database) == 1
    assert announcer.tables.one("SELECT facts FROM notice")["runs"] == 0

"""Daily and weekly summaries."""

from manager.notices.delivery import summarise
from oai.database import Database
from tests.manager.notices.conftest import Told


def summaries(database: Database) -> int:
    with database.session() as session:
        written = summarise(session)
        session.commit()
    return written


def test_a_summary_counts_what_was_harvested_and_names_what_fails(database: Database, told: Told) -> None:
    told.rule(kind="daily")
    told.run("failed", set_spec="mended", failure_reason="why")
    told.run("completed", set_spec="mended", record_count=10, new_count=4)
    told.run("failed", failure_reason="the reason")
    assert summaries(database) == 0
    told.tables("UPDATE notice_rule SET summarised = now() - interval '25 hours'")
    told.tables("UPDATE oai_history SET harvest_end_time = now() - interval '2 hours'")
    assert summaries(database) == 1
    facts = told.tables.one("SELECT facts FROM notice")
    assert (facts["runs"], facts["statuses"]) == (3, {"completed": 1, "failed": 2})
    assert (facts["record"], facts["new"]) == (10, 4)
    assert [one["failure_reason"] for one in facts["failing"]] == ["the reason"]
    assert summaries(database) == 0


def test_a_late_summary_makes_up_for_those_that_were_missed_and_keeps_its_time_of_day(
    database: Database, told: Told
) -> None:
    told.rule(kind="weekly")
    told.rule(kind="error")
    told.tables("UPDATE notice_rule SET summarised = now() - interval '15 days'")
    assert summaries(database) == 1
    assert told.tables.one(
        "SELECT now() - summarised < interval '25 hours' FROM notice_rule WHERE rule_id = 1"
    )


def test_a_summary_is_of_its_repository_alone(database: Database, told: Told) -> None:
    other = told.tables.repository("https://example.net/oai")
    told.rule(kind="daily", repository_id=other)
    told.tables("UPDATE notice_rule SET summarised = now() - interval '24 hours'")
    told.run("failed", harvest_end_time="now")
    told.tables("UPDATE oai_history SET harvest_end_time = now() - interval '1 hour'")
    assert summaries(database) == 1
    assert told.tables.one("SELECT facts FROM notice")["runs"] == 0

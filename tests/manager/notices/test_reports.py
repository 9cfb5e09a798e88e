"""Many notices at once become one report: what is collected, what it says, and in which order it is sent."""

import re
from collections.abc import Mapping, Sequence
from datetime import timedelta
from typing import Any

import pytest

from manager.notices import outbox, reports, services
from manager.notices.delivery import deliver
from manager.notices.letters import LONGEST_CHAT, Letter, render
from manager.notices.models import Channel, Language, MuteKind, NoticeState
from manager.notices.mutes import acknowledge, end_mute, mute
from manager.notices.rules import put_trial_into_outbox, remove_rule
from manager.notices.waiting import mark_waiting
from oai.database import Database
from oai.datestamps import utc_now
from oai.failures import Failure, FailureCode, explained
from oai.settings import Settings
from tests.manager.notices.conftest import MAILBOX, Announcer, notice_sender, outgoing
from tests.manager.notices.mail_server import MailServer, mail_server

_LIMIT = 3


class Reporter:
    """Notices that are collected, and reports that are written, as a leading manager does."""

    def __init__(self, database: Database, announcer: Announcer) -> None:
        self.announcer = announcer
        self.tables = announcer.tables
        self._database = database
        self._repositories: dict[object, int] = {}

    def fail(self, *sets: object, code: str = "host_unknown", repository: int | None = None) -> None:
        """Let the sets fail, each of a repository of its own unless one is given, and announce it."""
        for one in sets:
            self.announcer.run(
                "failed", set_spec=str(one), failure_code=code, failure_reason="no such host",
                repository_id=repository or self.repository(one),
            )  # fmt: skip
        self.announcer.announce(most=1000)

    def repair(self, *sets: object) -> None:
        for one in sets:
            self.announcer.run(set_spec=str(one), repository_id=self.repository(one))
        self.announcer.announce()

    def repository(self, name: object) -> int:
        if name not in self._repositories:
            number = self.tables.repository(f"https://{name}.example/oai")
            self.tables(
                "UPDATE oai_repository SET repository_name = :name WHERE repository_id = :number",
                name=f"Library {name}", number=number,
            )  # fmt: skip
            self._repositories[name] = number
        return self._repositories[name]

    def collect(self, most: int = _LIMIT) -> list[str]:
        """Return the states after notices beyond the limit were collected."""
        with self._database.session() as session, session.begin():
            reports.collect(session, most)
        return self.announcer.states()

    def write(self) -> int:
        """Let the time of collecting pass, and return the number of reports written."""
        self.tables("UPDATE notice SET due = now() WHERE state = 'collected' AND ended IS NULL")
        with self._database.session() as session, session.begin():
            return reports.write_reports(session)

    def make_report(self) -> None:
        """Collect what exceeds the limit, send the others, and write the report."""
        self.collect()
        self.send()
        self.write()

    def claim(self, channel: Channel = Channel.MAIL) -> list[outbox.Claimed]:
        with self._database.session() as session, session.begin():
            return outbox.claim(session, channel, most=100, lease=60)

    def send(self) -> list[str]:
        """Note all that may be sent as sent, one after another, and return the occasions."""
        occasions = []
        while claimed := self.claim():
            with self._database.session() as session, session.begin():
                for one in claimed:
                    outbox.sent(session, one)
            occasions += [one.occasion for one in claimed]
        return occasions

    def report(self) -> dict[str, Any]:
        facts: dict[str, Any] = self.tables.one(
            "SELECT facts FROM notice WHERE occasion = 'report' ORDER BY notice_id DESC LIMIT 1"
        )
        return facts

    def pass_an_hour(self) -> None:
        self.tables("UPDATE notice SET ended = ended - interval '61 minutes' WHERE ended IS NOT NULL")


@pytest.fixture
def reporter(database: Database, announcer: Announcer) -> Reporter:
    return Reporter(database, announcer)


def test_notices_beyond_the_limit_wait_for_a_report_and_say_until_when(reporter: Reporter) -> None:
    reporter.announcer.rule()
    reporter.fail(*range(5))
    assert reporter.collect() == ["waiting"] * 3 + ["collected"] * 2
    (row,) = reporter.tables(
        "SELECT due - now() BETWEEN interval '14 minutes' AND interval '15 minutes' AS soon, ended,"
        " last_error FROM notice WHERE notice_id = 5"
    )
    assert (row.soon, row.ended) == (True, None)
    assert re.match(r"collected for a report at \d{4}-\d\d-\d\d \d\d:\d\d UTC, or when", row.last_error)
    assert "more than 3 " in row.last_error
    assert reporter.send() == ["failing"] * 3
    assert reporter.send() == []


def test_without_a_limit_no_notice_is_collected_and_collected_ones_are_reported(reporter: Reporter) -> None:
    reporter.announcer.rule()
    reporter.fail(*range(5))
    assert reporter.collect(0) == ["waiting"] * 5
    reporter.collect()
    reporter.fail(5)
    assert reporter.collect(0)[-1] == "waiting"
    assert reporter.write() == 1


@pytest.mark.parametrize("channel", ["webhook", "hook"])
def test_notices_to_webhooks_and_hooks_are_not_collected(reporter: Reporter, channel: str) -> None:
    reporter.announcer.rule()
    reporter.fail(*range(5))
    reporter.tables("UPDATE notice SET channel = :channel", channel=channel)
    assert set(reporter.collect()) == {"waiting"}


@pytest.mark.parametrize("occasion", ["ended", "summary", "test", "confirm", "digest", "report"])
def test_summaries_tests_and_other_requested_notices_are_not_collected(
    reporter: Reporter, occasion: str
) -> None:
    reporter.announcer.rule()
    reporter.fail(*range(5))
    reporter.tables("UPDATE notice SET occasion = :occasion", occasion=occasion)
    assert set(reporter.collect()) == {"waiting"}


def test_a_report_is_written_once_when_it_is_due_and_has_all_collected_notices(
    database: Database, reporter: Reporter
) -> None:
    reporter.announcer.rule()
    reporter.fail(*range(5))
    reporter.collect()
    with database.session() as session, session.begin():
        assert reports.write_reports(session) == 0
    # Later ones join, even if the hour is over.
    reporter.pass_an_hour()
    reporter.fail(5)
    assert reporter.collect() == ["waiting"] * 3 + ["collected"] * 3
    assert reporter.tables.one("SELECT count(DISTINCT due) FROM notice WHERE state = 'collected'") == 1
    assert reporter.write() == 1
    assert reporter.write() == 0
    (report,) = reporter.tables("SELECT * FROM notice WHERE occasion = 'report'")
    assert (report.state, report.target, report.repository_id) == ("waiting", MAILBOX, None)
    rows = reporter.tables(
        "SELECT report_id, ended IS NULL AS open, last_error FROM notice WHERE state = 'collected'"
    )
    assert [tuple(row) for row in rows] == [(report.notice_id, False, None)] * 3
    assert (report.facts["count"], report.facts["kinds"]) == (3, [["failing", 3]])
    assert reporter.send() == ["failing"] * 3 + ["report"]


def test_a_report_is_due_if_the_clock_was_ahead(database: Database, reporter: Reporter) -> None:
    reporter.announcer.rule()
    reporter.fail(*range(4))
    reporter.collect()
    reporter.tables("UPDATE notice SET due = due + interval '1 day' WHERE state = 'collected'")
    with database.session() as session, session.begin():
        assert reports.write_reports(session) == 1


def test_notices_of_the_last_hour_count_towards_the_limit_and_reports_do_not(reporter: Reporter) -> None:
    reporter.announcer.rule()
    reporter.fail(*range(4))
    reporter.make_report()
    assert reporter.send() == ["report"]
    reporter.fail(4)
    assert reporter.collect()[-1] == "collected"
    reporter.write()
    reporter.send()
    reporter.pass_an_hour()
    reporter.fail(5, 6, 7)
    assert reporter.collect()[-3:] == ["waiting"] * 3


def test_after_an_outage_of_the_mail_server_there_are_few_messages(reporter: Reporter) -> None:
    """Unsent notices of any age count, and there is one report, however often each notice was tried."""
    reporter.announcer.rule()
    for number in range(6):
        reporter.fail(*range(10 * number, 10 * number + 6), code="disconnected")
        reporter.collect()
        reporter.tables(
            "UPDATE notice SET tries = tries + 1, due = now() + interval '1 minute' WHERE state = 'waiting'"
        )
        reporter.write()
    reporter.tables("UPDATE notice SET due = now() WHERE state = 'waiting'")
    assert reporter.send() == ["failing"] * 3 + ["report"]
    assert reporter.write() == 1
    assert reporter.send() == ["report"]
    assert reporter.report()["count"] == 30
    assert set(reporter.announcer.states()) == {"sent", "collected"}


def test_failures_are_grouped_by_cause_with_the_text_of_each_cause(reporter: Reporter) -> None:
    reporter.announcer.rule()
    reporter.fail("a", "b", "c", *range(60))
    reporter.fail("x", "y", code="tls")
    reporter.collect()
    reporter.write()
    facts = reporter.report()
    groups = [(group["kind"], group["failure"]["code"], group["count"]) for group in facts["groups"]]
    assert groups == [("failing", "host_unknown", 60), ("failing", "tls", 2)]
    assert [len(group["entries"]) for group in facts["groups"]] == [48, 2]
    body = render("report", "en", facts, dashboard="https://zatva.example").body
    for words in (
        "60 harvests failed. The host name is not known. Check that",
        "2 harvests failed. A secure connection could not be made",
        "- Library 0, oai_dc, set 0 (",
        "): no such host\n  https://zatva.example/runs/4\n",
        "… and 12 more",
        f"https://zatva.example/alerts/deliveries?report={facts['report']}",
        f"`zatva notify sent --report {facts['report']}`",
    ):
        assert words in body


def test_report_says_how_many_records_a_held_run_would_delete(reporter: Reporter) -> None:
    reporter.announcer.rule(language="cs")
    reporter.fail(*range(3))
    held = reporter.announcer.hold()
    reporter.announcer.announce()
    reporter.collect()
    reporter.write()
    body = render("report", "cs", reporter.report(), dashboard="https://zatva.example").body
    assert ": smazal by 0 z celkového počtu 40 záznamů; bez schválení smí běh smazat nejvýše 20 %" in body
    assert f"https://zatva.example/runs/{held}\n" in body
    assert "zatva job release" not in body
    commands = render("report", "cs", reporter.report(), dashboard=None).body
    assert f"`zatva job release {held}`" in commands


def test_the_text_of_a_group_has_only_facts_that_all_entries_share(reporter: Reporter) -> None:
    reporter.announcer.rule()
    reporter.fail(*range(3))
    for number, url in enumerate(("https://a.example/", "https://b.example/")):
        reporter.announcer.run(
            "failed", set_spec=f"moved{number}", failure_code="address_moved",
            failure_facts=f'{{"url": "{url}", "target": "https://new.example/"}}',
        )  # fmt: skip
    reporter.announcer.announce()
    reporter.collect()
    reporter.write()
    body = render("report", "en", reporter.report(), dashboard=None).body
    assert "The repository has moved: … redirects permanently to https://new.example/." in body


def test_a_report_shows_which_sources_work_again_and_which_have_failed_again(
    reporter: Reporter,
) -> None:
    reporter.announcer.rule()
    reporter.fail("single", "again", "more")
    reporter.collect()
    reporter.send()
    reporter.fail("new")
    reporter.repair("single", "new", "again")
    reporter.fail("again", code="timeout")
    reporter.collect()
    reporter.write()
    facts = reporter.report()
    assert facts["count"] == 5
    listed = {
        group["kind"]: (group["failure"], [entry["set_spec"] for entry in group["entries"]])
        for group in facts["groups"]
    }
    assert listed == {
        "failing": ({"code": "timeout"}, ["again"]),
        "recovered": ({"code": "host_unknown"}, ["new"]),
        "works again": (None, ["single"]),
    }
    letter = render("report", "en", facts, dashboard=None)
    assert letter.subject == (
        "5 notifications: 1 harvest failed, 1 harvest failed and works again, 1 harvest works again"
    )


def test_a_source_that_has_rejected_records_instead_is_reported_with_their_number(reporter: Reporter) -> None:
    reporter.announcer.rule()
    reporter.fail("single", "more", "third", "new")
    reporter.collect()
    reporter.send()
    for name in ("single", "new"):
        reporter.announcer.run(
            "completed with errors", set_spec=name, repository_id=reporter.repository(name),
            invalid_count=70_000,
        )  # fmt: skip
    reporter.announcer.announce()
    reporter.collect()
    reporter.write()
    letter = render("report", "cs", reporter.report(), dashboard=None)
    assert letter.subject == "3 oznámení: 2 sklizně dokončeny s chybami"
    for run in (5, 6):
        assert f"; odmítnutých záznamů: 70\N{NO-BREAK SPACE}000; `zatva job errors {run}`" in letter.body


def test_a_source_is_recognised_after_its_repository_is_renamed(reporter: Reporter) -> None:
    reporter.announcer.rule()
    reporter.fail(*range(4))
    reporter.tables("UPDATE oai_repository SET repository_name = 'New name'")
    reporter.repair(3)
    reporter.collect()
    reporter.write()
    assert reporter.report()["kinds"] == [["recovered", 1]]


def test_entries_have_the_request_to_which_the_advice_refers(reporter: Reporter) -> None:
    reporter.announcer.rule()
    reporter.fail(*range(3))
    reporter.fail("unknown", code="http_status")
    for number in range(2):
        reporter.announcer.run(
            "failed", set_spec=f"bad{number}", failure_code="http_server_error", failure_reason="HTTP 500",
            failure_facts=f'{{"url": "https://a.example/{number}"}}',
        )  # fmt: skip
    reporter.announcer.announce()
    reporter.collect()
    reporter.write()
    body = render("report", "sk", reporter.report(), dashboard=None).body
    for number in range(2):
        assert f"HTTP 500\n  Dopyt: https://a.example/{number}\n" in body
    assert "2 zbery zlyhali. Repozitár hlási vlastnú chybu. Ak sa opakuje, pošlite správcovi dopyt" in body
    # Without a request, no advice refers to one.
    assert "Server repozitára dopyt odmietol.\n- Library unknown" in body


@pytest.mark.parametrize(
    ("words", "codes"),
    [
        (("the request below",), reports.REQUESTED),
        (("See the reason", "the reason below", "the reason names"), reports.REASONED),
    ],
)
def test_the_codes_whose_advice_refers_to_the_reason_or_request_are_listed(
    words: Sequence[str], codes: Sequence[FailureCode]
) -> None:
    advice = {code: explained(Failure(code=code), "en").todo for code in FailureCode}
    referring = {code for code, todo in advice.items() if any(word in todo for word in words)}
    # Those of archive files are in no notice.
    assert {code for code in referring if not code.startswith("archive")} == set(codes)


def test_suspended_schedules_show_their_reason_unless_the_group_states_it(reporter: Reporter) -> None:
    rule = reporter.announcer.rule()
    failures = (
        '"other"',
        '"other"',
        '"timeout"',
        '"tls", "status": 403',
        '"tls", "status": 418',
    )
    for number, failure in enumerate(failures * 2):
        reporter.tables.add(
            "notice", rule_id=rule, repository_id=reporter.announcer.repository, occasion="suspended",
            channel="mail", target=MAILBOX,
            facts=f'{{"recurring_id": {number}, "repository_name": "Sus", "failure": {{"code": {failure}}},'
            f' "failure_reason": "reason {number}", "at": null, "job_id": null}}',
        )  # fmt: skip
    reporter.make_report()
    body = render("report", "en", reporter.report(), dashboard=None).body
    shown = [number for number in range(10) if f"- Sus: reason {number}; `zatva schedule resume" in body]
    assert shown == [3, 4, 5, 6, 8, 9]
    assert "- Sus; `zatva schedule resume 7`" in body


def test_suspended_schedules_are_grouped_by_cause_with_the_page_or_command_to_resume_them(
    reporter: Reporter,
) -> None:
    rule = reporter.announcer.rule()
    for number in range(1, 7):
        code = "http_gone" if number > 5 else "connection_refused"
        reporter.tables.add(
            "notice", rule_id=rule, repository_id=reporter.announcer.repository, occasion="suspended",
            channel="mail", target=MAILBOX,
            facts=f'{{"recurring_id": {number}, "repository_name": "Sus", "failure": {{"code": "{code}"}},'
            ' "failure_reason": "so often", "at": "2026-01-01T00:00:00+00:00", "job_id": null}',
        )  # fmt: skip
    reporter.make_report()
    body = render("report", "en", reporter.report(), dashboard="https://zatva.example").body
    assert "2 schedules suspended. The repository's server does not accept connections." in body
    assert "1 schedule suspended. There is no repository at this address" in body
    assert "- Sus (1 Jan 2026 00:00)\n  https://zatva.example/schedules/6/edit" in body
    commands = render("report", "en", reporter.report(), dashboard=None).body
    assert "- Sus (1 Jan 2026 00:00); `zatva schedule resume 6`" in commands


def test_a_repository_that_is_muted_while_its_notice_waits_is_not_reported(
    database: Database, reporter: Reporter
) -> None:
    reporter.announcer.rule()
    muted, other = reporter.announcer.repository, reporter.repository("other")
    reporter.fail(*range(4), repository=muted)
    reporter.fail("s", "acknowledged", repository=other)
    reporter.fail("more", repository=muted)
    reporter.collect()
    hour = utc_now() + timedelta(hours=1)
    with database.session() as session, session.begin():
        acknowledge(session, 6, note="seen")
        number = mute(session, muted, MuteKind.MUTED, note="known", ends=hour).mute_id
    assert reporter.write() == 1
    rows = reporter.tables("SELECT notice_id, state, last_error FROM notice WHERE notice_id > 3 ORDER BY 1")
    assert [tuple(row) for row in rows[:4]] == [
        (4, "muted", "muted: known"),
        (5, "collected", None),
        (6, "muted", "acknowledged: seen"),
        (7, "muted", "muted: known"),
    ]
    assert reporter.report()["count"] == 1
    reporter.send()
    # The first failure after the mute is reported; that of a set that was reported before, once a day.
    with database.session() as session, session.begin():
        end_mute(session, number)
    reporter.fail(0, 3, repository=muted)
    rows = reporter.tables("SELECT occasion, facts ->> 'set_spec' FROM notice WHERE notice_id > 8")
    assert [tuple(row) for row in rows] == [("still failing", "3")]


def test_a_report_is_not_written_if_all_is_muted(database: Database, reporter: Reporter) -> None:
    reporter.announcer.rule()
    reporter.fail(*range(5))
    reporter.collect()
    with database.session() as session, session.begin():
        mute(session, None, MuteKind.MAINTENANCE, note="network", ends=utc_now() + timedelta(hours=1))
    assert reporter.write() == 0
    assert reporter.announcer.states() == ["waiting"] * 3 + ["muted"] * 2


def test_notices_of_a_repository_stay_in_order_around_a_report(reporter: Reporter) -> None:
    reporter.announcer.rule(kind="always")
    ours, other = reporter.announcer.repository, reporter.repository("other")
    reporter.fail(*range(4), repository=ours)
    # Not collected, and behind the collected one of its repository.
    reporter.announcer.run(set_spec="good")
    reporter.fail("s", repository=other)
    reporter.announcer.announce()
    reporter.collect()
    reporter.tables("UPDATE notice SET due = now() + interval '1 hour' WHERE notice_id = 3")
    assert reporter.send() == ["failing"] * 2
    # The third is retried in an hour; the report has nothing of its repository before that.
    assert reporter.write() == 1
    assert reporter.report()["groups"][0]["entries"][0]["set_spec"] == "s"
    assert reporter.send() == ["report"]
    assert reporter.write() == 0
    reporter.tables("UPDATE notice SET due = now() WHERE notice_id = 3")
    assert reporter.send() == ["failing"]
    assert reporter.write() == 1
    assert reporter.send() == ["report", "ended"]


def test_a_report_delays_only_its_repositories_and_is_retried_after_another_mail(
    database: Database, reporter: Reporter
) -> None:
    reporter.announcer.rule()
    reporter.announcer.rule(target="jan@library.example")
    reporter.fail(*range(5))
    reporter.collect()
    reporter.tables("UPDATE notice SET ended = now(), state = 'sent' WHERE state = 'waiting'")
    reporter.pass_an_hour()
    assert reporter.write() == 2
    reporter.tables("UPDATE notice SET due = now() + interval '8 hours', tries = 9 WHERE occasion = 'report'")
    reporter.fail("in the report", repository=reporter.repository(4))
    reporter.fail("other")
    reporter.tables("UPDATE notice SET due = now() + interval '1 hour' WHERE notice_id IN (14, 16)")
    assert reporter.send() == ["failing"]
    with database.session() as session, session.begin():
        mark_waiting(session)
    rows = reporter.tables(
        "SELECT target, state, due < now() + interval '6 minutes' AS soon, last_error FROM notice"
        " WHERE notice_id > 10 ORDER BY notice_id"
    )
    assert [tuple(row) for row in rows] == [
        (MAILBOX, "waiting", True, None),
        ("jan@library.example", "waiting", False, None),
        (MAILBOX, "waiting", True, "waits for message 11"),
        ("jan@library.example", "waiting", False, "waits for message 12"),
        (MAILBOX, "sent", True, None),
        ("jan@library.example", "waiting", False, None),
    ]
    reporter.tables("UPDATE notice SET due = now() WHERE occasion = 'report'")
    assert reporter.send() == ["report", "report", "failing"]


def test_notices_are_sent_one_by_one_while_the_next_report_is_delayed(reporter: Reporter) -> None:
    reporter.announcer.rule()
    reporter.fail(*range(5))
    reporter.make_report()
    reporter.tables("UPDATE notice SET due = now() + interval '8 hours' WHERE occasion = 'report'")
    reporter.fail(5)
    assert reporter.collect()[-1] == "collected"
    assert reporter.write() == 0
    reporter.pass_an_hour()
    reporter.fail(6)
    reporter.repair(5)
    assert reporter.collect()[-2:] == ["waiting"] * 2
    assert reporter.send() == ["failing"]
    reporter.tables("UPDATE notice SET due = now() WHERE occasion = 'report'")
    assert reporter.send() == ["report"]
    assert reporter.write() == 1
    assert reporter.send() == ["report", "works again"]


def test_a_test_message_does_not_wait_for_a_report(database: Database, reporter: Reporter) -> None:
    repository = reporter.announcer.repository
    rule = reporter.announcer.rule(repository_id=repository)
    reporter.fail(*range(5), repository=repository)
    reporter.collect(1)
    with database.session() as session, session.begin():
        put_trial_into_outbox(session, rule)
    assert reporter.send() == ["test", "failing"]
    reporter.write()
    reporter.tables("UPDATE notice SET due = now() + interval '1 hour' WHERE occasion = 'report'")
    reporter.tables("UPDATE notice SET created = now() - interval '1 hour' WHERE occasion = 'test'")
    with database.session() as session, session.begin():
        put_trial_into_outbox(session, rule)
    assert reporter.send() == ["test"]


def test_each_recipient_has_a_report_in_the_language_of_the_rule(reporter: Reporter) -> None:
    reporter.announcer.rule(target=f"{MAILBOX}, jan@library.example")
    reporter.announcer.rule(target="eva@library.example", language="cs")
    reporter.fail(*range(5))
    reporter.collect()
    reporter.tables("UPDATE notice_rule SET language = 'sk' WHERE rule_id = 1")
    assert reporter.write() == 3
    rows = reporter.tables("SELECT target, language FROM notice WHERE occasion = 'report' ORDER BY notice_id")
    assert [tuple(row) for row in rows] == [
        (MAILBOX, "sk"),
        ("jan@library.example", "sk"),
        ("eva@library.example", "cs"),
    ]
    subjects = {
        Language.CZECH: "2 oznámení: 2 sklizně selhaly",
        Language.SLOVAK: "2 oznámenia: 2 zbery zlyhali",
    }
    for language, subject in subjects.items():
        assert render("report", language, reporter.report(), dashboard=None).subject == subject


def test_a_removed_rule_gets_no_report_and_removed_repositories_keep_their_names(
    database: Database, reporter: Reporter
) -> None:
    reporter.announcer.rule()
    reporter.announcer.rule(target="jan@library.example")
    reporter.fail(*range(5))
    reporter.collect()
    reporter.send()
    reporter.tables("DELETE FROM oai_history")
    reporter.tables("DELETE FROM oai_repository")
    with database.session() as session, session.begin():
        remove_rule(session, 2)
    assert reporter.write() == 1
    (group,) = reporter.report()["groups"]
    assert [entry["repository_name"] for entry in group["entries"]] == ["Library 3", "Library 4"]


def test_a_report_and_its_notices_are_deleted_together(database: Database, reporter: Reporter) -> None:
    reporter.announcer.rule()
    reporter.fail(*range(5))
    reporter.collect()
    reporter.write()
    reporter.send()
    reporter.tables("UPDATE notice SET ended = now() - interval '91 days' WHERE state = 'collected'")
    with database.session() as session, session.begin():
        outbox.prune(session)
    assert len(reporter.announcer.states()) == 6
    reporter.tables("UPDATE notice SET ended = now() - interval '91 days' WHERE occasion = 'report'")
    with database.session() as session, session.begin():
        outbox.prune(session)
    assert reporter.announcer.states() == ["sent"] * 3


def test_notices_are_listed_by_their_report_with_its_state(database: Database, reporter: Reporter) -> None:
    reporter.announcer.rule()
    reporter.fail(*range(5))
    reporter.collect()
    reporter.write()
    reporter.send()
    number = reporter.report()["report"]
    with database.session() as session:
        found = outbox.list_notices(session, report_id=number)
    assert [(one.notice_id, one.report_id, one.report_state) for one in found] == [
        (5, 6, "sent"),
        (4, 6, "sent"),
    ]


def _names(number: int) -> Mapping[str, Any]:
    return {"repository_name": f"Library {number}" * 6, "metadata_prefix": "oai_dc", "set_spec": "s" * 62}


@pytest.mark.parametrize("groups", [1, 60])
@pytest.mark.parametrize("language", Language)
def test_a_chat_message_keeps_to_its_length_limit(language: Language, groups: int) -> None:
    numbers = dict.fromkeys(("history_id", "recurring_id", "job_id", "audit_id"), 5)
    entry = {**numbers, "reason": "r" * 200, "request": "", "at": "2026-01-01T00:00:00+00:00"}
    group = {
        "kind": "failing",
        "failure": {"code": "not_oai_pmh"},
        "advice": True,
        "count": 5000,
        "entries": [{**_names(number), **entry} for number in range(50)],
    }
    facts = {
        "report": 7, "short": False, "count": 300_000, "since": "2026-01-01T00:00:00+00:00",
        "kinds": [["failing", 300_000]], "groups": [group] * groups,
    }  # fmt: skip
    dashboard = "https://zatva.example"
    letter = render("report", language, facts, dashboard=dashboard, most=LONGEST_CHAT)
    assert len(letter.subject) + len(letter.body) <= LONGEST_CHAT
    assert "report=7" in letter.body
    assert ("Library 0" in letter.body) == (groups == 1)


@pytest.mark.parametrize("language", Language)
@pytest.mark.parametrize(("number", "shown"), [(9, 9), (20, 12)])
def test_a_chat_message_leaves_out_entries_and_advice_and_then_the_last_groups(
    language: Language, number: int, shown: int
) -> None:
    codes = [FailureCode.HTTP_STATUS, FailureCode.OTHER, FailureCode.TLS] * 7
    numbers = dict.fromkeys(("history_id", "recurring_id", "job_id", "audit_id"), 5)
    entry = {**_names(0), **numbers, "reason": "r" * 200, "request": "", "at": "2026-01-01T00:00:00+00:00"}
    groups = [
        {
            "kind": "suspended",
            "failure": {"code": code},
            "advice": True,
            "count": 1000 + place,
            "entries": [entry] * 3,
        }
        for place, code in enumerate(codes[:number])
    ]
    facts = {
        "report": 7, "short": False, "count": 300_000, "since": "2026-01-01T00:00:00+00:00",
        "kinds": [["suspended", 300_000]], "groups": groups,
    }  # fmt: skip
    letter = render("report", language, facts, dashboard=None, most=LONGEST_CHAT)
    assert len(letter.subject) + len(letter.body) <= LONGEST_CHAT
    found = [place for place in range(number) if str(1000 + place)[1:] in letter.body]
    assert found == list(range(shown))
    advice = explained(Failure(code=codes[0]), language).todo
    assert (advice in letter.body, "Library" in letter.body) == (number == 9, number == 9)


async def test_a_report_to_a_service_keeps_to_the_length_limit(
    settings: Settings, reporter: Reporter, monkeypatch: pytest.MonkeyPatch
) -> None:
    reporter.announcer.rule(channel="service", target="team")
    reporter.fail(*range(70))
    reporter.collect()
    reporter.write()
    claimed = [one for one in reporter.claim(Channel.SERVICE) if one.occasion == "report"]
    letters: list[Letter] = []

    async def send(_name: str, letter: Letter, *_settings: object) -> None:
        letters.append(letter)

    monkeypatch.setattr(services, "send", send)
    await deliver(claimed[0], settings)
    assert len(letters[0].subject) + len(letters[0].body) <= LONGEST_CHAT
    assert letters[0].body.count("Library ") == 12
    assert "… and 55 more" in letters[0].body


async def _sent(settings: Settings, database: Database, server: MailServer, *, ticks: int = 1) -> None:
    sending = outgoing(settings, mail_port=server.port)
    manager = sending.manager.model_copy(update={"notices_at_once": _LIMIT})
    async with notice_sender(sending.model_copy(update={"manager": manager}), database) as tick:
        for _ in range(ticks):
            await tick()


async def test_a_report_is_sent_by_the_manager_that_leads_next(
    settings: Settings, database: Database, reporter: Reporter
) -> None:
    reporter.announcer.rule()
    for number in range(5):
        reporter.announcer.run("failed", set_spec=str(number))
    async with mail_server() as server:
        await _sent(settings, database, server, ticks=3)
        assert reporter.announcer.states() == ["sent"] * 3 + ["collected"] * 2
        reporter.tables("UPDATE notice SET due = now() WHERE state = 'collected'")
        await _sent(settings, database, server)
        await _sent(settings, database, server)
    assert reporter.announcer.states() == ["sent"] * 3 + ["collected"] * 2 + ["sent"]
    assert len(server.mails) == 4
    assert server.mails[-1].message["Subject"] == "[Zatva] 2 notifications: 2 harvests failed"


async def test_a_rejected_report_is_sent_again_without_names(
    settings: Settings, database: Database, reporter: Reporter
) -> None:
    reporter.announcer.rule()
    reporter.fail(*range(5))
    reporter.make_report()
    async with mail_server() as server:
        server.refuse(".", "554 5.7.1 looks like spam")
        await _sent(settings, database, server)
        assert "looks like spam" in reporter.tables.one("SELECT last_error FROM notice WHERE notice_id = 6")
        await _sent(settings, database, server)
        (mail,) = server.mails
        assert "Library" not in mail.text
        assert "`zatva notify sent --report 6`" in mail.text
    assert reporter.announcer.states()[-1] == "sent"


async def test_a_report_that_is_rejected_in_both_forms_is_given_up(
    settings: Settings, database: Database, reporter: Reporter
) -> None:
    reporter.announcer.rule()
    reporter.fail(*range(5))
    reporter.make_report()
    async with mail_server() as server:
        server.refuse("RCPT", *["550 no such mailbox"] * 2)
        await _sent(settings, database, server, ticks=3)
    assert server.mails == []
    assert reporter.announcer.states()[-1] == "given up"
    assert reporter.tables.one("SELECT tries FROM notice WHERE notice_id = 6") == 2


def test_a_report_that_was_being_sent_when_its_sender_died_is_unsure(
    database: Database, reporter: Reporter
) -> None:
    reporter.announcer.rule()
    reporter.fail(*range(5))
    reporter.make_report()
    reporter.claim()
    reporter.tables("UPDATE notice SET state = 'handed over', expires = now() WHERE notice_id = 6")
    with database.session() as session, session.begin():
        assert outbox.take_up_abandoned(session) == 1
    assert reporter.announcer.states()[3:] == [NoticeState.COLLECTED] * 2 + [NoticeState.UNSURE]


def test_notices_that_waited_before_the_upgrade_are_collected_in_order(reporter: Reporter) -> None:
    reporter.announcer.rule()
    reporter.fail(*range(6))
    reporter.tables(
        "UPDATE notice SET created = now() - interval '1 day', tries = 4, due = now() WHERE notice_id < 6"
    )
    reporter.tables(
        "UPDATE notice SET state = 'claimed', expires = now() + interval '1 hour' WHERE notice_id = 6"
    )
    assert reporter.collect() == ["waiting"] * 2 + ["collected"] * 3 + ["claimed"]

"""Every notice in every language."""

from typing import Any

import pytest

from manager.notices.letters import render
from manager.notices.models import Language, Occasion
from oai.failures import Failure, FailureCode, explained

RUN: dict[str, Any] = {
    "repository_id": 1,
    "repository_name": "City Library",
    "base_url": "https://library.example/oai",
    "admin_email": "keeper@library.example",
    "history_id": 17,
    "job_id": 5,
    "recurring_id": 3,
    "metadata_prefix": "oai_dc",
    "set_spec": "books",
    "status": "failed",
    "verdict": "failed",
    "failure_kind": "timeout",
    "failure": {"code": "timeout", "url": "https://library.example/oai?verb=Identify"},
    "failure_reason": "https://library.example/oai?verb=Identify: no answer",
    "request": "https://library.example/oai?verb=Identify",
    "started": "2026-01-30T01:00:00+00:00",
    "ended": "2026-01-31T03:30:00+00:00",
    "records": 12345,
    **dict.fromkeys(("new", "updated", "unchanged", "deleted", "filtered", "invalid"), 2000),
    "requests": 120,
    "bytes": 1,
    "warnings": ["odd"],
    "warning_count": 4,
    "host": "w1",
    "next": "2026-02-01T01:00:00+00:00",
    "streak": {"began": "2026-01-28T01:00:00+00:00", "failures": 3, "gravity": 2},
    "reason": "so",
    "at": "2026-01-31T03:30:00+00:00",
    "kind": "error",
    "audit_id": 4,
    "findings": [{"kind": "altered", "path": "a/1.xml"}],
    "card": "c" * 22,
    "token": "t" * 22,
    "troubled": 1,
    "changed": 3,
    "errors": 1,
    "examples": [{"identifier": "oai:x:1", "failure": {"code": "record_xml"}}],
    "report": 7,
    "short": False,
    "count": 3,
    "kinds": [["failing", 3]],
    "groups": [
        {
            "kind": "failing",
            "failure": {"code": "timeout"},
            "advice": True,
            "count": 3,
            "entries": [
                {
                    "repository_name": "City Library",
                    "metadata_prefix": "oai_dc",
                    "set_spec": "books",
                    "reason": "no answer",
                    "request": "https://library.example/oai?verb=Identify",
                    "at": "2026-01-31T03:30:00+00:00",
                    "history_id": 17,
                    "recurring_id": 3,
                    "job_id": 5,
                    "audit_id": None,
                }
            ],
        }
    ],
}
SUMMARY: dict[str, Any] = {
    **RUN,
    "period": "weekly",
    "since": "2026-01-24T03:30:00+00:00",
    "until": "2026-01-31T03:30:00+00:00",
    "runs": 1200,
    "record": 34567,
    "statuses": {"completed": 1190, "failed": 10},
    "failing": [
        {
            "repository_name": "NLK",
            "metadata_prefix": "mods",
            "set_spec": "",
            "status": "failed",
            "failure_reason": "why",
            "history_id": 9,
        }
    ],
}


@pytest.mark.parametrize("language", Language)
@pytest.mark.parametrize("occasion", Occasion)
@pytest.mark.parametrize("dashboard", [None, "https://zatva.example/"])
def test_every_notice_can_be_rendered(language: Language, occasion: Occasion, dashboard: str | None) -> None:
    facts = {**SUMMARY, "organisation": "City Library", "link": f"{dashboard}alerts/confirm?address=1"}
    letter = render(occasion, language, facts, dashboard=dashboard)
    assert letter.subject
    assert "\n" not in letter.subject
    assert "City Library" in letter.subject + letter.body
    assert "{" not in letter.body
    assert "\n\n\n" not in letter.body
    if dashboard and occasion is not Occasion.TEST:
        assert "https://zatva.example/" in letter.body
        assert "example//" not in letter.body
    if occasion is Occasion.DIGEST:
        assert "oai:x:1" in letter.body
        assert f"/cards/{'c' * 22}" in letter.body
        assert f"/digests/{'t' * 22}" in letter.body


@pytest.mark.parametrize("language", Language)
def test_each_failure_code_has_its_own_text_in_letters(language: Language) -> None:
    bodies = {
        render(Occasion.STILL_FAILING, language, {**RUN, "failure": {"code": code}}, dashboard=None).body
        for code in FailureCode
    }
    assert len(bodies) == len(FailureCode)


def test_a_notice_of_an_earlier_version_can_still_be_rendered() -> None:
    facts = {name: value for name, value in RUN.items() if name != "failure"}
    body = render(Occasion.STILL_FAILING, "en", facts, dashboard=None).body
    assert "The harvest failed for an unusual reason." in body


def test_the_letter_about_a_held_run_names_the_command_to_approve_it() -> None:
    facts = {**RUN, "failure_kind": "held", "failure": {"code": "held"}}
    held = render(Occasion.FAILING, "en", facts, dashboard=None).body

    assert "approve the run if they are correct. To approve it, use `zatva job release 17`.\n" in held


@pytest.mark.parametrize("language", list(Language))
@pytest.mark.parametrize(
    ("occasion", "kind", "page", "command"),
    [
        (Occasion.FAILING, "argument", "repositories/1/doctor", "zatva probe"),
        (Occasion.FAILING, "held", "runs/17", "zatva job release 17"),
        (Occasion.FAILING, "records", "runs/17/errors", "zatva job errors 17"),
        (Occasion.SUSPENDED, "timeout", "schedules", "zatva schedule resume 3"),
        (Occasion.STUCK, "timeout", "jobs/5", "zatva job list"),
        (Occasion.SET_ASIDE, "timeout", "jobs", "zatva job resume 5"),
    ],
)
def test_letters_name_pages_of_the_dashboard_or_commands_if_its_address_is_not_known(
    language: Language, occasion: Occasion, kind: str, page: str, command: str
) -> None:
    facts = {**RUN, "failure_kind": kind}

    with_pages = render(occasion, language, facts, dashboard="https://zatva.example").body
    with_commands = render(occasion, language, facts, dashboard=None).body

    assert f"https://zatva.example/{page}\n" in with_pages
    assert "`zatva" not in with_pages
    assert f"`{command}`" in with_commands
    assert "https://zatva.example" not in with_commands


HELD_RUN: dict[str, Any] = {
    **RUN,
    "status": "held",
    "failure_kind": "held",
    "failure": {"code": "held"},
    "failure_reason": "held by the mass-change guard: …",
    "held": {
        "kind": "deletions",
        "would_delete": 3000,
        "would_update": 0,
        "active": 4000,
        "allowed": 12.5,
        "sample": ["oai:x:1", "oai:x:2"],
    },
}


@pytest.mark.parametrize("occasion", [Occasion.FAILING, Occasion.STILL_FAILING, Occasion.ENDED])
@pytest.mark.parametrize(
    ("language", "changes"),
    [
        ("en", "it would delete 3,000 of 4,000 records; without approval, a run may delete at most 12.5 %."),
        (
            "cs",
            "3\u00a0000 z celkového počtu 4\u00a0000 záznamů; bez schválení smí běh smazat nejvýše 12,5 %",
        ),
        (
            "sk",
            "3\u00a0000 z celkového počtu 4\u00a0000 záznamov; bez schválenia smie beh zmazať najviac 12,5 %",
        ),
    ],
)
def test_message_about_a_held_run_names_its_changes_and_the_page_that_decides(
    language: str, changes: str, occasion: Occasion
) -> None:
    body = render(occasion, language, HELD_RUN, dashboard="https://zatva.example").body
    assert changes in body
    assert "\n- oai:x:1\n- oai:x:2\n" in body
    assert ": https://zatva.example/runs/17#held\n" in body
    assert "mass-change guard: …" not in body


def test_message_about_held_updates_says_how_many_records_would_change() -> None:
    held = {**HELD_RUN["held"], "kind": "updates", "would_delete": 0, "would_update": 3000, "sample": []}
    body = render(Occasion.FAILING, "en", {**HELD_RUN, "held": held}, dashboard=None).body
    assert "it would change at least 3,000 of 4,000 records; without approval, a run may change" in body
    assert "Some of these records" not in body


@pytest.mark.parametrize(
    ("language", "job", "schedule"),
    [
        ("en", "Job rejected: City Library", "Schedule rejected: City Library"),
        ("cs", "Úloha zamítnuta: City Library", "Plán zamítnut: City Library"),
        ("sk", "Úloha zamietnutá: City Library", "Plán zamietnutý: City Library"),
    ],
)
def test_letters_distinguish_a_rejected_job_from_a_rejected_schedule(
    language: str, job: str, schedule: str
) -> None:
    base_url = "https://zatva.example"
    for numbers, subject, page in (
        ({"job_id": 5, "recurring_id": None}, job, "jobs"),
        ({"job_id": 5, "recurring_id": 3}, job, "jobs"),
        ({"job_id": None, "recurring_id": 3}, schedule, "schedules"),
    ):
        letter = render(Occasion.SET_ASIDE, language, {**RUN, **numbers}, dashboard=base_url)
        assert letter.subject == subject
        assert f"{base_url}/{page}" in letter.body
        assert "None" not in letter.body
        assert "`zatva" not in letter.body
        commands = render(Occasion.SET_ASIDE, language, {**RUN, **numbers}, dashboard=None).body
        assert ("`zatva job resume 5`" in commands) is (page == "jobs")


@pytest.mark.parametrize("occasion", [Occasion.SUSPENDED, Occasion.SET_ASIDE])
@pytest.mark.parametrize(
    ("language", "explanation"),
    [
        ("en", "The answer took too long."),
        ("cs", "Odpověď trvala příliš dlouho."),
        ("sk", "Odpoveď trvala príliš dlho."),
    ],
)
def test_message_about_a_stopped_schedule_explains_the_failure_in_its_language(
    language: str, explanation: str, occasion: Occasion
) -> None:
    facts = {**RUN, "failure": {"code": "timeout"}, "job_id": None}
    assert explanation in render(occasion, language, facts, dashboard=None).body


@pytest.mark.parametrize(
    ("language", "subject"),
    [("en", "Completed with errors"), ("cs", "Dokončeno s chybami"), ("sk", "Dokončené s chybami")],
)
def test_a_harvest_with_missing_records_is_not_called_failed(language: str, subject: str) -> None:
    facts = {
        **RUN,
        "status": "completed with errors",
        "failure_kind": "missing",
        "failure": {"code": "records_missing", "count": 470},
    }
    letter = render(Occasion.FAILING, language, facts, dashboard=None)
    assert letter.subject.startswith(f"{subject}: City Library")


def test_letters_are_translated_and_format_numbers_and_times_by_language() -> None:
    english, czech = (
        render("works again", language, RUN, dashboard=None, zone=zone)
        for language, zone in (("en", "UTC"), ("cs", "Europe/Prague"))
    )
    assert english.subject == "Works again: City Library, oai_dc, set books"
    assert czech.subject == "Zase funguje: City Library, oai_dc, sada books"
    assert "12,345" in english.body
    assert "12\u00a0345" in czech.body
    assert "for 3 d 2 h, since 28 Jan 2026 01:00;" in english.body
    assert "od 28. 1. 2026 2:00;" in czech.body
    assert english.body.endswith("\n\nTimes are in the time zone UTC.\n")
    assert czech.body.endswith("\n\nČasy jsou v pásmu Europe/Prague.\n")


@pytest.mark.parametrize(
    ("language", "runs", "subject"),
    [
        ("en", 0, "Weekly summary: 0 harvests, 1 failing source (City Library)"),
        ("en", 1, "Weekly summary: 1 harvest, 1 failing source (City Library)"),
        ("cs", 0, "Týdenní souhrn: 0 sklizní, 1 selhávající zdroj (City Library)"),
        ("cs", 3, "Týdenní souhrn: 3 sklizně, 1 selhávající zdroj (City Library)"),
        ("sk", 5, "Týždenný súhrn: 5 zberov, 1 zlyhávajúci zdroj (City Library)"),
    ],
)
def test_subject_of_a_summary_has_plurals_of_its_language(language: str, runs: int, subject: str) -> None:
    assert render(Occasion.SUMMARY, language, {**SUMMARY, "runs": runs}, dashboard=None).subject == subject


def test_message_about_a_failure_explains_it_before_the_advice() -> None:
    body = render(Occasion.FAILING, "en", RUN, dashboard=None).body
    assert "\n\nThe answer took too long.\n\nWhat to do: The repository may be overloaded" in body


@pytest.mark.parametrize(
    ("language", "kind", "words"),
    [("en", "error", "(failures)"), ("cs", "error", "(selhání)"), ("sk", "weekly", "(týždenný súhrn)")],
)
def test_a_test_message_names_the_kind_of_its_rule_and_no_command(
    language: str, kind: str, words: str
) -> None:
    facts = {"repository_name": "City Library", "kind": kind, "at": "2026-01-28T01:00:00Z"}
    body = render(Occasion.TEST, language, facts, dashboard=None).body
    assert f"City Library {words}" in body
    assert "zatva notify" not in body


def test_line_breaks_in_foreign_text_are_removed() -> None:
    evil = {**RUN, "repository_name": "A\r\nBcc: all@x.example\x00\u2028B", "failure_reason": "a\n\nb"}
    letter = render("failing", "en", evil, dashboard=None)
    assert letter.subject == "Harvest failed: A Bcc: all@x.example B, oai_dc, set books"
    assert "Reason: a b" in letter.body


@pytest.mark.parametrize(
    ("ended", "shown"), [("01:45", "for 45 min"), ("03:30", "for 2 h 30 min"), ("00:59", "for 0 min")]
)
def test_a_duration_below_a_day_is_written_in_hours_and_minutes(ended: str, shown: str) -> None:
    streak = {"began": "2026-01-31T01:00:00+00:00", "failures": 3, "gravity": 2}
    facts = {**RUN, "ended": f"2026-01-31T{ended}:00+00:00", "streak": streak}
    assert f"{shown}, since" in render("works again", "en", facts, dashboard=None).body


@pytest.mark.parametrize(
    ("language", "translated", "unexplained"),
    [
        ("en", "Warning: An answer could not be read", "Warning: odd"),
        ("cs", "Varování: Odpověď nebylo možné", "Varování (anglicky): odd"),
        ("sk", "Varovanie: Odpoveď sa nedala", "Varovanie (po anglicky): odd"),
    ],
)
def test_warnings_with_a_code_are_in_the_readers_language(
    language: str, translated: str, unexplained: str
) -> None:
    failures = [{"code": "answer_in_parts"}, None]
    facts = {**RUN, "warnings": ["the answer is not well-formed", "odd"], "warning_failures": failures}

    lines = render(Occasion.ENDED, language, facts, dashboard=None).body.splitlines()

    assert any(line.startswith(translated) for line in lines), lines
    assert unexplained in lines
    assert not any("well-formed" in line for line in lines)


@pytest.mark.parametrize("language", ["en", "cs", "sk"])
def test_a_warning_says_what_to_do(language: str) -> None:
    place = {"url": "http://a.example/oai", "target": "https://b.example/oai", "number": 1}
    failure = {"code": "address_moved", "facts": place}
    facts = {**RUN, "warnings": ["moved"], "warning_failures": [failure]}

    body = render(Occasion.ENDED, language, facts, dashboard=None).body

    todo = explained(Failure(code=FailureCode.ADDRESS_MOVED, facts=place), language, str).todo
    assert todo
    assert todo in body


@pytest.mark.parametrize(
    ("language", "subject"),
    [
        ("en", 'Harvest failed: "Library \'A\' \'B\'", "oai_dc", set "books"'),
        ("cs", "Sklizeň selhala: „Library 'A' 'B'“, „oai_dc“, sada „books“"),
        ("sk", "Zber zlyhal: „Library 'A' 'B'“, „oai_dc“, sada „books“"),
    ],
)
def test_subjects_of_mails_quote_names_as_their_language_does(language: str, subject: str) -> None:
    facts = {**RUN, "repository_name": 'Library "A" “B”'}

    letter = render(Occasion.FAILING, language, facts, dashboard=None, mail=True)

    assert letter.subject == subject


@pytest.mark.parametrize(("length", "expected"), [(1080, 1080 * "x"), (1081, 1080 * "x" + " …")])
def test_foreign_text_is_cut_after_1080_characters(length: int, expected: str) -> None:
    facts = {**RUN, "warnings": [length * "x"]}
    body = render(Occasion.FAILING, "en", facts, dashboard=None).body
    assert expected in body.splitlines() or any(line.endswith(expected) for line in body.splitlines())
    assert 1081 * "x" not in body


@pytest.mark.parametrize(
    ("language", "dashboard", "expected"),
    [
        ("en", None, "To stop it, ask alena or zatva@library.example to remove your address.\n"),
        ("en", "https://zatva.example/", "change or remove the rule: https://zatva.example/alerts/rules/7\n"),
        ("cs", "https://zatva.example/", "nebo odstraňte: https://zatva.example/alerts/rules/7\n"),
        ("sk", "https://zatva.example/", "alebo odstráňte: https://zatva.example/alerts/rules/7\n"),
    ],
)
def test_mail_ends_with_who_ordered_it_and_how_to_stop_it(
    language: str, dashboard: str | None, expected: str
) -> None:
    subscription = {"rule_id": 7, "ordered_by": "alena", "contact": "zatva@library.example"}
    body = render(
        Occasion.FAILING, language, RUN, dashboard=dashboard, mail=True, subscription=subscription
    ).body
    _, _, ending = body.partition("\n\n" + {"en": "You", "cs": "Tuto", "sk": "Túto"}[language])
    assert "alena" in ending.splitlines()[0]
    assert expected in ending


def test_mail_of_a_rule_that_nobody_is_known_for_names_the_administrator() -> None:
    subscription = {"rule_id": 7, "ordered_by": None, "contact": None}
    body = render(Occasion.FAILING, "en", RUN, dashboard=None, subscription=subscription).body
    assert "because of notification rule 7.\nTo stop it, ask the administrator of Zatva to" in body

"""Every notice in every language."""

from typing import Any

import pytest

from manager.notices.advice import KINDS, kind_of_failure, request_in, words_of
from manager.notices.models import Language, Occasion
from manager.notices.rendering import render

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
def test_every_notice_can_be_written(language: Language, occasion: Occasion, dashboard: str | None) -> None:
    letter = render(occasion, language, SUMMARY, dashboard=dashboard)
    assert letter.subject
    assert "\n" not in letter.subject
    assert "City Library" in letter.subject + letter.body
    assert "{" not in letter.body
    assert "\n\n\n" not in letter.body
    if dashboard and occasion is not Occasion.TEST:
        assert "https://zatva.example/" in letter.body
        assert "example//" not in letter.body


@pytest.mark.parametrize("language", Language)
def test_each_kind_of_failure_has_its_own_advice_in_each_language(language: Language) -> None:
    bodies = {
        render(Occasion.STILL_FAILING, language, {**RUN, "failure_kind": kind}, dashboard=None).body
        for kind in KINDS
    }
    assert len(bodies) == len(KINDS)


def test_each_kind_of_failure_is_told_by_itself_and_in_words_of_each_language() -> None:
    told = [words_of(kind, language) for kind in KINDS for language in Language]

    assert len({words.what for words in told}) == len(KINDS) * len(Language)
    assert all(text.endswith(".") for words in told for text in (words.what, words.todo))
    assert words_of("of a later version", "cs") == words_of("other", "cs")


def test_letters_name_the_command_where_one_helps() -> None:
    held = render(Occasion.FAILING, "en", {**RUN, "failure_kind": "held"}, dashboard=None).body

    assert "release it if that is right. `zatva job release 17` says yes.\n" in held


def test_languages_differ_and_numbers_are_written_as_their_readers_do() -> None:
    english, czech = (render("works again", language, RUN, dashboard=None) for language in ("en", "cs"))
    assert english.subject == "Works again: City Library, oai_dc, set books"
    assert czech.subject == "Zase funguje: City Library, oai_dc, sada books"
    assert "12,345" in english.body
    assert "12\u00a0345" in czech.body
    assert "for 3 d 2 h, since 2026-01-28 01:00 UTC" in english.body


def test_words_from_elsewhere_stay_on_their_line() -> None:
    evil = {**RUN, "repository_name": "A\r\nBcc: all@x.example\x00\u2028B", "failure_reason": "a\n\nb"}
    letter = render("failing", "en", evil, dashboard=None)
    assert letter.subject == "Harvest fails: A Bcc: all@x.example B, oai_dc, set books"
    assert "Reason: a b" in letter.body


@pytest.mark.parametrize(
    ("reason", "kind"),
    [
        ("https://x.example/oai: Name or service not known", "name"),
        ("https://x.example/oai: connection refused", "refused"),
        ("https://x.example/oai: TLS: certificate has expired", "certificate"),
        ("https://x.example/oai: HTTP status 404 Not Found", "gone"),
        ("https://x.example/oai: HTTP status 503, come back in 60 seconds", "busy"),
        ("https://x.example/oai: HTTP status 502", "server"),
        ("https://x.example/oai: badArgument: until is odd", "argument"),
        ("https://x.example/oai: badResumptionToken", "token"),
        (
            "https://x.example/oai: no answer that is XML; it begins with '<html>'. Is this the base URL?",
            "not oai",
        ),
        ("https://tls.timeout.example/oai: something else", "other"),
        ("process 5 on host 'w' was ended by signal 9", "process"),
        ("https://x.example/oai: the connection broke (Connection reset by peer)", "disconnected"),
        ("an answer broke off before the list's end, twice", "disconnected"),
        ("https://x.example/oai: no whole answer in time; see setting timeout", "timeout"),
        (
            "https://x.example/oai: redirected to 'ftp://x', an address that is neither http nor https",
            "redirect",
        ),
        ("https://x.example/oai: HTTP status 400 Bad Request", "http"),
        (
            "https://x.example/oai: the answer is larger than 1,000 bytes; see setting max_answer_bytes",
            "large",
        ),
        ("https://x.example/oai: the address is not on the public internet; see setting x", "private"),
        ("https://x.example/sru: diagnostic 66: 'mods' is none of the schemas", "format"),
        ("https://x.example/sru: diagnostic 10: query syntax error", "argument"),
        ("record 'oai:x:1' is not valid: no title", "invalid"),
        ("7 records that the repository announced did not come", "missing"),
        ("a list ended in noRecordsMatch instead of a last page", "missing"),
        ("repository 3 is being harvested; try again when that is done", "running"),
        ("interrupted", "interrupted"),
        ("database: connection refused; see that the server runs and can be reached", "database"),
        ("KeyError: 'x'", "fault"),
        ("OSError: [Errno 28] No space left on device", "disk"),
        (
            "held: it would delete 9 of 10 records; released 2026-01-01T00:00:00Z: 9 records deleted",
            "released",
        ),
        (None, "other"),
    ],
)
def test_the_kind_of_a_failure_is_known_by_its_reason(reason: str | None, kind: str) -> None:
    assert kind_of_failure("failed", reason) == kind


def test_the_status_tells_the_kind_where_the_reason_does_not() -> None:
    released = "held: it would delete 9 of 10 records; released 2026-01-01T00:00:00Z: 9 records deleted"

    assert kind_of_failure("lost", "HTTP status 500") == "process"
    assert kind_of_failure("held", "held: it would delete 9 of 10 records") == "held"
    assert kind_of_failure("held", released) == "released"
    assert kind_of_failure("completed with errors", None) == "records"
    assert (
        kind_of_failure("completed with errors", "7 records that the repository announced did not come")
        == "missing"
    )


def test_the_request_is_taken_from_the_reason() -> None:
    assert (
        request_in("https://x.example/oai?verb=Identify: HTTP status 500")
        == "https://x.example/oai?verb=Identify"
    )
    assert request_in("the disk is full") is None

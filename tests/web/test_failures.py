"""Why something failed, for a librarian who reads no English, and what the lists say beside it."""

from collections.abc import Iterator
from typing import Any

import pytest
from lxml import html
from sqlalchemy import text

from harvester.vocabulary import MADE_UP, RunStatus
from manager.failures import IN_A_ROW
from manager.models import RecurringState
from manager.notices.advice import KINDS, words_of
from manager.recognising import SENTENCES
from tests.web.conftest import Browser, Server
from tests.web.rows import a_repository, a_run, a_schedule
from web.failures import failure_of, noted, set_aside, waiting_for
from web.languages import LANGUAGES, SOURCE, speak

_TIMEOUT = "https://telc.example/oai?verb=ListRecords: no whole answer in time; see setting timeout"
_FAILED = {"status": RunStatus.FAILED, "verdict": "failed"}


@pytest.fixture
def czech() -> Iterator[None]:
    """The reader's language is Czech."""
    speak("cs")
    yield
    speak(SOURCE)


async def _reads_czech(browser: Browser) -> None:
    await browser.post("/account/language", {"language": "cs"})


def _shown(page: str, row: str) -> list[tuple[str, str]]:
    """The sentence of each failure in a row, and the technical text behind it."""
    root: Any = html.fromstring(page)
    (found,) = root.xpath(f"//*[@id='{row}']")
    return [
        (why.text_content(), str(why.xpath("string(following-sibling::*[1][@lang='en'])")))
        for why in found.xpath(".//*[@class='why']")
    ]


@pytest.mark.parametrize("kind", KINDS)
def test_each_kind_has_its_sentence_in_each_language(kind: str) -> None:
    told = {words_of(kind, language).what for language in LANGUAGES}

    assert len(told) == len(LANGUAGES)


@pytest.mark.usefixtures("czech")
@pytest.mark.parametrize("sentence", SENTENCES)
def test_what_the_manager_says_is_said_in_czech(sentence: str) -> None:
    process = "process 7 on host 'w1'"
    values = dict.fromkeys(("number", "host", "signal", "code", "count", "schedule", "end"), "7")
    times = dict.fromkeys(("first", "last"), "2026-01-02T03:04:05Z")
    inner = {"process": process, "when": "due at 2026-01-02T03:04:05Z", "reason": _TIMEOUT}
    reason = sentence % {**values, **times, **inner}

    failure = failure_of(reason)

    assert failure is not None
    assert failure.kind == "known"
    assert failure.what.endswith(".")
    assert failure.technical == (reason if sentence == IN_A_ROW else "")
    english = {"process 7", "on host", "due", "the", "job", "and", "harvest"}
    assert not [word for word in english if f" {word} " in f" {failure.what.lower()} "]


@pytest.mark.usefixtures("czech")
def test_a_reason_without_words_of_ours_comes_by_its_kind_with_its_own_words_behind() -> None:
    failure = failure_of(_TIMEOUT)

    assert failure is not None
    assert (failure.what, failure.technical) == ("Odpověď trvala příliš dlouho.", _TIMEOUT)
    assert failure.todo.startswith("Repozitář může být přetížen")
    assert failure_of(None) is None


@pytest.mark.usefixtures("czech")
def test_the_last_words_of_a_process_stay_as_they_are() -> None:
    failure = failure_of("process 7 on host 'w1' was ended by signal 9; the last it said: MemoryError")

    assert failure is not None
    assert failure.what == "Proces 7 na počítači 'w1' byl ukončen signálem 9."
    assert failure.technical == "MemoryError"


@pytest.mark.usefixtures("czech")
def test_of_a_suspended_schedule_the_last_failure_is_told() -> None:
    failure = set_aside(IN_A_ROW % {"count": 3, "reason": _TIMEOUT, "schedule": 1})

    assert failure is not None
    assert failure.what == (
        "Počet selhání za sebou: 3; plán čeká, až jej někdo obnoví. Odpověď trvala příliš dlouho."
    )


@pytest.mark.usefixtures("czech")
@pytest.mark.parametrize(
    ("reason", "kind"),
    [
        ("end_date 1 is before start_date 2", "plan"),
        ("filter_file_path '/f.xml': line 3: no such element", "rules"),
        ("its end date 2026-01-02 00:00:00+00:00 has come", "known"),
    ],
)
def test_a_schedule_that_makes_no_sense_says_so(reason: str, kind: str) -> None:
    failure = set_aside(reason)

    assert failure is not None
    assert failure.kind == kind
    assert failure.what == words_of(kind, "cs").what or kind == "known"
    assert failure.technical == ("" if kind == "known" else reason)


@pytest.mark.usefixtures("czech")
def test_a_harvest_that_waits_says_for_what_and_until_when() -> None:
    failure = waiting_for("until 2026-01-02T03:04:05Z: HTTP status 503")

    assert failure.what == (
        "Repozitář nás požádal, abychom přišli později. Znovu se zeptá v 2026-01-02 03:04:05 UTC."
    )
    assert noted("waiting until 2026-01-02T03:04:05Z: HTTP status 503").what == failure.what
    assert waiting_for("60 seconds").what == words_of("busy", "cs").what


@pytest.mark.usefixtures("czech")
@pytest.mark.parametrize(
    ("note", "what"),
    [
        (_TIMEOUT, "Odpověď trvala příliš dlouho."),
        ("https://x.example/oai, byte 1: record 'a': tag mismatch", "Záznam je poškozené XML"),
        ("the answer says another encoding than it has", "Něco nebylo v pořádku"),
    ],
)
def test_a_note_of_a_harvest_that_goes_on_is_no_failure_of_it(note: str, what: str) -> None:
    assert noted(note).what.startswith(what)


async def test_lists_tell_failures_in_the_readers_language(server: Server, administrator: Browser) -> None:
    with server.database.session() as session:
        telc = a_repository(session)
        a_run(session, telc, **_FAILED, failure_reason=_TIMEOUT)
        schedule = a_schedule(session, telc)
        schedule.state, schedule.state_reason = RecurringState.SET_ASIDE, "frequency 'x': not understood"
        session.execute(
            text(
                "INSERT INTO oai_job (repository_id, metadata_prefix, status, waiting)"
                """ VALUES (1, 'marc21', 8, '{"code": "set aside", "text": "files_per_dir 0: give 1"}')"""
            )
        )
        session.commit()
    await _reads_czech(administrator)

    for address, row, sentence, technical in (
        ("/runs", "run-1", "Odpověď trvala příliš dlouho.", _TIMEOUT),
        ("/repositories/1", "run-1", "Odpověď trvala příliš dlouho.", _TIMEOUT),
        ("/schedules", "schedule-1", words_of("plan", "cs").what, "frequency 'x': not understood"),
        ("/jobs", "job-1", words_of("plan", "cs").what, "files_per_dir 0: give 1"),
    ):
        _, page = await administrator.get(address)
        assert _shown(page, row) == [(sentence, technical)], address


async def test_the_runs_page_tells_the_failure_in_its_summary_with_what_to_do(
    server: Server, administrator: Browser
) -> None:
    with server.database.session() as session:
        a_run(session, a_repository(session), **_FAILED, failure_reason=_TIMEOUT)
        session.commit()
    await _reads_czech(administrator)

    _, page = await administrator.get("/runs/1")
    _, errors = await administrator.get("/runs/1/errors")

    assert "<p>Odpověď trvala příliš dlouho.</p>" in page
    assert "<p>Repozitář může být přetížen; často pomůže menší výběr" in page
    assert f'<span lang="en">{_TIMEOUT}</span>' in page
    assert "Odpověď trvala příliš dlouho." in errors


@pytest.mark.parametrize(("protocol", "word"), [("oai-pmh", "sada"), ("sru", "dotaz"), ("z39.50", "dotaz")])
async def test_what_is_selected_is_called_a_query_where_it_is_one(
    server: Server, administrator: Browser, protocol: str, word: str
) -> None:
    with server.database.session() as session:
        telc = a_repository(session)
        telc.protocol = protocol
        a_schedule(session, telc, set_spec="water")
        a_run(session, telc, **_FAILED, set_spec="water", harvest_end_time=text("now()"))
        session.execute(
            text(
                "INSERT INTO oai_job (repository_id, set_spec, harvest_start_time)"
                " VALUES (1, 'water', now() + interval '1 day')"
            )
        )
        session.commit()
    await _reads_czech(administrator)

    for address in ("/", "/runs", "/schedules", "/jobs", "/repositories/1", "/alerts"):
        _, page = await administrator.get(address)
        assert f'{word} <span class="mono">water</span>' in " ".join(page.split()), address
    _, parameters = await administrator.get("/runs/1/parameters")
    assert f"<dt>{word.capitalize()}</dt><dd>water</dd>" in parameters


async def test_runs_that_the_demo_made_up_say_so_wherever_they_are(
    server: Server, administrator: Browser
) -> None:
    with server.database.session() as session:
        telc = a_repository(session)
        a_run(session, telc, **_FAILED, host=MADE_UP, harvest_end_time=text("now()"))
        a_run(session, telc, host=MADE_UP, process_id=7, metadata_prefix="marc21")
        session.commit()
    await _reads_czech(administrator)

    for address in ("/runs", "/repositories/1", "/"):
        _, page = await administrator.get(address)
        assert page.count("vymyšleno ukázkou") == 1, address
    _, timeline = await administrator.get("/runs?view=timeline")
    _, page = await administrator.get("/runs/1")
    _, real = await administrator.get("/runs/2")

    # In the plot, as title and label, and in its table.
    assert timeline.count("vymyšleno ukázkou") >= 2
    assert "Tento běh si vymyslela ukázka" in page
    assert "Tento běh si vymyslela ukázka" not in real

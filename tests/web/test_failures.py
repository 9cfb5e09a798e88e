"""Why something failed, for a librarian who reads no English, and what the lists say beside it."""

from collections.abc import Iterator
from datetime import UTC, datetime
from typing import Any

import pytest
from lxml import html
from sqlalchemy import text

from harvester.reading.errors import TransportError, TransportKind
from harvester.vocabulary import MADE_UP, RunStatus
from manager.jobs.estimates import JobProgress
from manager.models import RecurringState
from oai.failures import Failure, FailureCode
from oai.languages import SOURCE
from tests.web.conftest import Browser, Server
from tests.web.rows import a_repository, a_run, a_schedule
from web.site.failures import explain, in_words, noted, problem_of
from web.site.i18n import use_language

_TIMEOUT = (
    "https://telc.example/oai?verb=ListRecords: the answer was not complete in time; see setting timeout"
)
_FAILED = {"status": RunStatus.FAILED, "verdict": "failed", "failure_code": "timeout"}
_IMPOSSIBLE = "Naplánovanou sklizeň nelze provést, takže se nic nesklízí."


@pytest.fixture
def czech() -> Iterator[None]:
    """The reader's language is Czech."""
    use_language("cs")
    yield
    use_language(SOURCE)


async def _reads_czech(browser: Browser) -> None:
    await browser.post("/account/language", {"language": "cs"})


@pytest.mark.parametrize("kind", TransportKind)
def test_each_kind_of_lost_connection_has_a_code_and_an_explanation(kind: TransportKind) -> None:
    error = TransportError("https://telc.example/oai", kind, "the technical reason")
    assert error.failure is not None
    assert error.failure.code in FailureCode
    problem = problem_of(error)
    assert problem.title
    assert problem.lines[-1] == "https://telc.example/oai: the technical reason"


def _shown(page: str, row: str) -> list[tuple[str, str]]:
    """The sentence of each failure in a row, and the technical text behind it."""
    root: Any = html.fromstring(page)
    (found,) = root.xpath(f"//*[@id='{row}']")
    return [
        (why.text_content(), str(why.xpath("string(following-sibling::*[1]/*[@lang='en'])")))
        for why in found.xpath(".//*[@class='why']")
    ]


@pytest.mark.usefixtures("czech")
def test_a_failure_is_explained_in_the_readers_language_with_its_technical_reason() -> None:
    found = explain(Failure(code=FailureCode.TIMEOUT), _TIMEOUT)

    assert found is not None
    assert (found.what, found.technical) == ("Odpověď trvala příliš dlouho.", _TIMEOUT)
    assert found.todo.startswith("Repozitář může být přetížen")
    assert explain(None, None) is None


@pytest.mark.usefixtures("czech")
def test_a_reason_without_a_code_is_explained_as_unusual() -> None:
    found = explain(None, "who knows")

    assert found is not None
    assert (found.what, found.technical) == ("Sklizeň selhala z neobvyklého důvodu.", "who knows")


@pytest.mark.usefixtures("czech")
def test_the_technical_reason_of_a_lost_process_is_its_last_message() -> None:
    facts = {"number": 7, "host": "w1", "signal": 9}
    silent = explain(Failure(code=FailureCode.PROCESS_SIGNALLED, facts=facts), "process 7 …")
    with_message = explain(
        Failure(code=FailureCode.PROCESS_SIGNALLED, facts={**facts, "said": "MemoryError"}), "…"
    )

    assert silent is not None
    assert with_message is not None
    assert silent.what == "Proces 7 na počítači w1 byl ukončen signálem 9."
    assert (silent.technical, with_message.technical) == ("", "MemoryError")


@pytest.mark.usefixtures("czech")
def test_the_last_failure_of_a_suspended_schedule_is_explained() -> None:
    last = Failure(code=FailureCode.TIMEOUT).as_json()
    facts = {"count": 3, "schedule": 1, "last": last, "reason": _TIMEOUT}
    found = explain(Failure(code=FailureCode.SCHEDULE_FAILING, facts=facts), "3 runs in a row …")

    assert found is not None
    assert found.what == (
        "Počet neúspěšných běhů za sebou: 3; plán je zastaven, dokud ho někdo neobnoví. "
        "Odpověď trvala příliš dlouho."
    )


@pytest.mark.usefixtures("czech")
def test_times_in_failures_are_written_in_the_readers_language() -> None:
    busy = Failure(code=FailureCode.SERVER_BUSY).as_json()
    words = in_words(Failure(code=FailureCode.WAITING, facts={"until": "2026-01-02T03:04:05Z", "for": busy}))

    assert words.what == (
        "Repozitář žádá, abychom dotaz zopakovali později. Sklizeň to zkusí znovu 2. 1. 2026 3:04."
    )


@pytest.mark.usefixtures("czech")
@pytest.mark.parametrize(
    ("failure", "what"),
    [
        ({"code": "timeout"}, "Odpověď trvala příliš dlouho."),
        ({"code": "record_xml", "fault_key": "0"}, "Záznam je poškozené XML"),
        (None, "Došlo k problému"),
    ],
)
def test_an_error_of_a_continuing_harvest_is_not_shown_as_its_failure(
    failure: dict[str, str] | None, what: str
) -> None:
    found = noted(_progress(last_error="the technical words", last_failure=failure))
    assert found is not None
    assert found.what.startswith(what)
    assert noted(_progress(last_error=None, last_failure=None)) is None


def _progress(**last: Any) -> JobProgress:
    now = datetime(2026, 1, 2, tzinfo=UTC)
    return JobProgress(
        pages=1, records=1, complete_list_size=None, rate=1.0, seconds_left=None, errors=0,
        last_progress=now, **last,
    )  # fmt: skip


async def test_lists_show_failures_in_the_readers_language(server: Server, administrator: Browser) -> None:
    with server.database.session() as session:
        telc = a_repository(session)
        a_run(session, telc, **_FAILED, failure_reason=_TIMEOUT)
        schedule = a_schedule(session, telc)
        schedule.state = RecurringState.SET_ASIDE
        schedule.explain(Failure(code=FailureCode.REQUEST_INVALID), "frequency 'x': not understood")
        session.execute(
            text(
                "INSERT INTO oai_job (repository_id, metadata_prefix, status, waiting)"
                """ VALUES (1, 'marc21', 8, '{"code": "set aside", "text": "files_per_dir 0: give 1"}')"""
            )
        )
        session.commit()
    for address in ("/schedules", "/jobs"):
        _, page = await administrator.get(address)
        assert ("<span>rejected</span>" in page, "<span>set aside</span>" in page) == (True, False), address

    await _reads_czech(administrator)

    for address, row, sentence, technical in (
        ("/runs", "run-1", "Odpověď trvala příliš dlouho.", _TIMEOUT),
        ("/repositories/1", "run-1", "Odpověď trvala příliš dlouho.", _TIMEOUT),
        ("/schedules", "schedule-1", _IMPOSSIBLE, "frequency 'x': not understood"),
        ("/jobs", "job-1", _IMPOSSIBLE, "files_per_dir 0: give 1"),
    ):
        _, page = await administrator.get(address)
        assert _shown(page, row) == [(sentence, technical)], address


async def test_the_page_of_a_run_shows_the_failure_and_advice_in_its_summary(
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


@pytest.mark.parametrize(
    ("code", "continued_by", "advice"),
    [
        ("disk_floor", None, "<p>Free some space; the harvest then resumes by itself where it stopped."),
        ("quota_records", None, "<p>Ask the administrator of Zatva for a higher limit"),
        ("server_busy", None, "<p>No action is needed; if this continues for days, harvest less often"),
        ("disk_floor", 2, "no action needed"),
        (None, None, "no action needed"),
    ],
)
async def test_the_page_of_an_incomplete_run_says_what_to_do_until_it_is_continued(
    server: Server, administrator: Browser, code: str | None, continued_by: int | None, advice: str
) -> None:
    facts = {"free": 1, "floor": 2, "limit": 5, "stored": 20}
    failed = {"failure_code": code, "failure_facts": facts if code else None}
    with server.database.session() as session:
        a_run(
            session, a_repository(session), status=RunStatus.INCOMPLETE, continued_by=continued_by, **failed
        )
        session.commit()

    _, page = await administrator.get("/runs/1")

    assert advice in page
    assert ("no action needed" in page) == (advice == "no action needed")


@pytest.mark.parametrize(
    ("protocol", "word"),
    [
        ("oai-pmh", "sada"),
        ("sru", "dotaz"),
        pytest.param("z39.50", "dotaz", marks=pytest.mark.long),  # like SRU, it is queried
    ],
)
async def test_the_selection_of_a_query_service_is_called_a_query_and_not_a_set(
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


async def test_runs_that_the_demo_generated_are_marked_on_each_page(
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
        assert page.count("vytvořeno pro ukázku") == 1, address
    _, timeline = await administrator.get("/runs?view=timeline")
    _, page = await administrator.get("/runs/1")
    _, real = await administrator.get("/runs/2")

    # In the plot, as title and label, and in its table.
    assert timeline.count("vytvořeno pro ukázku") >= 2
    assert "Tento běh byl vytvořen pro ukázku" in page
    assert "Tento běh byl vytvořen pro ukázku" not in real

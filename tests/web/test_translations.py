"""Czech and Slovak are complete: `python -m tests.messages` adds what is new, and people translate it."""

import re
from collections.abc import Sequence
from contextvars import copy_context

import pytest
from aiohttp import ClientSession
from babel.messages.catalog import Message

from harvester.models import Harvest
from manager.jobs.reasons import Code, WaitReason, in_words
from manager.models import Job, JobStatus
from manager.schedules.service import run_now
from oai.languages import LANGUAGES, SOURCE, accepted
from oai.settings import Settings
from tests.messages import gathered, places
from tests.web.conftest import Browser, Server
from tests.web.rows import a_repository, a_schedule
from web.site.i18n import catalogue, read_catalogue, use_language
from web.site.render import environment

_TRANSLATED = sorted(set(LANGUAGES) - {SOURCE})
_MARKUP = re.compile(r"<[^>]+>|`[^`]+`|%%")


def _messages(language: str) -> list[Message]:
    return [message for message in read_catalogue(language) if message.id]


def _forms(text: str | Sequence[str] | None) -> list[str]:
    return [text] if isinstance(text, str) else list(text or [""])


@pytest.mark.parametrize("language", _TRANSLATED)
def test_no_message_is_missing_or_left_over(language: str) -> None:
    found = {_forms(message.id)[0] for message in gathered() if message.id}
    known = {_forms(message.id)[0]: message for message in _messages(language)}
    complete = {text for text, message in known.items() if all(_forms(message.string)) and not message.fuzzy}

    assert len(found) > 500
    assert not found - complete
    assert not known.keys() - found


@pytest.mark.parametrize("language", _TRANSLATED)
def test_translations_keep_placeholders_and_markup(language: str) -> None:
    for message in _messages(language):
        source, *_plural = _forms(message.id)
        wanted = set().union(*map(places, _forms(message.id)))
        for text in _forms(message.string):
            assert places(text) <= wanted, text
            assert len(text) < 20 or text[: len(text) // 2] != text[len(text) // 2 :], "written twice"
            # A form for one may do without its number, as the source does.
            assert places(source) - {"count", "number"} <= places(text), text
            if not message.pluralizable:
                assert places(text) == wanted, text
                assert _MARKUP.findall(text) == _MARKUP.findall(source), text


@pytest.mark.parametrize("language", _TRANSLATED)
def test_messages_with_a_number_have_three_forms(language: str) -> None:
    plurals = [message for message in _messages(language) if message.pluralizable]

    assert plurals
    assert {len(_forms(message.string)) for message in plurals} == {3}


@pytest.mark.parametrize(
    ("language", "words"),
    [
        ("cs", {"Repository": "Repozitář", "Current jobs": "Běžící sklizně", "lost": "ztraceno"}),
        ("sk", {"Repository": "Repozitár", "Current jobs": "Bežiace zbery", "lost": "stratené"}),
        ("en", {"Repository": "Repository"}),
        ("de", {"Repository": "Repository"}),
    ],
)
def test_translations_use_the_agreed_terms(language: str, words: dict[str, str]) -> None:
    texts = catalogue(language)

    assert {word: texts.gettext(word) for word in words} == words
    assert texts.gettext("not a message of ours") == "not a message of ours"


@pytest.mark.parametrize(
    ("code", "sentence"),
    [
        ("cs", "souběžných sklizní ze serveru a.example smí být nejvýše 2"),
        ("sk", "súbežných zberov zo servera a.example smie byť najviac 2"),
    ],
)
def test_the_limit_of_a_host_is_grammatical_with_its_default(code: str, sentence: str) -> None:
    facts = {"limit": Settings().manager.per_host, "host": "a.example"}

    shown = in_words(WaitReason(code=Code.HOST, facts=facts), catalogue(code).gettext)

    assert shown == sentence


def test_plurals_follow_the_language() -> None:
    runs = [
        catalogue("cs").ngettext("%(count)s run", "%(count)s runs", count) % {"count": count}
        for count in (0, 1, 2, 4, 5, 21)
    ]

    assert runs == ["0 běhů", "1 běh", "2 běhy", "4 běhy", "5 běhů", "21 běhů"]


@pytest.mark.parametrize(("code", "shown"), [("cs", "2\u00a0běhy"), ("sk", "2\u00a0behy"), ("en", "2 runs")])
def test_a_number_is_joined_to_its_noun_by_a_no_break_space(code: str, shown: str) -> None:
    page = environment().from_string(
        "{% trans count=2 %}{{ count }} run{% pluralize %}{{ count }} runs{% endtrans %}"
    )

    def render() -> str:
        use_language(code)
        return page.render()

    assert copy_context().run(render) == shown


@pytest.mark.parametrize(
    ("header", "language"),
    [
        ("", "en"),
        ("cs", "cs"),
        ("sk-SK,sk;q=0.9,en;q=0.8", "sk"),
        ("de, cs;q=0.5, en;q=0.4", "cs"),
        ("en-GB, cs;q=0.9", "en"),
        ("cs;q=0", "en"),
        ("cs;q=much, sk;q=0.1", "sk"),
        ("cs;q=nan, sk; Q = 0.1, en;q=inf;quality=x", "sk"),
        ("*", "en"),
        (";;;,,q=", "en"),
    ],
)
def test_the_language_is_chosen_by_the_browsers_preferences(header: str, language: str) -> None:
    assert accepted(header) == language


async def test_pages_are_in_the_browsers_language_until_the_user_chooses_one(
    server: Server, viewer: Browser
) -> None:
    czech = {"Accept-Language": "cs"}
    async with ClientSession() as http, http.get(server.base_url + "/sign-in", headers=czech) as answer:
        page = await answer.text()
    assert '<html lang="cs">' in page
    assert "Přihlásit se" in page

    assert (await viewer.post("/account/language", {"language": "sk"}))[0] == 303
    async with viewer.http.get(server.base_url + "/jobs", headers=czech) as answer:
        page = await answer.text()
    assert '<html lang="sk">' in page
    assert "Bežiace zbery" in page
    assert (await viewer.post("/account/language", {"language": "xx"}))[0] == 303
    async with viewer.http.get(server.base_url + "/jobs", headers=czech) as answer:
        assert '<html lang="cs">' in await answer.text()


async def test_live_rows_are_pushed_in_the_followers_language(server: Server, viewer: Browser) -> None:
    with server.database.session() as session:
        run_now(session, a_schedule(session, a_repository(session)).id)
        session.commit()

    headers = {"Accept-Language": "cs"}
    async with viewer.http.get(server.base_url + "/events?topics=jobs", headers=headers) as stream:
        await stream.content.readuntil(b"\n\n")
        frame = (await stream.content.readuntil(b"\n\n")).decode()

    assert "ve frontě" in frame


async def test_live_numbers_of_a_job_are_pushed_in_the_followers_language(
    server: Server, viewer: Browser
) -> None:
    with server.database.session() as session:
        telc = a_repository(session)
        job = Job(repository_id=telc.repository_id, metadata_prefix="oai_dc", status=JobStatus.IN_PROGRESS)
        session.add(job)
        session.flush()
        counts, pace = {"records": 1500, "invalid": 2}, [[0.5, 500, 1], [1.0, 1000, 2], [1.5, 2500, 3]]
        session.add(
            Harvest(
                repository_id=telc.repository_id, metadata_prefix="oai_dc", job_id=job.job_id,
                counts=counts, pace=pace,
            )
        )  # fmt: skip
        session.commit()

    headers = {"Accept-Language": "cs"}
    url = f"{server.base_url}/events?topics=job-course:1"
    async with viewer.http.get(url, headers=headers) as stream:
        await stream.content.readuntil(b"\n\n")
        pushed = (await stream.content.readuntil(b"\n\n")).decode()
    async with viewer.http.get(f"{server.base_url}/jobs/1", headers=headers) as answer:
        page = await answer.text()

    for text in (pushed, page):
        assert "Přijaté záznamy</dt><dd>1\xa0502<" in text, "with refused records, as the page of the run"
        assert ">2\xa0500</text>" in text
        assert "Záznamy v průběhu běhu" in text


async def test_pages_are_shown_without_errors_in_every_language(
    server: Server, administrator: Browser
) -> None:
    with server.database.session() as session:
        a_schedule(session, a_repository(session))
        session.commit()
    pages = ["/", "/repositories", "/repositories/1", "/schedules", "/jobs", "/runs", "/account"]
    pages += ["/admin", "/admin/users", "/admin/audit", "/admin/workers", "/admin/organisations/new"]
    for language in LANGUAGES:
        for page in pages:
            headers = {"Accept-Language": language}
            async with administrator.http.get(server.base_url + page, headers=headers) as answer:
                assert answer.status == 200, (language, page)

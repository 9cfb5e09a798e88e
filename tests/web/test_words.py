"""Every text for users goes through gettext and is in the catalogues, as a language of brackets shows.

Texts of other packages that are in English, for experts, are in elements with `lang="en"`.
"""

import re
from collections.abc import Callable
from dataclasses import replace
from datetime import timedelta
from gettext import NullTranslations
from typing import Any

import pytest
from lxml import html

from harvester.bibliographic.models import Import
from harvester.models import History, Repository
from harvester.probing.case import SUBJECTS
from harvester.probing.findings import Fact
from harvester.probing.report import SENTENCES
from manager.notices.models import MuteKind
from manager.notices.mutes import mute
from oai.datestamps import utc_now
from oai.failures import Explanation, Failure, explained
from oai.rights import Scope
from provider.models import Takedown
from tests.messages import gathered
from tests.web.conftest import Browser, Server
from tests.web.pages import PAGES
from tests.web.rows import BEGAN, a_hold, a_rule, a_run, a_worker, an_examination, some_exports, some_titles
from tests.web.standing import MARK, a_world
from web.auth.api_tokens import make_token
from web.site import failures, i18n

_LETTERS = re.compile(r"[A-Za-z]{2,}")
_BRACKETED = re.compile(r"⟦[^⟦⟧]*⟧")
_DATA = (
    MARK, "librarian@mzk.example", "https://owner-0.example/oai", "owner-0", "mzk", "nk", "Alena", "Viktor",
    "Katka", "Olga", "Karel", "bench", "Library of Telč", "daily at 02:30", "Europe/Prague", "oai:x:1",
    "oai:x:2", "Wget/1", "Books alone",
    "library", "Noviny", "staročeské", "Nakladatelství", "českých", "novin", "Popis", "Hudba", "hudba",
    "Zpěv", "Telč", "kkkk", "CC BY",
)  # fmt: skip
"""The content of the tables."""
_NO_WORDS = {
    "Zatva",
    "CSV",
    "JSON",
    "OAI",
    "PMH",
    "oai",
    "dc",
    "UTC",
    "ListRecords",
    "min",
    "kB",
    "API",
    "XML",
    "XPath",
    "URI",
}
_UNREAD = (
    "//code | //time | //textarea | //pre | //*[contains(@class, 'mono')] | //datalist | //*[@lang='en']"
    " | //script | //style | //select[@id='time_zone'] | //option[@lang] | //a[@hreflang]"
)
_READ = "//text() | //@aria-label | //@title | //@placeholder | //@data-on | //@data-waiting | //@data-ended"
_BESIDE = ("/sign-in?token=x", "/repositories?done=repository-removed")
_IN_ENGLISH = frozenset({"/api/docs"})
"""The API is for programmers; its names and descriptions are those of its document."""
_STATUS = {"/sign-in?token=x": 410, "/no-such-page": 404}


class _Brackets(NullTranslations):
    """A language in which every message of the catalogues is in brackets."""

    def __init__(self) -> None:
        super().__init__()
        ids = [message.id for message in gathered() if message.id]
        self.known = {one if isinstance(one, str) else one[0] for one in ids}

    def gettext(self, message: str) -> str:
        return f"⟦{message}⟧" if message in self.known else message

    def ngettext(self, msgid1: str, msgid2: str, n: int) -> str:
        return f"⟦{msgid1 if n == 1 else msgid2}⟧" if msgid1 in self.known else msgid2


async def test_every_text_goes_through_gettext(
    server: Server, administrator: Browser, stranger: Browser, monkeypatch: pytest.MonkeyPatch
) -> None:
    _fill(server)
    brackets = _Brackets()
    monkeypatch.setattr(i18n, "catalogue", lambda _code: brackets)
    monkeypatch.setattr(failures, "explained", _in_brackets)
    _, page = await stranger.get("/sign-in")
    assert not _english(page)
    assert "⟦Sign in⟧" in page

    for path in (*_BESIDE, *PAGES):
        status, page = await administrator.get(path)
        assert status == _STATUS.get(path, 200), path
        assert "⟦Sign out⟧" in page or path in _BESIDE, path
        assert path in _IN_ENGLISH or not _english(page), f"{path}: {_english(page)}"
        assert not _unnamed(page), path


async def test_errors_of_other_packages_are_shown_in_the_readers_language(
    server: Server, administrator: Browser
) -> None:
    _fill(server)
    await administrator.post("/account/language", {"language": "cs"})
    form = {"metadata_prefix": "oai_dc", "frequency": "weekly on sobota at 25:00", "time_zone": "Telč"}
    form |= {"priority": "much", "files_per_dir": "0", "end_date": "soon", "harvest_from": "včera"}

    _, page, _ = await administrator.post("/schedules/1/edit", form)
    _, error = await administrator.get("/errors/1")
    _, examples = await administrator.get("/rules/by-example?repository=1")
    _, alert = await administrator.get("/alerts/rules/new?repository=1")

    assert "četnost &#39;weekly on sobota at 25:00&#39;: 25:00 není platný čas; zadejte" in page
    assert "výraz cronu o pěti polích" in page
    assert "neznámé časové pásmo &#39;Telč&#39;" in page
    for words in (
        "celé číslo.",
        "Nejmenší povolená hodnota je 1.",
        "Zadejte datum a čas, například 2026-01-31 12:00.",
        "Zadejte den, nebo čas",
    ):
        assert words in page
    alarm = str(html.fromstring(error).xpath("string(//p[@class='alarm'])"))
    assert alarm.strip() == "Záznam nebylo možné přečíst."
    assert "nemá uložené záznamy, ze kterých by šlo vybírat" in examples
    assert "oai_dc · každý den v 02:30" in alert


async def test_czech_pages_decline_and_translate_what_other_packages_report(
    server: Server, administrator: Browser
) -> None:
    _fill(server)
    now, hour = utc_now(), timedelta(hours=1)
    with server.database.session() as session:
        telc = session.get_one(Repository, 1)
        session.add(
            Import(repository_id=1, state="completed", started_by="harvest", metadata_prefix="marc21")
        )
        failed = {"status": "failed", "failure_code": "host_unknown", "failure_facts": {}}
        a_run(session, telc, **failed, harvest_start_time=now, harvest_end_time=now)
        mute(session, 1, MuteKind.MUTED, note="stěhování", ends=now + 4 * hour)
        report = replace(
            an_examination(), facts=[Fact(subject="speed", found="well", values={"seconds": 0.5})]
        )
        telc.examination = report.as_json()
        session.commit()
    await administrator.post("/account/language", {"language": "cs"})
    schedule = {"metadata_prefix": "oai_dc", "time_zone": "Europe/Prague", "incremental": "yes"}
    ends = {"start_date": "2026-01-02T10:00", "end_date": "2020-01-01T10:00"}
    webhook = {"kind": "error", "channel": "webhook", "target": "http://127.0.0.1/", "language": "cs"}

    pages = {
        "cron": (await administrator.post("/schedules/1/edit", {**schedule, "frequency": "99 99 * * *"}))[1],
        "ends": (await administrator.post("/schedules/1/edit", {**schedule, **ends, "frequency": "daily"}))[
            1
        ],
        "webhook": (await administrator.post("/alerts/rules/new?repository=1", webhook))[1],
        **{path: (await administrator.get(path))[1] for path in ("/", "/imports", "/repositories/1/doctor")},
    }
    texts = {
        name: " ".join(str(html.fromstring(page).xpath("string()")).split()) for name, page in pages.items()
    }

    assert "četnost '99 99 * * *': neplatná minuta; zadejte" in texts["cron"]
    assert re.search(r"konec \(1\. 1\. 2020 \d?\d:00\) je před začátkem \(2\. 1\. 2026", texts["ends"])
    assert "adresa není ve veřejném internetu" in texts["webhook"]
    assert "Nové pravidlo pro repozitář Library of the owner alone" in texts["webhook"]
    assert re.search(r"stěhování · do \d", texts["/"]), "a date, not how long from now"
    assert "po sklizni" in texts["/imports"]
    assert "Stažení stránky trvá 0,5 s." in texts["/repositories/1/doctor"]


async def test_diagnostics_are_in_the_readers_language_and_the_letter_in_the_chosen_one(
    server: Server, administrator: Browser
) -> None:
    _fill(server)
    await administrator.post("/account/language", {"language": "cs"})

    _, czech = await administrator.get("/repositories/1/doctor")
    _, slovak = await administrator.get("/repositories/1/doctor?letter=sk")

    assert _letter(czech).startswith(
        "Vážená kolegyně, vážený kolego,\n\ndne 2. 1. 2026 3:04 UTC jsme zkoušeli"
    )
    assert _letter(czech).endswith("S pozdravem\nAlena\n")
    assert "přerušená sklizeň musí začít znovu" in _letter(czech)
    assert "prerušený zber sa musí začať odznova" in _letter(slovak)
    assert "subject=V%C3%BDsledky%20kontroly%20va%C5%A1eho" in czech
    assert "subject=V%C3%BDsledky%20kontroly%20v%C3%A1%C5%A1ho" in slovak
    assert "přerušená sklizeň musí začít znovu" in slovak


def _in_brackets(failure: Failure, language: str, show_time: Callable[[str], str]) -> Explanation:
    """The words for failures, which have tables of their own for each language."""
    words = explained(failure, language, show_time)
    return Explanation(what=f"⟦{words.what}⟧", todo=f"⟦{words.todo}⟧")


def test_the_check_finds_a_column_without_a_name() -> None:
    head, row = "<thead><tr><th>A</th><th>{}</th></tr></thead>", "<tr><td>1</td><td>2</td>{}</tr>"
    table = "<table>" + head + "<tbody>" + row + "</tbody></table>"

    assert not _unnamed(table.format("B", ""))
    assert _unnamed(table.format("", "")) == ["A12"]
    assert _unnamed(table.format("B", "<td>3</td>")) == ["AB123"]


def test_the_check_finds_an_untranslated_text() -> None:
    page = '<p>⟦Well⟧ <b lang="en">no matter</b> <i title="by hand">⟦a ⟦b⟧ c⟧</i></p><p>Forgotten</p>'

    assert _english(page) == {"hand", "by", "Forgotten"}


def _fill(server: Server) -> None:
    """Add one object of each kind, with every fact that diagnostics can find."""
    with server.database.session() as session:
        world = a_world(session)
        some_titles(session)
        some_exports(session)
        a_worker(session)
        a_rule(session, None, ' ignoreCase="true"')  # which can be edited in words
        repository = session.get_one(Repository, world["repository"])
        report = an_examination().as_json()
        keys = [key.rpartition(".") for key in SENTENCES if key.rpartition(".")[0] in SUBJECTS]
        facts = [Fact(subject=subject, found=found) for subject, _, found in keys]
        report["facts"] = [{"subject": one.subject, "found": one.found, "values": {}} for one in facts]
        repository.examined, repository.examination = BEGAN, report
        run = session.get_one(History, world["run"])
        a_hold(session, run)
        run.pace = [[0.5, 10, 1], [1.0, 20, 2], [1.5, 40, 3]]
        make_token(session, server.settings.web, 1, name="bench", scopes=tuple(Scope))
        session.add(Takedown(targets=["Ж"], reason="Ж", requester="Ж"))
        session.commit()


def _letter(page: str) -> str:
    return str(html.fromstring(page).xpath("string(//*[@id='letter'])"))


def _english(page: str) -> set[str]:
    """Return the words outside all brackets."""
    root: Any = html.fromstring(page)
    for unread in root.xpath(_UNREAD):
        unread.clear(keep_tail=True)
    return {word for text in root.xpath(_READ) for word in _words(str(text))}


def _unnamed(page: str) -> list[str]:
    """The tables with a column that has no name, or with a row that has more or fewer cells than names."""
    tables: Any = html.fromstring(page).xpath("//table[not(@role='presentation')]")
    return [
        " ".join(table.text_content().split())
        for table in tables
        if not all(head.text_content().strip() for head in table.xpath("./thead/tr[last()]/*"))
        or {_width(row) for row in table.xpath("./tbody/tr")} - {_width(*table.xpath("./thead/tr[last()]"))}
    ]


def _width(row: Any) -> int:
    return sum(int(cell.get("colspan", 1)) for cell in row)


def _words(text: str) -> set[str]:
    shorter = _BRACKETED.sub("", text)
    if shorter != text:
        # A message may be within another one.
        return _words(shorter)
    for known in _DATA:
        text = text.replace(known, "")
    return set(_LETTERS.findall(text)) - _NO_WORDS

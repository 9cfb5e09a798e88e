"""Every text that people read goes through gettext: a language of brackets shows which does not.

Reasons come from the other parts of the product and are passed over.
"""

import re
from gettext import NullTranslations
from typing import Any

import pytest
from lxml import html

from harvester.models import RunStatus
from tests.web.conftest import Browser, Server
from tests.web.pages import PAGES
from tests.web.rows import a_repository, a_run, a_schedule
from web import languages

_LETTERS = re.compile(r"[A-Za-z]{2,}")
_BRACKETED = re.compile(r"⟦[^⟦⟧]*⟧")
_NO_WORDS = {
    "Zatva",
    "Alena",
    "Viktor",
    "CSV",
    "JSON",
    "Katka",
    "Olga",
    "Karel",
    "mzk",
    "nk",
    "English",
    "tina",
    "Sloven",
    "ina",
    "oai",
    "dc",
    "https",
    "example",
    "Europe",
    "Prague",
    "UTC",
    "ListRecords",
    "min",
    "KiB",
}
_BESIDE = ("/sign-in", "/sign-in?token=x", "/repositories?done=repository-removed")

_IN_ENGLISH = frozenset({"/api/docs"})
"""The API is for programmers; its names and descriptions are those of its document."""


class _Brackets(NullTranslations):
    def gettext(self, message: str) -> str:
        return f"⟦{message}⟧"

    def ngettext(self, msgid1: str, msgid2: str, n: int) -> str:
        return self.gettext(msgid1 if n == 1 else msgid2)


async def test_every_text_goes_through_gettext(
    server: Server, administrator: Browser, monkeypatch: pytest.MonkeyPatch
) -> None:
    with server.database.session() as session:
        repository = a_repository(session, name="1234")
        schedule = a_schedule(session, repository, frequency="0 2 * * *", metadata_prefix="1")
        a_run(session, repository, status=RunStatus.FAILED, metadata_prefix="1")
        session.flush()
        number = schedule.id
        session.commit()
    await administrator.post(f"/schedules/{number}/run")
    brackets = _Brackets()
    monkeypatch.setattr(languages, "catalogue", lambda _code: brackets)

    for path in (*_BESIDE, *PAGES):
        if path in _IN_ENGLISH:
            continue
        _, page = await administrator.get(path)
        root: Any = html.fromstring(page)
        for code in root.xpath(
            "//code | //time | //textarea | //pre | //*[contains(@class, 'mono')] | //datalist"
            " | //*[@class='reason']"
        ):
            code.text = ""
            for child in code:
                code.remove(child)
        texts = root.xpath("//text() | //@aria-label | //@title | //@placeholder | //@data-on | //@data-zone")
        for found in texts:
            plain = _without_brackets(str(found))
            left = set(_LETTERS.findall(plain)) - _NO_WORDS
            assert not left, f"{path}: {found!r}"


def _without_brackets(text: str) -> str:
    """What stands outside all brackets; a message may stand in the place of another."""
    shorter = _BRACKETED.sub("", text)
    return text if shorter == text else _without_brackets(shorter)

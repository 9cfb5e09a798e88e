"""Every text that people read goes through gettext: a language of brackets shows which does not.

Reasons come from the other parts of the product and are passed over.
"""

import re
from contextvars import ContextVar
from gettext import NullTranslations
from typing import Any

import pytest
from lxml import html

from harvester.models import RunStatus
from tests.web.conftest import Browser, Server
from tests.web.pages import PAGES
from tests.web.rows import a_repository, a_run, a_schedule
from web import words

_LETTERS = re.compile(r"[A-Za-z]{2,}")
_BRACKETED = re.compile(r"⟦[^⟦⟧]*⟧")
_NO_WORDS = {
    "Zatva",
    "Alena",
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
    monkeypatch.setattr(words, "translations", ContextVar("brackets", default=brackets))

    for path in (*_BESIDE, *PAGES):
        _, page = await administrator.get(path)
        root: Any = html.fromstring(page)
        for code in root.xpath(
            "//code | //time | //*[contains(@class, 'mono')] | //datalist | //*[@class='reason']"
        ):
            code.text = ""
            for child in code:
                code.remove(child)
        texts = root.xpath("//text() | //@aria-label | //@title | //@placeholder | //@data-on | //@data-zone")
        for found in texts:
            plain = _BRACKETED.sub("", str(found))
            left = set(_LETTERS.findall(plain)) - _NO_WORDS
            assert not left, f"{path}: {found!r}"

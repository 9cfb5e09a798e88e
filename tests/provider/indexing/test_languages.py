"""The language of pages and plain texts is detected by option, stored, and shown in oai_dc."""

import sys
from datetime import datetime
from pathlib import Path

import pytest
from sqlalchemy import select

from oai.database import Database
from oai.errors import UsageError
from oai.sections import ProviderSettings
from provider.indexing.indexer import IndexOptions, index_file
from provider.models import Document
from provider.protocol.formats import oai_dc
from provider.reading.captures import ContentOptions, content_options
from provider.reading.languages import language_of
from tests.provider.archives import Page, write_pages
from tests.provider.protocol.formats.item import SITE, WHOLE

CZECH = "Národní knihovna sbírá české stránky a uchovává je pro budoucí generace čtenářů."
SLOVAK = "Univerzitná knižnica zbiera slovenské stránky a uchováva ich pre budúce generácie čitateľov."


@pytest.mark.parametrize(
    ("text", "language"),
    [
        (CZECH, "cs"),
        (SLOVAK, "sk"),
        ("The library collects websites and keeps them for future generations of readers.", "en"),
        (
            "国立国会図書館は、ウェブサイトを収集し、将来の読者のために保存しています。日本語です。",
            "ja",
        ),
        (f"{CZECH} " * 30 + f"{SLOVAK} " * 10_000, "cs"),
        ("Úvod Kontakt Mapa stránek", None),
        ("Novák Svoboda Dvořák Smith Johnson Müller Schmidt Garcia Rossi Dubois", None),
        ("12 34 56 " * 20, None),
        ("", None),
    ],
)
def test_a_language_is_detected_only_if_it_is_clear(text: str, language: str | None) -> None:
    assert language_of(text) == language


def languages(database: Database) -> dict[str, str | None]:
    with database.session() as session:
        rows = session.execute(select(Document.url, Document.language))
        return {url.rpartition("/")[2]: language for url, language in rows}


def dated(database: Database, url: str) -> datetime:
    with database.session() as session:
        return session.scalars(select(Document.datestamp).where(Document.url.endswith(url))).one()


def test_languages_of_texts_are_stored_and_completed(database: Database, tmp_path: Path) -> None:
    script = f"<script>{SLOVAK}</script><p>{CZECH}"
    pages = [
        Page(url="http://a.example/page", body=script.encode()),
        Page(
            url="http://a.example/text", body=SLOVAK.encode("cp1250"), mime_type="text/plain; charset=cp1250"
        ),
        Page(url="http://a.example/gone", body=CZECH.encode(), status=404),
        Page(url="http://a.example/style", body=CZECH.encode(), mime_type="text/css"),
        Page(url="http://a.example/none", body=b"<p>menu"),
    ]
    path = write_pages(tmp_path / "x.warc.gz", pages)
    index_file(database, path, IndexOptions(margin=1))
    before = {url: dated(database, url) for url in ("page", "none")}
    options = IndexOptions(margin=100, again=True, content=ContentOptions(languages=True))
    assert index_file(database, path, options).merged.completed == 2
    assert languages(database) == {"page": "cs", "text": "sk", "gone": None, "style": None, "none": None}
    assert dated(database, "page") > before["page"]
    assert dated(database, "none") == before["none"]
    again = IndexOptions(margin=1, again=True)
    assert index_file(database, path, again).merged.completed == 0
    assert languages(database)["page"] == "cs"


def test_a_detected_language_is_in_dublin_core() -> None:
    assert "<dc:language>cs</dc:language>" in oai_dc.write(WHOLE._replace(language="cs"), SITE)
    assert "dc:language" not in oai_dc.write(WHOLE, SITE)


def test_without_the_library_the_setting_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "py3langid", None)
    assert content_options(ProviderSettings()) == ContentOptions()
    with pytest.raises(UsageError, match="needs the extra `languages`; install it with pip install"):
        content_options(ProviderSettings(recognise_languages=True))


def test_the_settings_determine_which_content_is_recognised() -> None:
    settings = ProviderSettings(recognise_languages=True, recognise_types="used")
    assert content_options(settings) == ContentOptions(types="used", languages=True)

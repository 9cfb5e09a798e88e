"""Titles on pages: the list, one title, and the import of a file in two steps."""

import base64
import csv
import io
import json
import re
import zlib
from collections.abc import Iterator
from typing import Any, Final

import aiohttp
import pytest
from lxml import html
from sqlalchemy import select, update
from sqlalchemy.orm import Session

from oai.audit import AuditEntry
from provider.holdings.publication import CHUNK
from provider.titles.models import Title, TitleSeed
from tests.provider.archive import Archive
from tests.web.conftest import Browser, Server
from web.archive import pages_titles

_PATH = "/archive/titles/import"
_HIDDEN = re.compile(r'<input type="hidden" name="([a-z]+)" value="([^"]*)">')


@pytest.fixture
def archive(server: Server) -> Archive:
    """Three documents of two hosts."""
    archive = Archive(server.database, server.settings)
    for url in ("http://www.a.example/1", "http://www.a.example/2", "http://b.example/"):
        archive.add(url)
    return archive


def _lines(*titles: dict[str, Any]) -> bytes:
    return b"".join(json.dumps(title).encode() + b"\n" for title in titles)


def _title(key: str, *urls: str, **values: Any) -> dict[str, Any]:
    return {"key": key, "name": f"Title {key}", "seeds": [{"url": url} for url in urls], **values}


async def _send(
    browser: Browser, fields: dict[str, str], content: bytes | None = None, name: str = "titles.jsonl"
) -> tuple[int, str, str]:
    """Submit the form of either step as a browser does; returns status, text and redirect target."""
    form = aiohttp.FormData(default_to_multipart=True)
    for field, value in {"csrf_token": await browser.token(), "format": "by name", **fields}.items():
        form.add_field(field, value)
    if content is not None:
        form.add_field("file", io.BytesIO(content), filename=name, content_type="application/octet-stream")
    async with browser.http.post(browser.base_url + _PATH, data=form, allow_redirects=False) as answer:
        return answer.status, await answer.text(), answer.headers.get("Location", "")


async def _import(
    browser: Browser, *titles: dict[str, Any], source: str = "library", **more: str
) -> tuple[int, str, str]:
    """Send the file, and confirm the plan."""
    _, text, _ = await _send(browser, {"source": source}, _lines(*titles))
    return await _send(browser, {**_carried(text), "do": "import", **more})


def _carried(page: str) -> dict[str, str]:
    """The hidden fields of the page with the plan; their values have nothing that HTML escapes."""
    return {name: value for name, value in _HIDDEN.findall(page) if name != "csrf_token"}


def _numbers(server: Server) -> dict[str, int]:
    """The titles' numbers by their keys; each plan uses up some numbers."""
    with server.database.session() as session:
        return {title.source_key: title.title_id for title in session.scalars(select(Title))}


def _names(server: Server) -> list[str]:
    with server.database.session() as session:
        return list(session.scalars(select(Title.name).where(~Title.gone).order_by(Title.name)))


@pytest.mark.usefixtures("archive")
async def test_a_file_that_is_sent_after_the_session_ended_is_said_not_to_be_imported(
    stranger: Browser,
) -> None:
    status, page, _ = await _send(stranger, {"source": "library"}, _lines(_title("a")))

    assert status == 401
    assert "Your session has ended, so the form was not saved." in page
    assert "choose the file again" in page
    assert 'href="/sign-in' in page


async def test_a_plan_changes_nothing_and_the_import_applies_it(server: Server, curator: Browser) -> None:
    titles = _lines(
        _title("1", "http://www.a.example/", publisher="Nakladatelství Čas"),
        _title("2", "http://b.example/", public=False),
        _title("3", "http://b.example/", "http://c.example/"),
    )
    status, text, _ = await _send(curator, {"source": "library"}, titles + b'{"key": "4"}\n')
    assert (status, _names(server)) == (200, [])
    for words in ("Title 1", "line 4", "Claimed twice", "example,b)"):
        assert words in text

    status, _, target = await _send(curator, {**_carried(text), "do": "import"})
    assert (status, target) == (303, "/archive/titles?source=library&done=titles-imported")
    assert _names(server) == ["Title 1", "Title 2", "Title 3"]
    with server.database.session() as session:
        entry = session.scalars(select(AuditEntry).where(AuditEntry.action == "titles.import")).one()
    assert (entry.user_name, entry.object_id, entry.after) == (
        "Katka",
        "library",
        {"new": 3, "changed": 0, "gone": 0, "unchanged": 0, "not_taken": 1},
    )
    _, text, _ = await _send(curator, {"source": "library"}, titles)
    assert "There is nothing to import." in text
    assert 'value="import"' not in text


async def test_the_audit_log_has_the_counts_of_an_import(curator: Browser, administrator: Browser) -> None:
    await _import(curator, _title("1"), _title("2"), {"key": "3"})

    _, text = await administrator.get("/admin/audit?action=titles.import")
    _, exported = await administrator.get("/admin/audit.csv?action=titles.import")

    root: Any = html.fromstring(text)
    found = root.xpath("//td[.//data[@value='titles.import']]//span[@class='under']")
    shown = [one.text_content() for one in found]
    counts = {"new": 2, "changed": 0, "gone": 0, "unchanged": 0, "not_taken": 1}
    assert shown == ["New: 2", "Changed: 0", "No longer in the source: 0", "Unchanged: 0", "Not taken: 1"]
    (row,) = csv.DictReader(io.StringIO(exported))
    assert json.loads(row["after"]) == counts


@pytest.mark.usefixtures("archive")
async def test_titles_are_searched_and_filtered_by_the_reason_why_they_are_not_listed(
    server: Server, curator: Browser
) -> None:
    await _import(
        curator,
        _title("1", "http://www.a.example/", publisher="Nakladatelství Čas"),
        _title("2", "http://b.example/", public=False),
        _title("3", "http://c.example/"),
    )
    first = f"?after={_numbers(server)['1']}"
    found = {
        query: [one for one in "123" if f"Title {one}<" in (await curator.get(f"/archive/titles{query}"))[1]]
        for query in (
            "", "?q=NAKLADATELSTVI", "?q=http://b.exam", "?q=title+3", "?q=100%25", "?source=library",
            "?source=x", "?show=listed", "?show=not+public", "?show=no+captures", "?show=gone",
            first, "?after=x",
        )
    }  # fmt: skip
    assert found == {
        "": ["1", "2", "3"], "?q=NAKLADATELSTVI": ["1"], "?q=http://b.exam": ["2"], "?q=title+3": ["3"],
        "?q=100%25": [], "?source=library": ["1", "2", "3"], "?source=x": [], "?show=listed": ["1"],
        "?show=not+public": ["2"], "?show=no+captures": ["3"], "?show=gone": [], first: ["2", "3"],
        "?after=x": ["1", "2", "3"],
    }  # fmt: skip
    assert "Nakladatelství Čas" in (await curator.get("/archive/titles.csv?q=cas"))[1]


@pytest.mark.usefixtures("archive")
async def test_a_title_shows_its_ranges_sets_and_links(server: Server, curator: Browser) -> None:
    await _import(
        curator,
        _title("1", "http://www.a.example/", publisher="Čas", licence="CC BY 4.0", issn="1234-5679"),
        _title("2", "http://www.a.example/", "not a URL"),
    )
    with server.database.session() as session:
        keys = {row.source_key: row.key.hex for row in session.scalars(select(Title))}
    numbers = _numbers(server)
    _, text = await curator.get(f"/archive/titles/{numbers['1']}")
    for words in (
        "example,a)*", "publisher:cas", "licence:cc-by-4.0", "CC BY 4.0", "1234-5679",
        f'href="http://127.0.0.1:8080/titles/{keys["1"]}"', f":title:{keys['1']}<", ": 2</dd>",
    ):  # fmt: skip
        assert words in text, words
    _, text = await curator.get(f"/archive/titles/{numbers['2']}")
    assert "belongs to <a" in " ".join(text.split())
    assert ("none: not a URL with a host" in text, "Page for readers" in text) == (True, False)
    assert (await curator.get("/archive/titles/999999"))[0] == 404


@pytest.mark.usefixtures("archive")
async def test_many_changes_need_confirmation(server: Server, curator: Browser) -> None:
    many = [_title(f"{number:02}") for number in range(30)]
    await _import(curator, *many)
    status, text, _ = await _import(curator, *many[:5])
    assert (status, "Tick this box" in text, len(_names(server))) == (422, True, 30)
    assert 'value="import"' in text
    status, _, _ = await _send(curator, {**_carried(text), "do": "import", "approve": "yes"})
    assert (status, len(_names(server))) == (303, 5)


@pytest.mark.usefixtures("archive")
async def test_an_outdated_plan_is_shown_again(server: Server, curator: Browser) -> None:
    _, plan, _ = await _send(curator, {"source": "library"}, _lines(_title("1", "http://b.example/")))
    await _import(curator, _title("2", "http://c.example/"))
    status, text, _ = await _send(curator, {**_carried(plan), "do": "import"})
    assert (status, "The titles have changed since this plan was made." in text) == (409, True)
    assert ("Title 2" in text, _names(server)) == (True, ["Title 2"])
    await _send(curator, {**_carried(text), "do": "import"})
    assert _names(server) == ["Title 1"]


@pytest.mark.usefixtures("archive")
@pytest.mark.parametrize("documents", [CHUNK, CHUNK + 1])
async def test_access_to_documents_is_updated_at_once_or_by_the_manager(
    curator: Browser, monkeypatch: pytest.MonkeyPatch, documents: int
) -> None:
    monkeypatch.setattr("provider.titles.import_steps.count_pending", lambda _session: documents)
    settled = []
    monkeypatch.setattr("provider.titles.import_steps.settle_access", lambda *_, **__: settled.append(1))
    await _import(curator, _title("1", "http://b.example/", access="withheld"))
    assert len(settled) == (1 if documents <= CHUNK else 0)


_WRONG: Final[tuple[tuple[dict[str, str], bytes | None, str, str], ...]] = (
    ({"source": ""}, b"{}", "a.jsonl", "Fill in this field."),
    ({}, None, "", "Choose a file."),
    ({}, b"x", "a.txt", "says nothing about its format"),
    ({}, b"key,title\n", "a.csv", "a.csv: no column may be called &#39;title&#39;"),
    ({}, b"key,seeds\n", "a.csv", "a.csv: columns are missing: name"),
    ({"format": "archive-it"}, b"<html>", "a.jsonl", "a.jsonl: cannot be read: not JSON"),
    ({"format": "xml"}, b"", "a.jsonl", "Choose one of the options."),
    ({}, b" " * (8 * 1024 * 1024 + 1), "a.jsonl", "larger than 8 MB"),
    ({"name": "a.csv", "content": "no Base64!"}, None, "", "Choose the file again."),
    ({"name": "a.csv", "content": "eA=="}, None, "", "Choose the file again."),
    (
        {"name": "a.csv", "content": base64.b64encode(zlib.compress(b" " * 2**24)).decode()},
        None,
        "",
        "larger than 8 MB",
    ),
)
"""Fields, content and name of a file, and the message."""


async def test_an_invalid_form_is_refused_with_its_errors(curator: Browser) -> None:
    for fields, content, name, words in _WRONG:
        status, text, _ = await _send(curator, {"source": "library", **fields}, content, name)
        assert (status, words in text, "/tmp" in text) == (422, True, False), words  # noqa: S108 not a path of ours


async def test_a_form_that_is_too_large_is_refused(curator: Browser) -> None:
    status, text, _ = await _send(curator, {"source": "library"}, bytes(13 * 1024 * 1024))
    assert (status, "more data than this page accepts" in text) == (413, True)


async def test_a_line_with_a_nul_character_is_not_imported(server: Server, curator: Browser) -> None:
    _, text, _ = await _send(
        curator, {"source": "library"}, _lines(_title("1"), _title("2", keywords=["a\0"]))
    )
    assert "keywords: contains a NUL character" in text
    await _send(curator, {**_carried(text), "do": "import"})
    assert _names(server) == ["Title 1"]


async def test_reasons_of_rejected_lines_are_in_the_readers_language(curator: Browser) -> None:
    await curator.post("/account/language", {"language": "cs"})
    content = _lines(_title("1"), {"key": "2"}, _title("3", public="ANO"), _title("1")) + b"\xff"
    _, text, _ = await _send(curator, {"source": "library"}, content)
    root: Any = html.fromstring(text)
    rows = {cells[0]: cells[1] for cells in (row.xpath(".//span/text()") for row in root.xpath("//tbody/tr"))}
    assert rows == {
        "řádek 2": "name: hodnota chybí",
        "řádek 3": "public: hodnotě 'ANO' nelze rozumět; napište true nebo false",
        "klíč 1": "stejný klíč už má 'Title 1'",
        "řádek 5": "nelze přečíst: není v UTF-8; uložte soubor jako UTF-8",
    }


async def test_warnings_of_a_plan_are_in_the_readers_language(curator: Browser) -> None:
    await curator.post("/account/language", {"language": "cs"})
    content = _lines(
        _title("7", "x", languages=["čeština"], licence="?", issn="1", contract_to="2000-01-31"),
        {"collection": "!"},
    )
    _, text, _ = await _send(curator, {"source": "library"}, content)
    root: Any = html.fromstring(text)
    (warnings,) = root.xpath("//h2[.='Varování']/following-sibling::ul")
    no_url = (
        "není URL http, https nebo ftp se jménem serveru a s nejvýše 1,300 znaky, nebo obsahuje mezery či "
        "zástupný znak; neodpovídají mu žádné archivní verze"
    )
    assert "lang" not in warnings.attrib
    assert [(one.text, "lang" in one.attrib) for one in warnings] == [
        ("klíč 7: neznámá licence '?'; titul nebude mít žádnou", False),
        ("klíč 7: ISSN '1' není platné; zveřejní se, jak je", False),
        ("klíč 7: jazyk 'čeština' není kód podle ISO 639-2, například cze; zveřejní se, jak je", False),
        ("klíč 7: smlouva skončila 2000-01-31; titul zůstává veřejný, se svou licencí a přístupem", False),
        (f"klíč 7: semínko 'x' {no_url}", False),
        ("kolekce '!': její název nemá žádné písmeno ani číslici pro setSpec", False),
    ]


async def test_what_is_not_taken_can_be_downloaded(server: Server, curator: Browser) -> None:
    rows = "".join(f'{number},"Title\n{number}",,ANO\r\n' for number in range(150))
    await curator.post("/account/language", {"language": "cs"})
    _, text, _ = await _send(
        curator, {"source": "library"}, f"key,name,seeds,public\r\n{rows}".encode(), "titles.csv"
    )
    root: Any = html.fromstring(text)
    assert root.xpath("string(//table/following-sibling::div/p)") == "a dalších: 50"

    status, content, _ = await _send(curator, {**_carried(text), "do": "not-taken"})

    found = list(csv.reader(io.StringIO(content.removeprefix("\ufeff"))))
    assert (status, len(found), found[0]) == (200, 151, ["place", "reason", "is_decision"])
    assert found[150] == [
        "řádek 151 (klíč 149)",
        "public: hodnotě 'ANO' nelze rozumět; napište true nebo false",
        "False",
    ]
    assert _names(server) == []


async def test_a_part_of_a_form_without_a_readable_name_is_a_bad_request(curator: Browser) -> None:
    body = b'--x\r\nContent-Disposition: form-data; name="a\r\n\r\n1\r\n--x--\r\n'
    headers = {"Content-Type": "multipart/form-data; boundary=x", "X-CSRF-Token": await curator.token()}
    async with curator.http.post(curator.base_url + _PATH, data=body, headers=headers) as answer:
        assert answer.status == 400
        assert "The form could not be read" in await answer.text()


async def test_only_staff_of_the_archive_see_and_import_titles(
    server: Server, viewer: Browser, owner: Browser, administrator: Browser
) -> None:
    for browser in (viewer, owner):
        assert (await browser.get("/archive/titles"))[0] == 403
        assert (await browser.get(_PATH))[0] == 403
        assert (await _send(browser, {"source": "library"}, _lines(_title("1"))))[0] == 403
    assert (await _import(administrator, _title("1")))[0] == 303
    with server.database.session() as session:
        assert session.scalars(select(TitleSeed)).all() == []


async def test_the_form_token_is_needed_and_other_forms_accept_no_file(curator: Browser) -> None:
    assert (await _send(curator, {"source": "library", "csrf_token": "x"}, b""))[0] == 403
    form = aiohttp.FormData({"csrf_token": await curator.token()}, default_to_multipart=True)
    async with curator.http.post(curator.base_url + "/archive/takedowns/new", data=form) as answer:
        assert answer.status == 400


async def test_without_an_address_there_is_no_import_from_seeder(curator: Browser) -> None:
    assert (await curator.post(f"{_PATH}/seeder"))[0] == 404
    assert "Seeder" not in (await curator.get(_PATH))[1]


async def test_an_export_for_import_is_imported_without_a_change(curator: Browser) -> None:
    many = [
        _title("1", "http://www.a.example/", publisher="=Čas; x", keywords=["a;b"]),
        {**_title("2"), "seeds": [{"url": "http://b.example/", "main": True}]},
    ]
    await _import(curator, *many)
    _, listing = await curator.get("/archive/titles")
    for kind in ("csv", "jsonl"):
        address = f"/archive/titles/import.{kind}?source=library"
        assert address in listing
        _, content = await curator.get(address)
        _, plan, _ = await _send(curator, {"source": "library"}, content.encode(), f"titles.{kind}")
        assert "There is nothing to import." in plan, kind


async def test_an_export_for_import_shows_one_state_of_the_database(
    server: Server, curator: Browser, monkeypatch: pytest.MonkeyPatch
) -> None:
    await _import(curator, _title("1"))

    def during_a_change(session: Session, _source: str) -> Iterator[str]:
        yield str(session.scalar(select(Title.name)))
        with server.database.session() as other:
            other.execute(update(Title).values(name="New"))
            other.commit()
        yield str(session.scalar(select(Title.name)))

    monkeypatch.setattr(pages_titles, "EXPORTS", {"csv": during_a_change})

    assert await curator.get("/archive/titles/import.csv?source=library") == (200, "Title 1Title 1")


async def test_an_export_for_import_is_of_one_source(curator: Browser) -> None:
    await _import(curator, _title("1"))
    await _import(curator, _title("2"), source="other/ú")
    _, listing = await curator.get("/archive/titles")
    _, filtered = await curator.get("/archive/titles?source=library")
    _, form = await curator.get(_PATH)

    links = [f"/archive/titles/import.csv?source={one}" for one in ("library", "other%2F%C3%BA")]
    assert [f'href="{one}"' in listing for one in links] == [False, False]
    assert 'href="/archive/titles/import#for-import"' in listing
    assert [f'href="{one}"' in filtered for one in links] == [True, False]
    assert [f'href="{one}"' in form for one in links] == [True, True]
    assert (await curator.get("/archive/titles/import.csv?source=x"))[0] == 404


async def test_the_page_of_a_title_says_how_to_correct_it(server: Server, curator: Browser) -> None:
    await _import(curator, _title("1"))
    _, text = await curator.get(f"/archive/titles/{_numbers(server)['1']}")
    _, form = await curator.get(f"{_PATH}?source=library")

    assert "export all titles of its source" in text
    for target in ("import.csv?source=library", "import.jsonl?source=library", "import?source=library"):
        assert f'href="/archive/titles/{target}"' in text
    assert 'name="source" value="library"' in form


async def test_the_plan_shows_old_and_new_values_and_what_becomes_empty(curator: Browser) -> None:
    long = "A quiet town. " * 20
    await _import(
        curator,
        _title(
            "1", "http://a.example/", publisher="Old", annotation=f"{long}first", keywords=["a"], public=False
        ),
    )
    changed = _title("1", "http://b.example/", publisher="New", annotation=f"{long}second", access="withheld")
    _, text, _ = await _send(curator, {"source": "library"}, _lines(changed))

    root: Any = html.fromstring(text)
    cells = [" ".join(one.text_content().split()) for one in root.xpath("//td/span/span[@class='under']")]
    assert cells == [
        "Publisher: Old → New",
        "Description: …town. A quiet town. first → …town. A quiet town. second",
        "Keywords: a → becomes empty",
        "Public: no → yes",
        "Access: – → withheld",  # noqa: RUF001 en dash intended
        "Seeds: http://a.example/ → http://b.example/",
    ]


async def test_withdrawing_many_titles_needs_a_ticked_box_after_their_list(
    server: Server, curator: Browser
) -> None:
    await _import(curator, *[_title(key) for key in "1234"])
    status, text, _ = await _import(curator, _title("1"))
    assert (status, len(_names(server))) == (422, 4)
    assert "Withdraw 3 of the 4 titles of this source" in text
    assert text.index(">key 4</span>") < text.index('name="approve"') < text.index('value="import"')

    status, _, _ = await _send(curator, {**_carried(text), "do": "import", "approve": "yes"})
    assert (status, _names(server)) == (303, ["Title 1"])


@pytest.mark.parametrize(("before", "after"), [("12", "1"), ("1234567890", "12345678")])
async def test_withdrawing_few_titles_needs_no_box(
    server: Server, curator: Browser, before: str, after: str
) -> None:
    await _import(curator, *[_title(key) for key in before])
    status, _, _ = await _import(curator, *[_title(key) for key in after])
    assert (status, len(_names(server))) == (303, len(after))

"""The bibliographic import in the dashboard: started by hand, configured, filtered by sets tried before."""

import asyncio
import hashlib
import html
import json
import re
import uuid
from importlib.resources import files
from typing import Any

import pytest
from sqlalchemy import delete, select

from harvester.bibliographic.filtering_sets import list_sets, set_by_id
from harvester.bibliographic.models import BibliographicRow, ContributorRow, IdentifierRow
from harvester.bibliographic.search import find_all
from harvester.bibliographic.sources import SourceSettings, save_source, source_settings
from harvester.models import Record, Repository
from oai.errors import required
from tests.harvester.bibliographic.marc import marcxml
from tests.web.conftest import Browser, Server
from tests.web.rows import a_bibliographic_record, a_filtering_set, a_repository
from web.auth.organisations import (
    add_organisation,
    change_organisation,
    find_organisation,
    give_repository,
    remove_organisation,
)
from web.imports.pages_marc import RULES
from web.imports.sources import IMPORTS
from web.models import User
from web.site.keys import PageSizes

_NEXT = re.compile(r'<a class="button" href="(/records[^"]*)">')
_SET = {
    "name": "dictionaries",
    "match": "all",
    "field-0": "245",
    "subfield-0": "a",
    "operator-0": "contains",
    "value-0": "slovnik",
}


@pytest.fixture
def repository(server: Server) -> int:
    """A repository of mzk with two stored MARC records, not imported."""
    with server.database.session() as session:
        telc = a_repository(session)
        organisation = find_organisation(session, "mzk")
        assert organisation is not None
        give_repository(session, telc.repository_id, organisation.organisation_id)
        folder = server.settings.store / telc.base_dir
        folder.mkdir(parents=True)
        for number, title in enumerate(("Slovník staré češtiny", "Knihy kacířů"), start=1):
            data = _stored(number, title)
            (folder / f"{number}.xml").write_bytes(data)
            session.add(
                Record(
                    repository_id=telc.repository_id,
                    identifier=f"oai:x:{number}",
                    identifier_key=uuid.UUID(bytes=hashlib.sha256(data).digest()[:16]),
                    filename=f"{number}.xml",
                    datestamp="2026-01-01",
                    metadata_prefix="marc21",
                    digest=hashlib.sha256(data).digest(),
                )
            )
        session.commit()
        return telc.repository_id


def _stored(number: int, title: str, *fields: str) -> bytes:
    inside = marcxml(f"001 nr{number}", f"245 10 $a{title}", *fields)
    return (
        '<record xmlns="http://www.openarchives.org/OAI/2.0/"><header>'
        f"<identifier>oai:x:{number}</identifier><datestamp>2026-01-01</datestamp></header>"
        f"<metadata>{inside}</metadata></record>"
    ).encode()


async def test_an_import_runs_in_a_separate_process_and_its_records_are_found(
    server: Server, owner: Browser, repository: int
) -> None:
    _, _, target = await owner.post("/imports", {"repository": ["99", str(repository)]})
    _, meanwhile = await owner.get("/imports")
    await _ended(server)
    _, page = await owner.get("/imports")
    _, found = await owner.get("/records?find=SLOVNIK")

    assert target == "/imports?done=import-begun"
    assert "queued" in meanwhile or "running" in meanwhile
    assert "completed" in page
    assert "Olga" in page
    assert "<mark>Slovník</mark> staré češtiny" in found
    assert "Knihy kacířů" not in found
    assert ">Czech</a>" in found, "the facets name the languages"


async def test_decades_are_counted_by_first_year_and_the_page_explains_their_overlap(
    server: Server, administrator: Browser
) -> None:
    with server.database.session() as session:
        telc = a_repository(session)
        a_bibliographic_record(session, telc, title="Kniha", year_from=1995, year_to=1995)
        a_bibliographic_record(session, telc, title="Noviny", year_from=1985, year_to=2000)
        session.commit()
    _, everything = await administrator.get("/records")
    _, decade = await administrator.get("/records?year_from=1990&year_to=1999")

    assert re.search(r'year_to=1999">1990–1999</a> <span class="count">1<', everything)  # noqa: RUF001
    assert "First year</h2>" in everything
    assert "whose years overlap it" in everything
    assert "Kniha" in decade
    assert "Noviny" in decade


@pytest.mark.parametrize(
    ("date", "first", "last", "shown"),
    [
        ("19. století", 1801, 1900, "1801\u20131900"),
        ("1998-[2003?]", 1998, 2003, "1998\u20132003"),
        ("[1998 nebo dříve]-", 1998, None, "1998\u2013"),
        ("2024-03-01T08:00:00Z", 2024, 2024, "2024"),
        ("[před rokem 1945]", None, 1945, "[před rokem 1945]"),
        ("bez udání roku", None, None, "bez udání roku"),
        ("1861-1870", 1861, 1870, "1861-1870"),
        ("", 1861, 1870, "1861\u20131870"),
        ("", None, None, "\u2013"),
    ],
)
async def test_the_list_shows_the_years_of_a_long_date(
    server: Server, administrator: Browser, date: str, first: int | None, last: int | None, shown: str
) -> None:
    with server.database.session() as session:
        telc = a_repository(session)
        a_bibliographic_record(session, telc, date_text=date, year_from=first, year_to=last)
        session.commit()
    _, page = await administrator.get("/records")
    assert f'data-label="Year"><span>{shown}</span>' in page


async def test_an_import_that_cannot_start_shows_the_reason(
    server: Server, owner: Browser, repository: int
) -> None:
    server.app[IMPORTS].command = ("false",)

    await owner.post("/imports", {"repository": str(repository)})
    await _ended(server)
    _, page = await owner.get(f"/imports/{repository}")

    assert "the process ended with exit code 1" in page


async def test_only_users_with_rights_to_a_repository_import_it(
    server: Server, colleague: Browser, viewer: Browser, repository: int
) -> None:
    status, _, _ = await colleague.post("/imports", {"repository": str(repository)})
    refused, _, _ = await viewer.post("/imports", {"repository": str(repository)})

    assert (status, refused) == (404, 403)
    assert not server.app[IMPORTS].waits(repository, 0)


async def test_a_source_is_configured_and_invalid_settings_are_refused(
    server: Server, owner: Browser, repository: int
) -> None:
    template = "https://telc.example/records/{local}"
    wish = {"after_harvest": "yes", "set_id": "", "metadata_prefix": "", "record_url_template": template}
    _, _, target = await owner.post(f"/imports/{repository}", wish)
    status, page, _ = await owner.post(f"/imports/{repository}", {**wish, "record_url_template": "nowhere"})
    wrong, refused, _ = await owner.post(f"/imports/{repository}", {**wish, "metadata_prefix": "marxml"})

    assert (wrong, "has no format &#39;marxml&#39;; its formats: marc21;" in refused) == (422, True)
    assert target == f"/imports/{repository}?done=import-changed"
    with server.database.session() as session:
        found = source_settings(session, repository)
    assert (found.after_harvest, found.record_url_template) == (True, template)
    assert status == 422
    assert "nowhere" in page


async def test_a_filtering_set_is_tried_on_stored_records_before_it_is_saved(
    server: Server, administrator: Browser, repository: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    sample = {"sample_repository": str(repository), "sample_samples": "100"}
    extra = {"field-3": "655", "operator-3": "exists", "match": "any"}
    _, tried, _ = await administrator.post("/imports/sets/new", {**_SET, **sample, **extra, "do": "try"})
    with server.database.session() as session:
        assert list_sets(session) == []
    monkeypatch.setattr("web.rules.trials.SECONDS", 0)
    status, late, _ = await administrator.post("/imports/sets/new", {**_SET, **sample, "do": "try"})
    _, _, target = await administrator.post("/imports/sets/new", {**_SET, "do": "save"})

    assert (status, "longer than 0 seconds on these records" in late) == (422, True)
    assert "Of 2 stored records, 1 would be imported and 1 skipped." in tried
    assert "It matches none of the samples." in tried
    assert target == "/imports/sets?done=set-saved"
    with server.database.session() as session:
        (made,) = list_sets(session)
    assert [str(one) for one in made.rules.conditions] == ["245$a contains slovnik"]


_WRONG_SETS = (
    ({"field-0": "24-"}, "&#39;24-$a contains slovnik&#39; není podmínka; zapište ji jako"),
    ({"operator-0": "matches", "value-0": "("}, "podmínka &#39;245$a matches (&#39;: "),
    ({"field-0": "", "subfield-0": "", "value-0": ""}, "Zadejte alespoň jednu podmínku."),
    ({"name": ""}, "Vyplňte toto pole."),
)


async def test_an_invalid_filtering_set_is_refused_with_its_errors(
    server: Server, administrator: Browser
) -> None:
    await administrator.post("/account/language", {"language": "cs"})
    for wrong, complaint in _WRONG_SETS:
        status, page, _ = await administrator.post("/imports/sets/new", {**_SET, "do": "save", **wrong})

        assert status == 422, wrong
        assert complaint in page
        with server.database.session() as session:
            assert list_sets(session) == []


async def test_a_filtering_set_in_use_is_not_removed(
    server: Server, administrator: Browser, repository: int
) -> None:
    with server.database.session() as session:
        number = a_filtering_set(session)
        save_source(session, SourceSettings(repository_id=repository, set_id=number))
        session.commit()

    status, _, _ = await administrator.post(f"/imports/sets/{number}/remove")
    _, edited, _ = await administrator.post(f"/imports/sets/{number}/edit", {**_SET, "do": "save"})

    assert status == 409
    assert edited == "" or "303" in edited
    with server.database.session() as session:
        (kept,) = list_sets(session)
    assert kept.revision == 2


async def test_changes_to_a_set_that_was_removed_meanwhile_can_be_saved_as_a_new_one(
    administrator: Browser,
) -> None:
    changed = {**_SET, "name": "", "value-0": "atlas", "do": "save"}
    status, page, _ = await administrator.post("/imports/sets/1/edit", changed)

    assert (status, "It was removed in the meantime." in page) == (404, True)
    assert 'action="/imports/sets/new"' in page
    assert 'name="value-0" value="atlas"' in page
    assert (await administrator.post("/imports/sets/new", {**changed, "name": "Atlases"}))[0] == 303
    assert "atlas" in (await administrator.get("/imports/sets/1/edit"))[1]


@pytest.mark.usefixtures("repository")
async def test_partners_find_only_records_of_their_own_organisation(
    server: Server, owner: Browser, colleague: Browser, viewer: Browser
) -> None:
    with server.database.session() as session:
        row = a_bibliographic_record(session, a_repository(session, folder="nobodys"), title="Tajná kniha")
        session.commit()
        number, elsewhere = row.bibliographic_id, row.repository_id

    for browser, expected in ((owner, False), (colleague, False), (viewer, True)):
        for address in ("/records", f"/records?repository={elsewhere}", "/records.json"):
            _, text = await browser.get(address)
            assert ("Tajná kniha" in text) is expected, address
        status, _ = await browser.get(f"/records/bibliographic/{number}")
        assert status == (200 if expected else 404)


@pytest.mark.parametrize("page_sizes", [PageSizes(records=2)])
async def test_hits_are_listed_page_by_page_and_files_have_all_of_them(
    server: Server, administrator: Browser, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("web.imports.record_export.AT_ONCE", 2)
    with server.database.session() as session:
        telc = a_repository(session)
        for number in range(5):
            a_bibliographic_record(session, telc, title=f"Kniha {number}", year_from=1990 + number)
        session.commit()

    seen, address = "", "/records?kind=book"
    for _ in range(3):
        _, page = await administrator.get(address)
        seen += page
        address = html.unescape(_NEXT.findall(page)[-1])
    _, exported = await administrator.get("/records.csv?kind=book")
    status, _ = await administrator.get("/records?after=nonsense")

    assert all(seen.count(f">Kniha {number}<") == 1 for number in range(5))
    assert len(exported.splitlines()) == 6
    assert status == 404


async def test_a_file_of_hits_leaves_out_records_that_are_removed_meanwhile(
    server: Server, administrator: Browser, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("web.imports.record_export.AT_ONCE", 1)
    with server.database.session() as session:
        telc = a_repository(session)
        for number in range(3):
            a_bibliographic_record(session, telc, title=f"Kniha {number}")
        session.commit()

    def find(*arguments: Any, **options: Any) -> list[int]:
        ids = find_all(*arguments, **options)
        with server.database.session() as session:
            session.execute(delete(BibliographicRow).where(BibliographicRow.title == "Kniha 1"))
            session.commit()
        return ids

    monkeypatch.setattr("web.imports.record_export.find_all", find)
    _, exported = await administrator.get("/records.csv?order=title")
    assert [line.split(",")[2] for line in exported.splitlines()[1:]] == ["Kniha 0", "Kniha 2"]


async def test_the_page_of_hits_names_the_sources_with_most_of_them(
    server: Server, administrator: Browser, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("web.imports.pages_records.MOST_SOURCES", 1)
    with server.database.session() as session:
        telc, trebic = a_repository(session), a_repository(session, "Třebíč", "trebic")
        for repository in (telc, trebic, trebic):
            a_bibliographic_record(session, repository)
        numbers = trebic.repository_id, telc.repository_id
        session.commit()

    _, page = await administrator.get("/records")
    assert [f"/records?repository={number}" in page for number in numbers] == [True, False]


async def test_files_of_hits_have_all_contributors_of_a_record(
    server: Server, administrator: Browser
) -> None:
    more = [f"Autor, {number}" for number in range(1, 7)]
    with server.database.session() as session:
        row = a_bibliographic_record(session, a_repository(session))
        for position, name in enumerate(more, start=1):
            session.add(
                ContributorRow(
                    bibliographic_id=row.bibliographic_id,
                    position=position,
                    name=name,
                    kind="person",
                    roles=[],
                )
            )
        session.commit()

    _, exported = await administrator.get("/records.json")
    _, table = await administrator.get("/records.csv")

    assert [one["contributors"] for one in json.loads(exported)] == [["Hus, Jan", *more]]
    assert "; ".join(["Hus, Jan", *more]) in table


async def test_files_of_hits_have_identifiers_sources_numbers_and_subjects(
    server: Server, administrator: Browser
) -> None:
    with server.database.session() as session:
        telc = a_repository(session)
        row = a_bibliographic_record(session, telc)
        session.add(
            IdentifierRow(
                bibliographic_id=row.bibliographic_id,
                position=1,
                scheme="issn",
                value="1234-5678",
                found="1234-5678",
                state="cancelled",
            )
        )
        a_bibliographic_record(session, telc, title="Bez témat", subjects=[])
        session.commit()

    _, exported = await administrator.get("/records.json")
    _, table = await administrator.get("/records.csv")

    names = ("identifier", "source", "numbers", "subjects")
    assert [[one[name] for name in names] for one in json.loads(exported)] == [
        ["oai:telc.example:2", "Library of Telč", ["isbn:9788020001290"], []],
        [
            "oai:telc.example:1",
            "Library of Telč",
            ["isbn:9788020001290", "issn:1234-5678 (cancelled)"],
            ["čeština"],
        ],
    ]
    assert table.splitlines()[0].endswith(",languages,identifier,source,numbers,subjects")
    assert "isbn:9788020001290; issn:1234-5678 (cancelled)" in table


async def test_a_record_shows_the_names_of_roles_and_omits_empty_information(
    server: Server, administrator: Browser
) -> None:
    with server.database.session() as session:
        published = [
            {"place": "Praha", "function": "publication"},
            {"place": "Brno", "function": "manufacture"},
        ]
        row = a_bibliographic_record(session, a_repository(session), publications=published)
        number = row.bibliographic_id
        session.add(
            ContributorRow(
                bibliographic_id=number, position=1, name="Blahoslav", kind="unknown", roles=["cre", "xyz"]
            )
        )
        session.commit()
    await administrator.post("/account/language", {"language": "cs"})

    _, page = await administrator.get(f"/records/bibliographic/{number}")

    assert "role: tvůrce, xyz" in page
    assert "neznámé" not in page
    assert "funkce: vydání" not in page
    assert "funkce: výroba" in page


async def test_pages_shorten_very_long_titles(server: Server, administrator: Browser) -> None:
    title = "x" * 100_000
    with server.database.session() as session:
        row = a_bibliographic_record(session, a_repository(session), title=title, statement=title)
        session.commit()
        number = row.bibliographic_id
    _, listed = await administrator.get("/records")
    _, page = await administrator.get(f"/records/bibliographic/{number}")

    assert "x" * 499 + "\u2026" in listed
    assert "x" * 500 not in listed
    assert "x" * 1999 + "\u2026" in page
    assert "x" * 2000 not in page


async def test_a_record_shows_its_fields_its_notes_and_a_safe_link_to_the_original(
    server: Server, administrator: Browser
) -> None:
    with server.database.session() as session:
        telc = a_repository(session)
        row = a_bibliographic_record(session, telc)
        template = "https://telc.example/records/{local}"
        save_source(session, SourceSettings(repository_id=telc.repository_id, record_url_template=template))
        evil = {"url": "javascript:alert(1)", "label": "", "relation": "other"}
        bad = a_bibliographic_record(session, telc, links=[evil])
        session.commit()
        number, other = row.bibliographic_id, bad.bibliographic_id

    _, page = await administrator.get(f"/records/bibliographic/{number}")
    _, harmless = await administrator.get(f"/records/bibliographic/{other}")

    for text in ("Academia", "Hus, Jan", "9788020001290", "čeština", "2 characters instead of 40"):
        assert text in page
    assert 'href="https://telc.example/records/' in page
    assert 'href="javascript:' not in harmless


async def _ended(server: Server) -> None:
    async with asyncio.timeout(60):
        while server.app[IMPORTS].under_way:  # noqa: ASYNC110 only pages show the progress
            await asyncio.sleep(0.05)


async def test_partners_add_and_change_filtering_sets_of_their_own_organisation(
    server: Server, owner: Browser, colleague: Browser, administrator: Browser, repository: int
) -> None:
    made, _, _ = await owner.post("/imports/sets/new", {**_SET, "name": "maps", "do": "save"})
    with server.database.session() as session:
        number = a_filtering_set(session)
        session.commit()
    changed, _, _ = await owner.post("/imports/sets/1/edit", {**_SET, "value-0": "atlas", "do": "save"})
    shared, _, _ = await owner.post(f"/imports/sets/{number}/edit", {**_SET, "do": "save"})
    _, own = await owner.get("/imports/sets")
    _, theirs = await colleague.get("/imports/sets")
    _, all_of_them = await administrator.get("/imports/sets")
    used, _, _ = await owner.post(f"/imports/{repository}", {"set_id": "1"})

    assert (made, changed, shared, used) == (303, 303, 403, 303)
    assert "mzk/maps" in own
    assert "mzk/maps" in all_of_them
    assert "mzk/maps" not in theirs
    assert "dictionaries" in theirs
    for step in ("edit", "remove"):
        assert (await colleague.post(f"/imports/sets/1/{step}", {**_SET, "do": "save"}))[0] == 404


async def test_a_source_cannot_use_a_filtering_set_of_another_organisation(
    colleague: Browser, owner: Browser, repository: int
) -> None:
    await colleague.post("/imports/sets/new", {**_SET, "name": "maps", "do": "save"})

    status, page, _ = await owner.post(f"/imports/{repository}", {"set_id": "1"})

    assert status == 422
    assert "The filtering set does not exist" in page


def test_filtering_sets_are_renamed_with_their_organisations_short_name(server: Server) -> None:
    with server.database.session() as session:
        number = a_filtering_set(session, "mzk/maps")
        other = a_filtering_set(session, "mzk2/maps")
        change_organisation(session, 1, short_name="mzk.cz", name="")
        renamed = set_by_id(session, number).name
        session.execute(delete(User).where(User.organisation_id == 1))
        remove_organisation(session, 1)

        assert renamed == "mzk.cz/maps"
        assert set_by_id(session, number).name == "/mzk.cz/maps"
        assert set_by_id(session, other).name == "mzk2/maps"


def test_sets_of_removed_organisations_with_the_same_name_are_numbered(server: Server) -> None:
    with server.database.session() as session:
        former = [a_filtering_set(session, f"/mzk/{name}") for name in ("maps", "maps (2)")]
        sets = [a_filtering_set(session, f"mzk/{name}") for name in ("maps", "maps (2)", "books")]
        session.execute(delete(User).where(User.organisation_id == 1))
        remove_organisation(session, 1)

        names = [set_by_id(session, number).name for number in (*former, *sets)]
    assert names == ["/mzk/maps", "/mzk/maps (2)", "/mzk/maps (3)", "/mzk/maps (2) (2)", "/mzk/books"]


async def test_sets_of_a_removed_organisation_are_visible_to_administrators_and_their_users(
    server: Server, owner: Browser, colleague: Browser, administrator: Browser, repository: int
) -> None:
    with server.database.session() as session:
        kv = add_organisation(session, short_name="kv")
        used = a_filtering_set(session, "kv/used")
        a_filtering_set(session, "kv/secret")
        save_source(session, SourceSettings(repository_id=repository, set_id=used))
        remove_organisation(session, kv.organisation_id)
        add_organisation(session, short_name="kv")
        session.commit()
    seen = []
    for browser in (administrator, owner, colleague):
        _, page = await browser.get("/imports/sets")
        async with browser.http.get(f"{server.base_url}/api/v1/filtering-sets") as answer:
            names = [one["name"] for one in (await answer.json())["items"]]
        assert [name for name in ("/kv/secret", "/kv/used") if name in page] == names
        seen.append(names)
    assert seen == [["/kv/secret", "/kv/used"], ["/kv/used"], []]
    assert (await owner.get(f"/imports/sets/{used}/edit"))[0] == 403


async def test_a_set_used_by_a_moved_repository_is_released_by_an_administrator(
    server: Server, owner: Browser, administrator: Browser, repository: int
) -> None:
    await owner.post("/imports/sets/new", {**_SET, "name": "maps", "do": "save"})
    await owner.post(f"/imports/{repository}", {"set_id": "1"})
    with server.database.session() as session:
        give_repository(session, repository, 2)
        session.commit()
    status, page, _ = await owner.post("/imports/sets/1/remove")
    url, headers = f"{server.base_url}/api/v1/filtering-sets/1", {"X-CSRF-Token": await owner.token()}
    async with owner.http.delete(url, headers=headers) as answer:
        refused = answer.status, (await answer.json())["detail"]
    body = {"conditions": ["245$a contains NOTHING"]}
    async with owner.http.put(url, headers=headers, json=body) as answer:
        unchanged = answer.status, (await answer.json())["detail"]
    edited, form, _ = await owner.post("/imports/sets/1/edit", {**_SET, "field-0": "246", "do": "save"})
    released, _, _ = await administrator.post(f"/imports/{repository}", {"set_id": ""})

    assert (status, refused[0], unchanged[0], edited, released) == (409, 409, 409, 422, 303)
    for words in (page, refused[1], unchanged[1], form):
        assert "a repository that does not belong to your organisation uses this set" in words
    assert (await owner.post("/imports/sets/1/remove"))[0] == 303


async def test_an_organisation_cannot_take_a_short_name_that_makes_set_names_collide(
    server: Server, administrator: Browser
) -> None:
    with server.database.session() as session:
        number = a_filtering_set(session, "mzk/maps")
        a_filtering_set(session, "new/maps")
        session.commit()
    status, page, _ = await administrator.post(
        "/admin/organisations/1", {"short_name": "new", "name": "Moravian Library"}
    )
    named, _, _ = await administrator.post(
        "/admin/organisations/1", {"short_name": "mzk", "name": "Moravian Library"}
    )

    assert (status, named) == (422, 303)
    assert "the filtering set &#39;new/maps&#39; already exists; remove it first" in page
    with server.database.session() as session:
        assert set_by_id(session, number).name == "mzk/maps"


async def test_a_harvested_record_and_the_record_imported_from_it_link_to_each_other(
    server: Server, owner: Browser, repository: int
) -> None:
    with server.database.session() as session:
        harvested = session.scalars(select(Record).order_by(Record.record_id)).first()
        assert harvested is not None
        made = a_bibliographic_record(session, session.get_one(Repository, repository))
        made.identifier, made.identifier_key = harvested.identifier, harvested.identifier_key
        made.metadata_prefix = harvested.metadata_prefix
        session.commit()
        there, here = f"/records/bibliographic/{made.bibliographic_id}", f"/records/{harvested.record_id}"
    _, stored = await owner.get(here)
    _, described = await owner.get(there)
    async with owner.http.get(f"{server.base_url}/api/v1{here}") as answer:
        body = await answer.json()

    assert f'href="{there}"' in stored
    assert f'href="{here}"' in described
    assert there.endswith(f"/{body['bibliographic_id']}")


async def test_the_marc_report_counts_findings_by_rule_with_records_as_examples(
    server: Server, owner: Browser, colleague: Browser, repository: int
) -> None:
    data = _stored(2, "Mapy", "041 0# $aczech", "24 ## $ax")
    (server.settings.store / "telc" / "2.xml").write_bytes(data)
    with server.database.session() as session:
        found = session.scalars(select(Record).where(Record.filename == "2.xml")).one()
        found.digest = hashlib.sha256(data).digest()
        session.commit()

    _, page = await owner.get(f"/imports/{repository}/marc")
    _, structure = await owner.get(f"/imports/{repository}/marc?level=1&records=1000")

    language = page.partition("undefined code of a language")[2].partition("</tr>")[0]
    assert ("041$a" in language, "czech" in language) == (True, True)
    assert f'href="/repositories/{repository}/records?identifier=oai%3Ax%3A2"' in language
    assert "Level 3: Coded values and dates" in page
    assert "tag of a data field" in structure
    assert "undefined code of a language" not in structure
    assert (await colleague.get(f"/imports/{repository}/marc"))[0] == 404
    assert (await owner.get(f"/imports/{repository}/marc?level=9&records=x"))[0] == 200


async def test_a_source_without_marc_records_has_no_report(server: Server, administrator: Browser) -> None:
    with server.database.session() as session:
        number = a_repository(session).repository_id
        session.commit()

    assert "No MARC records are stored." in (await administrator.get(f"/imports/{number}/marc"))[1]


def test_every_rule_of_the_validation_has_a_text() -> None:
    folder = files("harvester.bibliographic.marc21")
    modules = ("structure.py", "designations.py", "coded_values.py")
    written = "".join((folder / name).read_text(encoding="utf-8") for name in modules)
    codes = set(re.findall(r'"([a-z]+(?:_[a-z]+)+)"', written))

    assert len(codes) > 30
    assert codes == set(RULES)


async def test_kinds_of_titles_and_numbers_are_named_in_the_readers_language(
    server: Server, administrator: Browser
) -> None:
    with server.database.session() as session:
        titles = [{"kind": "alternative", "text": "Kytice", "label": ""}]
        row = a_bibliographic_record(session, a_repository(session), titles=titles)
        number = required(session.scalar(select(IdentifierRow)), "a number")
        number.scheme = "uri"
        session.commit()
        path = f"/records/bibliographic/{row.bibliographic_id}"
    await administrator.post("/account/language", {"language": "cs"})
    _, page = await administrator.get(path)
    assert "druh: další název" in page
    assert "druh čísla: adresa (URI)" in page

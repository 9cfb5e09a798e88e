"""The search in the header, the theme, and the language before signing in."""

from sqlalchemy.orm import Session

from harvester.models import Harvest, Record, Repository
from harvester.store.paths import identifier_key
from oai.owners import RepositoryOwner
from provider.holdings.collections import add_collection
from tests.web.conftest import Browser, Server
from tests.web.rows import a_bibliographic_record, a_repository, a_rule, a_run, some_titles
from web.auth.organisations import get_organisation

_IDENTIFIER = "oai:telc.example:7"


def _fill(session: Session) -> None:
    """Fill in a repository of each organisation, and a record and a run of the first."""
    for name, owner in (("Library of Telč", "mzk"), ("Library of Třebíč", "nk")):
        made = a_repository(session, name=name, folder=owner)
        organisation_id = get_organisation(session, owner).organisation_id
        session.add(RepositoryOwner(repository_id=made.repository_id, organisation_id=organisation_id))
        a_run(session, made)
        session.add(Harvest(repository_id=made.repository_id, metadata_prefix="oai_dc"))
        session.add(
            Record(
                repository_id=made.repository_id, identifier=_IDENTIFIER, metadata_prefix="oai_dc",
                identifier_key=identifier_key(_IDENTIFIER), datestamp="2026-01-01",
            )
        )  # fmt: skip
        a_bibliographic_record(session, made, title=f"Kronika {owner}")
    session.commit()


_SOUGHT = (
    ("library", "/repositories/1", "/repositories/2"),
    ("#1", "/runs/1", ""),
    (_IDENTIFIER, "/records/1", "/records/2"),
    ("kronika", "/records/bibliographic/1", "/records/bibliographic/2"),
)


async def test_users_find_only_objects_that_they_may_see(
    server: Server, owner: Browser, administrator: Browser
) -> None:
    with server.database.session() as session:
        _fill(session)

    for words, own, others in _SOUGHT:
        query = words.replace("#", "%23")
        _, mine = await owner.get(f"/search?q={query}")
        _, all_of_them = await administrator.get(f"/search?q={query}")
        async with owner.http.get(f"{server.base_url}/api/v1/search?q={query}") as answer:
            items = (await answer.json())["items"]

        assert f'href="{own}"' in mine, words
        assert not others or f'href="{others}"' not in mine, words
        assert f'href="{others or own}"' in all_of_them, words
        assert [item["address"] for item in items] == [own], words


async def test_a_run_of_another_organisation_is_not_found_by_its_number(
    server: Server, owner: Browser
) -> None:
    with server.database.session() as session:
        _fill(session)

    _, page = await owner.get("/search?q=2")

    assert "Nothing found." in page


async def test_pages_are_found_by_name_and_unusual_words_cause_no_error(administrator: Browser) -> None:
    _, found = await administrator.get("/search?q=audit")
    words = ("%00", "%01", "ab%09c", "ab%0Ac", "ab%07c", "%25_", "((", "*.", "x" * 5000)
    odd = [await administrator.get(f"/search?q={one}") for one in words]

    assert 'href="/store-audits"' in found
    assert [status for status, _ in odd] == [200] * len(odd)


async def test_words_may_be_separated_by_any_blanks(server: Server, administrator: Browser) -> None:
    with server.database.session() as session:
        _fill(session)

    async with administrator.http.get(f"{server.base_url}/api/v1/search?q=kronika%09%0Amzk%07") as answer:
        items = (await answer.json())["items"]

    assert [item["address"] for item in items] == ["/records/bibliographic/1"]


async def test_theme_and_language_are_chosen_before_signing_in(stranger: Browser) -> None:
    _, _, target = await stranger.post("/preferences", {"theme": "dark", "next": "/sign-in?next=%2Fruns"})
    await stranger.post("/preferences", {"language": "cs"})
    _, page = await stranger.get("/sign-in")
    _, _, elsewhere = await stranger.post("/preferences", {"theme": "", "next": "//evil.example/"})
    _, later = await stranger.get("/sign-in")

    assert target == "/sign-in?next=/runs"
    assert '<html lang="cs" data-theme="dark">' in page
    assert "Přihlásit" in page
    assert elsewhere == "/"
    assert '<html lang="cs">' in later


async def test_another_site_cannot_change_display_preferences(server: Server, stranger: Browser) -> None:
    async with stranger.http.post(
        f"{server.base_url}/preferences",
        data={"theme": "dark"},
        headers={"Sec-Fetch-Site": "cross-site"},
        allow_redirects=False,
    ) as answer:
        assert answer.status == 403
        assert not answer.cookies


_OF_THE_ARCHIVE = (
    ("nakladatelství novin", "/archive/titles/1", {"curator", "administrator"}),
    ("TELC", "/archive/titles/2", {"curator", "administrator"}),
    ("mesto nove", "/archive/collections/collection:serials", {"curator", "administrator", "staff"}),
    ("ction:serials", "/archive/collections/collection:serials", {"curator", "administrator", "staff"}),
    ("od roku", "/rules/1", {"administrator", "staff", "curator", "owner"}),
    ("vsechny", "/rules/2", {"administrator", "staff", "curator"}),
)
"""Words, the page that they find, and who finds it."""


async def test_titles_collections_and_rules_are_found_by_those_who_may_see_them(
    server: Server, owner: Browser, curator: Browser, administrator: Browser, viewer: Browser
) -> None:
    with server.database.session() as session:
        _fill(session)
        some_titles(session)
        add_collection(session, "collection:serials", name="Město Nové")
        for number, name in ((1, "Od roku 2020"), (None, "Pro všechny")):
            rule = a_rule(session, None if number is None else session.get(Repository, number))
            rule.name = name
        session.commit()
    browsers = {"owner": owner, "curator": curator, "administrator": administrator, "staff": viewer}

    for words, address, seen_by in _OF_THE_ARCHIVE:
        found = {
            who
            for who, browser in browsers.items()
            if f'href="{address}"' in (await browser.get(f"/search?q={words}"))[1]
        }
        assert found == seen_by, words


async def test_the_page_without_hits_names_what_the_user_may_find(
    owner: Browser, curator: Browser, viewer: Browser
) -> None:
    hints = (
        "the name of a repository or a rule",
        "name of a title or a collection",
        "name of a collection, or",
    )
    found = {
        name: [hint in (await browser.get("/search?q=nowhere"))[1] for hint in hints]
        for name, browser in (("owner", owner), ("curator", curator), ("staff", viewer))
    }
    assert found == {
        "owner": [True, False, False], "curator": [True, True, False], "staff": [True, False, True],
    }  # fmt: skip

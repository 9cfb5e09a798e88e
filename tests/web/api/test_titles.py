"""Titles over the API."""

import pytest
from sqlalchemy import select

from provider.titles.models import Title
from tests.web.api.conftest import Program, Using
from tests.web.conftest import Server
from tests.web.rows import some_titles


@pytest.fixture
def key(server: Server) -> str:
    """The key of a title with three seeds; there is another one."""
    with server.database.session() as session:
        some_titles(session)
        session.commit()
        return session.scalars(select(Title.key).where(Title.source_key == "1")).one().hex


async def test_titles_are_listed_page_by_page_and_filtered(program: Program, key: str) -> None:
    first = (await program.get("/archive/titles?limit=1")).body
    second = (await program.get(first["next"])).body
    found = {
        query: [
            one["source_key"][:1] for one in (await program.get(f"/archive/titles?{query}")).body["items"]
        ]
        for query in (
            "words=staroceske",
            "source=library",
            "source=x",
            "standing=not+public",
            "standing=listed",
        )
    }

    assert [one["source_key"][:1] for one in first["items"] + second["items"]] == ["1", "k"]
    assert second["next"] is None
    assert first["items"][0]["key"] == key
    assert first["items"][0]["standing"] == "no captures"
    assert found == {
        "words=staroceske": ["1"], "source=library": ["1", "k"], "source=x": [],
        "standing=not+public": ["k"], "standing=listed": [],
    }  # fmt: skip
    assert (await program.get("/archive/titles?standing=x")).status == 422


async def test_a_title_is_shown_with_its_seeds_and_sets(program: Program, key: str) -> None:
    shown = (await program.get(f"/archive/titles/{key}")).body

    assert shown["identifier"].endswith(f":title:{key}")
    assert shown["subjects"][0]["part"] == "Zpěv"
    assert [seed["kind"] for seed in shown["seeds"]] == ["include", "carve-out", "include"]
    assert shown["seeds"][0]["ranges"][0]["owner"].startswith("Noviny")
    assert "licence:cc-by-4.0" in [one["set_spec"] for one in shown["sets"]]
    assert shown["datestamp"] is None
    assert (await program.get(f"/archive/titles/{'0' * 32}")).status == 404


async def test_titles_are_refused_to_users_outside_the_archives_staff(using: Using, key: str) -> None:
    async with using("Viktor") as viewer:
        assert (await viewer.get(f"/archive/titles/{key}")).status == 403

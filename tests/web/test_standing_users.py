"""An owner, a colleague of another organisation and a stranger are asked of every route there is."""

import itertools
import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import pytest
from sqlalchemy import text

from tests.web.api.conftest import token_of
from tests.web.conftest import Browser, Server, browser_of
from tests.web.standing import MARK, OBJECTS, OWN_ACCOUNT, PUBLIC, a_neighbour, a_world, fingerprint
from web.api.operations import PREFIX
from web.api.table import OPERATIONS
from web.auth.access import STREAMS, Right, right_of

_VARIABLE = re.compile(r"\{(\w+)\}")
_FOR_THE_HOUSE = frozenset({Right.LOOK_AROUND, Right.ARCHIVE, Right.ADMINISTER})
_STAND_INS = {
    "collection": "collection:maps",
    "spec": "collection:maps",
    "card": "x" * 22,
    "digest": "x" * 22,
    "title": "0" * 32,
    "key": "00000000-0000-0000-0000-000000000001",
    "client": "00000000-0000-0000-0000-000000000001",
    "document": "00000000-0000-0000-0000-000000000001",
    "control": "pause",
    "kind": "csv",
}
_CHOICES = frozenset({"control", "kind"})
"""Variables that choose a way, not an object."""
_NOT_IN_THE_WORLD = re.compile(r"/content$|/doctor\.json$|/doctor/")
"""Of these there is none before something else is done: a record's file, an examination's report."""
_HARMLESS = {("POST", "/preferences")}
"""It only sets cookies that say how pages look."""
_REFUSED = {401, 403, 404}


@dataclass(frozen=True, kw_only=True)
class _Route:
    method: str
    path: str
    right: Right

    @property
    def key(self) -> tuple[str, str]:
        return self.method, self.path

    @property
    def is_api(self) -> bool:
        return self.path.startswith(PREFIX)

    @property
    def thing(self) -> str | None:
        """The word of what the route is about, where that belongs to somebody."""
        found = [word for path, word in OBJECTS.items() if (self.path + "/").startswith(path + "/")]
        return found[0] if found else None

    def address(self, world: dict[str, int]) -> str:
        number = world[self.thing] if self.thing else 1
        return _VARIABLE.sub(lambda found: _STAND_INS.get(found[1], str(number)), self.path)


def _routes(server: Server) -> list[_Route]:
    """Every route; what is added to the application is among them."""
    declared = {(one.method, PREFIX + one.path): one.right for one in OPERATIONS}
    routes = []
    for route in server.app.router.routes():
        assert route.resource is not None
        if route.method == "HEAD":
            continue
        path = route.resource.canonical
        right = declared.get((route.method, path)) or right_of(route.handler, route.method)
        routes.append(_Route(method=route.method, path=path, right=right))
    return routes


def _somebodys(server: Server) -> list[_Route]:
    found = [route for route in _routes(server) if route.thing and route.right not in _FOR_THE_HOUSE]
    return sorted(found, key=lambda route: (route.method != "GET", route.path))


def _for_the_house(server: Server) -> list[_Route]:
    return [
        route
        for route in _routes(server)
        if route.right in _FOR_THE_HOUSE and route.key not in PUBLIC | OWN_ACCOUNT
    ]


async def _ask(browser: Browser, route: _Route, address: str, token: str) -> tuple[int, str]:
    """Status and text; a form or body that is empty but for the form token."""
    headers = {"X-CSRF-Token": token} if route.is_api else {}
    carried: dict[str, Any] = {"json": {}} if route.is_api else {"data": {"csrf_token": token}}
    if route.method == "GET":
        carried = {}
    async with browser.http.request(
        route.method, browser.base_url + address, headers=headers, allow_redirects=False, **carried
    ) as answer:
        if answer.content_type == "text/event-stream":
            return answer.status, ""
        return answer.status, await answer.text()


@pytest.fixture
def world(server: Server) -> dict[str, int]:
    """What is the owner's, and what is the colleague's beside it."""
    with server.database.session() as session:
        # The numbers of different things differ, so that one cannot stand in for another.
        world = [a_world(session) for _ in range(3)][-1]
        a_neighbour(session)
        session.commit()
    return world


def test_every_route_is_covered(server: Server) -> None:
    """A new route is somebody's, the house's, one's own, public, or a list that is looked through below."""
    for route in _routes(server):
        if route.right is Right.ANYBODY:
            assert route.key in PUBLIC, f"{route.key} answers strangers: name it in PUBLIC"
        elif route.right is Right.ACCOUNT:
            assert route.key in OWN_ACCOUNT, f"{route.key}: name it in OWN_ACCOUNT"
        elif set(_VARIABLE.findall(route.path)) - _CHOICES and route.right not in _FOR_THE_HOUSE:
            assert route.thing, f"{route.key}: name what it is about in OBJECTS"


def test_every_change_says_what_right_it_needs(server: Server) -> None:
    for route in server.app.router.routes():
        assert route.resource is not None
        path = route.resource.canonical
        if route.method not in {"GET", "HEAD"} and not path.startswith(PREFIX):
            assert hasattr(route.handler, "needed_right"), f"{route.method} {path}"


async def test_strangers_get_nothing_but_the_way_in(
    server: Server, stranger: Browser, world: dict[str, int]
) -> None:
    before = _fingerprint(server)

    for route in _routes(server):
        if route.key in PUBLIC or (route.method != "GET" and not route.is_api):
            continue
        status, text = await _ask(stranger, route, route.address(world), "x")
        programs = route.path in STREAMS or route.path.startswith("/api/")
        expected = 401 if programs and not route.path.startswith("/api/docs") else 303
        assert status == expected, route.key
        assert MARK not in text, route.key

    assert _fingerprint(server) == before


async def test_strangers_can_post_nothing(server: Server, stranger: Browser, world: dict[str, int]) -> None:
    before = _fingerprint(server)

    for route in _routes(server):
        if route.method != "GET" and not route.is_api and route.key not in PUBLIC:
            status, _, target = await stranger.post(route.address(world))
            assert (status, target) == (303, "/sign-in"), route.key

    assert _fingerprint(server) == before


@pytest.mark.parametrize("named", [True, False])
@pytest.mark.parametrize("reader", ["Viktor", "Alena"])
async def test_credentials_of_base_urls_are_shown_to_those_who_may_change_the_repository_alone(
    server: Server, world: dict[str, int], reader: str, *, named: bool
) -> None:
    """Without a name, the base URL is shown instead; a name may also be an address."""
    address = "'http://me:s%40cret@' || base_dir || '.example/oai?a=@b'"
    report = "jsonb_build_object('base_url', 'http://owner.example/oai')"
    with server.database.session() as session:
        session.execute(
            text(
                f"UPDATE oai_repository SET base_url = {address}, examination = {report},"  # noqa: S608
                f" repository_name = {address if named else 'NULL'}"
            )
        )
        session.commit()
    shown, found = set(), set()
    async with browser_of(server, reader) as browser:
        for route in _routes(server):
            if route.method == "GET" and not route.path.startswith("/static"):
                _, answer = await _ask(browser, route, route.address(world), "")
                shown |= {route.path} if "cret@" in answer else set()
                found |= {route.path} if "owner-" in answer else set()
    assert len(found) > 40
    form_and_api = {
        "/repositories/{id}/settings",
        "/api/v1/repositories",
        "/api/v1/repositories/{repository}",
    }
    assert shown == (form_and_api if reader == "Alena" else set())


async def test_a_colleague_is_told_that_what_is_the_owners_is_not_there(
    server: Server, colleague: Browser, world: dict[str, int]
) -> None:
    token, before = await colleague.token(), _fingerprint(server)
    routes = _somebodys(server)

    assert len(routes) > 20
    for route in routes:
        status, text = await _ask(colleague, route, route.address(world), token)
        nowhere, as_nowhere = await _ask(
            colleague, route, route.address(dict.fromkeys(world, 999_999)), token
        )
        # A body that is no good may be told before anything is looked for: of what is not there as well.
        assert status in {404, 415, 422}, route.key
        assert status == nowhere, route.key
        assert _without_numbers(text) == _without_numbers(as_nowhere), route.key
        assert MARK not in text, route.key

    assert _fingerprint(server) == before


async def test_the_owner_gets_there(server: Server, owner: Browser) -> None:
    """Else the colleague's 404 would prove nothing. After each change there is a fresh world."""
    token, world = await owner.token(), _fresh_world(server)
    for route in _somebodys(server):
        status, text = await _ask(owner, route, route.address(world), token)
        if route.method != "GET" and status < 400:
            world = _fresh_world(server)
        if route.path.endswith("/{control}") and route.method == "GET":
            continue  # asks before some controls only
        if _NOT_IN_THE_WORLD.search(route.path):
            continue
        assert status not in _REFUSED, (route.key, text)
        assert status < 500, (route.key, text)


async def test_lists_show_the_owner_what_is_theirs_and_nobody_else(
    server: Server, owner: Browser, colleague: Browser, viewer: Browser, world: dict[str, int]
) -> None:
    seen = set()
    for route in _routes(server):
        if route.method != "GET" or route.thing or route.right is not Right.LOOK or route.path in STREAMS:
            continue
        _, text = await _ask(colleague, route, route.address(world), "")
        assert MARK not in text, route.key
        _, text = await _ask(owner, route, route.address(world), "")
        _, everything = await _ask(viewer, route, route.address(world), "")
        assert (MARK in text) == (MARK in everything), route.key
        if MARK in text:
            seen.add(route.path)

    assert seen >= {"/", "/repositories", "/schedules", "/jobs", "/runs", "/api/v1/repositories"}


async def test_a_list_of_the_owners_repository_is_no_way_round(
    server: Server, colleague: Browser, world: dict[str, int]
) -> None:
    number = world["repository"]
    for route in _routes(server):
        if route.method != "GET" or route.thing or route.right is not Right.LOOK or route.path in STREAMS:
            continue
        for name in ("repository", "repository_id"):
            address = f"{route.address(world)}?{name}={number}"
            _, text = await _ask(colleague, route, address, "")
            assert MARK not in text, address


async def test_partners_are_kept_out_of_the_house(
    server: Server, owner: Browser, world: dict[str, int]
) -> None:
    token, before = await owner.token(), _fingerprint(server)
    routes = _for_the_house(server)

    assert len(routes) > 20
    for route in routes:
        status, _ = await _ask(owner, route, route.address(world), token)
        assert status == 403, route.key

    assert _fingerprint(server) == before


async def test_viewers_change_nothing(server: Server, viewer: Browser, world: dict[str, int]) -> None:
    token, before = await viewer.token(), _fingerprint(server)

    for route in _changes(server):
        status, _ = await _ask(viewer, route, route.address(world), token)
        assert status == 403, route.key

    assert _fingerprint(server) == before


async def test_curators_change_the_archive_alone(
    server: Server, curator: Browser, world: dict[str, int]
) -> None:
    token, before = await curator.token(), _fingerprint(server)

    for route in _changes(server):
        status, text = await _ask(curator, route, route.address(world), token)
        assert (status == 403) == (route.right is not Right.ARCHIVE), (route.key, text)
        assert status < 500, (route.key, text)

    assert _fingerprint(server) == before


async def test_every_change_without_the_form_token_is_refused(
    server: Server, administrator: Browser, world: dict[str, int]
) -> None:
    before = _fingerprint(server)

    # One check refuses both for all routes, so each route gets one of them: none, or a wrong one.
    tokens = itertools.cycle(("", "x" * 43))
    for route in _routes(server):
        if route.method == "GET" or route.key in _HARMLESS:
            continue
        status, text = await _ask(administrator, route, route.address(world), next(tokens))
        assert status == 403, route.key
        assert "has expired" in text or "form token" in text, route.key

    assert _fingerprint(server) == before


async def test_a_token_makes_no_change_through_a_page(
    server: Server, stranger: Browser, world: dict[str, int]
) -> None:
    stranger.http.headers["Authorization"] = f"Bearer {token_of(server, 'Alena')}"
    before = _fingerprint(server)

    for route in _routes(server):
        if route.method != "GET" and not route.is_api:
            status, text = await _ask(stranger, route, route.address(world), "")
            assert status == 403, route.key
            assert route.right is Right.ACCOUNT or "API tokens cannot do this" in text, route.key
    assert (await stranger.get("/admin/users/new"))[0] == 403, "the form leads nowhere"
    assert (await stranger.get("/admin/users"))[0] == 200

    assert _fingerprint(server) == before


async def test_events_tell_each_follower_of_their_own_rows_alone(
    server: Server, owner: Browser, colleague: Browser, world: dict[str, int]
) -> None:
    first_frames = {"owner": "", "colleague": ""}
    for name, browser in (("owner", owner), ("colleague", colleague)):
        for topic in ("jobs", "planned"):
            async with browser.http.get(f"{server.base_url}/events?topics={topic}") as stream:
                await stream.content.readuntil(b"\n\n")  # how soon to come back
                first_frames[name] += (await stream.content.readuntil(b"\n\n")).decode()

    assert MARK in first_frames["owner"]
    assert MARK not in first_frames["colleague"]
    assert f"job-{world['job']}" not in first_frames["colleague"]
    assert "Library of the colleague" in first_frames["colleague"]


def _fresh_world(server: Server) -> dict[str, int]:
    with server.database.session() as session:
        world = a_world(session)
        session.commit()
    return world


def _changes(server: Server) -> Iterator[_Route]:
    for route in _routes(server):
        if route.method != "GET" and route.key not in PUBLIC | OWN_ACCOUNT:
            yield route


def _fingerprint(server: Server) -> dict[str, str]:
    with server.database.session() as session:
        return fingerprint(session)


def _without_numbers(text: str) -> str:
    """Also without the random values that each page carries."""
    return re.sub(r"\d+", "#", text)

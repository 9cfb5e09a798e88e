"""Every route is requested by an owner, a colleague of another organisation, a stranger and other users."""

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
_STAFF_RIGHTS = frozenset({Right.LOOK_AROUND, Right.ARCHIVE, Right.ADMINISTER})
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
"""Variables that choose an action or a kind, not an object."""
_NOT_IN_THE_WORLD = re.compile(r"/content$|/doctor\.json$|/doctor/|/marc\.xml$")
"""Objects that exist only after further steps: a record's file, a report of diagnostics, MARC records."""
_HARMLESS = {("POST", "/preferences")}
"""It only sets cookies with display preferences."""
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
        """The kind of object that the route is about, if the object has an owner."""
        found = [word for path, word in OBJECTS.items() if (self.path + "/").startswith(path + "/")]
        return found[0] if found else None

    def address(self, world: dict[str, int]) -> str:
        number = world[self.thing] if self.thing else 1
        return _VARIABLE.sub(lambda found: _STAND_INS.get(found[1], str(number)), self.path)


def _routes(server: Server) -> list[_Route]:
    """Return every route of the application, with those added later."""
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


def _routes_of_owned_objects(server: Server) -> list[_Route]:
    found = [route for route in _routes(server) if route.thing and route.right not in _STAFF_RIGHTS]
    return sorted(found, key=lambda route: (route.method != "GET", route.path))


def _routes_for_staff(server: Server) -> list[_Route]:
    return [
        route
        for route in _routes(server)
        if route.right in _STAFF_RIGHTS and route.key not in PUBLIC | OWN_ACCOUNT
    ]


async def _ask(browser: Browser, route: _Route, address: str, token: str) -> tuple[int, str]:
    """Send an empty form or body with the form token; return status and text."""
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
    """Add the owner's objects, and a repository of the colleague."""
    with server.database.session() as session:
        # The numbers of different kinds of objects differ, so that one cannot be mistaken for another.
        world = [a_world(session) for _ in range(3)][-1]
        a_neighbour(session)
        session.commit()
    return world


def test_every_route_is_covered(server: Server) -> None:
    """A new route is about an owned object, the own account, for staff, public, or a list tested below."""
    for route in _routes(server):
        if route.right is Right.ANYBODY:
            assert route.key in PUBLIC, f"{route.key} answers strangers: name it in PUBLIC"
        elif route.right is Right.ACCOUNT:
            assert route.key in OWN_ACCOUNT, f"{route.key}: name it in OWN_ACCOUNT"
        elif set(_VARIABLE.findall(route.path)) - _CHOICES and route.right not in _STAFF_RIGHTS:
            assert route.thing, f"{route.key}: name what it is about in OBJECTS"


def test_every_changing_route_declares_the_right_it_needs(server: Server) -> None:
    for route in server.app.router.routes():
        assert route.resource is not None
        path = route.resource.canonical
        if route.method not in {"GET", "HEAD"} and not path.startswith(PREFIX):
            assert hasattr(route.handler, "needed_right"), f"{route.method} {path}"


async def test_strangers_can_read_only_public_routes(
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


async def test_strangers_can_post_only_to_public_routes(
    server: Server, stranger: Browser, world: dict[str, int]
) -> None:
    before = _fingerprint(server)

    for route in _routes(server):
        if route.method != "GET" and not route.is_api and route.key not in PUBLIC:
            status, _, target = await stranger.post(route.address(world))
            assert (status, target) == (303, "/sign-in"), route.key

    assert _fingerprint(server) == before


@pytest.mark.parametrize(("reader", "named"), [("Viktor", True), ("Viktor", False), ("Alena", True)])
async def test_credentials_in_base_urls_are_shown_only_to_users_who_may_change_them(
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


async def test_objects_of_the_owner_are_answered_like_unknown_ones_to_a_colleague(
    server: Server, colleague: Browser, world: dict[str, int]
) -> None:
    token, before = await colleague.token(), _fingerprint(server)
    routes = _routes_of_owned_objects(server)

    assert len(routes) > 20
    for route in routes:
        status, text = await _ask(colleague, route, route.address(world), token)
        nowhere, as_nowhere = await _ask(
            colleague, route, route.address(dict.fromkeys(world, 999_999)), token
        )
        # An invalid body may be refused before the object is looked up, and so for unknown objects as well.
        assert status in {404, 415, 422}, route.key
        assert status == nowhere, route.key
        assert _without_numbers(text) == _without_numbers(as_nowhere), route.key
        assert MARK not in text, route.key

    assert _fingerprint(server) == before


async def test_the_owner_has_access_to_their_objects(server: Server, owner: Browser) -> None:
    """Otherwise, the colleague's 404 would prove nothing. After each change, the objects are added again."""
    token, world = await owner.token(), _fresh_world(server)
    for route in _routes_of_owned_objects(server):
        status, text = await _ask(owner, route, route.address(world), token)
        if route.method != "GET" and status < 400:
            world = _fresh_world(server)
        if route.path.endswith("/{control}") and route.method == "GET":
            continue  # asks before some controls only
        if _NOT_IN_THE_WORLD.search(route.path):
            continue
        assert status not in _REFUSED, (route.key, text)
        assert status < 500, (route.key, text)


async def test_lists_show_the_owners_objects_to_the_owner_and_not_to_a_colleague(
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


async def test_lists_filtered_by_the_owners_repository_show_nothing_to_a_colleague(
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


async def test_partners_are_refused_routes_for_staff(
    server: Server, owner: Browser, world: dict[str, int]
) -> None:
    token, before = await owner.token(), _fingerprint(server)
    routes = _routes_for_staff(server)

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


async def test_curators_change_only_the_archive(
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


async def test_an_api_token_cannot_change_anything_through_pages(
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


async def test_event_streams_contain_only_rows_that_the_user_may_see(
    server: Server, owner: Browser, colleague: Browser, world: dict[str, int]
) -> None:
    first_frames = {"owner": "", "colleague": ""}
    for name, browser in (("owner", owner), ("colleague", colleague)):
        for topic in ("jobs", "planned"):
            async with browser.http.get(f"{server.base_url}/events?topics={topic}") as stream:
                await stream.content.readuntil(b"\n\n")  # when to reconnect
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

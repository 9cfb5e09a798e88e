"""Every list, on pages and in the API, is requested with page keys that no list has issued."""

import base64
import json
import re
import uuid
from collections.abc import Iterator
from urllib.parse import quote

import pytest

from tests.web.api.conftest import Program
from tests.web.conftest import Browser, Server
from tests.web.standing import OBJECTS, a_world
from web.api.operations import PREFIX
from web.api.shapes import Paged
from web.api.table import OPERATIONS
from web.auth.access import STREAMS

_VARIABLE = re.compile(r"\{(\w+)\}")
_STAND_INS = {
    "collection": "collection:maps",
    "spec": "collection:maps",
    "title": "0" * 32,
    "control": "pause",
    **dict.fromkeys(("key", "client", "document"), str(uuid.UUID(int=1))),
}
_NOT_LISTS = re.compile(r"\{kind\}$|/(explorer|doctor)$|^/(api|static|sign-in)")
"""Files, which have no pages, and pages that send requests to a repository or sign users in."""
_KEY = uuid.UUID(int=1)
_TIMES = ("0001-01-01T00:00:00+14:00", "9999-12-31T23:59:59.999999-14:00")
_IN_PAGES = (str(2**31), str(2**63), f"\0|{_KEY}", f"{_TIMES[1]}|{_KEY}")
_MORE_IN_PAGES = (
    "x\0",
    "\0|1",
    "9" * 5000,
    "-1",
    f"{10**17}|1",
    f"1|{10**17}",
    "nan|1",
    f"{_TIMES[0]}|{_KEY}",
)
"""With `--long`."""
_IN_CURSORS = (
    *(2**31, 2**63, 10**28, -(10**28), "\0", "\ud800", "x\0|1", f"{10**17}|1", "nan|1"),
    *(["\0", str(_KEY)], [None, "\0"], [str(_KEY), "\0"], [_TIMES[0], str(_KEY)], [_TIMES[1], str(_KEY)]),
    *(["2026-01-01T00:00:00", str(_KEY)], [10**28, str(_KEY)]),
)
_OF_BIGINTS = {
    "/alert-deliveries",
    "/archive/indexing/{index_run}/files",
    "/archive/problems",
    "/repositories/{repository}/imports",
    "/runs",
    "/runs/{run}/changes",
    "/runs/{run}/errors",
    "/store-audits",
}
"""Lists with numbers larger than those of the others."""


@pytest.fixture
def world(server: Server) -> dict[str, int]:
    """One object of each kind, so that each list exists."""
    with server.database.session() as session:
        world = a_world(session)
        session.commit()
    return world


def _address(path: str, world: dict[str, int]) -> str:
    words = [word for start, word in OBJECTS.items() if (path + "/").startswith(start + "/")]
    number = world[words[0]] if words else 1
    return _VARIABLE.sub(lambda found: _STAND_INS.get(found[1], str(number)), path)


def _pages(server: Server) -> Iterator[str]:
    for route in server.app.router.routes():
        assert route.resource is not None
        path = route.resource.canonical
        if route.method == "GET" and path not in STREAMS and not _NOT_LISTS.search(path):
            yield path


async def test_no_page_fails_on_a_key_that_no_list_has_issued(
    server: Server, administrator: Browser, world: dict[str, int], pytestconfig: pytest.Config
) -> None:
    keys = (*_IN_PAGES, *_MORE_IN_PAGES) if pytestconfig.getoption("--long") else _IN_PAGES
    broken = []
    for path in _pages(server):
        for key in keys:
            given = quote(key)
            at = f"{_address(path, world)}?after={given}&before={given}&before_run={given}&since={given}"
            status, _ = await administrator.get(at)
            if status >= 500:
                broken.append((path, key[:30]))

    assert broken == []


async def test_a_cursor_that_no_list_has_issued_causes_no_server_error(
    program: Program, world: dict[str, int]
) -> None:
    lists = [one.path for one in OPERATIONS if issubclass(one.query, Paged)]
    broken = []
    for path in lists:
        for key in _IN_CURSORS:
            status = await _status(program, _address(PREFIX + path, world), key)
            if status >= 500:
                broken.append((path, key))

    assert broken == []
    large = {path for path in lists if await _status(program, _address(PREFIX + path, world), 2**62) != 422}
    assert large == _OF_BIGINTS | {
        "/archive/harvesters/{client}/lists"
    }  # 404: the world has no such harvester


async def _status(program: Program, address: str, key: object) -> int:
    cursor = base64.urlsafe_b64encode(json.dumps(key).encode()).decode()
    return (await program.get(f"{address}?cursor={cursor}")).status

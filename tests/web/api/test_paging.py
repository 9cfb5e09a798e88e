"""Lists of any length: read from page to page, as a file, and over the API, with every row once."""

import csv
import re
from dataclasses import dataclass

import pytest
from sqlalchemy import text

from tests.web.api.conftest import Program
from tests.web.conftest import Browser, Server
from tests.web.rows import a_repository

_ROWS = 120
_FILLED = (
    """
    INSERT INTO web_api_token (user_id, name, token_hash, scopes)
    SELECT 1, 'token ' || n, sha256(n::text::bytea), ARRAY['read'] FROM generate_series(2, 120) AS n
    """,
    """
    INSERT INTO web_organisation (short_name, name)
    SELECT 'x' || n, 'Library ' || n FROM generate_series(3, 120) AS n
    """,
    """
    INSERT INTO collection (set_spec, name)
    SELECT concat('collection', '\\:c' || nullif(n, 1)), 'Collection ' || n FROM generate_series(1, 120) AS n
    """,
    "INSERT INTO index_run (host, again) SELECT 'store1', false FROM generate_series(1, 125)",
    """
    INSERT INTO index_file (run_id, path, size)
    SELECT id, '/a/' || id, 9 FROM index_run WHERE id NOT BETWEEN 60 AND 64
    """,
    "INSERT INTO web_self_test (base_url) SELECT 'https://a.example/' FROM generate_series(1, 120)",
    """
    INSERT INTO provider_client (
        key, address, user_agent, sender, first_request, last_request, requests, bytes_sent, refused
    )
    SELECT md5(n::text)::uuid, '', 'h' || n, '', now(), now() - n % 3 * interval '1 day', 1, 1, 0
    FROM generate_series(1, 120) AS n
    """,
    """
    INSERT INTO provider_list (
        key, client_key, verb, metadata_prefix, set_spec, started, last_request, requests, passed
    )
    SELECT md5('list' || n)::uuid, md5('1')::uuid, 'ListRecords', 'oai_dc', 's' || n, now(), now(), 1, 100
    FROM generate_series(1, 120) AS n
    """,
    """
    INSERT INTO notice_rule (channel, target)
    SELECT 'mail', n || '@a.example' FROM generate_series(1, 120) AS n
    """,
    """
    INSERT INTO oai_repository (base_url, base_dir)
    SELECT 'https://r.example/' || n, 'r' || n FROM generate_series(2, 120) AS n
    """,
    """
    INSERT INTO web_repository_owner (repository_id, organisation_id)
    SELECT repository_id, 1 FROM oai_repository
    """,
)
_ODD = ("%00", "x|y", "2026-01-01|00000000-0000-0000-0000-000000000000", "9" * 30)
"""No places; by default each list is asked for two of them in turn."""
_CLIENT = "c4ca4238-a0b9-2382-0dcc-509a6f75849b"


@dataclass(frozen=True, kw_only=True)
class _List:
    page: str
    row: str
    """What is different in each row of the page."""
    file: str | None = None
    api: str | None = None
    key: str = ""
    """What is different in each item of the API."""


_LISTS = (
    _List(page="/admin/tokens", row=r'id="token-(\d+)"', file="/admin/tokens", api="/tokens", key="token_id"),
    _List(page="/account", row=r'id="token-(\d+)"'),
    _List(
        page="/admin/organisations",
        row=r'id="organisation-(\d+)"',
        file="/admin/organisations",
        api="/organisations",
        key="organisation_id",
    ),
    _List(page="/admin/organisations/1", row=r'id="repository-(\d+)"'),
    _List(
        page="/archive/collections",
        row=r'href="/archive/collections/(collection[:c0-9]*)"',
        file="/archive/collections",
        api="/archive/collections",
        key="set_spec",
    ),
    _List(
        page="/archive/indexing",
        row=r'href="/archive/indexing/(\d+)"',
        file="/archive/indexing",
        api="/archive/indexing",
        key="run_id",
    ),
    _List(
        page="/archive/check",
        row=r'href="/archive/check/(\d+)"',
        file="/archive/check",
        api="/archive/checks",
        key="self_test_id",
    ),
    _List(
        page="/archive/harvesters",
        row=r'href="/archive/harvesters/([0-9a-f-]{36})"',
        file="/archive/harvesters",
        api="/archive/harvesters",
        key="key",
    ),
    _List(
        page=f"/archive/harvesters/{_CLIENT}",
        row=r'<span class="under mono">(s\d+)',
        file=f"/archive/harvesters/{_CLIENT}/lists",
        api=f"/archive/harvesters/{_CLIENT}/lists",
        key="set_spec",
    ),
    _List(page="/alerts", row=r'id="rule-(\d+)"', file="/alerts/rules", api="/alert-rules", key="rule_id"),
)


@pytest.fixture
def filled(server: Server, program: Program) -> Program:
    """The program, once there are 120 of everything; its token is one of them."""
    with server.database.session() as session:
        a_repository(session)
        for statement in _FILLED:
            session.execute(text(statement))
        session.commit()
    return program


async def test_every_row_is_on_one_page_in_the_file_and_in_the_api(
    filled: Program, administrator: Browser
) -> None:
    for listed in _LISTS:
        rows, pages = await _rows_of_pages(administrator, listed)
        assert (len(rows), len(set(rows))) == (_ROWS, _ROWS), listed.page
        assert 2 < pages <= 7, listed.page
        if listed.file:
            _, table = await administrator.get(f"{listed.file}.csv")
            assert len(list(csv.DictReader(table.splitlines()))) == _ROWS, listed.file
        if listed.api:
            assert await _items_of_api(filled, listed) == rows, listed.api


async def _rows_of_pages(browser: Browser, listed: _List) -> tuple[list[str], int]:
    rows, pages, path = [], 0, listed.page
    while path:
        _, page = await browser.get(path)
        rows += re.findall(listed.row, page)
        on = re.search(rf'href="({re.escape(listed.page)}\?[^"]*(?:after|before)[^"]*)"', page)
        path = on[1].replace("&amp;", "&") if on else ""
        pages += 1
    return rows, pages


async def _items_of_api(program: Program, listed: _List) -> list[str]:
    found, address = [], f"{listed.api}?limit=50"
    while address:
        body = (await program.get(address)).body
        found += [str(item[listed.key]) for item in body["items"]]
        address = body["next"]
    return found


async def test_an_invalid_page_key_is_ignored_on_pages_and_refused_in_the_api(
    filled: Program, administrator: Browser, pytestconfig: pytest.Config
) -> None:
    for number, listed in enumerate(_LISTS):
        chosen = _ODD if pytestconfig.getoption("--long") else (_ODD[number % 4], _ODD[(number + 1) % 4])
        for odd in chosen:
            status, _ = await administrator.get(f"{listed.page}?after={odd}&before={odd}")
            assert status == 200, (listed.page, odd)
        if listed.api:
            assert (await filled.get(f"{listed.api}?cursor=bm8")).status == 422, listed.api


async def test_the_file_of_tokens_has_no_secret(filled: Program, administrator: Browser) -> None:
    assert (await filled.get("/me")).status == 200
    _, table = await administrator.get("/admin/tokens.json")

    assert "zatva_" not in table
    assert "hash" not in table


async def test_lists_are_exported_only_to_users_who_may_see_the_pages(
    viewer: Browser, owner: Browser
) -> None:
    assert [(await viewer.get(f"/admin/{name}.csv"))[0] for name in ("tokens", "organisations")] == [403, 403]
    assert (await viewer.get("/alerts/rules.csv"))[0] == 403
    assert (await owner.get("/archive/harvesters.csv"))[0] == 403

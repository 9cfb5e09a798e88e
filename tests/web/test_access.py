"""What all answers have in common: headers, error pages, protection against other sites."""

import re
from collections.abc import Mapping
from types import MappingProxyType
from typing import Any

import pytest
from lxml import html
from sqlalchemy import text
from yarl import URL

from tests.web.conftest import Browser, Server
from web.auth.organisations import find_organisation


async def test_a_stranger_needs_the_form_token_to_sign_in(server: Server, stranger: Browser) -> None:
    token = server.link("Alena").partition("token=")[2]

    status, _, _ = await stranger.post("/sign-in", {"token": token}, token="")

    assert status == 403


async def test_a_browser_that_refuses_cookies_is_shown_why_it_cannot_sign_in(stranger: Browser) -> None:
    token = await stranger.token("/sign-in")
    with_cookie = await stranger.post("/sign-in", {"name": "Alena", "password": "x"}, token="other")
    stranger.http.cookie_jar.clear()
    without = await stranger.post("/sign-in", {"name": "Alena", "password": "x"}, token=token)

    pages = [(status, "Allow cookies" in page) for status, page, _ in (with_cookie, without)]
    assert pages == [(403, False), (403, True)]


async def test_a_cross_site_post_is_refused(server: Server, administrator: Browser) -> None:
    token = await administrator.token()
    for headers in (
        {"Origin": "https://evil.example"},
        {"Origin": "null"},
        {"Sec-Fetch-Site": "cross-site"},
        {"Sec-Fetch-Site": "same-site"},
    ):
        async with administrator.http.post(
            server.base_url + "/sign-out", data={"csrf_token": token}, headers=headers, allow_redirects=False
        ) as answer:
            assert answer.status == 403, headers


async def test_a_same_origin_post_is_accepted(server: Server, administrator: Browser) -> None:
    headers = {"Origin": server.base_url, "Sec-Fetch-Site": "same-origin"}
    data = {"csrf_token": await administrator.token()}

    async with administrator.http.post(
        server.base_url + "/sign-out", data=data, headers=headers, allow_redirects=False
    ) as answer:
        assert answer.status == 303


_TOKEN = {"name": "Reports", "days": "30", "scope": ["read", "harvest"]}


async def test_a_form_that_needs_a_recent_sign_in_is_kept_to_be_sent_again(
    server: Server, administrator: Browser
) -> None:
    with server.database.session() as session:
        session.execute(text("UPDATE web_session SET confirmed = now() - interval '1 day'"))
        session.commit()

    status, page = await _sent(administrator, "/account/tokens", _TOKEN)

    assert status == 401
    assert "This step needs a recent sign-in" in page
    assert '<a class="button primary" href="/sign-in/again"' in page
    tree: Any = html.fromstring(page)
    (kept,) = [form for form in tree.forms if "scope" in form.fields]
    assert {*kept.form_values()} >= {("name", "Reports"), ("scope", "read"), ("scope", "harvest")}
    assert 'name="language"' not in page, "choosing a language would lose what is kept"


async def test_a_user_who_signs_in_by_link_only_is_shown_how_to_set_a_password_later(
    server: Server, administrator: Browser
) -> None:
    _, fresh = await administrator.get("/account")
    with server.database.session() as session:
        session.execute(text("UPDATE web_session SET confirmed = now() - interval '1 day'"))
        session.commit()
    _, late = await administrator.get("/account")
    _, again = await administrator.get("/sign-in/again?next=/account")

    assert ['action="/account/password"' in page for page in (fresh, late)] == [True, False]
    assert ["zatva user link " in page for page in (fresh, late, again)] == [False, True, True]
    assert '<a href="/account">Back</a>' in again


async def test_a_form_with_errors_has_no_controls_that_would_lose_its_entries(administrator: Browser) -> None:
    _, empty = await administrator.get("/rules/new")
    status, page, _ = await administrator.post("/rules/new", {"name": "Maps without", "kind": ""})

    assert (status, "Maps without" in page) == (422, True)
    assert ['name="language"' in one for one in (empty, page)] == [True, False]
    assert ["Sign out" in one for one in (empty, page)] == [True, True]


@pytest.mark.parametrize(
    ("path", "fields", "headers"),
    [
        ("/account/tokens", _TOKEN, {"Origin": "https://elsewhere.example"}),
        ("/account/tokens", _TOKEN, {"Sec-Fetch-Site": "cross-site"}),
        ("/account/tokens", {**_TOKEN, "name": "x" * 300_000}, {}),
        ("/account/password", {"current": "secret words", "password": "x", "again": "x"}, {}),
    ],
    ids=["another site's", "another site's by its header", "large", "with passwords"],
)
async def test_cross_site_large_and_password_forms_are_not_kept_to_be_sent_again(
    administrator: Browser, stranger: Browser, path: str, fields: dict[str, str], headers: dict[str, str]
) -> None:
    anonymous, page = await _sent(stranger, path, fields, headers)
    expired, other_page = await _sent(administrator, path, fields, headers)

    assert (anonymous, expired) == (303, 403)
    assert "Send the form again" not in page + other_page


async def _sent(
    browser: Browser, path: str, fields: dict[str, Any], headers: Mapping[str, str] = MappingProxyType({})
) -> tuple[int, str]:
    """Send a form from our own page, with the token of another session; return status and text."""
    headers = {"Origin": browser.base_url, **headers}
    data = [("csrf_token", "old")]
    for name, value in fields.items():
        data += [(name, one) for one in ([value] if isinstance(value, str) else value)]
    async with browser.http.post(
        browser.base_url + path, data=data, headers=headers, allow_redirects=False
    ) as answer:
        return answer.status, await answer.text()


async def test_every_answer_carries_the_security_headers(server: Server, administrator: Browser) -> None:
    for path in ("/", "/static/style.css", "/no-such-page", "/static/no-such-file", "/events"):
        async with administrator.http.get(server.base_url + path) as answer:
            policy = answer.headers["Content-Security-Policy"]
            assert policy == (
                "default-src 'self'; img-src 'self' data:; frame-ancestors 'none'; base-uri 'none'; "
                "form-action 'self'; object-src 'none'"
            ), path
            assert answer.headers["X-Content-Type-Options"] == "nosniff"


async def test_pages_are_not_cached_and_versioned_static_files_are(
    server: Server, administrator: Browser
) -> None:
    async with administrator.http.get(server.base_url + "/") as answer:
        assert answer.headers["Cache-Control"] == "no-store"
        stylesheet = re.search(r'href="(/static/style\.css\?v=[0-9a-f]+)"', await answer.text())
    assert stylesheet
    async with administrator.http.get(server.base_url + stylesheet[1]) as answer:
        assert "immutable" in answer.headers["Cache-Control"]


async def test_unknown_pages_and_objects_have_a_not_found_page(administrator: Browser) -> None:
    for path in ("/no-such-page", "/repositories/1", "/runs/1", "/jobs/1/remove", "/schedules/1/remove"):
        status, page = await administrator.get(path)
        assert status == 404, path
        assert "<h1>Page not found</h1>" in page


async def test_a_database_error_is_reported_without_its_details(
    server: Server, administrator: Browser
) -> None:
    with server.database.session() as session:
        session.execute(text("ALTER TABLE oai_repository RENAME TO elsewhere"))
        session.commit()

    status, page = await administrator.get("/repositories")

    assert status == 500
    assert "Internal error" in page
    assert "elsewhere" not in page
    assert "Traceback" not in page


async def test_a_method_that_is_not_allowed_has_an_error_page(administrator: Browser) -> None:
    async with administrator.http.put(administrator.base_url + "/jobs") as answer:
        assert answer.status == 405
        assert answer.content_type == "text/html"


@pytest.mark.parametrize(
    ("path", "page"),
    [
        ("/errors/4/again", "/errors/4"),
        ("/errors/1/repair", "/errors/1"),
        ("/schedules/7/run", "/schedules/7/edit"),
        ("/repositories/1/harvest", "/repositories/1"),
        ("/repositories/selected/pause", "/repositories"),
        ("/archive/collections/collection:a:b/rule", "/archive/collections/collection:a:b"),
        ("/account/tokens/1/revoke", "/account"),
    ],
)
async def test_an_address_for_forms_leads_to_the_nearest_page_above_it(
    administrator: Browser, path: str, page: str
) -> None:
    for method in ("GET", "HEAD"):
        url = URL(administrator.base_url + path, encoded=True)
        async with administrator.http.request(method, url, allow_redirects=False) as answer:
            assert (answer.status, answer.headers.get("Location")) == (303, page), method


@pytest.mark.parametrize("path", ["/repositories/1/records.xml", "/archive/titles.csv", "/runs.csv"])
async def test_head_of_a_download_is_not_redirected_to_a_page(administrator: Browser, path: str) -> None:
    async with administrator.http.head(administrator.base_url + path, allow_redirects=False) as answer:
        assert (answer.status, answer.headers.get("Allow")) == (405, "GET")


async def test_an_address_for_forms_leads_only_to_pages_that_the_user_may_open(
    server: Server, viewer: Browser
) -> None:
    url = server.base_url + "/schedules/7/run"
    async with viewer.http.get(url, allow_redirects=False) as answer:
        assert (answer.status, answer.headers.get("Location")) == (303, "/schedules")


async def test_an_address_for_forms_without_a_page_above_it_is_explained(administrator: Browser) -> None:
    status, page = await administrator.get("/sign-out")

    assert (status, "Go back to the page with the form." in page) == (405, True)


async def test_an_operation_of_the_api_with_another_method_is_not_redirected(administrator: Browser) -> None:
    url = administrator.base_url + "/api/v1/schedules/1/run"
    async with administrator.http.get(url, allow_redirects=False) as answer:
        assert (answer.status, answer.content_type) == (405, "application/problem+json")


async def test_invalid_bytes_cause_no_server_error(server: Server, administrator: Browser) -> None:
    token = await administrator.token()
    for cookie in ("zatva_session=\udcff", "zatva_form=\udcff; zatva_session="):
        async with administrator.http.get(
            server.base_url + "/", headers={"Cookie": cookie}, allow_redirects=False
        ) as answer:
            assert answer.status in {200, 303}
    for body, status in ((b"csrf_token=%ff", 403), (b"csrf_token=\xff", 400)):
        headers = {"Content-Type": "application/x-www-form-urlencoded"}
        async with administrator.http.post(
            server.base_url + "/repositories/new", data=body, headers=headers
        ) as answer:
            assert answer.status == status
    form = {"base_url": "http://x\0y/", "base_dir": "a\0"}
    status, page, _ = await administrator.post("/repositories/new", form, token=token)
    assert status == 422
    assert "control characters" in page


async def test_the_account_shows_the_name_of_the_organisation(server: Server, owner: Browser) -> None:
    with server.database.session() as session:
        organisation = find_organisation(session, "mzk")
        assert organisation is not None
        organisation.name = "Moravian Library"
        session.commit()

    assert "<dt>Organisation</dt><dd>Moravian Library</dd>" in (await owner.get("/account"))[1]

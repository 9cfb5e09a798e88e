"""Requirements of OWASP ASVS 5.0 without another test; `docs/security.md` names these tests."""

import asyncio
import re
from pathlib import Path

import pytest
from lxml import html

import web
from tests.web.conftest import Browser, Server

_STATIC = Path(web.__file__).parent / "static"


async def test_no_response_has_cors_headers(server: Server, administrator: Browser) -> None:
    for method in ("GET", "OPTIONS"):
        for path in ("/", "/api/v1/me", "/static/style.css"):
            headers = {"Origin": "https://evil.example", "Access-Control-Request-Method": "PUT"}
            async with administrator.http.request(method, server.base_url + path, headers=headers) as answer:
                assert not [name for name in answer.headers if name.lower().startswith("access-control")]


async def test_the_referrer_policy_hides_addresses_from_other_sites(
    server: Server, stranger: Browser
) -> None:
    for path in ("/sign-in?token=x", "/static/style.css", "/no-such-page"):
        async with stranger.http.get(server.base_url + path) as answer:
            assert answer.headers["Referrer-Policy"] == "same-origin"


async def test_text_responses_declare_their_encoding(server: Server, administrator: Browser) -> None:
    for path in ("/", "/healthz", "/api/docs", "/runs.csv", "/no-such-page"):
        async with administrator.http.get(server.base_url + path) as answer:
            assert answer.headers["Content-Type"].endswith("; charset=utf-8"), path


async def test_undeclared_files_and_methods_are_refused(server: Server, administrator: Browser) -> None:
    for path in ("/static/", "/static/..%2fmodels.py", "/static/../models.py", "/.git/config", "/zatva.toml"):
        assert (await administrator.get(path))[0] in (403, 404), path
    for method in ("TRACE", "CONNECT"):
        async with administrator.http.request(method, server.base_url + "/") as answer:
            assert answer.status in (404, 405)
            assert "zatva_session" not in await answer.text()


@pytest.mark.parametrize(
    "lengths",
    [
        b"Content-Length: 5\r\nTransfer-Encoding: chunked",
        b"Content-Length: 5\r\nContent-Length: 6",
        b"Transfer-Encoding: chunked, identity",
        b"Transfer-Encoding : chunked",
    ],
)
async def test_a_request_with_ambiguous_length_is_refused_and_the_connection_closed(
    server: Server, lengths: bytes
) -> None:
    """Otherwise the server could read a second request that a proxy does not see (request smuggling)."""
    port = int(server.base_url.rpartition(":")[2])
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    writer.write(b"POST /sign-in HTTP/1.1\r\nHost: x\r\n" + lengths + b"\r\n\r\n")
    writer.write(b"0\r\n\r\nGET /healthz HTTP/1.1\r\nHost: x\r\n\r\n")
    received = await reader.read()
    writer.close()
    assert received.startswith((b"HTTP/1.0 400", b"HTTP/1.1 400"))
    assert received.count(b"HTTP/1.") == 1


async def test_password_managers_can_fill_in_masked_fields(stranger: Browser, administrator: Browser) -> None:
    for browser, path, wanted in (
        (stranger, "/sign-in", {"current-password"}),
        (administrator, "/account", {"new-password"}),
    ):
        page = html.document_fromstring((await browser.get(path))[1])
        fields = [field for field in page.iter("input") if field.get("type") == "password"]
        assert {field.get("autocomplete") for field in fields} == wanted
        named = {field.get("name") for field in page.iter("input") if "password" in (field.get("name") or "")}
        assert named <= {field.get("name") for field in fields}


def test_scripts_use_no_browser_storage_and_no_eval() -> None:
    scripts = [file.read_text(encoding="utf-8") for file in _STATIC.rglob("*.js")]
    assert scripts
    for script in scripts:
        # The browser's time zone, which the server cannot know otherwise.
        script = script.replace("document.cookie = `zatva_zone=", "")  # noqa: PLW2901 without what is allowed
        forbidden = (
            r"localStorage|sessionStorage|indexedDB|document\.cookie|\beval\(|new Function|postMessage"
        )
        assert re.search(forbidden, script) is None

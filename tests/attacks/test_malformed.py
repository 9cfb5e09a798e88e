"""Malformed requests for which fuzzing found server errors, one test for each."""

import pytest
from sqlalchemy import select

from oai.audit import AuditEntry
from tests.web.conftest import Browser, Server
from tests.web.rows import a_repository, a_rule

_MULTIPART = {"Content-Type": "multipart/form-data; boundary=x"}
_BROKEN = b'--x\r\nContent-Disposition: form-data; name="a\r\n\r\n'


async def test_forms_with_files_are_refused_without_reading_them(
    server: Server, stranger: Browser, administrator: Browser
) -> None:
    for browser, path in ((stranger, "/sign-in"), (administrator, "/account/language")):
        url = server.base_url + path
        async with browser.http.post(url, data=_BROKEN, headers=_MULTIPART, allow_redirects=False) as answer:
            assert answer.status == 400


async def test_a_form_in_an_unknown_encoding_is_refused(server: Server, administrator: Browser) -> None:
    headers = {"Content-Type": "application/x-www-form-urlencoded; charset=unheard-of"}
    url = server.base_url + "/account/language"
    async with administrator.http.post(url, data=b"csrf_token=x", headers=headers) as answer:
        assert answer.status == 400


@pytest.mark.parametrize("charset", ["unicode_escape", "raw_unicode_escape", "hex", "undefined", "punycode"])
@pytest.mark.parametrize("path", ["/sign-in", "/preferences"])
async def test_a_form_in_an_encoding_that_only_python_knows_is_refused(
    server: Server, stranger: Browser, path: str, charset: str
) -> None:
    headers = {"Content-Type": f"application/x-www-form-urlencoded; charset={charset}"}
    await stranger.token("/sign-in")
    body = b"csrf_token=\\ud800x&name=a&theme=dark"
    async with stranger.http.post(server.base_url + path, data=body, headers=headers) as answer:
        assert answer.status == 400


@pytest.mark.parametrize(
    ("charset", "name"), [(b"unicode_escape", b"a.csv"), (b"utf-8", b"a\x00.csv")], ids=["part", "name"]
)
async def test_a_form_part_that_is_not_text_is_refused(
    server: Server, administrator: Browser, charset: bytes, name: bytes
) -> None:
    body = (
        b'--x\r\nContent-Disposition: form-data; name="csrf_token"\r\n'
        b"Content-Type: text/plain; charset=" + charset + b"\r\n\r\n\\ud800\r\n"
        b'--x\r\nContent-Disposition: form-data; name="file"; filename="' + name + b'"\r\n\r\nx\r\n--x--\r\n'
    )
    url = server.base_url + "/archive/titles/import"
    async with administrator.http.post(url, data=body, headers=_MULTIPART) as answer:
        assert answer.status == 400


async def test_an_invalid_origin_is_handled_as_another_site(server: Server, stranger: Browser) -> None:
    for path in ("/sign-in", "/preferences"):
        url, headers = server.base_url + path, {"Origin": "http://[::1"}
        async with stranger.http.post(url, data={"name": "x"}, headers=headers) as answer:
            assert answer.status == 403


async def test_numbers_of_many_digits_cause_no_server_error(server: Server, administrator: Browser) -> None:
    many = "9" * 5000
    asked = {
        "/runs/remove": {"run": many},
        "/schedules/new": {"repository_id": "1", "when": "monthly", "month_day": many},
        "/rules/1/edit": {"do": "save", "based_on": many},
    }
    with server.database.session() as session:
        a_rule(session, a_repository(session))
        session.commit()
    for path, form in asked.items():
        assert (await administrator.post(path, form))[0] < 500, path
    assert (await administrator.post("/runs/remove", {"run": "9" * 19}))[0] < 500


async def test_numbers_too_large_for_columns_cause_no_server_error(administrator: Browser) -> None:
    for number in ("9" * 10, "9" * 20):
        for path, form in (
            ("/archive/aggregate", {"repository_id": number}),
            ("/admin/users/new", {"name": "Eva", "role": "partner", "organisation": number}),
            ("/admin/users/2", {"role": "partner", "organisation": number}),
            ("/schedules/new", {"repository_id": number, "metadata_prefix": "oai_dc", "do": "save"}),
        ):
            assert (await administrator.post(path, form))[0] < 500, (path, number)


async def test_the_audit_entry_of_an_export_truncates_long_filters(
    server: Server, administrator: Browser
) -> None:
    assert (await administrator.get("/runs.csv?organisation=%00" + "x" * 5000))[0] == 200

    with server.database.session() as session:
        (name,) = session.scalars(select(AuditEntry.object_name).where(AuditEntry.object_kind == "export"))
    assert name is not None
    assert name.startswith("organisation=\N{REPLACEMENT CHARACTER}xxx")
    assert len(name) == 1000


@pytest.mark.parametrize("path", ["/runs?organisation=" + "x" * 50_000, "/" + "x" * 50_000])
async def test_no_response_header_repeats_a_long_address(
    server: Server, stranger: Browser, path: str
) -> None:
    """nginx answers 502 if a header is longer than 4 KiB."""
    async with stranger.http.get(server.base_url + path, allow_redirects=False) as answer:
        assert answer.status in (303, 404)
        assert answer.headers.get("Location", "/sign-in") == "/sign-in"

    form = {"name": "Alena", "password": "x", "next": path}
    _status, page, _target = await stranger.post("/sign-in", form, token=await stranger.token("/sign-in"))
    assert "x" * 2000 not in page

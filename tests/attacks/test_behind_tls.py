"""The configurations of `docs/how-to/behind-tls.md`, run by the real servers in front of `zatva serve`."""

import asyncio
import contextlib
import io
import os
import re
import shutil
import socket
import ssl
import subprocess
from collections.abc import AsyncIterator, Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import urlencode

import aiohttp
import pytest
from aiohttp.abc import AbstractResolver, ResolveResult
from sqlalchemy import select

from oai.audit import AuditEntry
from oai.database import Database
from oai.settings import Settings
from tests.end_to_end.processes import eventually, running
from tests.harvester.documentation import examples
from tests.ports import free_port
from tests.web.conftest import Browser
from web.auth.sign_in import make_link
from web.auth.users import add_user
from web.models import Role
from web.serving import STATEMENT_SECONDS
from web.site.timeouts import with_short_timeouts

pytestmark = pytest.mark.slow

_PAGE = "how-to/behind-tls.md"
_DASHBOARD, _PROVIDER = "zatva.archive.example", "oai.archive.example"
_CLIENT = "127.0.0.9"
"""Where the browsers are; the proxy is at 127.0.0.1."""
_FORGED = {"X-Forwarded-For": "203.0.113.7", "X-Remote-User": "Alena"}
_APACHE_MODULES = Path("/usr/lib/apache2/modules")
_AS_ROOT = os.geteuid() == 0


@dataclass(frozen=True, kw_only=True)
class Site:
    """The proxy and its addresses."""

    secure: int
    plain: int
    certificate: Path

    @property
    def dashboard(self) -> str:
        """The public address of the dashboard, with the port of this test."""
        return f"https://{_DASHBOARD}:{self.secure}"

    @property
    def provider(self) -> str:
        """The public address of the provider."""
        return f"https://{_PROVIDER}:{self.secure}/oai"


@pytest.fixture(params=["nginx", "apache"])
def proxy(request: pytest.FixtureRequest) -> tuple[str, str]:
    """The name of one of the two, and its program."""
    name = str(request.param)
    program = shutil.which({"nginx": "nginx", "apache": "apache2"}[name], path="/usr/sbin:/usr/bin")
    if program is None:
        pytest.skip(f"{name} is not installed: apt-get install nginx-light apache2")
    return name, program


@pytest.fixture
def site(
    proxy: tuple[str, str],  # first, so that nothing is made for a test that is skipped
    environment: Mapping[str, str],
    database: Database,
    tmp_path: Path,
) -> Iterator[Site]:
    """The dashboard and the provider behind the proxy; they listen on free ports."""
    name, program = proxy
    with database.session() as session:
        add_user(session, "Alena", Role.ADMINISTRATOR)
        session.commit()
    log = tmp_path / "zatva.log"
    words = ("serve", "--port", "0", "--web-port", "0")
    with running({**environment, **_settings()}, log, *words, ready="dashboard at") as (_, dashboard):
        (provider,) = re.findall(r"provider at (\S+)", log.read_text())
        upstreams = {8090: _port(dashboard), 8080: _port(provider)}
        made = Site(secure=free_port(), plain=free_port(), certificate=_certificate(tmp_path))
        text = _filled(examples(_PAGE, name)[0].code, made, upstreams)
        with _proxy(_COMMANDS[name](program, tmp_path, text, made), made, tmp_path):
            yield made


def _settings() -> dict[str, str]:
    """Return the settings of the page, with sign-in by a header as the most attractive target."""
    block = examples(_PAGE, "toml")[0].code
    found = dict(zip(("WEB", "PROVIDER"), re.findall(r'base_url = "(\S+)"', block), strict=True))
    proxies = dict(zip(found, re.findall(r"trusted_proxies = (\[.*?\])", block), strict=True))
    return {
        **{f"ZATVA_{section}__BASE_URL": url for section, url in found.items()},
        **{f"ZATVA_{section}__TRUSTED_PROXIES": listed for section, listed in proxies.items()},
        "ZATVA_WEB__PROXY_USER_HEADER": "X-Remote-User",
    }


def _port(url: str) -> int:
    found = re.search(r":(\d+)", url)
    assert found is not None
    return int(found[1])


def _certificate(folder: Path) -> Path:
    names = f"subjectAltName=DNS:{_DASHBOARD},DNS:{_PROVIDER}"
    files = ("-keyout", folder / "key.pem", "-out", folder / "certificate.pem")
    kind = ("-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes", "-days", "2")
    subject = ("-subj", f"/CN={_DASHBOARD}", "-addext", names)
    program = shutil.which("openssl")
    assert program is not None, "both servers need it as a library; its program is in the package openssl"
    subprocess.run([program, "req", "-x509", *kind, *subject, *files], check=True, capture_output=True)
    return folder / "certificate.pem"


def _filled(text: str, site: Site, upstreams: Mapping[int, int]) -> str:
    """Return the page's configuration with the ports and files of this test."""
    changes = [
        (r"/etc/ssl/zatva/", f"{site.certificate.parent}/"),
        (r"listen 80;", f"listen 127.0.0.1:{site.plain};"),
        (r"listen 443 ssl http2;", f"listen 127.0.0.1:{site.secure} ssl http2;"),
        (r"\*:80>", f"127.0.0.1:{site.plain}>"),
        (r"\*:443>", f"127.0.0.1:{site.secure}>"),
        *((f"http://127.0.0.1:{port}", f"http://127.0.0.1:{real}") for port, real in upstreams.items()),
    ]
    for pattern, replacement in changes:
        text = re.sub(pattern, replacement, text)
    return text


def _nginx(program: str, folder: Path, text: str, _site: Site) -> list[str]:
    temporary = "".join(
        f"{kind}_temp_path {folder}/{kind};\n"
        for kind in ("client_body", "proxy", "fastcgi", "uwsgi", "scgi")
    )
    # The workers of root have an account of their own, which may not enter the test's folder.
    user = "user root;\n" if _AS_ROOT else ""
    main = f"{user}daemon off;\npid {folder}/nginx.pid;\nerror_log {folder}/proxy.log;\nevents {{}}\n"
    (folder / "nginx.conf").write_text(f"{main}http {{\naccess_log off;\n{temporary}{text}}}\n")
    return [program, "-c", str(folder / "nginx.conf"), "-e", str(folder / "proxy.log")]


def _apache(program: str, folder: Path, text: str, site: Site) -> list[str]:
    """The modules are those of a Debian installation that we need, and those that the page enables."""
    enabled = next(example.code for example in examples(_PAGE, "sh") if "a2enmod" in example.code)
    names = ["mpm_event", "authz_core", *enabled.split()[1:]]
    lines = [
        f"ServerRoot {folder}",
        f"DefaultRuntimeDir {folder}",
        f"PidFile {folder}/apache.pid",
        f"ErrorLog {folder}/proxy.log",
        "ServerName localhost",
        *(f"Listen 127.0.0.1:{port}" for port in (site.plain, site.secure)),
        *(f"LoadModule {name}_module {_APACHE_MODULES}/mod_{name}.so" for name in names),
        *(["User www-data", "Group www-data"] if _AS_ROOT else []),
        text,
    ]
    (folder / "apache.conf").write_text("\n".join(lines))
    return [program, "-f", str(folder / "apache.conf"), "-DFOREGROUND"]


_COMMANDS: dict[str, Callable[[str, Path, str, Site], list[str]]] = {"nginx": _nginx, "apache": _apache}


@contextlib.contextmanager
def _proxy(command: list[str], site: Site, folder: Path) -> Iterator[None]:
    """Run the proxy; its process ends with the block."""

    def listens() -> bool:
        assert process.poll() is None, (folder / "output.log").read_text() + (
            folder / "proxy.log"
        ).read_text()
        with socket.socket() as attempt:
            return attempt.connect_ex(("127.0.0.1", site.secure)) == 0

    with (folder / "output.log").open("wb") as output:
        process = subprocess.Popen(command, stdout=output, stderr=output)
        try:
            eventually(listens, "the proxy")
            yield
        finally:
            process.terminate()
            process.wait(60)


class _ProxyResolver(AbstractResolver):
    """Resolves all names to the proxy."""

    async def resolve(
        self, host: str, port: int = 0, family: socket.AddressFamily = socket.AF_INET
    ) -> list[ResolveResult]:
        one = ResolveResult(
            hostname=host, host="127.0.0.1", port=port, family=family, proto=0, flags=socket.AI_NUMERICHOST
        )
        return [one]

    async def close(self) -> None:
        """Do nothing: there is nothing to close."""


@contextlib.asynccontextmanager
async def _attacker(site: Site) -> AsyncIterator[Browser]:
    """A browser elsewhere on the network whose every request has forged headers."""
    connector = aiohttp.TCPConnector(
        resolver=_ProxyResolver(),
        family=socket.AF_INET,
        local_addr=(_CLIENT, 0),
        ssl=ssl.create_default_context(cafile=site.certificate),
    )
    async with aiohttp.ClientSession(
        connector=connector, headers=_FORGED, max_line_size=200_000, timeout=aiohttp.ClientTimeout(60)
    ) as http:
        yield Browser(http=http, base_url=site.dashboard)


async def test_the_documented_proxy_removes_forged_headers_and_passes_on_requests(
    site: Site, settings: Settings, database: Database
) -> None:
    async with _attacker(site) as browser:
        await _http_redirects_to_https(browser, site)
        await _user_headers_do_not_sign_in(browser)
        await _sign_in(browser, settings, database)
        await _events_are_sent_immediately(browser)
        await _long_requests_are_refused_by_zatva(browser)
        await _paths_are_passed_on_unchanged(browser)
        await _the_provider_answers(browser, site)
    _old_ciphers_are_refused(site)
    _many_live_pages_share_a_connection(site)


async def _http_redirects_to_https(browser: Browser, site: Site) -> None:
    for host in (_DASHBOARD, _PROVIDER):
        url = f"http://{host}:{site.plain}/any?verb=Identify"
        async with browser.http.get(url, allow_redirects=False) as answer:
            expected = (301, f"https://{host}/any?verb=Identify")
            assert (answer.status, answer.headers["Location"]) == expected
    async with browser.http.get(
        f"http://{_DASHBOARD}:{site.plain}/api/v1/me", allow_redirects=False
    ) as answer:
        assert answer.status == 403, "a program must not send its token in plain text and then succeed"


async def _user_headers_do_not_sign_in(browser: Browser) -> None:
    url = browser.base_url + "/account"
    for name in ("X-Remote-User", "x-remote-user", "X_Remote_User"):
        async with browser.http.get(url, headers={name: "Alena"}, allow_redirects=False) as answer:
            assert answer.status == 303
            assert answer.headers["Location"].startswith("/sign-in")


async def _sign_in(browser: Browser, settings: Settings, database: Database) -> None:
    """Sign in as a browser does, with the public address as origin."""
    with database.session() as session:
        link = make_link(session, settings, "Alena", browser.base_url)
        session.commit()
    path = link.removeprefix(browser.base_url)
    form = {"csrf_token": await browser.token(path), "token": path.partition("token=")[2]}
    headers = {"Origin": f"https://{_DASHBOARD}", "Sec-Fetch-Site": "same-origin"}
    url = browser.base_url + "/sign-in"
    async with browser.http.post(url, data=form, headers=headers, allow_redirects=False) as answer:
        assert (answer.status, answer.headers["Location"]) == (303, "/?done=no-password")
        cookies = answer.headers.getall("Set-Cookie")
    assert any(cookie.startswith("__Host-zatva_session=") for cookie in cookies)
    for cookie in cookies:
        assert cookie.startswith("__Host-"), cookie
        assert {"Secure", "HttpOnly", "SameSite=Lax"} <= set(cookie.split("; ")), cookie
    assert (await browser.get("/account"))[0] == 200
    with database.session() as session:
        entry = session.scalars(select(AuditEntry).where(AuditEntry.action == "sign-in")).one()
        assert entry.address == _CLIENT, "neither the proxy's address nor the forged one"


async def _events_are_sent_immediately(browser: Browser) -> None:
    async with browser.http.get(browser.base_url + "/events?topics=jobs") as stream, asyncio.timeout(10):
        assert stream.status == 200
        assert (await stream.content.readline()).startswith(b"retry:")


async def _long_requests_are_refused_by_zatva(browser: Browser) -> None:
    """A refusal by the proxy would show its own page, in English and without a reason."""
    token = await browser.token()
    for size, status in ((1_000_000, 303), (1_500_000, 413)):
        form = urlencode({"csrf_token": token, "language": "cs", "padding": "x" * size}).encode()
        url = browser.base_url + "/account/language"
        headers = {"Content-Type": "application/x-www-form-urlencoded"}
        body = io.BytesIO(form)
        async with browser.http.post(url, data=body, headers=headers, allow_redirects=False) as answer:
            assert answer.status == status
            if status == 413:
                assert "zatva" in (await answer.text()).lower()
    long = "x" * 100_000
    async with browser.http.get(f"{browser.base_url}/archive/documents?q={long}") as answer:
        assert answer.status not in (400, 414)


async def _paths_are_passed_on_unchanged(browser: Browser) -> None:
    status, text = await browser.get("/archive/collections/a%2Fb%3Fc")
    assert status == 404
    assert "zatva" in text.lower()


async def _the_provider_answers(browser: Browser, site: Site) -> None:
    async with browser.http.get(site.provider, params={"verb": "Identify"}) as answer:
        assert f"<baseURL>https://{_PROVIDER}/oai</baseURL>" in await answer.text()
    long = {"verb": "GetRecord", "metadataPrefix": "oai_dc", "identifier": "x" * 60_000}
    async with browser.http.get(site.provider, params=long) as answer:
        assert answer.status == 200
        assert "<error code=" in await answer.text()
    for host in (_DASHBOARD, _PROVIDER):
        async with browser.http.request("TRACE", f"https://{host}:{site.secure}/") as answer:
            assert answer.status == 405
        for path in ("healthz", "readyz", "%68ealthz"):
            async with browser.http.get(f"https://{host}:{site.secure}/{path}") as answer:
                assert answer.status == 404
                assert "Server" not in answer.headers or "/" not in answer.headers["Server"]


def _old_ciphers_are_refused(site: Site) -> None:
    """RSA key exchange and CBC of TLS 1.2, which the programs would accept by default."""
    context = ssl.create_default_context(cafile=site.certificate)
    context.maximum_version = ssl.TLSVersion.TLSv1_2
    context.set_ciphers("ECDHE-ECDSA-AES128-SHA256:ECDHE-ECDSA-AES256-SHA:AES128-SHA")
    with (
        socket.create_connection(("127.0.0.1", site.secure)) as connection,
        pytest.raises(ssl.SSLError, match=r"(?i)handshake"),
    ):
        context.wrap_socket(connection, server_hostname=_DASHBOARD)


def _many_live_pages_share_a_connection(site: Site) -> None:
    """By HTTP/2; without it, browsers have six connections to a host."""
    context = ssl.create_default_context(cafile=site.certificate)
    context.set_alpn_protocols(["h2", "http/1.1"])
    with (
        socket.create_connection(("127.0.0.1", site.secure)) as connection,
        context.wrap_socket(connection, server_hostname=_DASHBOARD) as secured,
    ):
        assert secured.selected_alpn_protocol() == "h2"


@pytest.mark.parametrize(
    ("language", "pattern"), [("nginx", r"proxy_read_timeout (\d+)s;"), ("apache", r"ProxyTimeout (\d+)")]
)
def test_timeouts_of_the_documented_proxies_exceed_those_of_zatva(language: str, pattern: str) -> None:
    times = [int(seconds) for seconds in re.findall(pattern, examples(_PAGE, language)[0].code)]
    assert len(times) == 2
    patient = with_short_timeouts(Settings()).harvester
    assert min(times) > STATEMENT_SECONDS + patient.timeout + patient.max_wait_total

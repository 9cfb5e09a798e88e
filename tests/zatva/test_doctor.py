"""`zatva doctor` reports problems, and does not fail because of them."""

import asyncio
import errno
import socketserver
import tempfile
import threading
from pathlib import Path
from typing import NoReturn

import pytest

from harvester.models import Repository
from oai.database import Database
from oai.disk import Disk
from oai.outgoing import MailSettings
from oai.sections import OpenIdSettings
from oai.settings import Settings
from tests.commands import results
from tests.manager.notices.mail_server import mail_server
from tests.manager.test_health import lock_of_an_idle_session
from zatva.doctor import CHECKS


def test_a_database_that_cannot_be_reached_is_a_finding(environment: dict[str, str]) -> None:
    gone = {**environment, "ZATVA_DATABASE_URL": "postgresql://zatva:s3cret@127.0.0.1:9/zatva"}
    findings = {found["check"]: found for found in results(gone, "doctor", expect=6)}
    assert findings["data folder"]["well"]
    assert not findings["database"]["well"]
    assert "Connection refused; check that the server is running" in findings["database"]["found"]
    assert "s3cret" not in findings["database"]["found"]


def test_a_database_that_answers_gives_no_finding(environment: dict[str, str]) -> None:
    findings = {found["check"]: found for found in results(environment, "doctor")}
    assert all(found["well"] for found in findings.values())


def test_a_session_that_blocks_others_is_a_finding(environment: dict[str, str], database: Database) -> None:
    with lock_of_an_idle_session(database, seconds=3) as process:
        findings = {found["check"]: found for found in results(environment, "doctor", expect=6)}
    assert f"process {process} (" in findings["locks"]["found"]
    assert f"SELECT pg_terminate_backend({process})" in findings["locks"]["advice"]


def test_a_store_that_is_not_writable_is_a_finding(environment: dict[str, str]) -> None:
    store = Path(environment["ZATVA_DATA"]) / "store"
    store.parent.mkdir()
    store.write_text("")
    findings = {found["check"]: found for found in results(environment, "doctor", expect=6)}
    assert findings["data folder"]["well"]
    assert not findings["store"]["well"]
    assert f"{store}: Not a directory; make it writable" in findings["store"]["advice"]


@pytest.mark.parametrize("target", ["store", "nowhere"])
def test_a_symbolic_link_without_a_target_folder_is_a_finding(
    environment: dict[str, str], target: str
) -> None:
    store = Path(environment["ZATVA_DATA"]) / "store"
    store.parent.mkdir()
    store.symlink_to(target)
    findings = {found["check"]: found for found in results(environment, "doctor", expect=6)}
    assert findings["store"]["found"] == str(store)
    assert f"{store} is a symbolic link that leads to no folder" in findings["store"]["advice"]


def test_a_folder_on_a_full_disk_is_a_finding_with_its_remedy(
    settings: Settings, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(**_: object) -> NoReturn:
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(tempfile, "TemporaryFile", refuse)
    folder, _ = CHECKS["data folder"](settings)
    assert "No space left on device; free some space or inodes (`df -i`)" in folder.advice


def test_a_hook_that_posts_without_a_signing_key_is_a_finding(environment: dict[str, str]) -> None:
    hooked = {**environment, "ZATVA_MANAGER__HOOKS": '[{"name": "web", "url": "https://example.org/"}]'}
    (hooks,) = [one for one in results(hooked, "doctor", expect=6) if one["check"] == "hooks"]
    assert (hooks["found"], hooks["well"]) == ("posts to web addresses: web", False)
    assert hooks["advice"] == "no signing key is set; set webhooks.secret_file"
    keyed = {**hooked, "ZATVA_WEBHOOKS__SECRET": "s3cret"}
    assert all(one["well"] for one in results(keyed, "doctor"))


def test_an_openid_provider_without_tls_is_a_finding(settings: Settings) -> None:
    with socketserver.TCPServer(("127.0.0.1", 0), _Plain) as server:
        threading.Thread(target=server.handle_request).start()
        issuer = f"https://127.0.0.1:{server.server_address[1]}"
        openid = OpenIdSettings(issuer=issuer, client_id="zatva", private_networks=True)
        (finding,) = CHECKS["OpenID provider"](settings.model_copy(update={"openid": openid}))
    assert finding.found.endswith(": the server does not use TLS on this port")
    assert finding.advice.startswith("see the message")


def test_a_secret_of_the_openid_client_that_cannot_be_read_is_a_finding(
    settings: Settings, tmp_path: Path
) -> None:
    openid = OpenIdSettings(
        issuer="https://127.0.0.1:9", client_id="zatva", client_secret_file=tmp_path / "secret"
    )
    (finding,) = CHECKS["OpenID provider"](settings.model_copy(update={"openid": openid}))
    assert not finding.well
    assert finding.found.startswith("setting openid.client_secret_file: ")


def test_a_mail_server_that_does_not_fit_the_settings_is_a_finding(settings: Settings) -> None:
    with socketserver.TCPServer(("127.0.0.1", 0), _Plain) as server:
        threading.Thread(target=server.handle_request).start()
        mail = MailSettings(host="127.0.0.1", port=server.server_address[1], security="tls")
        (finding,) = CHECKS["mail server"](settings.model_copy(update={"mail": mail}))
    assert not finding.well
    assert finding.found.endswith("use TLS on this port; check mail.security and mail.port")
    assert list(CHECKS["mail server"](settings)) == []


async def test_a_mail_server_that_accepts_the_connection_gives_no_finding(settings: Settings) -> None:
    async with mail_server() as server:
        mail = MailSettings(host="127.0.0.1", port=server.port, security="none")
        (finding,) = await asyncio.to_thread(
            lambda: list(CHECKS["mail server"](settings.model_copy(update={"mail": mail})))
        )
    assert (finding.well, finding.found) == (True, f"127.0.0.1, port {mail.port} accepts the connection")
    assert server.mails == []


@pytest.mark.parametrize(
    ("content", "fault"),
    [
        (None, "No such file or directory"),
        ("", "no certificate in PEM format"),
        ("x", "no certificate in PEM format"),
    ],
)
def test_a_file_without_certificates_is_a_finding(
    settings: Settings, monkeypatch: pytest.MonkeyPatch, tmp_path: Path, content: str | None, fault: str
) -> None:
    file = tmp_path / "authority.pem"
    if content is not None:
        file.write_text(content)
    monkeypatch.setenv("SSL_CERT_FILE", str(file))
    (finding,) = CHECKS["certificates"](settings)
    assert (finding.well, finding.found) == (False, f"SSL_CERT_FILE: {file}")
    assert finding.advice == f"{fault}; correct SSL_CERT_FILE"


class _Plain(socketserver.BaseRequestHandler):
    def handle(self) -> None:
        self.request.sendall(b"HTTP/1.1 400 Bad Request\r\n\r\n")


def test_the_variables_of_proxies_are_named_without_their_values(
    settings: Settings, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY"):
        monkeypatch.delenv(name, raising=False)
        monkeypatch.delenv(name.lower(), raising=False)
    assert list(CHECKS["proxies"](settings)) == []
    monkeypatch.setenv("HTTPS_PROXY", "http://me:s3cret@proxy.example:3128")
    (finding,) = CHECKS["proxies"](settings)
    expected = "HTTPS_PROXY: used for object stores (S3) only; everything else connects directly"
    assert (finding.well, finding.found) == (True, expected)


def test_each_disk_is_named_by_its_folder(environment: dict[str, str]) -> None:
    free, *_ = [found for found in results(environment, "doctor") if found["check"] == "free space"]
    assert f" GB in {environment['ZATVA_DATA']}" in free["found"]


def test_the_disks_of_temporary_files_exports_and_repositories_are_checked(
    settings: Settings, database: Database, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    def disks_of(_: Settings, *others: Path) -> list[Disk]:
        return [Disk(folder=folder, total=10**9, free=10**9) for folder in others]

    monkeypatch.setenv("TMPDIR", f"{tmp_path}/temporary")
    monkeypatch.setattr("zatva.doctor.disks_of", disks_of)
    with database.session() as session:
        session.add_all(
            Repository(base_url="http://a.example/oai", base_dir=folder)
            for folder in (f"{tmp_path}/elsewhere", "in-the-store")
        )
        session.commit()
    folders = [tmp_path / "temporary", settings.exports]
    found = [finding.found for finding in CHECKS["free space"](settings)]
    assert found == [f"1.0 GB in {folder}" for folder in folders]
    found = [one.found for one in CHECKS["database"](settings) if one.check == "free space"]
    assert found == [f"1.0 GB in {tmp_path}/elsewhere"]


def _add_repositories(database: Database, *folders: str) -> None:
    with database.session() as session:
        session.add_all(Repository(base_url="http://a.example/oai", base_dir=folder) for folder in folders)
        session.commit()


def _repository_folders(settings: Settings) -> list[tuple[bool, str, str]]:
    checked = CHECKS["database"](settings)
    return [(one.well, one.found, one.advice) for one in checked if one.check == "repository folders"]


def test_folders_of_repositories_that_cannot_be_written_are_findings_by_cause(
    settings: Settings, database: Database, tmp_path: Path
) -> None:
    (tmp_path / "file").touch()
    (tmp_path / "link").symlink_to("nowhere")
    within = [f"{tmp_path}/file/{number}" for number in range(7)]
    _add_repositories(database, "in-the-store", f"{tmp_path}/new/folder", *within, f"{tmp_path}/link/a")
    not_a_folder = f"{tmp_path}/file: Not a directory; make it writable for this user"
    link = f"{tmp_path}/link is a symbolic link that leads to no folder; correct it"
    assert _repository_folders(settings) == [
        (False, f"{', '.join(within[:5])} and 2 more", not_a_folder),
        (False, f"{tmp_path}/link/a", link),
    ]
    assert not (tmp_path / "new").exists()


def test_of_many_causes_the_first_ten_are_listed(
    settings: Settings, database: Database, tmp_path: Path
) -> None:
    for number in range(12):
        (tmp_path / f"{number:02}").touch()
    _add_repositories(database, *(f"{tmp_path}/{number:02}" for number in range(12)))
    found = [found for _, found, _ in _repository_folders(settings)]
    assert found == [*(f"{tmp_path}/{number:02}" for number in range(10)), "2 more"]


def test_a_data_folder_that_cannot_be_read_is_a_finding(environment: dict[str, str], tmp_path: Path) -> None:
    embedded = {**environment, "ZATVA_DATA": str(tmp_path / ("x" * 300))}
    del embedded["ZATVA_DATABASE_URL"]
    findings = {found["check"]: found for found in results(embedded, "doctor", expect=6)}
    assert "File name too long" in findings["database"]["found"]
    assert findings["Python"]["well"]

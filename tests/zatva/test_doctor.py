"""`zatva doctor` says what is not well, and does not fall ill itself."""

import errno
import tempfile
from pathlib import Path
from typing import NoReturn

import pytest

from oai.database import Database
from oai.settings import Settings
from tests.commands import results
from tests.manager.test_health import lock_of_a_forgotten_session
from zatva.doctor import CHECKS


def test_a_database_that_cannot_be_reached_is_a_finding(environment: dict[str, str]) -> None:
    gone = {**environment, "ZATVA_DATABASE_URL": "postgresql://zatva:s3cret@127.0.0.1:9/zatva"}
    findings = {found["check"]: found for found in results(gone, "doctor", expect=6)}
    assert findings["data folder"]["well"]
    assert not findings["database"]["well"]
    assert "Connection refused; check that the server is running" in findings["database"]["found"]
    assert "s3cret" not in findings["database"]["found"]


def test_a_database_that_answers_is_well(environment: dict[str, str]) -> None:
    findings = {found["check"]: found for found in results(environment, "doctor")}
    assert all(found["well"] for found in findings.values())


def test_a_session_that_keeps_others_waiting_is_a_finding(
    environment: dict[str, str], database: Database
) -> None:
    with lock_of_a_forgotten_session(database) as process:
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
def test_a_symbolic_link_that_leads_nowhere_is_a_finding(environment: dict[str, str], target: str) -> None:
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
    (free,) = [found for found in results(environment, "doctor") if found["check"] == "free space"]
    assert f" GB in {environment['ZATVA_DATA']}" in free["found"]


def test_a_data_folder_that_cannot_be_read_is_a_finding(environment: dict[str, str], tmp_path: Path) -> None:
    embedded = {**environment, "ZATVA_DATA": str(tmp_path / ("x" * 300))}
    del embedded["ZATVA_DATABASE_URL"]
    findings = {found["check"]: found for found in results(embedded, "doctor", expect=6)}
    assert "File name too long" in findings["database"]["found"]
    assert findings["Python"]["well"]

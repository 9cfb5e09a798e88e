"""`zatva doctor` says what is not well, and does not fall ill itself."""

from pathlib import Path

from tests.commands import results


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


def test_a_store_that_is_not_writable_is_a_finding(environment: dict[str, str]) -> None:
    store = Path(environment["ZATVA_DATA"]) / "store"
    store.parent.mkdir()
    store.write_text("")
    findings = {found["check"]: found for found in results(environment, "doctor", expect=6)}
    assert findings["data folder"]["well"]
    assert not findings["store"]["well"]
    assert f"{store}: Not a directory; make it writable" in findings["store"]["advice"]


def test_a_hook_that_posts_without_a_signing_key_is_a_finding(environment: dict[str, str]) -> None:
    hooked = {**environment, "ZATVA_MANAGER__HOOKS": '[{"name": "web", "url": "https://example.org/"}]'}
    (hooks,) = [one for one in results(hooked, "doctor", expect=6) if one["check"] == "hooks"]
    assert (hooks["found"], hooks["well"]) == ("posts to web addresses: web", False)
    assert hooks["advice"] == "no signing key is set; set webhooks.secret_file"
    keyed = {**hooked, "ZATVA_WEBHOOKS__SECRET": "s3cret"}
    assert all(one["well"] for one in results(keyed, "doctor"))


def test_each_disk_is_named_by_its_folder(environment: dict[str, str]) -> None:
    (free,) = [found for found in results(environment, "doctor") if found["check"] == "free space"]
    assert f" GB in {environment['ZATVA_DATA']}" in free["found"]


def test_a_data_folder_that_cannot_be_read_is_a_finding(environment: dict[str, str], tmp_path: Path) -> None:
    embedded = {**environment, "ZATVA_DATA": str(tmp_path / ("x" * 300))}
    del embedded["ZATVA_DATABASE_URL"]
    findings = {found["check"]: found for found in results(embedded, "doctor", expect=6)}
    assert "File name too long" in findings["database"]["found"]
    assert findings["Python"]["well"]

"""Settings: file, variables, overrides, and errors in plain words."""

import os
import pwd
from pathlib import Path

import pytest
from pydantic import ValidationError

from oai.errors import SettingsError
from oai.private_files import exposed_files
from oai.sections import WebSettings
from oai.settings import load_settings
from oai.settings_view import settings_in_effect


@pytest.fixture(autouse=True)
def _a_folder_without_settings(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    for name in ("ZATVA_CONFIG", "ZATVA_DATA", "ZATVA_DATABASE_URL"):
        monkeypatch.delenv(name, raising=False)


def test_defaults_apply_without_any_settings() -> None:
    assert load_settings().provider.records_per_answer == 500


def test_the_file_in_the_current_folder_is_read(tmp_path: Path) -> None:
    (tmp_path / "zatva.toml").write_text("[provider]\nrecords_per_answer = 7\n")
    assert load_settings().provider.records_per_answer == 7


def test_a_variable_wins_over_the_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "zatva.toml").write_text("[provider]\nrecords_per_answer = 7\nsets_per_answer = 8\n")
    monkeypatch.setenv("ZATVA_PROVIDER__RECORDS_PER_ANSWER", "9")
    provider = load_settings().provider
    assert (provider.records_per_answer, provider.sets_per_answer) == (9, 8)


def test_an_override_wins_over_a_variable(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ZATVA_DATA", "/elsewhere")
    settings = load_settings(data=tmp_path)
    assert settings.data == tmp_path
    assert next(one.source for one in settings_in_effect(settings) if one.name == "data") == "--data"


def test_a_user_without_home_folder_gets_an_error_with_advice(monkeypatch: pytest.MonkeyPatch) -> None:
    def no_entry(_number: int) -> None:
        raise KeyError

    monkeypatch.setattr(os, "geteuid", lambda: 12345)
    monkeypatch.setattr(pwd, "getpwuid", no_entry)
    for name in ("HOME", "XDG_DATA_HOME"):
        monkeypatch.delenv(name, raising=False)
    with pytest.raises(SettingsError, match="set ZATVA_DATA, --data or HOME"):
        load_settings()
    assert load_settings(data="/elsewhere").data == Path("/elsewhere")


def test_the_password_is_not_shown() -> None:
    settings = load_settings(database_url="postgresql://u:hidden@host/db")
    assert "hidden" not in repr(settings)


@pytest.mark.parametrize(
    ("text", "words"),
    [
        (
            "[provider]\nrecords_per_answer = 0",
            "provider.records_per_answer.*greater than or equal to 1, found 0",
        ),
        ("[provider]\nrecord_per_answer = 5", "provider.record_per_answer"),
        ("[provider]\nnamespace = '1.cz'", "begins with a letter"),
        ("[provider]\nnamespace = 'localhost'", "is not a domain name"),
        ("[provider]\nadmin_emails = ['nobody']", "admin_emails.0"),
        ("[mail]\nsender = 'zatva@čtenář.cz'", "mail.sender"),
        ("[mail]\nsender = 'a..b@library.cz'", "mail.sender"),
        ("data = ''", "'data'.*may not be empty"),
        ("nonsense", "not valid TOML"),
        (
            "\n[provider]\nthread = 3",
            "^zatva.toml:3: setting 'provider.thread' does not exist; did you mean 'provider.threads'\\?$",
        ),
        ("[providr]\nthreads = 3", "toml:1: section 'providr' does not exist; did you mean 'provider'"),
        ("provider = 3", "^zatva.toml:1: setting 'provider': must be a section, found 3$"),
        ("[provider]\nthreads = '3 of'", "toml:2: setting 'provider.threads': must be a whole number, found"),
        ("[mail]\npassword = 12345", "^zatva.toml:2: setting 'mail.password': must be a text in quotes$"),
        ("[provider]\nreplica_urls = 'postgresql://u:p@h/d'", r'replica_urls.: must be a list .*"b"\]$'),
        ("[openid]\nissuer = 'https://a.b'\nclient_secret = 'c'", "toml:1.*: issuer needs client_id$"),
    ],
)
def test_an_invalid_setting_is_refused_with_the_allowed_values(tmp_path: Path, text: str, words: str) -> None:
    (tmp_path / "zatva.toml").write_text(text)
    with pytest.raises(SettingsError, match=words):
        load_settings()


def test_an_invalid_setting_in_a_variable_is_refused_with_its_name(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "zatva.toml").write_text("[provider]\nthreads = 2\n")
    monkeypatch.setenv("ZATVA_PROVIDER__THREADS", "many")
    words = r"^ZATVA_PROVIDER__THREADS: setting 'provider\.threads': must be a whole number, found 'many'$"
    with pytest.raises(SettingsError, match=words):
        load_settings()


def test_a_settings_file_that_is_not_utf_8_is_refused_with_its_name(tmp_path: Path) -> None:
    (tmp_path / "zatva.toml").write_bytes(b'[provider]\nrepository_name = "\xe8e\xbb"\n')
    with pytest.raises(
        SettingsError, match=r"zatva.toml: not UTF-8 \(byte 31, in line 2\); save it as UTF-8"
    ):
        load_settings()


def test_folders_and_circular_links_are_refused_as_settings_files(tmp_path: Path) -> None:
    (tmp_path / "loop.toml").symlink_to("loop.toml")
    for name, kind in (("", "a folder"), ("loop.toml", "neither a file nor a link to one")):
        with pytest.raises(SettingsError, match=f"{tmp_path / name} is {kind}; give another"):
            load_settings(tmp_path / name)


def test_a_byte_order_mark_is_not_part_of_the_settings(tmp_path: Path) -> None:
    file = tmp_path / "zatva.toml"
    file.write_bytes(b"\xef\xbb\xbf[provider]\r\nrecords_per_answer = 7\r\n[mail]\r\npassword = 'hidden'\r\n")
    settings = load_settings()
    assert settings.provider.records_per_answer == 7
    file.chmod(0o644)
    assert set(exposed_files(settings)) <= {file}  # it depends on the folders, too
    lines = {line.name: line.source for line in settings_in_effect(settings)}
    assert lines["provider.records_per_answer"] == "zatva.toml:2"


def test_section_names_are_case_insensitive(tmp_path: Path) -> None:
    (tmp_path / "zatva.toml").write_text("Data = '/x'\n[Provider]\nthreads = 2\n")
    settings = load_settings()
    assert (settings.data, settings.provider.threads) == (Path("/x"), 2)
    lines = {line.name: line.source for line in settings_in_effect(settings)}
    assert (lines["data"], lines["provider.threads"]) == ("zatva.toml:1", "zatva.toml:3")


def test_a_section_written_in_two_cases_is_refused(tmp_path: Path) -> None:
    (tmp_path / "zatva.toml").write_text("[provider]\nthreads = 2\n[PROVIDER]\nthreads = 3\n")
    with pytest.raises(SettingsError, match="'PROVIDER' is there twice, in different cases; use 'provider'"):
        load_settings()


def test_a_variable_that_is_not_json_is_refused_with_its_section(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ZATVA_PROVIDER__SEEDER_LISTS", '{"Closed"="withheld"}')
    with pytest.raises(
        SettingsError, match=r'field "provider".*delimiter.*write a list as \["a", "b"\], a table'
    ):
        load_settings()


@pytest.mark.parametrize(
    ("given", "kept"),
    [
        ("https://zatva.example", "https://zatva.example"),
        ("HTTPS://Zatva.Example/", "https://zatva.example"),
        ("http://[2001:DB8::1]:8090", "http://[2001:db8::1]:8090"),
    ],
)
def test_the_dashboards_address_is_scheme_host_and_port(given: str, kept: str) -> None:
    assert WebSettings(base_url=given).base_url == kept


@pytest.mark.parametrize(
    "given",
    [
        "https://zatva.example/dashboard",
        "https://zatva.example?a=b",
        "https://zatva.example#a",
        "https://olga:secret@zatva.example",
        "https://zatva.example evil",
        "https://",
        "ftp://zatva.example",
        "",
    ],
)
def test_the_dashboards_address_has_no_path_query_or_credentials(given: str) -> None:
    with pytest.raises(ValidationError, match="scheme, host and port only"):
        WebSettings(base_url=given)


def test_a_missing_settings_file_is_reported_with_its_name(tmp_path: Path) -> None:
    with pytest.raises(
        SettingsError, match=f"no such settings file.*zatva init --config {tmp_path}/none.toml"
    ):
        load_settings(tmp_path / "none.toml")
    assert load_settings(tmp_path / "none.toml", may_be_missing=True).toml_file is None


def test_an_empty_database_url_selects_the_embedded_database(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "zatva.toml").write_text("database_url = 'postgresql://u@host/db'\n")
    monkeypatch.setenv("ZATVA_DATABASE_URL", "")
    assert load_settings().database_url is None

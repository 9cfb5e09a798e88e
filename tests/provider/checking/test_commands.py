"""`zatva provider check` against Zatva's provider and against a closed port, with real processes."""

from collections import Counter
from collections.abc import Mapping
from datetime import timedelta
from pathlib import Path

from provider.checking.checks import CHECKS
from tests import commands
from tests.commands import Done, results
from tests.end_to_end.processes import running
from tests.provider.archive import BEGINNING, Archive

SMALL_PAGES = {
    "ZATVA_PROVIDER__RECORDS_PER_ANSWER": "3",
    "ZATVA_PROVIDER__HEADERS_PER_ANSWER": "4",
    "ZATVA_PROVIDER__SETS_PER_ANSWER": "5",
}


def fill(archive: Archive) -> None:
    """Documents of one second and of many, some of them deleted, in collections within collections."""
    for number in range(4):
        collections = ["collection:serials:nov07"] if number % 2 else []
        archive.add(f"http://www.a.example/{number}", datestamp=BEGINNING, collections=collections)
    for day in range(8):
        archive.add(
            f"https://sub.b.example/{day}?q=<&>",
            datestamp=BEGINNING + timedelta(days=day, hours=day),
            mime_type="image/svg+xml",
            title="Ž & <b>",
            deleted=day % 3 == 0,
        )
    archive.describe("collection:serials", "What comes again & again")


def test_zatvas_provider_passes_all_checks_within_the_request_limit(
    archive: Archive, environment: Mapping[str, str], tmp_path: Path
) -> None:
    fill(archive)
    ours = {**environment, **SMALL_PAGES}
    with running(ours, tmp_path / "log", "provider", "serve", "--port", "0", ready="provider at") as (_, url):
        rows = results(environment, "provider", "check", url, "--polite", "0")
        few = results(environment, "provider", "check", url, "--polite", "0", "--max-requests", "10")
    assert not [row for row in rows if row["result"] in {"failed", "could not be done"}]
    assert len(rows) == len(CHECKS)
    undecided = {row["id"] for row in rows if row["result"] == "not applicable"}
    assert undecided <= {"records.deleted-policy", "error.date-finer"}
    counts = Counter(row["result"] for row in few)
    assert not counts["failed"]
    assert counts["could not be done"] > counts["passed"] > 0


def test_an_empty_provider_fails_no_check_and_list_checks_are_not_applicable(
    environment: Mapping[str, str], tmp_path: Path
) -> None:
    with running(environment, tmp_path / "log", "provider", "serve", "--port", "0", ready="provider at") as (
        _,
        url,
    ):
        rows = results(environment, "provider", "check", url, "--polite", "0")
    found = {row["id"]: row["result"] for row in rows}
    assert "failed" not in found.values()
    assert found["verb.ListRecords.get"] == "not applicable"
    assert found["error.date-nonsense"] == "passed"


def test_failed_checks_are_printed_with_received_and_expected_values(
    archive: Archive, environment: Mapping[str, str], tmp_path: Path
) -> None:
    fill(archive)
    serving = ("provider", "serve", "--port", "0", "--base-url", "http://elsewhere.example/oai")
    with running(environment, tmp_path / "log", *serving, ready="provider at") as (_, url):
        done = check(environment, url, "--polite", "0")
    assert done.returncode == 3
    assert "identify.base-url (must, section 4.2): baseURL is the address that was requested" in done.stdout
    assert "received  http://elsewhere.example/oai" in done.stdout
    assert f"expected  {url}" in done.stdout
    assert "1 failed" in done.stderr


def test_an_unreachable_provider_gives_exit_code_4(environment: Mapping[str, str]) -> None:
    done = check(environment, "http://127.0.0.1:9/oai")
    assert done.returncode == 4
    assert done.stderr.startswith("zatva: GET http://127.0.0.1:9/oai?verb=Identify: ")


def test_a_file_url_is_refused(environment: Mapping[str, str]) -> None:
    done = check(environment, "file:///etc/hostname")
    assert done.returncode == 2
    assert "write it as http://host/path" in done.stderr


def check(environment: Mapping[str, str], *arguments: str) -> Done:
    return commands.zatva(environment, "provider", "check", *arguments)

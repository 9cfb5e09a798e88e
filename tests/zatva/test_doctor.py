"""`zatva doctor` says what is not well, and does not fall ill itself."""

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

"""Every check passes on a correct provider, and finds the fault for which it was written."""

from typing import Any

import pytest

from oai.vocabulary import Granularity
from provider.checking.checks import CHECKS
from provider.checking.client import CheckClient
from provider.checking.findings import CheckResult, Finding, Severity, run_checks
from provider.checking.survey import Survey
from provider.checking.transport import Received, Sent, Transport, UnreachableError
from tests.provider.checking.fault_table import FAULTS
from tests.provider.checking.faults import Fault, midnights, shifted, text
from tests.provider.checking.small_provider import URL, SmallProvider, changed


def findings(
    transport: Transport, *, max_requests: int = 300, waits: list[float] | None = None
) -> list[Finding]:
    client = CheckClient(
        url=URL,
        transport=transport,
        max_requests=max_requests,
        sleep=(waits if waits is not None else []).append,
    )
    return list(run_checks(Survey(client), CHECKS))


def failed(found: list[Finding]) -> set[str]:
    return {finding.check.id for finding in found if finding.result is CheckResult.FAILED}


@pytest.mark.parametrize("granularity", Granularity)
def test_a_correct_provider_passes_all_checks(granularity: Granularity) -> None:
    found = findings(SmallProvider(granularity=granularity))
    not_passed = {finding.check.id for finding in found if finding.result is not CheckResult.PASSED}
    assert not_passed <= {"records.deleted-policy", "error.date-finer"}


@pytest.mark.parametrize("fault", FAULTS, ids=lambda fault: fault.name)
def test_a_fault_fails_only_its_own_checks(fault: Fault) -> None:
    found = findings(SmallProvider(**fault.parts))
    assert failed(found) == fault.fails
    for finding in found:
        if finding.result is CheckResult.FAILED:
            assert finding.sent
            assert finding.came
            assert finding.expected


def test_every_check_can_fail() -> None:
    assert {check.id for check in CHECKS} == {name for fault in FAULTS for name in fault.fails}


def test_after_errors_the_specification_does_not_require_repeated_arguments() -> None:
    bare: dict[str, Any] = text('<request [^>]*>([^<]*</request><error code="(?!bad))', r"<request>\1")
    found = findings(SmallProvider(ask=midnights, **shifted(hours=1), **bare))
    assert [
        (finding.check.id, finding.check.severity, finding.result)
        for finding in found
        if finding.check.id.startswith("request.") and finding.result is not CheckResult.PASSED
    ] == [
        ("request.echo-window", Severity.MUST, CheckResult.NOT_DONE),
        ("request.echo-errors", Severity.INFO, CheckResult.FAILED),
    ]


def test_each_check_has_a_unique_id_a_title_a_section_and_advice() -> None:
    assert len({check.id for check in CHECKS}) == len(CHECKS) >= 60
    assert all(check.advice.endswith(".") and check.title and check.section for check in CHECKS)


def test_sets_that_are_listed_twice_are_counted_in_linear_time() -> None:
    """Quadratic time would be minutes."""
    many = "".join(f"<set><setSpec>s{number}</setSpec></set>" for number in range(60_000))
    twice: dict[str, Any] = text("<ListSets>", f"<ListSets>{many}")
    unique = next(check for check in CHECKS if check.id == "sets.unique")
    found = unique.look(Survey(CheckClient(url=URL, transport=SmallProvider(**twice))))
    assert (found.passed, found.came) == (False, "s0, s1, s10, s100, s1000")


def test_checking_stops_at_the_maximum_number_of_requests() -> None:
    asked: list[Sent] = []
    small = SmallProvider()

    def counting(sent: Sent) -> Received:
        asked.append(sent)
        return small(sent)

    found = findings(counting, max_requests=20)
    assert len(asked) == 20
    assert {CheckResult.PASSED, CheckResult.NOT_DONE} <= {finding.result for finding in found}
    assert not failed(found)


def test_checking_waits_as_retry_after_asks() -> None:
    small, waits = SmallProvider(), list[float]()
    busy = [True, True]

    def sometimes(sent: Sent) -> Received:
        if busy:
            busy.pop()
            return Received(status=503, headers={"retry-after": "7"}, body=b"")
        return small(sent)

    assert not failed(findings(sometimes, waits=waits))
    assert waits.count(7.0) == 2


def test_a_provider_that_never_answers_is_reported_as_unreachable() -> None:
    def silent(sent: Sent) -> Received:
        raise UnreachableError(f"{sent}: nobody there")

    with pytest.raises(UnreachableError, match="nobody there"):
        findings(silent)


def test_checks_are_not_done_if_the_provider_stops_answering() -> None:
    small = SmallProvider()

    def falling_silent(sent: Sent) -> Received:
        if "ListRecords" in str(sent):
            raise UnreachableError("gone")
        return small(sent)

    found = {finding.check.id: finding.result for finding in findings(falling_silent)}
    assert found["verb.ListRecords.get"] is CheckResult.NOT_DONE
    assert found["identify.elements"] is CheckResult.PASSED


@pytest.mark.parametrize(
    "body",
    [
        b"",
        b"<html><body>Not Found</body></html>",
        b"\xff\xfe\x00",
        b"<?xml version='1.0'?><!DOCTYPE a [<!ENTITY b 'c'>]><a>&b;</a>",
        b"<OAI-PMH xmlns='http://www.openarchives.org/OAI/2.0/'/>",
    ],
)
def test_a_response_that_is_not_oai_pmh_fails_checks_without_an_exception(body: bytes) -> None:
    found = findings(lambda _: Received(status=200, headers={}, body=body))
    broken = {finding.check.id for finding in found if finding.check.severity is Severity.MUST} & failed(
        found
    )
    assert {"verb.Identify.get", "answers.schema", "error.verb-unknown"} <= broken


@pytest.mark.parametrize("coding", ["gzip", "deflate", "br"])
def test_a_body_that_cannot_be_decompressed_fails_a_check(coding: str) -> None:
    small = SmallProvider()

    def garbled(sent: Sent) -> Received:
        received = small(sent)
        return changed(received, headers={**received.headers, "content-encoding": coding}, body=b"\x1f\x8b?")

    assert "answers.well-formed" in failed(findings(garbled))

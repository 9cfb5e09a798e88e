"""Every check passes on a correct provider, and finds the fault for which it was written."""

import gzip
import random
import subprocess
import sys
from typing import Any

import pytest

from oai.vocabulary import Granularity
from provider.checking.checks import CHECKS
from provider.checking.client import AllowanceSpentError, CheckClient
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


@pytest.mark.parametrize(
    "many",
    [
        "<a/>" * 500_000,
        " " * (32 << 20),
        "<a " + " ".join(f'b{number}=""' for number in range(500_000)) + "/>",
    ],
    ids=["elements", "bytes", "attributes"],
)
def test_checks_that_need_a_larger_answer_than_any_page_are_not_done(many: str) -> None:
    def large(_sent: Sent, received: Received) -> Received:
        body = gzip.compress(received.body.replace(b"<ListSets>", b"<ListSets>" + many.encode()), 1)
        return changed(received, headers={"content-encoding": "gzip"}, body=body)

    client = CheckClient(url=URL, transport=SmallProvider(after=large))
    checks = [check for check in CHECKS if check.id in {"verb.ListSets.get", "answers.well-formed"}]
    sets, well_formed = run_checks(Survey(client), checks)
    assert sets.result is CheckResult.NOT_DONE
    assert "the answer has more than 33,554,432 bytes or 500,000 elements" in sets.came
    assert well_formed.came == "all of 1 answers"


def test_no_more_answers_are_read_than_memory_is_for() -> None:
    noise = Received(status=200, headers={}, body=random.Random(1).randbytes(22 << 20))
    client = CheckClient(url=URL, transport=lambda _: noise)
    for number in range(3):
        client.get(f"verb={number}")
    with pytest.raises(AllowanceSpentError, match="all answers together have more than 67,108,864 bytes"):
        client.get("verb=3")


def test_a_long_answer_is_quoted_in_part() -> None:
    named: dict[str, Any] = text("<baseURL>[^<]*", f"<baseURL>{'x' * 1_000_000}")
    address = next(finding for finding in findings(SmallProvider(**named)) if "x" * 1000 in finding.came)
    assert len(address.came) == 4000


_WITH_LITTLE_MEMORY = """
import resource
from provider.checking.checks.transport import VERB_CHECKS
from provider.checking.client import CheckClient
from provider.checking.findings import run_checks
from provider.checking.survey import Survey
from tests.provider.checking.small_provider import URL, SmallProvider, changed

many = b"<a/>" * 300_000 + b"</OAI-PMH>"
pad = lambda _, received: changed(received, body=received.body.replace(b"</OAI-PMH>", many))
used = int(open("/proc/self/statm").read().split()[0]) * resource.getpagesize()
resource.setrlimit(resource.RLIMIT_AS, (used + (200 << 20),) * 2)
client = CheckClient(url=URL, transport=SmallProvider(after=pad))
found = list(run_checks(Survey(client), VERB_CHECKS))
print(*{str(finding.result) for finding in found}, sum(reply.nodes for reply in client.replies) > 3_000_000)
"""


@pytest.mark.skipif(sys.platform != "linux", reason="memory is measured and limited as on Linux")
def test_many_large_answers_take_no_more_memory_than_a_few() -> None:
    done = subprocess.run(
        [sys.executable, "-c", _WITH_LITTLE_MEMORY], capture_output=True, text=True, check=False
    )
    assert (done.stdout, done.stderr) == ("passed True\n", "")

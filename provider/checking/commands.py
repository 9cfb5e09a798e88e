"""`zatva provider check`: check a provider against the specification and report violations."""

import time
from collections import Counter
from collections.abc import Sequence
from typing import Final
from urllib.parse import urlsplit

from oai.cli import Invocation
from oai.console import Console, counted
from oai.errors import ExitCode, UsageError
from provider.checking.checks import CHECKS
from provider.checking.client import CheckClient
from provider.checking.findings import CheckResult, Finding, Severity, run_checks
from provider.checking.survey import Survey
from provider.checking.transport import http_transport

_TIMEOUT: Final = 60.0
_COLUMNS: Final = {"result": "Result", "severity": "Weight", "id": "Check", "title": "Requirement"}


def check(invocation: Invocation) -> ExitCode:
    """`provider check URL`: exit code 3 if a mandatory check fails."""
    arguments, console = invocation.arguments, invocation.console
    client = CheckClient(
        url=_address(arguments.url),
        transport=http_transport(timeout=_TIMEOUT),
        pause=arguments.polite,
        max_requests=arguments.max_requests,
        sleep=time.sleep,
    )
    findings: list[Finding] = []
    with console.progress("checking") as advance:
        for finding in run_checks(Survey(client), CHECKS):
            findings.append(finding)
            advance(len(findings), total=len(CHECKS), note=counted(client.requests, "request"))
    _report(console, findings)
    _summarise(console, findings, client)
    return ExitCode.RECORDS_REFUSED if _broken(findings) else ExitCode.DONE


def _address(text: str) -> str:
    parts = urlsplit(text)
    if parts.scheme not in {"http", "https"} or not parts.hostname:
        raise UsageError(
            f"{text!r} is not a valid address; write it as http://host/path or https://host/path"
        )
    return text


def _broken(findings: Sequence[Finding]) -> list[Finding]:
    return [
        finding
        for finding in findings
        if finding.result is CheckResult.FAILED and finding.check.severity is Severity.MUST
    ]


def _report(console: Console, findings: Sequence[Finding]) -> None:
    console.table([finding.as_row() for finding in findings], _COLUMNS, empty="no checks")
    if console.as_json:
        return
    for finding in findings:
        if finding.result is CheckResult.FAILED:
            console.result(finding.as_row(), _described(finding))
        elif finding.result is CheckResult.NOT_DONE:
            console.note(f"{finding.check.id} could not be run: {finding.came}")


def _described(finding: Finding) -> str:
    check = finding.check
    return "\n".join(
        (
            "",
            f"{check.id} ({check.severity}, section {check.section}): {check.title}",
            f"  sent      {finding.sent}",
            f"  received  {finding.came}",
            f"  expected  {finding.expected}",
            f"  advice    {check.advice}",
        )
    )


def _summarise(console: Console, findings: Sequence[Finding], client: CheckClient) -> None:
    counts = Counter(finding.result for finding in findings)
    parts = ", ".join(f"{counts[result]} {result}" for result in CheckResult if counts[result])
    console.note(
        f"{client.url}: {counted(len(findings), 'check')} with {counted(client.requests, 'request')}: {parts}"
    )

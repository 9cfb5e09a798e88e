"""A check as data, and what became of it."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any

from oai.errors import RemoteError
from provider.checking.replies import Reply
from provider.checking.survey import CannotBeDoneError, NotApplicableError, Survey


class Severity(StrEnum):
    """How much it matters."""

    MUST = "must"
    """The specification demands it; harvesters break without it."""
    SHOULD = "should"
    """The specification or its guidelines advise it."""
    INFO = "info"
    """Worth knowing."""


class CheckResult(StrEnum):
    """What became of a check."""

    PASSED = "passed"
    FAILED = "failed"
    NOT_APPLICABLE = "not applicable"
    NOT_DONE = "could not be done"


@dataclass(frozen=True, kw_only=True)
class Verdict:
    """What a check saw."""

    passed: bool
    expected: str
    sent: str = ""
    came: str = ""


Look = Callable[[Survey], Verdict]


@dataclass(frozen=True, kw_only=True)
class Check:
    """One thing that is held against the specification."""

    id: str
    title: str
    section: str
    """Of the specification (or `guidelines`)."""
    severity: Severity
    advice: str
    """What to do where it fails, in plain words."""
    look: Look


@dataclass(frozen=True, kw_only=True)
class Finding:
    """A check with its result."""

    check: Check
    result: CheckResult
    sent: str = ""
    came: str = ""
    """What came, or why the check was not made."""
    expected: str = ""

    def as_row(self) -> dict[str, Any]:
        """For tables and JSON."""
        return {
            "id": self.check.id,
            "title": self.check.title,
            "section": self.check.section,
            "severity": str(self.check.severity),
            "result": str(self.result),
            "sent": self.sent,
            "came": self.came,
            "expected": self.expected,
            "advice": self.check.advice if self.result is CheckResult.FAILED else "",
        }


@dataclass(kw_only=True)
class Checklist:
    """The checks of one subject; `add` makes a function one of them."""

    subject: str
    checks: list[Check] = field(default_factory=list)

    def add(
        self, name: str, title: str, *, section: str, advice: str, severity: Severity = Severity.MUST
    ) -> Callable[[Look], Look]:
        """Take the function that follows as the check `subject.name`."""

        def take(look: Look) -> Look:
            self.checks.append(
                Check(
                    id=f"{self.subject}.{name}",
                    title=title,
                    section=section,
                    severity=severity,
                    advice=advice,
                    look=look,
                )
            )
            return look

        return take


def verdict(passed: object, reply: Reply, *, expected: str, came: str | None = None) -> Verdict:
    """A verdict on one answer; `came` is its excerpt where nothing better is said."""
    return Verdict(
        passed=bool(passed),
        sent=str(reply.sent),
        came=reply.excerpt if came is None else came,
        expected=expected,
    )


def run_checks(survey: Survey, checks: Sequence[Check]) -> Iterator[Finding]:
    """Make the checks, one after the other, and give a finding for each.

    Raises UnreachableError when not even Identify is answered; a later silence is a finding.
    """
    survey.begin()
    for check in checks:
        yield _finding(survey, check)


def _finding(survey: Survey, check: Check) -> Finding:
    try:
        seen = check.look(survey)
    except NotApplicableError as error:
        return Finding(check=check, result=CheckResult.NOT_APPLICABLE, came=str(error))
    except (CannotBeDoneError, RemoteError) as error:
        return Finding(check=check, result=CheckResult.NOT_DONE, came=str(error))
    result = CheckResult.PASSED if seen.passed else CheckResult.FAILED
    return Finding(check=check, result=result, sent=seen.sent, came=seen.came, expected=seen.expected)

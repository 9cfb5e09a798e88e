"""Checks as data, and their results."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any, Final

from oai.errors import RemoteError
from provider.checking.replies import Reply
from provider.checking.survey import CannotBeDoneError, NotApplicableError, Survey


class Severity(StrEnum):
    """The severity of a failed check."""

    MUST = "must"
    """The specification requires it; harvesters fail without it."""
    SHOULD = "should"
    """The specification or its guidelines recommend it."""
    INFO = "info"
    """For information."""


class CheckResult(StrEnum):
    """The result of a check."""

    PASSED = "passed"
    FAILED = "failed"
    NOT_APPLICABLE = "not applicable"
    NOT_DONE = "could not be done"


@dataclass(frozen=True, kw_only=True)
class Verdict:
    """What a check observed."""

    passed: bool
    expected: str
    sent: str = ""
    came: str = ""


Look = Callable[[Survey], Verdict]

_LONGEST: Final = 4000
"""Characters of an answer or a request in a finding."""


@dataclass(frozen=True, kw_only=True)
class Check:
    """One requirement of the specification to check."""

    id: str
    title: str
    section: str
    """Section of the specification (or `guidelines`)."""
    severity: Severity
    advice: str
    """What to do if it fails, in plain language."""
    look: Look


@dataclass(frozen=True, kw_only=True)
class Finding:
    """A check with its result."""

    check: Check
    result: CheckResult
    sent: str = ""
    came: str = ""
    """The answer, or why the check was not made."""
    expected: str = ""

    def as_row(self) -> dict[str, Any]:
        """Return the finding as a row for tables and JSON."""
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
    """The checks of one subject; `add` registers a function as one of them."""

    subject: str
    checks: list[Check] = field(default_factory=list)

    def add(
        self, name: str, title: str, *, section: str, advice: str, severity: Severity = Severity.MUST
    ) -> Callable[[Look], Look]:
        """Register the decorated function as the check `subject.name`."""

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
    """Return a verdict on one answer; `came` defaults to the answer's excerpt."""
    return Verdict(
        passed=bool(passed),
        sent=str(reply.sent),
        came=reply.excerpt if came is None else came,
        expected=expected,
    )


def run_checks(survey: Survey, checks: Sequence[Check]) -> Iterator[Finding]:
    """Run the checks one after the other, and yield a finding for each.

    Raises UnreachableError if not even Identify is answered; a later lack of answers is a finding.
    """
    survey.begin()
    for check in checks:
        yield _finding(survey, check)


def _finding(survey: Survey, check: Check) -> Finding:
    try:
        seen = check.look(survey)
    except NotApplicableError as error:
        return Finding(check=check, result=CheckResult.NOT_APPLICABLE, came=str(error)[:_LONGEST])
    except (CannotBeDoneError, RemoteError) as error:
        return Finding(check=check, result=CheckResult.NOT_DONE, came=str(error)[:_LONGEST])
    result = CheckResult.PASSED if seen.passed else CheckResult.FAILED
    return Finding(
        check=check,
        result=result,
        sent=seen.sent[:_LONGEST],
        came=seen.came[:_LONGEST],
        expected=seen.expected[:_LONGEST],
    )

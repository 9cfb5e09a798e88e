"""A request that is to be refused: asks it, and holds the answer to the codes of which one is right."""

from dataclasses import dataclass

from oai.vocabulary import ErrorCode, Granularity
from provider.checking.facts import NotApplicableError
from provider.checking.findings import Check, Look, Severity, Verdict, verdict
from provider.checking.survey import Survey


@dataclass(frozen=True, kw_only=True)
class Refusal:
    """A request (a query template) and the codes of which one is right."""

    name: str
    title: str
    query: str
    codes: frozenset[ErrorCode]
    section: str
    severity: Severity
    only: Granularity | None
    """Asked only of repositories of this granularity."""

    def check(self) -> Check:
        """The check that makes the request."""
        codes = " or ".join(sorted(self.codes))
        return Check(
            id=f"error.{self.name}",
            title=f"{self.title}: {codes}",
            section=self.section,
            severity=self.severity,
            advice=f"Answer such a request with only an error element with the code {codes}.",
            look=self._look(codes),
        )

    def _look(self, codes: str) -> Look:
        def look(survey: Survey) -> Verdict:
            if self.only is not None and survey.granularity is not self.only:
                raise NotApplicableError(f"the granularity is not {self.only}")
            reply = survey.ask(self.query)
            return verdict(self.codes.intersection(reply.codes), reply, expected=f"error {codes}")

        return look


def refusal(
    name: str,
    title: str,
    query: str,
    codes: frozenset[ErrorCode],
    section: str = "3.6",
    *,
    severity: Severity = Severity.MUST,
    only: Granularity | None = None,
) -> Refusal:
    """A row of the table, with what most rows have in common left out."""
    return Refusal(
        name=name, title=title, query=query, codes=codes, section=section, severity=severity, only=only
    )

"""Requests that must be refused, and the error codes for each (section 3.6)."""

from dataclasses import KW_ONLY, dataclass
from typing import Final

from oai.vocabulary import ErrorCode, Granularity
from provider.checking.findings import Check, Look, Severity, Verdict, verdict
from provider.checking.survey import NotApplicableError, Survey


@dataclass(frozen=True)
class Refusal:
    """A request (a query template) and the acceptable error codes."""

    name: str
    title: str
    query: str
    codes: frozenset[ErrorCode]
    section: str = "3.6"
    _: KW_ONLY
    severity: Severity = Severity.MUST
    only: Granularity | None = None
    """Sent only to repositories with this granularity."""

    def check(self) -> Check:
        """Return the check that sends the request."""
        codes = " or ".join(sorted(self.codes))
        return Check(
            id=f"error.{self.name}",
            title=f"{self.title}: {codes}",
            section=self.section,
            severity=self.severity,
            advice="Answer such a request with only an error element with that code.",
            look=self._look(codes),
        )

    def _look(self, codes: str) -> Look:
        def look(survey: Survey) -> Verdict:
            if self.only is not None and survey.granularity is not self.only:
                raise NotApplicableError(f"the granularity is not {self.only}")
            reply = survey.ask(self.query)
            return verdict(self.codes.intersection(reply.codes), reply, expected=f"error {codes}")

        return look


_BAD_VERB: Final = frozenset({ErrorCode.BAD_VERB})
_BAD_ARGUMENT: Final = frozenset({ErrorCode.BAD_ARGUMENT})
_NO_MATCH: Final = frozenset({ErrorCode.NO_RECORDS_MATCH})
_NO_FORMAT: Final = frozenset({ErrorCode.CANNOT_DISSEMINATE_FORMAT})
_NO_ID: Final = frozenset({ErrorCode.ID_DOES_NOT_EXIST})
_BAD_TOKEN: Final = frozenset({ErrorCode.BAD_RESUMPTION_TOKEN})
_NO_SETS: Final = frozenset({ErrorCode.NO_SET_HIERARCHY})

_GET: Final = "verb=GetRecord&metadataPrefix={prefix}&identifier="
_RECORDS: Final = "verb=ListRecords&metadataPrefix={prefix}"
_HEADERS: Final = "verb=ListIdentifiers&metadataPrefix={prefix}"
_NO_ITEM: Final = "oai%3Anobody.example%3Athere-is-no-such-item"
_NO_TOKEN: Final = "&resumptionToken=nobody-gave-this-out"  # noqa: S105 not a password


REFUSALS: Final = (
    Refusal("verb-missing", "No verb", "metadataPrefix=oai_dc", _BAD_VERB),
    Refusal("verb-unknown", "An unknown verb", "verb=Nonsense", _BAD_VERB),
    Refusal("verb-empty", "An empty verb", "verb=", _BAD_VERB),
    Refusal("verb-case", "A verb in small letters", "verb=identify", _BAD_VERB),
    Refusal("verb-repeated", "The verb twice", "verb=Identify&verb=Identify", _BAD_VERB),
    Refusal(
        "identify-argument",
        "Identify with an argument of another verb",
        "verb=Identify&metadataPrefix={prefix}",
        _BAD_ARGUMENT,
        "4.2",
    ),
    Refusal(
        "formats-argument",
        "ListMetadataFormats with an unknown argument",
        "verb=ListMetadataFormats&nonsense=1",
        _BAD_ARGUMENT,
        "4.4",
    ),
    Refusal(
        "sets-argument",
        "ListSets with an unknown argument",
        "verb=ListSets&nonsense=1",
        _BAD_ARGUMENT | _NO_SETS,
        "4.6",
    ),
    Refusal(
        "records-argument",
        "ListRecords with an unknown argument",
        f"{_RECORDS}&nonsense=1",
        _BAD_ARGUMENT,
        "4.5",
    ),
    Refusal(
        "headers-argument",
        "ListIdentifiers with an argument of GetRecord",
        f"{_HEADERS}&identifier={{identifier}}",
        _BAD_ARGUMENT,
        "4.3",
    ),
    Refusal(
        "get-argument",
        "GetRecord with an argument of lists",
        f"{_GET}{{identifier}}&until={{moment}}",
        _BAD_ARGUMENT,
        "4.1",
    ),
    Refusal(
        "argument-repeated", "metadataPrefix twice", f"{_RECORDS}&metadataPrefix={{prefix}}", _BAD_ARGUMENT
    ),
    Refusal(
        "records-prefix-missing",
        "ListRecords without metadataPrefix",
        "verb=ListRecords",
        _BAD_ARGUMENT,
        "4.5",
    ),
    Refusal(
        "headers-prefix-missing",
        "ListIdentifiers without metadataPrefix",
        "verb=ListIdentifiers",
        _BAD_ARGUMENT,
        "4.3",
    ),
    Refusal(
        "get-prefix-missing",
        "GetRecord without metadataPrefix",
        "verb=GetRecord&identifier={identifier}",
        _BAD_ARGUMENT,
        "4.1",
    ),
    Refusal(
        "get-identifier-missing",
        "GetRecord without identifier",
        "verb=GetRecord&metadataPrefix={prefix}",
        _BAD_ARGUMENT,
        "4.1",
    ),
    Refusal(
        "prefix-empty",
        "An empty metadataPrefix",
        "verb=ListRecords&metadataPrefix=",
        _BAD_ARGUMENT | _NO_FORMAT,
    ),
    Refusal("identifier-empty", "An empty identifier", _GET, _BAD_ARGUMENT | _NO_ID),
    Refusal(
        "date-empty", "An empty from", f"{_HEADERS}&from=", _BAD_ARGUMENT, "3.3", severity=Severity.SHOULD
    ),
    Refusal("date-nonsense", "A from that is not a date", f"{_HEADERS}&from=yesterday", _BAD_ARGUMENT, "3.3"),
    Refusal("date-impossible", "The 30th of February", f"{_HEADERS}&from=2020-02-30", _BAD_ARGUMENT, "3.3"),
    Refusal("date-month", "A thirteenth month", f"{_HEADERS}&until=2020-13-01", _BAD_ARGUMENT, "3.3"),
    Refusal(
        "date-digits",
        "A date with a one-digit month",
        f"{_HEADERS}&from=2020-1-01",
        _BAD_ARGUMENT,
        "3.3",
        severity=Severity.SHOULD,
    ),
    Refusal(
        "date-offset",
        "A time with an offset",
        f"{_HEADERS}&from=2020-01-01T00%3A00%3A00%2B01%3A00",
        _BAD_ARGUMENT,
        "3.3",
        severity=Severity.SHOULD,
    ),
    Refusal(
        "date-fraction",
        "A time with a fraction of a second",
        f"{_HEADERS}&from=2020-01-01T00%3A00%3A00.000Z",
        _BAD_ARGUMENT,
        "3.3",
        severity=Severity.SHOULD,
    ),
    Refusal(
        "date-mixed",
        "from and until of different granularity",
        f"{_HEADERS}&from=2020-01-01&until=2030-01-01T00%3A00%3A00Z",
        _BAD_ARGUMENT,
        "2.7.1",
    ),
    Refusal(
        "date-finer",
        "A finer granularity than the repository supports",
        f"{_HEADERS}&from=2020-01-01T00%3A00%3A00Z",
        _BAD_ARGUMENT,
        "2.7.1",
        only=Granularity.DAY,
    ),
    Refusal(
        "date-order",
        "from later than until",
        f"{_HEADERS}&from={{later}}&until={{moment}}",
        _BAD_ARGUMENT,
        "2.7.1",
    ),
    Refusal(
        "before-earliest",
        "until before earliestDatestamp",
        f"{_HEADERS}&until={{before}}",
        _NO_MATCH | _BAD_ARGUMENT,
        "2.7.1",
    ),
    Refusal("future", "A window in the far future", f"{_HEADERS}&from={{far}}", _NO_MATCH, "2.7.1"),
    Refusal(
        "set-unknown",
        "A set that does not exist",
        f"{_HEADERS}&set=zzz-there-is-no-such-set",
        _NO_MATCH | _BAD_ARGUMENT | _NO_SETS,
        "2.7.2",
    ),
    Refusal(
        "set-malformed",
        "A set with characters that are not allowed in a setSpec",
        f"{_HEADERS}&set=%3Cnone%3E%20at%20all",
        _NO_MATCH | _BAD_ARGUMENT | _NO_SETS,
        "2.6",
    ),
    Refusal(
        "records-format",
        "ListRecords in an unknown format",
        "verb=ListRecords&metadataPrefix=no_such_format",
        _NO_FORMAT,
        "4.5",
    ),
    Refusal(
        "headers-format",
        "ListIdentifiers in an unknown format",
        "verb=ListIdentifiers&metadataPrefix=no_such_format",
        _NO_FORMAT,
        "4.3",
    ),
    Refusal(
        "get-format",
        "GetRecord in an unknown format",
        "verb=GetRecord&metadataPrefix=no_such_format&identifier={identifier}",
        _NO_FORMAT,
        "4.1",
    ),
    Refusal("get-unknown", "GetRecord for an unknown identifier", f"{_GET}{_NO_ITEM}", _NO_ID, "4.1"),
    Refusal(
        "get-malformed",
        "GetRecord with a malformed identifier",
        f"{_GET}no%20identifier%3C%3E",
        _NO_ID | _BAD_ARGUMENT,
        "4.1",
    ),
    Refusal(
        "formats-unknown",
        "ListMetadataFormats for an unknown identifier",
        f"verb=ListMetadataFormats&identifier={_NO_ITEM}",
        _NO_ID,
        "4.4",
    ),
    Refusal(
        "records-token",
        "ListRecords with an invalid token",
        f"verb=ListRecords{_NO_TOKEN}",
        _BAD_TOKEN,
        "3.5",
    ),
    Refusal(
        "headers-token",
        "ListIdentifiers with an invalid token",
        f"verb=ListIdentifiers{_NO_TOKEN}",
        _BAD_TOKEN,
        "3.5",
    ),
    Refusal(
        "sets-token",
        "ListSets with an invalid token",
        f"verb=ListSets{_NO_TOKEN}",
        _BAD_TOKEN | _NO_SETS,
        "4.6",
    ),
    Refusal(
        "token-empty",
        "An empty resumptionToken",
        "verb=ListRecords&resumptionToken=",
        _BAD_TOKEN | _BAD_ARGUMENT,
        "3.5",
        severity=Severity.SHOULD,
    ),
    Refusal(
        "token-altered",
        "A token with one character changed",
        "verb=ListRecords&resumptionToken={altered}",
        _BAD_TOKEN,
        "3.5",
        severity=Severity.SHOULD,
    ),
    Refusal(
        "token-exclusive",
        "A token together with another argument",
        "verb=ListRecords&resumptionToken={token}&metadataPrefix={prefix}",
        _BAD_ARGUMENT,
        "3.5",
    ),
    Refusal(
        "control-character", "A NUL character in an argument", f"{_GET}oai%3Aa%00b", _BAD_ARGUMENT | _NO_ID
    ),
    Refusal("not-utf-8", "An argument that is not UTF-8", f"{_GET}oai%3Aa%FFb", _BAD_ARGUMENT | _NO_ID),
)

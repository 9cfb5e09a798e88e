"""The provider's description of itself (specification, section 4.2)."""

import re
from typing import Final

from oai.datestamps import parse_datestamp
from oai.vocabulary import OAI_IDENTIFIER_NAMESPACE, PROTOCOL_VERSION, DeletedRecord, Granularity
from provider.checking.findings import Checklist, Severity, Verdict, verdict
from provider.checking.replies import OAI, SCHEMA_LOCATION
from provider.checking.survey import NotApplicableError, Survey

LIST: Final = Checklist(subject="identify")

_ONCE: Final = (
    "repositoryName", "baseURL", "protocolVersion", "earliestDatestamp", "deletedRecord", "granularity"
)  # fmt: skip
_EMAIL: Final = re.compile(r"[^@\s]+@[^@\s.]+(\.[^@\s.]+)+")
_CODINGS: Final = frozenset({"gzip", "compress", "deflate"})
_SCHEME: Final = f"{{{OAI_IDENTIFIER_NAMESPACE}}}"


@LIST.add(
    "elements",
    "Every required element is present once and not empty",
    section="4.2",
    advice="Include each of these elements exactly once in Identify, and adminEmail at least once.",
)
def _elements(survey: Survey) -> Verdict:
    wrong = [name for name in _ONCE if not _is_once(survey.identify.texts(name))]
    if not all(survey.identify.texts("adminEmail") or [""]):
        wrong.append("adminEmail")
    return verdict(
        not wrong,
        survey.identify,
        expected=f"{', '.join(_ONCE)} once each, adminEmail",
        came=f"missing, empty or repeated: {', '.join(wrong)}" if wrong else "all",
    )


def _is_once(texts: list[str]) -> bool:
    return len(texts) == 1 and bool(texts[0])


@LIST.add(
    "protocol-version",
    "protocolVersion is 2.0",
    section="4.2",
    advice="Write exactly 2.0; harvesters check it.",
)
def _protocol_version(survey: Survey) -> Verdict:
    return _declares(survey, "protocolVersion", PROTOCOL_VERSION)


@LIST.add(
    "base-url",
    "baseURL is the address that was requested",
    section="4.2",
    advice="Set baseURL to the public address, also behind a proxy: harvesters store it.",
)
def _base_url(survey: Survey) -> Verdict:
    return _declares(survey, "baseURL", survey.client.url)


@LIST.add(
    "request-url",
    "The request element of every answer contains the baseURL",
    section="3.2",
    advice="Write the same baseURL into `request` as into Identify.",
)
def _request_url(survey: Survey) -> Verdict:
    base_url = survey.identified("baseURL")
    for reply in survey.client.replies:
        named = (reply.request.text or "").strip() if reply.request is not None else base_url
        if named != base_url:
            return verdict(passed=False, reply=reply, expected=base_url, came=named)
    return verdict(passed=True, reply=survey.identify, expected=base_url, came=base_url)


@LIST.add(
    "emails",
    "Every adminEmail is a valid mail address",
    section="4.2",
    advice="Give an address that is read, such as oai@library.example.",
)
def _emails(survey: Survey) -> Verdict:
    wrong = [address for address in survey.identify.texts("adminEmail") if not _EMAIL.fullmatch(address)]
    return verdict(not wrong, survey.identify, expected="name@host.domain", came=", ".join(wrong) or "so")


@LIST.add(
    "granularity",
    "granularity is one of the two allowed values",
    section="4.2",
    advice=f"Write exactly {Granularity.SECOND} or {Granularity.DAY}.",
)
def _granularity(survey: Survey) -> Verdict:
    declared = survey.identified("granularity")
    return verdict(
        declared in set(Granularity), survey.identify, expected=" or ".join(Granularity), came=declared
    )


@LIST.add(
    "deleted-record",
    "deletedRecord is one of the three allowed values",
    section="2.5.1",
    advice="Write no, transient or persistent.",
)
def _deleted_record(survey: Survey) -> Verdict:
    declared = survey.identified("deletedRecord")
    return verdict(
        declared in set(DeletedRecord), survey.identify, expected=" or ".join(DeletedRecord), came=declared
    )


@LIST.add(
    "earliest-form",
    "earliestDatestamp has the declared granularity",
    section="4.2",
    advice="Write earliestDatestamp in UTC, in the declared granularity.",
)
def _earliest_form(survey: Survey) -> Verdict:
    declared = survey.identified("earliestDatestamp")
    try:
        fits = parse_datestamp(declared).granularity is survey.granularity
    except ValueError:
        fits = False
    return verdict(fits, survey.identify, expected=survey.granularity, came=declared)


@LIST.add(
    "earliest-listed",
    "No record found is older than earliestDatestamp",
    section="4.2",
    advice="Set earliestDatestamp to a lower bound of all datestamps.",
)
def _earliest_listed(survey: Survey) -> Verdict:
    declared = survey.identified("earliestDatestamp")
    early = [
        header for header in survey.records.headers if header.datestamp < declared[: len(header.datestamp)]
    ]
    came = f"{early[0].identifier} of {early[0].datestamp}" if early else survey.records.described()
    return verdict(not early, survey.records.pages[0], expected=f"{declared} or later", came=came)


@LIST.add(
    "earliest-asked",
    "A request for records older than earliestDatestamp returns no records",
    section="4.2",
    advice="Set earliestDatestamp to a lower bound of all datestamps.",
)
def _earliest_asked(survey: Survey) -> Verdict:
    reply = survey.ask("verb=ListIdentifiers&metadataPrefix={prefix}&until={before}")
    return verdict(not reply.headers, reply, expected="no headers")


@LIST.add(
    "compression",
    "compression names HTTP codings other than `identity`",
    section="4.2",
    severity=Severity.SHOULD,
    advice="Name gzip, compress or deflate; do not list `identity`, which is always supported.",
)
def _compression(survey: Survey) -> Verdict:
    declared = survey.identify.texts("compression")
    if not declared:
        raise NotApplicableError("Identify does not declare compression")
    wrong = [coding for coding in declared if coding not in _CODINGS]
    return verdict(not wrong, survey.identify, expected=", ".join(sorted(_CODINGS)), came=", ".join(declared))


@LIST.add(
    "descriptions",
    "Each description names its schema",
    section="4.2",
    severity=Severity.SHOULD,
    advice="Give the root element of each description an xsi:schemaLocation.",
)
def _descriptions(survey: Survey) -> Verdict:
    root = survey.identify.root
    parts = [] if root is None else [part for found in root.iter(f"{OAI}description") for part in found]
    if not parts:
        raise NotApplicableError("Identify has no descriptions")
    silent = [str(part.tag) for part in parts if SCHEMA_LOCATION not in part.attrib]
    return verdict(
        not silent,
        survey.identify,
        expected="xsi:schemaLocation",
        came=f"without xsi:schemaLocation: {silent}" if silent else "so",
    )


@LIST.add(
    "oai-identifier",
    "Identifiers match the oai-identifier description",
    section="guidelines, oai-identifier",
    advice="Begin identifiers with oai: and the repositoryIdentifier from the description.",
)
def _oai_identifier(survey: Survey) -> Verdict:
    root = survey.identify.root
    namespace = None if root is None else root.findtext(f".//{_SCHEME}repositoryIdentifier")
    sample = None if root is None else root.findtext(f".//{_SCHEME}sampleIdentifier")
    if namespace is None:
        raise NotApplicableError("Identify has no oai-identifier description")
    identifiers = [sample or "", *survey.records.identifiers]
    wrong = [identifier for identifier in identifiers if not identifier.startswith(f"oai:{namespace}:")]
    return verdict(
        not wrong, survey.identify, expected=f"oai:{namespace}:…", came=wrong[0] if wrong else "so"
    )


def _declares(survey: Survey, name: str, expected: str) -> Verdict:
    declared = survey.identified(name)
    return verdict(declared == expected, survey.identify, expected=expected, came=declared)

"""The vocabulary of OAI-PMH 2.0 as data: verbs with their arguments and errors, codes, namespaces.

Source: The Open Archives Initiative Protocol for Metadata Harvesting, version 2.0, sections 2 to 4.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum

PROTOCOL_VERSION = "2.0"

OAI_NAMESPACE = "http://www.openarchives.org/OAI/2.0/"
OAI_SCHEMA = "http://www.openarchives.org/OAI/2.0/OAI-PMH.xsd"
OAI_DC_NAMESPACE = "http://www.openarchives.org/OAI/2.0/oai_dc/"
OAI_DC_SCHEMA = "http://www.openarchives.org/OAI/2.0/oai_dc.xsd"
DC_NAMESPACE = "http://purl.org/dc/elements/1.1/"
XSI_NAMESPACE = "http://www.w3.org/2001/XMLSchema-instance"
OAI_IDENTIFIER_NAMESPACE = "http://www.openarchives.org/OAI/2.0/oai-identifier"
REPAIRED_NAMESPACE = "urn:zatva:repaired:1"
"""Of the element that names the repairs of a record, in an `about` container."""
OAI_IDENTIFIER_SCHEMA = "http://www.openarchives.org/OAI/2.0/oai-identifier.xsd"


class ErrorCode(StrEnum):
    """The error and exception conditions of section 3.6."""

    BAD_ARGUMENT = "badArgument"
    BAD_RESUMPTION_TOKEN = "badResumptionToken"  # noqa: S105 a protocol word, not a password
    BAD_VERB = "badVerb"
    CANNOT_DISSEMINATE_FORMAT = "cannotDisseminateFormat"
    ID_DOES_NOT_EXIST = "idDoesNotExist"
    NO_RECORDS_MATCH = "noRecordsMatch"
    NO_METADATA_FORMATS = "noMetadataFormats"
    NO_SET_HIERARCHY = "noSetHierarchy"


class Verb(StrEnum):
    """The six requests of section 4."""

    GET_RECORD = "GetRecord"
    IDENTIFY = "Identify"
    LIST_IDENTIFIERS = "ListIdentifiers"
    LIST_METADATA_FORMATS = "ListMetadataFormats"
    LIST_RECORDS = "ListRecords"
    LIST_SETS = "ListSets"


class Granularity(StrEnum):
    """The two granularities of section 3.3.1, written as in Identify."""

    DAY = "YYYY-MM-DD"
    SECOND = "YYYY-MM-DDThh:mm:ssZ"


class DeletedRecord(StrEnum):
    """How a repository records deletions (section 2.5.1)."""

    NO = "no"
    PERSISTENT = "persistent"
    TRANSIENT = "transient"


def reports_deletions(deleted_record: str | None) -> bool:
    """Return whether a repository with this `deletedRecord` in Identify reports each deletion, and keeps it.

    Whatever is not `persistent` promises nothing; some repositories leave it out, or send words of their own.
    """
    return (deleted_record or "").strip().lower() == DeletedRecord.PERSISTENT


@dataclass(frozen=True, kw_only=True)
class VerbRule:
    """Arguments that a verb takes, and errors that it may return besides badVerb."""

    required: frozenset[str] = frozenset()
    optional: frozenset[str] = frozenset()
    exclusive: str | None = None
    errors: frozenset[ErrorCode] = frozenset({ErrorCode.BAD_ARGUMENT})

    @property
    def allowed(self) -> frozenset[str]:
        """Every argument of the verb, including the exclusive one, without `verb` itself."""
        return (
            self.required | self.optional | (frozenset({self.exclusive}) if self.exclusive else frozenset())
        )


_LIST_ERRORS = frozenset(
    {
        ErrorCode.BAD_ARGUMENT,
        ErrorCode.BAD_RESUMPTION_TOKEN,
        ErrorCode.CANNOT_DISSEMINATE_FORMAT,
        ErrorCode.NO_RECORDS_MATCH,
        ErrorCode.NO_SET_HIERARCHY,
    }
)

_LIST_RULE = VerbRule(
    required=frozenset({"metadataPrefix"}),
    optional=frozenset({"from", "until", "set"}),
    exclusive="resumptionToken",
    errors=_LIST_ERRORS,
)

RULES: Mapping[Verb, VerbRule] = {
    Verb.GET_RECORD: VerbRule(
        required=frozenset({"identifier", "metadataPrefix"}),
        errors=frozenset(
            {ErrorCode.BAD_ARGUMENT, ErrorCode.CANNOT_DISSEMINATE_FORMAT, ErrorCode.ID_DOES_NOT_EXIST}
        ),
    ),
    Verb.IDENTIFY: VerbRule(),
    Verb.LIST_IDENTIFIERS: _LIST_RULE,
    Verb.LIST_METADATA_FORMATS: VerbRule(
        optional=frozenset({"identifier"}),
        errors=frozenset(
            {ErrorCode.BAD_ARGUMENT, ErrorCode.ID_DOES_NOT_EXIST, ErrorCode.NO_METADATA_FORMATS}
        ),
    ),
    Verb.LIST_RECORDS: _LIST_RULE,
    Verb.LIST_SETS: VerbRule(
        exclusive="resumptionToken",
        errors=frozenset(
            {ErrorCode.BAD_ARGUMENT, ErrorCode.BAD_RESUMPTION_TOKEN, ErrorCode.NO_SET_HIERARCHY}
        ),
    ),
}
"""Arguments and errors of each verb (sections 4.1 to 4.6)."""

LIST_VERBS: frozenset[Verb] = frozenset(
    verb for verb, rule in RULES.items() if rule.exclusive == "resumptionToken"
)
"""The verbs whose answers may be pages of a list."""

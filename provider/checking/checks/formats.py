"""Metadata formats (specification, sections 3.4 and 4.4)."""

import re
from collections import Counter
from typing import Final

from lxml import etree

from oai.vocabulary import OAI_DC_NAMESPACE, OAI_DC_SCHEMA, ErrorCode
from provider.checking.findings import Checklist, Severity, Verdict, verdict
from provider.checking.replies import SCHEMA_LOCATION, Reply
from provider.checking.survey import CannotBeDoneError, NotApplicableError, Survey

LIST: Final = Checklist(subject="formats")

_FORMATS: Final = "verb=ListMetadataFormats"
_PREFIX: Final = re.compile(r"[A-Za-z0-9\-_.!~*'()]+")
_MOST: Final = 8
"""Maximum number of formats that are tested."""


@LIST.add(
    "oai-dc",
    "oai_dc is offered",
    section="2.5",
    advice="Offer all records as oai_dc, which is required.",
)
def _oai_dc(survey: Survey) -> Verdict:
    prefixes = [offered.prefix for offered in survey.formats]
    return verdict("oai_dc" in prefixes, survey.ask(_FORMATS), expected="oai_dc", came=", ".join(prefixes))


@LIST.add(
    "oai-dc-namespace",
    "oai_dc has the standard namespace and schema",
    section="4.4",
    advice=f"Declare exactly {OAI_DC_NAMESPACE} {OAI_DC_SCHEMA}.",
)
def _oai_dc_namespace(survey: Survey) -> Verdict:
    declared = [f"{known.namespace} {known.schema}" for known in survey.formats if known.prefix == "oai_dc"]
    if not declared:
        raise CannotBeDoneError("oai_dc is not offered")
    expected = f"{OAI_DC_NAMESPACE} {OAI_DC_SCHEMA}"
    # The schema is the same under https.
    same = declared[0].replace("https://www.openarchives.org", "http://www.openarchives.org") == expected
    return verdict(same, survey.ask(_FORMATS), expected=expected, came=declared[0])


@LIST.add(
    "unique",
    "No prefix is listed twice",
    section="3.4",
    advice="Let each prefix stand for exactly one format.",
)
def _unique(survey: Survey) -> Verdict:
    twice = [prefix for prefix, count in _counts(survey).items() if count > 1]
    return verdict(
        not twice, survey.ask(_FORMATS), expected="each prefix once", came=", ".join(twice) or "so"
    )


@LIST.add(
    "prefixes",
    "Prefixes have only allowed characters",
    section="3.4",
    advice="Use only letters, digits and -_.!~*'() in prefixes.",
)
def _prefixes(survey: Survey) -> Verdict:
    wrong = [prefix for prefix in _counts(survey) if not _PREFIX.fullmatch(prefix)]
    return verdict(
        not wrong and survey.formats, survey.ask(_FORMATS), expected="URL-safe", came=", ".join(wrong) or "so"
    )


def _counts(survey: Survey) -> Counter[str]:
    return Counter(offered.prefix for offered in survey.formats)


@LIST.add(
    "of-item",
    "ListMetadataFormats for an item lists the format in which the item was listed",
    section="4.4",
    advice="List the formats of the item itself; a record that was listed in a format has that format.",
)
def _of_item(survey: Survey) -> Verdict:
    if survey.sample.deleted:
        raise NotApplicableError("only deleted records were found")
    reply = survey.ask("verb=ListMetadataFormats&identifier={identifier}")
    return verdict(
        survey.prefix in reply.texts("metadataPrefix"), reply, expected=f"{survey.prefix} among the formats"
    )


@LIST.add(
    "namespaces",
    "Records have the namespace that is declared for their format",
    section="3.4",
    advice="Put the root element of the metadata into the namespace that ListMetadataFormats declares.",
)
def _namespaces(survey: Survey) -> Verdict:
    last: Reply | None = None
    for offered in survey.formats[:_MOST]:
        reply = _record(survey, offered.prefix)
        spaces = [etree.QName(element).namespace for element in _metadata(reply)]
        if spaces and spaces != [offered.namespace]:
            came = f"{offered.prefix}: {spaces}"
            return verdict(passed=False, reply=reply, expected=offered.namespace, came=came)
        last = reply if spaces else last
    if last is None:
        raise CannotBeDoneError("no record with metadata was found in any format")
    tried = ", ".join(offered.prefix for offered in survey.formats[:_MOST])
    return verdict(passed=True, reply=last, expected="a different namespace for each format", came=tried)


@LIST.add(
    "gettable",
    "GetRecord returns a record or an error in every format offered",
    section="4.1",
    advice="Return the record, or cannotDisseminateFormat if the item is not available in the format.",
)
def _gettable(survey: Survey) -> Verdict:
    for offered in survey.formats[:_MOST]:
        reply = _record(survey, offered.prefix)
        if not any(reply.records) and ErrorCode.CANNOT_DISSEMINATE_FORMAT not in reply.codes:
            return verdict(
                passed=False,
                reply=reply,
                expected=f"a record in {offered.prefix}, or cannotDisseminateFormat",
            )
    if not survey.formats:
        raise CannotBeDoneError("no formats are listed")
    return verdict(passed=True, reply=survey.ask(_FORMATS), expected="records", came="so")


@LIST.add(
    "schema-location",
    "Metadata name their schema",
    section="3.4",
    severity=Severity.SHOULD,
    advice="Give the root element of the metadata an xsi:schemaLocation with its namespace and schema.",
)
def _schema_location(survey: Survey) -> Verdict:
    reply = _record(survey, survey.prefix)
    found = _metadata(reply)
    if not found:
        raise NotApplicableError("the record has no metadata")
    declared = found[0].get(SCHEMA_LOCATION)
    return verdict(declared, reply, expected="xsi:schemaLocation", came="so" if declared else "none")


def _record(survey: Survey, prefix: str) -> Reply:
    identifier = survey.sample.identifier
    return survey.client.get((("verb", "GetRecord"), ("identifier", identifier), ("metadataPrefix", prefix)))


def _metadata(reply: Reply) -> list[etree._Element]:
    return [
        element
        for record in reply.records
        if record.metadata is not None
        for element in record.metadata.iterchildren("*")
    ]

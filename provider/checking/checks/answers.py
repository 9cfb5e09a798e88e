"""The form of every answer to any request (specification, section 3.2). Runs last."""

import re
from collections.abc import Callable
from datetime import timedelta
from functools import cache
from importlib.resources import files
from typing import Final

from lxml import etree

from oai.datestamps import parse_datestamp, utc_now
from oai.vocabulary import OAI_NAMESPACE, OAI_SCHEMA, ErrorCode, Granularity
from provider.checking.findings import Checklist, Severity, Verdict, verdict
from provider.checking.replies import SCHEMA_LOCATION, Reply
from provider.checking.survey import CannotBeDoneError, Survey

LIST: Final = Checklist(subject="answers")

_GRAMMAR: Final = "oai_pmh.rng"
"""RELAX NG: like OAI-PMH.xsd, with the choices that the specification's text adds."""

_BEGINNING: Final = re.compile(rb"""<\?xml\s+version=["']1\.0["']\s+encoding=["'](?i:utf-8)["']""")
_CLOCKS_APART: Final = timedelta(minutes=10)
REQUEST_LIST: Final = Checklist(subject="request")


@LIST.add(
    "well-formed",
    "Every answer is well-formed XML",
    section="3.2",
    advice="Build answers with an XML library and remove characters that XML 1.0 does not allow.",
)
def _well_formed(survey: Survey) -> Verdict:
    return _each(survey, lambda reply: reply.fault or reply.malformed, "well-formed XML")


@LIST.add(
    "utf-8",
    "Every answer is in UTF-8",
    section="3.2",
    advice="Write answers in UTF-8; check for text that is stored in another encoding.",
)
def _utf_8(survey: Survey) -> Verdict:
    def complaint(reply: Reply) -> str | None:
        try:
            reply.body.decode("utf-8")
        except UnicodeDecodeError as error:
            return str(error)
        return None

    return _each(survey, complaint, "UTF-8")


@LIST.add(
    "declaration",
    "Every answer begins with the XML declaration",
    section="3.2",
    advice='Begin each answer with <?xml version="1.0" encoding="UTF-8"?>; do not write anything before it.',
)
def _declaration(survey: Survey) -> Verdict:
    def complaint(reply: Reply) -> str | None:
        return None if _BEGINNING.match(reply.body) else repr(reply.body[:60])

    return _each(survey, complaint, '<?xml version="1.0" encoding="UTF-8"?>')


@LIST.add(
    "root",
    "The root element is OAI-PMH in its namespace and names the schema",
    section="3.2",
    advice=f"Write OAI-PMH in {OAI_NAMESPACE}, with an xsi:schemaLocation that names {OAI_SCHEMA}.",
)
def _root(survey: Survey) -> Verdict:
    def complaint(reply: Reply) -> str | None:
        if reply.root is None:
            return reply.malformed
        if reply.root.tag != f"{{{OAI_NAMESPACE}}}OAI-PMH":
            return str(reply.root.tag)
        location = reply.root.get(SCHEMA_LOCATION, "").split()
        return None if location[:1] == [OAI_NAMESPACE] and len(location) > 1 else f"schemaLocation {location}"

    return _each(survey, complaint, f"OAI-PMH with {OAI_NAMESPACE} {OAI_SCHEMA}")


@LIST.add(
    "schema",
    "Every answer is valid against the OAI-PMH schema",
    section="3.2",
    advice="Compare the answer with OAI-PMH.xsd: order of elements, required elements, dates and setSpecs.",
)
def _schema(survey: Survey) -> Verdict:
    def complaint(reply: Reply) -> str | None:
        return reply.malformed if reply.root is None else _violation(reply.root)

    return _each(survey, complaint, "valid")


@LIST.add(
    "response-date",
    "responseDate is in UTC, to the second",
    section="3.2",
    advice=f"Write responseDate as {Granularity.SECOND}, regardless of the repository's granularity.",
)
def _response_date(survey: Survey) -> Verdict:
    def complaint(reply: Reply) -> str | None:
        try:
            response_date = parse_datestamp(reply.response_date)
        except ValueError as error:
            return str(error)
        return None if response_date.granularity is Granularity.SECOND else reply.response_date

    return _each(survey, complaint, Granularity.SECOND)


@LIST.add(
    "clock",
    "responseDate is the current time",
    section="3.2",
    severity=Severity.SHOULD,
    advice="Set the server's clock (NTP) and write responseDate in UTC: harvesters start the next "
    "harvest there.",
)
def _clock(survey: Survey) -> Verdict:
    try:
        response_date = parse_datestamp(survey.identify.response_date).moment
    except ValueError as error:
        raise CannotBeDoneError(str(error)) from None
    return verdict(
        abs(response_date - utc_now()) < _CLOCKS_APART,
        survey.identify,
        expected="within ten minutes of this machine's clock",
        came=survey.identify.response_date,
    )


def _each(survey: Survey, complain: Callable[[Reply], str | None], expected: str) -> Verdict:
    """Return a verdict on all answers: that on the first faulty one, with the number of faulty ones."""
    replies, first, faulty = survey.client.replies, None, 0
    for reply in replies:
        if complaint := complain(reply):
            first, faulty = first or (reply, complaint), faulty + 1
    if first is None:
        return verdict(
            passed=True, reply=replies[-1], expected=expected, came=f"all of {len(replies)} answers"
        )
    came = f"{first[1]} ({faulty} of {len(replies)} answers)"
    return verdict(passed=False, reply=first[0], expected=expected, came=came)


@REQUEST_LIST.add(
    "echo",
    "The request element repeats all arguments of a valid request",
    section="3.2",
    advice="Give the request element one attribute for each argument, with the value that was sent.",
)
def _echo(survey: Survey) -> Verdict:
    reply = survey.ask("verb=GetRecord&identifier={identifier}&metadataPrefix={prefix}")
    sent = {"verb": "GetRecord", "identifier": survey.sample.identifier, "metadataPrefix": survey.prefix}
    return _repeats(reply, sent)


@REQUEST_LIST.add(
    "echo-window",
    "The request element repeats from and until as they were sent",
    section="3.2",
    advice="Repeat from and until exactly; do not change their granularity.",
)
def _echo_window(survey: Survey) -> Verdict:
    reply = survey.ask("verb=ListIdentifiers&metadataPrefix={prefix}&from={day}&until={day}")
    day = survey.sample.datestamp[:10]
    sent = {"verb": "ListIdentifiers", "metadataPrefix": survey.prefix, "from": day, "until": day}
    return _repeats(reply, sent)


@REQUEST_LIST.add(
    "echo-token",
    "The request element of a request with a token repeats only verb and token",
    section="3.2",
    advice="Repeat the arguments of this request, verb and resumptionToken, not those of the first one.",
)
def _echo_token(survey: Survey) -> Verdict:
    reply = survey.ask("verb=ListRecords&resumptionToken={token}")
    return _repeats(reply, {"verb": "ListRecords", "resumptionToken": survey.token})


@REQUEST_LIST.add(
    "echo-errors",
    "Errors other than badVerb and badArgument also repeat the arguments",
    section="3.2",
    severity=Severity.INFO,
    advice="Omit the attributes only for badVerb and badArgument; repeat them for idDoesNotExist, as the "
    "examples in the specification do.",
)
def _echo_errors(survey: Survey) -> Verdict:
    identifier = "oai:nobody.example:there-is-no-such-item"
    reply = survey.ask(
        "verb=GetRecord&metadataPrefix={prefix}&identifier=oai%3Anobody.example%3Athere-is-no-such-item"
    )
    if ErrorCode.ID_DOES_NOT_EXIST not in reply.codes:
        raise CannotBeDoneError("the provider does not answer idDoesNotExist for an unknown identifier")
    return _same(reply, {"verb": "GetRecord", "identifier": identifier, "metadataPrefix": survey.prefix})


@REQUEST_LIST.add(
    "bad-verb",
    "After badVerb the request element has no attributes",
    section="3.2",
    advice="Omit all attributes of the request element if the error is badVerb.",
)
def _bad_verb(survey: Survey) -> Verdict:
    return _silent(survey.ask("verb=Nonsense"), ErrorCode.BAD_VERB)


@REQUEST_LIST.add(
    "bad-argument",
    "After badArgument the request element has no attributes",
    section="3.2",
    advice="Omit all attributes of the request element if the error is badArgument.",
)
def _bad_argument(survey: Survey) -> Verdict:
    return _silent(survey.ask("verb=ListRecords"), ErrorCode.BAD_ARGUMENT)


def _repeats(reply: Reply, sent: dict[str, str]) -> Verdict:
    if reply.codes:
        raise CannotBeDoneError(f"the provider answers {', '.join(reply.codes)}")
    return _same(reply, sent)


def _same(reply: Reply, sent: dict[str, str]) -> Verdict:
    return verdict(reply.arguments == sent, reply, expected=_written(sent), came=_written(reply.arguments))


def _silent(reply: Reply, code: ErrorCode) -> Verdict:
    if code not in reply.codes:
        raise CannotBeDoneError(f"the provider does not answer the request with {code}")
    return verdict(not reply.arguments, reply, expected="no attributes", came=_written(reply.arguments))


def _written(arguments: dict[str, str]) -> str:
    return " ".join(f'{name}="{value}"' for name, value in sorted(arguments.items())) or "no attributes"


def _violation(root: etree._Element) -> str | None:
    """Return the first violation of the protocol's schema, with its line; None if it is valid."""
    grammar = _grammar()
    if grammar.validate(root):
        return None
    first = grammar.error_log[0]
    return f"line {first.line}: {first.message}"


@cache
def _grammar() -> etree.RelaxNG:
    return etree.RelaxNG(etree.fromstring(files("provider.checking").joinpath(_GRAMMAR).read_bytes()))

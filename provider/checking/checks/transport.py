"""HTTP: methods, status, content type, compression (specification, section 3.1)."""

from collections.abc import Callable
from typing import Final

from oai.vocabulary import ErrorCode, Verb
from provider.checking.findings import Check, Checklist, Look, Severity, Verdict, verdict
from provider.checking.replies import Reply
from provider.checking.survey import NotApplicableError, Survey

LIST: Final = Checklist(subject="http")

_OK: Final = 200
_REQUESTS: Final = {
    Verb.IDENTIFY: "verb=Identify",
    Verb.LIST_METADATA_FORMATS: "verb=ListMetadataFormats",
    Verb.LIST_SETS: "verb=ListSets",
    Verb.LIST_IDENTIFIERS: "verb=ListIdentifiers&metadataPrefix={prefix}",
    Verb.LIST_RECORDS: "verb=ListRecords&metadataPrefix={prefix}",
    Verb.GET_RECORD: "verb=GetRecord&identifier={identifier}&metadataPrefix={prefix}",
}
"""A request of each verb that every provider with at least one record can answer."""


def _fulfilled(verb: Verb, reply: Reply) -> Verdict:
    if reply.codes == [ErrorCode.NO_RECORDS_MATCH]:
        raise NotApplicableError("Identify declares that the repository has no records")
    answered = reply.container(verb) is not None
    if verb is Verb.LIST_SETS:
        answered = answered or reply.codes == [ErrorCode.NO_SET_HIERARCHY]
    return verdict(
        reply.received.status == _OK and answered, reply, expected=f"HTTP 200 with the element {verb}"
    )


def _by_get(verb: Verb) -> Look:
    return lambda survey: _fulfilled(verb, survey.ask(_REQUESTS[verb]))


def _by_post(verb: Verb) -> Look:
    return lambda survey: _fulfilled(verb, survey.client.post(survey.query(_REQUESTS[verb])))


def _verb_check(verb: Verb, method: str, look: Look) -> Check:
    return Check(
        id=f"verb.{verb}.{method.lower()}",
        title=f"{verb} by {method}",
        section="3.1.1",
        severity=Severity.MUST,
        advice="Answer such a request: harvesters may use both GET and POST.",
        look=look,
    )


VERB_CHECKS: Final = [
    *(_verb_check(verb, "GET", _by_get(verb)) for verb in _REQUESTS),
    *(_verb_check(verb, "POST", _by_post(verb)) for verb in _REQUESTS),
]


@LIST.add(
    "head",
    "HEAD is answered like GET, without the body",
    section="3.1",
    severity=Severity.SHOULD,
    advice="Let the server answer HEAD; monitoring tools and proxies use it.",
)
def _head(survey: Survey) -> Verdict:
    reply = survey.client.head("verb=Identify")
    return verdict(
        reply.received.status == _OK and not reply.received.body,
        reply,
        expected="HTTP 200 and no body",
        came=f"HTTP {reply.received.status}, {len(reply.received.body)} bytes",
    )


@LIST.add(
    "content-type",
    "Answers are text/xml",
    section="3.1.2.1",
    advice="Send `Content-Type: text/xml; charset=utf-8` with every answer, including errors.",
)
def _content_type(survey: Survey) -> Verdict:
    return _of_all(survey, lambda kind: kind.partition(";")[0].strip() == "text/xml", "text/xml")


@LIST.add(
    "charset",
    "Content-Type declares no charset other than UTF-8",
    section="3.2",
    advice="Declare charset=utf-8 or no charset: the XML is UTF-8, and a charset in Content-Type "
    "overrides it.",
)
def _charset(survey: Survey) -> Verdict:
    def fits(kind: str) -> bool:
        return "charset=" not in kind or "charset=utf-8" in kind.replace('"', "").replace(" ", "")

    return _of_all(survey, fits, "charset=utf-8, or none")


def _of_all(survey: Survey, fits: Callable[[str], bool], expected: str) -> Verdict:
    kinds = [
        (reply, reply.received.headers.get("content-type", "").lower()) for reply in survey.client.replies
    ]
    reply, kind = next(((reply, kind) for reply, kind in kinds if not fits(kind)), kinds[0])
    return verdict(fits(kind), reply, expected=expected, came=f"Content-Type: {kind}")


@LIST.add(
    "error-status",
    "Protocol errors have HTTP status 200",
    section="3.1.2.2",
    severity=Severity.SHOULD,
    advice="Send protocol errors with HTTP status 200: with another status, HTTP libraries hide the "
    "error's text.",
)
def _error_status(survey: Survey) -> Verdict:
    reply = survey.ask("verb=Nonsense")
    return verdict(
        reply.received.status == _OK, reply, expected="HTTP 200", came=f"HTTP {reply.received.status}"
    )


@LIST.add(
    "identity",
    "An answer without compression is available",
    section="3.1.3",
    advice="Compress answers only if Accept-Encoding names a compression.",
)
def _identity(survey: Survey) -> Verdict:
    reply = survey.client.get("verb=Identify")
    coding = reply.received.headers.get("content-encoding", "identity")
    return verdict(
        coding.lower() == "identity",
        reply,
        expected="no Content-Encoding",
        came=f"Content-Encoding: {coding}",
    )


@LIST.add(
    "gzip",
    "The declared compression is used",
    section="3.1.3",
    advice="Compress answers for clients with `Accept-Encoding: gzip`, or do not declare gzip in Identify.",
)
def _gzip(survey: Survey) -> Verdict:
    if "gzip" not in survey.identify.texts("compression"):
        raise NotApplicableError("Identify does not declare gzip")
    reply = survey.client.get("verb=Identify", encoding="gzip")
    coding = reply.received.headers.get("content-encoding", "identity")
    packed = coding.lower() in {"gzip", "x-gzip"} and reply.fault is None and reply.root is not None
    return verdict(
        packed, reply, expected="Content-Encoding: gzip, and a compressed body", came=reply.fault or coding
    )

"""What the `request` element repeats of the request (specification, section 3.2)."""

from typing import Final

from oai.vocabulary import ErrorCode
from provider.checking.facts import CannotBeDoneError
from provider.checking.findings import Checklist, Verdict, verdict
from provider.checking.replies import Reply
from provider.checking.survey import Survey

LIST: Final = Checklist(subject="request")


@LIST.add(
    "echo",
    "The request element repeats all arguments of a valid request",
    section="3.2",
    advice="Give the request element one attribute for each argument, with the value that was sent.",
)
def _echo(survey: Survey) -> Verdict:
    reply = survey.ask("verb=GetRecord&identifier={identifier}&metadataPrefix={prefix}")
    sent = {"verb": "GetRecord", "identifier": survey.sample.identifier, "metadataPrefix": survey.prefix}
    return _repeats(reply, sent)


@LIST.add(
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


@LIST.add(
    "echo-token",
    "The request element of a request with a token repeats only verb and token",
    section="3.2",
    advice="Repeat the arguments of this request, verb and resumptionToken, not those of the first one.",
)
def _echo_token(survey: Survey) -> Verdict:
    reply = survey.ask("verb=ListRecords&resumptionToken={token}")
    return _repeats(reply, {"verb": "ListRecords", "resumptionToken": survey.token})


@LIST.add(
    "echo-errors",
    "Errors other than badVerb and badArgument also repeat the arguments",
    section="3.2",
    advice="Omit the attributes only for badVerb and badArgument; repeat them for idDoesNotExist.",
)
def _echo_errors(survey: Survey) -> Verdict:
    identifier = "oai:nobody.example:there-is-no-such-item"
    reply = survey.ask(
        "verb=GetRecord&metadataPrefix={prefix}&identifier=oai%3Anobody.example%3Athere-is-no-such-item"
    )
    if ErrorCode.ID_DOES_NOT_EXIST not in reply.codes:
        raise CannotBeDoneError("the provider does not answer idDoesNotExist for an unknown identifier")
    return _repeats(reply, {"verb": "GetRecord", "identifier": identifier, "metadataPrefix": survey.prefix})


@LIST.add(
    "bad-verb",
    "After badVerb the request element has no attributes",
    section="3.2",
    advice="Omit all attributes of the request element if the error is badVerb.",
)
def _bad_verb(survey: Survey) -> Verdict:
    return _silent(survey.ask("verb=Nonsense"), ErrorCode.BAD_VERB)


@LIST.add(
    "bad-argument",
    "After badArgument the request element has no attributes",
    section="3.2",
    advice="Omit all attributes of the request element if the error is badArgument.",
)
def _bad_argument(survey: Survey) -> Verdict:
    return _silent(survey.ask("verb=ListRecords"), ErrorCode.BAD_ARGUMENT)


def _repeats(reply: Reply, sent: dict[str, str]) -> Verdict:
    return verdict(reply.arguments == sent, reply, expected=_written(sent), came=_written(reply.arguments))


def _silent(reply: Reply, code: ErrorCode) -> Verdict:
    if code not in reply.codes:
        raise CannotBeDoneError(f"the provider does not answer the request with {code}")
    return verdict(not reply.arguments, reply, expected="no attributes", came=_written(reply.arguments))


def _written(arguments: dict[str, str]) -> str:
    return " ".join(f'{name}="{value}"' for name, value in sorted(arguments.items())) or "no attributes"

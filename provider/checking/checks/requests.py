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
    "A good request is repeated with all its arguments",
    section="3.2",
    advice="Give the request element one attribute for each argument, with the value that was sent.",
)
def _echo(survey: Survey) -> Verdict:
    reply = survey.ask("verb=GetRecord&identifier={identifier}&metadataPrefix={prefix}")
    sent = {"verb": "GetRecord", "identifier": survey.sample.identifier, "metadataPrefix": survey.prefix}
    return _repeats(reply, sent)


@LIST.add(
    "echo-window",
    "from and until are repeated as they were sent",
    section="3.2",
    advice="Repeat from and until to the letter; do not write them in another granularity.",
)
def _echo_window(survey: Survey) -> Verdict:
    reply = survey.ask("verb=ListIdentifiers&metadataPrefix={prefix}&from={day}&until={day}")
    day = survey.sample.datestamp[:10]
    sent = {"verb": "ListIdentifiers", "metadataPrefix": survey.prefix, "from": day, "until": day}
    return _repeats(reply, sent)


@LIST.add(
    "echo-token",
    "A request with a token is repeated with verb and token alone",
    section="3.2",
    advice="Repeat what this request had: verb and resumptionToken, not the arguments of the first one.",
)
def _echo_token(survey: Survey) -> Verdict:
    reply = survey.ask("verb=ListRecords&resumptionToken={token}")
    return _repeats(reply, {"verb": "ListRecords", "resumptionToken": survey.token})


@LIST.add(
    "echo-errors",
    "Errors other than badVerb and badArgument repeat the arguments, too",
    section="3.2",
    advice="Only badVerb and badArgument leave the attributes out; let idDoesNotExist repeat them.",
)
def _echo_errors(survey: Survey) -> Verdict:
    identifier = "oai:nobody.example:there-is-no-such-item"
    reply = survey.ask(
        "verb=GetRecord&metadataPrefix={prefix}&identifier=oai%3Anobody.example%3Athere-is-no-such-item"
    )
    if ErrorCode.ID_DOES_NOT_EXIST not in reply.codes:
        raise CannotBeDoneError("an unknown identifier is not refused with idDoesNotExist")
    return _repeats(reply, {"verb": "GetRecord", "identifier": identifier, "metadataPrefix": survey.prefix})


@LIST.add(
    "bad-verb",
    "After badVerb the request element has no attributes",
    section="3.2",
    advice="Leave all attributes out of the request element where the error is badVerb.",
)
def _bad_verb(survey: Survey) -> Verdict:
    return _silent(survey.ask("verb=Nonsense"), ErrorCode.BAD_VERB)


@LIST.add(
    "bad-argument",
    "After badArgument the request element has no attributes",
    section="3.2",
    advice="Leave all attributes out of the request element where the error is badArgument.",
)
def _bad_argument(survey: Survey) -> Verdict:
    return _silent(survey.ask("verb=ListRecords"), ErrorCode.BAD_ARGUMENT)


def _repeats(reply: Reply, sent: dict[str, str]) -> Verdict:
    return verdict(reply.arguments == sent, reply, expected=_written(sent), came=_written(reply.arguments))


def _silent(reply: Reply, code: ErrorCode) -> Verdict:
    if code not in reply.codes:
        raise CannotBeDoneError(f"the request is not refused with {code}")
    return verdict(not reply.arguments, reply, expected="no attributes", came=_written(reply.arguments))


def _written(arguments: dict[str, str]) -> str:
    return " ".join(f'{name}="{value}"' for name, value in sorted(arguments.items())) or "no attributes"

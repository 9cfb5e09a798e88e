"""Live repositories asked over the API: one question, or one broken record again."""

from typing import Final

from pydantic import Field

from harvester.access import Access, access_of
from harvester.models import Repository
from harvester.running.models import Quarantined
from oai.errors import SettingsError, TryLaterError, UsageError
from oai.rights import Right
from oai.vocabulary import Verb
from web.access import asked_for
from web.answer_oddities import oddities
from web.api.faults import ApiError, FieldFault
from web.api.operations import Call, Operation
from web.api.repositories import repository_asked
from web.api.shapes import In, Out
from web.explorations import EXPLORATIONS
from web.refetching import refetch

_MOST: Final = 200_000


class QuestionBody(In):
    """A question to a repository; to one that speaks OAI-PMH, its arguments are sent as they are."""

    verb: Verb = Field(description="For SRU and Z39.50, only Identify and ListRecords, whose set is a query.")
    arguments: dict[str, str] = Field(
        default={},
        max_length=6,
        description="Arguments by their names in the protocol, such as metadataPrefix.",
    )


class AnswerOut(Out):
    """What came."""

    url: str
    seconds: float
    status: int | None = Field(description="HTTP status; null if no answer was received.")
    headers: dict[str, str]
    size: int = Field(description="Size in bytes, decompressed.")
    text: str = Field(
        description="The first 200,000 characters; bytes that are not valid UTF-8 are replaced by �."
    )
    identifiers: list[str] = Field(description="Identifiers of the records on the page.")
    resumption_token: str = Field(description="Resumption token for the next page; empty on the last page.")
    failure: str | None = Field(description="Reason why there is no answer, or why the answer is not valid.")
    odd: list[str] = Field(description="Irregularities in the answer.")


class AgainOut(Out):
    """What came of a record that was fetched again."""

    fate: str = Field(description="broken, readable, stored, unchanged, deleted or filtered.")
    reason: str = Field(description="Reason why the record is broken.")
    url: str
    seconds: float
    record_id: int | None = Field(description="Number of the stored record.")


def _check(asked: QuestionBody, access: Access) -> None:
    """Refuse what the repository's protocol has no words for."""
    question = access.questions.get(asked.verb)
    if question is None:
        fault = FieldFault(pointer="/verb", detail=f"{access.title} has no {asked.verb}")
        raise ApiError(422, "the repository's protocol does not support this verb", errors=[fault])
    for name in asked.arguments:
        if name not in question.takes:
            fault = FieldFault(pointer="/arguments", detail=f"{asked.verb} takes no {name!r}")
            raise ApiError(422, "the verb does not take one of the arguments", errors=[fault])


async def _ask(call: Call) -> AnswerOut:
    repository, asked = await repository_asked(call), call.sent(QuestionBody)
    _check(asked, access_of(repository.protocol))
    try:
        answer = await call.request.config_dict[EXPLORATIONS].ask(
            repository, asked.verb, list(asked.arguments.items())
        )
    except TryLaterError as error:
        raise _later(error) from None
    except (UsageError, SettingsError) as error:
        raise ApiError(422, str(error)) from None
    reply = answer.reply
    body = reply.body if reply else b""
    return AnswerOut(
        url=answer.url,
        seconds=answer.seconds,
        status=reply.status if reply else None,
        headers=dict(reply.headers) if reply else {},
        size=len(body),
        text=body.decode("utf-8", errors="replace")[:_MOST],
        identifiers=[header.identifier for header in answer.page.headers] if answer.page else [],
        resumption_token=answer.next_token,
        failure=str(answer.error) if answer.error else None,
        odd=list(oddities(answer, repository)),
    )


async def _again(call: Call) -> AgainOut:
    _who, error = await asked_for(call.request, Quarantined, call.place["error"])
    _who, repository = await asked_for(call.request, Repository, error.repository_id)
    try:
        result, record = await refetch(call.request, repository, error)
    except TryLaterError as fault:
        raise _later(fault) from None
    return AgainOut(
        fate=result.fate.value,
        reason=result.reason,
        url=result.url,
        seconds=result.seconds,
        record_id=record,
    )


def _later(error: TryLaterError) -> ApiError:
    return ApiError(503, str(error), headers={"Retry-After": "60"})


OPERATIONS: Final = (
    Operation(
        name="askRepository",
        method="POST",
        path="/repositories/{repository}/questions",
        tag="repositories",
        summary="Send a request to the repository: an OAI-PMH verb or its equivalent in SRU or Z39.50.",
        right=Right.HARVEST,
        work=_ask,
        body=QuestionBody,
        answer=AnswerOut,
    ),
    Operation(
        name="fetchAgain",
        method="POST",
        path="/errors/{error}/again",
        tag="runs",
        summary="Fetch a refused record again, and store it if it is valid now.",
        right=Right.HARVEST,
        work=_again,
        answer=AgainOut,
        faults=frozenset({409}),
    ),
)

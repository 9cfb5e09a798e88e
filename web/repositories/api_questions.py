"""REST API: requests to live repositories: single requests, broken records, diagnostics, samples."""

from typing import Any, Final

from pydantic import Field
from sqlalchemy.orm import Session

from harvester.access import Access, access_of
from harvester.harvest.models import Quarantined
from harvester.harvest_plan import LONGEST_SELECTION, PREFIX
from harvester.models import Repository
from harvester.probing.findings import Report
from harvester.probing.report import letter
from manager.models import Job
from manager.schedules.service import MOST_RECORDS, sample_repository
from oai.errors import SettingsError, TryLaterError, UsageError
from oai.rights import Right
from oai.vocabulary import Verb
from web.api.faults import ApiError, FieldFault
from web.api.operations import Call, Operations
from web.api.shapes import In, Out
from web.auth.access import about, asked_for
from web.errors.refetch import refetch
from web.repositories.diagnostics import DIAGNOSTICS
from web.repositories.explorer import EXPLORATIONS, oddities
from web.schedules.api import Started, unless_too_soon
from web.schedules.forms import partner_minutes

OPERATIONS: Final = Operations("repositories")
RUN_OPERATIONS: Final = Operations("runs")

_MOST: Final = 200_000


class QuestionBody(In):
    """A request to a repository; OAI-PMH arguments are sent unchanged."""

    verb: Verb = Field(description="For SRU and Z39.50, only Identify and ListRecords, whose set is a query.")
    arguments: dict[str, str] = Field(
        default={},
        max_length=6,
        description="Arguments by their names in the protocol, such as metadataPrefix.",
    )


class AnswerOut(Out):
    """The answer of the repository."""

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
    """The result of fetching a record again."""

    fate: str = Field(description="broken, readable, stored, unchanged, deleted or filtered.")
    reason: str = Field(description="Reason why the record is broken.")
    url: str
    seconds: float
    record_id: int | None = Field(description="Number of the stored record.")


def _check(asked: QuestionBody, access: Access) -> None:
    """Reject arguments that the repository's protocol does not have."""
    question = access.questions.get(asked.verb)
    if question is None:
        fault = FieldFault(pointer="/verb", detail=f"{access.title} has no {asked.verb}")
        raise ApiError(422, "the repository's protocol does not support this verb", errors=[fault])
    for name in asked.arguments:
        if name not in question.takes:
            fault = FieldFault(pointer="/arguments", detail=f"{asked.verb} takes no {name!r}")
            raise ApiError(422, "the verb does not take one of the arguments", errors=[fault])


@OPERATIONS.add(
    "POST /repositories/{repository}/questions", "askRepository", Right.HARVEST, body=QuestionBody
)
async def _ask(call: Call) -> AnswerOut:
    """Send a request to the repository: an OAI-PMH verb or its equivalent in SRU or Z39.50."""
    repository, asked = await call.row(Repository, "repository"), call.sent(QuestionBody)
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


@RUN_OPERATIONS.add("POST /errors/{error}/again", "fetchAgain", Right.HARVEST, faults={409})
async def _again(call: Call) -> AgainOut:
    """Fetch a rejected record again, and store it if it is valid now."""
    error = await call.row(Quarantined, "error")
    repository = await asked_for(call.request, Repository, error.repository_id)
    try:
        result, record = await refetch(call.request, repository, error)
    except TryLaterError as fault:
        raise _later(fault) from None
    return AgainOut.from_row(result, fate=result.fate.value, record_id=record)


def _later(error: TryLaterError) -> ApiError:
    return ApiError(503, str(error), headers={"Retry-After": "60"})


class DiagnosticsOut(Out):
    """Diagnostics of a repository."""

    running: bool = Field(description="Whether diagnostics are under way; ask again later.")
    problem: str | None = Field(description="Why the last diagnostics did not finish.")
    report: dict[str, Any] | None = Field(description="The last report; null before the first.")
    letter: str | None = Field(description="The report as a letter to the repository's operators.")


class SampleBody(In):
    """Format, set and size of a sample."""

    metadata_prefix: str = Field(pattern=PREFIX, max_length=60)
    set_spec: str | None = Field(
        None, max_length=LONGEST_SELECTION, description="Null: the whole repository."
    )
    records: int = Field(100, ge=1, le=MOST_RECORDS)


@OPERATIONS.add("POST /repositories/{repository}/diagnostics", "startDiagnostics", Right.HARVEST, status=202)
async def _start(call: Call) -> DiagnosticsOut:
    """Start diagnostics of how the repository answers harvesters."""
    repository = await call.row(Repository, "repository")
    if access_of(repository.protocol).query is not None:
        raise ApiError(409, f"repository {repository.repository_id} does not use OAI-PMH; use /probe")
    call.request.config_dict[DIAGNOSTICS].begin(repository.repository_id, repository.base_url)
    return _shown(call, repository)


@OPERATIONS.add("GET /repositories/{repository}/diagnostics", "getDiagnostics", Right.LOOK)
async def _show(call: Call) -> DiagnosticsOut:
    """The last diagnostics, and whether new ones are running."""
    return _shown(call, await call.row(Repository, "repository"))


def _shown(call: Call, repository: Repository) -> DiagnosticsOut:
    runs, number = call.request.config_dict[DIAGNOSTICS], repository.repository_id
    report, problem = Report.from_json(repository.examination), runs.failure_of(number)
    return DiagnosticsOut(
        running=runs.of(number) is not None,
        problem=problem.title if problem else None,
        report=repository.examination,
        letter=letter(report) if report else None,
    )


@OPERATIONS.add(
    "POST /repositories/{repository}/sample", "sampleRepository", Right.HARVEST, body=SampleBody, status=201
)
async def _sample(call: Call) -> Started:
    """Harvest a few records now, beside all schedules."""
    repository, asked = await call.row(Repository, "repository"), call.sent(SampleBody)
    number = repository.repository_id

    def plan(session: Session) -> Job:
        return sample_repository(
            session,
            number,
            asked.metadata_prefix,
            asked.records,
            set_spec=asked.set_spec,
            partner_minutes=partner_minutes(call.request),
        )

    job = await unless_too_soon(call.database.run(plan))
    about(call.request, "repository", number, repository.display_name, job_id=job.job_id)
    return Started(job_id=job.job_id)

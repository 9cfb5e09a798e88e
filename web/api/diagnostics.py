"""A repository tried out over the API: its diagnostics, and a sample of its records."""

from typing import Any, Final

from pydantic import Field
from sqlalchemy.orm import Session

from harvester.access import access_of
from harvester.doctor.findings import Report
from harvester.doctor.letters import letter
from harvester.models import Repository
from harvester.plan import LONGEST_SELECTION, PREFIX
from manager.models import Job
from manager.samples import MOST_RECORDS, sample_repository
from oai.rights import Right
from web.api.faults import ApiError
from web.api.operations import Call, Operation
from web.api.repositories import repository_asked
from web.api.schedules import Started
from web.api.shapes import In, Out
from web.examinations import EXAMINATIONS
from web.subject import about

_TAG: Final = "repositories"


class DiagnosticsOut(Out):
    """How a repository answers harvesters."""

    running: bool = Field(description="Whether diagnostics are under way; ask again later.")
    problem: str | None = Field(description="Why the last diagnostics did not finish.")
    report: dict[str, Any] | None = Field(description="The last report; null before the first.")
    letter: str | None = Field(description="The report as a letter to the repository's operators.")


class SampleBody(In):
    """How much of what."""

    metadata_prefix: str = Field(pattern=PREFIX, max_length=60)
    set_spec: str | None = Field(
        None, max_length=LONGEST_SELECTION, description="Null: the whole repository."
    )
    records: int = Field(100, ge=1, le=MOST_RECORDS)


async def _start(call: Call) -> DiagnosticsOut:
    repository = await repository_asked(call)
    if access_of(repository.protocol).query is not None:
        raise ApiError(409, f"repository {repository.repository_id} does not speak OAI-PMH; use /probe")
    call.request.config_dict[EXAMINATIONS].begin(repository.repository_id, repository.base_url)
    return _shown(call, repository)


async def _show(call: Call) -> DiagnosticsOut:
    return _shown(call, await repository_asked(call))


def _shown(call: Call, repository: Repository) -> DiagnosticsOut:
    examinations, number = call.request.config_dict[EXAMINATIONS], repository.repository_id
    report, problem = Report.from_json(repository.examination), examinations.failure_of(number)
    return DiagnosticsOut(
        running=examinations.of(number) is not None,
        problem=problem.title if problem else None,
        report=repository.examination,
        letter=letter(report) if report else None,
    )


async def _sample(call: Call) -> Started:
    repository, asked = await repository_asked(call), call.sent(SampleBody)
    number = repository.repository_id

    def plan(session: Session) -> Job:
        return sample_repository(
            session, number, asked.metadata_prefix, asked.records, set_spec=asked.set_spec
        )

    job = await call.database.run(plan)
    about(call.request, "repository", number, repository.repository_name, job_id=job.job_id)
    return Started(job_id=job.job_id)


def _op(name: str, method: str, step: str, summary: str, work: Any, **more: Any) -> Operation:  # noqa: ANN401 as declared
    path = f"/repositories/{{repository}}/{step}"
    return Operation(name=name, method=method, path=path, tag=_TAG, summary=summary, work=work, **more)


OPERATIONS: Final = (
    _op(
        "startDiagnostics",
        "POST",
        "diagnostics",
        "Start diagnostics of how the repository answers harvesters.",
        _start,
        right=Right.HARVEST,
        answer=DiagnosticsOut,
        status=202,
    ),
    _op(
        "getDiagnostics",
        "GET",
        "diagnostics",
        "The last diagnostics, and whether new ones are running.",
        _show,
        right=Right.LOOK,
        answer=DiagnosticsOut,
    ),
    _op(
        "sampleRepository",
        "POST",
        "sample",
        "Harvest a few records now, beside all schedules.",
        _sample,
        right=Right.HARVEST,
        body=SampleBody,
        answer=Started,
        status=201,
    ),
)

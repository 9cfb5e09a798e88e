"""What `zatva repository doctor` does."""

import asyncio

from harvester.access import access_of
from harvester.doctor.examining import examine
from harvester.doctor.findings import Report
from harvester.doctor.keeping import keep_report
from harvester.doctor.letters import in_lines, letter
from harvester.memory import limit_memory
from harvester.repositories import check_base_url, get_repository
from oai.cli import Invocation
from oai.database import open_database
from oai.errors import ExitCode, UsageError


def examine_repository(invocation: Invocation) -> ExitCode:
    """`zatva repository doctor`: of a number, the report is kept; of an address, it is shown only."""
    which: str = invocation.arguments.which
    report = _of_number(invocation, int(which)) if which.isdecimal() else _of_address(invocation, which)
    words = letter(report) if invocation.arguments.letter else "\n".join(in_lines(report))
    invocation.console.result(report.as_json(), words)
    return ExitCode.DONE


def _of_address(invocation: Invocation, base_url: str) -> Report:
    if invocation.arguments.last:
        raise UsageError(
            "--last needs the number of a repository; results for other addresses are not stored"
        )
    return _examined(invocation, check_base_url(base_url))


def _of_number(invocation: Invocation, repository_id: int) -> Report:
    with open_database(invocation.settings) as database:
        with database.session() as session:
            repository = get_repository(session, repository_id)
            if access_of(repository.protocol).query is not None:
                raise UsageError(
                    f"repository {repository_id} uses {repository.protocol}, but diagnostics need "
                    "OAI-PMH; use `zatva probe`"
                )
            base_url, kept = repository.base_url, Report.from_json(repository.examination)
        if invocation.arguments.last:
            if kept is None:
                raise UsageError(
                    f"repository {repository_id} has no stored diagnostics; run them without --last"
                )
            return kept
        report = _examined(invocation, base_url)
        with database.session() as session:
            keep_report(session, repository_id, report)
            session.commit()
    return report


def _examined(invocation: Invocation, base_url: str) -> Report:
    def tell(subject: str) -> None:
        invocation.console.note(f"checked: {subject}")

    settings = invocation.settings.interactive
    limit_memory(settings.harvester.max_memory)
    return asyncio.run(examine(base_url, settings, on_fact=lambda fact: tell(fact.subject)))

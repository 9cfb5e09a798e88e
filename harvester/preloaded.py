"""What every harvest process needs, for a server that forks them (`oai.prefork`): modules, and statements.

The statements of a harvest that finds nothing new are compiled here, which took a third of its time. One
that is missing here is compiled by each harvest again; `tests/harvester/test_preloaded.py` finds it.
"""

from collections.abc import Callable, Iterator
from datetime import UTC, datetime, timedelta
from typing import Any, Final

from sqlalchemy.orm import Session, configure_mappers

from harvester.bibliographic import candidates, imports, sources
from harvester.bibliographic.models import ImportSource
from harvester.cli import harvest, harvest_parser  # noqa: F401 what the process imports when it needs it
from harvester.harvest import (
    approval,
    checkpoint,
    mass_change_guard,
    preparation,
    quarantine,
    seen_identifiers,
)
from harvester.harvest.request import HarvestRequest
from harvester.harvest.result import RunOutcome, write_history
from harvester.harvest.verdict import End, Evidence, judge
from harvester.harvest.watermark import CompleteHarvest
from harvester.locks import check_unlocked
from harvester.models import Repository
from harvester.reading.answers import Identity
from harvester.repositories import get_repository, note_identity
from harvester.rules.validation import OWN_FORMATS, own_validator
from harvester.store import records
from harvester.store.records import RunKey
from harvester.vocabulary import AccessProtocol
from oai import actions, logs, migrations, owners, private_files  # noqa: F401
from oai.database import compile_early
from oai.errors import ExitCode

Work = Callable[[Session], object]

_NOW = datetime.now(UTC)
_REQUEST = HarvestRequest(repository_id=1)
_RUN = RunKey(harvest_id=1, run_started=_NOW)
_SAVED: Final[dict[str, Any]] = {
    "resumption_token": None, "counts": {}, "run_state": {}, "run_response_date": "", "complete_list_size": 1,
    "records_per_second": 1.0, "estimated_end": _NOW,
}  # fmt: skip
"""In the order in which a run saves them."""


def _beginning() -> Iterator[Work]:
    """Give what executes the statements of a harvest until its first page."""
    identity = Identity(
        repository_name="-", base_url="-", protocol_version="2.0", admin_emails=(), earliest_datestamp="",
        deleted_record="", granularity="",
    )  # fmt: skip
    yield lambda session: migrations.current(session.connection())
    yield lambda session: get_repository(session, 1)
    yield lambda session: check_unlocked(session.connection(), 1)
    yield lambda session: note_identity(session, 1, identity)
    yield lambda session: checkpoint.find(session, _REQUEST)
    yield lambda session: preparation.last_rules(session, 1, 1)
    yield lambda session: preparation.missing_set_warning(
        session, Repository(repository_id=1, protocol=AccessProtocol.OAI_PMH), "-"
    )
    yield lambda session: checkpoint.record_start(session, 1, {}, job_id=1, now=_NOW)
    yield lambda session: quarantine.open_quarantine(session, _REQUEST, run_started=_NOW)
    yield lambda session: mass_change_guard.left_by_runs(session, _RUN)
    yield lambda session: owners.owner_of(session, 1)


def _page() -> Iterator[Work]:
    """Give what executes the statements of a page whose records are known."""
    marks = seen_identifiers.no_marks()
    marks.append(1)
    yield lambda session: records.known_records(session, repository_id=1, metadata_prefix="", keys=())
    yield lambda session: records.mark_unchanged(session, [1], run_started=_NOW)
    yield lambda session: seen_identifiers.forget(session, 1)
    yield lambda session: seen_identifiers.keep(session, 1, marks)
    yield lambda session: checkpoint.save(session, 1, **_SAVED)
    yield lambda session: checkpoint.save(session, 1, **_SAVED, pace=[])


def _end() -> Iterator[Work]:
    """Give what executes the statements of a harvest after its last page, and of the import after it."""
    evidence = Evidence(end=End.NO_TOKEN, listed=1, changes=0)
    verdict, status = judge(evidence)
    outcome = RunOutcome(
        repository_id=1, status=status, verdict=verdict, exit_code=ExitCode.DONE, counts={},
        evidence=evidence, seconds=0,
    )  # fmt: skip
    yield lambda session: checkpoint.note_disappeared(session, 1, 0)
    yield lambda session: approval.close(session, _RUN, everything=False)
    yield lambda session: write_history(session, _REQUEST, outcome, run=_RUN, rules=(None, None))
    yield lambda session: preparation.note_wait(session, 1, None)
    of_format = quarantine.Quarantine(
        repository_id=1, metadata_prefix="", set_spec="", run_started=_NOW, job_id=1
    )
    yield lambda session: of_format.prune(session, keep_days=1)
    complete = CompleteHarvest(watermark="")
    yield lambda session: checkpoint.end(session, 1, complete=complete, lag=0, resumable=False, error=None)
    yield lambda session: session.get(ImportSource, 1)
    yield lambda session: sources.harvested_prefixes(session, 1)
    yield lambda session: candidates.read_sample(session, 1, "", most=1)
    yield lambda session: imports.last_complete(session, 1, "", "", whole_within=timedelta())
    yield lambda session: candidates.changed_since(session, 1, "", 1, most=1)


def prepare() -> None:
    """Do what each harvest process would do for itself otherwise; nothing is sent to any server."""
    configure_mappers()
    compile_early([*_beginning(), *_page(), *_end()])
    # The results of these are kept.
    harvest_parser.build_process_parser()
    migrations.head()
    for prefix in OWN_FORMATS:
        own_validator(prefix)


prepare()

"""The process that indexes one file of an indexing run, for a worker that monitors it.

The result is stored in the file's row in `index_file`. The process ends when its standard input is
closed: the worker holds the other end, which the kernel closes however the worker ends.
"""

from sqlalchemy import select
from sqlalchemy.orm import Session

from oai.child import collect_garbage_seldom, end_with_input
from oai.cli import Invocation
from oai.database import open_database
from oai.errors import ExitCode, UsageError
from oai.failures import FailureCode
from oai.sections import ProviderSettings
from provider.holdings import collections
from provider.holdings.loads import ADD_UP_EVERY, add_up, end_load, load_of_run
from provider.holdings.rules import hold_tree
from provider.indexing.index_runs import is_over, settle
from provider.indexing.indexer import IndexOptions, index_file, refused
from provider.indexing.models import IndexFile, IndexRun
from provider.models import Collection
from provider.reading.captures import content_options
from provider.reading.framing import FramingProblem
from provider.storage.places import Place, absolute, container_of, place_of


def index_queued(invocation: Invocation) -> ExitCode:
    """Index the file of a row in `index_file`, and store the result there."""
    end_with_input()
    collect_garbage_seldom()
    file_id = invocation.arguments.file_id
    with open_database(invocation.settings) as database:
        with database.session() as session:
            path, run = _request(session, file_id)
            family = _family(session, run)
            load_id = load_of_run(session, run.id, family[0] if family else None)
            options = _options(invocation.settings.provider, run, family or (), load_id)
            gone = f"not indexed: collection {run.collection!r} does not exist (any more)"
        if family is None:
            report = refused(path, FramingProblem.of(FailureCode.ARCHIVE_COLLECTION_GONE, gone))
        else:
            report = index_file(database, path, options)
        with database.session() as session:
            settle(session, file_id, report)
            session.commit()
            if is_over(session, file_id):
                end_load(session, load_id)
            elif file_id % ADD_UP_EVERY == 0:
                add_up(session, load_id)
    return ExitCode.RECORDS_REFUSED if report.merged.problems else ExitCode.DONE


def _request(session: Session, file_id: int) -> tuple[Place, IndexRun]:
    row = session.get(IndexFile, file_id)
    if row is None:
        raise UsageError(f"no row {file_id} in index_file; its run may have been removed")
    hold_tree(session)  # a collection that is being moved has its new name in the run, too, or in neither
    return absolute(place_of(row.path)), session.get_one(IndexRun, row.run_id)


def _family(session: Session, run: IndexRun) -> tuple[int, ...] | None:
    """Return the ids of the run's collection and its ancestors; None if the collection does not exist."""
    if run.collection is None:
        return ()
    if session.scalar(select(Collection.id).where(Collection.set_spec == run.collection)) is None:
        return None
    return collections.lineage(session, run.collection)


def _options(
    settings: ProviderSettings, run: IndexRun, family: tuple[int, ...], load_id: int
) -> IndexOptions:
    return IndexOptions(
        margin=settings.publish_margin,
        content=content_options(settings),
        collections=family,
        again=run.again,
        archive_dir=None if run.archive_dir is None else container_of(run.archive_dir),
        load_id=load_id,
    )

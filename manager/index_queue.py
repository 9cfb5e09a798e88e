"""`zatva provider index --queue`: put archive files into the task queue, one task each, for any worker.

It is a command of the provider that works only with the manager's queue, so it is handled here.
"""

from collections.abc import Sequence
from typing import Final

from sqlalchemy.orm import Session

from manager import queue
from manager.worker.process import host_name
from oai.cli import Invocation
from oai.console import Console, counted, one_line
from oai.database import make_statistics, open_database
from oai.errors import ExitCode, UsageError
from provider.commands import index_options
from provider.holdings.sets import collection_set_spec
from provider.holdings.status import give_up_lost
from provider.indexing.archive_search import search
from provider.indexing.browsing import changed_files
from provider.indexing.first_load import refuse_unserved
from provider.indexing.index_runs import add_run
from provider.indexing.models import IndexRun
from provider.indexing.parallel import size_of
from provider.storage.places import Place, stored_path

_HERE_ONLY: Final = {"jobs": "--jobs", "first_load": "--first-load"}


def queue_index(invocation: Invocation) -> ExitCode:
    """Queue the files and return at once; `zatva provider status` shows the progress."""
    arguments = invocation.arguments
    for name, option in _HERE_ONLY.items():
        if getattr(arguments, name):
            raise UsageError(f"{option} applies to indexing in this process; leave it out with --queue")
    found = search(arguments.paths)
    for path, problem in found.refused.items():
        invocation.console.note(one_line(f"{stored_path(path)}: {problem.reason}"))
    done = ExitCode.RECORDS_REFUSED if found.refused else ExitCode.DONE
    files = found.archives
    number = _queued_run(invocation, files)
    if number is None:
        invocation.console.result({"run_id": None, "files": 0}, "no ARC, WARC or CDX files found there")
        return done
    invocation.console.result(
        {"run_id": number, "files": len(files)},
        f"run {number}: {counted(len(files), 'file')} queued; workers must see them at the same paths; to "
        f"follow progress, use `zatva provider status --run {number}`",
    )
    return done


def _queued_run(invocation: Invocation, files: Sequence[Place]) -> int | None:
    """Add a run with these files and queue them; return its id, None without files."""
    arguments = invocation.arguments
    with open_database(invocation.settings) as database:
        options = index_options(database, arguments, invocation.settings.provider)
        with database.session() as session:
            refuse_unserved(session)
            if not files:
                return None
            _give_up_lost(invocation.console, session, [stored_path(path) for path in files])
            archive_dir = None if options.archive_dir is None else stored_path(options.archive_dir)
            number = queue_files(
                session, files, collection=arguments.collection, again=options.again, archive_dir=archive_dir
            )
            session.commit()
        make_statistics(database.engine, "index_file")
        return number


def queue_found(
    session: Session, files: Sequence[Place], *, collection: str | None, again: bool
) -> int | None:
    """Queue files that were found below a root, without `again` only new, changed, failed and lost ones.

    Commits; returns the run's id, None without any file to queue.
    """
    give_up_lost(session, [stored_path(path) for path in files])
    wanted = list(files) if again else changed_files(session, files)
    number = queue_files(session, wanted, collection=collection, again=again) if wanted else None
    session.commit()
    make_statistics(session.get_bind().engine, "index_file")
    return number


def queue_files(
    session: Session,
    files: Sequence[Place],
    *,
    collection: str | None,
    again: bool,
    archive_dir: str | None = None,
) -> int:
    """Add an indexing run with these files and queue them; return its id.

    `collection` is for new documents; `again` also reads unchanged files. The caller commits. Raises
    UsageError during a first load, and for a collection's name that is no set.
    """
    refuse_unserved(session)
    run = IndexRun(
        host=host_name(),
        collection=collection_set_spec(collection) if collection else None,
        again=again,
        archive_dir=archive_dir,
    )
    # Largest first, so that no worker starts a large file when the others have no work left.
    sized = sorted(
        ((path, size_of(path)) for path in files), key=lambda file: (-file[1], stored_path(file[0]))
    )
    queue.defer_files(session, add_run(session, run, sized))
    return run.id


def _give_up_lost(console: Console, session: Session, paths: Sequence[str]) -> None:
    lost = give_up_lost(session, paths)
    if lost:
        console.note(f"lost files: {lost:,}; their tasks are no longer in the queue, so they count as failed")

"""Handlers of `zatva provider aggregate`."""

from typing import Final

from sqlalchemy import select
from sqlalchemy.orm import Session

from oai.cli import Invocation
from oai.console import counted
from oai.database import open_database
from oai.errors import TryLaterError
from provider.aggregate import sources
from provider.aggregate.models import AggregateSource
from provider.aggregate.overview import read_status
from provider.aggregate.update import updater

_COLUMNS: Final = {
    "repository_id": "ID",
    "set_spec": "Set",
    "title": "Name",
    "base_url": "Base URL",
    "identifiers": "Identifiers",
    "state": "State",
}
_STATUS_COLUMNS: Final = {
    "set_spec": "Set",
    "format": "Format",
    "listed": "Listed",
    "deleted": "Deleted",
    "overshadowed": "Overshadowed",
    "unreadable": "Unreadable",
    "state": "State",
}
_NONE: Final = "no repositories in the aggregate; add one with `zatva provider aggregate add`"


def add(invocation: Invocation) -> None:
    """`provider aggregate add`: add a repository."""
    arguments = invocation.arguments
    with invocation.transaction() as session:
        repository = sources.find_repository(session, arguments.repository)
        source = sources.add_source(
            session,
            repository,
            name=arguments.name,
            identifiers=arguments.identifiers,
            altered=arguments.altered or (False if arguments.not_altered else None),
        )
        facts = sources.values_of(source)
    invocation.console.result(
        facts,
        f"{facts['title']} is in the aggregate as set {facts['set_spec']}, with {facts['identifiers']} "
        "identifiers; its records are published while the provider is running, or by `zatva "
        "provider aggregate update`",
    )


def remove(invocation: Invocation) -> None:
    """`provider aggregate remove`: withdraw a repository."""
    with invocation.transaction() as session:
        source = sources.withdraw_source(session, _number(session, invocation.arguments.repository))
        facts = sources.values_of(source)
    invocation.console.result(
        facts,
        f"{facts['title']} is withdrawn; its records are reported as deleted while the provider is "
        "running, or by `zatva provider aggregate update`",
    )


def _number(session: Session, named: str) -> int:
    """Return the repository number of a source, given its set, or of a repository."""
    found = session.scalar(select(AggregateSource.repository_id).where(AggregateSource.name == named))
    if found is None and named.isdecimal():
        return int(named)
    return sources.find_repository(session, named).repository_id if found is None else found


def show_sources(invocation: Invocation) -> None:
    """`provider aggregate list`: list the source repositories."""
    with invocation.session() as session:
        rows = [sources.values_of(source) for source in sources.list_sources(session)]
    invocation.console.table(rows, _COLUMNS, empty=_NONE)


def show_status(invocation: Invocation) -> None:
    """`provider aggregate status`: show how much of each source is published."""
    with invocation.session() as session:
        status = read_status(session)
    rows = [{name: getattr(one, name) for name in (*_STATUS_COLUMNS, "reason")} for one in status]
    invocation.console.table(rows, _STATUS_COLUMNS, empty=_NONE)


def update(invocation: Invocation) -> None:
    """`provider aggregate update`: publish harvested records."""
    settings = invocation.settings
    with open_database(settings) as database, updater(database.engine, settings) as mine:
        if mine is None:
            raise TryLaterError("another process is publishing harvested records; it also does this work")
        if invocation.arguments.whole:
            sources.walk_everything(mine.session)
            mine.session.commit()
        done = mine.run()
    verb = "has" if done.records == 1 else "have"
    changed = f"{counted(done.records, 'record')} {verb} a new datestamp"
    invocation.console.result({"records": done.records}, changed)

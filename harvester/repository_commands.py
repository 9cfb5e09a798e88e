"""What `zatva repository` does."""

import asyncio
from collections.abc import Mapping
from types import MappingProxyType
from typing import Any, Final

from sqlalchemy import func, select
from sqlalchemy.orm import Session

from harvester import repositories
from harvester.models import MetadataFormat, OaiSet, PrefixMapping, Repository
from harvester.repository_changes import change_repository
from oai.cli import Invocation
from oai.database import open_database
from oai.errors import ExitCode, UsageError
from oai.models import columns_of

_COLUMNS = {"repository_id": "ID", "repository_name": "Name", "base_url": "Base URL", "base_dir": "Folder"}
_AS_SET = frozenset({"", "default"})
_TAKEN_BACK: Final[Mapping[str, frozenset[str]]] = MappingProxyType(
    {
        "repository_name": frozenset({""}),
        "base_url": frozenset(),
        "deletion_policy": frozenset(),
        "brake_deletions": _AS_SET,
        "brake_updates": _AS_SET,
    }
)
"""The columns that options change, with the words that take an option back."""


def repository_add(invocation: Invocation) -> ExitCode:
    """`zatva repository add`."""
    arguments = invocation.arguments
    asking = repositories.identify_repository(arguments.url, invocation.settings, protocol=arguments.protocol)
    facts = asyncio.run(asking)
    with open_database(invocation.settings) as database, database.session() as session:
        added = repositories.add_repository(
            session,
            base_url=arguments.url,
            base_dir=arguments.dir,
            facts=facts,
            protocol=arguments.protocol,
        )
        session.commit()
        shown = _facts(session, added)
    invocation.about(shown["repository_id"])
    invocation.console.result(shown, f"repository {shown['repository_id']}: {shown['repository_name']}")
    return ExitCode.DONE


def repository_list(invocation: Invocation) -> ExitCode:
    """`zatva repository list`."""
    with open_database(invocation.settings) as database, database.session() as session:
        rows = [columns_of(repository) for repository in repositories.list_repositories(session)]
    empty = "no repositories yet; add one with `zatva repository add URL`"
    invocation.console.table(rows, _COLUMNS, empty=empty)
    return ExitCode.DONE


def repository_show(invocation: Invocation) -> ExitCode:
    """`zatva repository show`."""
    with open_database(invocation.settings) as database, database.session() as session:
        shown = _facts(session, repositories.get_repository(session, invocation.arguments.id))
    invocation.console.facts(shown)
    return ExitCode.DONE


def repository_remove(invocation: Invocation) -> ExitCode:
    """`zatva repository remove`."""
    repository_id = invocation.arguments.id
    with open_database(invocation.settings) as database, database.session() as session:
        repositories.remove_repository(session, repository_id)
        session.commit()
    invocation.console.result(
        {"removed": repository_id}, f"repository {repository_id} removed; its files stay"
    )
    return ExitCode.DONE


def repository_refresh(invocation: Invocation) -> ExitCode:
    """`zatva repository refresh`."""
    with open_database(invocation.settings) as database, database.session() as session:
        repository = repositories.get_repository(session, invocation.arguments.id)
        asking = repositories.identify_repository(
            repository.base_url, invocation.settings, protocol=repository.protocol
        )
        facts = asyncio.run(asking)
        repositories.note_facts(session, repository.repository_id, facts)
        session.commit()
        session.refresh(repository)
        shown = _facts(session, repository)
    invocation.console.result(shown, f"repository {shown['repository_id']}: {shown['repository_name']}")
    return ExitCode.DONE


def repository_edit(invocation: Invocation) -> ExitCode:
    """Change what was given; a harvest that runs goes on as it began."""
    repository_id, columns = invocation.arguments.id, _given(invocation)
    if not columns:
        raise UsageError(
            f"repository edit {repository_id}: no changes given; give an option such as --url, or "
            "see `zatva repository edit --help`"
        )
    with open_database(invocation.settings) as database, database.session() as session:
        changed = change_repository(session, repository_id, **columns)
        session.commit()
        shown = _facts(session, changed)
    invocation.console.result(shown, f"repository {repository_id}: changed")
    return ExitCode.DONE


def repository_policy(invocation: Invocation) -> ExitCode:
    """Set what becomes of deleted records, and how much one run may do without a yes."""
    with open_database(invocation.settings) as database, database.session() as session:
        repository = change_repository(session, invocation.arguments.id, **_given(invocation))
        session.commit()
        facts = {
            "repository_id": repository.repository_id,
            "deletion_policy": repository.deletion_policy,
            "brake_deletions": repository.brake_deletions,
            "brake_updates": repository.brake_updates,
        }
    shown = (f"{name}: {'default' if value is None else value}" for name, value in facts.items())
    invocation.console.result(facts, "\n".join(shown))
    return ExitCode.DONE


def _facts(session: Session, repository: Repository) -> dict[str, Any]:
    repository_id = repository.repository_id
    prefixes = (
        select(MetadataFormat.metadata_prefix)
        .join(PrefixMapping, PrefixMapping.prefix_id == MetadataFormat.prefix_id)
        .where(PrefixMapping.repository_id == repository_id)
        .order_by(MetadataFormat.metadata_prefix)
    )
    sets = select(func.count()).select_from(OaiSet).where(OaiSet.repository_id == repository_id)
    return {
        **columns_of(repository),
        "formats": list(session.scalars(prefixes)),
        "sets": session.scalars(sets).one(),
    }


def _given(invocation: Invocation) -> dict[str, Any]:
    """The columns that options were given for; an option that is taken back is None."""
    options = vars(invocation.arguments)
    given = {name: options[name] for name in _TAKEN_BACK if options.get(name) is not None}
    return {name: None if value in _TAKEN_BACK[name] else value for name, value in given.items()}

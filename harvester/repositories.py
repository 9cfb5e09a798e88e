"""Rows of repositories. The caller commits unless stated otherwise."""

import logging
import os
import re
from collections.abc import Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Annotated, Any, Final
from urllib.parse import urlsplit

from pydantic import BaseModel, ConfigDict, Field, ValidationError, field_validator
from sqlalchemy import ColumnElement, case, delete, func, literal, select, text, tuple_, update
from sqlalchemy.dialects.postgresql import insert
from sqlalchemy.orm import Session

from harvester.models import Harvest, MetadataFormat, OaiSet, PrefixMapping, Repository
from harvester.protocols import protocol_of
from harvester.reading.answers import FormatInfo, Identity, SetInfo
from harvester.reading.list_elements import LONGEST_SPEC, is_too_long
from harvester.reading.repairs import Repair
from harvester.recognition import RepositoryFacts, check_base_url, check_no_request, checked_protocol
from harvester.vocabulary import AccessProtocol, DeletionPolicy
from oai.errors import UsageError
from oai.folding import normalised
from oai.reach import is_same_place, without_credentials
from oai.settings import Settings


class FolderTakenError(UsageError):
    """A folder that belongs to another repository. Names that repository, which partners may not see."""


_ADDING_LOCK = 0x7A_72_61  # "zra": one repository is added at a time
_SETS_AT_ONCE = 5000
_MOST_FORMATS: Final = 500
_log = logging.getLogger(__name__)
_LATEST: Final = datetime(9000, 1, 1, tzinfo=UTC)


def add_repository(
    session: Session,
    *,
    base_url: str,
    base_dir: str | None = None,
    facts: RepositoryFacts | None = None,
    protocol: str | None = None,
) -> Repository:
    """Insert a repository's row, with its sets and formats if `facts` has them.

    `base_dir` is absolute, or relative to the store; without it, it is named after the host. Raises
    UsageError if another repository has the base directory.
    """
    chosen = checked_protocol(base_url, protocol)
    if chosen is AccessProtocol.OAI_PMH:
        check_no_request(base_url)
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
    """Return the base directory as stored. Raises FolderTakenError if another repository has it.

    Capitals make no difference, because some file systems do not distinguish them.
    """
    folder = _folder(base_dir)
    for repository_id, display_url, taken in session.execute(
        select(Repository.repository_id, Repository.display_url, Repository.base_dir)
    ):
        if folder_key(taken) == folder_key(folder):
            raise FolderTakenError(
                "folder %(folder)s already belongs to repository %(repository_id)s (%(base_url)s); "
                "choose another",
                folder=taken,
                repository_id=repository_id,
                base_url=display_url,
            )
    return folder


def folder_key(base_dir: str) -> str:
    """Return what two folders have in common that may be one folder on some file system."""
    return normalised("NFC", normalised("NFC", base_dir).casefold())


def ensure_repository(
    session: Session, *, base_url: str, base_dir: str | None, protocol: str | None = None
) -> Repository:
    """Return the repository with this base URL, base directory and protocol; add it if there is none.

    Without a base directory, it is the only repository with the base URL; without a protocol, the row's
    protocol is used. Raises UsageError if there are several, or if another repository has the directory.
    """
    found = find_repository(session, base_url=base_url, base_dir=base_dir, protocol=protocol)
    if found is None:
        # Another process may have added it since: without a second look-up there would be two with one base
        # URL.
        _add_alone(session)
        found = find_repository(session, base_url=base_url, base_dir=base_dir, protocol=protocol)
    return found or add_repository(session, base_url=base_url, base_dir=base_dir, protocol=protocol)


def find_repository(
    session: Session, *, base_url: str, base_dir: str | None = None, protocol: str | None = None
) -> Repository | None:
    """Return the repository that `ensure_repository` would return; None if it would be added.

    Raises UsageError if there are several.
    """
    known = select(Repository).where(Repository.base_url == base_url)
    if protocol is not None:
        known = known.where(Repository.protocol == protocol)
    if base_dir is not None:
        known = known.where(Repository.base_dir == _folder(base_dir))
    found = session.scalars(known.order_by(Repository.repository_id)).all()
    if len(found) > 1:
        ids = ", ".join(str(repository.repository_id) for repository in found)
        shown = without_credentials(base_url)
        raise UsageError(f"{shown} matches the repositories {ids}; give one number, or --out")
    return found[0] if found else None


def get_repository(session: Session, repository_id: int) -> Repository:
    """Return the repository. Raises UsageError if there is no repository with that number."""
    repository = session.get(Repository, repository_id)
    if repository is None:
        raise UsageError(f"no repository {repository_id}; list repositories with `zatva repository list`")
    return repository


def check_repositories(session: Session, *repository_ids: int | None) -> None:
    """Raise UsageError for a number that no repository has; None is no number."""
    for one in repository_ids:
        if one is not None:
            get_repository(session, one)


def list_repositories(session: Session) -> Sequence[Repository]:
    """Return all repositories, by number."""
    return session.scalars(select(Repository).order_by(Repository.repository_id)).all()


def note_facts(session: Session, repository_id: int, facts: RepositoryFacts) -> None:
    """Replace the stored description of a repository by its own; of lists with faults, nothing is deleted."""
    # One at a time: rows that another transaction is writing are not visible, and would not be replaced.
    session.execute(
        select(Repository.repository_id)
        .where(Repository.repository_id == repository_id)
        .with_for_update(key_share=True)
    )
    if facts.identity is not None:
        note_identity(session, repository_id, facts.identity)
    sets = list(facts.sets)
    if facts.sets_fault:
        read = {found.set_spec for found in sets}
        known = session.scalars(select(OaiSet).where(OaiSet.repository_id == repository_id))
        sets += [
            SetInfo(set_spec=one.set_spec, set_name=one.set_name or "")
            for one in known
            if one.set_spec not in read
        ]
    _replace_sets(session, repository_id, sets)
    if not facts.formats_fault:
        _replace_formats(session, repository_id, facts.formats)


def name_repository(repository: Repository, name: str | None) -> None:
    """Set the name that a person gives to the repository; None reverts to the repository's own name.

    It is then read with the next harvest, unless it is the present name. Giving the present name again does
    not count as a choice. The caller commits.
    """
    if name != repository.repository_name and (name is not None or repository.name_given):
        repository.repository_name, repository.name_given = name, name is not None


def note_identity(session: Session, repository_id: int, identity: Identity) -> None:
    """Store the answer to Identify; keep a name that a person entered."""
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
    """Prevent other processes from adding a repository until the transaction ends."""
    session.execute(text("SELECT pg_advisory_xact_lock(:key)"), {"key": _ADDING_LOCK})


def base_folder(repository: Repository, settings: Settings) -> Path:
    """Return the folder of the repository's files."""
    return settings.store / repository.base_dir


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
    return unused_folder(session, host)


def unused_folder(session: Session, name: str, below: Path = Path()) -> str:
    """Return the name, with a number if a repository has that folder, or one inside it, in `below`."""
    taken = {
        folder_key(str(folder))
        for base_dir in session.scalars(select(Repository.base_dir))
        for folder in (Path(base_dir), *Path(base_dir).parents)
    }
    number, free = 1, name
    while folder_key(str(below / free)) in taken:
        number += 1
        free = f"{name}-{number}"
    return free


def _replace_sets(session: Session, repository_id: int, sets: Sequence[SetInfo]) -> None:
    session.execute(delete(OaiSet).where(OaiSet.repository_id == repository_id))
    names = {found.set_spec: found.set_name for found in sets if found.set_spec}
    rows = [
        {"repository_id": repository_id, "set_spec": spec, "set_name": name or None}
        for spec, name in names.items()
        if not is_too_long(spec)
    ]
    if len(rows) < len(names):
        words = "repository %d: sets left out because their setSpecs are longer than %d bytes: %d"
        _log.warning(words, repository_id, LONGEST_SPEC, len(names) - len(rows))
    for start in range(0, len(rows), _SETS_AT_ONCE):
        session.execute(insert(OaiSet), rows[start : start + _SETS_AT_ONCE])


def _replace_formats(session: Session, repository_id: int, formats: Sequence[FormatInfo]) -> None:
    session.execute(delete(PrefixMapping).where(PrefixMapping.repository_id == repository_id))
    declared = {(found.metadata_prefix, found.schema, found.namespace) for found in formats}
    kept = [key for key in sorted(declared) if not is_too_long("".join(key))][:_MOST_FORMATS]
    if len(kept) < len(declared):
        words = "repository %d: metadata formats left out because longer than %d bytes, or more than %d: %d"
        _log.warning(words, repository_id, LONGEST_SPEC, _MOST_FORMATS, len(declared) - len(kept))
    if not kept:
        return
    columns = (
        MetadataFormat.metadata_prefix,
        MetadataFormat.metadata_schema,
        MetadataFormat.metadata_namespace,
    )
    # Sorted, so that two repositories whose formats are stored at the same time do not wait for each other.
    rows = [dict(zip((column.key for column in columns), key, strict=True)) for key in kept]
    session.execute(insert(MetadataFormat).values(rows).on_conflict_do_nothing())
    numbers = select(literal(repository_id), MetadataFormat.prefix_id).where(tuple_(*columns).in_(kept))
    session.execute(insert(PrefixMapping).from_select(["repository_id", "prefix_id"], numbers))


_ONE_LINE: Final = r"^[^\x00-\x1f]*$"

RepositoryName = Annotated[str, Field(max_length=500, pattern=_ONE_LINE)]
BaseUrl = Annotated[str, Field(min_length=1, max_length=2000, pattern=_ONE_LINE)]
DeletionsShare = Annotated[float, Field(ge=0, le=100)]
"""Percentage of the records that one run may delete."""
UpdatesShare = Annotated[float, Field(ge=0, allow_inf_nan=False)]
"""Percentage of the records that one run may change."""

_WANTED: Final = {
    "repository_name": "name of a repository; give one line of at most 500 characters",
    "base_url": "base URL; give one line of at most 2000 characters",
    "deletion_policy": "policy for deletions; give remove, mark or move",
    "brake_deletions": "percentage; give a number from 0 to 100, such as 20, or `default`",
    "brake_updates": "percentage; give a number such as 20, or `default`",
    "repairs": f"repair; give {', '.join(Repair)}",
}


class _Decided(BaseModel):
    """The columns of `oai_repository` that a person decides on, those that are given."""

    model_config = ConfigDict(extra="forbid", str_strip_whitespace=True, use_enum_values=True)

    repository_name: RepositoryName | None = None
    base_url: BaseUrl = ""
    deletion_policy: DeletionPolicy = DeletionPolicy.REMOVE
    brake_deletions: DeletionsShare | None = None
    brake_updates: UpdatesShare | None = None
    repairs: list[Repair] = []

    @field_validator("repairs")
    @classmethod
    def _once_each(cls, value: list[Repair]) -> list[Repair]:
        return [one for one in Repair if one in value]

    @field_validator("repository_name")
    @classmethod
    def _blank_is_none(cls, value: str | None) -> str | None:
        return value or None


def change_repository(session: Session, repository_id: int, **columns: Any) -> Repository:  # noqa: ANN401 each column's own type
    """Change columns of a repository; None resets the name or a limit. The caller commits.

    A given name is kept when the repository is contacted again; a reset one follows the repository's own. A
    running harvest continues with its old values. After a new address that is not the same place
    (`is_same_place`), the next harvests request everything. Raises UsageError for an unknown repository, an
    invalid value, and an address of another protocol than the repository's; then nothing is changed.
    """
    decided = _checked(columns)
    repository = get_repository(session, repository_id)
    if "base_url" in decided:
        check_base_url(decided["base_url"], protocol_of(decided["base_url"], repository.protocol))
        if not is_same_place(decided["base_url"], repository.base_url):
            harvest_from_the_start(session, Harvest.repository_id == repository_id)
    if "repository_name" in decided:
        name_repository(repository, decided.pop("repository_name"))
    for name, value in decided.items():
        setattr(repository, name, value)
    session.flush()
    return repository


def harvest_from_the_start(session: Session, which: ColumnElement[bool]) -> None:
    """Make the next runs of these harvests request everything and resume nothing. The caller commits.

    A run in progress then leaves no watermark either (`checkpoint.end`).
    """
    start = update(Harvest).where(which)
    # What is complete from a later date only must not hide what was complete before.
    restarts = Harvest.restarts | Harvest.watermark.is_not(None)
    start = start.values(
        watermark=None, restarts=restarts, resumption_token=None, run_parameters=None, run_state={}
    )
    session.execute(start, execution_options={"synchronize_session": False})


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


def wait_end(after: ColumnElement[datetime] | datetime) -> ColumnElement[datetime | None]:
    """Return the SQL expression of the time until which a row of `Repository` waits, if it is later.

    A repository waits if it sent a Retry-After longer than a harvest waits.
    """
    # PostgreSQL's timestamps reach further than Python's datetime.
    return case((Repository.not_before > after, func.least(Repository.not_before, _LATEST)))


def due_after_wait(session: Session, repository_id: int, due: datetime) -> datetime:
    """Return the due time, or the later one until which the repository asked to wait."""
    wait = select(wait_end(due)).where(Repository.repository_id == repository_id)
    return session.scalar(wait) or due

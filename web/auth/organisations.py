"""Organisations and the repositories that they own. The caller commits.

Schedules and jobs carry the organisation's short name as owner, because the manager schedules owners in turn.
"""

import re
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Any, Final, NamedTuple

from sqlalchemy import ColumnElement, Double, cast, delete, func, select, update
from sqlalchemy.dialects.postgresql import insert
from sqlalchemy.orm import Session

from harvester.listing import matching_repositories
from harvester.models import Repository
from harvester.recognition import RepositoryFacts
from harvester.repositories import FolderTakenError, add_repository, folder_key
from manager.models import Job, RecurringJob
from manager.notices.digests import end_digests
from manager.notices.rules import end_rules
from oai.errors import UsageError
from oai.folding import folded_column
from oai.models import from_row
from oai.owners import Organisation, RepositoryOwner, folder_of, limits_of
from oai.sections import HarvesterSettings
from web.auth.sessions import SignedIn
from web.auth.set_owners import follow_organisation
from web.models import ReportCard, User
from web.site.i18n import _

_SHORT_NAME: Final = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,49}")
_LONGEST_NAME: Final = 200


MOST_RECORDS: Final = 10**12
"""The greatest limit of records that can be set for an organisation."""
MOST_BYTES: Final = 10**15
_NEARLY: Final = 0.8
_FULL: Final = 0.999


@dataclass(frozen=True, kw_only=True)
class OrganisationView:
    """An organisation as lists show it."""

    organisation_id: int
    short_name: str
    name: str
    created: datetime
    users: int
    repositories: int
    records: int
    """Stored records, as counted when one of its harvests last ran."""
    max_records: int | None
    """Records that it may store; 0: no limit, None: as `harvester.organisation_records`."""
    bytes: int
    """Of record files and raw answers, counted at the same time."""
    max_bytes: int | None
    """Bytes that it may store; 0: no limit, None: as `harvester.organisation_bytes`."""


def add_organisation(session: Session, *, short_name: str, name: str = "") -> Organisation:
    """Add an organisation. Raises UsageError for a name that is taken or invalid."""
    short_name, name = _checked(short_name, name)
    if find_organisation(session, short_name) is not None:
        raise _taken(short_name)
    organisation = Organisation(short_name=short_name, name=name)
    session.add(organisation)
    session.flush()
    return organisation


def find_organisation(session: Session, short_name: str) -> Organisation | None:
    """Return the organisation with that short name, if it exists."""
    return session.scalars(select(Organisation).where(Organisation.short_name == short_name)).one_or_none()


def get_organisation(session: Session, short_name: str) -> Organisation:
    """Return the organisation with that short name. Raises UsageError if it does not exist."""
    found = find_organisation(session, short_name)
    if found is None:
        raise UsageError(f"there is no organisation {short_name!r}; see `zatva organisation list`")
    return found


def list_organisations(
    session: Session, *, limit: int | None = None, after: str = ""
) -> list[OrganisationView]:
    """Return organisations by short name, starting after the short name `after`."""
    rows = _rows().where(Organisation.short_name > after) if after else _rows()
    return [_view(*row) for row in session.execute(rows.order_by(Organisation.short_name).limit(limit))]


def name_organisations(session: Session) -> list[tuple[int, str]]:
    """Return the id and names of each organisation, by short name, for a selection list."""
    rows = select(Organisation.organisation_id, Organisation.short_name, Organisation.name)
    return [
        (number, f"{name} ({short_name})")
        for number, short_name, name in session.execute(rows.order_by(Organisation.short_name))
    ]


def organisation_name(session: Session, organisation_id: int | None) -> str | None:
    """Return an organisation's name, or its short name if it has no other; None for none."""
    organisation = session.get(Organisation, organisation_id) if organisation_id is not None else None
    return organisation.name or organisation.short_name if organisation is not None else None


def find_organisation_view(session: Session, organisation_id: int) -> OrganisationView | None:
    """Return the organisation with that id, if it exists."""
    row = session.execute(_rows().where(Organisation.organisation_id == organisation_id)).one_or_none()
    return _view(*row) if row is not None else None


def change_organisation(
    session: Session, organisation_id: int, *, short_name: str, name: str
) -> Organisation:
    """Rename it and update its schedules, jobs and named sets. Raises UsageError like `add_organisation`."""
    organisation = _organisation(session, organisation_id)
    short_name, name = _checked(short_name, name)
    other = find_organisation(session, short_name)
    if other is not None and other is not organisation:
        raise _taken(short_name)
    follow_organisation(session, organisation.short_name, short_name)
    organisation.short_name, organisation.name = short_name, name
    theirs = select(RepositoryOwner.repository_id).where(RepositoryOwner.organisation_id == organisation_id)
    for table in (RecurringJob, Job):
        session.execute(update(table).where(table.repository_id.in_(theirs)).values(owner=short_name))
    session.flush()
    return organisation


def limit_organisation(session: Session, organisation_id: int, **limits: int | None) -> None:
    """Limit what it may store: `max_records`, `max_bytes`; 0: no limit, None: as the setting."""
    organisation = _organisation(session, organisation_id)
    for name, value in limits.items():
        setattr(organisation, name, value)


@dataclass(frozen=True, kw_only=True)
class StorageUse:
    """How much of what an organisation may store it has stored."""

    organisation_id: int
    name: str
    records: int
    most_records: int
    """0: no limit."""
    bytes: int
    most_bytes: int
    """0: no limit."""

    @property
    def share(self) -> float:
        """The larger share: 1 is full."""
        pairs = ((self.records, self.most_records), (self.bytes, self.most_bytes))
        return max(stored / most if most else 0.0 for stored, most in pairs)

    @property
    def is_full(self) -> bool:
        """Return whether something has reached its limit, or nearly: the next page does not fit."""
        return self.share >= _FULL

    @property
    def is_nearly_full(self) -> bool:
        """Return whether the organisation and the administrators should know."""
        return self.share >= _NEARLY


def storage_use(
    session: Session, settings: HarvesterSettings, among: Collection[int] | None = None
) -> list[StorageUse]:
    """Return how full these organisations are, without `among` those that are nearly full; by name."""
    rows = select(Organisation).order_by(folded_column(Organisation.name), Organisation.organisation_id)
    is_shown = _share(settings) >= _NEARLY if among is None else Organisation.organisation_id.in_(among)
    return [_use_of(row, settings) for row in session.scalars(rows.where(is_shown))]


def fullest_organisation(session: Session, settings: HarvesterSettings) -> StorageUse | None:
    """Return how full the fullest organisation is; None without organisations."""
    by_share = select(Organisation).order_by(_share(settings).desc(), Organisation.organisation_id)
    row = session.scalar(by_share.limit(1))
    return None if row is None else _use_of(row, settings)


def _share(settings: HarvesterSettings) -> ColumnElement[float]:
    """Return `StorageUse.share` as an SQL expression."""
    records = func.coalesce(Organisation.max_records, settings.organisation_records)
    size = func.coalesce(Organisation.max_bytes, settings.organisation_bytes)
    pairs = ((Organisation.records, records), (Organisation.bytes, size))
    return func.coalesce(
        func.greatest(*(cast(used, Double) / func.nullif(most, 0) for used, most in pairs)), 0.0
    )


def _use_of(row: Organisation, settings: HarvesterSettings) -> StorageUse:
    records, size = limits_of(row, settings)
    return from_row(StorageUse, row, most_records=records, most_bytes=size)


def remove_organisation(session: Session, organisation_id: int) -> Mapping[str, Any]:
    """Remove it and assign its repositories to the administrators, who get its filtering sets, too.

    Returns how much has ended, as `give_repository`. Raises UsageError while it has users.
    """
    organisation = _organisation(session, organisation_id)
    users = session.scalars(
        select(func.count()).select_from(User).where(User.organisation_id == organisation_id)
    ).one()
    if users:
        raise UsageError(
            _(
                "%(name)s has users (%(count)s), of whom some may be disabled; move them to another "
                "organisation first. A user without an organisation sees everything"
            )
            % {"name": repr(organisation.short_name), "count": users}
        )
    owned = select(RepositoryOwner.repository_id).where(RepositoryOwner.organisation_id == organisation_id)
    theirs = session.scalars(owned).all()
    for table in (RecurringJob, Job):
        session.execute(update(table).where(table.repository_id.in_(theirs)).values(owner=None))
    follow_organisation(session, organisation.short_name, None)
    ended = _end_messages(session, theirs)
    session.delete(organisation)
    session.flush()
    return ended


def give_repository(session: Session, repository_id: int, organisation_id: int | None) -> Mapping[str, Any]:
    """Assign the repository, its schedules and jobs to the organisation, or (None) to the administrators.

    If another organisation owned it, its notification rules and report card end, so that it receives
    nothing more about the repository, and the new owner sees nothing of it. Returns that organisation and how
    many, as details for the audit log. Raises UsageError if one of the two does not exist.
    """
    if session.get(Repository, repository_id, with_for_update={"key_share": True}) is None:
        raise UsageError(f"there is no repository {repository_id}; see `zatva repository list`")
    owner = None if organisation_id is None else _organisation(session, organisation_id).short_name
    leaves = find_leaving(session, [repository_id], organisation_id)
    if organisation_id is None:
        session.execute(delete(RepositoryOwner).where(RepositoryOwner.repository_id == repository_id))
    else:
        row = insert(RepositoryOwner).values(repository_id=repository_id, organisation_id=organisation_id)
        # One statement: two simultaneous assignments both succeed, and the later one counts.
        session.execute(
            row.on_conflict_do_update(
                index_elements=[RepositoryOwner.repository_id], set_={"organisation_id": organisation_id}
            )
        )
    for table in (RecurringJob, Job):
        session.execute(update(table).where(table.repository_id == repository_id).values(owner=owner))
    guarded = update(Repository).where(Repository.repository_id == repository_id)
    session.execute(guarded.values(guarded=owner is not None))
    former = leaves.get(repository_id)
    loser = {} if former is None else {"former_organisation": former.short_name}
    return {**loser, **_end_messages(session, leaves)}


def find_leaving(
    session: Session, repository_ids: Collection[int], organisation_id: int | None
) -> Mapping[int, Organisation]:
    """Return the owners of those that an organisation loses if they are assigned to `organisation_id`.

    Locked until commit: of two simultaneous assignments, the later one sees the owner that the other set.
    """
    same = Organisation.organisation_id == RepositoryOwner.organisation_id
    owned = select(RepositoryOwner.repository_id, Organisation).join(Organisation, same)
    owned = owned.where(
        RepositoryOwner.repository_id.in_(repository_ids),
        RepositoryOwner.organisation_id.is_distinct_from(organisation_id),
    )
    return {row[0]: row[1] for row in session.execute(owned.with_for_update(of=RepositoryOwner))}


def _end_messages(session: Session, repository_ids: Collection[int]) -> Mapping[str, Any]:
    """End what sends facts about the repositories to whom their former organisation chose."""
    rules = end_rules(session, repository_ids)
    end_digests(session, repository_ids)
    cards = delete(ReportCard).where(ReportCard.repository_id.in_(repository_ids))
    revoked = len(session.scalars(cards.returning(ReportCard.repository_id)).all())
    return {name: count for name, count in (("removed_rules", rules), ("revoked_cards", revoked)) if count}


class Candidate(NamedTuple):
    """A repository that may be assigned to an organisation, and the one that owns it now."""

    repository: Repository
    owner: str | None
    """None: the administrators."""


def find_candidates(
    session: Session, organisation_id: int, *, limit: int, search: str | None = None
) -> Sequence[Candidate]:
    """Return repositories that do not belong to the organisation, those without an organisation first.

    `search` matches the name or the base URL.
    """
    owner = Organisation.organisation_id
    query = (
        matching_repositories(search)
        .outerjoin(RepositoryOwner, RepositoryOwner.repository_id == Repository.repository_id)
        .outerjoin(Organisation, owner == RepositoryOwner.organisation_id)
        .add_columns(Organisation.name)
        .where(owner.is_distinct_from(organisation_id))
        .order_by(owner.is_not(None), folded_column(Repository.display_name), Repository.repository_id)
    )
    return [Candidate(*row) for row in session.execute(query.limit(limit))]


def claim(session: Session, who: SignedIn, repository_id: int) -> None:
    """Assign a repository that the user has just added to the user's organisation, if any.

    Raises UsageError if its directory is inside another repository's or contains one, so that users cannot
    reach the files of others in this way.
    """
    if who.organisation_id is None:
        return
    folder = session.get_one(Repository, repository_id).base_dir
    own = f"{folder_key(folder)}/"
    others = select(Repository.base_dir).where(Repository.repository_id != repository_id)
    for other in (f"{folder_key(base_dir)}/" for base_dir in session.scalars(others)):
        if own.startswith(other) or other.startswith(own):
            raise _folder_taken(folder)
    give_repository(session, repository_id, who.organisation_id)


def add_own_repository(
    session: Session,
    who: SignedIn,
    *,
    base_url: str,
    base_dir: str,
    facts: RepositoryFacts | None,
    protocol: str | None,
) -> Repository:
    """Add a repository for the user; `base_dir` is relative to `own_folder`.

    Raises UsageError if the folder is taken or overlaps; users of an organisation are not told by whom.
    """
    folder = (own_folder(who) / base_dir).as_posix()
    try:
        added = add_repository(session, base_url=base_url, base_dir=folder, facts=facts, protocol=protocol)
    except FolderTakenError:
        if who.sees_everything:
            raise
        raise _folder_taken(folder) from None
    claim(session, who, added.repository_id)
    return added


def own_folder(who: SignedIn) -> Path:
    """Return the folder, relative to the store, below which the user may add repositories."""
    return (
        Path() if who.sees_everything or who.organisation_id is None else Path(folder_of(who.organisation_id))
    )


def _folder_taken(folder: str) -> UsageError:
    words = _("the folder %(folder)s is taken or overlaps with that of another repository; choose another")
    return UsageError(words % {"folder": repr(folder)})


def _rows() -> Any:  # noqa: ANN401 an SQL expression
    """Return a SELECT of organisations with the number of users and repositories of each row selected."""
    counts = (
        select(func.count()).where(table.organisation_id == Organisation.organisation_id).scalar_subquery()
        for table in (User, RepositoryOwner)
    )
    return select(Organisation, *counts)


def _view(row: Organisation, users: int, repositories: int) -> OrganisationView:
    return from_row(OrganisationView, row, users=users, repositories=repositories)


def _organisation(session: Session, organisation_id: int) -> Organisation:
    # Locked until commit: repositories cannot be assigned to an organisation that is renamed or removed now.
    organisation = session.get(Organisation, organisation_id, with_for_update=True)
    if organisation is None:
        raise UsageError(f"there is no organisation {organisation_id}; see `zatva organisation list`")
    return organisation


def _taken(short_name: str) -> UsageError:
    words = _("an organisation with the short name %(name)s already exists; choose another short name")
    return UsageError(words % {"name": repr(short_name)})


def _checked(short_name: str, name: str) -> tuple[str, str]:
    short_name, name = short_name.strip(), name.strip()
    if not _SHORT_NAME.fullmatch(short_name):
        raise UsageError(
            _(
                "%(name)s is not a valid short name; use 1 to 50 letters from a to z, digits, dots and "
                "hyphens, such as mzk"
            )
            % {"name": repr(short_name)}
        )
    if len(name) > _LONGEST_NAME or not name.isprintable():
        raise UsageError(
            _("an organisation's name must have at most %(most)s characters, all printable")
            % {"most": _LONGEST_NAME}
        )
    return short_name, name or short_name

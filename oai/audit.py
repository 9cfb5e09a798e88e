"""The audit log: one entry for each change, whether a page, the API or a command makes it.

`begin` writes the entry in its own transaction before the work, and `settle` completes it afterwards. A
process that is killed in between therefore leaves an entry with status 0 instead of none, and a rollback
of the work does not remove the entry. The table keeps the prefix `web_` of the package that created it.
"""

import re
import uuid
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any, Final, NamedTuple

from sqlalchemy import (
    BigInteger,
    Identity,
    Index,
    Select,
    SmallInteger,
    Text,
    delete,
    func,
    or_,
    select,
    text,
    update,
)
from sqlalchemy.dialects.postgresql import JSONB
from sqlalchemy.orm import Mapped, Session, mapped_column

from oai.actions import OLD_WORDS
from oai.models import Base
from oai.reach import without_credentials

BEGUN: Final = 0
_PAGE: Final = 50
_LOOKED_AT: Final = 10_000
_FORGOTTEN_AT_ONCE: Final = 1000
_FIRST_REFUSAL: Final = 400
_FIRST_FAULT: Final = 500
"""From this status on, work may have been done before the failure."""
_LONGEST_VALUE: Final = 1000
_ADDS: Final = ".add"
_REFUSALS: Final = frozenset({401, 403, 404, 409})
_DIGITS_OF_KEY: Final = re.compile(r"(?:oai:.+:)?([0-9a-f]{32})")


class AuditEntry(Base):
    """Who changed which object, when and from where. Rows outlive their users and objects."""

    __tablename__ = "web_audit"
    __table_args__ = (Index(None, "user_name", "audit_id"), Index(None, "action", "audit_id"))

    audit_id: Mapped[int] = mapped_column(BigInteger, Identity(), primary_key=True)
    at: Mapped[datetime] = mapped_column(server_default=func.now(), index=True)
    user_id: Mapped[int | None]
    user_name: Mapped[str | None] = mapped_column(Text)
    """The dashboard's user, or the account on the machine for a command. None: not signed in."""
    via: Mapped[str] = mapped_column(Text, server_default="session")
    """session, link, password, proxy, openid, token or command; none when not signed in."""
    action: Mapped[str] = mapped_column(Text)
    """A verb of `oai.actions`, such as `schedule.pause`; older entries have a verb for each surface."""
    object_kind: Mapped[str | None] = mapped_column(Text)
    object_id: Mapped[str | None] = mapped_column(Text)
    object_name: Mapped[str | None] = mapped_column(Text)
    status: Mapped[int] = mapped_column(SmallInteger, server_default=text("200"))
    """HTTP status of the response; 200 for a command that succeeded; 0: started, result unknown."""
    address: Mapped[str | None] = mapped_column(Text)
    """The client's address; for a command, the host name."""
    before: Mapped[dict[str, Any] | None] = mapped_column(JSONB(none_as_null=True))
    """Values of the changed columns before the change; all columns of a removed object."""
    after: Mapped[dict[str, Any] | None] = mapped_column(JSONB(none_as_null=True))
    """Values of the changed columns after the change; all columns of a new object; the action's details."""
    count: Mapped[int] = mapped_column(server_default=text("1"))
    """Number of occurrences: refusals with the same user, action and status within an hour share an entry."""


@dataclass(frozen=True, kw_only=True)
class Actor:
    """Who acts, and through which surface."""

    user_id: int | None = None
    name: str | None = None
    via: str
    address: str | None = None


@dataclass(frozen=True, kw_only=True)
class Subject:
    """The object of a change: its kind (`repository`), number (`12`), and display name."""

    kind: str
    number: str | None = None
    name: str | None = None
    details: Mapping[str, Any] | None = None
    """What the change affected besides the object's own columns, such as `{"documents": 12}`."""
    before: Mapping[str, Any] | None = None
    """Values before the change that `record` stores, which takes no snapshots."""
    action: str | None = None
    """The verb of the change, if its route has several."""


@dataclass(frozen=True, kw_only=True)
class Filter:
    """Which entries to list; empty texts match all. `since` is inclusive, `until` exclusive."""

    user: str = ""
    action: str = ""
    kind: str = ""
    number: str = ""
    since: datetime | None = None
    until: datetime | None = None


def _document_key(number: str) -> str:
    """Return the key of a document that is given as OAI identifier or without hyphens."""
    found = _DIGITS_OF_KEY.fullmatch(number)
    return str(uuid.UUID(hex=found[1])) if found else number


@dataclass(frozen=True, kw_only=True)
class _Table:
    """The table that holds the objects of a kind."""

    name: str
    key: str
    alias: str | None = None
    """A unique column by which commands name the object."""
    labels: tuple[str, ...] = ("name",)
    secret: tuple[str, ...] = ()
    """Columns that must not appear in the audit log: hashes of secrets, and bytes."""
    spelling: Callable[[str], str] = str
    """Returns the key as the column contains it, in whichever notation the user gives it."""


TABLES: Final[Mapping[str, _Table]] = {
    "repository": _Table(
        name="oai_repository", key="repository_id", labels=("repository_name", "base_url"),
        secret=("examination", "profile"),
    ),
    "schedule": _Table(name="oai_recurring_job", key="id", labels=()),
    "job": _Table(name="oai_job", key="job_id", labels=()),
    "run": _Table(name="oai_history", key="history_id", labels=()),
    "error": _Table(name="oai_quarantine", key="quarantine_id", labels=("identifier",), secret=("raw",)),
    "rule": _Table(name="oai_rule", key="rule_id", alias="name"),
    "notification rule": _Table(
        name="notice_rule", key="rule_id", labels=("target",), secret=("signing_key", "next_key")
    ),
    "mute": _Table(name="mute", key="mute_id", labels=()),
    "takedown": _Table(name="takedown", key="takedown_id", labels=(), secret=("requester",)),
    "audit schedule": _Table(name="oai_store_audit_schedule", key="schedule_id", labels=("frequency",)),
    "filtering set": _Table(name="bibliographic_set", key="set_id", alias="name"),
    "import source": _Table(name="bibliographic_source", key="repository_id", labels=()),
    "aggregate source": _Table(name="aggregate_source", key="repository_id", labels=()),
    "collection": _Table(name="collection", key="set_spec"),
    "document": _Table(name="document", key="key", labels=("url",), spelling=_document_key),
    "export": _Table(name="prepared_export", key="export_id", labels=("title",)),
    "user": _Table(
        name="web_user", key="user_id", alias="name",
        secret=("password_hash", "last_sign_in", "totp_secret", "totp_step"),
    ),
    "organisation": _Table(name="web_organisation", key="organisation_id", alias="short_name"),
    "token": _Table(name="web_api_token", key="token_id", secret=("token_hash", "last_used")),
}  # fmt: skip

_PLAIN_KINDS: Final = (
    "aggregate source", "archive", "collection", "document", "error", "export", "filtering set",
    "import source", "job", "mute", "notification address", "notification rule", "organisation", "repository",
    "rule", "run", "schedule", "self-test", "store audit", "titles", "token", "user", "worker",
)  # fmt: skip
KIND_TITLES: Final[Mapping[str, str]] = {
    **{kind: kind for kind in _PLAIN_KINDS},
    "audit schedule": "schedule of store audits",
    "keys": "signing keys",
    "mail": "e-mail",
    "takedown": "take-down",
}
"""What people read instead of a kind of object, in English."""


@dataclass(frozen=True, kw_only=True)
class Snapshot:
    """The current row of an object."""

    number: str
    name: str | None
    columns: Mapping[str, Any]


def snapshot(session: Session, kind: str, number: str | None) -> Snapshot | None:
    """Return the row of an object by its number or command-line name; None if there is none."""
    table = TABLES.get(kind)
    if table is None or number is None:
        return None
    named = table.alias is not None and not number.isdecimal()
    column = table.alias if named else table.key
    statement = text(
        f"SELECT CAST({table.key} AS text), to_jsonb(t) - CAST(:secret AS text[])"  # noqa: S608 constant names
        f" FROM {table.name} t WHERE CAST({column} AS text) = :number"
    )
    given = {"secret": list(table.secret), "number": table.spelling(_storable(number))}
    row = session.execute(statement, given).first()
    if row is None:
        return None
    found, columns = row
    name = next((columns[label] for label in table.labels if columns.get(label)), None)
    if name is None and kind != "repository" and columns.get("repository_id") is not None:
        of = snapshot(session, "repository", str(columns["repository_id"]))
        name = of.name if of else None
    return Snapshot(number=found, name=name, columns=columns)


@dataclass(frozen=True, kw_only=True)
class Begun:
    """A change in progress: its entry, and the object before the change."""

    audit_id: int
    kind: str
    number: str | None
    before: Snapshot | None


def begin(session: Session, action: str, who: Actor, subject: Subject) -> Begun:
    """Write and commit the entry of a change before the change is made."""
    before = snapshot(session, subject.kind, subject.number)
    entry = AuditEntry(status=BEGUN, **_columns(action, who, subject))
    session.add(entry)
    session.flush()
    begun = Begun(audit_id=entry.audit_id, kind=subject.kind, number=subject.number, before=before)
    session.commit()
    return begun


def settle(
    session: Session, begun: Begun, who: Actor, subject: Subject, *, status: int, audit_days: float
) -> None:
    """Complete a change's entry, or count it as a refusal; delete entries older than `audit_days`. Commits.

    Rejected input (400, 422) and rate-limited requests (429) change nothing and are not refusals of a
    right: their entry is deleted.
    """
    entry = session.get(AuditEntry, begun.audit_id)
    if entry is None:
        return
    if _FIRST_REFUSAL <= status < _FIRST_FAULT:
        session.delete(entry)
        if status in _REFUSALS:
            refuse(session, entry.action, who, subject, status)
    else:
        entry.status, entry.user_id, entry.user_name, entry.via = status, who.user_id, who.name, who.via
        _complete(session, entry, begun, subject)
    _forget(session, audit_days)
    session.commit()


def refuse(session: Session, action: str, who: Actor, subject: Subject | None, status: int) -> None:
    """Count a refusal in this hour's entry for the same user, action and status. The caller commits.

    Two concurrent refusals may create two entries; the sum of their counts is still correct.
    """
    same = (
        AuditEntry.action == action,
        AuditEntry.status == status,
        AuditEntry.user_name.is_not_distinct_from(who.name),
        AuditEntry.at >= func.date_trunc("hour", func.now()),
    )
    newest = select(func.max(AuditEntry.audit_id)).where(*same).scalar_subquery()
    counted = session.execute(
        update(AuditEntry)
        .where(AuditEntry.audit_id == newest)
        .values(count=AuditEntry.count + 1)
        .returning(AuditEntry.audit_id)
    ).first()
    if counted is None:
        session.add(AuditEntry(status=status, **_columns(action, who, subject)))


def record(
    session: Session, action: str, who: Actor, subject: Subject | None, *, status: int, audit_days: float
) -> None:
    """Write the entry of an action that needs no snapshots: a sign-in, an export. The caller commits."""
    before = _public(subject.before) if subject is not None else None
    entry = AuditEntry(
        status=status, before=before, after=_details(subject), **_columns(action, who, subject)
    )
    session.add(entry)
    _forget(session, audit_days)


def list_entries(
    session: Session, wanted: Filter, *, limit: int = _PAGE, before: int | None = None
) -> list[AuditEntry]:
    """Return up to `limit` entries, newest first; `before` is the last `audit_id` of the previous page."""
    rows = _filtered(wanted).limit(limit)
    if before is not None:
        rows = rows.where(AuditEntry.audit_id < before)
    return list(session.scalars(rows))


def last_change(
    session: Session, kind: str, number: object, actions: Sequence[str] = ()
) -> AuditEntry | None:
    """Return the entry of the last change of an object, if there was one within a day.

    Sign-ins, runs and other actions that leave the object's columns as they are do not count. With
    `actions`, only these do.
    """
    wanted = Filter(kind=kind, number=str(number), since=datetime.now(UTC) - timedelta(days=1))
    changed = AuditEntry.before.is_distinct_from(AuditEntry.after)
    if actions:
        changed = AuditEntry.action.in_(actions)
    done = AuditEntry.status.between(BEGUN + 1, _FIRST_REFUSAL - 1)
    return session.scalar(_filtered(wanted).where(done, changed).limit(1))


class AuditVocabulary(NamedTuple):
    """What the last entries contain, each in alphabetical order."""

    users: Sequence[str]
    actions: Sequence[str]
    kinds: Sequence[str]


def audit_vocabulary(session: Session) -> AuditVocabulary:
    """Return the users, actions and object kinds of the last 10,000 entries."""
    columns = (AuditEntry.user_name, AuditEntry.action, AuditEntry.object_kind)
    last = select(*columns).order_by(AuditEntry.audit_id.desc()).limit(_LOOKED_AT).subquery()
    found = session.execute(select(*last.c).distinct()).all()
    return AuditVocabulary(*(sorted({row[place] for row in found} - {None}) for place in range(len(columns))))


def _filtered(wanted: Filter) -> Select[AuditEntry]:
    rows = select(AuditEntry).order_by(AuditEntry.audit_id.desc())
    if wanted.action:
        words: Sequence[str] = (wanted.action, *OLD_WORDS.get(wanted.action, ()))
        rows = rows.where(or_(*(AuditEntry.action == word for word in words)))
    for column, value in (
        (AuditEntry.user_name, wanted.user),
        (AuditEntry.object_kind, wanted.kind),
        (AuditEntry.object_id, wanted.number),
    ):
        if value:
            rows = rows.where(column == value)
    if wanted.since is not None:
        rows = rows.where(AuditEntry.at >= wanted.since)
    if wanted.until is not None:
        rows = rows.where(AuditEntry.at < wanted.until)
    return rows


def _complete(session: Session, entry: AuditEntry, begun: Begun, subject: Subject) -> None:
    """Add the object's values before and after the change to the entry.

    The earlier snapshot is discarded if the command names another object, the one that it created.
    """
    number = subject.number or (begun.before.number if begun.before else None)
    after = snapshot(session, subject.kind, number)
    before = begun.before
    if before is not None and (begun.kind != subject.kind or not _is_same(before, after or before)):
        before = None
    known = after or before
    entry.action, entry.object_kind = subject.action or entry.action, subject.kind
    entry.object_id = _public(known.number if known else number)
    entry.object_name = _public(subject.name or (known.name if known else None))
    was, now = before.columns if before else {}, after.columns if after else {}
    is_new = begun.before is None and (begun.kind, begun.number) == (subject.kind, number)
    if before is None and not is_new and not entry.action.endswith(_ADDS):
        # Without the earlier row, what changed is unknown; the whole row would read as new.
        now = {}
    changed = {name for name in {*was, *now} if was.get(name) != now.get(name)}
    entry.before = _abridged(was, changed)
    entry.after = {**(_abridged(now, changed) or {}), **(_details(subject) or {})} or None


def _is_same(before: Snapshot, after: Snapshot) -> bool:
    """Return whether both are one object, also if its number changed: the setSpec of a collection."""
    one, other = (found.columns.get("id", found.number) for found in (before, after))
    return bool(one == other)


def _abridged(columns: Mapping[str, Any], names: set[str]) -> dict[str, Any] | None:
    """Return these columns without NULLs; long values are truncated so that one entry cannot fill the log."""
    found = {name: _public(columns[name]) for name in sorted(names) if columns.get(name) is not None}
    for name, value in found.items():
        if len(str(value)) > _LONGEST_VALUE:
            found[name] = f"{str(value)[:_LONGEST_VALUE]}…"
    return found or None


def _details(subject: Subject | None) -> dict[str, Any] | None:
    return _public(dict(subject.details)) if subject is not None and subject.details else None


def _public(value: Any) -> Any:  # noqa: ANN401 any JSON value
    """Return the storable value, with all URLs (base URLs, targets of rules) without credentials."""
    if isinstance(value, str):
        return without_credentials(_storable(value))
    if isinstance(value, Mapping):
        return {name: _public(one) for name, one in value.items()}
    return [_public(one) for one in value] if isinstance(value, list | tuple) else value


def _storable(value: str) -> str:
    """Replace what the database does not take, such as undecodable bytes of arguments and paths."""
    return value.encode("utf-8", "backslashreplace").decode().replace("\0", "\N{REPLACEMENT CHARACTER}")


def _columns(action: str, who: Actor, subject: Subject | None) -> dict[str, Any]:
    return {
        "action": action,
        "user_id": who.user_id,
        "user_name": who.name,
        "via": who.via,
        "address": who.address,
        "object_kind": subject.kind if subject else None,
        "object_id": _public(subject.number) if subject else None,
        "object_name": _public(subject.name) if subject else None,
    }


def _forget(session: Session, days: float) -> None:
    """Delete the oldest entries that are past their time, few at once: a user waits for it."""
    if days:
        past = select(AuditEntry.audit_id).where(AuditEntry.at < func.now() - timedelta(days=days))
        # Two changes at once delete others each, and do not wait for one another.
        oldest = past.order_by(AuditEntry.at).limit(_FORGOTTEN_AT_ONCE).with_for_update(skip_locked=True)
        session.execute(delete(AuditEntry).where(AuditEntry.audit_id.in_(oldest)))

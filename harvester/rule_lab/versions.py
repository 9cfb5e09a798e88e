"""Rule files with their versions: add, save and restore them. The caller commits.

Harvests read the file below the data folder, which is authoritative: saving writes it, atomically, before the
transaction ends. A change made in the file by other means is stored as a version before the file is replaced.
"""

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from sqlalchemy import Select, func, select
from sqlalchemy.orm import Session

from harvester.listing import Among
from harvester.models import Repository
from harvester.rule_lab import explanation
from harvester.rule_lab.explanation import read_rules
from harvester.rule_lab.files import adopted_path, free_path, read_file, write_file
from harvester.rule_lab.models import Rule, RuleVersion
from harvester.rules.rule_files import RuleFileError
from harvester.vocabulary import RuleKind
from oai.database import one_at_a_time
from oai.errors import ConflictError, UsageError
from oai.folding import contains_folded
from oai.owners import owner_of
from oai.settings import Settings

_LONGEST_NAME: Final = 200
FOUND: Final = "found in the file"
"""The note of a version that was made by changing the file."""
AGAIN: Final = "version %(number)s again"
"""The note of a version that restores an older one."""


@dataclass(frozen=True, kw_only=True)
class RuleView:
    """A rule as lists show it, with its last version."""

    rule: Rule
    version: RuleVersion
    repository_name: str | None
    """The name of the repository to which it belongs; None if it belongs to all."""


def list_rules(
    session: Session,
    *,
    among: Among = None,
    kind: RuleKind | None = None,
    repository_id: int | None = None,
    words: str = "",
    after: int = 0,
    limit: int | None = None,
) -> Sequence[RuleView]:
    """Return rules ordered by number, after number `after`; with `among`, only of these repositories.

    `words` are a part of the name, whatever its case and accents.
    """
    query = _with_last_versions().where(Rule.rule_id > after)
    if among is not None:
        query = query.where(Rule.repository_id.in_(among))
    if kind is not None:
        query = query.where(Rule.kind == kind.value)
    if repository_id is not None:
        query = query.where(Rule.repository_id == repository_id)
    if words:
        query = query.where(contains_folded(Rule.name, words))
    rows = session.execute(query.order_by(Rule.rule_id).limit(limit))
    return [RuleView(rule=rule, version=version, repository_name=name) for rule, version, name in rows]


def _with_last_versions() -> Select[Rule, RuleVersion, str | None]:
    """Select rules, each with its last version, and the name of its repository."""
    newest = (
        select(RuleVersion.rule_id, func.max(RuleVersion.number).label("number"))
        .group_by(RuleVersion.rule_id)
        .subquery()
    )
    return (
        select(Rule, RuleVersion, Repository.display_name)
        .join(newest, newest.c.rule_id == Rule.rule_id)
        .join(
            RuleVersion,
            (RuleVersion.rule_id == Rule.rule_id) & (RuleVersion.number == newest.c.number),
        )
        .outerjoin(Repository, Repository.repository_id == Rule.repository_id)
    )


def get_rule(session: Session, rule_id: int, *, lock: bool = False) -> Rule:
    """Return the rule with that number. Raises UsageError if there is none."""
    rule = session.get(Rule, rule_id, with_for_update=lock or None)
    if rule is None:
        raise UsageError("no rule %(number)s; list rules with `zatva rule list`", number=rule_id)
    return rule


def find_rule(session: Session, named: str) -> Rule:
    """Return the rule with that number or name. Raises UsageError if there is none, or several."""
    if named.isascii() and named.isdigit():
        return get_rule(session, int(named))
    found = session.scalars(select(Rule).where(Rule.name == named).order_by(Rule.rule_id)).all()
    if not found:
        raise UsageError("no rule %(name)s; list rules with `zatva rule list`", name=repr(named))
    if len(found) > 1:
        numbers = ", ".join(str(rule.rule_id) for rule in found)
        raise UsageError(
            "several rules are named %(name)s: %(numbers)s; give a number", name=repr(named), numbers=numbers
        )
    return found[0]


def last_version(session: Session, rule_id: int) -> RuleVersion:
    """Return the current version."""
    query = select(RuleVersion).where(RuleVersion.rule_id == rule_id)
    return session.scalars(query.order_by(RuleVersion.number.desc()).limit(1)).one()


def get_version(session: Session, rule_id: int, number: int) -> RuleVersion:
    """Return the version with that number. Raises UsageError if there is none."""
    query = select(RuleVersion).where(RuleVersion.rule_id == rule_id, RuleVersion.number == number)
    found = session.scalars(query).one_or_none()
    if found is None:
        raise UsageError("rule %(rule)s has no version %(number)s", rule=rule_id, number=number)
    return found


def list_versions(session: Session, rule_id: int, *, most: int = 200) -> list[RuleVersion]:
    """Return the versions, newest first."""
    query = select(RuleVersion).where(RuleVersion.rule_id == rule_id)
    return list(session.scalars(query.order_by(RuleVersion.number.desc()).limit(most)))


def version_of_digest(session: Session, digest: str, *, among: Among = None) -> RuleVersion | None:
    """Return the latest version with that content; None if there is none."""
    query = (
        select(RuleVersion)
        .join(Rule, Rule.rule_id == RuleVersion.rule_id)
        .where(RuleVersion.digest == digest)
        .order_by(RuleVersion.version_id.desc())
    )
    if among is not None:
        query = query.where(Rule.repository_id.in_(among))
    return session.scalars(query.limit(1)).one_or_none()


def difference(older: RuleVersion | None, newer: RuleVersion, *, title: str = "version %(number)s") -> str:
    """Return what the newer version changed, as a unified diff; for the first version, its text.

    `title` names the two versions.
    """
    if older is None:
        return as_text(newer.content)
    names = (title % {"number": older.number}, title % {"number": newer.number})
    return explanation.difference(as_text(older.content), as_text(newer.content), names=names)


def as_text(content: bytes) -> str:
    """Decode a rule file for display; it is in UTF-8 unless it was written by other means."""
    return content.decode("utf-8-sig", errors="replace")


@dataclass(frozen=True, kw_only=True)
class RuleDraft:
    """The columns of a new rule."""

    kind: RuleKind
    name: str
    content: bytes
    description: str = ""
    repository_id: int | None = None


def add_rule(
    session: Session, settings: Settings, draft: RuleDraft, *, by: str | None, note: str = "", path: str = ""
) -> Rule:
    """Register a rule and write its file; `path`, below the data folder, names an existing file instead.

    Raises RuleFileError for invalid rules, and UsageError for an empty name, a missing repository, or a file
    that is already registered.
    """
    name = " ".join(draft.name.split())
    if not name or len(name) > _LONGEST_NAME:
        raise UsageError("a rule needs a name of at most %(most)s characters", most=_LONGEST_NAME)
    read_rules(draft.content, draft.kind, source=name)
    if draft.repository_id is not None and session.get(Repository, draft.repository_id) is None:
        raise UsageError("no repository %(number)s", number=draft.repository_id)
    one_at_a_time(session, "add rule")
    owner = None if draft.repository_id is None else owner_of(session, draft.repository_id)
    place = adopted_path(session, settings, path) if path else free_path(session, settings, name, owner)
    rule = Rule(
        kind=draft.kind.value,
        name=name,
        description=draft.description.strip(),
        repository_id=draft.repository_id,
        path=place,
    )
    session.add(rule)
    session.flush()
    _keep(session, rule, draft.content, by=by, note=note)
    write_file(settings, rule, draft.content)
    return rule


def save_version(
    session: Session,
    settings: Settings,
    rule_id: int,
    content: bytes,
    *,
    by: str | None,
    note: str = "",
    based_on: int | None = None,
) -> RuleVersion:
    """Save new content as a new version; unchanged content makes no new version.

    `based_on` is the version that was edited: raises ConflictError if there is a newer one with other
    content. Raises RuleFileError for invalid rules.
    """
    # Locked until the commit: of two concurrent saves, the second one sees the first one's version.
    rule = get_rule(session, rule_id, lock=True)
    read_rules(content, RuleKind(rule.kind), source=rule.name)
    known, last = last_version(session, rule_id), keep_found(session, settings, rule)
    if last.content == content:
        # The file may have been deleted or damaged.
        write_file(settings, rule, content)
        return last
    _check_based_on(known, based_on)
    version = _keep(session, rule, content, by=by, note=note)
    write_file(settings, rule, content)
    return version


def _check_based_on(last: RuleVersion, based_on: int | None) -> None:
    if based_on is not None and based_on != last.number:
        raise ConflictError(
            "version %(newer)s was saved while you were editing version %(older)s; review it and "
            "edit that version",
            newer=last.number,
            older=based_on,
        )


def keep_found(session: Session, settings: Settings, rule: Rule) -> RuleVersion:
    """Store a change made in the file by other means as a version; returns the last version.

    An unusable or missing file is ignored.
    """
    last = last_version(session, rule.rule_id)
    found = read_file(settings, rule)
    if found is None or found == last.content or usable(found, rule) is not None:
        return last
    return _keep(session, rule, found, by=None, note=FOUND)


def restore(
    session: Session,
    settings: Settings,
    rule_id: int,
    number: int,
    *,
    by: str | None,
    based_on: int | None = None,
) -> RuleVersion:
    """Make an old version current again, as a new version; `based_on` as for `save_version`.

    Raises UsageError if there is none.
    """
    old = get_version(session, rule_id, number)
    note = AGAIN % {"number": number}
    return save_version(session, settings, rule_id, old.content, by=by, note=note, based_on=based_on)


def remove_rule(session: Session, rule_id: int) -> Rule:
    """Unregister a rule: its versions are deleted, the file is kept."""
    rule = get_rule(session, rule_id)
    session.delete(rule)
    session.flush()
    return rule


def usable(content: bytes, rule: Rule) -> RuleFileError | None:
    """Return what is wrong with the content; None if it can be used."""
    try:
        read_rules(content, RuleKind(rule.kind), source=rule.path)
    except RuleFileError as error:
        return error
    return None


def digest_of(content: bytes) -> str:
    """Return the SHA-256 in hexadecimal digits."""
    return hashlib.sha256(content).hexdigest()


def _keep(session: Session, rule: Rule, content: bytes, *, by: str | None, note: str) -> RuleVersion:
    last = session.scalar(select(func.max(RuleVersion.number)).where(RuleVersion.rule_id == rule.rule_id))
    version = RuleVersion(
        rule_id=rule.rule_id,
        number=(last or 0) + 1,
        content=content,
        digest=digest_of(content),
        saved_by=by,
        note=" ".join(note.split()),
    )
    session.add(version)
    session.flush()
    session.refresh(version)
    return version

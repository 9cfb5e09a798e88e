"""Rules and their versions, looked up and compared."""

import difflib
from collections.abc import Sequence
from dataclasses import dataclass

from sqlalchemy import Select, func, select
from sqlalchemy.orm import Session

from harvester.listing import Among
from harvester.models import Repository
from harvester.rule_lab.kinds import RuleKind
from harvester.rule_lab.models import Rule, RuleVersion
from oai.errors import UsageError


@dataclass(frozen=True, kw_only=True)
class RuleView:
    """A rule as lists show it, with its last version."""

    rule: Rule
    version: RuleVersion
    repository_name: str | None
    """Of the repository that it belongs to; None where it belongs to all."""


def list_rules(
    session: Session,
    *,
    among: Among = None,
    kind: RuleKind | None = None,
    repository_id: int | None = None,
    after: int = 0,
    limit: int = 500,
) -> Sequence[RuleView]:
    """Rules by number, behind the one numbered `after`; with `among`, those of these repositories alone."""
    query = _with_last_versions().where(Rule.rule_id > after)
    if among is not None:
        query = query.where(Rule.repository_id.in_(among))
    if kind is not None:
        query = query.where(Rule.kind == kind.value)
    if repository_id is not None:
        query = query.where(Rule.repository_id == repository_id)
    rows = session.execute(query.order_by(Rule.rule_id).limit(limit))
    return [
        RuleView(rule=rule, version=version, repository_name=name or address)
        for rule, version, name, address in rows
    ]


def _with_last_versions() -> Select[Rule, RuleVersion, str | None, str]:
    """Rules, each with its last version, and the name and address of its repository."""
    newest = (
        select(RuleVersion.rule_id, func.max(RuleVersion.number).label("number"))
        .group_by(RuleVersion.rule_id)
        .subquery()
    )
    return (
        select(Rule, RuleVersion, Repository.repository_name, Repository.base_url)
        .join(newest, newest.c.rule_id == Rule.rule_id)
        .join(
            RuleVersion,
            (RuleVersion.rule_id == Rule.rule_id) & (RuleVersion.number == newest.c.number),
        )
        .outerjoin(Repository, Repository.repository_id == Rule.repository_id)
    )


def get_rule(session: Session, rule_id: int, *, lock: bool = False) -> Rule:
    """The rule of that number. Raises UsageError where there is none."""
    rule = session.get(Rule, rule_id, with_for_update=lock or None)
    if rule is None:
        raise UsageError("no rule %(number)s; list rules with `zatva rule list`", number=rule_id)
    return rule


def find_rule(session: Session, named: str) -> Rule:
    """The rule of that number or name. Raises UsageError where there is none, or there are several."""
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
    """The version that is in force."""
    query = select(RuleVersion).where(RuleVersion.rule_id == rule_id)
    return session.scalars(query.order_by(RuleVersion.number.desc()).limit(1)).one()


def get_version(session: Session, rule_id: int, number: int) -> RuleVersion:
    """The version of that number. Raises UsageError where there is none."""
    query = select(RuleVersion).where(RuleVersion.rule_id == rule_id, RuleVersion.number == number)
    found = session.scalars(query).one_or_none()
    if found is None:
        raise UsageError("rule %(rule)s has no version %(number)s", rule=rule_id, number=number)
    return found


def list_versions(session: Session, rule_id: int, *, most: int = 200) -> list[RuleVersion]:
    """The versions, the newest first."""
    query = select(RuleVersion).where(RuleVersion.rule_id == rule_id)
    return list(session.scalars(query.order_by(RuleVersion.number.desc()).limit(most)))


def version_of_digest(
    session: Session, digest: str | None, *, path: str = "", among: Among = None
) -> RuleVersion | None:
    """The version with that content, of the file at `path` rather than of another, if there is one."""
    if digest is None:
        return None
    query = (
        select(RuleVersion)
        .join(Rule, Rule.rule_id == RuleVersion.rule_id)
        .where(RuleVersion.digest == digest)
        .order_by((Rule.path == path).desc(), RuleVersion.version_id.desc())
    )
    if among is not None:
        query = query.where(Rule.repository_id.in_(among))
    return session.scalars(query.limit(1)).one_or_none()


def difference(older: RuleVersion | None, newer: RuleVersion) -> str:
    """What the newer version changed, as a unified diff; of the first one, its text."""
    if older is None:
        return as_text(newer.content)
    return "\n".join(
        difflib.unified_diff(
            as_text(older.content).splitlines(),
            as_text(newer.content).splitlines(),
            f"version {older.number}",
            f"version {newer.number}",
            n=2,
            lineterm="",
        )
    )


def as_text(content: bytes) -> str:
    """A rule file as text for people; it is in UTF-8 unless it came from elsewhere."""
    return content.decode("utf-8-sig", errors="replace")

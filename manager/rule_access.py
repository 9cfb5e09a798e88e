"""Which rule files a schedule or job may name: those of an organisation only the organisation's rules.

Rows without an organisation belong to the administrators, who may name any file. The check needs no access to
the named files: for an organisation, a file that does not exist and a file of others are the same.
"""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Final

from sqlalchemy import select
from sqlalchemy.orm import Session

from harvester.rule_lab.models import Rule
from harvester.vocabulary import RuleKind
from manager.models import Job, RecurringJob
from oai.errors import UsageError
from oai.folding import folded_column
from oai.owners import Organisation, RepositoryOwner, owner_of

RULE_COLUMNS: Final[Mapping[str, RuleKind]] = {
    "filter_file_path": RuleKind.FILTER,
    "normalize_file_path": RuleKind.NORMALISE,
}


class RuleAccessError(UsageError):
    """A rule file that its row's organisation may not use.

    Without the path, which may be absolute: the organisation's users read this.
    """

    def __init__(self, words: str, *, name: str, organisation: str) -> None:
        super().__init__(words, name=name, organisation=organisation)
        self.column = name


def rules_of(session: Session, organisation_id: int | None) -> Sequence[Rule]:
    """Return the rules of the organisation's repositories, by name; none without an organisation."""
    query = (
        select(Rule)
        .join(RepositoryOwner, RepositoryOwner.repository_id == Rule.repository_id)
        .where(RepositoryOwner.organisation_id == organisation_id)
    )
    return session.scalars(query.order_by(folded_column(Rule.name), Rule.rule_id)).all()


def spellings_of(rule: Rule, data: Path) -> frozenset[str]:
    """Return the absolute paths by which rows name the rule's file."""
    return frozenset(str(root / rule.path) for root in (data, data.resolve()))


def rule_file_shown(path: str, data: Path | None) -> str:
    """Return a rule file's path as users of an organisation may see it: below the data folder if it is there.

    Only administrators may know where the data folder is.
    """
    for root in () if data is None else (data, data.resolve()):
        if Path(path).is_relative_to(root):
            return Path(path).relative_to(root).as_posix()
    return path


def organisation_of(session: Session, row: RecurringJob | Job) -> Organisation | None:
    """Return the organisation of the row's repository, or else the one that the row names as owner."""
    owner = owner_of(session, row.repository_id)
    if owner is None and row.owner:
        named = select(Organisation).where(Organisation.short_name == row.owner)
        owner = session.scalars(named).one_or_none()
    return owner


def check_rule_access(session: Session, row: RecurringJob | Job, data: Path | None) -> None:
    """Raise UsageError if the row belongs to an organisation and names a file that is none of its rules."""
    named = {(kind, path): name for name, kind in RULE_COLUMNS.items() if (path := getattr(row, name))}
    organisation = organisation_of(session, row) if named else None
    if organisation is None:
        return
    theirs = {
        (rule.kind, path)
        for rule in rules_of(session, organisation.organisation_id)
        for path in (() if data is None else spellings_of(rule, data))
    }
    for file, name in named.items():
        if file not in theirs:
            raise RuleAccessError(
                "%(name)s is not a rule of %(organisation)s; choose one of the organisation's rules",
                name=name,
                organisation=organisation.short_name,
            )

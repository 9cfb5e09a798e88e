"""Changes of access: a collection's rule, and embargoes that end automatically.

A change of rule moves the datestamps of exactly those documents whose effective rule it changes (see
`holdings.rules`). Harvesters see withheld documents as deleted if they were ever listed; those never
listed have the datestamp `UNLISTED`, which is never due, until they are opened.
"""

import logging

from sqlalchemy import func, select, update
from sqlalchemy.orm import Session

from provider.holdings.collections import find_collection
from provider.holdings.membership import settle_collection
from provider.holdings.publication import CHUNK, Check, no_check
from provider.holdings.rules import Rule, change_tree, check_rule
from provider.holdings.takedowns import settle_takedowns
from provider.models import Access, Collection
from provider.titles.access import settle_access

_log = logging.getLogger(__name__)


def set_rule(session: Session, set_spec: str, rule: Rule, *, margin: float, chunk: int = CHUNK) -> int:
    """Set a collection's rule; return the number of documents whose effective rule changed.

    Commits: first the rule, then the documents in several transactions; after an interruption, `refresh`
    finishes them. Raises UsageError for an unknown collection, and for an embargo without an end or with
    an end in the past.
    """
    check_rule(rule)
    # Taken before the collection is read, so that no other change of tree or rules comes in between.
    change_tree(session)
    collection = find_collection(session, set_spec)
    if (collection.access, collection.embargo_until) != (rule.access, rule.embargo_until):
        collection.access, collection.embargo_until = rule.access, rule.embargo_until
        session.flush()
        session.execute(
            update(Collection).where(Collection.id == collection.id).values(unsettled=func.clock_timestamp())
        )
    number = collection.id
    session.commit()
    return settle_collection(session, number, margin=margin, chunk=chunk)


def lift_embargoes(session: Session, *, margin: float, check: Check = no_check) -> int:
    """Open collections whose embargo has ended by the database's clock; return how many documents changed.

    Documents that are also in a collection with a stricter rule keep that rule. Commits. Costs almost
    nothing if no embargo has ended.
    """
    ended = (Collection.access == Access.EMBARGO, Collection.embargo_until <= func.now())
    found = session.scalar(select(Collection.id).where(*ended).limit(1))
    session.rollback()
    if found is None:
        return 0
    change_tree(session)
    lifted = session.execute(
        update(Collection)
        .where(*ended)
        .values(access=Access.OPEN, embargo_until=None, unsettled=func.clock_timestamp())
        .returning(Collection.id, Collection.set_spec)
    ).all()
    session.commit()
    for row in lifted:
        _log.info("the embargo on %s has ended; its documents are now open", row.set_spec)
    return sum(settle_collection(session, row.id, margin=margin, check=check) for row in lifted)


def refresh(session: Session, *, margin: float, check: Check = no_check) -> int:
    """End embargoes and take-downs in time, finish interrupted changes; return how many documents changed.

    Commits; `check` is called periodically and may raise to stop. Costs almost nothing if there is
    nothing to do.
    """
    lifted = lift_embargoes(session, margin=margin, check=check)
    taken_down = settle_takedowns(session, margin=margin, check=check)
    return lifted + taken_down + settle_access(session, margin=margin, check=check)

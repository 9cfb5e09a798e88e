"""What a notice waits for: confirmation of its address, an earlier notice, or the report that has that."""

from typing import Final

from sqlalchemy import (
    ARRAY,
    BigInteger,
    ColumnElement,
    Subquery,
    Text,
    and_,
    cast,
    exists,
    func,
    literal,
    or_,
    select,
    union_all,
    update,
)
from sqlalchemy.orm import Session, aliased

from manager.notices.models import (
    Channel,
    Notice,
    NoticeAddress,
    NoticeRule,
    NoticeState,
    Occasion,
    UnsentReason,
)
from oai.owners import RepositoryOwner

URGENT: Final = (Occasion.TEST, Occasion.CONFIRM)
"""Those for which a person waits."""
_ORDERED: Final = or_(Notice.rule_id.is_not(None), Notice.channel == Channel.HOOK)
_UNSENT: Final = (Notice.ended.is_(None), Notice.occasion.not_in(URGENT))


def _queues() -> Subquery:
    """Return the unsent notices that have an order, each with the first to its recipient and repository.

    The columns of the first begin with `first_`. Notices in an unsent report are unsent, too.
    """
    report = aliased(Notice)
    reports = select(report.notice_id).where(report.ended.is_(None), report.occasion == Occasion.REPORT)
    # Numbers are first, because they are compared fast; an array, so that its index is used.
    recipient = (Notice.rule_id, Notice.repository_id, Notice.channel, Notice.target)
    shown = (Notice.notice_id, Notice.state, Notice.tries, Notice.report_id)
    columns = select(*recipient, *shown, Notice.last_error)
    reported = Notice.report_id == func.any(func.array(reports.scalar_subquery()))
    rows = union_all(
        columns.where(*_UNSENT, _ORDERED, Notice.occasion != Occasion.REPORT), columns.where(reported)
    ).subquery()
    same = [rows.c[column.key] for column in recipient]
    first = [
        func.first_value(rows.c[column.key])
        .over(partition_by=same, order_by=rows.c.notice_id)
        .label(f"first_{column.key}")
        for column in shown
    ]
    return select(rows, *first).subquery()


def is_next() -> ColumnElement[bool]:
    """Return whether no earlier notice to the same recipient about the same repository is still unsent.

    A report has the earliest notices of each of its repositories, so it waits for none.
    """
    # By the set: a condition on each notice would compare each of thousands with each.
    rows = _queues()
    is_first = Notice.notice_id.in_(
        select(rows.c.notice_id).where(rows.c.first_notice_id == rows.c.notice_id)
    )
    # A link to confirm the address does not wait for the notices that wait for it, nor a test for others.
    return or_(~_ORDERED, Notice.occasion.in_((*URGENT, Occasion.REPORT)), is_first)


def is_unconfirmed() -> ColumnElement[bool]:
    """Return whether the recipient was given by a partner and has not confirmed the address."""
    return and_(
        Notice.channel == Channel.MAIL,
        Notice.occasion != Occasion.CONFIRM,
        exists().where(
            NoticeRule.rule_id == Notice.rule_id,
            RepositoryOwner.repository_id == NoticeRule.repository_id,
            NoticeAddress.organisation_id == RepositoryOwner.organisation_id,
            NoticeAddress.address == func.lower(Notice.target),
            NoticeAddress.confirmed.is_(None),
        ),
    )


def mark_waiting(session: Session) -> None:
    """Note with notices that are not tried yet what they wait for. The caller commits.

    The confirmation of their address, an earlier notice whose attempts fail, or a report.
    """
    unsent = update(Notice).execution_options(synchronize_session=False)
    session.execute(
        unsent.where(Notice.ended.is_(None), Notice.last_error.is_(None), is_unconfirmed()).values(
            last_error=UnsentReason.UNCONFIRMED.value
        )
    )
    queued = _queues().c
    number = cast(func.coalesce(queued.first_report_id, queued.first_notice_id), Text)
    behind = func.replace(UnsentReason.BEHIND.value, "%(number)s", number)
    fails = and_(queued.first_state == NoticeState.WAITING, queued.first_tries > 0)
    # Apart from the update: a join with these rows, of which PostgreSQL expects few, would compare each of
    # thousands with each.
    waiting = session.execute(
        select(queued.notice_id, behind).where(
            queued.state == NoticeState.WAITING,
            queued.tries == 0,
            queued.first_notice_id < queued.notice_id,
            or_(fails, queued.first_state == NoticeState.COLLECTED),
            queued.last_error.is_distinct_from(behind),
        )
    ).all()
    if waiting:
        numbers, reasons = map(list, zip(*waiting, strict=True))
        given = func.unnest(literal(numbers, ARRAY(BigInteger)), literal(reasons, ARRAY(Text)))
        new = given.table_valued("number", "reason").render_derived()
        session.execute(
            unsent.where(
                Notice.notice_id == new.c.number, Notice.state == NoticeState.WAITING, Notice.tries == 0
            ).values(last_error=new.c.reason)
        )

"""A new rule for schedules that the wizard has just made: the editor's first values, and the rule's use."""

from collections.abc import Mapping
from typing import Any, Final

from aiohttp import web
from sqlalchemy import func, select
from sqlalchemy.orm import Session

from harvester.models import Repository
from harvester.rule_lab import versions
from harvester.rule_lab.models import Rule
from manager.models import RecurringJob
from manager.rule_access import RULE_COLUMNS, check_rule_access
from manager.schedules.service import change_schedule
from oai.audit import snapshot
from web.auth.access import visible_repositories, who_asks
from web.auth.audit import record_beside
from web.repositories.wizard_saving import MOST_SETS
from web.rules.trials import LIVE
from web.site.keys import SETTINGS
from web.site.paging import as_number

_SAMPLE: Final = ("source", "metadata_prefix", "set_spec")


def values_given(query: Mapping[str, str]) -> dict[str, str]:
    """Return the editor's values that an address names: owner, sample records, schedules to get the rule."""
    owner = query.get("repository", "")
    values = {f"sample_{name}": query[name] for name in _SAMPLE if query.get(name)}
    values |= {"repository_id": owner, "sample_repository": owner}
    if query.get("source") == LIVE:  # only the wizard asks for the first page
        values |= {"origin": owner, "schedules": query.get("schedules", "")}
    return values


def page_before(values: Mapping[str, Any]) -> str:
    """Return the page from which the editor was opened: that of the wizard's repository, or the rules."""
    number = as_number(str(values.get("origin", "")))
    return "/rules" if number is None else f"/repositories/{number}"


def add_rule(
    session: Session, request: web.Request, draft: versions.RuleDraft, values: Mapping[str, str]
) -> tuple[Rule, int]:
    """Add a rule, and use it in the schedules that the form names; return their number. The caller commits.

    Of these, only schedules of the wizard's repository get it that have no rule of its kind: another one may
    have been chosen since the form was opened. Raises UsageError as `versions.add_rule` does.
    """
    settings, note = request.config_dict[SETTINGS], values.get("note", "")[:500]
    rule = versions.add_rule(session, settings, draft, by=who_asks(request).name, note=note)
    numbers = [as_number(text) for text in values.get("schedules", "").split()[:MOST_SETS]]
    of_kind = [name for name, kind in RULE_COLUMNS.items() if kind.value == rule.kind]
    wanted = (
        select(RecurringJob, Repository.display_name)
        .join(Repository, Repository.repository_id == RecurringJob.repository_id)
        .where(RecurringJob.id.in_([number for number in numbers if number is not None]))
        .where(RecurringJob.repository_id == as_number(values.get("origin", "")))
        .where(*(func.coalesce(getattr(RecurringJob, name), "") == "" for name in of_kind))
    )
    among = visible_repositories(who_asks(request))
    if among is not None:
        wanted = wanted.where(RecurringJob.repository_id.in_(among))
    found = session.execute(wanted.order_by(RecurringJob.id)).all()
    file = str(settings.data.resolve() / rule.path)
    columns: dict[str, Any] = dict.fromkeys(of_kind, file)
    for schedule, name in found:
        before = snapshot(session, "schedule", str(schedule.id))
        change_schedule(session, schedule.id, **columns)
        check_rule_access(session, schedule, settings.data)
        record_beside(session, request, "schedule.edit", "schedule", schedule.id, name, before=before)
    return rule, len(found)

"""Reading of a submitted schedule, whose set is compared with the repository's stored list of sets."""

import asyncio
from collections.abc import Sequence
from dataclasses import replace
from typing import Final

from aiohttp import web
from sqlalchemy import select
from sqlalchemy.orm import Session

from harvester.access import access_of
from harvester.harvest.preparation import lists_set
from harvester.models import OaiSet
from manager.models import RecurringJob
from web.repositories.forms import Details
from web.schedules.forms import ScheduleForm
from web.schedules.rules import rule_context
from web.site.forms import Form, Problem, read_form
from web.site.i18n import _
from web.site.keys import database_of

_BY_NAME: Final = "set_name"
"""Value of a form whose set was entered by its name."""
_SHOWN: Final = 5


async def read_schedule(
    request: web.Request, details: Details, schedule: RecurringJob | None = None
) -> tuple[ScheduleForm | None, Form]:
    """Return the validated plan, or None if there are errors; and the form to show again.

    The name of a set is replaced by its setSpec. A set that the repository does not list is an error that
    offers to save it anyway; one that the schedule already has is kept.
    """
    posted = (await request.post()).copy()
    posted["repository_id"] = str(details.repository.repository_id)
    context = await rule_context(request)
    # In a thread, because validating the form may read rule files.
    asked, form = await asyncio.to_thread(read_form, ScheduleForm, posted, context)
    if asked is None or not asked.set_spec or access_of(details.repository.protocol).query is not None:
        return asked, form
    number, text = details.repository.repository_id, asked.set_spec
    named = await database_of(request).run(_sets_named, number, text)
    if named is None:
        return asked, form
    if len(named) == 1:
        values = {**form.values, "set_spec": named[0], _BY_NAME: text}
        return asked.model_copy(update={"set_spec": named[0]}), replace(form, values=values)
    if form.values.get("do") == "save-anyway" or (schedule is not None and schedule.set_spec == text):
        return asked, form
    fault = _fault(text, named, details)
    problem = Problem(title=_("The schedule is not saved yet."), lines=(fault,))
    return None, form.with_error("set_spec", fault, problem)


def done_with(form: Form, done: str) -> str:
    """Return the word for the notice after the schedule was saved, which mentions a replaced name."""
    return f"{done}-by-name" if _BY_NAME in form.values else done


def _sets_named(session: Session, repository_id: int, text: str) -> Sequence[str] | None:
    """Return the sets with that name; None if it is a set, or if there is no stored list of sets."""
    if lists_set(session, repository_id, text) is not False:
        return None
    named = select(OaiSet.set_spec).filter_by(repository_id=repository_id, set_name=text)
    return session.scalars(named.order_by(OaiSet.set_spec).limit(_SHOWN)).all()


def _fault(text: str, named: Sequence[str], details: Details) -> str:
    if named:
        several = _("Several sets have the name %(set)s. Enter the short name of one of them: %(specs)s.")
        return several % {"set": text, "specs": ", ".join(named)}
    return _(
        "The repository lists no set %(set)s. Choose a set from the list, by its short name such as "
        "%(spec)s, or refresh the details of the repository."
    ) % {"set": text, "spec": details.sets[0].set_spec}

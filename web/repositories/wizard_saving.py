"""What the wizard saves: the form of all its steps, and the repository with its schedules."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final
from urllib.parse import urlencode

from aiohttp import web
from pydantic import Field
from sqlalchemy.orm import Session

from harvester.harvest_plan import LONGEST_SELECTION
from harvester.recognition import RepositoryFacts
from harvester.repositories import name_repository
from manager.rule_access import check_rule_access
from manager.schedules.service import add_schedule, run_now
from web.auth.access import who_asks
from web.auth.audit import record_beside
from web.auth.organisations import add_own_repository
from web.repositories.forms import PlacedForm
from web.schedules.forms import PlanForm, partner_minutes
from web.site.keys import SETTINGS

MOST_SETS: Final = 50


class WizardForm(PlanForm, PlacedForm):
    """All steps together: address and directory are required, everything else has a default."""

    more_sets: str = Field("", max_length=LONGEST_SELECTION * MOST_SETS)
    """Further sets, separated by spaces; each gets a schedule of its own."""

    @property
    def sets(self) -> list[str | None]:
        """All chosen sets; None for the whole repository."""
        return [self.set_spec, *self.more_sets.split()]


@dataclass(frozen=True, kw_only=True)
class AddedRepository:
    """The repository that the wizard added, with its schedules and the jobs of their first runs."""

    repository_id: int
    schedules: Sequence[int]
    jobs: Sequence[int]

    def page_after(self, action: str, asked: WizardForm) -> str:
        """Return the page to which the wizard's button leads."""
        done = "repository-planned" if asked.frequency else "repository-added"
        if action == "save-and-run":
            job = f"/{self.jobs[0]}" if len(self.jobs) == 1 else ""
            return f"/jobs{job}?done=harvest-asked"
        if action == "save-and-rule":
            sample = {"metadata_prefix": asked.metadata_prefix, "set_spec": asked.set_spec or ""}
            schedules = " ".join(map(str, self.schedules))
            given = {"repository": self.repository_id, "source": "live", **sample, "schedules": schedules}
            return f"/rules/new?{urlencode({**given, 'done': done})}"
        return f"/repositories/{self.repository_id}?done={done}"


def add_planned(
    session: Session,
    request: web.Request,
    asked: WizardForm,
    facts: RepositoryFacts,
    *,
    name: str,
    run: bool,
) -> AddedRepository:
    """Add the repository and a schedule for each of the sets, with its first run now if `run` is set.

    A run without a frequency gets its job from the manager. The caller commits. Raises UsageError.
    """
    who, data, minutes = who_asks(request), request.config_dict[SETTINGS].data, partner_minutes(request)
    repository = add_own_repository(
        session, who, base_url=asked.base_url, base_dir=asked.base_dir, facts=facts, protocol=facts.protocol
    )
    if name:
        name_repository(repository, name)
    not_of_schedule = {"base_url", "base_dir", "more_sets"}
    columns: dict[str, Any] = {k: v for k, v in asked.columns().items() if k not in not_of_schedule}
    number = repository.repository_id
    schedules, jobs = [], []
    for spec in asked.sets if asked.frequency or run else []:
        planned = {**columns, "set_spec": spec}
        schedule = add_schedule(session, repository_id=number, partner_minutes=minutes, **planned)
        check_rule_access(session, schedule, data)
        schedules.append(schedule.id)
        record_beside(session, request, "schedule.add", "schedule", schedule.id, repository.display_name)
        if run:
            if asked.frequency:
                jobs.append(run_now(session, schedule.id).job_id)
            record_beside(session, request, "schedule.run", "schedule", schedule.id, repository.display_name)
    return AddedRepository(repository_id=number, schedules=schedules, jobs=jobs)

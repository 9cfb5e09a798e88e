"""What is decided from stored rows before a harvest begins; the caller commits."""

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import datetime
from typing import Final

from sqlalchemy import ColumnElement, Select, func, or_, select, update
from sqlalchemy.orm import Session

from harvester.access import access_of
from harvester.harvest.page_writer import Layout
from harvester.harvest.plan import RunPlan, SavedState, Target, made_progress
from harvester.harvest.request import HarvestRequest
from harvester.harvest.run_warnings import Note
from harvester.models import Harvest, History, OaiSet, Repository
from harvester.vocabulary import Verdict
from oai.console import counted
from oai.datestamps import format_datestamp
from oai.errors import TryLaterError
from oai.failures import Failure, FailureCode
from oai.reach import without_credentials

RULES_CHANGED: Final = Note(
    text="the rules have changed since the last complete harvest of all records: they apply only to records "
    "that are received from now on; a full harvest applies them to all, but keeps stored records that the "
    "filter excludes",
    failure=Failure(code=FailureCode.RULES_CHANGED),
)


def check_wait(repository: Repository, now: datetime) -> None:
    """Raise TryLaterError if the repository's requested waiting time has not passed."""
    if repository.not_before is not None and repository.not_before > now:
        until = format_datestamp(repository.not_before)
        raise TryLaterError(
            f"{without_credentials(repository.base_url)}: the repository asked to wait until {until}; "
            "run the same command then, or now with --ignore-wait"
        )


def note_wait(session: Session, repository_id: int, until: datetime | None) -> None:
    """Store the time until which the repository asked not to be contacted; None deletes it."""
    waits = update(Repository).where(Repository.repository_id == repository_id).values(not_before=until)
    session.execute(waits, execution_options={"synchronize_session": False})


def target(repository: Repository) -> Target:
    """Return what a plan depends on."""
    return Target(
        base_url=repository.base_url,
        granularity=repository.granularity,
        earliest_datestamp=repository.earliest_datestamp,
        deleted_record=repository.deleted_record,
        by_datestamps=access_of(repository.protocol).query is None,
    )


def choose_layout(session: Session, request: HarvestRequest, repository: Repository) -> Layout:
    """Return the file layout; the first harvested format gets file names without the format."""
    prefix = request.metadata_prefix
    if repository.plain_prefix is None:  # another harvest may set it at this moment
        session.execute(
            update(Repository)
            .where(Repository.repository_id == repository.repository_id, Repository.plain_prefix.is_(None))
            .values(plain_prefix=prefix)
        )
        session.refresh(repository)
    return Layout(
        metadata_prefix=prefix,
        plain=repository.plain_prefix == prefix,
        parse_id=request.parse_id,
        files_per_directory=request.files_per_directory,
    )


def starting_warnings(
    session: Session, request: HarvestRequest, planned: RunPlan, saved_state: SavedState, row: Harvest | None
) -> Iterator[Note]:
    """Yield what is lost or incomplete because of the parameters of the coming run."""
    begun = made_progress(saved_state.token, saved_state.counts, saved_state.state)
    if saved_state.parameters and begun and not planned.resumes and request.replay is None:
        received = counted(saved_state.counts.get("records", 0), "record")
        words = (
            f"an interrupted harvest with other parameters, which had received {received}, is not continued"
        )
        yield Note(text=words)
    complete = saved_state.complete
    requests_all = request.replay is not None or (
        complete.is_within(planned.from_) and request.covers(complete, planned.from_)
    )
    if row is not None and not requests_all and not planned.resumes:
        last = last_rules(session, row.repository_id, row.harvest_id)
        if last is not None and last.differ_from(request.rule_digests()):
            yield RULES_CHANGED


@dataclass(frozen=True, kw_only=True)
class LastRules:
    """The rules of the last complete run of a harvest."""

    digests: tuple[str | None, str | None]
    """SHA-256 of the filter file and of the normalise file, in hexadecimal digits."""
    changed: bool
    """Whether the run warned that it did not apply them to all records."""

    def differ_from(self, digests: tuple[str | None, str | None]) -> bool:
        """Return whether some records were stored, or filtered out, by other rules than these."""
        return self.changed or self.digests != digests


def last_rules(session: Session, repository_id: int, harvest_id: int) -> LastRules | None:
    """Return the rules of the harvest's last complete run; None if there is no such run."""
    of_harvest = (History.repository_id == repository_id) & (History.harvest_id == harvest_id)
    found = session.execute(last_rules_of(of_harvest)).one_or_none()
    return None if found is None else LastRules(digests=(found[0], found[1]), changed=found[2])


def last_rules_of(harvest: ColumnElement[bool]) -> Select[str | None, str | None, bool]:
    """Return the query for both digests of `LastRules`, and `changed`, of the runs of one harvest."""
    warned = History.warning_failures.contains([{"code": FailureCode.RULES_CHANGED.value}])
    last = select(History.filter_digest, History.normalize_digest, warned.label("changed"))
    complete = History.verdict == Verdict.COMPLETE.value
    return last.where(harvest, complete).order_by(History.history_id.desc()).limit(1)


def lists_set(session: Session, repository_id: int, set_spec: str) -> bool | None:
    """Return whether the stored list of sets has the set or one below it; None if there is no stored list."""
    same = or_(OaiSet.set_spec == set_spec, func.starts_with(OaiSet.set_spec, f"{set_spec}:"))
    return session.scalar(select(func.bool_or(same)).where(OaiSet.repository_id == repository_id))


def missing_set_warning(
    session: Session, repository: Repository, set_spec: str, *, if_unlisted: bool = False
) -> Note | None:
    """Return a warning if the repository's stored list of sets has neither the set nor one below it.

    A repository without stored sets gives one only with `if_unlisted`; one whose sets are queries gives none.
    """
    if not set_spec or access_of(repository.protocol).query is not None:
        return None
    listed = lists_set(session, repository.repository_id, set_spec)
    if listed or (listed is None and not if_unlisted):
        return None
    refresh = f"`zatva repository refresh {repository.repository_id}` reads the list"
    if listed is None:
        words = f"no records of set {set_spec!r}, and no stored list of sets to check its name; {refresh}"
        code = FailureCode.SET_UNCHECKED
    else:
        words = f"the repository's list of sets does not contain {set_spec!r}; {refresh} again"
        code = FailureCode.SET_NOT_LISTED
    return Note(text=words, failure=Failure(code=code, facts={"set": set_spec}))

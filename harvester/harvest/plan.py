"""What a harvest will request, and why; computed before the first request, without input or output."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime
from typing import Any

from harvester.client.repository_client import Selection
from harvester.client.transport import request_url
from harvester.harvest.request import HarvestRequest, in_granularity
from harvester.harvest.watermark import CompleteHarvest
from harvester.harvest.windows import (
    Calendar,
    Window,
    calendar,
    earlier,
    first_request,
    least_overlap,
    slices,
    window_from_json,
)
from harvester.vocabulary import Method, Slice
from oai.console import counted
from oai.datestamps import format_datestamp, parse_datestamp
from oai.errors import UsageError, required
from oai.reach import without_credentials
from oai.vocabulary import Granularity, Verb, reports_deletions

_SHOWN_WINDOWS = 12


@dataclass(frozen=True, kw_only=True)
class Target:
    """The repository, as far as a plan depends on it."""

    base_url: str
    granularity: str | None = None
    earliest_datestamp: str | None = None
    deleted_record: str | None = None
    by_datestamps: bool = True
    """Whether it selects by datestamps; a repository that is queried does not."""

    def calendar(self, now: datetime) -> Calendar:
        """Return the repository's calendar."""
        return calendar(self.granularity, self.earliest_datestamp, now)

    def possible(self, request: HarvestRequest) -> HarvestRequest:
        """Return the request, extended to everything if datestamps do not select.

        Raises UsageError if they must.
        """
        if self.by_datestamps:
            return request
        if request.harvest_from or request.harvest_to or request.slice:
            raise UsageError(
                "a repository that is harvested by query does not support datestamps; add them to the query"
            )
        return replace(request, full=True)


@dataclass(frozen=True, kw_only=True)
class SavedState:
    """What a harvest's row in `oai_harvest` says of its last run."""

    complete: CompleteHarvest = field(default_factory=CompleteHarvest)
    undated: str | None = None
    """The unreadable responseDate of the last harvest, if that harvest left no watermark."""
    token: str = ""
    parameters: Mapping[str, Any] = field(default_factory=dict)
    """`kind` and `from` of the interrupted run; empty if there is none."""
    state: Mapping[str, Any] = field(default_factory=dict)
    counts: Mapping[str, int] = field(default_factory=dict)


@dataclass(frozen=True, kw_only=True)
class RunPlan:
    """What will be requested, and why. Bounds are datestamps in the repository's granularity."""

    base_url: str
    """Without credentials: plans are shown, and stored with raw answers."""
    verb: Verb
    metadata_prefix: str
    set_spec: str
    windows: Sequence[Window]
    """In the order of the requests; a window to be sliced represents its slices.

    Empty if a run stored everything and was interrupted before it ended.
    """
    resumes: bool
    resumption_token: str
    """Token of the first request if an interrupted run is resumed."""
    from_: str | None
    why: str
    """Why the run begins with that `from`, or without one."""
    remarks: Sequence[str]
    validation: str
    filter_file: str | None
    normalize_file: str | None
    calendar: Calendar
    by_datestamps: bool = True
    recovery_seconds: float | None = None
    """Maximum number of seconds that the run may spend on working around faults, if shown."""

    def lists(self) -> Sequence[Window]:
        """Return each list that is requested if no slice is empty, the slices one by one."""
        return [found for window in self.windows for found in slices(window, self.calendar)]

    def first_request(self) -> str | None:
        """Return the URL of the first list request; None if nothing is left to request."""
        if not self.windows:
            return None
        verb = ("verb", self.verb.value)
        if self.resumption_token:
            return request_url(self.base_url, [verb, ("resumptionToken", self.resumption_token)])
        window = first_request(self.windows[0], self.calendar)
        return request_url(self.base_url, [verb, *self.selection(window).arguments()])

    def selection(self, window: Window) -> Selection:
        """Return the window as the selection of a list request."""
        return Selection(
            metadata_prefix=self.metadata_prefix,
            set_spec=self.set_spec or None,
            from_=window.from_,
            until=window.until,
        )

    def with_remarks(self, remarks: Sequence[str]) -> "RunPlan":
        """Return the plan with additional remarks."""
        return replace(self, remarks=[*self.remarks, *remarks])

    def as_json(self) -> dict[str, Any]:
        """Return the JSON value for programs."""
        return {
            "base_url": self.base_url,
            "verb": self.verb.value,
            "metadata_prefix": self.metadata_prefix,
            "set": self.set_spec or None,
            "from": self.from_,
            "why": self.why,
            "resumes": self.resumes,
            "resumption_token": self.resumption_token or None,
            "lists": [{"from": window.from_, "until": window.until} for window in self.lists()],
            "first_request": self.first_request(),
            "validation": self.validation,
            "filter": self.filter_file,
            "normalise": self.normalize_file,
            "max_recovery_seconds": self.recovery_seconds,
            "remarks": list(self.remarks),
        }

    def _limits(self) -> list[str]:
        if self.recovery_seconds is None:
            return []
        seconds = f"at most {self.recovery_seconds:,.0f} seconds"
        return [f"working around faults: {seconds} (harvester.max_recovery_seconds)"]

    def in_words(self) -> str:
        """Return the text for people."""
        lists = self.lists()
        shown = [f"  {window.in_words()}" for window in lists]
        if len(shown) > _SHOWN_WINDOWS:
            half = _SHOWN_WINDOWS // 2
            shown[half:-half] = [f"  … {len(shown) - 2 * half:,} more …"]
        lines = [
            f"{self.verb} of {self.base_url}",
            f"format: {self.metadata_prefix}",
            f"set: {self.set_spec or 'the whole repository'}",
            f"from: {self.from_ or 'the beginning'}, {self.why}",
            f"lists: {'at most ' if any(window.slice for window in self.windows) else ''}{len(lists):,}",
            *shown,
            f"validation: {self.validation}",
            f"filter: {self.filter_file or 'none'}",
            f"normalise: {self.normalize_file or 'none'}",
            *self._limits(),
            f"first request: {self.first_request() or 'none: all lists are stored'}",
        ]
        return "\n".join([*lines, *(f"note: {remark}" for remark in self.remarks)])


def plan(
    request: HarvestRequest, target: Target, saved_state: SavedState, *, now: datetime, overlap: float
) -> RunPlan:
    """Return the plan of a harvest that goes back `overlap` seconds behind the watermark, or a day if longer.

    The day is for a repository of day granularity (`least_overlap`).
    """
    times = target.calendar(now)
    resumes = was_cut_off(request, saved_state)
    if resumes:
        from_ = saved_state.parameters.get("from")
        why = "as in the interrupted run, which is resumed"
        # An empty list of windows belongs to a run that was interrupted after its last list: only its end
        # is missing.
        saved = saved_state.state.get("windows")
        windows = [_whole(request, from_, times)] if saved is None else list(map(window_from_json, saved))
    else:
        from_, why = _from(target.possible(request), saved_state, times.granularity, overlap)
        windows = [_whole(request, from_, times)]
    return RunPlan(
        base_url=without_credentials(target.base_url),
        verb=Verb.LIST_RECORDS if request.method is Method.RECORDS else Verb.LIST_IDENTIFIERS,
        metadata_prefix=request.metadata_prefix,
        set_spec=request.set_spec,
        windows=windows,
        resumes=resumes,
        resumption_token=saved_state.token if resumes else "",
        from_=from_,
        why=why,
        remarks=_remarks(request, target, from_),
        validation=request.validation.name.lower().replace("_", " "),
        filter_file=str(request.filter_file) if request.filter_file else None,
        normalize_file=str(request.normalize_file) if request.normalize_file else None,
        calendar=times,
        by_datestamps=target.by_datestamps,
    )


def was_cut_off(request: HarvestRequest, saved_state: SavedState) -> bool:
    """Return whether a run of the same harvest was interrupted after making progress.

    A replay starts again: which of several answers to the same request it had reached is not stored.
    """
    if request.replay is not None:
        return False
    begun = made_progress(saved_state.token, saved_state.counts, saved_state.state)
    return begun and saved_state.parameters.get("kind") == request.kind()


def made_progress(token: str | None, counts: Mapping[str, int], state: Mapping[str, Any]) -> bool:
    """Return whether a run stopped after its beginning, so that another can resume it (`oai_harvest`)."""
    return bool(token or counts.get("pages") or state.get("totals"))


def _whole(request: HarvestRequest, from_: str | None, calendar: Calendar) -> Window:
    until = in_granularity(request.harvest_to, calendar.granularity, last=True)
    return Window(from_=from_, until=until, slice=request.slice)


def _from(
    request: HarvestRequest, saved_state: SavedState, granularity: str | None, overlap: float
) -> tuple[str | None, str]:
    """Return the `from` to send, and the reason for it."""
    if request.harvest_from is not None:
        return in_granularity(request.harvest_from, granularity), "as requested"
    if request.full:
        return None, "because all records were requested"
    watermark = saved_state.complete.since(request.harvest_floor)
    bound = saved_state.complete.lower_bound(request.harvest_floor)
    if watermark is None and bound is not None:
        return in_granularity(bound, granularity), "the earliest datestamp of its schedule"
    if watermark is None:
        return None, f"because {_why_nothing_to_continue(saved_state)}"
    from_ = incremental_from(watermark, granularity, overlap)
    seconds = max(overlap, least_overlap(granularity))
    return from_, f"the start of the last complete harvest, {watermark}, less {seconds:,.0f} seconds"


def _why_nothing_to_continue(saved_state: SavedState) -> str:
    if saved_state.complete.complete_from is not None:
        return f"earlier harvests requested only records since {saved_state.complete.complete_from}"
    if saved_state.undated is not None:
        return f"the last harvest has no valid date: its responseDate {saved_state.undated!r} cannot be read"
    return "there is no complete harvest of this format and set to continue from"


def incremental_from(watermark: str, granularity: str | None, overlap: float) -> str:
    """Return the `from` after a complete harvest that began at the watermark, less `overlap` seconds.

    In day granularity it is at least a day earlier (`least_overlap`).
    """
    moment = earlier(parse_datestamp(watermark).moment, max(overlap, least_overlap(granularity)))
    return required(in_granularity(format_datestamp(moment), granularity), "the watermark is a datestamp")


def _remarks(request: HarvestRequest, target: Target, from_: str | None) -> list[str]:
    remarks = []
    if request.method is Method.IDENTIFIERS:
        remarks.append("each record that is not deleted is fetched with its own GetRecord request")
    if request.slice is not None:
        longer = "year" if request.slice is Slice.MONTH else "year and month"
        remarks.append(f"each {longer} is requested as a whole first; if it is empty, its slices are skipped")
    if request.max_records is not None:
        remarks.append(f"the harvest stops after {counted(request.max_records, 'record')}")
    if from_ is not None and not reports_deletions(target.deleted_record):
        remarks.append(
            f"the repository's deletedRecord is {target.deleted_record or 'unknown'!r}: only a full "
            "harvest can find records that disappeared"
        )
    if target.granularity not in {*Granularity}:
        remarks.append("the granularity is unknown, so bounds are whole days")
    return remarks

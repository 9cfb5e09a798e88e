"""Harvests one list after the other, and chooses a remedy when a list breaks."""

from dataclasses import dataclass, field, replace
from functools import partial

from harvester.client.protocol_client import ProtocolClient
from harvester.client.repository_client import Selection
from harvester.harvest.disappearance_check import confirm_disappeared
from harvester.harvest.fetch import PageFetcher, RequestBudget, check_alive, where
from harvester.harvest.page_pipeline import PagePipeline, RunThread
from harvester.harvest.plan import RunPlan
from harvester.harvest.progress import RunProgress, StateChange
from harvester.harvest.recovery import (
    BrokenAnswer,
    Isolation,
    NoListError,
    RecoveryTimeError,
    Remedy,
    SplitWindow,
    begin_again,
    is_of_first_page,
    remedy,
    take_up,
)
from harvester.harvest.run import PreparedRun, Run
from harvester.harvest.seen_identifiers import Known, mark
from harvester.harvest.source import MissingAnswerError
from harvester.harvest.transform import Refusal
from harvester.harvest.verdict import End, unlisted
from harvester.harvest.windows import Window, least_overlap
from harvester.reading.errors import (
    AnswerTooLargeError,
    ClientError,
    EndlessListError,
    MalformedAnswerError,
    NoRecordsMatchError,
    NotOaiPmhError,
    OaiError,
    TransportError,
)
from harvester.rules.validation import open_validator
from harvester.vocabulary import Level
from oai.errors import StrictCheckError, failure_of
from oai.failures import CodedText, Failure, FailureCode
from oai.vocabulary import Granularity, Verb

_TRIES_WHILE_SEARCHING = 1
_FAILED_PROBES = 3
_ENDS = {
    Remedy.NOTHING_THERE: End.NO_RECORDS_MATCH,
    Remedy.ENDED_EARLY: End.NO_RECORDS_MATCH_LATE,
    Remedy.CONFIRMED: End.NO_TOKEN,
    Remedy.NO_NEXT_PAGE: End.NO_NEXT_PAGE,
    Remedy.TOKENS_REFUSED: End.NO_NEXT_PAGE,
}
"""How the list ended, by the remedies that end it."""
_WHY_ENDED = {
    Remedy.CONFIRMED: "as many records as announced were received, so the list ended",
    Remedy.NO_NEXT_PAGE: "nothing more was listed, so the list probably ended",
    Remedy.TOKENS_REFUSED: "the repository refuses its own resumption tokens, so the list ends here",
}
"""The warnings of these remedies."""


@dataclass(frozen=True, kw_only=True)
class WindowProbe:
    """What the repository answered about a window."""

    empty: bool = False
    """The repository clearly stated that the window is empty."""
    failed: bool = False
    """No readable answer was received."""
    response_date: str | None = None


async def probe_window(client: ProtocolClient, verb: Verb, selection: Selection) -> WindowProbe:
    """Request the window's first page, with the verb used for its slices.

    A window counts as empty after noRecordsMatch, or after a complete list without records. After any other
    answer each slice is requested, with the full error handling of a list. Raises TryLaterError.
    """
    try:
        page = await anext(client.pages(verb, selection, loose=True))
    except NoRecordsMatchError as error:
        return WindowProbe(empty=True, response_date=error.response_date)
    except (ClientError, MissingAnswerError):  # the run that is replayed may lack this request
        return WindowProbe(failed=True)
    something = page.headers or page.next_token or page.faults or page.cut_off or page.complete_list_size
    return WindowProbe(empty=not something, response_date=page.response_date)


async def introduce(prepared: PreparedRun, client: ProtocolClient, steps: RunThread) -> None:
    """Send Identify, and fetch the schemas with which a very strict run validates."""
    loose = prepared.request.validation is Level.LOOSE
    try:
        identity = await steps.or_stop(client.identify(loose=loose))
    except TransportError:
        raise
    except ClientError as error:
        if isinstance(error, MalformedAnswerError) and not loose:
            raise StrictCheckError(str(error)) from error
        if not loose:
            raise
        prepared.warn(f"Identify: {error}")
    else:
        for note in identity.notes:
            prepared.warn(f"Identify: {note}")
        await steps.in_thread(partial(prepared.note_identity, identity))
    if prepared.request.validation is Level.VERY_STRICT:
        opening = open_validator(client, prepared.settings, prepared.request.metadata_prefix)
        prepared.transformer = replace(prepared.transformer, validator=await steps.or_stop(opening))


@dataclass(kw_only=True)
class ListHarvester:
    """The asynchronous part of a run: one list after the other, and recovery when one breaks."""

    run: Run
    client: ProtocolClient
    pipeline: PagePipeline
    _skip: Known = field(default_factory=Known)
    """Records received before their list broke, so that they are not fetched one by one."""
    _probes_left: int = _FAILED_PROBES
    _faultless: bool = True
    """Whether no list has broken yet in this process."""

    async def harvest_lists(self) -> End:
        """Harvest the lists, from the start or from where they were interrupted."""
        state = self._progress
        while (window := await self._next_window()) is not None:
            if window.put_off and not self._allowance.left:
                return End.GAVE_UP
            end = await self._one_list(window)
            if end in {End.SAMPLE, End.GAVE_UP, End.BROKEN_OFF}:
                return end
        # A single page skips nothing, and a run that left something out deletes nothing.
        if state.totals["of_several_pages"] and not self.run.state.counts["invalid"]:
            await confirm_disappeared(self.run, self.client, self._steps)
        return state.end

    @property
    def _plan(self) -> RunPlan:
        return self.run.plan

    @property
    def _progress(self) -> RunProgress:
        return self.run.state.progress

    @property
    def _allowance(self) -> RequestBudget:
        return self.run.prepared.budget

    @property
    def _steps(self) -> RunThread:
        return self.pipeline.steps

    @property
    def _no_retry_client(self) -> ProtocolClient:
        return self.client.with_retries(_TRIES_WHILE_SEARCHING)

    @property
    def _loose(self) -> bool:
        return self.run.request.validation is Level.LOOSE

    def _leave_stored_token(self) -> bool:
        """Return whether the run was resumed at a token and has received no page since; true at most once."""
        state, stored = self.run.state, self._plan.resumption_token
        here = bool(stored) and state.token == stored and state.counts["pages"] == state.resumed["pages"]
        first, self._faultless = self._faultless, False
        return first and here

    async def _next_window(self) -> Window | None:
        """Return the next window to request; when slicing, skip empty years and months."""
        state = self._progress
        while state.window is not None and state.window.slice is not None:
            if not state.window.unsounded:
                state.cut(self._plan.calendar)
            elif await self._is_empty(state.window):
                await self._finish(state.window, End.NO_RECORDS_MATCH)
            else:
                state.note_probed()
        return state.window

    async def _is_empty(self, window: Window) -> bool:
        """Return whether the window is empty; after several failed probes, no further ones are sent."""
        if not self._probes_left:
            return False
        begun = self._allowance.begin()
        found = await self._probe(window)
        if found.failed:
            self._allowance.count_since(begun)
        self._probes_left -= found.failed
        self.run.state.note_date(found.response_date)
        return found.empty

    async def _probe(self, window: Window) -> WindowProbe:
        probe = probe_window(self._no_retry_client, self._plan.verb, self._plan.selection(window))
        return await self._steps.or_stop(probe)

    async def _one_list(self, window: Window) -> End:
        if (end := self._progress.last_page) is not None:  # the run was interrupted right after that page
            await self._finish(window, end)
            return end
        try:
            end = await self.pipeline.take_list(self._fetching(window), self._plan.selection(window))
        except ClientError as error:
            return await self._recover(window, error)
        if end is End.GAVE_UP:
            return await self._put_off()
        if end is End.BROKEN_OFF:
            if not self._loose or not self._allowance.left:
                return end
            broken = MalformedAnswerError(
                self.run.prepared.base_url, "an answer was truncated before the end of the list"
            )
            self._check_time(broken)
            return await self._divide(window, broken)
        if end is not End.SAMPLE:
            await self._finish(window, end)
        return end

    def _fetching(self, window: Window) -> PageFetcher:
        request = self.run.request
        most = request.max_records
        return PageFetcher(
            client=self.client,
            no_retry_client=self._no_retry_client,
            metadata_prefix=request.metadata_prefix,
            verb=self._plan.verb,
            loose=self._loose,
            budget=self._allowance,
            around_fault=bool(window.halvings or window.taken_up or self._progress.totals["restarts"]),
            one_by_one=window.one_by_one,
            skip=self._skipped() if window.one_by_one else Known(),
            most=None if most is None else most - self.run.state.counts["records"],
        )

    def _skipped(self) -> Known:
        """Return the identifiers that need not be fetched one by one."""
        return self._skip.with_more(map(mark, self._progress.fetched))

    async def _finish(self, window: Window, end: End) -> None:
        if window.taken_up and self._progress.watch.fell:
            words = "the list is not sorted by datestamp after all, so it starts again"
            await self._change(
                lambda state: state.begin_again(begin_again(window), disorder=True), words, again=True
            )
            return
        if self._is_read_twice(window):
            how = self._progress.watch.change_in_words()
            words = f"{how}; it is requested a second time, because it may have skipped records"
            await self._change(lambda state: state.read_again(begin_again(window)), words, again=True)
            return
        await self._steps.in_thread(partial(self.run.finish_list, end))

    def _is_read_twice(self, window: Window) -> bool:
        """Return whether the ended list is requested a second time, because it changed while it was read.

        Only incremental harvests do this, once for each window: later ones do not request what they skip.
        """
        run, watch = self.run, self._progress.watch
        if self._plan.from_ is None or run.request.max_records is not None:
            return False
        if window.second_reading or window.one_by_one:
            return False
        watch.count_repeated()
        return watch.changed and run.prepared.source.may_request_again

    async def _recover(self, window: Window, error: ClientError) -> End:
        """Choose how to continue after an error; return the end, provisional if the run continues."""
        run, state = self.run, self._progress
        state.watch.count_repeated()
        broken = BrokenAnswer(
            error=error,
            window=window,
            watch=state.watch,
            with_token=bool(run.state.token),
            stored_token=self._leave_stored_token(),
            first=not run.state.counts["pages"] and not state.totals["lists"],
            restarts=state.totals["restarts"],
            orderly=state.watch.orderly and not state.totals["disorder"],
            before_earliest=self._plan.calendar.may_begin_openly(window),
            # A list that is not selected by datestamps cannot be divided.
            loose=self._loose and self._plan.by_datestamps,
        )
        chosen = remedy(broken)
        if chosen.takes_time:
            self._check_time(error)
        if chosen in _ENDS:
            return await self._nothing_more(window, error, chosen)
        if chosen in {Remedy.AGAIN, Remedy.TAKE_UP} and not isinstance(error, OaiError):
            await self._check_list(window, error)
        match chosen:
            case Remedy.AGAIN:
                await self._begin_again(window, error)
            case Remedy.TAKE_UP:
                await self._take_up(window, error)
            case Remedy.OTHER_BOUNDS:
                await self._change_bounds(window, error)
            case Remedy.DIVIDE:
                # A window that was divided has shown that the repository answers lists.
                unanswered = broken.first and not window.halvings
                return await self._divide(window, error, unanswered=unanswered)
            case Remedy.NONE:
                await self._give_in(error)
        return state.end

    async def _nothing_more(self, window: Window, error: ClientError, chosen: Remedy) -> End:
        """End the list whose error shows that it has no further records."""
        if chosen in _WHY_ENDED:
            self.run.prepared.warn(f"{error}; {_WHY_ENDED[chosen]}")
        if isinstance(error, OaiError):
            self.run.state.note_date(error.response_date)
        self._progress.totals["tokens_refused"] += chosen is Remedy.TOKENS_REFUSED
        await self._finish(window, _ENDS[chosen])
        return _ENDS[chosen]

    async def _check_list(self, window: Window, error: ClientError) -> None:
        """Raise the error if the list cannot be requested again either, so that its token is kept."""
        if (await self._probe(window)).failed:
            await self._give_in(error)

    async def _give_in(self, error: ClientError) -> None:
        """Raise the error; a strict run reports it as a failed strict check."""
        if self._loose or not isinstance(error, (MalformedAnswerError, NotOaiPmhError)):
            raise error
        if not isinstance(error, EndlessListError):
            refusal = Refusal(
                reason=str(error), url=error.url, raw=error.raw, failure=failure_of(error), whole=True
            )
            await self._steps.in_thread(partial(self.run.refuse, refusal))
        raise StrictCheckError(str(error)) from error

    async def _change_bounds(self, window: Window, error: ClientError) -> None:
        if not window.in_seconds:
            words = f"the list was requested without from, which is before earliestDatestamp: {error}"
            await self._change(lambda state: state.replace_window([replace(window, from_=None)]), words)
            return
        times = replace(self._plan.calendar, granularity=Granularity.DAY)
        self.run.plan = replace(self._plan, calendar=times)
        words = f"all bounds are now whole days, regardless of Identify: {error}"
        overlap = least_overlap(Granularity.DAY) if self.run.request.harvest_from is None else 0
        await self._change(lambda state: state.in_days(overlap), words)

    async def _begin_again(self, window: Window, error: ClientError) -> None:
        restarted = Failure(code=FailureCode.LIST_RESTARTED)
        words = CodedText(f"the list was started again: {error}", restarted)
        await self._change(lambda state: state.begin_again(begin_again(window)), words, again=True)

    async def _take_up(self, window: Window, error: ClientError) -> None:
        overlap = self.run.prepared.settings.harvester.overlap
        later = take_up(window, self._progress.watch, self._plan.calendar, overlap)
        if later is None:
            await self._begin_again(window, error)
            return
        continued = Failure(code=FailureCode.LIST_CONTINUED, facts={"start": later.from_})
        words = CodedText(f"the list was continued {later.in_words()}: {error}", continued)
        await self._change(lambda state: state.take_up(later), words)

    async def _divide(self, window: Window, error: ClientError, *, unanswered: bool = False) -> End:
        if not self._allowance.left and not self._allowance.spent:
            raise error
        no_retry_client = self._no_retry_client
        token_refused = is_of_first_page(self._progress.watch, error)
        with self._allowance.working():
            if not token_refused:
                await check_alive(no_retry_client, error)
            isolation = Isolation(
                client=no_retry_client,
                plan=self._plan,
                budget=self._allowance,
                unanswered=unanswered,
                token_refused=token_refused,
            )
            try:
                division = await isolation.divide(window, self._progress.watch)
            except (AnswerTooLargeError, NoListError):
                raise error from None  # the run resumes at this page, so report its error
        if division is None:
            return await self._put_off()
        if division.skipped is not None:
            await self._leave_out(error, division, division.skipped)
            return self._progress.end
        if not division.windows:
            return await self._nothing_more(window, error, Remedy.TOKENS_REFUSED)
        self._skip = self._skip.with_more(self._progress.watch.marks)
        again = not any(part.one_by_one for part in division.windows)
        words = f"{error}; {division.remark}"
        await self._change(lambda state: state.divide(division.windows), words, again=again)
        return self._progress.end

    def _check_time(self, error: ClientError | None) -> None:
        """Raise RecoveryTimeError if no time is left for working around the error."""
        if self._allowance.is_late:
            raise RecoveryTimeError(self.run.prepared.base_url, self._allowance.seconds) from error

    async def _leave_out(self, error: ClientError, division: SplitWindow, window: Window) -> None:
        url, raw = where(error)
        cause = failure_of(error)
        times = self._plan.calendar
        bounds = " – ".join(times.write(moment) for moment in times.bounds(window))  # noqa: RUF001 a dash
        failure = unlisted(cause, range=bounds)
        refusal = Refusal(reason=f"{error}; {division.remark}", url=url, raw=raw, failure=failure, whole=True)
        await self._steps.in_thread(partial(self.run.refuse, refusal))
        await self._change(lambda state: state.leave_out(cause, divided=division.dateless))

    async def _put_off(self) -> End:
        """Move the window to the end, or leave it to the next run if only such windows are left."""
        # If the time rather than the requests is used up, no other window may be searched either.
        self._check_time(None)
        state = self._progress
        if all(window.put_off for window in state.windows[1:]):
            return End.GAVE_UP
        await self._change(RunProgress.put_off)
        return state.end

    async def _change(self, change: StateChange, words: str | None = None, *, again: bool = False) -> None:
        await self._steps.in_thread(partial(self.run.change_list, change, words, again=again))

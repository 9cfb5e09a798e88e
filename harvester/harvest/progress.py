"""The progress of a run: windows still to request, the current list, and totals of the ended lists."""

from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from typing import Any

from harvester.harvest.fetch import Fetched
from harvester.harvest.list_evidence import ListWatch, watch_from_json
from harvester.harvest.run_warnings import Note
from harvester.harvest.seen_identifiers import Marks
from harvester.harvest.verdict import End
from harvester.harvest.windows import Calendar, Window, next_piece, window_from_json
from oai.failures import Failure

StateChange = Callable[["RunProgress"], None]
_ONCE = frozenset({"new", "updated", "deleted", "tombstones"})
_STILL_COUNTED = "still_counted"
"""Among the totals: changes that stay counted although their list or answer is received again."""
_A_YEAR = 366 * 86_400.0


@dataclass(frozen=True, kw_only=True)
class PartlyStoredAnswer:
    """A large answer that is stored in parts: the state before it, in case it has to be requested again."""

    watch: dict[str, Any]
    """The current list before the answer (`ListWatch.as_json`)."""
    marks: int
    """Number of marks that the list had."""
    counted: Counter[str] = field(default_factory=Counter)
    """What its parts have added to the run's counts."""

    def as_json(self) -> dict[str, Any]:
        """Return the JSON value for the checkpoint."""
        return {"watch": self.watch, "marks": self.marks, "counted": dict(self.counted)}


@dataclass(kw_only=True)
class RunProgress:
    """The progress that each checkpoint saves.

    The thread that stores pages changes it; the event loop does so only between lists, when that thread is
    idle.
    """

    windows: list[Window] = field(default_factory=list)
    """The first window is that of the current list."""
    watch: ListWatch = field(default_factory=ListWatch)
    totals: Counter[str] = field(default_factory=Counter)
    """Totals over the ended lists, under the names of the fields of `Evidence` if it has them."""
    fetched: list[str] = field(default_factory=list)
    """Identifiers of the current page that were fetched one by one before the search had to end."""
    counted: Counter[str] = field(default_factory=Counter)
    """What the current list has added to the run's counts."""
    answer: PartlyStoredAnswer | None = None
    last_page: End | None = None
    """How the current list ended, once its last page is stored.

    It is saved with that page, so that a run that is killed before `finish` does not request the list again.
    """
    end: End = End.NO_RECORDS_MATCH
    """How the last list ended."""
    unread_for: Failure | None = None
    """Why the first date range could not be listed."""

    @property
    def window(self) -> Window | None:
        """The current window; None if nothing is left to request."""
        return self.windows[0] if self.windows else None

    def cut(self, calendar: Calendar) -> None:
        """Cut the first piece off the current window, which is to be sliced."""
        first, rest = next_piece(self.windows[0], calendar)
        self.windows[:1] = [first] if rest is None else [first, rest]

    def note_probed(self) -> None:
        """Record that the current window may contain records, so that it is to be cut."""
        self.windows[0] = replace(self.windows[0], unsounded=False)

    def see(self, fetched: Fetched) -> None:
        """Add a page of the current list."""
        self.fetched = []
        unread = max(len(fetched.page.faults) - len(fetched.mended), 0)
        self.watch.see(fetched.page, mended=fetched.mended, unreadable=unread)
        self.totals["mended"] += len(fetched.mended)
        self.totals["doubtful"] += bool(fetched.mended)

    def begin_answer(self) -> None:
        """Record that the next pages are parts of one answer."""
        self.answer = PartlyStoredAnswer(watch=self.watch.as_json(), marks=len(self.watch.marks))

    def count(self, found: Counter[str], *, answer_ends: bool) -> None:
        """Add to the counts of the current list and of the current answer."""
        self.counted += found
        if self.answer is not None:
            self.answer.counted.update(found)
            if answer_ends:
                self.answer = None

    def forget_answer(self, counts: Counter[str]) -> Counter[str]:
        """Go back to the state before the interrupted current answer; return the run's counts at that time.

        New, updated and deleted records stay counted: when they are received again, they no longer count as
        changes.
        """
        if self.answer is None:
            return counts
        before = self.answer
        self.watch = watch_from_json(before.watch, self.watch.marks[: before.marks])
        self.counted = _less(self.counted, before.counted)
        self.totals["answers_again"] += 1
        self.totals[_STILL_COUNTED] += _changes(before.counted)
        self.answer = None
        return _less(counts, before.counted)

    def count_again(self, number: int) -> Counter[str]:
        """Return the correction for records that this run has already stored as they are.

        The page counted them as unchanged. They count as repeated, unless their first reception was taken
        back with its list: then it is this one that is left out, because the change stayed counted.
        """
        left_out = min(number, self.totals[_STILL_COUNTED])
        self.totals[_STILL_COUNTED] -= left_out
        return Counter(unchanged=-number, records=-left_out, repeated=number - left_out)

    def repeated_later(self) -> int:
        """Return how many records of the list were counted as unchanged because an earlier page had them.

        Call it at the end of the list, whose marks reveal them. 0 if a filter excluded records: which of the
        repeated ones it excluded is not known.
        """
        self.watch.count_repeated()
        if self.counted["filtered"]:
            return 0
        return min(max(self.watch.overlapping - self.counted["repeated"], 0), self.counted["unchanged"])

    def note_fetched(self, identifiers: Sequence[str]) -> None:
        """Record which records of the current page were fetched one by one; the others are still to come."""
        self.fetched += identifiers

    def loss_warning(self) -> Note | None:
        """Return a warning if the current list, which has ended, may have skipped records."""
        again = self.window is not None and self.window.second_reading
        return self.watch.loss_warning(second_reading=again)

    def finish(self, end: End) -> None:
        """End the current list: add it to the totals, and proceed to the next window."""
        watch = self.watch
        self.totals["lists"] += 1
        self.totals["repeated"] += watch.count_repeated()
        self.totals["missing"] += watch.missing
        self.totals["shortened"] += watch.changed
        self.totals["of_several_pages"] += watch.pages > 1
        self.totals["revised"] += watch.revised
        self.totals["empty_pages"] += watch.empty
        self.totals["abrupt"] += watch.abrupt(no_token=end is End.NO_TOKEN)
        self.totals["late_no_match"] += end is End.NO_RECORDS_MATCH_LATE and not watch.confirmed
        in_doubt = self.totals.pop("doubtful", 0)
        self.totals["unconfirmed"] += end is End.NO_NEXT_PAGE or (bool(in_doubt) and not watch.confirmed)
        self.end = end
        self.replace_window([])

    def replace_window(self, windows: Sequence[Window], watch: ListWatch | None = None) -> None:
        """Replace the current window by other windows, and start a new list."""
        self.totals["announced"] = max(self.totals["announced"], self.watch.size or 0)
        self.windows[:1] = windows
        full_page = max(self.watch.full_page, self.watch.longest_page)
        self.watch = watch or ListWatch()
        self.watch.full_page = full_page
        self.counted = Counter()
        self.answer = self.last_page = None
        self.fetched = []

    def estimated_end(self, now: datetime, rate: float | None) -> datetime | None:
        """Return when the run should end at the given rate (records per second); None if that is unknown."""
        size = self.watch.size
        if size is None or not rate or len(self.windows) > 1:
            return None
        return now + timedelta(seconds=min(max(size - self.watch.listed, 0) / rate, _A_YEAR))

    def begin_again(self, window: Window, *, disorder: bool = False) -> None:
        """Start the current list again; with `disorder`, its datestamps are never again treated as sorted."""
        self.totals["restarts"] += 1
        self.totals["disorder"] |= disorder
        self._restart(window)

    def read_again(self, window: Window) -> None:
        """Request the current list, which ended but changed while it was read, a second time."""
        self.totals["second_readings"] += 1
        self._restart(replace(window, second_reading=True))

    def _restart(self, window: Window) -> None:
        self.watch.count_repeated()
        self.replace_window([window], ListWatch(before=self.watch.in_all))

    def take_up(self, later: Window) -> None:
        """Continue the current list from a later datestamp."""
        self.totals["taken_up"] += 1
        counted = self.counted
        self.replace_window([later], self.watch.taken_up())
        self.counted = counted

    def divide(self, windows: Sequence[Window]) -> None:
        """Request other windows instead of the current one, which cannot be read."""
        self.totals["halvings"] += 1
        self.replace_window(windows)

    def in_days(self, overlap: float) -> None:
        """Use bounds of whole days from now on; windows begin `overlap` seconds earlier."""
        self.windows = [window.in_days(overlap) for window in self.windows]
        self.replace_window(self.windows[:1])

    def leave_out(self, cause: Failure, *, divided: bool = False) -> None:
        """Continue without the current window, which cannot be listed; `divided`: without its siblings, too.

        Siblings are the other windows that came of divisions.
        """
        if divided:
            self.windows[1:] = [window for window in self.windows[1:] if not window.halvings]
        self.totals["unread"] += 1
        self.unread_for = self.unread_for or cause
        self.replace_window([])
        self.end = End.NO_TOKEN

    def uncounted(self, counts: Counter[str]) -> Counter[str]:
        """Return the run's counts without the current list's, except changes, which happen only once."""
        self.totals[_STILL_COUNTED] += _changes(self.counted)
        return _less(counts, self.counted)

    def put_off(self) -> None:
        """Move the current window to the end."""
        window = replace(self.windows[0], put_off=True)
        self.replace_window([])
        self.windows.append(window)

    def as_json(self) -> dict[str, Any]:
        """Return the JSON value for the checkpoint."""
        return {
            "windows": [window.as_json() for window in self.windows],
            "list": self.watch.as_json(),
            "totals": dict(self.totals),
            **({"fetched": self.fetched} if self.fetched else {}),
            "counted": dict(self.counted),
            "end": self.end.value,
            **({"answer": self.answer.as_json()} if self.answer else {}),
            **({"last_page": self.last_page.value} if self.last_page else {}),
            **({"unread_for": self.unread_for.as_json()} if self.unread_for else {}),
        }


def progress_from_json(found: dict[str, Any], marks: Marks) -> RunProgress:
    """Return the progress saved in a checkpoint, with the marks of the current list."""
    return RunProgress(
        windows=[window_from_json(window) for window in found.get("windows", [])],
        watch=watch_from_json(found.get("list", {}), marks),
        totals=Counter(found.get("totals", {})),
        fetched=list(found.get("fetched", [])),
        counted=Counter(found.get("counted", {})),
        end=End(found.get("end", End.NO_RECORDS_MATCH)),
        answer=_answer_from_json(found.get("answer")),
        last_page=End(found["last_page"]) if "last_page" in found else None,
        unread_for=Failure.from_json(found.get("unread_for")),
    )


def _answer_from_json(found: dict[str, Any] | None) -> PartlyStoredAnswer | None:
    return PartlyStoredAnswer(**{**found, "counted": Counter(found["counted"])}) if found else None


def _changes(counts: Counter[str]) -> int:
    return sum(counts[name] for name in _ONCE)


def _less(counts: Counter[str], added: Counter[str]) -> Counter[str]:
    """Return the counts without the added ones, except changes, which happen only once."""
    rest = Counter(counts)
    for name, number in added.items():
        if name not in _ONCE:
            rest[name] -= number
    rest["records"] += _changes(added)
    return rest

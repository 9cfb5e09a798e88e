"""How far a run is: the windows still to ask for, the list at hand, and the sums over those that ended."""

from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from typing import Any

from harvester.harvest.fetch import Fetched
from harvester.harvest.list_evidence import ListWatch, watch_from_json
from harvester.harvest.seen_identifiers import Marks
from harvester.harvest.verdict import End
from harvester.harvest.windows import Calendar, Window, next_piece, window_from_json

StateChange = Callable[["RunProgress"], None]
_ONCE = frozenset({"new", "updated", "deleted"})
_A_YEAR = 366 * 86_400.0


@dataclass(frozen=True, kw_only=True)
class AnswerAtHand:
    """A large answer that is stored in parts: the state before it, in case it has to be requested again."""

    watch: dict[str, Any]
    """The list at hand before the answer (`ListWatch.as_json`)."""
    marks: int
    """How many marks the list had."""
    counted: Counter[str] = field(default_factory=Counter)
    """What its parts have added to the run's counts."""

    def as_json(self) -> dict[str, Any]:
        """For the checkpoint."""
        return {"watch": self.watch, "marks": self.marks, "counted": dict(self.counted)}


@dataclass(kw_only=True)
class RunProgress:
    """Goes with each checkpoint; changed by the thread that takes pages in, and by nobody else."""

    windows: list[Window] = field(default_factory=list)
    """The list at hand is the first one's."""
    watch: ListWatch = field(default_factory=ListWatch)
    totals: Counter[str] = field(default_factory=Counter)
    """Sums over the lists that have ended, by the names of `Evidence`."""
    fetched: list[str] = field(default_factory=list)
    """Identifiers of the page at hand that were fetched one by one before the search had to end."""
    counted: Counter[str] = field(default_factory=Counter)
    """What the list at hand added to the run's counts."""
    answer: AnswerAtHand | None = None
    last_page: End | None = None
    """How the list at hand ended, once its last page is taken in; saved with that page, so that a run that is
    killed before `finish` does not request the list again."""
    end: End = End.NO_RECORDS_MATCH
    """Of the last list that ended."""

    @property
    def window(self) -> Window | None:
        """The window at hand; None when there is nothing left to ask for."""
        return self.windows[0] if self.windows else None

    def cut(self, calendar: Calendar) -> None:
        """Cut the first piece off the window at hand, which is to be sliced."""
        first, rest = next_piece(self.windows[0], calendar)
        self.windows[:1] = [first] if rest is None else [first, rest]

    def note_sounded(self) -> None:
        """Something may be in the window at hand, so that it is to be cut."""
        self.windows[0] = replace(self.windows[0], unsounded=False)

    def see(self, fetched: Fetched) -> None:
        """Add a page of the list at hand."""
        self.fetched = []
        unread = max(len(fetched.page.faults) - len(fetched.mended), 0)
        self.watch.see(fetched.page, mended=fetched.mended, unreadable=unread)
        self.totals["mended"] += len(fetched.mended)
        self.totals["doubtful"] += bool(fetched.mended)

    def begin_answer(self) -> None:
        """The next pages are parts of one answer."""
        self.answer = AnswerAtHand(watch=self.watch.as_json(), marks=len(self.watch.marks))

    def count(self, found: Counter[str], *, answer_ends: bool) -> None:
        """Add to what the list at hand, and the answer at hand, added to the run's counts."""
        self.counted += found
        if self.answer is not None:
            self.answer.counted.update(found)
            if answer_ends:
                self.answer = None

    def forget_answer(self, counts: Counter[str]) -> Counter[str]:
        """Go back to before the answer at hand, which was cut off; gives the run's counts as they were then.

        What was new, updated or deleted stays counted: when it comes again, it is no longer that.
        """
        if self.answer is None:
            return counts
        before = self.answer
        self.watch = watch_from_json(before.watch, self.watch.marks[: before.marks])
        self.counted = _less(self.counted, before.counted)
        self.totals["answers_again"] += 1
        self.answer = None
        return _less(counts, before.counted)

    def note_fetched(self, identifiers: Sequence[str]) -> None:
        """Of the page at hand these were fetched one by one; the others are still to come."""
        self.fetched += identifiers

    def finish(self, end: End) -> None:
        """The list at hand came to its end: add it to the sums, go on to the next window."""
        watch = self.watch
        self.totals["lists"] += 1
        self.totals["repeated"] += watch.count_repeated()
        self.totals["missing"] += watch.missing
        self.totals["revised"] += watch.revised
        self.totals["empty_pages"] += watch.empty
        self.totals["abrupt"] += watch.abrupt(no_token=end is End.NO_TOKEN)
        self.totals["late_no_match"] += end is End.NO_RECORDS_MATCH_LATE and not watch.confirmed
        in_doubt = self.totals.pop("doubtful", 0)
        self.totals["unconfirmed"] += bool(in_doubt) and not watch.confirmed
        self.end = end
        self.replace_window([])

    def replace_window(self, windows: Sequence[Window], watch: ListWatch | None = None) -> None:
        """Ask for other windows in place of the one at hand, with a new list."""
        self.windows[:1] = windows
        self.watch = watch or ListWatch()
        self.counted = Counter()
        self.answer = self.last_page = None
        self.fetched = []

    def estimated_end(self, now: datetime, rate: float | None) -> datetime | None:
        """When the run should end at the rate (records a second); None while nobody knows."""
        size = self.watch.size
        if size is None or not rate or len(self.windows) > 1:
            return None
        return now + timedelta(seconds=min(max(size - self.watch.listed, 0) / rate, _A_YEAR))

    def begin_again(self, window: Window, *, disorder: bool = False) -> None:
        """Ask for the list at hand from its start; with `disorder`, its datestamps never count as ordered."""
        self.totals["restarts"] += 1
        self.totals["disorder"] |= disorder
        self.replace_window([window])

    def take_up(self, later: Window) -> None:
        """Go on with the list at hand from a later datestamp."""
        self.totals["taken_up"] += 1
        self.replace_window([later], self.watch.taken_up())

    def divide(self, windows: Sequence[Window]) -> None:
        """Ask for other windows instead of the one at hand, which cannot be read."""
        self.totals["halvings"] += 1
        self.replace_window(windows)

    def in_days(self) -> None:
        """Ask with bounds of whole days from now on."""
        self.windows = [window.in_days() for window in self.windows]
        self.replace_window(self.windows[:1])

    def leave_out(self, windows: Sequence[Window]) -> None:
        """Go on without the window at hand, or with others in its place."""
        self.replace_window(windows)
        self.end = End.NO_TOKEN

    def uncounted(self, counts: Counter[str]) -> Counter[str]:
        """The run's counts less what the list at hand added, but for changes, which happen only once."""
        return _less(counts, self.counted)

    def put_off(self) -> None:
        """Ask for the window at hand at the very end."""
        window = replace(self.windows[0], put_off=True)
        self.replace_window([])
        self.windows.append(window)

    def as_json(self) -> dict[str, Any]:
        """For the checkpoint."""
        return {
            "windows": [window.as_json() for window in self.windows],
            "list": self.watch.as_json(),
            "totals": dict(self.totals),
            **({"fetched": self.fetched} if self.fetched else {}),
            "counted": dict(self.counted),
            "end": self.end.value,
            **({"answer": self.answer.as_json()} if self.answer else {}),
            **({"last_page": self.last_page.value} if self.last_page else {}),
        }


def progress_from_json(found: dict[str, Any], marks: Marks) -> RunProgress:
    """How far the run was that wrote the checkpoint, with the marks of the list at hand."""
    return RunProgress(
        windows=[window_from_json(window) for window in found.get("windows", [])],
        watch=watch_from_json(found.get("list", {}), marks),
        totals=Counter(found.get("totals", {})),
        fetched=list(found.get("fetched", [])),
        counted=Counter(found.get("counted", {})),
        end=End(found.get("end", End.NO_RECORDS_MATCH)),
        answer=_answer_from_json(found.get("answer")),
        last_page=End(found["last_page"]) if "last_page" in found else None,
    )


def _answer_from_json(found: dict[str, Any] | None) -> AnswerAtHand | None:
    return AnswerAtHand(**{**found, "counted": Counter(found["counted"])}) if found else None


def _less(counts: Counter[str], added: Counter[str]) -> Counter[str]:
    """The counts without what was added, but for changes, which happen only once."""
    rest = Counter(counts)
    for name, number in added.items():
        if name not in _ONCE:
            rest[name] -= number
    return rest

"""What one list reveals page by page: the evidence for the verdict and the next step."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, fields
from typing import Any

from harvester.harvest.run_warnings import Note
from harvester.harvest.seen_identifiers import Marks, count_repeated, mark, no_marks
from harvester.reading.answers import Header, Page
from oai.console import counted
from oai.failures import Failure, FailureCode

_RISES_THAT_CONVINCE = 8
"""Number of rises without a fall after which the datestamps count as sorted; by chance, 1 list in 300,000."""
_DATESTAMP_LENGTHS = (10, 20)
_ROUND = 1000
"""Multiples of it may be the most that a search server counts (often 10,000) rather than a list's size."""


@dataclass(kw_only=True)
class ListWatch:
    """What a list has shown so far."""

    pages: int = 0
    listed: int = 0
    """Entries, including repeated and unreadable ones."""
    size: int | None = None
    """completeListSize as the server last stated it; the server may revise it (section 3.5)."""
    largest: int = 0
    """The largest completeListSize that the server stated."""
    revised: int = 0
    """Number of times the server revised it."""
    empty: int = 0
    """Pages with a token but without records."""
    repeated: int = 0
    """Entries that had occurred before in this list."""
    overlapping: int = 0
    """Repeated entries; in a list continued from a later datestamp, also those received before."""
    longest_page: int = 0
    last_page: int = 0
    begun: int = 0
    """Entries of the current answer, of which further parts follow."""
    lowest: str = ""
    highest: str = ""
    settled: str = ""
    """The first datestamp of the last page after which no smaller one followed.

    If the list is sorted, entries after it have not been seen. The largest datestamp is not used: it may
    belong to a single misplaced record.
    """
    rises: int = 0
    fell: bool = False
    earlier: int = 0
    """Entries of the list before it was continued from a later datestamp."""
    earlier_size: int | None = None
    """completeListSize of the list as first requested."""
    begins: int = 0
    """Number of marks from before the list was continued."""
    before: int | None = None
    """Different entries of the list when it was last requested again, from its start or later."""
    full_page: int = 0
    """Entries of the longest page of the run's earlier lists."""
    marks: Marks = field(default_factory=no_marks, repr=False)
    """Marks of all entries with readable identifiers, in list order."""

    def see(self, page: Page, *, mended: Sequence[Header] = (), unreadable: int = 0) -> None:
        """Add a page: its headers, the records fetched one by one, and the number of unreadable ones."""
        entries = len(page.headers)
        on_page = entries + len(mended) + unreadable
        self.listed += on_page
        self.begun += on_page
        if page.rest is None:
            self._end_answer(page)
        self.marks.extend([mark(header.identifier) for header in page.headers])
        self.marks.extend([mark(header.identifier) for header in mended])
        # The dates of answers would look like those of a sorted list, and records would be skipped.
        self.fell = self.fell or any(header.undated for header in page.headers)
        self._order([header.datestamp for header in page.headers])

    def _end_answer(self, page: Page) -> None:
        self.pages += 1
        self.last_page, self.begun = self.begun, 0
        self.longest_page = max(self.longest_page, self.last_page)
        self.empty += not self.last_page and bool(page.next_token)
        size = page.complete_list_size
        if size is not None:
            self.revised += self.size is not None and size != self.size
            self.size = size
            self.largest = max(self.largest, size)

    @property
    def orderly(self) -> bool:
        """Whether the list is sorted by ascending datestamps, as far as can be observed."""
        return not self.fell and self.rises >= _RISES_THAT_CONVINCE and bool(self.settled)

    def count_repeated(self) -> int:
        """Count the entries that occurred before."""
        self.repeated = self.overlapping = count_repeated(self.marks, self.begins)
        if self.begins:
            self.overlapping = count_repeated(self.marks)
        return self.repeated

    @property
    def missing(self) -> int:
        """Records that the server announced but did not list; repeated ones count once."""
        here = self.listed - self.repeated
        return max(
            0 if self.size is None else self.size - here,
            0 if self.earlier_size is None else self.earlier_size - self.in_all,
            0,
        )

    @property
    def in_all(self) -> int:
        """Different entries, including those before the list was continued from a later datestamp."""
        return self.earlier + self.listed - self.overlapping

    @property
    def lost(self) -> int:
        """How many records may have been skipped because others were removed while the list was read.

        A server whose tokens count positions skips as many records as it removes from pages already sent. At
        most a page is taken for that: sizes that fall further are estimates.
        """
        fewer = self.largest - (self.listed - self.repeated)
        return fewer if not self.missing and 0 < fewer <= self.longest_page else 0

    def loss_warning(self, *, second_reading: bool = False) -> Note | None:
        """Return a warning if records may have been skipped, unless the size shows that they are missing."""
        if not self.changed or self.missing:
            return None
        skipped = "it may have skipped records, which the next full harvest (--full) finds"
        if second_reading:
            skipped = (
                "it also changed when it was read for the first time; the next full harvest (--full) finds"
                " records that both readings skipped"
            )
        failure = Failure(code=FailureCode.LIST_REPEATED, facts={"count": self.repeated})
        if self.lost:
            facts = {"before": self.largest, "after": self.listed - self.repeated}
            failure = Failure(code=FailureCode.LIST_SHORTENED, facts=facts)
        return Note(text=f"{self.change_in_words()}; {skipped}", failure=failure)

    def change_in_words(self) -> str:
        """Return how the list changed while it was read."""
        if self.lost:
            after = self.listed - self.repeated
            return f"the list became shorter while it was read: {self.largest:,} records, then {after:,}"
        return f"the list repeated {counted(self.repeated, 'record')} while it was read"

    @property
    def changed(self) -> bool:
        """Whether the list changed while it was read, so that it may have skipped records.

        Where tokens count positions, it becomes shorter, or repeats records while it skips others. A stated
        size that equals the number of different records shows that repeated ones did not replace others, and
        a single page skips nothing.
        """
        differs = self.repeated > 0 and self.size != self.listed - self.repeated
        return bool(self.lost) or (differs and self.pages > 1)

    @property
    def confirmed(self) -> bool:
        """Whether the server stated the number of records, and all were received."""
        return self.size is not None and self.size > 0 and not self.missing

    @property
    def ends_by_size(self) -> bool:
        """Whether the stated size proves that a list without a proper end has ended.

        Only a size that never changed and was reached exactly does: some servers state the size of a page,
        what they have sent so far, or the most that they count.
        """
        here = self.listed - self.repeated
        plausible = self.longest_page < here == self.size and here % _ROUND != 0
        return self.confirmed and plausible and not self.revised

    @property
    def seems_ended(self) -> bool:
        """Whether its last page, which has a token, may be the end: it is empty, or shorter than another one.

        Not if the server states sizes, which are better evidence, unless the size is that of a single page;
        nor if the number of entries may be the most that it lists.
        """
        short = self.last_page < max(self.longest_page, self.full_page) or not self.last_page
        at_most = self.in_all > 0 and self.in_all % _ROUND == 0
        unsized = not self.largest or (self.pages == 1 and self.listed == self.largest)
        return self.pages > 0 and short and unsized and not at_most

    @property
    def has_nothing_more(self) -> bool:
        """Whether the list seems to have ended, and had as many entries before it was requested again."""
        return self.seems_ended and self.in_all == self.before

    def taken_up(self) -> "ListWatch":
        """Return the watch over the list requested again from its settled datestamp on."""
        return ListWatch(
            earlier=self.earlier + self.listed,
            earlier_size=self.earlier_size if self.begins else self.size,
            rises=self.rises,
            begins=len(self.marks),
            before=self.in_all,
            marks=self.marks,
        )

    def abrupt(self, *, no_token: bool) -> bool:
        """Return whether the list may have lost its token: its last page is full and has no token element.

        The last page of a list must have an empty resumptionToken (section 3.5). Many servers omit it; on a
        page shorter than the others that is no reason for doubt.
        """
        return no_token and self.pages > 1 and self.size is None and self.last_page >= self.longest_page

    def as_json(self) -> dict[str, Any]:
        """Return the JSON value for the checkpoint."""
        return {name: getattr(self, name) for name in _KEPT}

    def _order(self, stamps: list[str]) -> None:
        """Record whether the datestamps keep rising."""
        if self.fell or not stamps:
            return
        length = len(self.highest or stamps[0])
        alike = length in _DATESTAMP_LENGTHS and all(len(stamp) == length for stamp in stamps)
        if not alike or stamps[0] < self.highest or stamps != sorted(stamps):
            self.fell = True
            return
        self.rises += len(set(stamps)) - (stamps[0] == self.highest or not self.highest)
        self.lowest = self.lowest or stamps[0]
        self.highest = stamps[-1]
        if len(stamps) > 1:
            self.settled = stamps[0]


def watch_from_json(found: dict[str, Any], marks: Marks | None = None) -> ListWatch:
    """Return a watch from the checkpoint's JSON; its marks are stored separately (`ListMarks`)."""
    known = {name: found[name] for name in _KEPT if name in found}
    return ListWatch(**known, marks=no_marks() if marks is None else marks)


def _kept() -> Iterator[str]:
    return (entry.name for entry in fields(ListWatch) if entry.name != "marks")


_KEPT = tuple(_kept())

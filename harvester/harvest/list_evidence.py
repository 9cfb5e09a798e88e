"""What one list shows of itself, page by page: the evidence that the verdict and the next step rest on."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, fields
from typing import Any

from harvester.harvest.seen_identifiers import Marks, count_repeated, mark, no_marks
from harvester.reading.answers import Header, Page

_RISES_THAT_CONVINCE = 8
"""So many times the datestamps rose, and never fell: by chance that is one list in 300,000."""
_DATESTAMP_LENGTHS = (10, 20)


@dataclass(kw_only=True)
class ListWatch:
    """What a list has shown so far."""

    pages: int = 0
    listed: int = 0
    """Entries, repeated and unreadable ones included."""
    size: int | None = None
    """completeListSize as the server said last; it may revise it (section 3.5)."""
    revised: int = 0
    """How often it did."""
    empty: int = 0
    """Pages without a record that gave a token."""
    repeated: int = 0
    """Entries that came before in this list."""
    overlapping: int = 0
    """Those and, of a list that was taken up again, the ones that came before it was."""
    longest_page: int = 0
    last_page: int = 0
    begun: int = 0
    """Entries of the answer at hand, of which further parts are to come."""
    lowest: str = ""
    highest: str = ""
    settled: str = ""
    """The first datestamp of a page on which no smaller one followed: what comes after it is not yet seen, if
    the list is in order. The largest one may be of a single record that stands out of line."""
    rises: int = 0
    fell: bool = False
    earlier: int = 0
    """Entries of the list before it was taken up again from a later datestamp."""
    earlier_size: int | None = None
    """completeListSize of the list as it was asked for first."""
    begins: int = 0
    """Marks of before the list was taken up again."""
    marks: Marks = field(default_factory=no_marks, repr=False)
    """Of all entries whose identifiers could be read, in their order."""

    def see(self, page: Page, *, mended: Sequence[Header] = (), unreadable: int = 0) -> None:
        """Add a page: its headers, those that were fetched one by one, and what could not be read."""
        entries = len(page.headers)
        came = entries + len(mended) + unreadable
        self.listed += came
        self.begun += came
        if page.rest is None:
            self._end_answer(page)
        self.marks.extend([mark(header.identifier) for header in page.headers])
        self.marks.extend([mark(header.identifier) for header in mended])
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

    @property
    def orderly(self) -> bool:
        """Whether the list is sorted by rising datestamps, as far as can be told."""
        return not self.fell and self.rises >= _RISES_THAT_CONVINCE and bool(self.settled)

    def count_repeated(self) -> int:
        """Count the entries that came before."""
        self.repeated = self.overlapping = count_repeated(self.marks, self.begins)
        if self.begins:
            self.overlapping = count_repeated(self.marks)
        return self.repeated

    @property
    def missing(self) -> int:
        """Records that the server announced and did not list; one that came twice counts once."""
        here = self.listed - self.repeated
        in_all = self.earlier + self.listed - self.overlapping
        return max(
            0 if self.size is None else self.size - here,
            0 if self.earlier_size is None else self.earlier_size - in_all,
            0,
        )

    @property
    def confirmed(self) -> bool:
        """Whether the server said how many there are, and they came."""
        return self.size is not None and self.size > 0 and not self.missing

    def taken_up(self) -> "ListWatch":
        """The watch over what follows when the list is asked for again from its largest datestamp."""
        return ListWatch(
            earlier=self.earlier + self.listed,
            earlier_size=self.earlier_size if self.begins else self.size,
            rises=self.rises,
            begins=len(self.marks),
            marks=self.marks,
        )

    def abrupt(self, *, no_token: bool) -> bool:
        """Whether the list may have lost its token: a full page like those before, and no token element.

        A list's last page has to have an empty one (section 3.5). Many servers forget it; on a page shorter
        than the others that is no reason for doubt.
        """
        return no_token and self.pages > 1 and self.size is None and self.last_page >= self.longest_page

    def as_json(self) -> dict[str, Any]:
        """For the checkpoint."""
        return {name: getattr(self, name) for name in _KEPT}

    def _order(self, stamps: list[str]) -> None:
        """Note whether the datestamps go on rising."""
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
    """A watch out of the checkpoint; its marks are kept apart (`marks_kept`)."""
    known = {name: found[name] for name in _KEPT if name in found}
    return ListWatch(**known, marks=no_marks() if marks is None else marks)


def _kept() -> Iterator[str]:
    return (entry.name for entry in fields(ListWatch) if entry.name != "marks")


_KEPT = tuple(_kept())

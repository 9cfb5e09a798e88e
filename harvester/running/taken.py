"""A page on its way from the repository into the store."""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

from harvester.running.fetching import Fetched
from harvester.running.preparing import Batch
from harvester.running.refusals import Refusal
from harvester.running.verdict import End

_PAGE_BYTES = 16 * 1024
"""What a page counts for besides its records, so that empty ones have an end, too."""


@dataclass(frozen=True, kw_only=True)
class Taken:
    """A page as it was fetched, and as it is to be stored."""

    fetched: Fetched
    batch: Batch

    @cached_property
    def weight(self) -> int:
        """About how many bytes of memory it takes."""
        return _PAGE_BYTES + sum(len(data) for _, _, data, _ in self.batch.records if data is not None)

    @property
    def end(self) -> End | None:
        """How the list ended with this page, or None where it goes on."""
        page = self.fetched.page
        if self.fetched.gave_up:
            return End.GAVE_UP
        if self.fetched.sample_full:
            return End.SAMPLE
        if page.cut_off:
            return End.BROKEN_OFF
        if page.rest is not None:
            return None
        if page.token is None:
            return End.NO_TOKEN
        return None if page.next_token else End.EMPTY_TOKEN

    @property
    def refused(self) -> Sequence[Refusal]:
        """What is not stored, for it could not be read, or not be judged by the rules."""
        return [*self.fetched.refused, *self.batch.refused]

    def counts(self) -> Counter[str]:
        """What can be counted before the store is asked."""
        return Counter(
            pages=int(self.fetched.page.rest is None),
            records=len(self.fetched.entries) - len(self.batch.refused),
            filtered=self.batch.filtered,
            invalid=len(self.refused),
        )

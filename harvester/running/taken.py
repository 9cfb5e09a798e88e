"""A page on its way from the repository into the store."""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

from harvester.running.fetching import Fetched
from harvester.running.preparing import Batch
from harvester.running.refusals import Refusal


@dataclass(frozen=True, kw_only=True)
class Taken:
    """A page as it was fetched, and as it is to be stored."""

    fetched: Fetched
    batch: Batch

    @property
    def refused(self) -> Sequence[Refusal]:
        """What is not stored, for it could not be read, or not be judged by the rules."""
        return [*self.fetched.refused, *self.batch.refused]

    def counts(self) -> Counter[str]:
        """What can be counted before the store is asked."""
        return Counter(
            pages=1,
            records=len(self.fetched.entries) - len(self.batch.refused),
            filtered=self.batch.filtered,
            invalid=len(self.refused),
        )

"""Which capture of each URL is restored: the one nearest to the moment wanted, or the latest."""

from collections.abc import Iterable
from datetime import datetime

from harvester.restoring.captures import Capture


class Choice:
    """The chosen capture of each URL, of those seen so far.

    A capture of an error page counts only while nothing else of its URL is there.
    """

    def __init__(self, at: datetime | None = None) -> None:
        self._at = at
        self._chosen: dict[str, Capture] = {}
        self.seen = 0
        """Captures that were looked at."""

    def see(self, capture: Capture) -> None:
        """Take the capture if it is the better one."""
        self.seen += 1
        other = self._chosen.get(capture.url)
        if other is None or self._merit(capture) > self._merit(other):
            self._chosen[capture.url] = capture

    def see_all(self, captures: Iterable[Capture]) -> None:
        """Take the better ones of several."""
        for capture in captures:
            self.see(capture)

    def chosen(self) -> list[Capture]:
        """The captures in the order of their URLs."""
        return [self._chosen[url] for url in sorted(self._chosen)]

    def _merit(self, capture: Capture) -> tuple[bool, float, datetime, str]:
        distance = 0.0 if self._at is None else -abs((capture.captured - self._at).total_seconds())
        return not capture.is_error, distance, capture.captured, capture.key

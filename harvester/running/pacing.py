"""How fast a run was over its course: some hundred samples at most, taken as its pages are saved."""

from dataclasses import dataclass, field

_MOST = 120


@dataclass(kw_only=True)
class Pace:
    """Samples of seconds since the run began, and records and requests by then.

    When there are too many, every second one goes, and from then on they are taken half as often.
    """

    samples: list[tuple[float, int, int]] = field(default_factory=list)
    _step: float = 0.25

    def note(self, seconds: float, records: int, requests: int) -> None:
        """Take a sample, unless the last one is too near."""
        if self.samples and seconds - self.samples[-1][0] < self._step:
            return
        self._add(seconds, records, requests)

    def close(self, seconds: float, records: int, requests: int) -> list[list[float]]:
        """Take the last sample, and give all for the history."""
        if not self.samples or self.samples[-1][1:] != (records, requests):
            self._add(seconds, records, requests)
        return [list(sample) for sample in self.samples]

    def _add(self, seconds: float, records: int, requests: int) -> None:
        self.samples.append((round(seconds, 2), records, requests))
        if len(self.samples) > _MOST:
            self.samples = self.samples[::2]
            self._step *= 2

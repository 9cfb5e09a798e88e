"""The progress that checkpoints save."""

from collections import Counter
from datetime import UTC, datetime, timedelta

import pytest

from harvester.harvest.checkpointer import RunState
from harvester.harvest.list_evidence import ListWatch
from harvester.harvest.progress import RunProgress
from harvester.harvest.windows import Window

NOW = datetime(2024, 6, 1, tzinfo=UTC)


@pytest.mark.parametrize(
    ("size", "listed", "rate", "seconds"),
    [(100, 40, 0.5, 120), (100, 140, 2, 0), (10**12, 0, 1, 366 * 86400)],
)
def test_the_estimated_end_follows_from_the_rest_of_the_list_and_the_rate(
    size: int, listed: int, rate: float, seconds: int
) -> None:
    progress = RunProgress(windows=[Window()], watch=ListWatch(size=size, listed=listed))
    assert progress.estimated_end(NOW, rate) == NOW + timedelta(seconds=seconds)


def test_without_a_size_or_a_rate_or_with_further_lists_the_end_is_unknown() -> None:
    one = RunProgress(windows=[Window()], watch=ListWatch(size=100))
    assert one.estimated_end(NOW, None) is None
    assert RunProgress(windows=[Window()]).estimated_end(NOW, 1) is None
    more = RunProgress(windows=[Window(), Window()], watch=ListWatch(size=100))
    assert more.estimated_end(NOW, 1) is None


def test_a_resumed_run_counts_the_requests_of_all_its_parts() -> None:
    state = RunState(resumed=Counter(requests=5, bytes=70))
    state.traffic.requests, state.traffic.bytes = 4, 80
    assert state.with_traffic(Counter(records=1)) == Counter(records=1, requests=9, bytes=150)

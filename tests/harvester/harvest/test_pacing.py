from itertools import pairwise

from harvester.harvest.checkpointer import Pace


def test_a_short_run_keeps_its_samples_and_its_end() -> None:
    pace = Pace()
    pace.note(0.5, 10, 1)
    pace.note(0.6, 20, 2)
    pace.note(1.0, 30, 3)

    assert pace.close(1.1, 40, 4) == [[0.5, 10, 1], [1.0, 30, 3], [1.1, 40, 4]]


def test_a_long_run_keeps_few_samples_from_its_whole_course() -> None:
    pace = Pace()
    for second in range(100_000):
        pace.note(float(second), second * 5, second)

    samples = pace.close(100_000, 500_000, 100_000)

    assert 50 <= len(samples) <= 121
    assert samples[0][0] == 0
    gaps = [later[0] - earlier[0] for earlier, later in pairwise(samples[:-1])]
    assert max(gaps) <= 100_000 / 25

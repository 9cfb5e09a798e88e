"""Wait reasons and their sentences."""

from collections.abc import Iterator
from datetime import UTC, datetime, timedelta

import pytest

from manager.jobs.reasons import SENTENCES, Code, Maintenance, WaitReason, in_words
from manager.notices.models import Mute

BEGIN = datetime(2026, 1, 1, tzinfo=UTC)


def test_every_code_has_its_sentence() -> None:
    assert SENTENCES.keys() == set(Code)


def test_a_stored_reason_is_read_back_unchanged() -> None:
    reason = WaitReason(code=Code.HOST, facts={"host": "a.example", "limit": 2})
    assert WaitReason.from_json(reason.as_json()) == reason


@pytest.mark.parametrize("stored", [None, [1], "due", {}, {"code": "nonsense"}, {"code": 7}, {"code": []}])
def test_invalid_stored_reasons_are_read_as_none(stored: object) -> None:
    assert WaitReason.from_json(stored) is None


def test_a_translation_gets_the_facts() -> None:
    reason = WaitReason(code=Code.REPOSITORY, facts={"job": 7})
    assert in_words(reason) == "one harvest per repository: waiting for job 7"
    assert in_words(reason, lambda _: "nejprve úloha %(job)s") == "nejprve úloha 7"


def test_a_missing_fact_is_shown_as_unknown() -> None:
    assert in_words(WaitReason(code=Code.HOST)) == "at most (unknown) harvests at a time from host (unknown)"


def window(repository_id: int | None, start: int, end: int) -> Mute:
    """Return a maintenance window; start and end are in minutes."""
    return Mute(
        repository_id=repository_id,
        starts=BEGIN + timedelta(minutes=start),
        ends=BEGIN + timedelta(minutes=end),
    )


def test_windows_of_a_repository_and_of_all_repositories_follow_each_other() -> None:
    windows = [
        window(1, 0, 10),
        window(None, 10, 20),
        window(2, 15, 90),
        window(1, 20, 30),
        window(1, 40, 50),
    ]
    maintenance = Maintenance(windows=windows)
    assert maintenance.of(1) == [windows[0], windows[1], windows[3], windows[4]]
    assert maintenance.of(3) == [windows[1]]
    assert maintenance.end(1, BEGIN) == BEGIN + timedelta(minutes=30)
    assert maintenance.end(3, BEGIN) is None


class ReadWindows(list[Mute]):
    """Windows that count how many of them are read."""

    read = 0

    def __iter__(self) -> Iterator[Mute]:
        for row in super().__iter__():
            self.read += 1
            yield row


def test_each_window_is_read_once_for_all_jobs() -> None:
    windows = ReadWindows(window(number, 0, number) for number in range(1, 101))
    maintenance = Maintenance(windows=windows)
    ends = [maintenance.end(number, BEGIN) for number in range(1, 101)]
    assert ends == [BEGIN + timedelta(minutes=number) for number in range(1, 101)]
    assert windows.read == 100

"""The verdict for each kind of evidence."""

from typing import Any

import pytest

from harvester.harvest.verdict import PROPER, End, Evidence, doubts, judge

CASES: dict[str, tuple[dict[str, Any], str, str]] = {
    "everything came": ({}, "complete", "completed"),
    "nothing changed": ({"changes": 0}, "complete", "no changes"),
    "only deletions of unknown records": ({"changes": 0, "tombstones": 1}, "complete", "completed"),
    "nothing matches": (
        {"end": End.NO_RECORDS_MATCH, "listed": 0, "changes": 0}, "complete", "no changes"
    ),
    "no token element on the last page": ({"end": End.NO_TOKEN}, "complete", "completed"),
    "a size that was revised": ({"complete_list_size": 10, "revised": 3}, "complete", "completed"),
    "more came than was announced": ({"complete_list_size": 5}, "complete", "completed"),
    "fewer came than were announced": ({"missing": 1}, "partial", "completed with errors"),
    "repeated records that are not missing": ({"repeated": 3}, "complete", "completed"),
    "empty pages in the middle": ({"empty_pages": 2}, "complete", "completed"),
    "one of many could not be read": ({"refused": 1}, "partial", "completed with errors"),
    "995 of 1,000 could not be read": ({"listed": 1000, "refused": 995}, "partial", "completed with errors"),
    "mended, and the number is right": ({"mended": 1}, "complete", "completed"),
    "mended, and nobody knows the number": (
        {"mended": 1, "unconfirmed": 1}, "partial", "completed with errors"
    ),
    "an abrupt end": ({"end": End.NO_TOKEN, "abrupt": 1}, "partial", "completed with errors"),
    "noRecordsMatch in the middle, all there": (
        {"end": End.NO_RECORDS_MATCH_LATE}, "complete", "completed"
    ),
    "noRecordsMatch in the middle": (
        {"end": End.NO_RECORDS_MATCH_LATE, "late_no_match": 1}, "partial", "completed with errors"
    ),
    "the token expired, and it was taken up again": ({"taken_up": 1}, "complete", "completed"),
    "the token expired, and it began again": ({"restarts": 3}, "complete", "completed"),
    "all slices came": ({"lists": 300}, "complete", "completed"),
    "slices are left": ({"lists": 3, "windows_left": 1}, "partial", "incomplete"),
    "interrupted": ({"end": End.INTERRUPTED, "windows_left": 1}, "partial", "incomplete"),
    "interrupted, and records refused": ({"end": End.INTERRUPTED, "refused": 1}, "partial", "incomplete"),
    "broken off": ({"end": End.BROKEN_OFF}, "partial", "incomplete"),
    "the search was given up": ({"end": End.GAVE_UP, "windows_left": 1}, "partial", "incomplete"),
    "a sample": ({"end": End.SAMPLE, "windows_left": 1}, "partial", "completed"),
    "a sample with a refused record": (
        {"end": End.SAMPLE, "refused": 1, "windows_left": 1}, "partial", "completed with errors"
    ),
    "a date range could not be listed": ({"unread": 1}, "partial", "completed with errors"),
    "nothing could be listed": ({"unread": 1, "listed": 0, "changes": 0}, "failed", "failed"),
    "an error": ({"end": End.ERROR, "windows_left": 1}, "failed", "failed"),
    "an error after refused records": ({"end": End.ERROR, "refused": 1}, "failed", "failed"),
}  # fmt: skip


@pytest.mark.parametrize("name", CASES)
def test_the_verdict_follows_from_the_evidence(name: str) -> None:
    given, verdict, status = CASES[name]
    evidence = Evidence(**{"end": End.EMPTY_TOKEN, "listed": 10, "changes": 10, **given})
    assert judge(evidence) == (verdict, status)


@pytest.mark.parametrize(
    ("given", "words"),
    [
        ({"missing": 1}, "1 record that the repository announced is missing"),
        ({"missing": 2000}, "2,000 records that the repository announced are missing"),
        ({"windows_left": 1}, "1 list was not requested"),
        ({"windows_left": 2}, "2 lists were not requested"),
    ],
)
def test_a_doubt_has_a_singular_and_a_plural(given: dict[str, Any], words: str) -> None:
    assert list(doubts(Evidence(**{"end": End.EMPTY_TOKEN, "listed": 10, "changes": 10, **given}))) == [words]


def test_refused_tokens_explain_a_run_better_than_the_records_that_are_missing_because_of_them() -> None:
    evidence = Evidence(
        end=End.NO_NEXT_PAGE, listed=40, changes=40, tokens_refused=1, unconfirmed=1, missing=20
    )
    assert [doubt.code for doubt in doubts(evidence).values()] == ["tokens_refused", "records_missing"]


def _names_a_reason(evidence: Evidence) -> bool:
    """Return whether a doubt, a quarantined record, or the end of the run explains what is missing."""
    return bool(doubts(evidence) or evidence.refused or evidence.end not in PROPER)


@pytest.mark.parametrize("name", CASES)
def test_every_verdict_but_complete_names_its_reason(name: str) -> None:
    given, verdict, _ = CASES[name]
    evidence = Evidence(**{"end": End.EMPTY_TOKEN, "listed": 10, "changes": 10, **given})
    assert _names_a_reason(evidence) is (verdict != "complete")


LACKING: list[dict[str, Any]] = [
    {"missing": 1}, {"refused": 1}, {"unconfirmed": 1}, {"abrupt": 1}, {"late_no_match": 1},
    {"windows_left": 1},
]  # fmt: skip


@pytest.mark.parametrize("end", End)
@pytest.mark.parametrize("lack", LACKING, ids=lambda lack: next(iter(lack)))
def test_a_run_with_missing_records_is_never_complete(end: End, lack: dict[str, Any]) -> None:
    assert judge(Evidence(end=end, listed=10, changes=10, **lack))[0] != "complete"

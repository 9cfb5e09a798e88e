"""Which jobs are admitted: limits, priorities, and turns of owners."""

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from manager.jobs.reasons import Code, WaitReason
from manager.leader.admission import AdmissionJob, AdmissionLimits, admit, host_of

NOON = datetime(2026, 1, 1, 12, tzinfo=UTC)
WIDE = AdmissionLimits(per_host=100, overall=None, lookahead=100)


def job(number: int, **facts: Any) -> AdmissionJob:
    own = {"repository_id": number, "host": f"host-{number}", "due": NOON + timedelta(minutes=number)}
    return AdmissionJob(job_id=number, **{**own, **facts})


def order(
    due: list[AdmissionJob], under_way: list[AdmissionJob] | None = None, limits: AdmissionLimits = WIDE
) -> list[int]:
    admitted, _ = admit(due, under_way or [], [], limits)
    return [one.job.job_id for one in sorted(admitted, key=lambda one: -one.rank)]


def reasons(
    due: list[AdmissionJob], under_way: list[AdmissionJob], limits: AdmissionLimits
) -> dict[int, WaitReason]:
    return admit(due, under_way, [], limits)[1]


def test_the_job_that_is_due_longest_is_admitted_first() -> None:
    assert order([job(3), job(1), job(2)]) == [1, 2, 3]


def test_a_job_of_higher_priority_is_admitted_first() -> None:
    assert order([job(1), job(2, priority=5), job(3, priority=-5)]) == [2, 1, 3]


def test_owners_take_turns() -> None:
    many = [job(number, owner="many") for number in (1, 2, 3, 4)]
    assert order([*many, job(8, owner="few"), job(9, owner="few")]) == [1, 8, 2, 9, 3, 4]


def test_owners_with_running_jobs_come_after_owners_without() -> None:
    running = [job(number, owner="busy") for number in (10, 11)]
    assert order([job(1, owner="busy"), job(2, owner="idle"), job(3, owner="idle")], running) == [2, 3, 1]


def test_a_job_of_another_owner_ranks_at_least_as_high_as_jobs_already_queued() -> None:
    first, _ = admit([job(number, owner="many") for number in range(1, 6)], [], [], WIDE)
    ranks = [one.rank for one in first]
    late, _ = admit([job(9, owner="few")], [one.job for one in first], ranks, WIDE)
    assert sum(rank > late[0].rank for rank in ranks) == 0


def test_one_job_per_repository_is_admitted_and_the_next_names_the_job_it_waits_for() -> None:
    due = [job(1, repository_id=7), job(2, repository_id=7)]
    assert reasons(due, [], WIDE) == {2: WaitReason(code=Code.REPOSITORY, facts={"job": 1})}
    assert reasons(due, [job(5, repository_id=7)], WIDE).keys() == {1, 2}


def test_jobs_beyond_the_limit_per_host_wait_with_the_reason() -> None:
    limits = AdmissionLimits(per_host=2, overall=None, lookahead=100)
    due = [job(number, host="one.example") for number in (1, 2, 3)]
    reason = WaitReason(code=Code.HOST, facts={"host": "one.example", "limit": 2})
    assert reasons(due, [], limits) == {3: reason}


def test_jobs_beyond_the_overall_limit_wait_with_the_reason() -> None:
    limits = AdmissionLimits(per_host=9, overall=2, lookahead=100)
    reason = WaitReason(code=Code.OVERALL, facts={"limit": 2})
    assert reasons([job(1), job(2)], [job(3)], limits) == {2: reason}


def test_a_job_waits_until_the_not_before_time_of_its_repository() -> None:
    until = WaitReason(code=Code.NOT_BEFORE, facts={"until": "2026-01-01T12:00:00Z"})
    assert reasons([job(1, not_before=NOON), job(2)], [], WIDE) == {1: until}


def test_a_full_queue_admits_only_jobs_of_higher_priority() -> None:
    limits = AdmissionLimits(per_host=9, overall=None, lookahead=2)
    first, held_back = admit([job(number) for number in (1, 2, 3)], [], [], limits)
    assert held_back == {3: WaitReason(code=Code.WORKER)}
    ranks = [one.rank for one in first]
    urgent, _ = admit([job(9, priority=1)], [one.job for one in first], ranks, limits)
    assert [one.job.job_id for one in urgent] == [9]


@pytest.mark.parametrize(
    ("base_url", "host"),
    [("https://A.Example:8080/oai", "a.example"), ("http://[::1]/", "::1"), ("http://[", ""), ("x", "")],
)
def test_the_host_is_that_of_the_base_url(base_url: str, host: str) -> None:
    assert host_of(base_url) == host


_admission_jobs: st.SearchStrategy[list[dict[str, Any]]] = st.lists(
    st.builds(
        dict,
        repository_id=st.integers(1, 5),
        host=st.sampled_from(["a", "b", "c"]),
        owner=st.sampled_from([None, "x", "y"]),
        priority=st.integers(-2, 2),
    ),
    max_size=20,
)


@given(due=_admission_jobs, running=_admission_jobs, per_host=st.integers(1, 3), overall=st.integers(1, 6))
def test_each_job_is_admitted_or_has_a_wait_reason_and_no_limit_is_exceeded(
    due: list[dict[str, Any]], running: list[dict[str, Any]], per_host: int, overall: int
) -> None:
    waiting = [job(number, **facts) for number, facts in enumerate(due, 1)]
    under_way = [job(number, **facts) for number, facts in enumerate(running, 100)]
    limits = AdmissionLimits(per_host=per_host, overall=overall, lookahead=100)
    admitted, held_back = admit(waiting, under_way, [], limits)
    taken = [one.job for one in admitted]
    assert {one.job_id for one in taken} | held_back.keys() == {one.job_id for one in waiting}
    assert not {one.job_id for one in taken} & held_back.keys()
    repositories = [one.repository_id for one in taken]
    assert len(set(repositories)) == len(repositories)
    assert not set(repositories) & {one.repository_id for one in under_way}
    for one in taken:
        at_the_host = sum(other.host == one.host for other in [*taken, *under_way])
        assert at_the_host <= per_host
    assert not taken or len(taken) + len(under_way) <= overall

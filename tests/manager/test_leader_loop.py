"""What the leader does for jobs whose worker is lost."""

from typing import Any

import pytest

from manager import queue
from manager.leader import loop
from oai.sections import ManagerSettings


def test_the_jobs_of_lost_workers_are_settled_but_not_those_of_the_leader_itself(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    done: list[tuple[str, int]] = []
    monkeypatch.setattr(queue, "stalled", lambda *_, **__: {71: 1, 72: 2, 73: 3})
    monkeypatch.setattr(loop, "end_silent", lambda *_, **__: False)
    monkeypatch.setattr(loop, "settle_lost", lambda _, job_id, __: done.append(("settled", job_id)))
    monkeypatch.setattr(queue, "forget_lost", lambda _, number: done.append(("forgotten", number)))
    session: Any = None
    loop._settle_stalled(session, ManagerSettings(), frozenset({2}))  # noqa: SLF001 one duty of many
    assert done == [("settled", 1), ("forgotten", 71), ("settled", 3), ("forgotten", 73)]

"""A provider process reads lists from two replicas while the primary indexes, is killed, and is replaced."""

import json
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from oai.settings import Settings
from tests.provider.holdings.replicated import replicated
from tests.provider.served import Serve, until
from tests.provider.workload import Workload


@pytest.mark.slow
@pytest.mark.parametrize("seconds", [2, pytest.param(600, marks=pytest.mark.long)])
def test_harvests_from_replicas_miss_nothing_during_a_failover(
    quick_folder: Path, tmp_path: Path, environment: dict[str, str], serve: Serve, seconds: float
) -> None:
    with (
        replicated(quick_folder, copies=2) as servers,
        ThreadPoolExecutor(2) as pool,
    ):
        servers.wait_for_all()
        environment |= {
            "ZATVA_DATABASE_URL": servers.address,
            "ZATVA_PROVIDER__REPLICA_URLS": json.dumps([copy.address for copy in servers.copies]),
            "ZATVA_PROVIDER__RECORDS_PER_ANSWER": "50",
        }
        workload = Workload([serve().address()])
        settings = Settings(database_url=environment["ZATVA_DATABASE_URL"])
        begun = time.monotonic()
        try:
            running = [
                pool.submit(workload.keep_indexing, settings, tmp_path), pool.submit(workload.keep_harvesting)
            ]  # fmt: skip
            time.sleep(seconds / 2)
            servers.kill_primary()
            servers.fail_over()
            known, since = len(workload.indexed), workload.since
            until(lambda: len(workload.indexed) > known and workload.since > since)
            time.sleep(seconds / 2)
        finally:
            workload.over.set()
        for one in running:
            one.result()
        pages, took = len(workload.behind), time.monotonic() - begun
        until(workload.has_everything)
    behind = sorted(workload.behind)
    # The figures are the result of the run.
    print(  # noqa: T201
        f"{pages} pages in {took:.0f} s, {len(workload.indexed)} documents, "
        f"{workload.unanswered} answers 503; the mark was behind by {behind[len(behind) // 2]:.1f} s "
        f"(median), {behind[-1]:.1f} s (most)"
    )

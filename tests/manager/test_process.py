"""Processes that a worker starts."""

import sys

from manager.worker.process import HarvestProcess

PROGRAM = "import sys; sys.stderr.write('first\\n' + 4000 * 'x' + '\\nlast'); sys.exit(3)"


async def test_the_end_of_what_a_process_writes_is_kept() -> None:
    process = await HarvestProcess.start([sys.executable, "-c", PROGRAM], {})
    outcome = await process.wait()
    assert outcome.exit_code == 3
    assert outcome.said == 3995 * "x" + "\nlast"

"""Measures what sickle and oaipmh-scythe do in each scenario; prints the table of hostile-repositories.md.

    python -m tests.harvester.hostile.compare PYTHON [--limit SECONDS] [--only NAME]

PYTHON is the interpreter of an environment with both packages; they are used with their defaults.
"""

import argparse
import asyncio
import contextlib
import json
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from harvester.vocabulary import Verdict
from oai.errors import ExitCode
from tests.harvester.hostile.running import truth_of
from tests.harvester.hostile.scenario import Scenario, Truth
from tests.harvester.hostile.scenarios import KINDS
from tests.harvester.hostile.server import served

CLIENTS = ("sickle", "scythe")
_HEAD = (
    "| Scenario | What is wrong | sickle | oaipmh-scythe | Zatva, loose | Zatva, strict |",
    "|---|---|---|---|---|---|",
)
_LINE_LIMIT = 2**26


def row(scenario: Scenario, measured: Sequence[str]) -> str:
    """Return the scenario's row of the table."""
    total = len({item.identifier for item in scenario.make().items})
    ours = [_ours(truth, total) for truth in (scenario.loose, scenario.strict)]
    return (
        "| " + " | ".join([f"`{scenario.name}`", scenario.about.replace("|", "\\|"), *measured, *ours]) + " |"
    )


def _ours(truth: Truth, total: int) -> str:
    code = "" if truth.exit_code is ExitCode.DONE else f", exit {truth.exit_code.value}"
    deleted = f" and {truth.deleted} deletion" if truth.deleted else ""
    return f"{truth.records:,} of {total:,}{deleted}, {truth.verdict}{code}"


async def measure(scenario: Scenario, client: str, python: str, limit: float) -> str:
    """Describe what the client returns."""
    script = Path(__file__).with_name("foreign_client.py")
    since = [scenario.parameters["harvest_from"]] if "harvest_from" in scenario.parameters else []
    async with served(scenario.make()) as hostile:
        process = await asyncio.create_subprocess_exec(
            python, str(script), client, hostile.url, *since,
            stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.DEVNULL, limit=_LINE_LIMIT,
        )  # fmt: skip
        lines: list[dict[str, Any]] = []
        ended = "hangs"
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(limit):
                await _read(process, lines)
                ended = ""
        if process.returncode is None:
            process.kill()
        await process.wait()
    errors = [line["error"] for line in lines if "error" in line]
    ended = ended or (errors[0] if errors else "" if process.returncode == 0 else "crashes")
    truth = {item.identifier: truth_of(item).decode() for item in hostile.items if not item.deleted}
    return _in_words([line for line in lines if "error" not in line], truth, scenario, ended)


async def _read(process: asyncio.subprocess.Process, lines: list[dict[str, Any]]) -> None:
    assert process.stdout is not None
    async for line in process.stdout:
        lines += [json.loads(line)]  # one by one, because the limit may end any line
    await process.wait()


def _in_words(
    lines: Sequence[Mapping[str, Any]], truth: Mapping[str, str], scenario: Scenario, ended: str
) -> str:
    """Describe how many records were complete or wrong, how it ended, and whether that was reported."""
    living = {line["identifier"]: line["metadata"] for line in lines if not line["deleted"]}
    right = sum(truth.get(name) == metadata for name, metadata in living.items())
    words = [f"{right:,}"]
    if len(living) > right:
        words.append(f"{len(living) - right:,} wrong")
    if ended:
        words.append("hangs" if ended == "hangs" else f"`{ended}`")
    elif right < scenario.loose.records or (right < len(truth) and scenario.loose.verdict is Verdict.FAILED):
        words.append("silently")
    return ", ".join(words)


async def main() -> None:
    """Measure and print the results."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("python", help="interpreter of the environment with sickle and oaipmh-scythe")
    parser.add_argument(
        "--limit", type=float, default=10, help="seconds after which a client counts as hanging"
    )
    parser.add_argument("--only", default="", help="scenarios whose name holds this")
    arguments = parser.parse_args()
    for kind, scenarios in KINDS.items():
        chosen = [scenario for scenario in scenarios if arguments.only in scenario.name]
        if chosen:
            _print("", f"## {kind}", "", *_HEAD)
        for scenario in chosen:
            measured = await asyncio.gather(
                *(measure(scenario, client, arguments.python, arguments.limit) for client in CLIENTS)
            )
            _print(row(scenario, measured))


def _print(*lines: str) -> None:
    sys.stdout.write("\n".join(lines) + "\n")
    sys.stdout.flush()


if __name__ == "__main__":
    asyncio.run(main())
